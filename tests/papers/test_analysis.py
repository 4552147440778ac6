"""What learning changed: angles, assignments, displacements."""

from __future__ import annotations

import json
import math

import pytest
import torch

from helpers.learning import EVERYTHING, open_pair, run
from onebasin import families
from onebasin.ensemble.ensemble import Ensemble
from onebasin.maps import Monomial
from onebasin.match.many import as_they_are
from onebasin.papers import analysis
from onebasin.papers.analysis import analyse, corrected, eigen_angles


def test_analysis_tells_what_moved(root):
    name = "GPT2LMHeadModel"
    paper = {**EVERYTHING["paper"], "assign_every": 2, "law": "half"}
    start = as_they_are(Ensemble.of(open_pair(root, name)))
    learned = run(root, name, None, steps=40, lr=0.05, **{**EVERYTHING, "paper": paper})
    report = analyse(start, learned)
    angles = report["residual"]["eigen_angles"]
    assert 0 <= angles["least"] <= angles["median"] <= angles["largest"] <= math.pi
    assert report["residual"]["displacement"] == learned.moves[1].correction["residual"].distance()
    assert report["layers.0.qk"]["log_singular_values"]["largest"] > 0
    for space, about in report.items():
        if "assignments_changed" in about:
            assert about["assignments_changed"].split()[0] != "0", space
    assert json.loads(json.dumps(report)) == report


def test_what_is_analysed_comes_after_the_start(root):
    """From a start that has moved, the report is that of the rest of the way."""
    name = "LlamaForCausalLM"
    first = run(root, name, None, steps=4, eval_every=2, lr=0.05)
    report, all_of_it = analyse(first, first), analyse(as_they_are(first.ensemble), first)
    assert report == {}
    assert all_of_it["residual"]["displacement"] == first.alignment["residual"].distance() > 0.01
    rest = corrected(first, first)["residual"].dense()
    torch.testing.assert_close(rest, torch.eye(len(rest), dtype=rest.dtype), rtol=0, atol=1e-12)


def test_eigen_angles_of_a_known_rotation():
    turn = torch.block_diag(
        *(torch.tensor([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]) for t in (0.1, 2.0))
    )
    torch.testing.assert_close(eigen_angles(turn).sort().values, torch.tensor([0.1, 0.1, 2.0, 2.0]))


def test_gains_and_scales_are_told_by_how_far_they_are_from_one():
    """The spread is that of logarithms: as far from one on either side, by a factor of e, is one."""
    factor = torch.tensor([math.e, 1 / math.e, math.e, 1 / math.e], dtype=torch.float64)
    found = analysis._about_gain(factor)
    assert found["log_scale_spread"] == pytest.approx(1)
    assert found["displacement"] == pytest.approx(math.sqrt(2 * (math.e - 1) ** 2 + 2 * (1 - 1 / math.e) ** 2))
    index = torch.tensor([1, 0, 2, 3])
    about = analysis._about(Monomial(index, -factor))
    assert about["family"] == families.MONOMIAL.name
    assert about["assignments_changed"] == "2 of 4"
    assert about["log_scale_spread"] == pytest.approx(1)


def test_a_summary_has_the_quarters():
    found = analysis._summary(torch.arange(9.0).view(3, 3).flip(0))
    assert found == {"least": 0, "quarter": 2, "median": 4, "three_quarters": 6, "largest": 8}

"""What learning changed: angles, assignments, displacements."""

from __future__ import annotations

import json
import math

import torch

from helpers.learning import EVERYTHING, open_pair, run
from onebasin.ensemble.ensemble import Ensemble
from onebasin.match.many import as_they_are
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

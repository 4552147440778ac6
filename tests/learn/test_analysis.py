"""What learning changed: angles, assignments, displacements."""

from __future__ import annotations

import json
import math

import torch

from helpers.learning import (
    EVERYTHING,
    run,
)
from onebasin.learn import analyse
from onebasin.learn.analysis import eigen_angles


def test_analysis_tells_what_moved(root):
    name = "GPT2LMHeadModel"
    learned = run(root, name, None, steps=40, lr=0.05, assign_every=2, law="half", **EVERYTHING)
    report = analyse(learned)
    angles = report["residual"]["eigen_angles"]
    assert 0 <= angles["least"] <= angles["median"] <= angles["largest"] <= math.pi
    assert report["residual"]["displacement"] == learned.correction["residual"].distance()
    assert report["layers.0.qk"]["log_singular_values"]["largest"] > 0
    for space, about in report.items():
        if "assignments_changed" in about:
            assert about["assignments_changed"].split()[0] != "0", space
    assert json.loads(json.dumps(report)) == report


def test_eigen_angles_of_a_known_rotation():
    turn = torch.block_diag(
        *(torch.tensor([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]) for t in (0.1, 2.0))
    )
    torch.testing.assert_close(eigen_angles(turn).sort().values, torch.tensor([0.1, 0.1, 2.0, 2.0]))

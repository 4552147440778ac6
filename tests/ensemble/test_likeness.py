"""What layers say together of two models: the bounds of each verdict, and which numbers have a direction."""

from __future__ import annotations

import pytest
import torch

from onebasin.ensemble import likeness as module
from onebasin.ensemble.inspection import STRANGER
from onebasin.ensemble.likeness import NEAR, LayerLikeness, Likeness, _sampled, cosine
from onebasin.errors import BadCheckpoint


def of(*stored: float) -> Likeness:
    layers = tuple(LayerLikeness(f"h.{i}", f"h.{i}", x, {"w": x}) for i, x in enumerate(stored))
    return Likeness(layers, {}, equal_depth=True)


@pytest.mark.parametrize(
    ("stored", "verdict"),
    [
        ([], "not comparable"),
        ([NEAR], "one basin"),
        ([NEAR - 1e-9], "between"),
        ([STRANGER], "between"),
        ([STRANGER - 1e-9], "independent"),
        ([0.0] + [1.0] * 9, "one basin"),  # one layer in ten may differ
        ([0.0] + [1.0] * 8, "between"),
        ([0.0, 0.0] + [1.0] * 18, "one basin"),
        ([0.0, 0.0] + [1.0] * 8, "between"),
        ([0.0] * 9 + [1.0], "independent"),
        ([0.0] * 8 + [1.0], "between"),
    ],
)
def test_the_verdict_is_that_of_nine_layers_in_ten(stored, verdict):
    assert of(*stored).verdict == verdict
    assert of(*stored[::-1]).verdict == verdict


def test_the_cosine_is_the_median_of_all_matrices():
    found = Likeness((LayerLikeness("a", "a", 0.5, {"x": 0.1, "y": 0.5, "z": 0.9}),), {"out": -1.0}, equal_depth=True)
    assert found.cosine == 0.5
    assert of().cosine is None
    matched = found.with_matched({"a": 0.75}, "a note")
    assert (matched.layers[0].matched, matched.note, matched.layers[0].stored) == (0.75, "a note", 0.5)
    assert matched.as_dict()["verdict"] == found.verdict


def test_the_cosine_of_two_tensors():
    x, y = torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])
    assert cosine(x, y, "w") == pytest.approx(24 / 25)
    assert cosine(x, -2 * x, "w") == pytest.approx(-1)
    assert cosine(x, 0 * y, "w") is None
    for broken in (float("nan"), float("inf")):
        with pytest.raises(BadCheckpoint, match="not finite") as caught:
            cosine(x, torch.tensor([1.0, broken]), "w")
        assert caught.value.tensor == "w"


def test_samples_of_a_matrix_are_spread_over_it(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 4)
    tensors = {"a": torch.arange(1.0, 13.0).reshape(3, 4), "b": torch.ones(3, 4)}
    monkeypatch.setattr(module, "_read", lambda model, key: tensors[key])
    rows = _sampled(None, {7: {"w": "b"}, 2: {"w": "a"}}, "w")
    torch.testing.assert_close(rows[0], torch.nn.functional.normalize(torch.tensor([1.0, 4.0, 7.0, 10.0]), dim=0))
    torch.testing.assert_close(rows[1], torch.full((4,), 0.5))

"""What layers say together of two models: the bounds of each verdict, and which numbers have a direction."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.folders import llama
from onebasin import Checkpoint
from onebasin.ensemble import likeness as module
from onebasin.ensemble.inspection import STRANGER
from onebasin.ensemble.likeness import NEAR, LayerLikeness, Likeness, _sampled, cosine, layer_cosines, likeness
from onebasin.errors import BadCheckpoint


def of(*stored: float) -> Likeness:
    layers = tuple(LayerLikeness(f"h.{i}", f"h.{i}", x, {"w": x}) for i, x in enumerate(stored))
    return Likeness(layers, {}, equal_depth=True)


@pytest.mark.parametrize(
    ("stored", "verdict"),
    [
        ([], "not comparable"),
        ([NEAR], "one basin"),
        ([NEAR - 1e-9], "common ancestor"),
        ([STRANGER], "common ancestor"),
        ([0.0] + [0.5] * 9, "common ancestor"),
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


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Checkpoint]:
    """A of three layers; B, layers 0 and 2 of it; C, drawn anew; D, drawn anew with two layers."""
    root = tmp_path_factory.mktemp("models")
    a = llama(root / "a", num_hidden_layers=3)
    for name, layers in (("c", 3), ("d", 2)):
        llama(root / name, weights=1, num_hidden_layers=layers)
    b = llama(root / "b", weights=2, num_hidden_layers=2)
    stored = {x.replace(".layers.2.", ".layers.1."): y for x, y in load_file(a / "model.safetensors").items()
              if ".layers.1." not in x}  # fmt: skip
    save_file(stored, b / "model.safetensors", metadata={"format": "pt"})
    return {name: Checkpoint.open(root / name) for name in "abcd"}


def test_layers_stand_beside_their_own_kind(models):
    a, b, c, d = models.values()
    itself, strangers = likeness(a, a), likeness(a, c)
    assert [(x.a, x.b) for x in itself.layers] == [(f"model.layers.{i}", f"model.layers.{i}") for i in range(3)]
    assert itself.equal_depth
    assert (itself.cosine, itself.verdict) == (pytest.approx(1), "one basin")
    assert set(itself.layers[0].tensors) == {
        *(f"self_attn.{x}_proj.weight" for x in "qkvo"), *(f"mlp.{x}_proj.weight" for x in ("gate", "up", "down")),
    }  # fmt: skip
    assert set(itself.outside) == {"model.embed_tokens.weight", "lm_head.weight"}
    assert all(abs(x.stored) < 0.3 for x in strangers.layers)
    for found, sides in ((likeness(a, b), "ab"), (likeness(b, a), "ba")):
        pairs = [tuple(getattr(x, side)[-1] for side in sides) for x in found.layers]
        assert (pairs, found.equal_depth, found.cosine) == ([("0", "0"), ("2", "1")], False, pytest.approx(1))
    spread = [(x.a[-1], x.b[-1]) for x in likeness(a, d).layers]
    assert spread == [("0", "0"), ("2", "1")]
    assert likeness(a.store, b.store).cosine == pytest.approx(1)  # no table is needed


def test_layers_of_two_forms(models):
    a, _, c, _ = models.values()
    assert layer_cosines(a, a) == {f"model.layers.{i}": pytest.approx(1) for i in range(3)}
    assert all(abs(x) < 0.3 for x in layer_cosines(a, c).values())


def test_outside_of_layers_what_both_have_is_compared(tmp_path):
    """The tied model has no head of its own in its file."""
    own, tied = (Checkpoint.open(llama(tmp_path / x, tie_word_embeddings=x == "tied")).store for x in ("own", "tied"))
    for a, b in ((own, tied), (tied, own)):
        assert likeness(a, b).outside.keys() == {"model.embed_tokens.weight"}

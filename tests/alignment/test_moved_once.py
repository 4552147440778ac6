"""Writing a model that has moved, in another's gauge: no weight is moved once more for its own bias."""

from __future__ import annotations

from collections import Counter

import pytest

from helpers.pairs import open_random
from onebasin import Alignment, canonicalize, in_gauge_of, transport
from onebasin.alignment import apply
from onebasin.checkpoint.recent import Recent


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "vit"])
def test_every_weight_is_moved_once(tmp_path, monkeypatch, model_type):
    a, b = (open_random(tmp_path / str(i), model_type, 1, i) for i in (0, 1))
    form = canonicalize(b).checkpoint
    alignment = Alignment.random(form.spec, 3)
    moved, usual = Counter(), apply.move
    monkeypatch.setattr(apply, "move", lambda spec, leaf, *more: moved.update([leaf.name]) or usual(spec, leaf, *more))

    def write(name: str) -> tuple[bytes, int]:
        """The file, and how often a weight was moved at most."""
        moved.clear()
        in_gauge_of(a, transport(form, alignment)).save(tmp_path / name)
        biased = [x.weight for x in form.spec.linears.values() if x.bias is not None]
        return (tmp_path / name / "model.safetensors").read_bytes(), max(moved[weight] for weight in biased)

    file, most = write("kept")
    assert most == 1
    monkeypatch.setattr(apply, "RECENT", Recent(most=0))
    assert write("made anew") == (file, 2)

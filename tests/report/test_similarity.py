"""How alike layers and heads are: a moved copy of a model is found to be the model, a stranger is not."""

from __future__ import annotations

import json

import pytest

from helpers.random_models import byte_llama
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.report import similarity

SIZES = {"num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 24, "head_dim": 4}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("alike")
    a, stranger = (byte_llama(root / name, seed, **SIZES) for name, seed in (("a", 0), ("stranger", 1)))
    form = canonicalize(Checkpoint.open(a)).checkpoint
    transport(form, Alignment.random(form.spec, 3)).save(root / "copy", dtype="float32")
    return {"a": a, "copy": root / "copy", "stranger": stranger}


def aligned(cli, folders, other, out):
    assert cli("align", folders["a"], folders[other], "-o", out, "--method", "weight")[0] == 0
    return json.loads((out / "certificate.json").read_text())


def chosen(found) -> list[float]:
    return [found["head_scores"][s][i][j] for s, places in found["heads"].items() for i, j in enumerate(places)]


def test_a_moved_copy_is_the_same(cli, folders, tmp_path):
    found = aligned(cli, folders, "copy", tmp_path / "out")
    assert found["heads"].keys() == found["head_scores"].keys()
    assert {name.rpartition(".")[2] for name in found["heads"]} == {"kv_heads", "queries"}
    assert any(places != sorted(places) for places in found["heads"].values())
    assert min(chosen(found)) > 0.999
    for before, after in found["layers"].values():
        assert abs(before) < 0.5
        assert after > 0.999
    others = [x for rows in found["head_scores"].values() for row in rows for x in sorted(row)[:-1]]
    assert max(others) < 0.9


def test_a_stranger_is_not(cli, folders, tmp_path):
    found = aligned(cli, folders, "stranger", tmp_path / "out")
    assert max(chosen(found)) < 0.9
    assert all(before < after < 0.9 for before, after in found["layers"].values())


def test_large_models_are_not_compared(cli, folders, tmp_path, monkeypatch):
    monkeypatch.setattr(similarity, "LARGEST", 10)
    found = aligned(cli, folders, "copy", tmp_path / "out")
    assert {"layers", "head_scores"} & found.keys() == set()
    text = (tmp_path / "out" / "report.html").read_text()
    assert "Similarity by layer" not in text
    assert 'id="heads"' in text

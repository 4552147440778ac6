"""A merge whose tensors have shares of their own."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

import onebasin
from helpers.folders import certificate, same
from onebasin import Checkpoint
from onebasin.errors import BadRecipe

LEARN = ("--task", "synthetic", "--samples", "20", "--length", "6", "--steps", "3", "--set", "learned.batch=4", "--set",
         "learned.eval_every=1", "--learn", "residual,qk,ov,shares", "--device", "cpu", "--dtype", "float64", "--set",
         "learned.lr=0.05", "--quiet")  # fmt: skip


@pytest.mark.parametrize("method", ["learned", "auto"])
def test_a_merge_writes_them_and_its_recipe_makes_them_again(cli, models, tmp_path, method):
    code, _, err = cli("merge", *models[:2], "-o", tmp_path / "one", "--method", method, "--share", "0.4", *LEARN)
    assert code == 0, err
    assert cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "two")[0] == 0
    assert same(tmp_path / "one", tmp_path / "two")
    merged = Checkpoint.open(tmp_path / "one")
    paces = certificate(tmp_path / "one")["learning"]["paces"]
    assert (paces[0], set(paces[1])) == ({}, set(merged.spec.keys))
    vectors = load_file(tmp_path / "one" / "paces.safetensors")
    sizes = {name: len(x) for name, x in vectors.items()}
    assert sizes == {f"1/{key}/{i}": n for key, shape in merged.spec.keys.items() for i, n in enumerate(shape)}
    code, _, err = cli("align", *models[:2], "-o", tmp_path / "three", "--method", method, *LEARN)
    assert (code, "align writes no average" in err) == (2, True)
    assert not (tmp_path / "three").exists()


def test_from_python_they_belong_to_the_average_alone(models, tmp_path):
    ends, options = models[:2], {"steps": 2, "batch": 4, "eval_every": 1, "learn": ["shares"], "lr": 0.05}
    data = {"task": "synthetic", "samples": 20, "length": 6, "device": "cpu"}
    pair = onebasin.align(*ends, method="learned", learned=options, **data)
    merged = onebasin.merge(ends, method="learned", learned=options, **data)
    assert all(merged[leaf].equal(pair.merged()[leaf]) for leaf in merged)
    a, b = pair.models
    assert not all(((a[leaf] + b[leaf]) / 2).allclose(merged[leaf]) for leaf in merged)  # the control
    with pytest.raises(BadRecipe, match="align writes no average"):
        pair.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()

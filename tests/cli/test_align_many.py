"""Aligning more than two models."""

from __future__ import annotations

import torch
import yaml

from helpers.folders import certificate
from helpers.random_models import byte_llama
from helpers.short import FEW, QUICK
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model


def test_align_writes_every_model_in_the_gauge_of_the_first(cli, models, tmp_path):
    code, out, err = cli("align", *models[:3], "-o", tmp_path / "out", "--dtype", "float64", "--mergekit", *QUICK)
    assert (code, err) == (0, "")
    assert "spread around the mean" in out
    assert sorted(x.name for x in (tmp_path / "out").iterdir() if x.is_dir()) == ["b", "c", "universe"]
    inputs = {"input_ids": torch.arange(12)[None]}
    for folder, original in zip("bc", models[1:], strict=False):
        x, y = (stock_model(Checkpoint.open(f))(**inputs).logits for f in (tmp_path / "out" / folder, original))
        assert (x - y).abs().max() < 1e-9
    written = yaml.safe_load((tmp_path / "out" / "mergekit.yaml").read_text())
    expected = [str(models[0]), str(tmp_path / "out" / "b"), str(tmp_path / "out" / "c")]
    assert [entry["model"] for entry in written["models"]] == expected


def test_align_writes_all_in_canonical_form_where_the_first_is_tied(cli, tmp_path):
    tied = [byte_llama(tmp_path / f"{i}", i, tie_word_embeddings=True) for i in range(3)]
    assert cli("align", *tied, "-o", tmp_path / "out", *QUICK)[0] == 0
    assert sorted(x.name for x in (tmp_path / "out").iterdir() if x.is_dir()) == ["a", "b", "c", "universe"]
    assert certificate(tmp_path / "out")["gauge"].startswith("canonical")


def test_align_by_activations(cli, models, tmp_path):
    few = ("--method", "activation", *FEW)
    code, _, err = cli("align", *models[:3], "-o", tmp_path / "out", *few, "--set", "universe.rounds=2")
    assert (code, err) == (0, "")
    found = certificate(tmp_path / "out")
    assert all(own["output_drift"]["float64"] < 1e-9 for own in found["aligned"])
    assert found["inputs"]["samples"] == 4

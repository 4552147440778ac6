"""`onebasin barrier --task synthetic` on every class that there is: a figure for each, and it means something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.classes import any_of_each_type
from helpers.random_models import random_folder

FEW = ("--task", "synthetic", "--samples", "6", "--points", "3", "--json")


@any_of_each_type()
def test_every_class_is_measured(cli, tmp_path: Path, model_type: str, name: str) -> None:
    a, b = (random_folder(tmp_path / x, model_type, name, 3, i) for i, x in enumerate("ab"))
    length = () if model_type == "vit" else ("--length", "5")
    code, out, err = cli("barrier", a, b, *FEW, *length)
    if "no task has both" in err:
        assert (code, name) == (2, "CLIPModel")
        return
    assert code == 0, err
    found = json.loads(out)
    ends = list(found["ends"].values())
    if name.endswith(("CausalLM", "LMHeadModel")):  # such a model writes its inputs, and these are its labels
        assert ends[0]["loss"] != ends[1]["loss"]
        assert "perplexity" in ends[0]["metrics"]
        return
    assert found["barrier"]["loss"] > 1e-4  # random models do not agree
    assert [end["loss"] for end in ends] == pytest.approx([0, 0], abs=1e-5)  # but each does with itself
    assert [end["metrics"] for end in ends] == [{"agreement": 1}] * 2


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "BertForTokenClassification"])
def test_a_model_has_no_barrier_to_itself(cli, tmp_path: Path, name: str) -> None:
    a = random_folder(tmp_path / "a", "bert", name, 3)
    found = json.loads(cli("barrier", a, a, *FEW, "--length", "5")[1])
    assert found["barrier"]["loss"] < 1e-5

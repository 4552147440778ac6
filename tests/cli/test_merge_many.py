"""Merging more than two models: shares, universes that grow, what is written."""

from __future__ import annotations

import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from helpers.folders import certificate, same
from onebasin import Checkpoint
from onebasin.ensemble.ensemble import Ensemble
from onebasin.match import weights as matching
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight
from onebasin.paths import FactorPath


def test_merge_writes_the_weighted_average_of_all(models, three):
    ensemble = Ensemble.of([Checkpoint.open(folder) for folder in models[:3]])
    aligned = Weight().run(ensemble, None, Job(torch.device("cpu")))
    expected = FactorPath(*aligned.models).at([0.5, 0.25, 0.25])
    found = Checkpoint.open(three)
    assert max(float((found[name] - expected[name]).abs().max()) for name in expected) < 1e-12
    model, info = AutoModelForCausalLM.from_pretrained(three, output_loading_info=True)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))


def test_every_aligned_model_has_its_certificate(three):
    found = certificate(three)
    assert found["shares"] == [0.5, 0.25, 0.25]
    assert found["gauge"] == "the reference's"
    assert [own["model"] for own in found["aligned"]] == ["x", "y"]
    assert all(own["output_drift"]["float64"] < 1e-9 for own in found["aligned"])
    assert all(own["distance_after"] < own["distance_before"] for own in found["aligned"])
    universe = found["universe"]
    assert universe["alignments_made"] % 2 == 0
    assert len(universe["objective"]) == universe["rounds"] + 1


def test_the_card_lists_all_models(three):
    text = (three / "README.md").read_text()
    assert yaml.safe_load(text.split("---")[1])["base_model"] == ["w", "x", "y"]
    assert "0.5 of w, 0.25 of x and 0.25 of y" in text


def test_the_recipe_makes_it_again(cli, three, tmp_path):
    written = yaml.safe_load((three / "recipe.yaml").read_text())
    assert written["shares"] == [2, 1, 1]
    assert set(written["universe"]) == {"rounds", "tol"}
    assert cli("run", three / "recipe.yaml", "-o", tmp_path / "again")[0] == 0
    assert same(three, tmp_path / "again")
    assert cli("run", three / "recipe.yaml", "-o", tmp_path / "other", "--set", "shares=[1, 1, 1]")[0] == 0
    assert not same(three, tmp_path / "other")


def test_adding_a_fourth_costs_one_alignment(cli, models, three, tmp_path, monkeypatch):
    asked = []

    def counted(*arguments, **options):
        asked.append(arguments)
        return match(*arguments, **options)

    match = matching.match_weights
    monkeypatch.setattr(matching, "match_weights", counted)
    code, out, err = cli("merge", *models, "--universe", three, "-o", tmp_path / "four", "--dtype", "float64")
    assert (code, err) == (0, "")
    assert len(asked) == 1
    assert "alignments of two models made: 1" in out
    found = certificate(tmp_path / "four")
    assert found["universe"]["alignments_made"] == 1
    assert found["shares"] == [0.25] * 4
    assert all(own["output_drift"]["float64"] < 1e-9 for own in found["aligned"])
    assert len(list((tmp_path / "four" / "universe").iterdir())) == 5
    one, two = (folder / "universe" / "2" / "alignment.safetensors" for folder in (three, tmp_path / "four"))
    one, two = load_file(one), load_file(two)
    assert all(torch.allclose(one[name], two[name], atol=1e-12, rtol=0) for name in one)  # the others stay
    assert cli("run", tmp_path / "four" / "recipe.yaml", "-o", tmp_path / "again")[0] == 0
    assert same(tmp_path / "four", tmp_path / "again")
    asked.clear()
    shuffled = (models[3], models[1], models[0])  # a new one first
    assert cli("merge", *shuffled, "--universe", three, "-o", tmp_path / "shuffled", "--dtype", "float64")[0] == 0
    assert len(asked) == 1
    assert all(own["output_drift"]["float64"] < 1e-9 for own in certificate(tmp_path / "shuffled")["aligned"])


def test_members_of_a_universe_need_no_alignment(cli, models, three, tmp_path):
    code, out, _ = cli("merge", models[2], models[1], "--universe", three, "-o", tmp_path / "out")
    assert code == 0
    assert "alignments of two models made: 0" in out
    assert certificate(tmp_path / "out")["output_drift"]["float64"] < 1e-9


def test_two_shares_say_the_same_as_one(cli, models, tmp_path):
    for name, flags in {"one": ("--share", "0.25"), "two": ("--shares", "3,1"), "other": ()}.items():
        assert cli("merge", *models[:2], "-o", tmp_path / name, "--method", "weight", *flags)[0] == 0
    assert same(tmp_path / "one", tmp_path / "two")
    assert not same(tmp_path / "one", tmp_path / "other")

"""More than two models on the command line: merge, align, barrier, and a universe that grows."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import yaml
from random_models import byte_llama
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from onebasin import Checkpoint
from onebasin.errors import BadOutput
from onebasin.inspection import describe
from onebasin.landscape import Simplex
from onebasin.recipes import methods, running
from onebasin.stock import stock_model
from onebasin.universe import load_universe, match_universe

QUICK = ("--set", "matching.sweeps=3", "--set", "universe.rounds=2", "--device", "cpu")
FEW = ("--task", "builtin:python", "--samples", "4", "--length", "8", "--device", "cpu")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    return [byte_llama(root / name, i) for i, name in enumerate("wxyz")]


def certificate(folder: Path) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, two: Path) -> bool:
    x, y = tensors(one), tensors(two)
    return x.keys() == y.keys() and all(x[name].equal(y[name]) for name in x)


# ---- merge


@pytest.fixture(scope="module")
def three(models, tmp_path_factory) -> Path:
    from onebasin.cli import main

    out = tmp_path_factory.mktemp("three") / "out"
    with pytest.raises(SystemExit) as done:
        main(["merge", *map(str, models[:3]), "-o", str(out), "--weights", "2,1,1", "--dtype", "float64", "--quiet",
              "--method", "weight"])  # fmt: skip
    assert not done.value.code
    return out


def test_merge_writes_the_weighted_average_of_all(models, three):
    pairs = match_universe([Checkpoint.open(folder) for folder in models[:3]]).aligned()
    expected = Simplex([pairs[0].a, *(pair.b for pair in pairs)]).at([0.5, 0.25, 0.25])
    found = Checkpoint.open(three)
    assert max(float((found[name] - expected[name]).abs().max()) for name in expected) < 1e-12
    model, info = AutoModelForCausalLM.from_pretrained(three, output_loading_info=True)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))


def test_every_aligned_model_has_its_certificate(three):
    found = certificate(three)
    assert found["weights"] == [0.5, 0.25, 0.25]
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
    assert written["weights"] == [2, 1, 1]
    assert set(written["universe"]) == {"rounds", "tol"}
    assert cli("run", three / "recipe.yaml", "-o", tmp_path / "again")[0] == 0
    assert same(three, tmp_path / "again")
    assert cli("run", three / "recipe.yaml", "-o", tmp_path / "other", "--set", "weights=[1, 1, 1]")[0] == 0
    assert not same(three, tmp_path / "other")


def test_adding_a_fourth_costs_one_alignment(cli, models, three, tmp_path, monkeypatch):
    asked = []

    def counted(*arguments, **options):
        asked.append(arguments)
        return match(*arguments, **options)

    match = methods.match_forms
    monkeypatch.setattr(methods, "match_forms", counted)
    code, out, err = cli("merge", *models, "--universe", three, "-o", tmp_path / "four", "--dtype", "float64")
    assert (code, err) == (0, "")
    assert len(asked) == 1
    assert "alignments of two models made: 1" in out
    found = certificate(tmp_path / "four")
    assert found["universe"]["alignments_made"] == 1
    assert found["weights"] == [0.25] * 4
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


def test_two_weights_say_the_same_as_one(cli, models, tmp_path):
    for name, flags in {"one": ("--weight", "0.25"), "two": ("--weights", "3,1"), "other": ()}.items():
        assert cli("merge", *models[:2], "-o", tmp_path / name, "--method", "weight", *flags)[0] == 0
    assert same(tmp_path / "one", tmp_path / "two")
    assert not same(tmp_path / "one", tmp_path / "other")


# ---- align


def test_align_writes_every_model_in_the_gauge_of_the_first(cli, models, tmp_path):
    code, out, err = cli("align", *models[:3], "-o", tmp_path / "out", "--dtype", "float64", "--mergekit", *QUICK)
    assert (code, err) == (0, "")
    assert "distance from the mean" in out
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


# ---- learning among three

LEARN = ("--task", "synthetic", "--samples", "20", "--length", "6", "--steps", "2", "--set", "learn.batch=4",
         "--set", "learn.eval_every=1", "--device", "cpu", "--dtype", "float64", "--quiet")  # fmt: skip
ONCE = ("--set", "universe.rounds=1")


@pytest.mark.parametrize("method", ["learned", "dual", "soft", "auto"])
def test_three_models_learn_together(cli, models, tmp_path, method):
    code, out, err = cli("align", *models[:3], "-o", tmp_path / "out", "--method", method, *LEARN, *ONCE)
    assert code == 0, err
    assert "centre" in out
    found = certificate(tmp_path / "out")
    exact = method != "soft"
    assert [own["model"] for own in found["aligned"]] == ["x", "y"]
    assert all((own["output_drift"]["float64"] < 1e-9) == exact for own in found["aligned"])
    learning = found["learning"]
    assert learning["options"]["law"] == "dirichlet"
    assert learning["function_kept"] == exact
    assert len(learning["history"]) == 3
    assert len(learning["stream_scale"]) == 2
    assert found["gauge"] == "the reference's"
    assert not (tmp_path / "out.state").exists()
    universe, others = load_universe(tmp_path / "out", [Checkpoint.open(folder) for folder in models[:3]])
    assert others == []
    assert max(max(g.displacement().values()) for g in universe.alignments[1:]) > 0.1


def test_a_merge_learns_again_and_goes_on(cli, models, tmp_path, monkeypatch):
    """The recipe gives the same bits; so does a run that was interrupted, by --resume."""
    arguments = ("merge", *models[:3], "--method", "dual", "--start", "weight", *LEARN, *ONCE, "-o")
    assert cli(*arguments, tmp_path / "one")[0] == 0
    assert cli("run", tmp_path / "one" / "recipe.yaml", "-o", tmp_path / "two")[0] == 0
    assert same(tmp_path / "one", tmp_path / "two")

    def full(*_: object) -> None:
        raise BadOutput("No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(running, "write", full)
        assert cli(*arguments, tmp_path / "three")[0] != 0
    code, _, err = cli(*arguments, tmp_path / "three")
    assert (code, "--resume" in err) == (2, True)
    assert cli(*arguments, tmp_path / "three", "--resume")[0] == 0
    assert same(tmp_path / "one", tmp_path / "three")
    assert cli(*arguments, tmp_path / "other", "--set", "learn.seed=1")[0] == 0
    assert not same(tmp_path / "one", tmp_path / "other")  # the control


def test_learning_may_begin_with_a_universe_or_with_nothing(cli, models, three, tmp_path):
    begin = {"universe": ("--universe", three, "--start", "weight"), "nothing": ("--start", "identity")}
    for name, flags in begin.items():
        code, out, err = cli("merge", *models[:3], "-o", tmp_path / name, *flags, *LEARN)
        assert code == 0, err
        assert "alignments of two models made: 0" in out
        found = certificate(tmp_path / name)
        assert found["method"] == "learned"
        assert all(own["output_drift"]["float64"] < 1e-9 for own in found["aligned"])
    assert not same(tmp_path / "universe", tmp_path / "nothing")


# ---- models of unequal size


def test_three_sizes_become_one(cli, tmp_path):
    """B has the largest stream, C the largest FFN, so that no two of them have the size of all three."""
    sizes: tuple[dict[str, int], ...] = ({}, {"hidden_size": 36}, {"intermediate_size": 77})
    models = [byte_llama(tmp_path / str(i), i, **size) for i, size in enumerate(sizes)]
    code, out, err = cli("merge", *models, "-o", tmp_path / "out", *QUICK, "--dtype", "float64", "--json")
    assert code == 0
    assert "widened first, exactly" in err
    found = json.loads(out)
    assert all(own["output_drift"]["float64"] < 1e-9 for own in (found["reference"], *found["aligned"]))
    config = Checkpoint.open(tmp_path / "out").config
    assert (config["hidden_size"], config["intermediate_size"]) == (36, 77)
    assert cli("merge", *models[::-1], "-o", tmp_path / "turned", *QUICK)[0] == 0
    plan = json.loads(cli("merge", *models, "-o", tmp_path / "plan", *QUICK, "--dry-run", "--json")[1])
    one = describe(Checkpoint.open(tmp_path / "out"))["memory"]["align"]
    assert plan["memory"] == one > max(describe(Checkpoint.open(x))["memory"]["align"] for x in models)
    code, text, err = cli("barrier", *models, *FEW, "--points", "2", "--json", "--quiet")
    assert code == 0, err
    assert len(json.loads(text)["weights"]) == 7
    larger = byte_llama(tmp_path / "larger", 3, intermediate_size=99)
    flags = ("--universe", tmp_path / "out", "-o", tmp_path / "more")
    code, _, err = cli("merge", *models, byte_llama(tmp_path / "small", 4), *flags)
    assert code == 0, err
    code, _, err = cli("merge", *models, larger, "--universe", tmp_path / "out", "-o", tmp_path / "none")
    assert code == 2
    assert "The universe is too small" in err
    assert "FFN 77 -> 99" in err


# ---- barrier


def test_a_surface_with_its_picture(cli, models, tmp_path):
    code, out, err = cli("barrier", *models[:3], *FEW, "--points", "3", "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    found = json.loads((tmp_path / "out" / "barrier.json").read_text())
    assert found["models"] == ["w", "x", "y"]
    assert len(found["weights"]) == 7
    top = found["barrier"]
    place = " ".join(f"{x:.3g}" for x in top["weights"])
    assert f"barrier {top['loss']:.4f} ± {top['standard_error']:.4f} at λ = {place}" in out
    assert ElementTree.parse(tmp_path / "out" / "barrier.svg").getroot().tag.endswith("svg")
    code, again, _ = cli("run", tmp_path / "out" / "recipe.yaml", "--json")
    assert (code, json.loads(again)["points"]) == (0, found["points"])


def test_a_default_triangle_has_seven_points_on_a_side(cli, models):
    code, out, _ = cli("barrier", *models[:3], *FEW, "--dry-run", "--json")
    assert (code, json.loads(out)["points"]) == (0, 7)


def test_four_models_have_no_picture(cli, models, tmp_path):
    code, out, _ = cli("barrier", *models, *FEW, "--json", "-o", tmp_path / "out")
    assert code == 0
    assert len(json.loads(out)["weights"]) == 11
    assert sorted(x.name for x in (tmp_path / "out").iterdir()) == ["barrier.json", "recipe.yaml", "report.html"]


# ---- plans and refusals


def test_a_dry_run_names_all_models(cli, models, tmp_path):
    code, out, _ = cli("merge", *models[:3], "-o", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "merge w, x and y (LlamaForCausalLM)" in out
    plans = []
    for method in ("auto", "weight"):
        code, out, _ = cli("align", *models[:3], "-o", tmp_path / "out", "--method", method, "--dry-run", "--json")
        plans.append(json.loads(out))
        assert list(plans[-1]["writes"]) == ["b", "c"]
    assert plans[0]["memory"] > plans[1]["memory"]  # learning holds all models at once
    assert not list(tmp_path.iterdir())


LEARNED = ("--method", "learned", "--task", "builtin:python")
REFUSED = {
    "law": (("merge", 3, *LEARNED, "--set", "learn.law=half"), ["The law 'half' draws the share", "dirichlet"]),
    "universe at rest": (("align", 3, *LEARNED, "--start", "identity", "--set", "universe.rounds=2"), ["identity"]),
    "universe and auto": (("align", 3, "--method", "auto", "--universe", "x"), ["universe.folder is of no use"]),
    "weight of three": (("merge", 3, "--weight", "0.5"), ["weight is the share of B"]),
    "both": (("merge", 2, "--weight", "0.5", "--weights", "1,1"), ["weight is the share of B"]),
    "too few weights": (("merge", 3, "--weights", "0.5,0.5"), ["weights do not fit", "3 numbers"]),
    "negative weight": (("merge", 2, "--weights", "2,-1"), ["weights do not fit", "none below 0"]),
    "no weight at all": (("merge", 2, "--weights", "0,0"), ["not all 0"]),
    "words": (("merge", 2, "--weights", "half,half"), ["weights.0 has the wrong type", "a number"]),
    "one model": (("merge", 1), ["it takes two models or more", "found: "]),
    "universe of two": (("align", 2, "--set", "universe.rounds=3"), ["universe is of no use to two models"]),
    "rounds": (("align", 3, "--set", "universe.rounds=0"), ["universe.rounds is out of range"]),
    "no universe": (("merge", 3, "--universe", "nowhere"), ["universe.json"]),
    "circuit": (("barrier", 3, *FEW, "--path", "circuit"), ["one between two models"]),
    "points": (("barrier", 4, *FEW, "--points", "5"), ["points is of no use"]),
}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["real", "dry"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_and_nothing_written(cli, models, tmp_path, case, dry):
    (verb, count, *flags), says = REFUSED[case]
    code, out, err = cli(verb, *models[:count], "-o", tmp_path / "out", *flags, *dry)
    assert (code, out) == (2, "")
    assert [piece for piece in (*says, "next step:") if piece not in err] == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["merge", "align", "barrier"])
def test_the_model_that_does_not_fit_is_named(cli, models, tmp_path, verb):
    other = byte_llama(tmp_path / "other", 5, num_hidden_layers=2)
    flags = FEW if verb == "barrier" else ()
    code, _, err = cli(verb, *models[:2], other, "-o", tmp_path / "out", *flags)
    assert code == 2
    assert "found: 2 (C)" in err
    assert not (tmp_path / "out").exists()


def test_a_universe_of_other_models_is_refused(cli, models, three, tmp_path):
    others = [byte_llama(tmp_path / f"other-{i}", 10 + i) for i in range(2)]
    before = sorted(tmp_path.iterdir())
    code, _, err = cli("merge", models[0], *others, "--universe", three, "-o", tmp_path / "out")
    assert code == 2
    assert "knows too few of these models" in err
    assert "1 of 3" in err
    assert sorted(tmp_path.iterdir()) == before

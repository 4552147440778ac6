"""Plans and refusals for more than two models."""

from __future__ import annotations

import json

import pytest

from helpers.random_models import byte_llama
from helpers.short import FEW


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
    "law": (("merge", 3, *LEARNED, "--set", "learned.paper.law=half"), ["The law 'half' draws the share", "dirichlet"]),
    "universe at rest": (
        ("align", 3, *LEARNED, "--start", "identity", "--set", "universe.rounds=2"),
        ["universe is of no use to the method learned here", "begin with a match"],
    ),
    "universe and auto": (
        ("align", 3, "--method", "auto", "--universe", "x"),
        ["universe is of no use to the method auto"],
    ),
    "share of three": (("merge", 3, "--share", "0.5"), ["share is that of B"]),
    "both": (("merge", 2, "--share", "0.5", "--shares", "1,1"), ["share is that of B"]),
    "too few shares": (("merge", 3, "--shares", "0.5,0.5"), ["shares do not fit", "3 numbers"]),
    "negative share": (("merge", 2, "--shares", "2,-1"), ["shares.1 is out of range", "0 or more"]),
    "no share at all": (("merge", 2, "--shares", "0,0"), ["not all 0"]),
    "words": (("merge", 2, "--shares", "half,half"), ["shares.0 has the wrong type", "a number"]),
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

"""Learning among three models."""

from __future__ import annotations

import pytest

from helpers.folders import certificate, same
from onebasin import Checkpoint
from onebasin.ensemble.storage import load_universe
from onebasin.errors import BadOutput
from onebasin.recipes import running

LEARN = ("--task", "synthetic", "--samples", "20", "--length", "6", "--steps", "2", "--set", "learned.batch=4",
         "--set", "learned.eval_every=1", "--device", "cpu", "--dtype", "float64", "--quiet")  # fmt: skip
ONCE = ("--set", "universe.rounds=1")


@pytest.mark.parametrize("method", ["learned", "dual", "soft", "auto"])
def test_three_models_learn_together(cli, models, tmp_path, method):
    code, out, err = cli("align", *models[:3], "-o", tmp_path / "out", "--method", method, *LEARN, *ONCE)
    assert code == 0, err
    assert ("the lowest is kept: learning" if method == "auto" else "centre") in out
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
    alignments = load_universe(tmp_path / "out", [Checkpoint.open(folder) for folder in models[:3]])
    assert list(alignments) == [0, 1, 2]
    assert max(max(alignments[m].displacement().values()) for m in (1, 2)) > 0.1


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
    assert cli(*arguments, tmp_path / "other", "--set", "learned.seed=1")[0] == 0
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

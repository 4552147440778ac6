"""`--overwrite`: an earlier output of ours is replaced whole; nothing else is ever removed."""

from __future__ import annotations

import json
import shutil

import pytest

from helpers.folders import contents
from helpers.short import FEW
from onebasin.checkpoint import output, whole_folder
from onebasin.errors import BadOutput

QUICK = ("--method", "weight", "--set", "weight.sweeps=1", "--device", "cpu", "--quiet")


@pytest.fixture
def earlier(cli, models, tmp_path):
    """An output of a merge, with a file that the next one does not have."""
    out = tmp_path / "out"
    assert cli("merge", *models[:2], "-o", out, *QUICK)[0] == 0
    (out / "stale.txt").write_text("old")
    return out


def test_an_earlier_output_is_replaced_whole(cli, models, tmp_path, earlier):
    assert cli("merge", *models[:2], "-o", earlier, *QUICK)[0] == 2
    assert cli("merge", *models[:2], "-o", earlier, "--share", 0.25, *QUICK, "--overwrite")[0] == 0
    assert json.loads((earlier / "certificate.json").read_text())["shares"] == [0.75, 0.25]
    assert not (earlier / "stale.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_refusal_names_the_option_where_it_would_help(cli, models, tmp_path, earlier):
    assert "--overwrite" in cli("merge", *models[:2], "-o", earlier, *QUICK)[2]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    assert "--overwrite" not in cli("merge", *models[:2], "-o", tmp_path / "other", *QUICK)[2]


@pytest.mark.parametrize(
    "files",
    [{"notes.txt": "mine"}, {"certificate.json": "{}"}, {"certificate.json": "no JSON"}, {"barrier.json": "[1]"},
     {"config.json": "{}", "model.safetensors": ""}],
)  # fmt: skip
def test_what_is_not_ours_stays(cli, models, tmp_path, files):
    out = tmp_path / "out"
    out.mkdir()
    for name, text in files.items():
        (out / name).write_text(text)
    code, _, err = cli("merge", *models[:2], "-o", out, *QUICK, "--overwrite")
    assert code == 2
    assert "was not written by onebasin" in err
    assert {path.name: path.read_text() for path in out.iterdir()} == files


def test_an_input_is_not_replaced(cli, models, earlier):
    before = contents(earlier)
    code, _, err = cli("merge", earlier, models[1], "-o", earlier, *QUICK, "--overwrite")
    assert code == 2
    assert "The output would replace an input" in err
    code, _, err = cli("widen", earlier, "-o", earlier, "--set", "intermediate_size=24", "--overwrite")
    assert code == 2
    assert "The output would replace an input" in err
    assert contents(earlier) == before


def test_all_that_verbs_write_is_ours(cli, models, tmp_path, earlier):
    """align, merge, barrier, widen; the demo has a test of its own."""
    for verb in (("barrier", *models[:2], *FEW, "--points", 2), ("align", *models[:2], *QUICK),
                 ("widen", models[0], "--set", "intermediate_size=24")):  # fmt: skip
        assert cli(*verb, "-o", earlier, "--quiet", "--overwrite")[0] == 0
        assert not (earlier / "stale.txt").exists()
        (earlier / "stale.txt").touch()


@pytest.mark.parametrize("moment", ["block", "place"])
def test_what_fails_leaves_the_earlier_output(tmp_path, monkeypatch, moment):
    out = tmp_path / "out"
    out.mkdir()
    (out / "demo.json").write_text('{"rows": []}')
    replace = type(out).replace

    def broken(self, target):
        if "partial" in self.name:
            raise OSError(5, "I/O error")
        return replace(self, target)

    if moment == "place":
        monkeypatch.setattr(type(out), "replace", broken)

    def work() -> None:
        with whole_folder(out, overwrite=True) as folder:
            (folder / "new").touch()
            if moment == "block":
                raise OSError(5, "I/O error")

    with pytest.raises(BadOutput):
        work()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in out.iterdir()] == ["demo.json"]


def test_the_new_one_is_there_before_the_old_one_is_removed(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "demo.json").write_text('{"rows": []}')
    seen = []
    remove = shutil.rmtree
    monkeypatch.setattr(
        output.shutil, "rmtree", lambda path, **how: (seen.append((out / "new").exists()), remove(path, **how))
    )
    with whole_folder(out, overwrite=True) as folder:
        (folder / "new").touch()
    assert seen == [True, True]


@pytest.mark.parametrize(
    ("work", "words"),
    [("onebasin.widening.widen.widen", ["widen", "A", "--set", "intermediate_size=24"]),
     ("onebasin.demo.demonstrate", ["demo", "--quick"])],
)  # fmt: skip
def test_a_place_that_is_taken_is_refused_before_work(cli, models, earlier, monkeypatch, work, words):
    def begun(*_: object, **__: object) -> None:
        raise AssertionError("it began")

    monkeypatch.setattr(work, begun)
    code, _, err = cli(*(models[0] if word == "A" else word for word in words), "-o", earlier)
    assert code == 2, err
    assert (earlier / "stale.txt").exists()

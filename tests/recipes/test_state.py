"""OUT.state: only what learning itself has left there is used and removed, and only with what it was begun with."""

from __future__ import annotations

import shutil

import pytest

from helpers.folders import contents, edit_weights
from helpers.random_models import byte_llama
from onebasin.errors import BadOutput
from onebasin.recipes import running

SHORT = ("--steps", "2", "--set", "learned.batch=2", "--task", "text:{text}", "--samples", "20", "--length", "8",
         "--method", "learned", "--start", "identity", "--device", "cpu")  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a"), byte_llama(root / "b", 1)


@pytest.fixture
def command(pair, tmp_path):
    """align with learning, of copies that may be changed."""
    folders = [shutil.copytree(folder, tmp_path / folder.name) for folder in pair]
    text = tmp_path / "text.txt"
    text.write_text("once upon a time there was a basin, and " * 40)
    return ("align", *folders, "-o", tmp_path / "out", *(x.format(text=text) for x in SHORT))


@pytest.fixture
def interrupted(cli, command, monkeypatch):
    def full(*_: object) -> None:
        raise BadOutput("No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(running, "write", full)
        assert cli(*command)[0] == 2
    return command


@pytest.mark.parametrize("resume", [(), ("--resume",)])
@pytest.mark.parametrize("method", ["weight", "learned"])
def test_a_folder_that_is_no_state_is_left_alone(cli, command, tmp_path, resume, method):
    thesis = tmp_path / "out.state" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    arguments = command if method == "learned" else (*command[:5], "--method", "weight")
    code, _, err = cli(*arguments, *resume)
    assert code == 2
    assert "is no state of this version" in err
    assert thesis.read_text() == "years of work"
    assert not (tmp_path / "out").exists()


def other_weights(folder) -> str:
    edit_weights(folder / "b", lambda tensors: tensors["model.norm.weight"].mul_(2))
    return "the weights of B"


def other_data(folder) -> str:
    (folder / "text.txt").write_text((folder / "text.txt").read_text().upper())
    return "the data"


@pytest.mark.parametrize("change", [other_weights, other_data])
def test_a_state_of_other_models_or_data_is_refused(cli, interrupted, tmp_path, change):
    state = contents(tmp_path / "out.state")
    what = change(tmp_path)
    code, _, err = cli(*interrupted, "--resume")
    assert code == 2
    assert f"begun with another value of: {what}\n" in err
    assert contents(tmp_path / "out.state") == state
    assert not (tmp_path / "out").exists()


def test_a_state_of_other_options_is_refused_and_the_same_go_on(cli, interrupted, tmp_path):
    code, _, err = cli(*interrupted, "--resume", "--set", "learned.lr=0.5")
    assert code == 2
    assert "begun with another value of: learned.lr\n" in err
    assert cli(*interrupted, "--resume")[0] == 0
    assert not (tmp_path / "out.state").exists()


def test_a_failure_before_learning_leaves_no_state(cli, command, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise BadOutput("No luck")

    monkeypatch.setattr(running, "align", fail)
    assert cli(*command)[0] == 2
    assert not (tmp_path / "out.state").exists()

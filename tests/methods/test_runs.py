"""Every method through the command line: what it writes, that it runs again, and that it goes on after a failure."""

from __future__ import annotations

import math
import os
import signal

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from helpers.folders import certificate
from helpers.task_files import gpt2
from onebasin import Alignment, Checkpoint
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import BadOutput
from onebasin.events.records import Step
from onebasin.learn.steps import Steps
from onebasin.match.room import Memory
from onebasin.match.weights import Matched
from onebasin.methods.activation import Activation
from onebasin.methods.learned import Shown
from onebasin.methods.method import Job, held_back
from onebasin.recipes import running
from onebasin.tasks import Task, load_task

DATA = ("--task", "synthetic", "--samples", "40", "--length", "6")
SHORT = ("--steps", "4", "--set", "learned.batch=8", "--set", "learned.eval_every=2", "--device", "cpu", "--quiet")


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("pair")
    a, b = gpt2(root / "a"), gpt2(root / "b")
    weights = load_file(b / "model.safetensors")
    generator = torch.Generator().manual_seed(1)
    moved = {name: x + 0.3 * torch.randn(x.shape, generator=generator) for name, x in weights.items()}
    save_file(moved, b / "model.safetensors", metadata={"format": "pt"})
    return str(a), str(b)


@pytest.mark.parametrize("method", ["learned", "dual", "soft", "auto"])
def test_methods_that_learn(cli, pair, tmp_path, method):
    code, out, err = cli("align", *pair, "-o", str(tmp_path / "out"), "--method", method, *DATA, *SHORT)
    assert code == 0, err
    assert "held back" in out
    found = certificate(tmp_path / "out")
    history = found["learning"]["history"]
    assert [point["step"] for point in history] == [0, 2, 4]
    assert found["learning"]["function_kept"] == (method != "soft")
    assert (found["output_drift"]["float64"] < 1e-9) == (method != "soft")
    assert found["learning"]["options"]["loss"] == "agreement"
    assert found["learning"]["options"]["two_sided"] == (method == "dual")
    assert not (tmp_path / "out.state").exists()


@pytest.mark.parametrize(("samples", "left"), [(499, 499), (500, 500), (501, 1)])
def test_what_activations_have_seen_is_measured_on_only_where_nothing_else_is_left(samples, left):
    data = Task("some", "language", {"input_ids": torch.zeros(samples, 2)}, torch.zeros(samples, 2), {})
    measured, how = Activation().to_measure_on(data)
    assert len(measured) == left
    assert ("the method has seen them" in how) == (left > 1)


def test_steps_of_learning_are_shown_as_progress():
    told, step = [], Step(3, 10, 1.0, 0.5, 2.0, 3.0)
    Shown(lambda *progress: told.append(progress)).on_step(step)
    assert told == [(f"learning: {step}", 3, 10)]


@pytest.mark.parametrize("room", [10.0, 1e9], ids=["little", "much"])
def test_what_is_left_beside_the_models_is_the_room_for_activations(pair, monkeypatch, room):
    """Both models in float64 and in float32 are 24 bytes a number; where they do not fit, half is for each."""
    models = [Checkpoint.open(x) for x in pair]
    ensemble, data, rooms = Ensemble.of(models), load_task("synthetic", *models, samples=8, length=6), []

    def look(pages, a, b, batches, options, *, room, tick):
        rooms.append(room)
        return Matched(Alignment.identity(ensemble.spec), (1.0, 1.0), True)

    monkeypatch.setattr("onebasin.match.activations.match_activations", look)
    monkeypatch.setattr(Memory, "room", lambda *_: room)
    Activation().run(ensemble, data, Job(torch.device("cpu")))
    numbers = sum(map(math.prod, ensemble.spec.keys.values()))
    assert rooms == [5.0 if room == 10 else 1e9 - 24 * numbers]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3,), 1), ((500,), 50), ((50_000,), 1000), ((500, 256), 50), ((5000, 256), 195), ((100, 100_000), 1)],
    ids=["few", "a tenth", "images", "a tenth of a text", "windows", "long windows"],
)
def test_how_many_samples_are_held_back(shape, expected):
    labels = torch.zeros((), dtype=torch.int64).expand(shape)
    assert held_back(Task("some", "language", {}, labels, {})) == expected


@pytest.mark.parametrize("start", ["weight", "activation", "identity"])
def test_what_learning_begins_with(cli, pair, tmp_path, start):
    arguments = ("--method", "learned", "--start", start, *DATA, *SHORT)
    code, _, err = cli("align", *pair, "-o", str(tmp_path / "out"), *arguments)
    assert code == 0, err
    recipe = yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text())
    assert recipe["learned"]["start"] == start
    assert {"weight", "activation"} & set(recipe) == {start} - {"identity"}  # the options of the start, and no others


def test_what_learns_by_commas_or_repeated(cli, pair, tmp_path):
    chosen = []
    for i, learn in enumerate((("residual,qk", "gains"), ("residual", "qk", "gains"))):
        flags = [part for group in learn for part in ("--learn", group)]
        code, _, err = cli("align", *pair, "-o", str(tmp_path / str(i)), "--method", "learned", *flags, *DATA, *SHORT)
        assert code == 0, err
        chosen.append(certificate(tmp_path / str(i))["learning"]["options"]["learn"])
    assert chosen == [["residual", "qk", "gains"]] * 2


def test_the_recipe_of_auto_gives_the_same_tensors(cli, pair, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert cli("merge", *pair, "-o", str(first), "--method", "auto", *DATA, *SHORT)[0] == 0
    assert cli("run", str(first / "recipe.yaml"), "-o", str(second), "--quiet")[0] == 0
    one, two = (load_file(folder / "model.safetensors") for folder in (first, second))
    assert one.keys() == two.keys()
    assert all(one[name].equal(two[name]) for name in one)


def test_a_failure_keeps_the_state_and_resume_goes_on(cli, pair, tmp_path, monkeypatch):
    arguments = ("align", *pair, "-o", str(tmp_path / "out"), "--method", "learned", *DATA, *SHORT)
    plain = (*arguments[:4], str(tmp_path / "plain"), *arguments[5:])
    assert cli(*plain)[0] == 0

    def full(*_: object) -> None:
        raise BadOutput("No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(running, "write", full)
        code, _, err = cli(*arguments)
    assert code != 0
    assert "No space left" in err
    assert (tmp_path / "out.state").is_dir()
    code, _, err = cli(*arguments)
    assert code == 2
    assert "--resume" in err
    assert cli(*arguments, "--resume")[0] == 0
    assert not (tmp_path / "out.state").exists()
    one, two = (load_file(tmp_path / name / "b" / "model.safetensors") for name in ("out", "plain"))  # tied: a and b
    assert all(one[name].equal(two[name]) for name in one)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "learned"), "task is missing"),
        (("--method", "weight", "--steps", "3"), "learned is of no use to the method weight"),
        (("--method", "activation", *DATA, "--start", "weight"), "learned is of no use to the method activation"),
        (("--method", "auto", "--set", "auto.weight.sweeps=3"), "auto.weight is a section of its own"),
        (("--method", "auto", "--start", "weight"), "learned.start is of no use to auto"),
        (("--method", "learned", "--start", "identity", *DATA, "--set", "weight.sweeps=3"), "weight is of no use"),
        (("--method", "learned", *DATA, "--steps", "0"), "steps"),
        (("--method", "learned", *DATA, "--learn", "everything"), "residual"),
        (("--method", "learnt", *DATA), "did you mean learned?"),
    ],
)
def test_what_does_not_go_together_is_refused(cli, pair, tmp_path, arguments, said):
    code, _, err = cli("align", *pair, "-o", str(tmp_path / "out"), *arguments)
    assert code == 2
    assert said in err
    assert not list(tmp_path.iterdir())


def test_a_signal_ends_learning_with_its_state_kept(cli, pair, tmp_path, monkeypatch):
    """SIGTERM in the middle: exit code 130, no output folder, and --resume ends where an undisturbed run does."""
    arguments = ("align", *pair, "-o", str(tmp_path / "out"), "--method", "learned", *DATA, *SHORT)
    plain = (*arguments[:4], str(tmp_path / "plain"), *arguments[5:])
    assert cli(*plain)[0] == 0
    one = Steps.one

    def killed(steps: Steps) -> None:
        one(steps)
        if steps.done == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as disturbed:
        disturbed.setattr(Steps, "one", killed)
        code, _, err = cli(*arguments)
    assert code == 130
    assert "SIGTERM after step 2" in err
    assert "--resume" in err
    assert not (tmp_path / "out").exists()
    assert cli(*arguments, "--resume")[0] == 0
    found, expected = (load_file(tmp_path / name / "b" / "model.safetensors") for name in ("out", "plain"))
    assert all(found[name].equal(expected[name]) for name in found)

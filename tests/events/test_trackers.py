"""TensorBoard and Weights & Biases: what they are told, from Python and from the command line."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import onebasin
from helpers.random_models import byte_llama
from onebasin.errors import BadRecipe
from onebasin.events.trackers import tracker

LEARNED = {"steps": 4, "batch": 4, "eval_every": 2, "log_every": 1}
DATA = {"method": "learned", "task": "builtin:python", "samples": 40, "length": 8, "device": "cpu"}
FLAGS = (
    "--method", "learned", "--task", "builtin:python", "--samples", "40", "--length", "8", "--device", "cpu", "--quiet",
    *(part for key, value in LEARNED.items() for part in ("--set", f"learned.{key}={value}")),
)  # fmt: skip
NAMES = {"learning/loss", "learning/steps_per_second", "validation/midpoint", "validation/barrier"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    return [byte_llama(root / name, i) for i, name in enumerate("ab")]


class Heard(onebasin.Callback):
    """Keeps all records."""

    def __init__(self) -> None:
        self.steps, self.validations, self.ends = [], [], []
        self.on_step, self.on_validation = self.steps.append, self.validations.append
        self.on_end = self.ends.append


def test_a_callback_is_told_what_the_certificate_says(pair):
    heard = Heard()
    aligned = onebasin.align(*pair, callbacks=[heard], learned=LEARNED, **DATA)
    learning = aligned.certificate["learning"]
    assert [record.step for record in heard.steps] == [1, 2, 3, 4]
    assert heard.steps[-1].steps == 4
    assert all(record.steps_per_second > 0 for record in heard.steps)
    assert heard.steps[-1].seconds_left == 0 < heard.steps[0].seconds_left
    assert [x.midpoint for x in heard.validations] == [point["midpoint"] for point in learning["history"]]
    assert [x.loss for x in heard.validations] == [point["train_loss"] for point in learning["history"]]
    (end,) = heard.ends
    assert (end.best_step, end.midpoint, end.problem) == (learning["best_step"], learning["midpoint"], None)
    assert end.barrier == pytest.approx(learning["barrier"])
    with pytest.raises(AttributeError):
        end.step = 3


def test_the_end_is_told_where_learning_fails(pair):
    class Tired(Heard):
        def on_step(self, step) -> None:
            raise MemoryError

    heard = Tired()
    del heard.on_step
    with pytest.raises(MemoryError):
        onebasin.align(*pair, callbacks=[heard], learned=LEARNED, **DATA)
    assert [end.problem for end in heard.ends] == ["MemoryError"]


def test_tensorboard_files_hold_the_course_of_learning(cli, pair, tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is absent")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = tmp_path / "runs"
    code, _, err = cli("align", *pair, "-o", tmp_path / "out", *FLAGS, "--log-to", f"tensorboard:{runs}")
    assert code == 0, err
    events = EventAccumulator(str(runs)).Reload()
    assert set(events.Tags()["scalars"]) == NAMES
    assert [event.step for event in events.Scalars("validation/midpoint")] == [0, 2, 4]
    assert [event.step for event in events.Scalars("learning/loss")] == [1, 2, 3, 4]


@pytest.fixture
def wandb(monkeypatch):
    """A module that keeps what it is given."""
    kept = SimpleNamespace(project=None, logged=[], exit_code=None)

    def init(project: str, job_type: str) -> SimpleNamespace:
        kept.project = project
        return SimpleNamespace(
            log=lambda numbers, step: kept.logged.append((step, numbers)),
            finish=lambda exit_code: setattr(kept, "exit_code", exit_code),
        )

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    return kept


def test_weights_and_biases_is_told_the_same(pair, wandb):
    onebasin.align(*pair, callbacks=["wandb:mine"], learned=LEARNED, **DATA)
    assert (wandb.project, wandb.exit_code) == ("mine", 0)
    assert [step for step, numbers in wandb.logged if "validation/midpoint" in numbers] == [0, 2, 4]
    assert {name for _, numbers in wandb.logged for name in numbers} == NAMES


def test_a_run_that_is_refused_opens_nothing(cli, pair, tmp_path, wandb):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    assert cli("align", *pair, "-o", tmp_path / "out", *FLAGS, "--log-to", "wandb:mine")[0] == 2
    assert wandb.project is None


@pytest.mark.parametrize("name", ["tensorboard", "tensorboard:", "mlflow:here", ""])
def test_places_that_are_none(name):
    with pytest.raises(BadRecipe, match="no place to log to"):
        tracker(name)


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_an_extra_that_is_absent(cli, pair, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    code, _, err = cli("align", *pair, "-o", tmp_path / "out", *FLAGS, "--log-to", f"{name}:x")
    assert code == 2
    assert f'pip install "onebasin[{name}]"' in err
    assert list(tmp_path.iterdir()) == []

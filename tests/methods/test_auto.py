"""The method `auto`: what it chooses from what it sees, and that no candidate has a lower path than the one kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

import onebasin
from helpers.classes import HEADS, one_of_each_kind
from helpers.random_models import byte_llama, random_folder
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.checkpoint.stock import stock_model
from onebasin.ensemble.aligned import Aligned, Move
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import BadRecipe, BadTask, Diverged
from onebasin.learn.learning import learn
from onebasin.learn.options import LearnedMatching
from onebasin.match.many import as_they_are
from onebasin.match.options import Gathering
from onebasin.methods.activation import Activation
from onebasin.methods.auto import FREE, QUICK, Auto
from onebasin.methods.learned import Learned
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight
from onebasin.paths import path_between
from onebasin.tasks import Task, synthetic_task
from onebasin.tasks.teachers import together

MODELS = [
    ("gpt2", "GPT2LMHeadModel"),
    ("llama", "LlamaForCausalLM"),
    ("vit", "ViTForImageClassification"),
    ("bert", "BertForSequenceClassification"),
]
SHORT = {**QUICK, "steps": 4, "batch": 8, "eval_every": 2}
CPU = Job(torch.device("cpu"))
CANDIDATES = ["no alignment", "weights", "activations", "learning"]


def auto(**learned: object) -> Auto:
    return Auto(learned=Learned(**{"start": None, **SHORT, **learned}))


def inputs(*models: Checkpoint, samples: int = 40) -> Task:
    pictures = models[0].spec.outputs == ("logits",) and not hasattr(models[0].spec.inputs, "vocabulary")
    return synthetic_task(models, samples=samples, length=None if pictures else 6)


def pair(folder: Path, model_type: str, name: str) -> tuple[Checkpoint, Checkpoint]:
    ends = (random_folder(folder / str(i), model_type, name, 3, weights_seed=i) for i in (1, 2))
    a, b = (Checkpoint.open(end) for end in ends)
    return a, b


def scrambled_pair(folder: Path, model_type: str, name: str) -> tuple[Checkpoint, Checkpoint, Alignment]:
    """(A, a copy of it in another basis, the map back)."""
    form = canonicalize(Checkpoint.open(random_folder(folder / "stored", model_type, name, 5))).checkpoint
    form.save(folder / "a", dtype="F32")
    there = Alignment.random(form.spec, seed=2)
    transport(form, there).save(folder / "b", dtype="F32")
    return Checkpoint.open(folder / "a"), Checkpoint.open(folder / "b"), there.inverse()


def wide(x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.double() if t.is_floating_point() else t for name, t in x.items()}


def said(model: Checkpoint, task: Task) -> torch.Tensor:
    return stock_model(model)(**wide(task.inputs)).logits


@pytest.mark.parametrize(("model_type", "name"), MODELS, ids=[name for _, name in MODELS])
def test_a_scrambled_copy_comes_back_without_data(tmp_path: Path, model_type: str, name: str) -> None:
    a, b, _ = scrambled_pair(tmp_path, model_type, name)
    found = auto(steps=1, lr=0.0).run(Ensemble.of([a, b]), inputs(a), CPU)
    middle, original = (said(end, inputs(a)) for end in (found.merged(), a))
    assert (middle - original).abs().max() < 1e-4 * original.abs().max().clamp_min(1)
    assert found.course["heights"][found.course["kept"]] < 1e-4
    assert found.course["heights"]["no alignment"] > 1e-3  # the control: something had to be done


@pytest.mark.parametrize(("model_type", "name"), MODELS, ids=[name for _, name in MODELS])
def test_the_lowest_path_is_kept_and_the_result_is_exact(tmp_path: Path, model_type: str, name: str) -> None:
    a, b = pair(tmp_path, model_type, name)
    task = inputs(a, b).unlabelled()
    ensemble = Ensemble.of([a, b])
    found = auto(lr=3e-2).run(ensemble, task, CPU)
    heights, kept = found.course["heights"], found.course["kept"]
    assert list(heights) == CANDIDATES
    assert heights[kept] == min(heights.values())
    if kept == "learning":
        assert found.course["learning"]["options"]["loss"] == "agreement"
    assert (said(found.models[1], task) - said(b, task)).abs().max() < 1e-9 * said(b, task).abs().max().clamp_min(1)
    # the heights are those of the models that are handed back, on inputs that learning did not see
    _, held = task.split(round(0.2 * len(task)))
    assert heights[kept] == pytest.approx(height(found, held), rel=1e-3, abs=1e-6)
    assert heights["no alignment"] == pytest.approx(height(as_they_are(ensemble), held), rel=1e-3, abs=1e-6)


@torch.no_grad()
def height(aligned: Aligned, held: Task) -> float:
    """How far the models between stray from what both ends say, by λ; where they stray farthest."""
    path, highest = path_between("factor", *aligned.models), -1.0
    ends = [SimpleNamespace(logits=said(end, held)) for end in aligned.ensemble.models]
    for share in (0.2, 0.35, 0.5, 0.65, 0.8):
        target = together(ends, held.inputs, torch.tensor([1 - share, share]), held.kind).double()
        logs = path.model(share, torch.float64)(**wide(held.inputs)).logits.log_softmax(-1)
        highest = max(highest, float((target * (target.log() - logs)).sum(-1).mean()))
    return highest


@pytest.mark.parametrize("good", CANDIDATES)
def test_whichever_is_best_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: str) -> None:
    """One candidate is the planted map, all others lead astray; learning begins with the best that there is by then."""
    a, b, back = scrambled_pair(tmp_path, *MODELS[0])
    ensemble, began = Ensemble.of([a, b]), []
    if good == "no alignment":  # the models are in one basis already
        ensemble, back = Ensemble.of([a, a]), Alignment.identity(back_to(a))

    def candidate(name: str, seed: int) -> Aligned:
        there = back if name == good else Alignment.random(ensemble.spec, seed)
        return Aligned(ensemble, (Move(Alignment.identity(ensemble.spec), stays=True), Move(there)), {"from": name})

    def refine(self: Learned, start: Aligned, *_: object) -> Aligned:
        began.append(start)
        return candidate("learning", 5)

    monkeypatch.setattr(Weight, "run", lambda *_: candidate("weights", 3))
    monkeypatch.setattr(Activation, "run", lambda *_: candidate("activations", 4))
    monkeypatch.setattr(Learned, "refine", refine)
    found = auto().run(ensemble, inputs(a), CPU)
    heights = found.course["heights"]
    assert found.course["kept"] == good == min(heights, key=heights.get)
    assert heights[good] < 1e-4
    assert all(height > 1e-3 for name, height in heights.items() if name != good)
    assert f"the lowest is kept: {good}" in found.course["why"]
    assert found.course.get("from", "no alignment") == good
    (start,) = began
    before = {name: height for name, height in heights.items() if name != "learning"}
    assert start.course.get("from", "no alignment") == min(before, key=before.get)


def back_to(model: Checkpoint):
    return Ensemble.of([model, model]).spec


@pytest.mark.parametrize("labelled", [False, True], ids=["agreement", "task loss"])
def test_where_learning_goes_astray_its_start_is_kept(tmp_path: Path, labelled: bool) -> None:
    """Steps far too large: no end of learning is better than where it began, and the start stands as it was."""
    a, b, _ = scrambled_pair(tmp_path, *MODELS[0])
    task = inputs(a, b)
    task = replace(task, name="text") if labelled else task.unlabelled()
    found = auto(lr=1.0, steps=6, eval_every=3, clip=0.0, warmup=0.0).run(Ensemble.of([a, b]), task, CPU)
    heights = found.course["heights"]
    assert found.course["kept"] in ("weights", "activations")
    assert heights[found.course["kept"]] <= min(heights.values()) + 1e-7
    assert "learning" not in found.course
    middle, original = (said(end, task) for end in (found.merged(), a))
    assert (middle - original).abs().max() < 1e-3 * original.abs().max().clamp_min(1)


def test_where_learning_diverges_a_start_is_kept_and_the_user_told(tmp_path: Path, monkeypatch) -> None:
    def diverges(*arguments: object, **options: object) -> None:
        raise Diverged("The loss is not finite")

    monkeypatch.setattr(Learned, "refine", diverges)
    a, b = pair(tmp_path, "llama", "LlamaForCausalLM")
    with pytest.warns(UserWarning, match="learning is left out: The loss is not finite"):
        found = auto().run(Ensemble.of([a, b]), inputs(a, b).unlabelled(), CPU)
    assert set(found.course["heights"]) == {"no alignment", "weights", "activations"}
    assert found.course["kept"] == min(found.course["heights"], key=found.course["heights"].get)


def test_learning_that_only_lowers_the_middle_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is judged where it is highest, not by its midpoint."""
    a, b = pair(tmp_path, *MODELS[2])
    ensemble = Ensemble.of([a, b])
    between = {"no alignment": [3.0] * 5, "weights": [1.0, 1.0, 1.0, 1.0, 1.0], "activations": [2.0] * 5,
               "learning": [1.0, 1.1, 0.1, 0.2, 0.3]}  # fmt: skip
    losses = iter([[0.0, 0.0], *between.values()])
    monkeypatch.setattr("onebasin.landscape.contest.Contest._losses", lambda *_: next(losses))
    found = auto(steps=1).run(ensemble, inputs(a, b).unlabelled(), CPU)
    assert found.course["heights"] == {name: max(values) for name, values in between.items()}
    assert found.course["kept"] == "weights"


@one_of_each_kind(HEADS)
def test_every_model_that_predicts_is_served(
    tmp_path: Path, model_type: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what happens where no method is named, so no class may be left out."""
    monkeypatch.setattr("onebasin.methods.auto.TEXTS", 12)
    monkeypatch.setattr("onebasin.methods.auto.PICTURES", 12)
    histories, ensemble = spied(monkeypatch), Ensemble.of(pair(tmp_path, model_type, name))
    as_a_merge = auto(**FREE | {"steps": 1, "batch": 4}).resolve(None).suited(ensemble.forms[0])
    found = as_a_merge.run(ensemble, None, CPU)
    assert list(found.course["heights"]) == CANDIDATES
    assert [len(learned.course["learning"]["history"]) for _, learned in histories] == [2]


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Learned, Aligned]]:
    """What learned by which options, whether it is kept or not."""
    refine, seen = Learned.refine, []

    def watched(self: Learned, *arguments: object) -> Aligned:
        found = refine(self, *arguments)
        seen.append((self, found))
        return found

    monkeypatch.setattr(Learned, "refine", watched)
    return seen


@pytest.mark.parametrize(("model_type", "name"), [MODELS[0], MODELS[2]], ids=["GPT2LMHeadModel", "ViT"])
def test_of_three_models_the_lowest_is_kept(tmp_path: Path, model_type: str, name: str, monkeypatch) -> None:
    ends = [Checkpoint.open(random_folder(tmp_path / str(i), model_type, name, 3, weights_seed=i)) for i in range(3)]
    task = inputs(*ends).unlabelled()
    histories = spied(monkeypatch)
    found = auto(lr=3e-2).run(Ensemble.of(ends), task, replace(CPU, gathering=Gathering(rounds=2)))
    heights = found.course["heights"]
    assert list(heights) == CANDIDATES
    assert heights[found.course["kept"]] == min(heights.values())
    ((_, learned),) = histories
    assert learned.course["learning"]["options"]["law"] == "dirichlet"
    assert found.course["universe"]["alignments_made"] in (0, 2, 4)
    for end, moved in zip(ends[1:], found.models[1:], strict=True):
        one, other = said(moved, task), said(end, task)
        assert (one - other).abs().max() < 1e-9 * other.abs().max().clamp_min(1)


# ---- which loss


def test_labels_are_used_where_there_are_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair(tmp_path, *MODELS[0])
    histories = spied(monkeypatch)
    for loss, words in {
        "auto": "the task loss",
        "task": "the task loss",
        "agreement": "agreement with the end",
    }.items():
        found = auto(loss=loss).run(Ensemble.of([a, b]), replace(inputs(a, b), name="text"), CPU)
        assert histories[-1][1].course["learning"]["options"]["loss"] == ("task" if loss == "auto" else loss)
        assert words in found.course["why"]


TEXT = {"task": "builtin:python", "samples": 20, "length": 8, "device": "cpu"}
STEPS = {"steps": 2, "batch": 4, "eval_every": 1}


@pytest.mark.parametrize(
    ("loss", "data", "ran"),
    [
        ("agreement", TEXT, "agreement"), ("task", TEXT, "task"), (None, TEXT, "task"), ("auto", TEXT, "task"),
        (None, {**TEXT, "task": "synthetic"}, "agreement"), ("agreement", {**TEXT, "task": "synthetic"}, "agreement"),
    ],
)  # fmt: skip
def test_the_recipe_records_the_loss_that_ran(tmp_path: Path, monkeypatch, loss: str | None, data: dict, ran: str):
    a, b = (byte_llama(tmp_path / x, i) for i, x in enumerate("ab"))
    histories = spied(monkeypatch)
    section = STEPS if loss is None else {**STEPS, "loss": loss}
    onebasin.align(a, b, method="auto", learned=section, **data).save(tmp_path / "out")
    ((method, learned),) = histories
    recipe = yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text())
    assert recipe["method"] == "auto"
    assert recipe["learned"]["loss"] == method.loss == learned.course["learning"]["options"]["loss"] == ran


def test_without_a_task_the_recipe_records_agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebasin.methods.auto.TEXTS", 12)
    a, b = (byte_llama(tmp_path / x, i) for i, x in enumerate("ab"))
    onebasin.align(a, b, method="auto", learned=STEPS, device="cpu").save(tmp_path / "out")
    assert yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text())["learned"]["loss"] == "agreement"


def test_a_task_loss_without_labels_is_refused(tmp_path: Path) -> None:
    a, b = pair(tmp_path, *MODELS[2])
    task = inputs(a, b)
    with pytest.raises(BadTask, match="no labels"):
        learn(as_they_are(Ensemble.of([a, b])), task, 5, LearnedMatching(steps=1, batch=4, loss="task"))
    with pytest.raises(BadTask, match="no labels"):
        auto(loss="task").run(Ensemble.of([a, b]), task, CPU)
    with pytest.raises(BadRecipe, match=r"learned\.loss cannot be task without one"):
        auto(loss="task").resolve(None)
    for method in (auto(loss="task"), Learned(loss="task")):  # before any work
        with pytest.raises(BadTask, match="no labels"):
            method.resolve(task)
        assert method.resolve(replace(task, name="text", labels=torch.zeros_like(task.labels))) == method


def test_nothing_given_means_synthetic_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair(tmp_path, *MODELS[2])
    monkeypatch.setattr("onebasin.methods.auto.PICTURES", 30)
    found = auto().run(Ensemble.of([a, b]), None, CPU)
    assert "the models made up 30 inputs" in found.course["why"]
    assert "given vision" in auto().run(Ensemble.of([a, b]), replace(inputs(a, b), name="vision"), CPU).course["why"]


# ---- what is refused


@pytest.mark.parametrize(("model_type", "name"), [("gpt2", "GPT2Model"), ("vit", "ViTModel")])
def test_a_model_without_a_head_has_no_task_loss(tmp_path: Path, model_type: str, name: str) -> None:
    a, b = pair(tmp_path, model_type, name)
    with pytest.raises(BadTask, match="no labels") as caught:
        onebasin.align(a, b, method="learned", task="synthetic", samples=8, learned={"loss": "task"}, device="cpu")
    assert "agreement" in caught.value.next_step


def test_a_start_of_its_own_is_refused() -> None:
    with pytest.raises(BadRecipe, match=r"learned\.start is of no use to auto"):
        Auto(learned=Learned(**SHORT))

"""Learning among several models: θ(λ) on the simplex, its gradient, what is found, and runs that are taken up again."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial

import pytest
import torch

from helpers.classes import in_turn
from helpers.learning import NAMES, RUN, TINY, Telling, inputs_of, taught_by, tensors, variation, write
from helpers.random_models import needs_circuits
from onebasin import Alignment, Checkpoint, transport
from onebasin.checkpoint.stock import outputs, stock_model
from onebasin.ensemble.aligned import Aligned, Move
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import BadCheckpoint, OnebasinError, Stopped
from onebasin.events import Step
from onebasin.landscape import evaluate
from onebasin.learn.learning import learn
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.linalg import mixture, running_shares
from onebasin.match.many import as_they_are
from onebasin.methods.learned import Learned
from onebasin.papers.options import PaperLearning
from onebasin.paths import path_between
from onebasin.paths.laws import draw_shares
from onebasin.tasks import CLASSIFICATION, LANGUAGE

F64 = torch.float64
GPT = "GPT2LMHeadModel"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: write(folder, name, 3) for name in TINY}


def forms_of(models):
    return Ensemble.of(models).forms


def objective(forms, *, tokens=0, size=0.3, paper=None, **options):
    """With random latents, in float64."""
    kind = LANGUAGE if "vocab_size" in forms[0].config and "LM" in forms[0].spec.architecture else CLASSIFICATION
    chosen = LearnedMatching(**{"loss": "task", **options})
    made = Objective(forms, chosen, kind, variation(paper), dtype=F64, tokens=tokens)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in made.learned():
            p.copy_(size * torch.randn(p.shape, generator=g, dtype=F64))
    return made


def simplex(*shares: float) -> torch.Tensor:
    return torch.tensor(shares, dtype=F64)


def mean_of(models, at: torch.Tensor) -> Checkpoint:
    """Σ λ_m θ_m, leaf by leaf."""
    first = models[0]
    return first.derive(
        {leaf: lambda leaf=leaf: sum(s * x[leaf] for s, x in zip(at, models, strict=True)) for leaf in first}
    )


def begun(models, starts) -> Aligned:
    """Models that are moved by these maps, None for the identity."""
    start = as_they_are(Ensemble.of(models))
    found = [Alignment.identity(start.ensemble.spec) if g is None else g for g in starts]
    return replace(start, moves=tuple(Move(g, stays=not m and starts[0] is None) for m, g in enumerate(found)))


def run(models, folder=None, tick=lambda progress: None, starts=(None, None, None), **options) -> Aligned:
    chosen = LearnedMatching(**{**RUN, **options})
    return learn(begun(models, starts), taught_by(models[0]), 32, chosen, folder=folder, told=Telling(tick))


# ---- θ(λ)


@NAMES
def test_zero_latents_give_the_weighted_mean_exactly(models, name):
    forms = forms_of(models[name])
    at = simplex(0.2, 0.5, 0.3)
    theta = objective(forms, size=0.0).theta(at)
    ends = [dict(stock_model(form).named_parameters()) for form in forms]
    for parameter, found in theta.items():
        assert found.equal(mixture([end[parameter] for end in ends], running_shares(at))), parameter


@in_turn(name=list(TINY), two_sided=[False, True])
def test_the_model_at_a_point_is_the_mean_of_the_moved_models(models, name, two_sided):
    forms = forms_of(models[name])
    made = objective(forms, two_sided=two_sided, tokens=int(two_sided))
    maps = [side.alignment(forms[0].spec) for side in made.sides]
    assert len(maps) == (3 if two_sided else 2)
    moved = [*forms[: 3 - len(maps)], *map(transport, forms[3 - len(maps) :], maps)]
    inputs = inputs_of(forms[0], 3)
    for at in (simplex(0.2, 0.5, 0.3), simplex(0, 0.4, 0.6), simplex(0, 0, 1)):
        expected = stock_model(mean_of(moved, at))(**inputs).logits
        torch.testing.assert_close(made.at(at)(inputs), expected, rtol=1e-11, atol=1e-11)
    unmoved = stock_model(mean_of(forms, simplex(0.2, 0.5, 0.3)))(**inputs).logits
    assert (made.at(simplex(0.2, 0.5, 0.3))(inputs) - unmoved).abs().max() > 1e-3  # the control


@pytest.mark.parametrize("name", [GPT, "LlamaForCausalLM"])
def test_circuits_add_up(models, name):
    """Two models are three, one of them without a share; and a model may be taken in two parts."""
    a, b, c = forms_of(models[name])
    inputs = inputs_of(a, 3)
    between = path_between("circuit", a, b).model(0.3, F64)(**inputs).logits
    three = objective((a, b, c), size=0.0, path="circuit")
    torch.testing.assert_close(three.at(simplex(0.7, 0.3, 0.0))(inputs), between, rtol=1e-11, atol=1e-11)
    twice = objective((a, b, b), size=0.0, path="circuit")
    torch.testing.assert_close(twice.at(simplex(0.7, 0.1, 0.2))(inputs), between, rtol=1e-11, atol=1e-11)
    factors = objective((a, b, c), size=0.0).at(simplex(0.7, 0.3, 0.0))(inputs)
    assert (factors - between).abs().max() > 1e-3  # the control: another path


SOFT_CIRCUITS = {"path": "circuit", "learn": ("residual", "qk", "ov", "heads"), "paper": {"permutations": "soft"}}


@in_turn(name=list(TINY), options={"soft": SOFT_CIRCUITS, "agreement": {"two_sided": True, "loss": "agreement"}})
def test_gradient_against_finite_differences(models, name, options):
    if options.get("path") == "circuit":
        needs_circuits(name)
    forms = forms_of(models[name])
    made = objective(forms, **options)
    task = taught_by(forms[0], 4)
    draws = draw_shares("dirichlet", 3, 0.5, 3, 0)

    def loss(back: bool = False) -> float:
        return sum(
            float(made(task.inputs, made.target(task.inputs, task.labels, at), at, back=back).detach()) for at in draws
        )

    loss(back=True)
    g, step = torch.Generator().manual_seed(1), 1e-6
    for p in made.learned():
        direction = torch.randn(p.shape, generator=g, dtype=F64)
        slope, losses = float((p.grad * direction).sum()), []
        for sign in (1, -1):
            with torch.no_grad():
                p.add_(sign * step * direction)
                losses.append(loss())
                p.sub_(sign * step * direction)
        assert abs(slope - (losses[0] - losses[1]) / (2 * step)) < 1e-6 * max(1.0, abs(slope))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # what torch's compiler does
def test_the_step_is_one_graph_for_the_compiler(models):
    forms = forms_of(models[GPT])
    made, task, at = objective(forms, tokens=1), taught_by(forms[0], 4), simplex(0.2, 0.5, 0.3)
    made(task.inputs, task.labels, at, back=True)
    eager = [p.grad for p in made.learned()]
    made.zero_grad()
    torch.compiler.reset()
    torch.compile(made, backend="eager", fullgraph=True, dynamic=False)(task.inputs, task.labels, at).backward()
    for p, expected in zip(made.learned(), eager, strict=True):
        torch.testing.assert_close(p.grad, expected, rtol=1e-9, atol=1e-12)


# ---- what is found


def planted(model, folder, size):
    """The model, and two copies of it moved a little by every space that learns."""
    (form, *_) = forms_of((model, model))
    made = objective((form, form, form), size=size)
    for m, side in enumerate(made.sides):
        transport(form, side.alignment(form.spec)).save(folder / str(m), dtype="F64")
    return [form, *(Checkpoint.open(folder / str(m)) for m in (0, 1))]


@in_turn(name=[GPT, "LlamaForCausalLM"], options={"one stands still": {}, "all move": {"two_sided": True}})
def test_planted_symmetries_are_found_back(models, name, options, tmp_path):
    copies = planted(models[name][0], tmp_path, 0.2)
    settings = {"steps": 80, "batch": 32, "lr": 2e-2, "eval_every": 40, "dtype": "float64", "alpha": 1.0, **options}
    start = begun(copies, (None, None, None))
    learned = learn(start, taught_by(copies[0], 512), 256, LearnedMatching(**settings))
    inputs = inputs_of(copies[0], 64, seed=9)

    def said(model):
        return outputs(stock_model(model), copies[0].spec, inputs)["logits"]

    def error(found):
        return float((said(mean_of(found, simplex(1 / 3, 1 / 3, 1 / 3))) - said(copies[0])).square().mean())

    assert learned.reason is None
    before, after = error(copies), error(learned.models)
    assert before > 1e-3
    assert after < 0.4 * before
    for model in learned.models:
        assert (said(model) - said(copies[0])).abs().max() < 1e-9


ALL = {"two_sided": True, "learn": ("residual", "qk", "ov")}
IN_A_FRAME = {**ALL, "learn": (*ALL["learn"], "gains")}


@pytest.mark.parametrize("options", [{}, ALL, IN_A_FRAME], ids=["one", "all", "gains"])
def test_the_models_as_learned_are_those_that_are_written(models, options):
    """The centre and the ends on the way, and those of the written models, have the same losses."""
    ends = models["LlamaForCausalLM"]
    learned = run(ends, steps=20, eval_every=10, alpha=2.0, lr=1e-2, **options)
    written, course = learned.models, learned.course["learning"]
    assert (learned.reason is None) == (written[0] is ends[0]) == (options is not IN_A_FRAME)
    _, held = taught_by(ends[0]).split(32)
    centre = evaluate(stock_model(mean_of(written, simplex(1 / 3, 1 / 3, 1 / 3))), held).loss
    losses = [evaluate(stock_model(model), held).loss for model in (*ends, *written)]
    assert max(abs(x - y) for x, y in zip(losses, 2 * course["ends"], strict=True)) < 1e-9
    assert abs(course["barrier"] - (centre - sum(losses[:3]) / 3)) < 1e-9
    assert abs(evaluate(stock_model(learned.merged()), held).loss - centre) < 1e-12
    moved = [max(g.displacement().values()) > 0 for g in learned.alignments]
    assert moved == [options is IN_A_FRAME, True, True]
    objective = learned.course["universe"]["objective"]
    at_the_end = learned.ensemble.centre(
        [transport(form, g) for form, g in zip(learned.ensemble.forms, learned.alignments, strict=True)]
    )[1]
    assert objective == pytest.approx([learned.ensemble.centre(learned.ensemble.forms)[1], at_the_end])


def test_models_that_cannot_take_the_gauge_are_all_canonical(models, tmp_path):
    """A gain of zero cannot be divided by."""
    ends = models[GPT]
    name = next(leaf for leaf in ends[0] if "ln_1" in leaf and "weight" in leaf)
    blunt = ends[0].derive({name: lambda: torch.zeros_like(ends[0][name])})
    blunt.save(tmp_path / "blunt")
    group = [Checkpoint.open(tmp_path / "blunt"), *ends[1:]]
    learned = run(group, steps=2, eval_every=1)
    assert learned.reason is not None
    inputs = inputs_of(ends[0], 3)
    for model, form in zip(group, learned.models, strict=True):
        said = [outputs(stock_model(x), model.spec, inputs)["logits"] for x in (model, form)]
        torch.testing.assert_close(*said, rtol=1e-9, atol=1e-9)


def test_starts_may_lead_to_any_common_frame(models):
    """What counts is where the others are seen from the first model."""
    spec = forms_of(models[GPT])[0].spec
    frame, g, h = (Alignment.random(spec, seed) for seed in range(3))
    own = run(models[GPT], steps=2, starts=(None, g, h))
    common = run(models[GPT], steps=2, starts=(frame, frame.compose(g), frame.compose(h)))
    for x, y in zip(own.alignments, common.alignments, strict=True):
        for part, tensor in tensors(x).items():
            torch.testing.assert_close(tensors(y)[part], tensor, rtol=1e-9, atol=1e-9)
    assert [move.stays for move in common.moves] == [True, False, False]
    centres = [found.course["learning"]["history"][0]["midpoint"] for found in (own, common, run(models[GPT], steps=1))]
    assert centres[0] == pytest.approx(centres[1], abs=1e-9)
    assert abs(centres[0] - centres[2]) > 1e-3  # the control


# ---- runs


def same(x: Aligned, y: Aligned) -> bool:
    """Bit for bit, all but the seconds."""
    maps = [[t for g in z.alignments for t in tensors(g).values()] for z in (x, y)]
    points = [[{**p, "seconds": 0} for p in z.course["learning"]["history"]] for z in (x, y)]
    return all(a.equal(b) for a, b in zip(*maps, strict=True)) and points[0] == points[1]


def stop_at(step: int, progress: Step) -> None:
    if progress.step >= step:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    "options",
    [{"loss": "agreement"}, {"two_sided": True, "dropout": True}],
    ids=["agreement", "all move, dropout"],
)
def test_a_stopped_run_goes_on_to_the_same_result(models, tmp_path, options):
    g = Alignment.random(forms_of(models[GPT])[0].spec, 5)
    torch.manual_seed(5)
    options = {"steps": 24, "eval_every": 8, **options}
    whole = run(models[GPT], starts=(None, g, None), **options)
    torch.manual_seed(5)
    with pytest.raises(Stopped):
        run(models[GPT], tmp_path, partial(stop_at, 11), (None, g, None), **options)
    torch.manual_seed(99)  # whatever happened in between; the bases come from the folder, too
    assert same(run(models[GPT], tmp_path, **options), whole)


def test_another_law_or_start_gives_another_result(models):
    g = Alignment.random(forms_of(models[GPT])[0].spec, 5)
    short = {"steps": 4, "eval_every": 2}
    whole = run(models[GPT], starts=(None, g, None), **short)
    assert same(run(models[GPT], starts=(None, g, None), **short), whole)
    assert not same(run(models[GPT], starts=(None, g, None), **short, alpha=0.3), whole)
    assert not same(run(models[GPT], **short), whole)


def test_progress_names_the_place(models):
    seen = []
    run(models[GPT], None, seen.append, steps=5)
    assert "barrier at the centre about" in str(seen[-1])
    assert "barrier at ½ about" in str(Step(1, 2, 0.5, 0.1, 5.0, 3.0))


def test_a_run_goes_on_only_with_as_many_models(models, tmp_path):
    run(models[GPT], tmp_path, steps=3)
    two = LearnedMatching(**{**RUN, "steps": 3, "law": "dirichlet"})
    with pytest.raises(BadCheckpoint, match="another value of 'models'"):
        learn(begun(models[GPT][:2], (None, None)), taught_by(models[GPT][0]), 32, two, folder=tmp_path)


def test_laws_of_two_models_are_refused(models):
    for law in ("middle", "highest"):
        with pytest.raises(OnebasinError, match=f"The law '{law}'"):
            run(models[GPT], law=law)
    for method in (Learned(law="highest"), Learned(paper=PaperLearning(law="half"))):  # before any work
        method.check(models[GPT][:2])
        with pytest.raises(OnebasinError, match="of two models"):
            method.check(models[GPT])

"""Learned matching on tiny models: the path it takes the loss of, what it finds, and what it hands back."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from learning import F64, TINY, inputs_of, objective, open_pair, run, share, taught_by, tensors, write_pair
from random_models import needs_circuits, random_folder

from onebasin import Alignment, Checkpoint, transport
from onebasin.aligning import same_form
from onebasin.errors import BadTask, NotExpressible, NotInFamily
from onebasin.landscape import evaluate, measure, path_between
from onebasin.learn import LearnedMatching, aligned, analyse, learn
from onebasin.learn.analysis import eigen_angles
from onebasin.learn.objective import Objective
from onebasin.learn.spaces import group_of, role, stacks
from onebasin.report.certificate import certificate
from onebasin.stock import outputs, stock_model
from onebasin.tasks import LANGUAGE, training

NAMES = pytest.mark.parametrize("name", TINY)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for name in TINY:
        write_pair(folder, name)
    return folder


# ---- θ(λ)

EVERYTHING = {"learn": ("residual", "qk", "ov", "heads", "units"), "permutations": "straight-through"}


@NAMES
@pytest.mark.parametrize("path", ["factor", "circuit"])
@pytest.mark.parametrize("options", [{}, {"two_sided": True}, EVERYTHING], ids=["one", "two", "everything"])
def test_the_stacked_model_is_the_path_between_the_moved_checkpoints(root, name, path, options):
    if (name, path) == ("BertForSequenceClassification", "circuit") and "permutations" not in options:
        with pytest.raises(NotInFamily, match="no symmetry with continuous coordinates"):  # the stream only permutes
            objective(root, name, path=path)
        return
    if path == "circuit":
        needs_circuits(name)
    made, a, b = objective(root, name, path=path, tokens=1 if options else 0, **options)
    for side in made.sides:  # straight-through: the alignment takes the best assignment, so give the objective the same
        for stack, (_, index) in side.assignments().items():
            index.copy_(side.latents[stack].member(side.parts(stack)).tensors()["index"])
    ends = [transport(a, made.sides[0].alignment(a.spec)) if len(made.sides) > 1 else a,
            transport(b, made.sides[-1].alignment(a.spec))]  # fmt: skip
    inputs = inputs_of(a, 3)
    for weight in (0.0, 0.3, 1.0):
        expected = path_between(path, *ends).model(weight, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(weight))(inputs), expected, rtol=1e-11, atol=1e-11)
    unmoved = path_between(path, a, b).model(0.3, F64)(**inputs).logits
    assert (made.at(share(0.3))(inputs) - unmoved).abs().max() > 1e-3  # the control


@NAMES
def test_zero_latents_are_the_base(root, name):
    made, a, b = objective(
        root, name, learn=("residual", "qk", "ov") if "Bert" in name else ("residual", "qk", "ov", "scale")
    )
    with torch.no_grad():
        for p in made.learned():
            p.zero_()
    inputs = inputs_of(a, 3)
    expected = path_between("factor", a, b).model(0.4, F64)(**inputs).logits
    torch.testing.assert_close(made.at(share(0.4))(inputs), expected, rtol=1e-12, atol=1e-12)
    made.zero_grad()
    task = taught_by(a, 8)
    made(task.inputs, task.labels, share(0.4), back=True)
    assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in made.learned())


@NAMES
def test_looking_tokens_up_first_changes_nothing(root, name):
    inputs = None
    found = []
    for tokens in (0, 1, 1000):
        made, a, _ = objective(root, name, tokens=tokens, two_sided=True)
        inputs = inputs_of(a, 3)
        found.append((made.looked_up, made.at(share(0.3))(inputs)))
    assert [looked_up is not None for looked_up, _ in found] == [False, "LM" in name, False]
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-12, atol=1e-12)


@NAMES
@pytest.mark.parametrize("path", ["factor", "circuit"])
def test_gradient_of_the_loss_against_finite_differences(root, name, path):
    if path == "circuit":
        needs_circuits(name)
    made, a, _ = objective(root, name, path=path, learn=("residual", "qk", "ov", "heads"), permutations="soft")
    task = taught_by(a, 4)
    made(task.inputs, task.labels, share(0.45), back=True)
    g, step = torch.Generator().manual_seed(1), 1e-6
    for p in made.learned():
        direction = torch.randn(p.shape, generator=g, dtype=F64)
        slope = float((p.grad * direction).sum())
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                p.add_(sign * step * direction)
                losses.append(float(made(task.inputs, task.labels, share(0.45))))
                p.sub_(sign * step * direction)
        assert abs(slope - (losses[0] - losses[1]) / (2 * step)) < 1e-6 * max(1.0, abs(slope))


@NAMES
def test_checkpointed_activations_have_the_same_gradients(root, name):
    """They are computed again going back, which must happen with θ(λ) still in place."""
    gradients = []
    for checkpointing in (False, True):
        made, a, _ = objective(root, name, checkpointing=checkpointing)
        task = taught_by(a, 4)
        made(task.inputs, task.labels, share(0.45), back=True)
        gradients.append([p.grad for p in made.learned()])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, again, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # what torch's compiler does
@pytest.mark.parametrize(
    "options", [{}, {"recentre_every": 1}, {"learn": ("residual", "scale", "gains")}], ids=["plain", "moving", "gains"]
)
@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_the_step_is_one_graph_for_the_compiler(root, name, options):
    """Transport, interpolation, model and loss are traced whole, with the gradients of the eager step."""
    made, a, _ = objective(root, name, tokens=1, **options)
    task = taught_by(a, 4)
    made(task.inputs, task.labels, share(0.45), back=True)
    eager = [p.grad for p in made.learned()]
    made.zero_grad()
    torch.compiler.reset()
    whole = torch.compile(made, backend="eager", fullgraph=True, dynamic=False)
    whole(task.inputs, task.labels, share(0.45)).backward()
    for p, expected in zip(made.learned(), eager, strict=True):
        torch.testing.assert_close(p.grad, expected, rtol=1e-9, atol=1e-12)


@NAMES
def test_charts_move_along_and_no_model_changes(root, name):
    made, a, _ = objective(root, name, recentre_every=1)
    side, far = made.sides[0], [p.clone() for p in made.learned()]
    before, g = made.theta(share(0.4)), side.alignment(a.spec)
    made.recentre()
    charted = [x for n, x in side.named_parameters() if n.endswith("/z")]
    assert charted
    assert all((x == 0).all() for x in charted)
    after = made.theta(share(0.4))
    assert all(torch.allclose(after[n], x, rtol=1e-9, atol=1e-12) for n, x in before.items())
    assert all(torch.allclose(side.alignment(a.spec)[n].dense(), x.dense(), atol=1e-10) for n, x in g.maps.items())
    with torch.no_grad():
        for p, old in zip(made.learned(), far, strict=True):
            p.copy_(old)  # the control: the same latents around another origin are another map
    assert any(not torch.allclose(made.theta(share(0.4))[n], x, rtol=1e-3) for n, x in before.items())


def test_roles_and_groups(root):
    assert role("layers.12.qk") == "layers.#.qk"
    form, _ = same_form(*open_pair(root, "LlamaForCausalLM"))
    groups = {stack.name: group_of(form.spec, stack.spaces[0]) for stack in stacks(form.spec)}
    assert groups == {
        "residual": "residual", "layers.#.kv_heads": "heads", "layers.#.queries": "heads", "layers.#.qk": "qk",
        "layers.#.ov": "ov", "layers.#.ffn": "units",
    }  # fmt: skip
    identity = Alignment.identity(form.spec)
    assert all(stack.fibres in (None, 2 * (identity[stack.spaces[0]].fibres or 1)) for stack in stacks(form.spec))


# ---- what is found


def planted(root, name, size=0.2, **options):
    """(A, a copy of A moved a little by every space that learns)."""
    made, a, _ = objective(root, name, **options)
    with torch.no_grad():
        for p in made.learned():
            p.mul_(size / 0.3)
    return a, transport(a, made.sides[-1].alignment(a.spec))


@NAMES
def test_a_planted_symmetry_is_found_back(root, name, tmp_path):
    """The copy computes what A does; only in A's own basis does their average do so, too."""
    a, b = planted(root, name, 0.2 if "LM" in name else 0.8)
    b.save(tmp_path / "b", dtype="F64")
    b = Checkpoint.open(tmp_path / "b")
    options = LearnedMatching(steps=150, batch=32, lr=1e-2, eval_every=50, dtype="float64", law="half")
    samples, held = (512, 256) if "LM" in name else (5000, 1000)
    learned = learn(a, b, None, taught_by(a, samples), held, options)
    inputs = inputs_of(a, 64, seed=9)

    def error(found):
        ends = [outputs(stock_model(x), a.spec, inputs)["logits"] for x in (a, aligned(a, b, found).midpoint())]
        return float((ends[0] - ends[1]).square().mean())

    before, after = error(replace(learned, alignment=learned.base)), error(learned)
    assert before > 1e-3
    assert after < 0.4 * before
    assert learned.best_step > 0


def test_by_the_law_of_the_highest_place_the_state_with_the_lowest_one_is_kept(root):
    """Heights are those of the path that a user measures, and the batches after a validation are drawn by them."""
    name = "GPT2LMHeadModel"
    learned = run(root, name, None, law="highest", eval_every=10)
    highest = {point.step: max(point.heights) for point in learned.history}
    assert learned.best_step == min(highest, key=highest.get)
    assert highest[learned.best_step] < highest[0]
    middles = [point.midpoint - sum(learned.ends) / 2 for point in learned.history]
    assert [point.heights[4] for point in learned.history] == pytest.approx(middles, abs=1e-12)
    a, b = open_pair(root, name)
    pair, (_, held) = aligned(a, b, learned), training(taught_by(a)).split(32)
    curve = measure(path_between("factor", pair.a, pair.b), held, 11, dtype=torch.float64)
    losses = torch.tensor([e.loss for e in curve.evaluations], dtype=torch.float64)
    heights = losses - torch.lerp(losses[0], losses[-1], torch.tensor(curve.weights, dtype=torch.float64))
    best = next(point for point in learned.history if point.step == learned.best_step)
    assert best.heights == pytest.approx(heights[1:-1].tolist(), abs=1e-6)
    assert len(run(root, name, None).history[0].heights) == 0  # by other laws only the midpoint is measured


HEADS = {"path": "circuit", "learn": ("residual", "heads"), "permutations": "straight-through"}


@NAMES
@pytest.mark.parametrize(
    "options", [{}, {"two_sided": True}, EVERYTHING, HEADS], ids=["one", "two", "everything", "circuit"]
)
def test_the_aligned_model_is_b_exactly(root, name, options):
    if options.get("path") == "circuit":
        needs_circuits(name)
    learned = run(root, name, None, **{"steps": 6, "eval_every": 3, "lr": 0.05, "assign_every": 2, **options})
    a, b = open_pair(root, name)
    pair = aligned(a, b, learned)
    assert learned.exact
    assert certificate(b, pair)["output_drift"]["float64"] < 1e-9
    learned.alignment.check(same_form(a, b)[0].spec)
    assert learned.best_step == min(learned.history, key=lambda p: p.midpoint).step


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_two_sides_reduce_to_one_alignment_with_the_same_path(root, name):
    made, a, b = objective(root, name, two_sided=True)
    one_sided = made.sides[0].alignment(a.spec).inverse().compose(made.sides[1].alignment(a.spec))
    inputs = inputs_of(a, 3)
    path = path_between("factor", a, transport(b, one_sided))
    for weight in (0.3, 0.5):
        expected = path.model(weight, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(weight))(inputs), expected, rtol=1e-9, atol=1e-9)


def test_soft_permutations_leave_b_and_the_certificate_says_how_far(root):
    name = "ViTForImageClassification"
    learned = run(root, name, None, steps=6, learn=("units",), permutations="soft", noise=0.1, eval_every=3)
    a, b = open_pair(root, name)
    assert not learned.exact
    assert certificate(b, aligned(a, b, learned))["output_drift"]["float64"] > 1e-6
    learned.alignment.check(same_form(a, b)[0].spec)  # the hard one is a symmetry all the same


# ---- what is refused


def test_units_that_cannot_be_scaled_are_refused(root):
    with pytest.raises(NotInFamily, match="have no symmetry with continuous coordinates"):
        run(root, "GPT2LMHeadModel", None, learn=("units",))
    assert run(root, "ViTForImageClassification", None, learn=("units",), steps=2).history  # relu


def test_a_stream_that_norms_write_to_is_not_scaled(root):
    with pytest.raises(NotInFamily, match="The stream cannot be scaled"):
        run(root, "BertForSequenceClassification", None, learn=("scale",))


def test_normalised_queries_have_no_circuits(tmp_path):
    a, b = (Checkpoint.open(random_folder(tmp_path / str(i), "qwen3", "Qwen3ForCausalLM", 6, i)) for i in (0, 1))
    with pytest.raises(NotExpressible, match="normalises queries and keys"):
        Objective(same_form(a, b), LearnedMatching(path="circuit"), LANGUAGE)


def test_batches_that_do_not_fit_are_refused(root):
    with pytest.raises(BadTask, match="do not fit"):
        run(root, "GPT2LMHeadModel", None, batch=1000)
    with pytest.raises(BadTask, match="Only images"):
        run(root, "GPT2LMHeadModel", None, augment=True)


# ---- options that must make a difference, or none


def test_what_a_run_depends_on(root):
    name = "ViTForImageClassification"
    short = {"steps": 4, "eval_every": 2}

    def found(**options):
        return tensors(run(root, name, None, **{**short, **options}).correction)["residual/matrix"]

    plain = found()
    assert plain.equal(found())
    for change in (
        {"seed": 1}, {"law": "full"}, {"lr": 1e-2}, {"augment": True}, {"accumulate": 2}, {"clip": 1e-4},
        {"rotation": "exponential"}, {"optimizer": "adam", "weight_decay": 0.5}, {"optimizer": "muon"},
        {"schedule": "constant"},
    ):  # fmt: skip
        assert not plain.equal(found(**change)), change
    torch.testing.assert_close(plain, found(checkpointing=True), rtol=1e-9, atol=1e-12)


def test_early_stop_keeps_the_best(root):
    learned = run(root, "GPT2LMHeadModel", None, steps=400, lr=1.0, eval_every=1, patience=3, warmup=0.0)
    best = min(learned.history, key=lambda point: point.midpoint)
    assert learned.history[-1].step == best.step + 3 < 400
    assert learned.best_step == best.step


def test_float32_latents_give_float64_maps(root):
    learned = run(root, "GPT2LMHeadModel", None, steps=4, eval_every=2, dtype="float32")
    q = learned.alignment["residual"].dense()
    assert q.dtype == F64
    assert (q.mT @ q - torch.eye(len(q), dtype=F64)).abs().max() < 1e-13


def test_the_models_as_learned_are_those_in_the_files(root):
    """Validation on the way and the written midpoint agree."""
    learned = run(root, "LlamaForCausalLM", None, steps=6, eval_every=3)
    a, b = open_pair(root, "LlamaForCausalLM")
    _, held = taught_by(a).split(32)
    midpoint = evaluate(stock_model(aligned(a, b, learned).midpoint()), held).loss
    assert abs(midpoint - min(point.midpoint for point in learned.history)) < 1e-9
    assert outputs(stock_model(b), b.spec, held.inputs)["logits"].isfinite().all()


# ---- analysis


def test_analysis_tells_what_moved(root):
    name = "GPT2LMHeadModel"
    learned = run(root, name, None, steps=40, lr=0.05, assign_every=2, law="half", **EVERYTHING)
    report = analyse(learned)
    angles = report["residual"]["eigen_angles"]
    assert 0 <= angles["least"] <= angles["median"] <= angles["largest"] <= math.pi
    assert report["residual"]["displacement"] == learned.correction["residual"].distance()
    assert report["layers.0.qk"]["log_singular_values"]["largest"] > 0
    for space, about in report.items():
        if "assignments_changed" in about:
            assert about["assignments_changed"].split()[0] != "0", space
    assert json.loads(json.dumps(report)) == report


def test_eigen_angles_of_a_known_rotation():
    turn = torch.block_diag(
        *(torch.tensor([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]) for t in (0.1, 2.0))
    )
    torch.testing.assert_close(eigen_angles(turn).sort().values, torch.tensor([0.1, 0.1, 2.0, 2.0]))

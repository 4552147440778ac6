"""The loss that is minimised: that of the models between, at any λ, with finite and right gradients."""

from __future__ import annotations

import pytest
import torch

from helpers.classes import in_turn
from helpers.learning import EVERYTHING, F64, NAMES, TINY, assignments, inputs_of, objective, share, taught_by
from helpers.random_models import needs_circuits
from onebasin import transport
from onebasin.errors import NotInFamily
from onebasin.learn.options import LearnedMatching
from onebasin.learn.steps import backward_pass
from onebasin.paths import path_between


@in_turn(
    2, name=list(TINY), options={"one": {}, "two": {"two_sided": True}, "everything": EVERYTHING},
    path=["factor", "circuit"],
)  # fmt: skip
def test_the_stacked_model_is_the_path_between_the_moved_checkpoints(root, name, path, options):
    if (name, path) == ("BertForSequenceClassification", "circuit") and "paper" not in options:
        with pytest.raises(NotInFamily, match="no symmetry with continuous coordinates"):  # the stream only permutes
            objective(root, name, path=path)
        return
    if path == "circuit":
        needs_circuits(name)
    made, a, b = objective(root, name, path=path, tokens=1 if options else 0, **options)
    for side in made.sides:  # straight-through: the alignment takes the best assignment, so give the objective the same
        for stack, (_, index) in assignments(side).items():
            index.copy_(side.latents[stack].member(side.parts(stack)).tensors()["index"])
    ends = [transport(a, made.sides[0].alignment(a.spec)) if len(made.sides) > 1 else a,
            transport(b, made.sides[-1].alignment(a.spec))]  # fmt: skip
    inputs = inputs_of(a, 3)
    for of_b in (0.0, 0.3, 1.0):
        expected = path_between(path, *ends).model(of_b, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(of_b))(inputs), expected, rtol=1e-11, atol=1e-11)
    unmoved = path_between(path, a, b).model(0.3, F64)(**inputs).logits
    assert (made.at(share(0.3))(inputs) - unmoved).abs().max() > 1e-3  # the control


@NAMES
def test_zero_latents_are_the_base(root, name):
    made, a, b = objective(root, name, paper=None if "Bert" in name else {"scale": True})
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
        found.append((made.running.looked_up, made.at(share(0.3))(inputs)))
    assert [looked_up is not None for looked_up, _ in found] == [False, "LM" in name, False]
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-12, atol=1e-12)


@NAMES
@pytest.mark.parametrize("path", ["factor", "circuit"])
def test_gradient_of_the_loss_against_finite_differences(root, name, path):
    if path == "circuit":
        needs_circuits(name)
    made, a, _ = objective(
        root, name, path=path, learn=("residual", "qk", "ov", "heads"), paper={"permutations": "soft"}
    )
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
@in_turn(
    name=["GPT2LMHeadModel", "LlamaForCausalLM"],
    options={
        "moving": {"recentre_every": 1},
        "gains": {"learn": ("residual", "gains"), "paper": {"scale": True}},
        "plain": {},
    },
)
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
    made.each_side("recentre")
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


@NAMES
def test_the_ends_stand_still_where_nothing_has_been_learned(root, name):
    """`still` leaves every latent out, however far it has gone."""
    made, a, b = objective(root, name, two_sided=True)
    inputs = inputs_of(a, 3)
    for of_b in (0.0, 0.3, 1.0):
        expected = path_between("factor", a, b).model(of_b, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(of_b), still=True)(inputs), expected, rtol=1e-12, atol=1e-12)
    assert (made.at(share(0.3))(inputs) - made.at(share(0.3), still=True)(inputs)).abs().max() > 1e-3  # the control


@pytest.mark.parametrize(
    ("compile", "device", "blocks", "made"),
    [("auto", "cuda", False, 1), ("auto", "cuda", True, 0), ("off", "cuda", False, 0), ("auto", "cpu", False, 0)],
)
def test_whole_objectives_are_compiled_for_the_shapes_they_have(monkeypatch, compile, device, blocks, made):
    """What was compiled before is forgotten; blocks compile what makes them."""
    told = []

    def objective(inputs, target, share):
        return 3 * inputs["x"].sum()

    def compiled(given, **named):
        told.append(named)
        return lambda *inputs: 2 * given(*inputs)

    objective.blocks = blocks
    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(torch.compiler, "reset", lambda: told.append("reset"))
    back = backward_pass(objective, LearnedMatching(compile=compile), torch.device(device))
    assert told == ["reset"] * (compile == "auto" and device == "cuda") + [{"dynamic": False}] * made
    x = torch.ones(2, requires_grad=True)
    assert float(back({"x": x}, None, None, None).detach()) == 6 * (1 + made)
    assert x.grad.tolist() == [3 * (1 + made)] * 2
    assert float(back({"x": x}, None, None, torch.tensor(0.5)).detach()) == 3 * (1 + made)

"""Tensors with shares of their own: what learns is what a merge writes, and the models stay what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.learning import F64, inputs_of, objective, run, share, taught_by
from onebasin import transport
from onebasin.checkpoint.stock import stock_model
from onebasin.checkpoint.views import select
from onebasin.errors import BadRecipe
from onebasin.landscape import evaluate
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.linalg import outer_sum
from onebasin.paths import FactorPath
from onebasin.paths.factor import Paces
from onebasin.verification.certificate import certificate, exactness

SHARES = ("residual", "shares")
SIDES = pytest.mark.parametrize("two_sided", [False, True], ids=["one", "two"])
BLOCKS = pytest.mark.parametrize("checkpointing", [False, True], ids=["whole", "blocks"])


def paces_of(made: Objective) -> list[Paces]:
    return [{}] * (made.models - len(made.sides)) + [side.learned_paces() for side in made.sides]


@pytest.mark.parametrize(("name", "two_sided", "checkpointing"), [
    ("GPT2LMHeadModel", True, False), ("GPT2LMHeadModel", False, True), ("LlamaForCausalLM", False, False),
    ("ViTForImageClassification", True, True), ("BertForSequenceClassification", False, False),
])  # fmt: skip
def test_the_objective_is_the_path_whose_tensors_have_shares_of_their_own(root, name, two_sided, checkpointing):
    learn = ("shares",) if name.startswith("Bert") else SHARES
    made, form, other = objective(root, name, learn=learn, two_sided=two_sided, checkpointing=checkpointing)
    ends = [form, other]
    for m, side in enumerate(made.sides, 2 - len(made.sides)):
        ends[m] = transport(ends[m], side.alignment(form.spec))
    paces, inputs = paces_of(made), inputs_of(form, 3)
    assert (bool(paces[0]), set(paces[1])) == (False, set(form.spec.keys))  # only the ratio counts
    for of_b in (0.0, 0.3, 1.0):
        found = made.at(share(of_b))(inputs)
        path = FactorPath(*ends, paces=paces)
        torch.testing.assert_close(found, path.model((1 - of_b, of_b), F64)(**inputs).logits, rtol=1e-11, atol=1e-11)
        plain = FactorPath(*ends).model((1 - of_b, of_b), F64)(**inputs).logits
        assert ((found - plain).abs().max() > 1e-4) == (of_b == 0.3)  # the ends are the models themselves


@BLOCKS
@pytest.mark.parametrize("of_b", [0.1, 0.5, 0.7])
def test_at_the_start_the_average_is_the_plain_one_bit_for_bit(root, checkpointing, of_b):
    options = {"checkpointing": checkpointing, "learn": ("residual",)}
    ends = [made_at_zero(root, **options), made_at_zero(root, **{**options, "learn": SHARES})]
    plain, own = (made.theta(share(of_b)) for made in ends)
    assert all(own[name].equal(x) for name, x in plain.items())
    with torch.no_grad():
        ends[1].sides[0].get_parameter("shares")[-1] += 0.1
    assert not all(ends[1].theta(share(of_b))[name].equal(x) for name, x in plain.items())  # the control


def made_at_zero(root, **options: object) -> Objective:
    made, *_ = objective(root, "GPT2LMHeadModel", **options)
    with torch.no_grad():
        for p in made.learned():
            p.zero_()
    return made


def test_the_gradients_of_shares_are_those_of_differences(root):
    made, form, _ = objective(root, "GPT2LMHeadModel", learn=SHARES)
    task, at = taught_by(form, 8), share(0.4)
    made(task.inputs, task.labels, at, back=True)
    (side,) = made.sides
    paces, step = side.get_parameter("shares"), 1e-5
    assert (paces.grad.abs() > 1e-9).sum() > 100
    assert paces.shape == (sum(map(sum, form.spec.keys.values())),)
    for i in range(0, len(paces), 60):
        losses = []
        for moved in (step, -2 * step, step):
            with torch.no_grad():
                paces[i] += moved
                losses.append(float(made(task.inputs, task.labels, at)))
        assert float(paces.grad[i]) == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-4, abs=1e-9)


@SIDES
def test_what_is_learned_is_what_an_average_is(root, two_sided):
    learned = run(root, "GPT2LMHeadModel", None, steps=6, eval_every=3, lr=0.05, learn=SHARES, two_sided=two_sided)
    assert certificate(learned)["output_drift"]["float64"] < 1e-9
    assert exactness(learned, 0)["output_drift"]["float64"] < 1e-9
    assert "shares of tensors learn" in learned.reason
    _, held = taught_by(learned.ensemble.models[0]).split(32)
    midpoints = [evaluate(stock_model(x.merged()), held).loss for x in (learned, replace(learned, paces=()))]
    assert midpoints[0] == pytest.approx(learned.course["learning"]["midpoint"], abs=1e-9)
    assert abs(midpoints[1] - midpoints[0]) > 1e-5  # the control
    (a, b), paces = learned.forms, learned.paces[1]
    assert sum(float(x.abs().max()) > 1e-3 for own in paces.values() for x in own) > 20
    for of_a, of_b in ((0.5, 0.5), (0.7, 0.3)):
        merged = learned.merged([of_a, of_b])
        for leaf in merged:
            own = a.spec.leaves[leaf]
            odds = select(outer_sum(paces[own.key]), own).exp() * of_b / of_a  # of B's share and A's, which make one
            expected = (a[leaf] + odds * b[leaf]) / (1 + odds)
            torch.testing.assert_close(merged[leaf], expected, rtol=0, atol=1e-14)
    first, second = learned.course["learning"]["paces"]
    assert (first, second.keys()) == ({}, paces.keys())
    assert all(second[key] == pytest.approx(float(outer_sum(own).mean())) for key, own in paces.items())


def test_shares_have_no_place_on_the_path_of_circuits():
    with pytest.raises(BadRecipe, match="cannot hold shares on the circuit path"):
        LearnedMatching(learn=("shares",), path="circuit")

"""The first paper's relaxations: the scale of a stream, and soft permutations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.learning import F64, inputs_of, objective, run, share, taught_by
from onebasin import transport
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import NotInFamily
from onebasin.landscape import evaluate
from onebasin.papers.analysis import analyse
from onebasin.papers.strategies import scale_streams
from onebasin.paths import path_between
from onebasin.verification.certificate import certificate


def test_the_scale_of_the_stream_is_exact_up_to_eps(root):
    name = "GPT2LMHeadModel"
    scaled = {"learn": ("residual",), "paper": {"scale": True}}
    made, form, other = objective(root, name, two_sided=True, **scaled)
    ends = [
        scale_streams(transport(x, side.alignment(form.spec)), side.factor())
        for x, side in zip((form, other), made.sides, strict=True)
    ]
    inputs = inputs_of(form, 3)
    expected = path_between("factor", *ends).model(0.3, F64)(**inputs).logits
    torch.testing.assert_close(made.at(share(0.3))(inputs), expected, rtol=1e-11, atol=1e-11)

    learned = run(root, name, None, steps=2, **scaled)
    first, move = learned.moves
    assert move.scale == learned.course["learning"]["stream_scale"] != 1
    by = {s: replace(learned, moves=(first, replace(move, scale=s))) for s in (1.0, 1.5)}
    drift = {s: certificate(x)["output_drift"]["float64"] for s, x in by.items()}
    assert drift[1.0] < 1e-12 < drift[1.5] < 1e-3  # eps stays what it was

    with torch.no_grad():
        made.sides[0].get_parameter("scale").fill_(100.0)
        made.sides[1].get_parameter("scale").fill_(-100.0)
    assert [side.factor() for side in made.sides] == pytest.approx([4.0, 0.25])  # however far it is pushed


@pytest.mark.parametrize("two_sided", [False, True], ids=["one", "two"])
def test_the_scaled_models_as_learned_are_those_that_are_written(root, two_sided):
    """Only the ratio of two scales counts, up to eps."""
    learned = run(root, "LlamaForCausalLM", None, steps=6, eval_every=3, lr=0.1, two_sided=two_sided,
                  paper={"scale": True})  # fmt: skip
    _, held = taught_by(learned.ensemble.models[0]).split(32)
    assert abs(evaluate(stock_model(learned.merged()), held).loss - learned.course["learning"]["midpoint"]) < 1e-4
    first, move = learned.moves
    other = replace(learned, moves=(first, replace(move, scale=1.3 * move.scale)))  # the control
    assert abs(evaluate(stock_model(other.merged()), held).loss - learned.course["learning"]["midpoint"]) > 1e-3


def test_a_stream_that_norms_write_to_is_not_scaled(root):
    with pytest.raises(NotInFamily, match="The stream cannot be scaled"):
        run(root, "BertForSequenceClassification", None, paper={"scale": True})


SOFT = {"learn": ("units",), "paper": {"permutations": "soft", "noise": 0.1}}


def test_soft_permutations_leave_b_and_the_certificate_says_how_far(root):
    learned = run(root, "ViTForImageClassification", None, steps=6, eval_every=3, **SOFT)
    assert not learned.course["learning"]["function_kept"]
    assert certificate(learned)["output_drift"]["float64"] > 1e-6
    learned.alignment.check(learned.ensemble.spec)  # the hard one is a symmetry all the same
    hard = replace(learned, moves=(learned.moves[0], replace(learned.moves[1], exact=True)))
    assert certificate(hard)["output_drift"]["float64"] < 1e-9
    report = analyse(hard, learned)  # of what was learned, wherever the start is
    assert all(about["distance_from_a_permutation"] > 1e-3 for about in report.values())


@pytest.mark.parametrize("name", ["ViTForImageClassification", "GPT2LMHeadModel"])
def test_the_ends_of_a_soft_run_are_the_models_as_they_were(root, name):
    """The relaxed B is worse from the first step on, and a barrier over it would be flattered."""
    learned = run(root, name, None, steps=6, eval_every=3, **SOFT)
    _, held = taught_by(learned.ensemble.models[0]).split(32)
    losses = [evaluate(stock_model(model), held).loss for model in learned.ensemble.models]
    course = learned.course["learning"]
    assert course["ends"] == pytest.approx(losses, abs=1e-9)
    assert course["barrier"] == pytest.approx(course["midpoint"] - sum(losses) / 2, abs=1e-9)
    soft = evaluate(stock_model(learned.models[1]), held).loss
    assert abs(soft - losses[1]) > 1e-4  # the control: the model that was learned has another loss
    before = run(root, name, None, steps=1, eval_every=1, lr=0.0, **SOFT)
    assert abs(evaluate(stock_model(before.models[1]), held).loss - losses[1]) > 1e-6  # and had it from the start

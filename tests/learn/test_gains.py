"""How norms and what reads them share a gain: exact for both models, and what is written is what was learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.learning import F64, inputs_of, objective, run, share
from onebasin import transport
from onebasin.canonical.rewrites import split_gain
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import OnebasinError
from onebasin.learn.options import LearnedMatching
from onebasin.match.many import as_they_are
from onebasin.papers.analysis import analyse
from onebasin.paths import path_between
from onebasin.verification.certificate import certificate, exactness

GAINED = ("GPT2LMHeadModel", "LlamaForCausalLM", "ViTForImageClassification", "GPTNeoXForCausalLM")


SIDES = pytest.mark.parametrize("two_sided", [False, True], ids=["one", "two"])


@SIDES
@pytest.mark.parametrize("name", GAINED)
def test_the_objective_with_gains_is_the_path_between_the_moved_checkpoints(root, name, two_sided):
    made, form, other = objective(root, name, learn=("residual", "gains"), two_sided=two_sided)
    *first, side = made.sides
    moved = transport(other, side.alignment(form.spec))
    for own in first:  # only the ratio of two gains counts
        assert not own.learned_gains()
        form = transport(form, own.alignment(form.spec))
    for norm, factor in side.learned_gains().items():
        moved = split_gain(moved, norm, factor)
    inputs = inputs_of(form, 3)
    for of_b in (0.0, 0.3, 1.0):
        expected = path_between("factor", form, moved).model(of_b, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(of_b))(inputs), expected, rtol=1e-11, atol=1e-11)


@SIDES
@pytest.mark.parametrize("name", GAINED)
def test_gains_of_norms_move_and_both_models_stay_what_they_are(root, name, two_sided):
    """Both are exact, and the midpoint that is written is the one that was learned, not that of the maps alone."""
    learned = run(root, name, None, steps=6, eval_every=3, lr=0.05, learn=("residual", "gains"), two_sided=two_sided)
    (form, other), (first, move) = learned.ensemble.forms, learned.moves
    inputs = inputs_of(form, 3)
    assert all(float(factor.log().abs().max()) > 1e-3 for factor in move.gains.values())
    report = analyse(as_they_are(learned.ensemble), learned)
    assert move.gains.keys() == {x for x, norm in form.spec.norms.items() if norm.unit} <= report.keys()
    assert learned.course["learning"]["norms_with_learned_gains"] == len(move.gains)
    without = replace(learned, moves=(first, replace(move, gains={})))
    assert certificate(learned)["output_drift"]["float64"] < 1e-9
    assert exactness(learned, 0)["output_drift"]["float64"] < 1e-9
    # behind a LayerNorm, and where it has moved, A is written in canonical form
    assert (learned.reason is None) == ("Llama" in name and not two_sided)
    assert first.stays == (not two_sided)
    assert (max(first.alignment.displacement().values()) > 1e-3) == two_sided
    if two_sided:
        form = transport(form, first.alignment)
    other = transport(other, move.alignment)
    for norm, factor in move.gains.items():
        other = split_gain(other, norm, factor)
    middle = path_between("factor", form, other).model(0.5, F64)(**inputs).logits
    drifts = [(stock_model(x.merged(), F64)(**inputs).logits - middle).abs().max() for x in (learned, without)]
    assert drifts[0] < 1e-9 < 1e-6 < drifts[1]


def test_gains_that_cannot_be_folded_stay_and_where_there_are_none(root):
    made, form, _ = objective(root, "BertForSequenceClassification", learn=("gains",))  # post-norm
    assert made.sides[0].gains().keys() == {"bert.encoder.layer.1.output.LayerNorm"}
    assert sum(bool(norm.blocked) for norm in form.spec.norms.values()) == 4
    with pytest.raises(OnebasinError, match="cannot hold gains on the circuit path"):
        LearnedMatching(learn=("gains",), path="circuit")

"""What else learns beside the maps of spaces: the scale of a stream, and how norms and their readers share a gain."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.learning import F64, inputs_of, objective, open_pair, run, share
from onebasin import transport
from onebasin.aligning import same_form
from onebasin.canonical.rewrites import split_gain
from onebasin.errors import OnebasinError
from onebasin.landscape import path_between
from onebasin.learn import LearnedMatching, aligned, analyse
from onebasin.learn.learned import scale_streams
from onebasin.report.certificate import certificate, exactness
from onebasin.stock import stock_model


def test_the_scale_of_the_stream_is_exact_up_to_eps(root):
    name = "GPT2LMHeadModel"
    made, form, other = objective(root, name, learn=("residual", "scale"), two_sided=True)
    ends = [
        scale_streams(transport(x, side.alignment(form.spec)), side.factor())
        for x, side in zip((form, other), made.sides, strict=True)
    ]
    inputs = inputs_of(form, 3)
    expected = path_between("factor", *ends).model(0.3, F64)(**inputs).logits
    torch.testing.assert_close(made.at(share(0.3))(inputs), expected, rtol=1e-11, atol=1e-11)

    a, b = open_pair(root, name)
    learned = run(root, name, None, steps=2, learn=("residual", "scale"))
    drift = {s: certificate(b, aligned(a, b, replace(learned, scale=s)))["output_drift"]["float64"] for s in (1.0, 1.5)}
    assert drift[1.0] < 1e-12 < drift[1.5] < 1e-3  # eps stays what it was

    with torch.no_grad():
        made.sides[0].get_parameter("scale").fill_(100.0)
        made.sides[1].get_parameter("scale").fill_(-100.0)
    assert [side.factor() for side in made.sides] == pytest.approx([4.0, 0.25])  # however far it is pushed


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
    for weight in (0.0, 0.3, 1.0):
        expected = path_between("factor", form, moved).model(weight, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(weight))(inputs), expected, rtol=1e-11, atol=1e-11)


@SIDES
@pytest.mark.parametrize("name", GAINED)
def test_gains_of_norms_move_and_both_models_stay_what_they_are(root, name, two_sided):
    """Both are exact, and the midpoint that is written is the one that was learned, not that of the maps alone."""
    a, b = open_pair(root, name)
    form, other = same_form(a, b)
    inputs = inputs_of(form, 3)
    learned = run(root, name, None, steps=6, eval_every=3, lr=0.05, learn=("residual", "gains"), two_sided=two_sided)
    assert all(float(factor.log().abs().max()) > 1e-3 for factor in learned.gains.values())
    assert learned.gains.keys() == {x for x, norm in form.spec.norms.items() if norm.unit} <= analyse(learned).keys()
    pair, without = aligned(a, b, learned), aligned(a, b, replace(learned, gains={}))
    assert certificate(b, pair)["output_drift"]["float64"] < 1e-9
    assert exactness(a, pair.a)["output_drift"]["float64"] < 1e-9
    # behind a LayerNorm, and where it has moved, A is written in canonical form
    assert (pair.reason is None) == ("Llama" in name and not two_sided)
    assert (learned.frame is not None) == two_sided
    if learned.frame is not None:
        assert learned.frame.maps[next(iter(learned.frame.maps))].distance() > 1e-3
        form = transport(form, learned.frame)
    middle = path_between("factor", form, learned.moved(other)).model(0.5, F64)(**inputs).logits
    drifts = [(stock_model(x.midpoint(), F64)(**inputs).logits - middle).abs().max() for x in (pair, without)]
    assert drifts[0] < 1e-9 < 1e-6 < drifts[1]


def test_gains_that_cannot_be_folded_stay_and_where_there_are_none(root):
    made, form, _ = objective(root, "BertForSequenceClassification", learn=("gains",))  # post-norm
    assert made.sides[0].gains().keys() == {"bert.encoder.layer.1.output.LayerNorm"}
    assert sum(bool(norm.blocked) for norm in form.spec.norms.values()) == 4
    with pytest.raises(OnebasinError, match="canonical forms"):  # which have none
        LearnedMatching(learn=("gains",), path="circuit")

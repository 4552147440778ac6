"""A distance of weights has one meaning: from A's canonical form, whatever the method moved, before and after."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from helpers.tiny import predicted
from onebasin import Alignment, transport
from onebasin.checkpoint.stock import stock_model
from onebasin.ensemble.aligned import Aligned, Move
from onebasin.ensemble.ensemble import Ensemble
from onebasin.methods.activation import Activation
from onebasin.methods.learned import Learned
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight

FEW = {"steps": 2, "batch": 8, "eval_every": 2, "compile": "off", "lr": 0.05}
METHODS = {
    "weight": Weight(),
    "activation": Activation(),
    "learned": Learned(**FEW),
    "both sides": Learned(two_sided=True, **FEW),
    "both sides and gains": Learned(two_sided=True, learn=("residual", "gains"), **FEW),
}


@pytest.fixture(scope="module")
def pair(tiny):
    return Ensemble.of(tiny("LlamaForCausalLM"))


def by_hand(ensemble: Ensemble, aligned_b) -> float:
    """√(Σ w |A − B|² / Σ w |A|²), with w from A alone."""
    a = ensemble.forms[0]
    size = {name: float(a[name].square().sum()) for name in a}
    middle = float(torch.tensor([size[name] for name in a if a[name].ndim > 1]).double().quantile(0.5))
    w = {name: (x + 0.1 * middle) ** -0.5 for name, x in size.items()}
    apart = sum(w[name] * float((a[name] - aligned_b[name]).square().sum()) for name in a)
    return math.sqrt(apart / sum(w[name] * x for name, x in size.items()))


@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_same_number_by_every_method(tiny, pair, method):
    a = tiny("LlamaForCausalLM")[0]
    data = predicted(stock_model(a), a, batch=40)
    found = METHODS[method].run(pair, data, Job(torch.device("cpu")))
    before, after = found.distances()
    assert before == pytest.approx(by_hand(pair, pair.forms[1]), rel=1e-3)  # the median of an even number
    back = found.alignments[0].inverse().compose(found.alignments[1])
    assert after == pytest.approx(by_hand(pair, transport(pair.forms[1], back)), rel=1e-3)
    assert before != pytest.approx(after, rel=1e-3)


def test_it_does_not_depend_on_the_basis_of_both(pair):
    spec, frame = pair.spec, Alignment.random(pair.spec, 5)
    g = Alignment.random(spec, 6)
    still = Aligned(pair, (Move(Alignment.identity(spec), stays=True), Move(g)))
    moved = Aligned(pair, (Move(frame), Move(frame.compose(g))))
    assert moved.distances() == pytest.approx(still.distances(), rel=1e-9)
    apart = [math.sqrt(sum(float((a[x] - b[x]).square().sum()) for x in a)) for a, b in (still.forms, moved.forms)]
    assert apart[0] != pytest.approx(apart[1], rel=1e-3)  # the control: as they lie, the two differ
    norm = next(name for name, norm in spec.norms.items() if norm.unit)
    gains = {norm: torch.full((spec.spaces[spec.norms[norm].space].size,), 3.0, dtype=torch.float64)}
    gained = replace(still, moves=(still.moves[0], replace(still.moves[1], gains=gains)))
    assert gained.distances() == still.distances()


def test_a_model_has_no_distance_from_itself(pair):
    assert pair.distance(pair.forms[0]) == 0
    assert pair.distance(pair.forms[1]) > 1


def test_the_centre_is_the_mean_and_its_spread_the_sum_of_weighted_squares(pair):
    forms = [*pair.forms, transport(pair.forms[1], Alignment.random(pair.spec, 4))]
    mean, spread = pair.centre(forms)
    means = {name: sum(form[name] for form in forms) / 3 for name in forms[0]}
    for name, expected in means.items():
        torch.testing.assert_close(mean[name], expected, rtol=0, atol=1e-13)
    squares = [pair.emphasis[x] * float((form[x] - means[x]).square().sum()) for form in forms for x in means]
    assert spread == pytest.approx(sum(squares), rel=1e-12)
    assert spread > 1e-3

"""What `verify` calls a promise that holds: every drift counts, and so do outputs that are not numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import onebasin
from helpers.random_models import config_of, random_model
from onebasin.verification.verify import Verification

HOLDS = Verification(
    drift={"float64": 1e-14, "float32": 1e-5},
    rounding={"float64": 0.0, "float32": 1e-5},
    per_space={"residual": 1e-14, "layers.0.ffn": 1e-14},
    displacement={"residual": 1.0},
    scale=0.5,
    refused=(),
)


@pytest.mark.parametrize("drift", [1e-8, 1e-6, 1.0, math.inf])
@pytest.mark.parametrize("where", ["all", "residual", "layers.0.ffn"])
def test_a_drift_breaks_the_promise_wherever_it_is(where, drift):
    assert HOLDS.holds
    broken = {"drift": {**HOLDS.drift, "float64": drift}}
    if where != "all":
        broken = {"per_space": {**HOLDS.per_space, where: drift}}
    assert not replace(HOLDS, **broken).holds


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_does_not_break_the_promise(dtype):
    assert replace(HOLDS, drift={**HOLDS.drift, dtype: 0.1}).holds


def test_the_promise_is_relative_to_outputs_larger_than_one():
    large = replace(HOLDS, drift={"float64": 5e-9})
    assert [replace(large, scale=scale).holds for scale in (0.1, 1.0, 4.0, 6.0)] == [False, False, False, True]


def test_outputs_that_are_not_numbers_break_the_promise():
    model = random_model("GPT2LMHeadModel", config_of("gpt2", 2), 0)
    assert onebasin.verify(model).holds
    with torch.no_grad():
        model.lm_head.weight[3, 2] = math.nan
    found = onebasin.verify(model)
    assert found.drift["float64"] == math.inf
    assert not found.holds


def test_infinite_outputs_break_the_promise():
    """A drift of infinity is not small beside outputs of infinity."""
    infinite = {"drift": {**HOLDS.drift, "float64": math.inf}, "scale": math.inf}
    assert not replace(HOLDS, **infinite).holds
    assert not replace(HOLDS, scale=math.inf).holds

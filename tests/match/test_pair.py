"""What a pair of models says of itself before it is matched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from onebasin.match.pair import CONDITION, largest_condition


def stored(*kinds: str) -> SimpleNamespace:
    return SimpleNamespace(stored={str(i): ("key", kind) for i, kind in enumerate(kinds)})


@pytest.mark.parametrize(("kind", "dtype"), [("BF16", torch.bfloat16), ("F16", torch.float16)])
def test_the_weakest_direction_is_one_that_the_coarsest_dtype_still_sees(kind, dtype):
    one = torch.ones((), dtype=dtype)
    for a, b in ((stored(kind), stored("F32")), (stored("F64", kind), stored(kind))):
        condition = largest_condition(a, b)
        assert largest_condition(b, a) == condition < CONDITION
        assert one + 1 / condition > one
        assert one + 1 / (2 * condition) == one


def test_fine_dtypes_are_not_used_up():
    assert largest_condition(stored("F32"), stored("F64")) == CONDITION

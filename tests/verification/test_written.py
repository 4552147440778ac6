"""Where rounding begins to be told, and from where on a file is refused."""

from __future__ import annotations

import pytest

from onebasin.errors import BrokenPromise
from onebasin.verification.written import LOST, NOTABLE, check_written


@pytest.mark.parametrize("largest", [1.0, 8.0])
def test_the_bounds_of_rounding_are_shares_of_the_largest_output(recwarn, largest):
    def check(share: float) -> None:
        check_written({"dtype": "float16", "drift": share * largest, "largest_output": largest})

    check(0.0)
    check(NOTABLE)
    assert not recwarn
    check(NOTABLE * 1.001)
    check(LOST * 0.999)
    assert len(recwarn) == 2
    assert "--dtype" not in str(recwarn[0].message)
    for share in (LOST, 3.0):
        with pytest.raises(BrokenPromise) as caught:
            check(share)
        assert (caught.value.expected, caught.value.found) == ("less than 50% of the largest output", f"{share:.0%}")
        assert caught.value.next_step.endswith("--dtype")


def test_outputs_that_are_all_zero_are_lost_by_any_drift():
    check_written({"dtype": "float16", "drift": 0.0, "largest_output": 0.0})

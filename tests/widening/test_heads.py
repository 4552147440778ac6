"""Where the coordinates of a head go in a wider one."""

from __future__ import annotations

import pytest

from onebasin.errors import NotExpressible
from onebasin.widening.heads import padded, rotary


@pytest.mark.parametrize(("n", "m"), [(4, 4), (4, 8), (4, 12), (6, 12)])
def test_every_coordinate_has_one_place_and_the_others_have_none(n, m):
    plain, turned = padded(n, m), rotary("qk", n, m, geometric=True)
    assert plain[:n] == tuple(range(n))
    assert sorted(plain) == sorted(turned)
    assert [x for x in turned if x not in range(n)] == [-1] * (m - n)


@pytest.mark.parametrize(("n", "m"), [(2, 4), (4, 8), (6, 18)])
def test_pairs_keep_their_frequencies(n, m):
    source = rotary("qk", n, m, geometric=True)
    for k in range(m // 2):
        pair = source[k], source[k + m // 2]
        assert pair == (-1, -1) or (pair == (pair[0], pair[0] + n // 2) and pair[0] * m == k * n)


@pytest.mark.parametrize(("m", "geometric"), [(6, True), (8, False)])
def test_frequencies_that_are_not_there_are_refused(m, geometric):
    with pytest.raises(NotExpressible, match="rotary frequencies"):
        rotary("qk", 4, m, geometric)
    assert rotary("qk", 4, 4, geometric) == padded(4, 4)

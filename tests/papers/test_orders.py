"""Heads in an order given by hand: the same function in any order, and near only in the right one."""

from __future__ import annotations

import pytest
import torch

from helpers.matching import match
from helpers.pairs import apart, open_random, scrambled
from onebasin import canonicalize, transport
from onebasin.errors import BadRecipe
from onebasin.match.pair import Pair
from onebasin.papers.orders import head_spaces, reordered


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "bert"])
def test_any_order_is_exact_and_only_the_right_one_is_near(tmp_path, kind):
    a = canonicalize(open_random(tmp_path, kind, 3, 0, hidden_act="gelu")).checkpoint.in_memory()
    b = scrambled(a, 5)
    pair = Pair.of(a, b)
    found, heads = match(pair).alignment, head_spaces(a.spec)[0]
    size = a.spec.spaces[heads].size
    right, swapped = (reordered(pair, found, heads, order) for order in (range(size), [1, 0, *range(2, size)]))
    index = [x[heads].tensors()["index"].tolist() for x in (found, right, swapped)]
    assert index[1] == index[0]
    assert index[2] == [index[0][1], index[0][0], *index[0][2:]]
    assert all(g.dense().dtype == torch.float64 for g in swapped.maps.values())
    assert all(apart(a, transport(b, x).in_memory()) < 1e-9 for x in (right, swapped))
    near, far = (sum(pair.distance(x.maps, leaf) for leaf in a.spec.leaves.values()) for x in (right, swapped))
    assert near < 1e-12 < 1e-3 < far


def test_what_is_no_order_is_refused(tmp_path):
    a = canonicalize(open_random(tmp_path, "gpt2", 3, 0)).checkpoint.in_memory()
    pair = Pair.of(a, a)
    with pytest.raises(BadRecipe, match="no order"):
        reordered(pair, match(pair).alignment, head_spaces(a.spec)[0], [0, 0])

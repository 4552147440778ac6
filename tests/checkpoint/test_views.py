"""Leaves in their stored tensor: rows of their own, coordinates in turns, numbers stored less one."""

from __future__ import annotations

import pytest
import torch

from onebasin.checkpoint.views import as_stored, read_leaf, select, write_leaf
from onebasin.errors import LayoutMismatch, UnclaimedTensor
from onebasin.spec import Builder, Head, ModelSpec, Tokens


def table(*, rows: int = 12, plus: float = 0.0) -> ModelSpec:
    """Queries (3 groups of 2, width 2) above keys (3, width 2), which begin at `rows`; and a gain."""
    s = Builder("", Head(), False, Tokens(5, 5), {"v": 5})
    d, n = s.space("residual", 4), s.space("kv_heads", 3)
    g, k = s.space("queries", 2, base=n), s.space("qk", 2, base=n)
    s.linear("qkv", "d -> (n g k)", part="query", bias=False, n=n, g=g, k=k, d=d.co)
    s.linear("qkv", "d -> (n k)", part="key", start=rows, bias=False, n=n, k=k.co, d=d.co)
    s.norm("rms", "norm", d, 1e-5, plus=plus)
    s.leaf("turned", "(n k)", n=n, k=s.space("wide", 6, base=n).in_turns)
    return s.build("t", "T", (), ())


def test_every_leaf_is_written_where_it_is_read():
    spec = table(plus=1.0)
    assert spec.leaves["norm.weight"].whole
    for key, shape in spec.keys.items():
        stored, again = torch.randn(shape, dtype=torch.float64), torch.full(shape, torch.nan, dtype=torch.float64)
        for leaf in spec.parts[key]:
            write_leaf(again, leaf, read_leaf(stored, leaf))
        assert torch.allclose(again, stored, rtol=0, atol=1e-15)
        for leaf in (leaf for leaf in spec.parts[key] if leaf.whole and leaf.view.shape == shape):
            assert torch.equal(as_stored(read_leaf(stored, leaf), leaf), again)


def test_parts_of_unequal_size_lie_one_below_the_other():
    spec = table()
    assert spec.keys["qkv.weight"] == (18, 4)
    stored = torch.arange(72.0).reshape(18, 4)
    assert torch.equal(read_leaf(stored, spec.leaves["qkv.weight:query"]).flatten(), stored[:12].flatten().double())
    assert torch.equal(read_leaf(stored, spec.leaves["qkv.weight:key"]).flatten(), stored[12:].flatten().double())


@pytest.mark.parametrize("rows", [11, 13])
def test_rows_that_are_claimed_twice_or_not_at_all_are_refused(rows):
    with pytest.raises((LayoutMismatch, UnclaimedTensor), match="rows"):
        table(rows=rows)


def test_neighbours_are_the_halves_of_a_space():
    leaf = table().leaves["turned"]
    assert read_leaf(torch.arange(18.0), leaf)[0].tolist() == [0, 2, 4, 1, 3, 5]


def test_a_gain_may_be_stored_less_one():
    leaf = table(plus=1.0).leaves["norm.weight"]
    assert read_leaf(torch.tensor([0.0, 0.5, -1.0, 2.0]), leaf).tolist() == [1.0, 1.5, 0.0, 3.0]


def test_what_is_read_is_a_copy():
    """Tensors of files stay in memory and are read again."""
    spec = table()
    for name, leaf in spec.leaves.items():
        stored = torch.ones(spec.keys[leaf.key], dtype=torch.float64)
        read_leaf(stored, leaf).zero_()
        assert stored.all(), name
    gain = torch.ones(4, dtype=torch.float64)
    select(gain, spec.leaves["norm.weight"]).zero_()  # which shows the tensor itself
    assert not gain.any()

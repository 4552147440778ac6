"""How large blocks are: the product of both norms, of every leaf and of the circuits of every space inside heads."""

from __future__ import annotations

import pytest
import torch

from helpers.pairs import open_random
from onebasin import canonicalize
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.sizes import Sizes


def test_sizes_are_products_of_norms(tmp_path):
    a, b = (canonicalize(open_random(tmp_path / str(w), "gpt2", 1, w)).checkpoint.in_memory() for w in (0, 1))
    sizes = Sizes.of(Pages.of(a, b))
    assert sizes.leaves == {x: pytest.approx(float(a[x].norm() * b[x].norm())) for x in a}
    assert set(sizes.matrices) == {name for name in a if a[name].ndim > 1} < set(a)
    value, output = "transformer.h.0.attn.c_attn.weight:value", "transformer.h.0.attn.c_proj.weight"

    def circuits(form) -> torch.Tensor:
        """V and O of every head as one matrix D × D, biases left out: they are zero in canonical form."""
        v, o = (form[name].movedim(form.spec.leaves[name].dim("residual"), -1) for name in (value, output))
        return torch.einsum("hkx,hky->hxy", v, o)

    assert sizes.circuits["layers.0.ov"] == pytest.approx(float(circuits(a).norm() * circuits(b).norm()))
    count, width = a.spec.spaces["layers.0.heads"].size, a.spec.spaces["residual"].size
    assert sizes.columns["layers.0.ov"] in (count * width, count * (width + 1))  # one more with a bias


def test_a_page_says_what_lies_on_it(tmp_path):
    a, b = (canonicalize(open_random(tmp_path / str(w), "llama", 1, w)).checkpoint.in_memory() for w in (0, 1))
    whole = Sizes(a.spec)
    whole.add(Pair.of(a, b))
    paged = Sizes.of(Pages.of(a, b, keep=False))
    assert whole.leaves.keys() == paged.leaves.keys()
    assert whole.columns == paged.columns
    assert whole.circuits == pytest.approx(paged.circuits)

"""Distances between heads, against what they mean for the circuits written out as matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from onebasin.match.circuits import Circuits
from onebasin.papers.matching import METRICS

HEADS, QUERIES, INSIDE, FEATURES = 3, 2, 4, 5


def circuits(seed: int, *, rotary: bool) -> Circuits:
    """Of grouped queries and one key for each group; the first head of all reads and writes nothing."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.complex128 if rotary else torch.float64
    left, right = (
        torch.randn(HEADS, group, INSIDE, FEATURES, generator=generator, dtype=kind) for group in (QUERIES, 1)
    )
    left[0, 0] = 0
    return Circuits(left, right, rotary)


def matrices(found: Circuits) -> Tensor:
    """(heads, pairs, F, F): one matrix for each head, or under rotary positions one for each frequency pair."""
    right = found.right.expand_as(found.left)
    if found.rotary:
        return torch.einsum("hgkx,hgky->hgkxy", found.left.conj(), right).flatten(0, 1)
    return torch.einsum("hgkx,hgky->hgxy", found.left, right).flatten(0, 1).unsqueeze(1)


def unit(e: Tensor) -> Tensor:
    size = e.norm()
    return e / size if size > 0 else e


DEFINITIONS = {
    "frobenius-squared": lambda e, f: (e - f).norm() ** 2,
    "frobenius": lambda e, f: (e - f).norm(),
    "cosine": lambda e, f: 1 - (unit(e).conj() * unit(f)).real.sum(),
    "normalised": lambda e, f: (2 - 2 * (unit(e).conj() * unit(f)).real.sum()).sqrt(),
    "spectral": lambda e, f: torch.linalg.matrix_norm(e - f, ord=2).max(),
}


@pytest.mark.parametrize("rotary", [False, True], ids=["dense", "rotary"])
@pytest.mark.parametrize("metric", METRICS)
def test_every_distance_is_what_it_says(metric, rotary):
    a, b = circuits(0, rotary=rotary), circuits(1, rotary=rotary)
    expected = torch.stack([torch.stack([DEFINITIONS[metric](e, f) for f in matrices(b)]) for e in matrices(a)])
    found = METRICS[metric](a, b).reshape(HEADS * QUERIES, HEADS * QUERIES)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)

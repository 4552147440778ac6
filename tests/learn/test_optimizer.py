"""The optimisers of latents and their rates.

Of orthogonalised momentum: what a step is, that it follows the basis, and that other latents take Adam's.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from onebasin.learn.optimizer import Muon, orthogonalised, rate
from onebasin.learn.options import LearnedMatching

F64 = torch.float64


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def rotation(n: int, seed: int) -> torch.Tensor:
    return torch.linalg.qr(drawn(n, n, seed=seed))[0]


@pytest.mark.parametrize("shape", [(12, 12), (3, 8, 8)])
def test_singular_values_become_nearly_one_and_their_vectors_stay(shape):
    x = drawn(*shape)
    found = orthogonalised(x)
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.6
    assert values.max() < 1.3
    assert torch.linalg.svdvals(x).min() < 0.6  # the control
    u, _, vh = torch.linalg.svd(x)
    inside = u.mT @ found @ vh.mT
    torch.testing.assert_close(inside, torch.diag_embed(inside.diagonal(dim1=-2, dim2=-1)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [0.0, 1e-42, 1e-38, 1e-25, 1e-20])
def test_latents_stay_where_there_is_no_gradient_to_speak_of(size):
    """Squares of the entries may underflow; in one stack a matrix with a gradient moves as ever."""
    x = drawn(2, 6, 6).float() * torch.tensor([size, 1.0])[:, None, None]
    nothing, step = orthogonalised(x)
    assert nothing.abs().max() < 1e-5
    assert torch.linalg.svdvals(step).min() > 0.6


def test_a_skew_gradient_gives_a_skew_step():
    z = drawn(9, 9)
    step = orthogonalised(z - z.mT)
    torch.testing.assert_close(step, -step.mT, rtol=0, atol=1e-12)


def moved(kind, start: torch.Tensor, gradients: list[torch.Tensor], **options) -> torch.Tensor:
    z = torch.nn.Parameter(start.clone())
    optimizer = kind([z], lr=0.1, **options)
    for gradient in gradients:
        z.grad = gradient.clone()
        optimizer.step()
    return z.detach()


def test_steps_follow_a_change_of_basis():
    """Both sides of Z rotated, the steps rotate along; Adam's do not."""
    q, r, gradients = rotation(10, 1), rotation(10, 2), [drawn(10, 10, seed=s) for s in range(4)]
    turned = [q @ g @ r.mT for g in gradients]
    start = drawn(10, 10, seed=9)
    for kind, follows in ((Muon, True), (torch.optim.Adam, False)):
        there = q @ moved(kind, start, gradients) @ r.mT
        assert torch.allclose(there, moved(kind, q @ start @ r.mT, turned), atol=1e-9) == follows


def test_what_is_no_matrix_takes_the_step_of_adamw():
    gradients = [drawn(3, 7, seed=s) for s in range(5)]
    start = drawn(3, 7, seed=8)
    found = moved(Muon, start, gradients, weight_decay=0.3)
    torch.testing.assert_close(found, moved(torch.optim.AdamW, start, gradients, weight_decay=0.3), rtol=1e-12, atol=0)


def test_without_a_gradient_nothing_moves():
    z, still = torch.nn.Parameter(drawn(4, 4)), torch.nn.Parameter(drawn(4, 4))
    before, z.grad = still.detach().clone(), drawn(4, 4)
    Muon([z, still], lr=0.1, weight_decay=0.5).step()
    assert still.equal(before)
    assert not z.equal(drawn(4, 4))


def test_a_zero_gradient_is_no_direction():
    assert not orthogonalised(torch.zeros(5, 5, dtype=F64)).any()


def test_rates():
    options = LearnedMatching(steps=100, warmup=0.1)
    rates = [rate(step, options) for step in range(100)]
    assert all(x < y for x, y in pairwise(rates[:11]))
    assert rates[10] == 1
    assert all(x > y for x, y in pairwise(rates[10:]))
    assert 0 < rates[-1] < 0.01
    assert rate(0, LearnedMatching(steps=100, warmup=0)) == 1  # without a warm-up at once


def test_every_matrix_of_a_stack_is_orthogonalised_by_itself():
    x = torch.randn(2, 6, 6, dtype=F64, generator=torch.Generator().manual_seed(0))
    x[1] *= 1e-4
    torch.testing.assert_close(orthogonalised(x), torch.stack([orthogonalised(each) for each in x]))

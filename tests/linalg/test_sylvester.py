"""Sylvester equations: solved with bases of the same, of near and of far matrices."""

from __future__ import annotations

import pytest
import torch

from onebasin.linalg import sylvester
from onebasin.linalg.sylvester import Sylvester


def positive(f: int, d: int, seed: int, rank: int | None = None) -> torch.Tensor:
    torch.manual_seed(seed)
    root = torch.randn(f, d, rank or 2 * d, dtype=torch.float64)
    return root @ root.mT


def error(w, v, s, right, damping) -> torch.Tensor:
    """|W S + S V + δ S − R| relative to |R|, with δ by the matrices themselves."""
    top = torch.linalg.eigvalsh(w).amax(-1) + torch.linalg.eigvalsh(v).amax(-1)
    residual = w @ s + s @ v + (damping * top)[:, None, None] * s - right
    return residual.norm(dim=(-2, -1)) / right.norm(dim=(-2, -1))


@pytest.fixture
def problem():
    torch.manual_seed(3)
    w, v, right = positive(5, 8, 0), positive(5, 8, 1), torch.randn(5, 8, 8, dtype=torch.float64)
    return w, v, right, torch.tensor([0.0, 1e-3, 0.1, 1.0, 1e-6], dtype=torch.float64)


def test_bases_of_the_same_matrices_solve_at_once(problem, monkeypatch):
    monkeypatch.setattr(sylvester, "ITERATIONS", 1)
    w, v, right, damping = problem
    assert error(w, v, Sylvester(w, v).solve(w, v, right, damping), right, damping).max() < 1e-12


def test_bases_of_near_matrices_need_a_few_steps_more(problem, monkeypatch):
    w, v, right, _ = problem
    none = torch.zeros(5, dtype=torch.float64)
    near = Sylvester(w + 0.3 * positive(5, 8, 4), v + 0.3 * positive(5, 8, 5))
    before = near.basis_w.clone()
    assert error(w, v, near.solve(w, v, right, none), right, none).max() < 1e-3
    assert torch.equal(near.basis_w, before)  # no new ones
    assert error(w, v, near._nearly(right, none[:, None, None]), right, none).min() > 0.05  # bases alone: not enough


def test_bases_that_no_longer_serve_are_made_anew(problem, monkeypatch):
    monkeypatch.setattr(sylvester, "ITERATIONS", 3)
    w, v, right, damping = problem
    bases_w, bases_v = w.clone(), v.clone()
    bases_w[2], bases_v[2] = positive(1, 8, 8)[0] * 100, positive(1, 8, 9)[0]
    stale = Sylvester(bases_w, bases_v)
    found = stale.solve(w, v, right, torch.zeros_like(damping))
    assert error(w, v, found, right, torch.zeros_like(damping)).max() < 1e-12
    assert torch.allclose(stale.basis_w[2] * stale.q[2, None, :] @ stale.basis_w[2].mT, w[2])
    assert torch.allclose(stale.basis_v[2] * stale.p[2, None, :] @ stale.basis_v[2].mT, v[2])


def test_what_neither_side_sees_is_left_alone():
    w, v = positive(2, 6, 0, rank=3), positive(2, 6, 1, rank=3)
    torch.manual_seed(2)
    found = Sylvester(w, v).solve(w, v, torch.randn(2, 6, 6, dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    blind_w, blind_v = torch.linalg.eigh(w)[1][..., :3], torch.linalg.eigh(v)[1][..., :3]
    assert (blind_w.mT @ found @ blind_v).abs().max() < 1e-10
    assert found.abs().max() > 1e-3


def test_some_of_a_batch_go_on(problem):
    w, v, right, damping = problem
    rest = torch.tensor([True, False, True, False, True])
    equation = Sylvester(w, v)
    whole = equation.solve(w, v, right, damping)
    equation.take(rest)
    assert torch.allclose(equation.solve(w[rest], v[rest], right[rest], damping[rest]), whole[rest])


def test_nothing_to_solve_is_zero(problem):
    w, v, right, damping = problem
    assert torch.equal(Sylvester(w, v).solve(w, v, 0 * right, damping), 0 * right)

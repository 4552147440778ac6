"""Two-sided problems: a map acts on one set of vectors as g and on another as g^-T, and both should land on target.

    min over g of  |A_v − g B_v|² + |A_c − g^-T B_c|²

This is what is left inside a head once heads are matched (second paper, stage 2), with v the queries and c the keys, or
v the values and c the outputs; with a scalar g it is the free scale of a unit (`scales.py`).  Only second moments
enter, C = A Bᵀ and G = B Bᵀ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from onebasin.linalg.inverses import invert
from onebasin.linalg.orthogonal import polar
from onebasin.linalg.sylvester import Sylvester

Moments = tuple[Tensor, ...]  # C and G of the vectors, C and G of the covectors

WINDOWS = 9  # tried for the singular values of a map that is to be better conditioned
RANK = 1e-8  # least eigenvalue of a second moment relative to the largest that is not taken for nothing
FLOOR = 1e-4  # least singular value, likewise, of a map to start from
SPREAD = 1e-6  # least singular value relative to the largest at which the square still has digits enough


def two_sided_distance(g: Tensor, cross_v: Tensor, gram_v: Tensor, cross_c: Tensor, gram_c: Tensor) -> Tensor:
    """The objective up to the constant |A_v|² + |A_c|²; batched."""
    return _Point.at(g, (cross_v, gram_v, cross_c, gram_c)).height


class _Point(NamedTuple):
    """A map g with what both the objective and the next step need: y = g^-T, g G_v, y G_c and the height."""

    g: Tensor
    y: Tensor
    seen_v: Tensor
    seen_c: Tensor
    height: Tensor

    @classmethod
    def at(cls, g: Tensor, moments: Moments) -> _Point:
        cross_v, gram_v, cross_c, gram_c = moments
        y = torch.linalg.inv(g).mT
        seen_v, seen_c = g @ gram_v, y @ gram_c
        height = ((seen_v - 2 * cross_v) * g).sum((-2, -1)) + ((seen_c - 2 * cross_c) * y).sum((-2, -1))
        return cls(g, y, seen_v, seen_c, height)

    def take(self, index: Tensor) -> _Point:
        return _Point(*(x[index] for x in self))

    def put(self, index: Tensor, other: _Point) -> None:
        for mine, theirs in zip(self, other, strict=True):
            mine[index] = theirs[index]


def two_sided(
    cross_v: Tensor, gram_v: Tensor, cross_c: Tensor, gram_c: Tensor, *,
    start: Tensor | None = None, condition: float = math.inf, steps: int = 20, tol: float = 1e-7,
) -> Tensor:  # fmt: skip
    """argmin over invertible g, (f, d, d), by damped Gauss–Newton from the best of three closed forms and `start`.

    With g ← (I + S) g the residuals are linear in S to first order, and S solves the Sylvester equation
    (W Wᵀ) S + S (V Vᵀ) = R_v Vᵀ − W R_cᵀ,  V = g B_v, W = g^-T B_c.
    The step neglects curvature from the residuals: convergence is quadratic where the models agree, linear where they
    do not.  Directions that neither side can see are not moved.  A direction that one side hardly sees still drives g
    to extremes, so g is drawn in to `condition` at the end.  A step that raises the objective is not taken; a head is
    done when a step gains `tol` or less.  Cost: d³ per head and step; a CPU makes new eigenbases for every step, and a
    GPU, which takes milliseconds for the eigenvectors of each head, keeps those of the first.
    """
    moments: Moments = (cross_v, gram_v, cross_c, gram_c)
    whole, solved = moments, _best_start(moments, start)
    here, active = _Point.at(solved.clone(), moments), torch.arange(len(solved), device=solved.device)
    damping = torch.full_like(here.height, 1e-3)
    equation = None
    for _ in range(steps):
        ww, vv, right = _equation(here, moments)
        if equation is None or not ww.is_cuda:
            equation = Sylvester(ww, vv)
        there = _Point.at(here.g + equation.solve(ww, vv, right, damping) @ here.g, moments)
        gain = (here.height - there.height).nan_to_num(nan=-torch.inf)
        explained = (here.g * moments[0]).sum((-2, -1)).abs()
        better = gain > 0
        here.put(better, there)
        damping = damping * torch.where(better, 0.2, 5.0)
        done = torch.where(better, gain <= tol * explained, damping > 1e6)
        if done.any():
            solved[active] = here.g
            active, damping, here = active[~done], damping[~done], here.take(~done)
            moments = tuple(x[~done] for x in moments)
            equation.take(~done)
        if not len(active):
            break
    solved[active] = here.g
    return solved if math.isinf(condition) else _drawn_in(solved, whole, condition)


def _equation(here: _Point, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
    """W Wᵀ, V Vᵀ and R_v Vᵀ − W R_cᵀ."""
    cross_v, _, cross_c, _ = moments
    vv, ww = here.seen_v @ here.g.mT, here.seen_c @ here.y.mT
    return ww, vv, (cross_v @ here.g.mT - vv) - (cross_c @ here.y.mT - ww).mT


def _best_start(moments: Moments, known: Tensor | None) -> Tensor:
    """The best of: orthogonal Procrustes on both sides, least squares on the first, on the second, a known map."""
    cross_v, gram_v, cross_c, gram_c = moments
    orthogonal = polar(cross_v + cross_c)
    first, second = _least_squares(cross_v, gram_v, orthogonal), _least_squares(cross_c, gram_c, orthogonal)
    starts = [orthogonal, first, torch.linalg.inv(second).mT, *([] if known is None else [known])]
    return _best(starts, moments)


def _best(maps: list[Tensor], moments: Moments) -> Tensor:
    """Of several maps the one with the lowest objective, head by head."""
    heights = torch.stack([_Point.at(g, moments).height for g in maps])
    best = heights.nan_to_num(nan=torch.inf).argmin(0)
    return torch.stack(maps).gather(0, best[None, ..., None, None].expand(1, *maps[0].shape)).squeeze(0)


def _least_squares(cross: Tensor, gram: Tensor, fallback: Tensor) -> Tensor:
    """C G^-1 on the numerical row space, completed to a well-conditioned map elsewhere."""
    inverse, doubtful = invert(gram, 1 / RANK)
    if doubtful.any():
        inverse[doubtful] = torch.linalg.pinv(gram[doubtful], hermitian=True, rtol=RANK)
    found = cross @ inverse
    _, doubtful = invert(found, 1 / FLOOR)
    if doubtful.any():
        found[doubtful] = _mended(found[doubtful], fallback[doubtful])
    return found


def _mended(g: Tensor, fallback: Tensor) -> Tensor:
    """g with no singular value far below its largest."""
    left, sizes, right = _singular(g)
    floor = FLOOR * sizes[..., :1].clamp_min(torch.finfo(sizes.dtype).tiny)
    usable = torch.isfinite(g).all(-1).all(-1) & (sizes[..., 0] > 0)
    mended = left * sizes.clamp_min(floor).unsqueeze(-2) @ right
    return torch.where(usable[..., None, None], mended, fallback)


def _singular(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """g = U diag(s) Wᵀ from the eigenvectors of gᵀg, which come faster in batches; where s spreads too far, by SVD."""
    squares, basis = torch.linalg.eigh(g.mT @ g)
    sizes, right = squares.clamp_min(0).sqrt().flip(-1), basis.flip(-1).mT.contiguous()
    left = g @ right.mT / sizes.unsqueeze(-2)
    far = ~(sizes[..., -1] > SPREAD * sizes[..., 0])
    if far.any():
        left[far], sizes[far], right[far] = torch.linalg.svd(g[far])
    return left, sizes, right


def _drawn_in(g: Tensor, moments: Moments, condition: float) -> Tensor:
    """g with singular values in a window [s, s · condition] where they lie further apart: in the best of a few windows.

    Extremes cost nothing on the side that does not see them, which may be that of the large or of the small ones.
    """
    if not invert(g, condition)[1].any():
        return g
    left, sizes, right = _singular(g)
    sizes = sizes.clamp_min(torch.finfo(sizes.dtype).tiny)
    wide = sizes[..., :1] > condition * sizes[..., -1:]
    if not wide.any():
        return g
    lowest, highest = sizes[..., -1:], sizes[..., :1] / condition
    floors = [lowest ** (1 - t) * highest**t for t in torch.linspace(0, 1, WINDOWS).tolist()]
    within = [left * sizes.clamp(floor, floor * condition).unsqueeze(-2) @ right for floor in floors]
    return torch.where(wide.unsqueeze(-1), _best(within, moments), g)

"""Shares of units that are split: the convex part of a semi-permutation (first paper, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from onebasin.linalg.scales import positive_scale

HALVINGS = 60  # of the interval that holds a price
EDGE = 1e-9  # of what counts as nothing: a share, or a difference beside a sum


@dataclass(frozen=True)
class Sides:
    """What rows and the units they take have in common: C_v, G_v of what they read, C_c, G_c of what they write.

    A row that takes a unit as s, t has the share s t of it, and costs  G_v s² − 2 C_v s + G_c t² − 2 C_c t  beside one
    that takes nothing.  Where scales are `free`, s and t are (of both signs where `signed`), else s = 1.  All tensors
    have one shape, or shapes that broadcast.
    """

    cross_v: Tensor
    gram_v: Tensor
    cross_c: Tensor
    gram_c: Tensor
    free: bool = False
    signed: bool = False

    def cost(self, s: Tensor, t: Tensor) -> Tensor:
        return s * (self.gram_v * s - 2 * self.cross_v) + t * (self.gram_c * t - 2 * self.cross_c)

    def best(self, price: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(s, t, lowest cost) of rows that are paid for their share: by the price, −1 < p < 1 if scales are free.

        With s and t in units of 1/√G_v and 1/√G_c, a = C_v/√G_v and b = C_c/√G_c, a row looks for

            min s² + t² − 2 a s − 2 b t − 2 p s t,     s, t ≥ 0.

        Inside, s + t = (a + b)/(1 − p) and s − t = (a − b)/(1 + p); else one of the two is zero.  With s = 1 it is paid
        2 p G_c t, and t is C_c/G_c + p or nothing.
        """
        if not self.free:
            t = (self.cross_c / self.gram_c + price).clamp_min(0)
            return torch.ones_like(t), t, self.gram_v - 2 * self.cross_v - self.gram_c * t.square()
        a, b = self.cross_v / self.gram_v.sqrt(), self.cross_c / self.gram_c.sqrt()
        sign = torch.where(a + b < 0, -1.0, 1.0).to(a) if self.signed else torch.ones_like(a)
        a, b = sign * a, sign * b
        total, apart = a + b, a - b
        apart = torch.where(apart.abs() < EDGE * total, EDGE * total, apart)  # so that shares never jump with the price
        both, lean = total / (1 - price), apart / (1 + price)
        inside = both > lean.abs()
        s = torch.where(inside, (both + lean) / 2, torch.where(a >= b, a, 0).clamp_min(0))
        t = torch.where(inside, (both - lean) / 2, torch.where(a < b, b, 0).clamp_min(0))
        least = -torch.where(inside, (total * both + apart * lean) / 2, torch.maximum(a, b).clamp_min(0).square())
        return sign * s / self.gram_v.sqrt(), sign * t / self.gram_c.sqrt(), least


def best_shares(rows: Sides, unit: Tensor, units: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split every unit among the rows that take it:  minimise the cost of all rows  subject to  Σ_i s_i t_i = 1.

    The sum runs over the rows i with `unit`[i] = j, for every j < `units`; each has one at least.  The multiplier of
    the condition of a unit is the price of its shares.  At a given price every row is a problem of its own
    (`Sides.best`), and shares grow with the price, so that halving finds the price at which they sum to one.  What
    takes the minimum of a Lagrangian and meets the condition is the minimum.  With s = 1 this is the projection of
    C_c/G_c on the simplex.

    Returns (s, t, price), of rows, rows and units.
    Cost: 60 passes over the rows.
    Failure: with free scales, where every row of a unit is turned away from it (a + b ≤ 0), no price is high enough.
        Then its shares are even, and the scales the best for these.
    """

    def summed(x: Tensor) -> Tensor:
        return x.new_zeros(units).scatter_add(0, unit, x)

    high = rows.gram_v.new_ones(units) - EDGE
    low = -high
    if not rows.free:
        wish = rows.cross_c / rows.gram_c
        most = wish.new_full((units,), -torch.inf).scatter_reduce(0, unit, wish, "amax")
        low, high = -most, 1 - most
    for _ in range(HALVINGS):
        price = (low + high) / 2
        s, t, _ = rows.best(price[unit])
        enough = summed(s * t) >= 1
        low, high = torch.where(enough, low, price), torch.where(enough, price, high)
    s, t, _ = rows.best(high[unit])
    share = torch.where(s * t > EDGE, s * t, 0.0)
    total, count = summed(share), summed(torch.ones_like(share))
    share = torch.where(total[unit] > 0, share / total[unit], 1 / count[unit])
    return *_at(rows, s, t, share), high


def _at(rows: Sides, s: Tensor, t: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The best scales of rows with exactly these shares; a row without a share keeps the better of its two sides.

    Newton's method for the scale of a share begins at balance, where a row that leans may be stuck: then s is better.
    """
    if not rows.free:
        return s, share
    sign = torch.where(s < 0, -1.0, 1.0).to(s)
    gram_c = (share.square() * rows.gram_c).clamp_min(torch.finfo(share.dtype).tiny)
    scale = sign * positive_scale(sign * rows.cross_v, rows.gram_v, sign * share * rows.cross_c, gram_c)[0]
    leaning = (s * t > 0) & (rows.cost(s, share / s) < rows.cost(scale, share / scale))
    scale = torch.where(leaning, s, scale)
    return torch.where(share > 0, scale, s), torch.where(share > 0, share / scale, torch.where(s == 0, t, 0.0))

"""Two-sided problems of one number: the free scale of a hidden unit, or of a pair of rotary coordinates.

    min over r of  h(r) = r² G_v + G_c / r² − 2 (r C_v + C_c / r)

This is `gauge.py` with a scalar map: r acts on what is written and 1/r on what is read, or the other way round.  All
functions work elementwise.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Heights = tuple[Tensor, Tensor, Tensor]
Height = Callable[..., Heights]  # t, moments -> h, h', h''

STEPS = 60  # of Newton's method, at most


def positive_scale(
    cross_v: Tensor, gram_v: Tensor, cross_c: Tensor, gram_c: Tensor, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """argmin over r > 0 of  h(r) = r² G_v + G_c / r² − 2 (r C_v + C_c / r),  elementwise; returns (r, h(r)).

    Near balance two `steps` leave h next to nothing above its minimum.
    """

    def height(t: Tensor, cross_v: Tensor, gram_v: Tensor, cross_c: Tensor, gram_c: Tensor) -> Heights:
        r = t.exp()
        v, c, x, y = gram_v * r * r, gram_c / (r * r), cross_v * r, cross_c / r
        return v + c - 2 * (x + y), 2 * (v - c - x + y), 4 * (v + c) - 2 * (x + y)

    return _descend(height, cross_v, gram_v, cross_c, gram_c, steps=steps)


def signed_scale(
    cross_v: Tensor, gram_v: Tensor, cross_c: Tensor, gram_c: Tensor, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """The same over every r ≠ 0.

    With ρ⁴ = G_c / G_v the sign is that of s = ρ C_v + C_c / ρ: after r = ρ q the gain of +q over −1/q is s (q + 1/q).
    """
    rho = _balance(gram_v, gram_c)
    sign = torch.where(rho * cross_v + cross_c / rho < 0, -1.0, 1.0).to(cross_v.dtype)
    scale, height = positive_scale(sign * cross_v, gram_v, sign * cross_c, gram_c, steps)
    return sign * scale, height


def complex_scale(cross_v: Tensor, gram_v: Tensor, cross_c: Tensor, gram_c: Tensor) -> Tensor:
    """The same over complex z = r e^iθ with complex C = Σ a conj(b), where c carries 1/conj(z) (second paper).

    For given r the best angle is that of r C_v + C_c / r, which leaves h(r) = r² G_v + G_c / r² − 2 |r C_v + C_c / r|.
    """
    a, b = cross_v.abs().square(), cross_c.abs().square()
    mixed = 2 * (cross_v * cross_c.conj()).real

    def height(t: Tensor, a: Tensor, gram_v: Tensor, b: Tensor, gram_c: Tensor, mixed: Tensor) -> Heights:
        e = (2 * t).exp()
        q = (a * e + b / e + mixed).clamp_min(torch.finfo(a.dtype).tiny)
        dq, ddq, root = 2 * (a * e - b / e), 4 * (a * e + b / e), q.sqrt()
        return (
            gram_v * e + gram_c / e - 2 * root,
            2 * (gram_v * e - gram_c / e) - dq / root,
            4 * (gram_v * e + gram_c / e) - ddq / root + (dq / root).square() / (2 * root),
        )

    r, _ = _descend(height, a, gram_v, b, gram_c, mixed)
    total = r * cross_v + cross_c / r
    angle = torch.where(total.abs() > 0, total / total.abs(), torch.ones_like(total))
    return r * angle


def _balance(gram_v: Tensor, gram_c: Tensor) -> Tensor:
    """r with r⁴ = G_c / G_v, where both sides weigh the same; 1 where a side vanishes."""
    alive = (gram_v > 0) & (gram_c > 0)
    return (torch.where(alive, gram_c, 1.0) / torch.where(alive, gram_v, 1.0)) ** 0.25


def _descend(height: Height, *moments: Tensor, steps: int = STEPS) -> tuple[Tensor, Tensor]:
    """Damped Newton in t = log r from balance, elementwise, until nothing moves.  r = 1 where a side is dead."""
    flat = tuple(x.expand_as(moments[0]).flatten() for x in moments)
    _, gram_v, _, gram_c, *_ = flat
    found = t = _balance(gram_v, gram_c).log()
    alive, given, places = (gram_v > 0) & (gram_c > 0), flat, None
    for _ in range(steps):
        _, slope, bend = height(t, *given)
        step = (slope / bend.abs().clamp_min(torch.finfo(bend.dtype).tiny)).clamp_(-0.5, 0.5).mul_(alive)
        t.sub_(step)
        moving = step.abs_() > 1e-9
        if (left := int(moving.sum())) < len(t) / 4:  # only these go on
            found = t if places is None else found.index_copy_(0, places, t)
            if not left:
                break
            places = moving.nonzero().squeeze(-1) if places is None else places[moving]
            t, alive, given = t[moving], alive[moving], tuple(x[moving] for x in given)
    found = t if places is None else found.index_copy_(0, places, t)
    return found.exp().view_as(moments[0]), height(found, *flat)[0].view_as(moments[0])

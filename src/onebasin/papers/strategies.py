"""What the options of a paper stand for: strategies of matching and variations of learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from onebasin.alignment import Alignment, moved_by, transport
from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Move
from onebasin.families import Family
from onebasin.learn.variation import Variation
from onebasin.linalg import polar, skew
from onebasin.match.options import LARGEST
from onebasin.match.strategy import CircuitMoment, Strategy
from onebasin.match.stream import circuit_cross
from onebasin.match.units import solve_units
from onebasin.moving.latents import LATENTS, CayleyChart, Chart
from onebasin.papers.matching import METRICS, circuit_emphasis, leaf_emphasis, p1_code_cross
from onebasin.papers.options import PaperLearning, PaperMatching
from onebasin.papers.permutations import PERMUTING, Reassignment, Soft, StraightThrough
from onebasin.papers.unit_rows import solve_units_by_rows
from onebasin.paths.laws import Law, uniform

MOMENTS: dict[str, CircuitMoment] = {"circuits": circuit_cross, "p1-code": p1_code_cross}


def strategy_of(paper: PaperMatching) -> Strategy:
    """What matching does by these options."""
    units = solve_units if paper.unit_cost == "inner" else solve_units_by_rows
    leaves, circuits = leaf_emphasis(paper.weighting), circuit_emphasis(paper.weighting)
    moment = MOMENTS.get(paper.moments, circuit_cross)
    found = Strategy(leaves, METRICS[paper.head_metric], units, paper.guard, moment, circuits)
    return found if paper.moments in MOMENTS else found.by_factors()


LAWS: dict[str, Law] = {
    "half": lambda n, g: torch.full((n,), 0.5, dtype=torch.float64),
    "full": uniform(0.0, 1.0),
    "normal": lambda n, g: (0.5 + 0.1 * torch.randn(n, generator=g, dtype=torch.float64)).clamp(0, 1),
    "near-a": uniform(0.2, 0.3),
}


def exponential_chart(z: Tensor) -> Tensor:
    """exp of the skew part of Z."""
    rotation: Tensor = torch.linalg.matrix_exp(skew(z))
    return rotation


def polar_chart(z: Tensor) -> Tensor:
    """The rotation nearest to I + Z."""
    return polar(torch.eye(z.shape[-1], dtype=z.dtype, device=z.device) + z)


CHARTS: dict[str, Callable[[], Chart]] = {
    "exponential": lambda: exponential_chart,
    "cayley": CayleyChart,
    "polar": lambda: polar_chart,
}


@dataclass(frozen=True, kw_only=True)
class RelaxedMove(Move):
    """`base`, then `correction`, then `scale` on what writes to streams; `alignment` is the nearest exact map.

    A soft correction is not a symmetry.  A scale is one up to the eps of norms.
    """

    base: Alignment
    correction: Alignment
    scale: float
    exact: bool

    def __call__(self, form: Checkpoint) -> Checkpoint:
        """The form as it was learned."""
        form = scale_streams(form, self.scale)
        if self.exact:
            return super().__call__(form)
        return moved_by(transport(form, self.base), self.correction.maps)


def scale_streams(form: Checkpoint, scale: float) -> Checkpoint:
    """Everything that writes to a stream, times a positive number: the norms undo it, but for their eps."""
    if scale == 1.0:
        return form
    written = {leaf.name for space in form.spec.streams for leaf in form.spec.writers(space)}

    def scaled(name: str) -> Callable[[], Tensor]:
        return lambda: scale * form[name]

    return form.derive({name: scaled(name) for name in written})


def variation_of(paper: PaperLearning, seed: int = 0) -> Variation:
    """What learning does by these options."""
    latents: dict[Family, Any] = dict(LATENTS)
    beside: dict[str, Any] = {}
    if paper.permutations == "straight-through":
        latents |= dict.fromkeys(PERMUTING, StraightThrough)
        beside = {"beside": partial(Reassignment, every=paper.assign_every)}
    if paper.permutations == "soft":
        latents |= dict.fromkeys(PERMUTING, partial(Soft, sinkhorn=paper.sinkhorn, noise=paper.noise, seed=seed))
    exact = paper.permutations != "soft"
    law = None if paper.law is None else LAWS[paper.law]

    def moved(base: Alignment, correction: Alignment, nearest: Alignment, scale: float) -> RelaxedMove:
        whole = nearest.compose(base)
        return RelaxedMove(alignment=whole, base=base, correction=correction, scale=scale, exact=exact)

    largest = {"residual": LARGEST[paper.residual]}
    return Variation(law, latents, CHARTS[paper.rotation], largest, paper.scale, move=moved, exact=exact, **beside)

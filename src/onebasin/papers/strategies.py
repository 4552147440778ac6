"""What the options of a paper stand for: strategies of matching and variations of learning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from onebasin.alignment import Alignment
from onebasin.families import Family
from onebasin.learn.latents import LATENTS, CayleyChart, Chart
from onebasin.learn.stacks import Variation
from onebasin.linalg import polar, skew
from onebasin.match.strategy import CircuitMoment, Strategy
from onebasin.match.stream import circuit_cross
from onebasin.match.units import solve_units
from onebasin.papers.circuits import p1_code_cross
from onebasin.papers.emphasis import circuit_emphasis, leaf_emphasis
from onebasin.papers.head_metrics import METRICS
from onebasin.papers.options import PaperLearning, PaperMatching
from onebasin.papers.permutations import PERMUTING, Soft, StraightThrough
from onebasin.papers.reassignment import Reassignment
from onebasin.papers.relaxed import RelaxedMove
from onebasin.papers.unit_rows import solve_units_by_rows
from onebasin.paths.laws import Law, uniform

MOMENTS: dict[str, CircuitMoment] = {"circuits": circuit_cross, "p1-code": p1_code_cross}


def strategy_of(paper: PaperMatching) -> Strategy:
    """What matching does by these options."""
    units = solve_units if paper.unit_cost == "inner" else solve_units_by_rows
    leaves, circuits = leaf_emphasis(paper.weighting), circuit_emphasis(paper.weighting)
    moment = MOMENTS.get(paper.moments)
    found = Strategy(leaves, METRICS[paper.head_metric], units, paper.guard, moment, circuits)
    return found if moment else found.by_factors()


LAWS: dict[str, Law] = {
    "half": lambda n, g: torch.full((n,), 0.5, dtype=torch.float64),
    "full": uniform(0.0, 1.0),
    "normal": lambda n, g: (0.5 + 0.1 * torch.randn(n, generator=g, dtype=torch.float64)).clamp(0, 1),
    "near-a": uniform(0.2, 0.3),
}


def exponential_chart(z: torch.Tensor) -> torch.Tensor:
    """exp of the skew part of Z."""
    rotation: torch.Tensor = torch.linalg.matrix_exp(skew(z))
    return rotation


def polar_chart(z: torch.Tensor) -> torch.Tensor:
    """The rotation nearest to I + Z."""
    return polar(torch.eye(z.shape[-1], dtype=z.dtype, device=z.device) + z)


CHARTS: dict[str, Callable[[], Chart]] = {
    "exponential": lambda: exponential_chart,
    "cayley": CayleyChart,
    "polar": lambda: polar_chart,
}


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

    return Variation(law, latents, CHARTS[paper.rotation], paper.scale, move=moved, exact=exact, **beside)

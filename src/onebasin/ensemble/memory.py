"""About how much memory a verb takes, and how much there is: one estimate for `inspect`, for plans and for runs.

The numbers in `MODELS` are peaks of whole processes, measured (`benchmarks/memory.py`).  Free of torch.
"""

from __future__ import annotations

import math
import os
from typing import Literal

from onebasin.checkpoint.model import FLOAT64, SMALL
from onebasin.errors import OnebasinError
from onebasin.families import MONOMIAL, SCALED_PERMUTATION
from onebasin.spec import ModelSpec
from onebasin.spec.pages import page_names

Work = Literal["verify", "align", "learn", "learn by blocks"]

FROZEN = 4  # bytes of a number in a model that learning holds block by block, at most
PARTS = 4  # copies of the largest page, and of the scores of its units, that a pass holds at most
RUNTIME = 450_000_000  # bytes that Python, torch and transformers take before any weight is read
MODELS: dict[Work, int] = {  # how many times a model in float64 is in memory
    "verify": 4,  # canonical and moved form, running model, one in the making
    "align": 5,  # two forms, two models, one in the making
    "learn": 7,  # and two that run, one in the making
}


def memory_of(spec: ModelSpec, work: Work, models: int = 2) -> int:
    """Bytes for models with the (canonical) table `spec`, batches of inputs not counted.

    "align" is by weights, "learn" all that runs the models: from activations, or by learning, which holds them all.
    By blocks they are held in the types of their files, and one page of them is made at a time.
    """
    parameters = sum(math.prod(shape) for shape in spec.keys.values())
    if work == "learn by blocks":
        return RUNTIME + models * FROZEN * parameters + page_work(spec) + kept(spec)
    more = models - 2 if work == "learn" else 0
    pairs = {"verify": 0, "align": _unit_pairs(spec), "learn": _unit_pairs(spec) + _activation_moments(spec)}
    whole = (MODELS[work] + more) * FLOAT64 * parameters + pairs[work]
    paged = page_work(spec) + kept(spec)
    return RUNTIME + (min(whole, paged) if work == "align" else whole)


def kept(spec: ModelSpec) -> int:
    """Bytes of what the certificate keeps of a small model: moved, and as it is written."""
    nbytes = FLOAT64 * sum(math.prod(shape) for shape in spec.keys.values())
    return 2 * nbytes if nbytes < SMALL else 0


def page_work(spec: ModelSpec) -> int:
    """Bytes that matching by weights takes for one page of the models: some copies of it, and scores of its units."""
    largest = max(sum(math.prod(spec.leaves[name].shape) for name in names) for names in page_names(spec))
    inside = [name for name in spec.spaces if name not in spec.streams]
    pairs = max(((spec.fibres(name) or 1) * spec.spaces[name].size ** 2 for name in inside), default=0)
    return PARTS * FLOAT64 * (largest + pairs)


def _unit_pairs(spec: ModelSpec) -> int:
    """Bytes to compare n hidden units with n others: some n × n matrices, more where every pair has a scale."""
    families = {name: spec.family(name) for name, space in spec.spaces.items() if space.base is None}
    units = {name: family for name, family in families.items() if family <= MONOMIAL}
    counts = {name: 24 if family >= SCALED_PERMUTATION else 10 for name, family in units.items()}
    return FLOAT64 * max((count * spec.spaces[name].size ** 2 for name, count in counts.items()), default=0)


def _activation_moments(spec: ModelSpec) -> int:
    """Bytes for three n × n matrices wherever activations are looked at: before each norm, and at all hidden units."""
    units = [space.size for name, space in spec.spaces.items() if space.base is None and spec.family(name) <= MONOMIAL]
    streams = [spec.spaces[norm.space].size for norm in spec.norms.values()]
    return FLOAT64 * 3 * sum(size**2 for size in (*units, *streams))


def memory_here(*, free: bool = False) -> int | None:
    """Bytes of memory in this machine, or those that are free, where the system says so."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES" if free else "SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return None


def lacking(needed: int) -> str | None:
    """What is missing, in words, if this machine has less memory than that."""
    here = memory_here()
    if here is None or needed <= here:
        return None
    return f"aligning takes about {needed / 1e9:.1f} GB of memory, and {here / 1e9:.1f} GB are here"


def check_memory(needed: int) -> None:
    """Refuse a run that this machine cannot hold, before any work."""
    if (what := lacking(needed)) is not None:
        step = "use a larger machine; --method weight takes least"
        raise OnebasinError(f"There is not enough memory: {what}", next_step=step)

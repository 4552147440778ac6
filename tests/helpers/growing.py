"""Sizes to widen models to, and how far their outputs move."""

from __future__ import annotations

import math
from collections.abc import Iterator

from helpers.exactness import NOTHING, answers, relative
from onebasin import Checkpoint
from onebasin.spec import ModelSpec
from onebasin.spec.ops import elementwise, head_slopes, joint_qk_norm
from onebasin.verification.verify import drifts
from onebasin.widening.embeddings import repeats
from onebasin.widening.target import fields_of, sizes_of


def drift(small: Checkpoint, large: Checkpoint) -> float:
    """How far the outputs moved."""
    return relative(drifts(small, large, NOTHING, seed=1)[0]["float64"], answers(small))


def roles(spec: ModelSpec, **sizes: int) -> dict[str, int]:
    """Sizes by role as settings; those that follow from others are completed as transformers wants them."""
    fields, now = fields_of(spec), sizes_of(spec)
    want = {**now, **sizes}
    if "head" not in fields:
        want["residual"] = want["heads"] * want["head"]
    elif want["residual"] % want["heads"]:
        step = math.lcm(want["heads"], now["residual"] if repeats(spec, "residual") else 1)
        want["residual"] += step - want["residual"] % step
    return {field: want[role] for role, field in fields.items() if role in want}


def growths(spec: ModelSpec, extra: str = "zero") -> Iterator[dict[str, int]]:
    """Each dimension that can grow alone, then all together.  Streams whose coordinates repeat grow by factors.

    None where the model has no setting for it; heads with a stored table of positions keep their width.
    """
    if fields_of(spec):
        same = roles(spec)
        yield from (settings for settings in _growths(spec, extra) if settings != same)


def _growths(spec: ModelSpec, extra: str) -> Iterator[dict[str, int]]:
    fields, now, ops = fields_of(spec), sizes_of(spec), {op for space in spec.spaces for op in spec.ops(space)}
    factors, tied = repeats(spec, "residual"), "head" not in fields
    rotary = any("rotary" in op.name for op in ops)
    queries = now["heads"] // now["kv_heads"]
    more = 2 * now["kv_heads"] if factors and tied else now["kv_heads"] + 1
    wider = (2 if factors and tied else 3) * now["head"] if rotary or (factors and tied) else now["head"] + 2
    fixed = any(not x.spaces() and "embed_positions" in x.key for x in spec.leaves.values())
    alone = {
        "units": {role: now[role] + 3 for role in fields if role.endswith("ffn") and role in now},
        "heads": {"kv_heads": more, "heads": more * queries},
        "head": {} if fixed or elementwise("clip") in ops else {"head": wider},
    }
    if not tied:
        alone["residual"] = {"residual": (2 if factors else 1) * now["residual"] + (0 if factors else now["heads"])}
        alone["queries"] = {"heads": now["kv_heads"] * (queries + 1), "residual": now["residual"] * (queries + 1)}
    if head_slopes() in ops or (joint_qk_norm() in ops and extra == "split"):
        alone["heads"] = alone["queries"] = {}
    yield from (roles(spec, **sizes) for sizes in alone.values())
    every = alone["units"] | alone["heads"] | alone["head"]
    yield roles(spec, **every, **({} if tied else {"residual": 2 * now["residual"] * more}))

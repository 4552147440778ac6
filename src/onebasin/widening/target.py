"""Sizes as settings: what a target may change, its table, and the smallest sizes that all of some models widen to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from onebasin.archs import declare, lookup
from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.errors import BadCheckpoint, Incompatible, NotExpressible
from onebasin.families import Rep
from onebasin.spec import ModelSpec
from onebasin.widening.embeddings import repeats
from onebasin.widening.heads import turned

BOOKKEEPING = ("_name_or_path", "architectures", "dtype", "torch_dtype", "tie_word_embeddings", "transformers_version")


def fields_of(spec: ModelSpec) -> Mapping[str, str]:
    """Role (residual, heads, kv_heads, head, eps, or the name of a space of units) -> the setting that holds it."""
    return lookup(spec.model_type, [spec.architecture])[0].fields


def check_widens(spec: ModelSpec) -> None:
    """Models that are put together from encoders have no setting that holds a size of the whole."""
    if not fields_of(spec):
        raise NotExpressible(
            f"{spec.architecture} cannot be widened: each of its encoders has sizes of its own",
            next_step="give models of one size",
        )


def target_config(checkpoint: Checkpoint, target: Mapping[str, Any] | object) -> dict[str, Any]:
    """The checkpoint's configuration with the sizes and the eps of `target`; anything else that differs is refused."""
    settings: Mapping[str, Any] = target if isinstance(target, Mapping) else target.to_dict()  # type: ignore[attr-defined]
    check_widens(checkpoint.spec)
    fields, own = fields_of(checkpoint.spec).values(), transformers_config(checkpoint.config).to_dict()
    for name, value in settings.items():
        if name in fields or name in BOOKKEEPING or own.get(name) == value:
            continue
        near = get_close_matches(name, fields, 1)
        raise Incompatible(
            "Widening changes sizes and eps, and nothing else",
            expected=f"some of {', '.join(fields)}",
            found=f"{name} = {value!r}" + (f", which is {own[name]!r} here" if name in own else ""),
            next_step=f"did you mean {near[0]}?" if near and name not in own else "leave this setting out",
        )
    changed = {name: settings[name] for name in fields if name in settings}
    follows = lookup(checkpoint.spec.model_type, [checkpoint.spec.architecture])[0].follows
    after = {name: changed[other] for name, other in follows.items() if other in changed and own[name] == own[other]}
    return {**checkpoint.config, **changed, **after}


def target_spec(small: ModelSpec, config: Mapping[str, Any]) -> ModelSpec:
    """The table of a widened model: that of `config`, with the parts and the folded gains of the canonical `small`."""
    large = declare(_accepted(config), tie=False)
    large = large.without(x for x in large.linears.values() if x.optional and x.name not in small.linears)
    large = large.with_unit_gains(small.unit_gains)
    sizes = sizes_of(large)
    if "head" not in fields_of(large) and sizes["heads"] * sizes["head"] != sizes["residual"]:
        raise Incompatible(
            "The residual width must be the number of heads times an integer head width",
            space="residual",
            expected=f"a multiple of {sizes['heads']}",
            found=sizes["residual"],
            next_step="change the residual width or the number of heads",
        )
    return large


def _accepted(config: Mapping[str, Any]) -> Any:
    try:
        return transformers_config(config)
    except BadCheckpoint as error:
        step = "change the sizes together, as this says"
        raise Incompatible("transformers has no model of these sizes", found=error.found, next_step=step) from error


def places_of(spec: ModelSpec) -> dict[str, str]:
    """Role -> the space whose size it is."""
    value = spec.leaves[spec.linears[spec.attentions[0].value].weight]
    outer = {axis.rep: axis.space for _, axis in value.spaces() if spec.spaces[axis.space].base is None}
    inner = next(axis.space for _, axis in value.spaces() if spec.spaces[axis.space].base is not None)
    places = {"residual": outer[Rep.COV], "kv_heads": outer[Rep.VEC], "head": inner}
    named = {name.rpartition(".")[2]: name for name in reversed(list(spec.spaces)) if name not in spec.heads}
    return places | {role: named[role] for role in fields_of(spec) if role in named and role not in places}


def sizes_of(spec: ModelSpec) -> dict[str, int]:
    """Role -> size: the widths of stream, heads and FFN, and how many heads there are (key/value heads, all heads)."""
    sizes = {role: spec.spaces[name].size for role, name in places_of(spec).items()}
    query = spec.leaves[spec.linears[spec.attentions[0].queries[0]].weight]
    heads = math.prod(spec.spaces[axis.space].size for _, axis in query.spaces() if axis.rep is Rep.PERM)
    return {"residual": sizes["residual"], "heads": heads, **sizes}


def common_config(*specs: ModelSpec) -> dict[str, Any]:
    """The settings of the smallest model that all widen to, with the eps of the first; for tables in canonical form.

    Sizes are the largest of all, or a common multiple: for rotary heads, for streams whose coordinates repeat, and
    for the residual width, which is a multiple of the number of heads in any case.
    """
    check_widens(specs[0])
    first, fields, sizes = specs[0], fields_of(specs[0]), [sizes_of(spec) for spec in specs]
    size = {role: max(own[role] for own in sizes) for role in sizes[0] if all(role in own for own in sizes)}
    queries = max(own["heads"] // own["kv_heads"] for own in sizes)
    size["heads"] = size["kv_heads"] * queries
    rotary = any(turned(first, name) for name in first.spaces)
    head_step = math.lcm(*(own["head"] for own in sizes)) if rotary else 1
    repeating = any(repeats(spec, places_of(spec)["residual"]) for spec in specs)
    step = math.lcm(*(own["residual"] for own in sizes)) if repeating else 1
    size["head"] = _multiple(size["head"], head_step)
    size["residual"] = _multiple(size["residual"], step)
    if "head" in fields:
        size["residual"] = _multiple(size["residual"], math.lcm(step, size["heads"]))
    else:
        size |= _tied(size, queries, step, head_step)
    eps = next(norm.eps for norm in first.norms.values())
    return {field: eps if role == "eps" else size[role] for role, field in fields.items() if role in (*size, "eps")}


def _multiple(size: int, step: int) -> int:
    """The smallest multiple of `step` that is at least `size`."""
    return -(-size // step) * step


def _tied(size: Mapping[str, int], queries: int, step: int, head_step: int) -> dict[str, int]:
    """The smallest residual width = key/value heads × queries × head width that is large enough in all of them."""
    residual = size["residual"]
    while True:
        for head in range(size["head"], residual // size["heads"] + 1, head_step):
            groups, rest = divmod(residual, head * queries)
            if not rest:
                return {"residual": residual, "heads": groups * queries, "kv_heads": groups, "head": head}
        residual += step

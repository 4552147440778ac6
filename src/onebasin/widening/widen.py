"""Widen: the same function in a larger stock model, leaf by leaf, exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onebasin.canonical.form import canonicalize
from onebasin.checkpoint import Checkpoint
from onebasin.families import Rep
from onebasin.maps.indexed import along
from onebasin.spec import Leaf, ModelSpec
from onebasin.spec.ops import gain_product
from onebasin.widening.embeddings import EXTRA, Embedding, embeddings
from onebasin.widening.pair import one_size
from onebasin.widening.target import common_config, target_config, target_spec

Fills = Mapping[str, Embedding]  # by space
NONE: Fills = {}


def widen(checkpoint: Checkpoint, target: Mapping[str, Any] | object, *, extra: str = EXTRA[0]) -> Checkpoint:
    """The model of `checkpoint` with the sizes (and the eps) of `target`: settings to change, or a configuration.

    Additional units and heads do nothing ("zero"), or are copies of those that are there, with their outputs shared
    out ("split").  The result is in canonical form.  Raises `NotExpressible` where the larger model cannot compute the
    same, and `Incompatible` where the target differs in more than sizes.
    """
    return widen_form(canonicalize(checkpoint).checkpoint, target, extra=extra)


def widen_form(
    form: Checkpoint, target: Mapping[str, Any] | object, *, extra: str = EXTRA[0], fills: Fills = NONE
) -> Checkpoint:
    """`widen` of a model that is in canonical form already; `fills` are embeddings of spaces in place of our own."""
    config = target_config(form, target)
    spec = target_spec(form.spec, config)
    embedding = {**embeddings(form.spec, spec, extra), **fills}
    stretched = {x.name: e.stretch for name, e in embedding.items() if e.stretch != 1 for x in form.spec.writers(name)}
    gains = gain_leaves(form.spec)

    def recipe(leaf: Leaf) -> Callable[[], Tensor]:
        larger = spec.leaves[leaf.name]
        factor = stretched.get(leaf.name, 1.0) * leaf.times / larger.times
        return lambda: factor * placed(form[leaf.name], leaf, larger, embedding, leaf.name in gains)

    return form.derive({leaf.name: recipe(leaf) for leaf in form.spec.leaves.values()}, spec=spec, config=config)


def same_size(models: Sequence[Checkpoint]) -> bool:
    """Whether all models have the sizes and the eps of the first."""
    return all(one_size(models[0].spec, model.spec) for model in models[1:])


def widen_forms(forms: Sequence[Checkpoint], fills: Sequence[Fills] = ()) -> tuple[Checkpoint, ...]:
    """Canonical forms as they are where they have one size; otherwise in the smallest size that all widen to.

    `fills` are for each form, as in `widen_form`.
    """
    if same_size(forms):
        return tuple(forms)
    settings = common_config(*(form.spec for form in forms))
    each = zip(forms, fills or [NONE] * len(forms), strict=True)
    return tuple(widen_form(form, settings, fills=own) for form, own in each)


def to_one_size(*models: Checkpoint) -> tuple[Checkpoint, ...]:
    """All as they are where they have one size and eps; otherwise canonical forms of one size."""
    return models if same_size(models) else widen_forms([canonicalize(model).checkpoint for model in models])


def gain_leaves(spec: ModelSpec) -> set[str]:
    """Gains are one where there was nothing; every other tensor is zero there."""
    inside = {space for space in spec.spaces if gain_product() in spec.ops(space)}
    folded = {str(x.gain) for x in spec.gains}
    return folded | {x.name for space in inside for x in spec.touching[space]}


def placed(tensor: Tensor, leaf: Leaf, larger: Leaf, embedding: Mapping[str, Embedding], gain: bool) -> Tensor:
    """One leaf in the larger model.  A folded gain lives in no space: it is constant, and stays the same constant."""
    if gain and not leaf.spaces():
        return tensor[0].expand(larger.shape).clone()
    for dim, axis in leaf.spaces():
        tensor = embed(embedding[axis.space], tensor, dim, axis.rep, empty=1.0 if gain else 0.0)
    return tensor


def embed(embedding: Embedding, tensor: Tensor, dim: int, rep: Rep = Rep.VEC, *, empty: float = 0.0) -> Tensor:
    """One axis of a tensor in the larger space; places that take no coordinate hold `empty`."""
    source = torch.tensor(embedding.source)
    nothing = along(source < 0, tensor.ndim, dim, None)
    placed = embedding.factor(rep) * tensor.index_select(dim, source.clamp_min(0))
    if (factors := embedding.factors(rep)) is not None:
        placed = placed * along(torch.tensor(factors, dtype=tensor.dtype), tensor.ndim, dim, None)
    return placed.masked_fill(nothing, empty)


def embedded_outputs(small: ModelSpec, large: ModelSpec, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a widened model returns where the original returns `found`: hidden states lie in the larger space.

    `small` is the table of the original in canonical form, `large` that of the widened model.
    """
    embedding = embeddings(small, large)
    return {
        name: value if (axis := large.outputs[name]) is None else embed(embedding[axis.space], value, -1 % value.ndim)
        for name, value in found.items()
    }

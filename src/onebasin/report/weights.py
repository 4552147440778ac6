"""Do two models need an alignment?  What `inspect --weights` adds: their weights as stored, and after a quick match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from onebasin.canonical.form import canonicalize
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.folder import locate, read_config
from onebasin.checkpoint.store import Store
from onebasin.ensemble.compatibility import obstacles
from onebasin.ensemble.ensemble import Ensemble
from onebasin.ensemble.excerpt import excerpt, layer_of
from onebasin.ensemble.inspection import Inspection, describe_pair, undescribed
from onebasin.ensemble.likeness import Likeness, layer_cosines, likeness
from onebasin.errors import Incompatible, OnebasinError, UnknownArchitecture
from onebasin.labels.pairs import in_one_labelling
from onebasin.match.generic import describe_heads
from onebasin.match.options import group_of
from onebasin.methods.method import Job, Tick, silent
from onebasin.methods.weight import Weight

LAYERS, TOKENS = 4, 4096  # as much of the models as a quick match looks at
WIDEST = 2048  # the widest stream that is still quick: the cost of a rotation grows with the cube
QUICK = Weight(sweeps=2, units="permutation", inside="orthogonal")


def open_any(source: str | Path, revision: str | None = None) -> Checkpoint | Store:
    """A checkpoint; where no table describes it, its stored tensors."""
    try:
        return Checkpoint.open(source, revision)
    except UnknownArchitecture:
        return Store.open(locate(str(source), revision))


def inspect_weights(a: Checkpoint | Store, b: Checkpoint | Store, tick: Tick = silent) -> Inspection:
    """What `inspect` says of two models, and `report["weights"]`: a verdict, and how alike every layer is."""
    tick("comparing weights")
    found = likeness(a, b)
    if isinstance(a, Checkpoint) and isinstance(b, Checkpoint):
        tick("quick match")
        matched = match_quickly(found, a, b).as_dict()
        tick("looking at heads")
        heads = {name: describe_heads(canonicalize(model).checkpoint) for name, model in (("a", a), ("b", b))}
        return Inspection({**describe_pair(a, b), "weights": {**matched, "heads": heads}})
    found = replace(found, note="no quick match: no table describes these models")
    return Inspection({**undescribed(*map(_model_class, (a, b))), "weights": found.as_dict()})


def _model_class(model: Checkpoint | Store) -> str:
    if isinstance(model, Checkpoint):
        return model.spec.architecture
    config = read_config(model.folder)
    return str((config.get("architectures") or [config.get("model_type")])[0])


def match_quickly(found: Likeness, a: Checkpoint, b: Checkpoint) -> Likeness:
    """The likeness with the cosines of some layers after two rounds of weight matching, or with why there are none."""
    if not found.layers:
        return found
    chosen = sorted({round(i * (len(found.layers) - 1) / (LAYERS - 1)) for i in range(LAYERS)})
    layers = [(found.layers[i].a, found.layers[i].b) for i in chosen]
    try:
        ensemble = _excerpts(in_one_labelling((a, b)), layers)
    except OnebasinError as reason:
        return replace(found, note=f"no quick match: {reason.what}")
    medians = _matched(ensemble)
    part = "all layers" if len(layers) == len(found.layers) else f"{len(layers)} of {len(found.layers)} layers"
    return found.with_matched({name: medians[i] for i, (name, _) in enumerate(layers)}, f"quick match of {part}")


def _excerpts(models: Sequence[Checkpoint], layers: Sequence[tuple[str, str]]) -> Ensemble:
    """Some layers of both models, and what lies outside of layers in both."""
    outside = [{key for key in model.stored if layer_of(key) is None} for model in models]
    numbers = zip(*([int(name.rpartition(".")[2]) for name in names] for names in layers), strict=True)
    parts = [excerpt(model, own, TOKENS, outside[0] ^ outside[1]) for model, own in zip(models, numbers, strict=True)]
    for obstacle in obstacles(*parts):
        if obstacle.blocks:
            raise Incompatible(f"{obstacle.what} differs ({obstacle.a} in A, {obstacle.b} in B)")
    table = models[0].spec
    width = max(space.size for name, space in table.spaces.items() if group_of(table, name) == "residual")
    if width > WIDEST:
        raise Incompatible(f"the stream is {width} wide, and a match is quick up to {WIDEST}")
    return Ensemble.of_checked(parts)


def _matched(ensemble: Ensemble) -> dict[int, float]:
    """Number of a layer in the excerpt -> median cosine of its matrices in the best basis found."""
    a, b = QUICK.run(ensemble, None, Job(torch.device("cpu"))).forms
    return {int(layer.rpartition(".")[2]): value for layer, value in layer_cosines(a, b).items()}

"""Have two models a common ancestor?  The cosine of their weights, matrix by matrix, with no symmetry undone.

Two runs from different first weights turn, order and mix their coordinates each in its own way, so that the cosine of
corresponding matrices is about 0; training from a common start leaves it far from 0.  Only matrices inside layers
decide: norms, biases and embeddings can be alike without an ancestor (all gains are about one).  Tensors go by their
names; a table of the architecture is not needed.  One tensor of each model is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.store import Store
from onebasin.ensemble.excerpt import layer_of
from onebasin.ensemble.inspection import STRANGER
from onebasin.errors import BadCheckpoint
from onebasin.linalg import assign

Model = Checkpoint | Store
"""A checkpoint, or the stored tensors of one that no table describes."""

Verdict = Literal["one basin", "common ancestor", "between", "independent", "not comparable"]

NEAR = 0.9  # median cosine of layers that can be averaged as they are: docs/do-i-need-this.md has the measurements
OUTLIERS = 0.1  # the share of layers that may differ from the verdict
SAMPLE = 1 << 16  # entries of a matrix that say which layer is nearest


@dataclass(frozen=True)
class LayerLikeness:
    """Layer `a` of A beside layer `b` of B: the median cosine of their matrices as stored, and after a match."""

    a: str
    b: str
    stored: float
    tensors: dict[str, float]
    matched: float | None = None


@dataclass(frozen=True)
class Likeness:
    """How alike two models are.  `outside` holds the matrices outside of layers; `note` says what was not compared."""

    layers: tuple[LayerLikeness, ...]
    outside: dict[str, float]
    equal_depth: bool
    note: str | None = None

    @property
    def cosine(self) -> float | None:
        """The median over all matrices of layers."""
        found = [value for layer in self.layers for value in layer.tensors.values()]
        return median(found) if found else None

    @property
    def verdict(self) -> Verdict:
        """What all layers say, up to one in ten; "between" where they disagree.

        A common ancestor from which the models have gone far is not enough for one basin.
        """
        if not self.layers:
            return "not comparable"
        ranked = sorted(layer.stored for layer in self.layers)
        few = int(OUTLIERS * len(ranked))
        if ranked[few] >= NEAR:
            return "one basin"
        if ranked[few] >= STRANGER:
            return "common ancestor"
        return "independent" if ranked[-1 - few] < STRANGER else "between"

    def with_matched(self, matched: dict[str, float], note: str | None) -> Likeness:
        """The same with what a match made of some layers of A."""
        layers = tuple(replace(layer, matched=matched.get(layer.a)) for layer in self.layers)
        return replace(self, layers=layers, note=note)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for the report."""
        return {"verdict": self.verdict, "cosine": self.cosine, **asdict(self)}


def likeness(a: Model, b: Model) -> Likeness:
    """Compare the models layer by layer; of unequal depth, every layer of the shallower with its nearest."""
    theirs = _stacks(b)
    layers: list[LayerLikeness] = []
    equal = True
    for stack, one in _stacks(a).items():
        two = theirs.get(stack)
        if two is None or not _alike(a, b, one[min(one)], two[min(two)]):
            continue
        equal &= len(one) == len(two)
        for i, j in _partners(a, b, one, two):
            tensors = _cosines(a, b, {rest: (one[i][rest], two[j][rest]) for rest in _alike(a, b, one[i], two[j])})
            if tensors:
                layers.append(LayerLikeness(f"{stack}.{i}", f"{stack}.{j}", median(tensors.values()), tensors))
    shared = _cosines(a, b, {x: (x, x) for x in _alike(a, b, _outside(a), _outside(b))})
    return Likeness(tuple(layers), shared, equal)


def cosine(x: Tensor, y: Tensor, name: str) -> float | None:
    """⟨x, y⟩ / |x| |y|; None where one is zero, which has no direction."""
    size = float(x.norm() * y.norm())
    if size != size or size == float("inf"):
        step = "take an earlier checkpoint of this training run"
        raise BadCheckpoint("A model holds numbers that are not finite", tensor=name, next_step=step)
    return float((x * y).sum()) / size if size else None


def layer_cosines(a: Checkpoint, b: Checkpoint) -> dict[str, float]:
    """Layer -> median cosine of its matrices in two forms of one table."""
    found: dict[str, list[float]] = {}
    for name, leaf in a.spec.leaves.items():
        place = layer_of(name)
        if place and len(a.spec.keys[leaf.key]) > 1 and (value := cosine(a[name], b[name], name)) is not None:
            found.setdefault(f"{place[0]}.{place[1]}", []).append(value)
    return {layer: median(values) for layer, values in found.items()}


def _keys(model: Model) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every matrix."""
    shapes = (
        dict(model.spec.keys)
        if isinstance(model, Checkpoint)
        else {name: header.shape for name, header in model.headers.items()}
    )
    return {name: shape for name, shape in shapes.items() if len(shape) > 1}


def _read(model: Model, key: str) -> Tensor:
    return model.tensor(key) if isinstance(model, Checkpoint) else model.read(key).to(torch.float64)


Layers = dict[int, dict[str, str]]
"""Number of a layer -> name of a tensor within it -> whole name."""


def _stacks(model: Model) -> dict[str, Layers]:
    stacks: dict[str, Layers] = {}
    for key in _keys(model):
        if found := layer_of(key):
            stack, number, rest = found
            stacks.setdefault(stack, {}).setdefault(number, {})[rest] = key
    return stacks


def _outside(model: Model) -> dict[str, str]:
    return {key: key for key in _keys(model) if layer_of(key) is None}


def _alike(a: Model, b: Model, one: dict[str, str], two: dict[str, str]) -> list[str]:
    """The names that both have, with the same shape."""
    shapes = _keys(a), _keys(b)
    return [rest for rest in one if rest in two and shapes[0][one[rest]] == shapes[1][two[rest]]]


def _cosines(a: Model, b: Model, names: dict[str, tuple[str, str]]) -> dict[str, float]:
    found = {rest: cosine(_read(a, x), _read(b, y), x) for rest, (x, y) in names.items()}
    return {rest: value for rest, value in found.items() if value is not None}


def _partners(a: Model, b: Model, one: Layers, two: Layers) -> Iterable[tuple[int, int]]:
    """Layer for layer; of unequal depth, every layer of the shallower model with its own nearest of the deeper."""
    if one.keys() == two.keys():
        return [(i, i) for i in sorted(one)]
    if len(one) > len(two):
        return sorted((i, j) for j, i in _partners(b, a, two, one))
    kinds = _alike(a, b, one[min(one)], two[min(two)])
    scores = torch.stack([_sampled(a, one, rest) @ _sampled(b, two, rest).T for rest in kinds]).median(0).values
    nearest = assign(scores)
    if float(scores.max()) < STRANGER:  # none is near: spread them evenly
        nearest = torch.linspace(0, len(two) - 1, len(one)).round().long()
    return zip(sorted(one), torch.tensor(sorted(two))[nearest].tolist(), strict=True)


def _sampled(model: Model, layers: Layers, rest: str) -> Tensor:
    """(layers, entries): some entries of the same matrix in every layer, as vectors of length one."""
    rows = []
    for number in sorted(layers):
        entries = _read(model, layers[number][rest]).flatten()
        rows.append(entries[:: max(1, len(entries) // SAMPLE)])
    return torch.nn.functional.normalize(torch.stack(rows), dim=1)

"""About how long a run takes: what its stages compute, counted from the table, at the speed of this machine.

Counted are the products of matrices, which are most of the work of large models, and how often weights go through
memory.  The numbers of passes and the cost of solvers, in capitals, were fitted once (`benchmarks/foretold.py` compares
what is foretold with what runs take).  Free of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod

from onebasin.checkpoint.model import FLOAT64, SMALL
from onebasin.families import SCALED_PERMUTATION
from onebasin.processes.speed import Speed
from onebasin.spec import Images, Leaf, ModelSpec
from onebasin.spec.pages import page_names

LOOKS = 8  # passes over both models in a sweep, besides products
SCORES = {True: 40, False: 8}  # passes over the scores of all pairs of units: with a scale for each pair, or without
ASSIGNMENT = 4e-8  # seconds of one core for each pair of units
PAGE, MODEL = 0.03, 0.05  # seconds of one core for a page in a sweep, and to make a model, whatever their size
POLAR = 14  # n³ operations of a polar factor, at the speed of products
INSIDE = 1000  # d³ operations of the maps inside a head
FORM = 12  # passes over a model to make it canonical, and to give it another's gauge
PROBED = 64  # tokens that the certificate runs models on
RUNS, MOVED = 8, 5  # models that the certificate runs, and how many of them are moved ones
FORWARD, BACKWARD = 2, 4  # operations of a token for each parameter


@dataclass(frozen=True)
class Load:
    """What a stage takes: operations of products, in float64 and as models run; bytes through memory and files; seconds
    of one core."""

    exact: float = 0.0
    running: float = 0.0
    memory: float = 0.0
    file: float = 0.0
    core: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(*(getattr(self, x.name) + getattr(other, x.name) for x in fields(self)))

    def __mul__(self, times: float) -> Load:
        return Load(*(times * getattr(self, x.name) for x in fields(self)))

    def seconds(self, speed: Speed) -> float:
        """At this speed, one after the other."""
        products = self.exact / speed.exact + self.running / speed.running
        return products + self.memory / speed.memory + self.file / speed.file + self.core


def reading(nbytes: int) -> Load:
    """Every number of all models is looked at once."""
    return Load(file=nbytes, memory=2 * nbytes, core=MODEL)


def matching(spec: ModelSpec, sweeps: int) -> Load:
    """Weight matching: a start, `sweeps`, and at the end the maps inside heads."""
    inside = [name for name, space in spec.spaces.items() if space.base in spec.heads]
    heads = sum((spec.fibres(name) or 1) * spec.spaces[name].size ** 3 for name in inside)
    return sweep(spec) * (sweeps + 1) + Load(exact=INSIDE * heads, memory=2 * FORM * FLOAT64 * size(spec))


def sweep(spec: ModelSpec) -> Load:
    """B is turned and compared with A: in streams, between all pairs of units and of heads; then maps are solved."""
    leaves = spec.leaves.values()
    streams = sum(2 * turning(spec, leaf) for leaf in leaves)
    pairs = sum(2 * prod(leaf.shape) * across(spec, leaf) for leaf in leaves)
    polar = sum(POLAR * spec.spaces[name].size ** 3 for name in spec.streams)
    alone = PAGE * len(page_names(spec))
    load = Load(exact=streams + pairs + polar, memory=2 * LOOKS * FLOAT64 * size(spec), core=alone)
    for name in units(spec):
        squares = spec.spaces[name].size ** 2
        scores = SCORES[spec.family(name) >= SCALED_PERMUTATION]
        load += Load(memory=scores * FLOAT64 * squares, core=ASSIGNMENT * squares)
    return load


def turning(spec: ModelSpec, leaf: Leaf) -> int:
    """Operations that turn a leaf by the maps of its streams."""
    return 2 * prod(leaf.shape) * sum(spec.spaces[x.space].size for _, x in leaf.spaces() if x.space in spec.streams)


def across(spec: ModelSpec, leaf: Leaf) -> int:
    """How many units, or directions inside heads, each one that a leaf has is compared with."""
    counted = units(spec)
    met = [spec.spaces[x.space].size for _, x in leaf.spaces() if x.space in counted]
    met += [spec.spaces[x.space].size * (spec.fibres(x.space) or 1) for _, x in leaf.spaces() if spec.fibres(x.space)]
    return max(met, default=0)


def units(spec: ModelSpec) -> list[str]:
    """Spaces of hidden units."""
    return [
        name
        for name, space in spec.spaces.items()
        if space.base is None and name not in spec.streams and name not in spec.heads | spec.experts
    ]


def size(spec: ModelSpec) -> int:
    """Parameters."""
    return sum(map(prod, spec.keys.values()))


def moving(spec: ModelSpec) -> Load:
    """A model is made canonical, moved, and given the gauge of another."""
    return Load(exact=sum(turning(spec, leaf) for leaf in spec.leaves.values()), memory=FORM * FLOAT64 * size(spec))


def certificate(spec: ModelSpec) -> Load:
    """Models run on a few tokens, in float64 as a rule; what is moved is moved once, or, if large, again for each."""
    again = 1 if FLOAT64 * size(spec) < SMALL else MOVED
    tokens, passes = RUNS * PROBED, RUNS * FORM
    runs = Load(exact=FORWARD * tokens * size(spec), memory=passes * FLOAT64 * size(spec), core=RUNS * MODEL)
    return runs + moving(spec) * again


def writing(spec: ModelSpec, nbytes: int) -> Load:
    """Moved, rounded, written."""
    moved = moving(spec) if FLOAT64 * size(spec) >= SMALL else Load(memory=FORM * FLOAT64 * size(spec))
    return moved + Load(file=nbytes)


def looking(spec: ModelSpec, tokens: int) -> Load:
    """Activation matching: both models run on so many tokens, and what every unit and every norm saw is summed up."""
    squares = sum(spec.spaces[name].size ** 2 for name in units(spec))
    squares += sum(spec.spaces[norm.space].size ** 2 for norm in spec.norms.values())
    return Load(exact=2 * squares * tokens, running=2 * FORWARD * size(spec) * tokens)


def learning_step(spec: ModelSpec, tokens: int, *, moves: int = 1, again: bool = False) -> Load:
    """A step between two models of which `moves` learn: weights are made, run and differentiated; twice if `again`."""
    turned = moves * sum(turning(spec, leaf) for leaf in spec.leaves.values())
    run = FORWARD * size(spec) * tokens
    return Load(running=(2 + again) * turned + (1 + again) * run + BACKWARD * size(spec) * tokens)


def validation(spec: ModelSpec, tokens: int) -> Load:
    """The loss of the model between on so many tokens."""
    turned = sum(turning(spec, leaf) for leaf in spec.leaves.values())
    return Load(running=turned + FORWARD * size(spec) * tokens)


def tokens_of(spec: ModelSpec, length: int) -> int:
    """How many vectors of the stream an input becomes: `length` tokens of text, or the patches of an image."""
    kind = spec.reads
    if not isinstance(kind, Images):
        return length
    patches = [leaf.shape for leaf in spec.leaves.values() if kind.channels in leaf.shape and len(leaf.shape) == 4]
    rows, columns = patches[0][-2:] if patches else (1, 1)
    return max(1, kind.height * kind.width // (rows * columns))

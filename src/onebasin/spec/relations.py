"""What a table says beyond its leaves: linear maps, norms, scales, attention, repeated entries, and inputs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from onebasin.spec.ops import Op, layer_norm, rms_norm


@dataclass(frozen=True)
class Linear:
    """y = W x + b: the leaves of W and b, the patterns of x and y as the module sees them, the norm that wrote x.

    `softmax` is the letter of y that a softmax runs over, if one does: it does not see what is added to all of them.
    """

    name: str
    weight: str
    bias: str | None
    reads: str
    writes: str
    norm: str | None = None
    optional: bool = False
    softmax: str | None = None


@dataclass(frozen=True)
class Norm:
    """y = γ ⊙ normalise(x) + β on `space`.  `blocked` says why γ cannot move into the readers; `unit` that it has."""

    name: str
    kind: str  # "layer" or "rms"
    space: str
    eps: float
    gain: str | None
    bias: str | None
    blocked: str | None = None
    unit: bool = False

    @property
    def op(self) -> Op:
        return (layer_norm if self.kind == "layer" else rms_norm)(gain=not self.unit)


@dataclass(frozen=True)
class Scale:
    """λ ⊙ y behind the linear map `writer` on its way into `space`.  λ can move into the map; `unit` that it has."""

    name: str
    space: str
    gain: str
    writer: str
    unit: bool = False


@dataclass(frozen=True)
class Attention:
    """The linear maps of one softmax attention, by the names of their `Linear`s.

    `scaled`: scores are divided by √d, with d the width of a head, all parts of its queries together.  `gains` is the
    space of the gains of norms of queries and keys, where there are such norms.
    """

    name: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    value: str
    output: str
    scaled: bool = True
    gains: str | None = None


@dataclass(frozen=True)
class Mirror:
    """A stored entry that repeats leaf-bearing tensor `of`; `tied` entries must hold the same values.

    A head that is not tied does what this one does if it has `times` these values.
    """

    key: str
    of: str
    tied: bool
    times: float = 1.0


@dataclass(frozen=True)
class Tokens:
    """The model reads token ids; where it looks for the `end` of a text, that token stands there and nowhere else.

    `fixed` are the numbers that the model itself computes with: the tokens that have them cannot have others.
    """

    vocabulary: int
    positions: int
    end: int | None = None
    fixed: Collection[int] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.vocabulary, self.positions


@dataclass(frozen=True)
class Images:
    """The model reads pixel values."""

    channels: int
    height: int
    width: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.channels, self.height, self.width

"""ModelSpec: one model's table of spaces, leaves and the few relations that exact rewrites need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from onebasin.errors import UnclaimedTensor
from onebasin.families import Family, Rep, meet
from onebasin.spec.checks import check_coverage, check_fibres, check_partition, check_readers, check_scales
from onebasin.spec.leaves import Axis, Leaf, Space
from onebasin.spec.ops import Op, layer_scale
from onebasin.spec.pieces import Piece
from onebasin.spec.relations import Attention, Images, Linear, Mirror, Norm, Scale, Tokens

K = TypeVar("K")
V = TypeVar("V")


def kind_of(space: str) -> str:
    """The name of a space without the number of its layer: `layers.*.ffn`."""
    return re.sub(r"\.\d+\.", ".*.", space)


@dataclass(frozen=True)
class ModelSpec:
    """Everything the mathematics knows about one model.  Built by `archs`, read by everyone else."""

    model_type: str
    architecture: str
    spaces: Mapping[str, Space]
    leaves: Mapping[str, Leaf]
    linears: Mapping[str, Linear]
    norms: Mapping[str, Norm]
    attentions: tuple[Attention, ...]
    mirrors: tuple[Mirror, ...]
    inputs: Mapping[str, Tokens | Images]  # argument of the model -> what it is
    outputs: Mapping[str, Axis | None]  # output name -> the space its last axis lives in
    constants: Mapping[str, object]  # numbers of the forward pass that two models must share
    prefix: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    untouched: tuple[str, ...] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict)
    pieces: Mapping[str, Piece] = field(default_factory=dict)  # names that a file may have instead of those in `keys`
    keys: Mapping[str, tuple[int, ...]] = field(init=False)  # stored tensor -> expected shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", {key: check_partition(key, found) for key, found in self.parts.items()})
        check_fibres(self)
        check_readers(self)
        check_scales(self)

    @property
    def reads(self) -> Tokens | Images | None:
        """What the model reads, if that is of one kind."""
        kinds = list(self.inputs.values())
        return kinds[0] if len({type(kind) for kind in kinds}) == 1 else None

    @cached_property
    def parts(self) -> Mapping[str, Sequence[Leaf]]:
        """Stored tensor -> the leaves that claim it, together every entry once."""
        return _grouped((leaf.key, leaf) for leaf in self.leaves.values())

    @cached_property
    def touching(self) -> Mapping[str, Sequence[Leaf]]:
        """Space -> the leaves with an axis in it."""
        placed = ((leaf, {axis.space for _, axis in leaf.spaces()}) for leaf in self.leaves.values())
        found = _grouped((space, leaf) for leaf, spaces in placed for space in spaces)
        return {space: tuple(found.get(space, ())) for space in self.spaces}

    @cached_property
    def pieces_of(self) -> Mapping[str, Sequence[str]]:
        """Stored tensor -> the names of its pieces, for those that have any."""
        return _grouped((piece.key, name) for name, piece in self.pieces.items())

    @cached_property
    def heads(self) -> frozenset[str]:
        """The spaces whose elements are heads: what lies inside an attention has them as its base."""
        linears = (self.linears[name] for attention in self.attentions for name in (attention.value, *attention.keys))
        inner = self.spaces_of(linear.weight for linear in linears)
        return frozenset(base for name in inner if (base := self.spaces[name].base) is not None)

    @cached_property
    def experts(self) -> frozenset[str]:
        """The spaces whose elements are experts: bases of hidden units."""
        return frozenset(space.base for space in self.spaces.values() if space.base is not None) - self.heads

    @cached_property
    def _reading(self) -> Mapping[str | None, Sequence[Linear]]:
        return _grouped((linear.norm, linear) for linear in self.linears.values())

    @cached_property
    def _norm_ops(self) -> Mapping[str, Sequence[Op]]:
        scales = ((scale.space, layer_scale()) for scale in self.scales.values() if not scale.unit)
        return _grouped((*((norm.space, norm.op) for norm in self.norms.values()), *scales))

    @cached_property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Spaces that differ only in their layer, by a name with * for its number."""
        found: dict[str, list[str]] = {}
        for name in self.spaces:
            found.setdefault(kind_of(name), []).append(name)
        return {kind: tuple(names) for kind, names in found.items()}

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The residual streams: spaces that a norm reads, and that have nothing to do with heads."""
        bases = {space.base for space in self.spaces.values()}
        read = {norm.space for norm in self.norms.values()} - bases
        return tuple(name for name, space in self.spaces.items() if name in read and space.base is None)

    def spaces_of(self, leaves: Iterable[str]) -> set[str]:
        """The spaces that some leaves lie in."""
        return {axis.space for name in leaves for _, axis in self.leaves[name].spaces()}

    def ops(self, space: str) -> tuple[Op, ...]:
        """What touches `space`: the operations declared on it, the norms that read it, the scales before it."""
        return tuple(dict.fromkeys((*self.spaces[space].ops, *self._norm_ops.get(space, ()))))

    def family(self, space: str) -> Family:
        """The symmetries of `space`: the meet over everything that touches it."""
        return meet(op.admits for op in self.ops(space))

    @property
    def tied(self) -> bool:
        """Whether one tensor serves as input embedding and as head."""
        return "tied embedding" in self.constants

    def fibres(self, space: str) -> int | None:
        base = self.spaces[space].base
        return self.spaces[base].size if base else None

    def dimension(self, space: str) -> int:
        """Real dimension of the group acting on `space`, all fibres together."""
        size = self.spaces[space].size
        return self.family(space).dimension(size, size) * (self.fibres(space) or 1)

    def readers(self, norm: str) -> list[Linear]:
        return list(self._reading.get(norm, ()))

    def raw_readers(self, space: str) -> list[Linear]:
        """What reads the stream itself, and not what a norm makes of it."""
        return [x for x in self._reading.get(None, ()) if self.leaves[x.weight].dim(space, Rep.COV) is not None]

    def writers(self, space: str) -> list[Leaf]:
        """The leaves whose sum is the stream: vectors of `space` that are not parameters of a norm."""
        of_norms = {name for norm in self.norms.values() for name in (norm.gain, norm.bias)}
        return [
            leaf for leaf in self.touching[space] if leaf.name not in of_norms and leaf.dim(space, Rep.VEC) is not None
        ]

    @property
    def gains(self) -> list[Norm | Scale]:
        """All that multiplies every coordinate of a space by a number of its own."""
        return [*self.norms.values(), *self.scales.values()]

    @property
    def unit_gains(self) -> list[str]:
        """The norms and scales that `with_unit_gains` was asked for."""
        return [x.name for x in self.gains if x.unit]

    def with_unit_gains(self, names: Iterable[str]) -> ModelSpec:
        """The spec after γ of norms, or λ of scales, became all ones: it labels nothing more, and the family grows."""
        names = set(names)
        norms = {name: replace(norm, unit=True) for name, norm in self.norms.items() if name in names}
        scales = {name: replace(scale, unit=True) for name, scale in self.scales.items() if name in names}
        gains = [self.leaves[x.gain] for x in self.gains if x.name in names and x.gain is not None]
        fixed = {leaf.name: replace(leaf, axes=tuple((x, None, a, b) for x, _, a, b in leaf.axes)) for leaf in gains}
        return replace(
            self, norms={**self.norms, **norms}, scales={**self.scales, **scales}, leaves={**self.leaves, **fixed}
        )

    def without(self, linears: Iterable[Linear]) -> ModelSpec:
        """The spec of a checkpoint that does not store these optional parts."""
        gone = {name for linear in linears for name in (linear.weight, linear.bias)}
        leaves = {name: leaf for name, leaf in self.leaves.items() if name not in gone}
        used = {axis.space for leaf in leaves.values() for _, axis in leaf.spaces()}
        return replace(
            self,
            leaves=leaves,
            linears={name: x for name, x in self.linears.items() if x.weight in leaves},
            spaces={name: space for name, space in self.spaces.items() if name in used},
            outputs={name: axis for name, axis in self.outputs.items() if axis is None or axis.space in used},
        )

    def table_name(self, stored: str) -> str:
        """The table's name of a stored tensor, whichever release of transformers wrote it."""
        for pattern, replacement in self.renames:
            stored = re.sub(pattern, replacement, stored)
        known = self._names
        return self.prefix + stored if stored not in known and self.prefix + stored in known else stored

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset((*self.keys, *self.pieces, *(mirror.key for mirror in self.mirrors)))

    def bind(self, stored: Iterable[str]) -> tuple[ModelSpec, dict[str, str]]:
        """Match the table with the names in a file: (spec without absent optional parts, table name -> stored name)."""
        names: dict[str, str] = {}
        for name in stored:
            if any(re.search(pattern, name) for pattern in self.untouched):
                continue
            key = self.table_name(name)
            if key in names:
                what, step = "Two stored tensors have the same meaning", "remove one of them from the file"
                raise UnclaimedTensor(what, tensor=name, found=names[key], next_step=step)
            names[key] = name
        for mirror in self.mirrors:  # one of two equal entries may stand for both
            if not mirror.tied and mirror.key in names and mirror.of not in names:
                names[mirror.of] = names.pop(mirror.key)
        absent = [x for x in self.linears.values() if x.optional and self.leaves[x.weight].key not in names]
        spec = self.without(absent) if absent else self
        check_coverage(spec, names)
        return spec, names


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Key -> the values that came with it, in order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups

"""The small language in which `archs` writes a table.

    d = s.space("residual", 192)
    s.leaf("wte.weight", "v d", d=d)                            # a writer: vocabulary × residual
    q = l.linear("q_proj", "d -> (h k)", h=h, k=qk, d=d.co, norm=ln)   # reads what ln wrote, writes query space

Letters name axes.  A letter given an `Axis` lives in that space (`.co` for the covector side), a letter given an
integer picks one slice of a fused tensor, any other letter is labelled (tokens, classes, pixels) and never moves.
Everywhere `v` are tokens and `c` are classes, which have names.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from onebasin.errors import LayoutMismatch
from onebasin.spec.leaves import Axis, Leaf, Space, letters, make_leaf
from onebasin.spec.model import ModelSpec
from onebasin.spec.ops import Op, tied
from onebasin.spec.pieces import Piece
from onebasin.spec.relations import Attention, Images, Linear, Mirror, Norm, Scale, Tokens


@dataclass(frozen=True)
class Head:
    """What a model class puts on the stream: nothing (`key` None), or one linear map to labels or to the vocabulary."""

    key: str | None = None
    bias: bool = False
    vocabulary: bool = False  # may share the input embedding
    pooled: bool = False  # reads the pooler instead of the stream
    nested: bool = True  # the base model is a part of the class, and not its parts


class Builder:
    """Collects a table.  `at` gives the same table under a key prefix; `build` checks and freezes it."""

    def __init__(
        self, prefix: str, head: Head, tie: bool, inputs: Mapping[str, Tokens | Images], sizes: dict[str, int]
    ) -> None:
        self.head, self.tied = head, tie and head.vocabulary
        self.prefix = prefix if head.key and head.nested else ""
        self._key, self._name = self.prefix, ""
        self._inputs, self._sizes = inputs, sizes
        self._spaces: dict[str, Space] = {}
        self._leaves: dict[str, Leaf] = {}
        self._linears: dict[str, Linear] = {}
        self._norms: dict[str, Norm] = {}
        self._scales: dict[str, Scale] = {}
        self._attentions: list[Attention] = []
        self._mirrors: list[Mirror] = []
        self._pieces: dict[str, Piece] = {}
        self._outputs: dict[str, Axis | None] = {}
        self._constants: dict[str, object] = {}

    def at(self, key: str, name: str = "") -> Builder:
        inner = copy.copy(self)
        inner._key, inner._name = key, name
        return inner

    @property
    def key(self) -> str:
        """What stands before the names of tensors here."""
        return self._key

    @property
    def root(self) -> Builder:
        """The same table without the base model's prefix: where heads live."""
        return self.at("")

    def layers(self, template: str, count: int, first: int = 0) -> Iterator[Builder]:
        """One table for each of the layers that `template` names; the first of them is layer `first` of the model."""
        for i in range(count):
            yield self.at(self._key + template.format(i) + ".", f"{self._name}layers.{first + i}.")

    def space(self, name: str, size: int, *ops: Op, base: Axis | None = None) -> Axis:
        full = self._name + name
        self._spaces[full] = Space(full, size, base.space if base else None, ops)
        return Axis(full)

    def size(self, axis: Axis) -> int:
        return self._spaces[axis.space].size

    def touch(self, axis: Axis, op: Op) -> None:
        space = self._spaces[axis.space]
        self._spaces[axis.space] = replace(space, ops=(*space.ops, op))

    def leaf(self, key: str, stored: str, *, plus: float = 0.0, times: float = 1.0, **where: Axis | int) -> str:
        """Claim the whole of one stored tensor; the model computes with `times` · (what is stored + `plus`)."""
        name = self._claim(key, stored, stored, "", where)
        self._leaves[name] = replace(self._leaves[name], plus=plus, times=times)
        return name

    def _claim(
        self, key: str, stored: str, order: str, part: str, where: Mapping[str, Axis | int], start: int = 0
    ) -> str:
        key = self._key + key
        name = f"{key}:{part}" if part else key
        if name in self._leaves:
            raise ValueError(f"{name} is declared twice: give each part of a fused tensor its own `part`")
        self._leaves[name] = make_leaf(name, key, stored, letters(order), where, self._sizes, self._spaces, start)
        return name

    def linear(
        self, key: str, maps: str, *, norm: str | None = None, bias: bool = True, part: str = "",
        conv1d: bool = False, optional: bool = False, start: int = 0, bare: bool = False, softmax: str | None = None,
        **where: Axis | int,
    ) -> str:  # fmt: skip
        """``maps = "in -> out"``; stored (out, in), or (in, out) for a Conv1D; in a fused tensor from row `start`.

        The weight is stored under `key` itself if `bare`.  A `softmax` runs over that letter of the output.
        """
        reads, writes = maps.split(" -> ")
        stored = f"{reads} {writes}" if conv1d else f"{writes} {reads}"
        weight = self._claim(key if bare else f"{key}.weight", stored, f"{writes} {reads}", part, where, start)
        offset = None
        if bias:
            outer = {x: place for x, place in where.items() if x in letters(writes)}
            offset = self._claim(f"{key}.bias", writes, writes, part, outer, start)
        name = weight.replace(".weight", "", 1)
        self._linears[name] = Linear(name, weight, offset, reads, writes, norm, optional, softmax)
        return name

    def apart(self, key: str, template: str, **names: Sequence[str]) -> None:
        """Some files hold the tensor `key` in pieces, one for every choice of the letters that `template` has."""
        view = next(leaf.view for leaf in self._leaves.values() if leaf.key == self._key + key)
        for choice in product(*(range(len(words)) for words in names.values())):
            picks = tuple(zip(names, choice, strict=True))
            name = self._key + template.format(**{x: names[x][i] for x, i in picks})
            self._pieces[name] = Piece(self._key + key, view, picks)

    def norm(
        self, kind: str, key: str, axis: Axis, eps: float, *, blocked: str | None = None, gain: bool = True,
        bias: bool | None = None, plus: float = 0.0,
    ) -> str:  # fmt: skip
        """A norm with gain γ, and for "layer" also an offset β, over the whole of `axis`; γ is stored less `plus`.

        A norm without gain has nothing that could be moved or blocked.
        """
        if not 0 <= eps < math.inf:
            what, name = "A norm has no valid eps", self._key + key
            step = "correct it in config.json: take that from the run that wrote these weights"
            raise LayoutMismatch(what, tensor=name, expected="0 or more", found=eps, next_step=step)
        name = self._key + key
        if not gain:
            self._norms[name] = Norm(name, kind, axis.space, eps, None, None, unit=True)
            return name
        weight = self.leaf(f"{key}.weight", "d", plus=plus, d=axis.perm)
        has_bias = kind == "layer" if bias is None else bias
        offset = self.leaf(f"{key}.bias", "d", d=axis) if has_bias else None
        self._norms[name] = Norm(name, kind, axis.space, eps, weight, offset, blocked)
        return name

    def scale(self, key: str, axis: Axis, writer: str) -> None:
        """One number for each coordinate of `axis`, times which goes what the linear map `writer` writes."""
        gain = self.leaf(key, "d", d=axis.perm)
        self._scales[gain] = Scale(gain, axis.space, gain, writer)

    def attention(
        self, name: str, *, queries: list[str], keys: list[str], value: str, output: str, scaled: bool = True,
        gains: Axis | None = None,
    ) -> None:  # fmt: skip
        space = gains.space if gains else None
        self._attentions.append(Attention(self._name + name, tuple(queries), tuple(keys), value, output, scaled, space))

    def mirror(self, key: str, of: str, *, tied: bool, times: float = 1.0) -> None:
        self._mirrors.append(Mirror(key, of, tied, times))

    def tie(self, head: str, embedding: str, times: float = 1.0) -> None:
        self.mirror(head, embedding, tied=True, times=times)
        self._constants["tied embedding"] = embedding

    def constant(self, name: str, value: object) -> None:
        self._constants[name] = value

    def output(self, name: str, axis: Axis | None = None) -> None:
        self._outputs[name] = axis

    def final_block(self, embedding: str) -> str | None:
        """Why the gain of the norm before the head must stay where it is, if it must."""
        if self.head.key is None:
            return "its output is the model's output, and no linear map follows that could take the gain"
        if self.tied:
            return f"its reader {self.head.key}.weight is tied to {self._key}{embedding}"
        return None

    def readout(self, d: Axis, norm: str | None, embedding: str) -> None:
        """End of the stream: the bare hidden state, a tied head, or a linear map to labels or tokens."""
        if self.head.key is None:
            self.output("last_hidden_state", d)
            return
        self.output("logits")
        if self.tied:
            self.touch(d, tied())
            self.tie(f"{self.head.key}.weight", self._key + embedding)
            if self.head.bias:
                self.root.leaf(f"{self.head.key}.bias", "v")
        else:
            kind = "v" if self.head.vocabulary else "c"
            self.root.linear(self.head.key, f"d -> {kind}", bias=self.head.bias, norm=norm, d=d.co)

    def build(
        self, model_type: str, architecture: str, renames: tuple[tuple[str, str], ...], untouched: tuple[str, ...],
    ) -> ModelSpec:  # fmt: skip
        return ModelSpec(
            model_type, architecture, self._spaces, self._leaves, self._linears, self._norms,
            tuple(self._attentions), tuple(self._mirrors), self._inputs, self._outputs, self._constants,
            self.prefix, renames, untouched, self._scales, self._pieces,
        )  # fmt: skip

"""Blocks: modules that make their own weights θ(λ), in their forward pass, and again where going back recomputes them.

A block holds the frozen tensors of every model that its module's parameters come from, and nothing of θ.  A small model
is one block: all layers are moved in one product.  Of a large model each layer is a block, and so is whatever has
parameters outside of the layers: embeddings, the last norm, the head.  Then a step holds the frozen models, one block
of θ, and the activations between blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import keeping_float64, source_key
from onebasin.linalg import mixture, running_shares
from onebasin.moving.coordinates import Moves
from onebasin.moving.layout import Group, Grouping
from onebasin.moving.making import BETWEEN, Making, Makings
from onebasin.moving.weights import Kept, Weights
from onebasin.paths.circuit import Apart, Joined
from onebasin.spec import ModelSpec


@dataclass(frozen=True)
class Where:
    """A point between the models: the share (M,) of each, and what moves each."""

    share: Tensor
    moves: tuple[Moves, ...]

    def running(self, groups: Sequence[Group], rows: Tensor | None = None) -> list[Tensor]:
        """What a running mean takes of every model: (M,), or where tensors have shares of their own, (M, L, ...)."""
        alike = running_shares(self.share)
        return [self._paced(group.keys, rows) if self._has_pace(group) else alike for group in groups]

    def _has_pace(self, group: Group) -> bool:
        return any(group.keys[0] in own.paces for own in self.moves)

    def _paced(self, keys: Sequence[str], rows: Tensor | None) -> Tensor:
        """With paces s model m counts for λ_m exp(s_m) over the sum of all: its share, where they are alike."""
        each = [own.pace(keys, rows) if keys[0] in own.paces else self.share.new_zeros(()) for own in self.moves]
        odds = torch.stack(torch.broadcast_tensors(*each)).exp()
        return running_shares(self.share.view(-1, *[1] * (odds.ndim - 1)) * odds)


@dataclass(frozen=True)
class Frozen:
    """What blocks are made of: canonical forms, those from number `still` on learn; tensors are handed out in `dtype`.

    `kept` says in which type a tensor rests; `narrow` is a smaller type to run modules in.  Blocks that are `again` are
    computed again going back; with `dropout` as they were.  With `circuits` the products inside heads are between the
    models, not their factors.
    """

    forms: Sequence[Checkpoint]
    grouping: Grouping
    still: int
    dtype: torch.dtype
    kept: Kept
    narrow: torch.dtype | None = None
    again: bool = False
    dropout: bool = False
    circuits: bool = False
    makings: Makings = field(default_factory=Makings)

    def weights(self, keys: Iterable[str]) -> nn.ModuleList:
        """The tensors `keys` of every model."""
        found = self.grouping.of(set(keys))
        return nn.ModuleList(
            Weights(form, found, self.dtype, self.kept, frozen=m < self.still) for m, form in enumerate(self.forms)
        )


class Block(nn.Module):
    """The module `name` of a model, "" for all of it, run with θ(λ) in place of its parameters, but for `without`."""

    def __init__(self, frozen: Frozen, model: nn.Module, name: str, without: str | None = None) -> None:
        super().__init__()
        module, front = model.get_submodule(name), f"{name}." if name else ""
        self.again, self.dropout, self.narrow = frozen.again, frozen.dropout, frozen.narrow
        self.name, self.run_as = name, next((p.dtype for p in module.parameters()), frozen.dtype)
        sources = _sources(model, frozen.grouping.spec, front)
        sources = {own: source for own, source in sources.items() if front + own != without}
        self.ends = frozen.weights(key for _, key in sources.values())
        self.names, places = tuple(sources), tuple(self._places(sources).values())
        layouts = tuple(tuple(end.layouts) for end in self._weights)
        self.shared = frozen.makings.share(Making(layouts, places, frozen.dtype, self.run_as))
        self.shares = [f"{own}.share" for own, x in module.named_modules() if isinstance(x, Joined)]
        self._module = (Original(module),)  # not a submodule: it has no weights of its own

    @property
    def _weights(self) -> list[Weights]:
        return [end for end in self.ends if isinstance(end, Weights)]

    @property
    def groups(self) -> list[Group]:
        """What its tensors are, the same in every model."""
        return self._weights[0].groups

    def _places(self, sources: Mapping[str, tuple[int, str]]) -> dict[str, tuple[int, int, int]]:
        """Where each parameter comes from: which model or BETWEEN them, which group, which row of it."""
        row = {key: (i, j) for i, group in enumerate(self.groups) for j, key in enumerate(group.keys)}
        return {own: (end, *row[key]) for own, (end, key) in sources.items()}

    def theta(self, where: Where) -> dict[str, Tensor]:
        """θ(λ) by the module's own names, with what else of it depends on λ."""
        given = [end.given(moves) for end, moves in zip(self._weights, where.moves, strict=True)]
        made = self.shared.make(given, where.running(self.groups))
        return {**dict(zip(self.names, made, strict=True)), **dict.fromkeys(self.shares, where.share)}

    def forward(self, where: Where, *args: Any, **kwargs: Any) -> Any:
        """What the module makes of its inputs at λ."""
        if not self.again or not torch.is_grad_enabled():
            return self._run(where, *args, **kwargs)
        return checkpoint(self._run, where, *args, use_reentrant=False, preserve_rng_state=self.dropout, **kwargs)

    def _run(self, where: Where, *args: Any, **kwargs: Any) -> Any:
        exact = self.again and self.run_as == torch.float64  # going back happens outside of the model's forward pass
        with keeping_float64() if exact else nullcontext():
            return self.run(self.theta(where), *args, **kwargs)

    def run(self, theta: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        """The same with θ that is there already."""
        device = next(iter(theta.values())).device.type
        with torch.autocast(device, self.narrow, enabled=self.narrow is not None):
            return functional_call(self._module[0], {f"module.{own}": x for own, x in theta.items()}, args, kwargs)


class Table(Block):
    """An embedding: where a batch has fewer tokens than the table rows, they are looked up first and moved after."""

    def _run(self, where: Where, *args: Any, **kwargs: Any) -> Any:
        (ids,) = args
        return self.rows(where, ids) if ids.numel() < self.length else super()._run(where, ids)

    def rows(self, where: Where, ids: Tensor) -> Tensor:
        """The rows `ids` of the table at λ."""
        rows = [end.rows(ids, moves) for end, moves in zip(self.ends, where.moves, strict=True)]  # type: ignore[operator]
        (shares,) = where.running(self.groups, ids)
        return mixture(rows, shares).to(self.run_as)

    @property
    def length(self) -> int:
        """How many rows it has."""
        return self.groups[0].layout.length

    @property
    def able(self) -> bool:
        """Whether its rows move one by one."""
        return bool(self.ends[0].by_rows)


class Original(nn.Module):
    """A module's own forward pass, also where its `forward` is replaced later."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module, self.own = module, module.forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.own(*args, **kwargs)


def block_names(model: nn.Module) -> list[str]:
    """The blocks of a model: what its lists hold (layers), and elsewhere the modules that own parameters."""
    found: list[str] = []
    lists = {name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    for name, module in model.named_modules():  # outer ones come first
        within = any(outer == "" or name.startswith(f"{outer}.") for outer in found)
        listed = name.rpartition(".")[0] in lists and any(True for _ in module.parameters())
        if not within and (listed or any(p is not None for p in module._parameters.values())):
            found.append(name)
    return found


def table_of(frozen: Frozen, model: nn.Module, module: nn.Module) -> Table | None:
    """The block of a plain embedding whose rows move one by one and that nothing else uses."""
    if type(module) is not nn.Embedding or module.max_norm is not None:
        return None
    users = [name for name, x in model.named_modules() if getattr(x, "weight", None) is module.weight]
    if len(users) > 1:
        return None
    table = Table(frozen, model, users[0])
    return table if table.able else None


def _sources(model: nn.Module, spec: ModelSpec, front: str) -> dict[str, tuple[int, str]]:
    """(the model or BETWEEN, the stored tensor) of every parameter below `front`, by its name there."""
    apart = [name for name, module in model.named_modules() if isinstance(module, Apart)]
    module = model.get_submodule(front.removesuffix("."))
    found = {}
    for own, _ in module.named_parameters():
        stock, end = _without_end(front + own, apart)
        found[own] = end, source_key(spec, stock)
    return found


def _without_end(name: str, apart: list[str]) -> tuple[str, int]:
    """(the stock name, the model it belongs to) of a parameter."""
    for module in apart:
        if name.startswith(f"{module}."):
            end, _, rest = name.removeprefix(f"{module}.ends.").partition(".")
            return f"{module}.{rest}", int(end)
    return name, BETWEEN

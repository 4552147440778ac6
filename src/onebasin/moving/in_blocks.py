"""A large model, run block by block: frozen tensors rest in the types of their files, and θ exists one block at a time.

With several processes the frozen tensors of every block are shared out (FSDP2): each process keeps its part, and has
the whole of a block only while that runs.  Latents are the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.checkpoint.dtypes import torch_dtype
from onebasin.checkpoint.streamed import weightless_model
from onebasin.moving.blocks import Block, Frozen, Where, block_names, table_of
from onebasin.moving.head import Head, Taught, head_of
from onebasin.moving.running import Given, Running, model_of
from onebasin.moving.weights import Kept
from onebasin.processes.world import World
from onebasin.tasks import LANGUAGE, Measure
from onebasin.tasks.losses import attended


def resting_in(dtype: torch.dtype, *, blocks: bool) -> Kept:
    """The type that frozen tensors rest in: `dtype`, or that of the files where blocks are made one by one."""
    if not blocks or dtype == torch.float64:
        return lambda form, key: dtype
    return lambda form, key: torch_dtype(form.written_as(key))


class InBlocks(Running):
    """Every block of the model makes its own weights; numbers flow through it in `dtype`."""

    def __init__(
        self, frozen: Frozen, loss: Measure | None, dtype: torch.dtype, device: torch.device, world: World
    ) -> None:
        super().__init__(model_of(frozen, dtype, weightless_model), loss)
        emptied(self.model, device)
        self.dtype, self.blocks = dtype, nn.ModuleList()
        self._where: Where | None = None
        self._entered: Tensor | None = None  # the states that came to the head, which was then left out
        self._headless = False
        share_out = sharing(device, world)
        for name in block_names(self.model):
            block = self._block(frozen, name).to(device)
            share_out(block)  # at once: no process ever holds more than one block whole
            self.blocks.append(block)
            self._put_in(block)
        self.head = next((x for x in self.blocks if isinstance(x, Head)), None)
        share_out(self, ignored_params=set(self.model.parameters()))

    def _block(self, frozen: Frozen, name: str) -> Block:
        kind = Head if name == head_of(self.model) else Block
        return table_of(frozen, self.model, self.model.get_submodule(name)) or kind(frozen, self.model, name)

    def _put_in(self, block: Block) -> None:
        """From now on the block's module runs as the block does, at the place of the moment."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            if block is self.head and self._headless:
                (self._entered,) = args
                return self._entered
            return block(self._where, *args, **kwargs)

        self.model.get_submodule(block.name).forward = forward

    def _outputs(self, where: Where, given: Given) -> Any:
        placed = {
            n: x.to(self.dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for n, x in given.items()
        }
        self._where = where
        try:
            return self.model(**placed)
        finally:
            self._where = None

    def theta(self, where: Where) -> dict[str, Tensor]:
        """All of it at once: for models that are small after all."""
        named = [(block.name, *x) for block in self.blocks for x in block.theta(where).items()]  # type: ignore[operator]
        return {f"{front}.{own}".lstrip("."): x for front, own, x in named}

    # ---- logits in chunks

    def loss_at(self, where: Where, given: Given, target: Tensor | Taught) -> Tensor:
        """The mean loss; without ever having all logits, where there are many."""
        states = self._states(where, given)
        if states is None or self.head is None:
            return super().loss_at(where, given, target)
        loss: Tensor = self.head(where, states, target)
        return loss

    def taught(self, ends: Sequence[Where], given: Given, share: Tensor, kind: str) -> Tensor | Taught:
        """As ever, or where there are many logits, what they are made of."""
        states = [self._states(end, given) for end in ends]
        found = [x for x in states if x is not None]
        if len(found) < len(ends):
            return super().taught(ends, given, share, kind)
        written = given["input_ids"] if kind == LANGUAGE else None
        return Taught(share, ends, found, attended(given, found[0][..., 0]), written)

    def _states(self, where: Where, given: Given) -> Tensor | None:
        """What enters the head, if the logits are many and nothing but the head makes them."""
        tokens = given.get("input_ids")
        if self.head is None or self.loss is not None or tokens is None or not self.head.many(tokens.numel()):
            return None
        self._headless = True
        try:
            logits: Tensor = self._outputs(where, given).logits
        finally:
            self._headless = False
        entered, self._entered = self._entered, None
        if logits is entered:
            return logits
        self.head = None  # the model does more to its logits
        return None


def emptied(model: nn.Module, device: torch.device) -> None:
    """Leave only the names, types and shapes of parameters, and put buffers on the device."""
    for module in model.modules():
        for own, p in module._parameters.items():
            if p is not None:
                nothing = torch.empty((), dtype=p.dtype, device=device).expand(p.shape)  # some models ask for shapes
                module._parameters[own] = nn.Parameter(nothing, requires_grad=False)
        for own, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[own] = buffer.to(device)


def sharing(device: torch.device, world: World) -> Callable[..., object]:
    """A function that shares the parameters of a module out among the processes; it does nothing for one alone."""
    if world.size == 1:
        return lambda module, **settings: None
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return partial(fully_shard, mesh=init_device_mesh(device.type, (world.size,)))

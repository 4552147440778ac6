"""The frozen weights of a block of one model, and what the learned maps make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from onebasin.checkpoint import Checkpoint
from onebasin.moving.coordinates import Moves
from onebasin.moving.layout import Group, Layout
from onebasin.moving.parts import Given, take_maps

Kept = Callable[[Checkpoint, str], torch.dtype]


class Weights(nn.Module):
    """One model's tensors in groups.  What no learned map touches, or all if `frozen`, is put together once.

    They are parameters without gradient, kept in the types `kept` says (by stored tensor) and handed out in `dtype`;
    flat, so that any number of processes can share them out evenly.
    """

    def __init__(
        self, checkpoint: Checkpoint, groups: list[Group], dtype: torch.dtype, kept: Kept, *, frozen: bool = False
    ) -> None:
        super().__init__()
        self.groups, self.dtype, self.shapes = groups, dtype, dict[tuple[int, int], torch.Size]()
        self.layouts = [None if frozen or not any(x.moves for x in g.layout.parts) else g.layout for g in groups]
        for i, group in enumerate(groups):
            rests = kept(checkpoint, group.keys[0])
            parts = [torch.stack([checkpoint[leaf] for leaf in x.leaves]).to(rests) for x in group.sources]
            for j, tensor in enumerate([group.layout.stored(parts)] if self.layouts[i] is None else parts):
                flat = nn.Parameter(tensor.contiguous().flatten(), requires_grad=False)
                self.register_parameter(f"_{i}_{j}", flat)
                self.shapes[i, j] = tensor.shape

    def forward(self, moves: Moves) -> dict[int, Tensor]:
        """The stored tensors (L, ...) of every group under the learned maps and factors."""
        return dict(enumerate(put_together(self.layouts, self.given(moves), self.dtype)))

    def given(self, moves: Moves) -> list[list[Given]]:
        """Every part of every group with what moves it; a group that nothing moves is one part."""
        maps = take_maps((source for group in self.groups for source in group.sources), moves)
        return [
            [Given(self._frozen(i, 0))]
            if self.layouts[i] is None
            else [source.given(self._frozen(i, j), moves, maps) for j, source in enumerate(group.sources)]
            for i, group in enumerate(self.groups)
        ]

    def _frozen(self, i: int, j: int) -> Tensor:
        flat: Tensor = getattr(self, f"_{i}_{j}")
        return flat.view(self.shapes[i, j])

    @property
    def by_rows(self) -> bool:
        """Whether this is one table whose rows move one by one: rows can be taken first and moved after."""
        (group, *more) = self.groups
        (part, *others) = group.layout.parts
        single = not more and not others and len(group.keys) == 1 and len(group.layout.blocks[0].sizes) == 2
        whole = all(stack.fibres is None for stack, _ in group.sources[0].places)
        return single and whole and all(action.dim == 2 for action in part.actions)

    def rows(self, index: Tensor, moves: Moves) -> Tensor:
        """The rows `index` of the table, moved."""
        x = self._frozen(0, 0)[0][index].to(self.dtype)
        if self.layouts[0] is None:
            return x
        (part,), (source,) = self.layouts[0].parts, self.groups[0].sources
        given = source.given(x, moves, take_maps([source], moves))
        for action, g in zip(part.actions, given.maps, strict=False):
            x = g.act(x, -1, action.rep)
        return x * given.scale if part.writes and given.scale is not None else x


def put_together(
    layouts: Sequence[Layout | None], given: Sequence[Sequence[Given]], dtype: torch.dtype
) -> list[Tensor]:
    """The stored tensors (L, ...) of groups, from their parts."""
    return [
        parts[0].frozen.to(dtype)
        if layout is None
        else layout.stored([part.moved(x, dtype) for part, x in zip(layout.parts, parts, strict=True)])
        for layout, parts in zip(layouts, given, strict=True)
    ]

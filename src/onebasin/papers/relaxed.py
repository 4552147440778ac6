"""What moves a model in the first paper's relaxations: soft permutations, which have no inverse, and scaled streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from onebasin.alignment import Alignment, move, transport
from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Move
from onebasin.learn.stacks import streams


@dataclass(frozen=True, kw_only=True)
class RelaxedMove(Move):
    """`base`, then `correction`, then `scale` on what writes to streams; `alignment` is the nearest exact map.

    A soft correction is not a symmetry.  A scale is one up to the eps of norms.
    """

    base: Alignment
    correction: Alignment
    scale: float
    exact: bool

    def __call__(self, form: Checkpoint) -> Checkpoint:
        """The form as it was learned."""
        form = scale_streams(form, self.scale)
        if self.exact:
            return super().__call__(form)
        first = transport(form, self.base)

        def leaf(name: str) -> Callable[[], Tensor]:
            return lambda: move(first.spec, first.spec.leaves[name], first[name], self.correction.maps)

        return first.derive({name: leaf(name) for name in first})


def scale_streams(form: Checkpoint, scale: float) -> Checkpoint:
    """Everything that writes to a stream, times a positive number: the norms undo it, but for their eps."""
    if scale == 1.0:
        return form
    written = {leaf.name for space in streams(form.spec) for leaf in form.spec.writers(space)}

    def scaled(name: str) -> Callable[[], Tensor]:
        return lambda: scale * form[name]

    return form.derive({name: scaled(name) for name in written})

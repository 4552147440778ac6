"""Pages: the parts of a table that can be looked at one after the other.

A page is all that one block of a model stores: the leaves that share its hidden units or its heads.  Blocks meet only
in the residual stream.  Embeddings and heads of the vocabulary are pages of their own; all that is small is one more.
"""

from __future__ import annotations

from math import prod

from onebasin.spec.model import ModelSpec

SMALL = 2**20  # numbers in a leaf that may share a page with leaves of other blocks


def page_names(spec: ModelSpec) -> tuple[tuple[str, ...], ...]:
    """The leaves of every page, by the spaces of blocks that they share."""
    inside = {name: root for root, names in _blocks(spec).items() for name in names}
    pages: dict[str, list[str]] = {}
    for leaf in spec.leaves.values():
        blocks = [inside[axis.space] for _, axis in leaf.spaces() if axis.space in inside]
        own = leaf.name if prod(leaf.shape) > SMALL else ""
        pages.setdefault(blocks[0] if blocks else own, []).append(leaf.name)
    return tuple(map(tuple, pages.values()))


def _blocks(spec: ModelSpec) -> dict[str, set[str]]:
    """Spaces that are no streams, gathered where a leaf has several of them."""
    blocks = {name: {name} for name in spec.spaces if name not in spec.streams}
    for leaf in spec.leaves.values():
        meeting = spec.spaces_of([leaf.name])
        first, *others = [root for root, names in blocks.items() if names & meeting] or [""]
        for other in others:
            blocks[first] |= blocks.pop(other)
    return blocks

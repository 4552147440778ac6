"""What a table must satisfy beyond claiming every entry once, and what a file must hold to be read by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from onebasin.errors import LayoutMismatch, UnclaimedTensor
from onebasin.families import Rep
from onebasin.spec.leaves import GUIDE, Leaf

if TYPE_CHECKING:
    from onebasin.spec.model import ModelSpec


def check_partition(key: str, leaves: Iterable[Leaf]) -> tuple[int, ...]:
    """Every entry of the tensor `key` is claimed exactly once; returns the stored shape."""
    by_rows: dict[int, list[Leaf]] = {}
    for leaf in leaves:
        by_rows.setdefault(leaf.view.start, []).append(leaf)
    end, shapes = 0, []
    for start, parts in sorted(by_rows.items()):
        shapes.append(_check_block(key, parts))
        if start != end or shapes[-1][1:] != shapes[0][1:]:
            what, expected = "The table leaves rows unclaimed or claims some twice", f"the next part at row {end}"
            raise LayoutMismatch(what, tensor=key, expected=expected, found=start, next_step=GUIDE)
        end = start + sum(shapes[-1][:1])
    return (end, *shapes[0][1:]) if shapes[0] else ()


def _check_block(key: str, leaves: list[Leaf]) -> tuple[int, ...]:
    """Every entry of these rows is claimed exactly once; returns their shape."""
    views = {leaf.view.pattern: leaf.view for leaf in leaves}
    shapes = {view.shape for view in views.values()}
    if len(views) != 1 or len(shapes) != 1:
        raise LayoutMismatch("The table gives one tensor two layouts", tensor=key, found=sorted(views), next_step=GUIDE)
    sizes = dict(leaves[0].view.sizes)
    boxes = [_box(leaf, sizes) for leaf in leaves]
    claimed = sum(math.prod(b - a for a, b in box) for box in boxes)
    overlap = any(
        all(a < d and c < b for (a, b), (c, d) in zip(x, y, strict=True))
        for i, x in enumerate(boxes)
        for y in boxes[:i]
    )
    total = math.prod(sizes.values())
    if overlap or claimed != total:
        problem = "claims an entry twice" if overlap else "leaves entries unclaimed"
        expected = f"{total} entries"
        raise UnclaimedTensor(f"The table {problem}", tensor=key, expected=expected, found=claimed, next_step=GUIDE)
    return leaves[0].view.shape


def _box(leaf: Leaf, sizes: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    for x, (start, stop) in zip(leaf.view.order, leaf.box, strict=True):
        if not 0 <= start < stop <= sizes[x]:
            raise LayoutMismatch(
                "A claim lies outside its tensor",
                tensor=leaf.key,
                axis=x,
                expected=f"0..{sizes[x]}",
                found=f"{start}..{stop}",
                next_step=GUIDE,
            )
    return leaf.box


def check_fibres(spec: ModelSpec) -> None:
    """Maps inside a fibre are told apart by the base: a leaf with one axis has the other."""
    for leaf in spec.leaves.values():
        present = {axis.space for _, axis in leaf.spaces()}
        for space in sorted(present):
            base = spec.spaces[space].base
            if base is not None and base not in present:
                raise LayoutMismatch(
                    "The table gives a tensor a fibre without its base",
                    tensor=leaf.name,
                    space=space,
                    expected=f"an axis in {base}",
                    found=sorted(present),
                    next_step=GUIDE,
                )


def check_readers(spec: ModelSpec) -> None:
    """What follows a norm reads the space that the norm writes."""
    for linear in spec.linears.values():
        if linear.norm is None:
            continue
        space = spec.norms[linear.norm].space
        if spec.leaves[linear.weight].dim(space, Rep.COV) is None:
            raise LayoutMismatch(
                "The table lets a linear map follow a norm but not read it",
                tensor=linear.weight,
                space=space,
                expected="a covector axis in that space",
                next_step=GUIDE,
            )


def check_scales(spec: ModelSpec) -> None:
    """What a scale follows writes the space that the scale lies in."""
    for scale in spec.scales.values():
        writer = spec.linears[scale.writer]
        if any(spec.leaves[leaf].dim(scale.space, Rep.VEC) is None for leaf in (writer.weight, writer.bias) if leaf):
            raise LayoutMismatch(
                "The table lets a scale follow a linear map that does not write its space",
                tensor=writer.weight,
                space=scale.space,
                expected="a vector axis in that space",
                next_step=GUIDE,
            )


def check_coverage(spec: ModelSpec, names: Mapping[str, str]) -> None:
    """A file (table name -> stored name) holds every tensor of the table and no other."""
    mirrors = {mirror.key for mirror in spec.mirrors}
    cut = {key for key, pieces in spec.pieces_of.items() if not names.keys().isdisjoint(pieces)}
    needed = [name for key in spec.keys for name in (spec.pieces_of[key] if key in cut else [key])]
    missing = [name for name in needed if name not in names]
    known = mirrors.union(needed)
    extra = [name for key, name in names.items() if key not in known]
    for wrong, problem in ((missing, "lacks a tensor that {} needs"), (extra, "holds a tensor that {} does not have")):
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise UnclaimedTensor(
                f"The checkpoint {problem.format(spec.architecture)}{more}",
                tensor=wrong[0],
                expected=f"{len(needed)} tensors",
                found=f"{len(names)} tensors",
                next_step=f"load the folder with transformers.{spec.architecture}.from_pretrained, look at its "
                "warnings, and save it again with save_pretrained; or correct 'architectures' in config.json",
            )

"""What a table must satisfy beyond claiming every entry once, and what a file must hold to be read by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onebasin.errors import LayoutMismatch, UnclaimedTensor
from onebasin.families import Rep
from onebasin.spec.leaves import GUIDE

if TYPE_CHECKING:
    from onebasin.spec.model import ModelSpec


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

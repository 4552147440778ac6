"""The options of matching: which maps each space may have, and how long to look for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from onebasin import families as fam
from onebasin.errors import BadRecipe
from onebasin.families import Family
from onebasin.options import Count, Distinct, Options, Size
from onebasin.spec import ModelSpec

Group = Literal["residual", "attention", "units"]

LARGEST: dict[str, Family] = {  # the largest family that a choice lets a space have
    "orthogonal": fam.ORTHOGONAL, "permutation": fam.PERMUTATION, "invertible": fam.INVERTIBLE, "none": fam.TRIVIAL,
    "scaled": fam.INVERTIBLE,
}  # fmt: skip


@dataclass(frozen=True)
class Families(Options):
    """What a space may be mapped by: the meet of its own family with the one that an option names.

    residual: "orthogonal" or "permutation".
    inside: maps inside heads, "invertible", "orthogonal", "permutation" or "none".
    units: "scaled" (order, and the scales and signs that the activation admits) or "permutation" (order alone).

    So `inside="orthogonal"` means rotations of pairs where positions are rotary, and `residual="permutation"` plain
    permutations everywhere.
    """

    residual: Literal["orthogonal", "permutation"] = "orthogonal"
    inside: Literal["invertible", "orthogonal", "permutation", "none"] = "invertible"
    units: Literal["scaled", "permutation"] = "scaled"

    def family(self, spec: ModelSpec, space: str) -> Family:
        """The family that `space` is solved in.  Heads, and queries that share one, are reordered whatever is asked."""
        own = spec.family(space)
        match group_of(spec, space):
            case "residual":
                return fam.meet((own, LARGEST[self.residual]))
            case "units":
                return fam.meet((own, LARGEST[self.units]))
        reordered = spec.spaces[space].base is None or own == fam.PERMUTATION
        return own if reordered else fam.meet((own, LARGEST[self.inside]))


@dataclass(frozen=True)
class WeightMatching(Families):
    """The options of weight matching; the defaults are what did best on the pairs measured.

    sweeps: at most this many rounds over all spaces.
    tol: stop when a round gains less than this part of the distance; 0 does all rounds.
    spaces: what is matched, some of "residual" (streams that a norm reads), "attention" (heads and what is inside
        them) and "units" (all others, experts among them); the rest stays as it is.
    extra: what the smaller of two models of unequal size gets for the units and heads it lacks: "zero" (nothing),
        "split" (copies of its own, evenly) or "shares" (copies with the shares that bring it closest).
    """

    sweeps: Count = 15
    tol: Size = 1e-5
    spaces: Annotated[tuple[Group, ...], Distinct()] = ("residual", "attention", "units")
    extra: Literal["zero", "split", "shares"] = "zero"


def check_two(models: int) -> None:
    """Refuse copies as what fills the smaller of more than two models."""
    if models != 2:
        step = "leave weight.extra out: the smaller ones are then filled with nothing"
        raise BadRecipe("Only one of two models can be filled with copies", expected=2, found=models, next_step=step)


@dataclass(frozen=True)
class ActivationMatching(Families):
    """The options of activation matching; permutations in all three are the baseline of the first paper."""


@dataclass(frozen=True)
class Gathering(Options):
    """How more than two models come together: at most so many rounds of aligning each with their mean.

    The end is reached when a round has gained, or the next could gain, less than `tol` of the distance at the start.
    `folder` is an earlier output: models that it does not know are added, with one alignment each.
    """

    rounds: Count = 5
    tol: Size = 1e-3
    folder: str | None = None


def group_of(spec: ModelSpec, space: str) -> str:
    """Which group: heads and what is inside them, streams that a norm reads, or the rest (experts, hidden units)."""
    if space in spec.streams:
        return "residual"
    return "attention" if space in spec.heads or spec.spaces[space].base in spec.heads else "units"

"""How to match by weights: every choice there is, in one plain record, and presets.

"p1-paper" follows the text of P1 and "p1-code" its published code, step by step: 15 sweeps without guard or early stop,
the stream from its anchors in the first and from circuits and all other blocks in the others, then heads, then units.
They differ from P1 where canonical form does.  The key bias, which softmax cannot see, is dropped, and the value bias
folded, so that circuits have a row for the query bias only; offsets of norms are folded into biases where there are
any; a LayerNorm stays one, and the rotation fixes the all-ones vector.  Maps inside heads, which P1 does without, are
solved at the end, so that the factor path can be taken.  Rotary positions, grouped heads and free scales of units are
not in P1; they are treated as everywhere here.  "permutation" is P1's ablation and Git Re-Basin: order alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from onebasin import families as fam
from onebasin.errors import OnebasinError
from onebasin.families import Family
from onebasin.spec import ModelSpec

GROUPS = ("residual", "attention", "units")

LARGEST: dict[str, dict[str, Family]] = {  # option -> choice -> the largest family it lets a space have
    "residual": {"orthogonal": fam.ORTHOGONAL, "permutation": fam.PERMUTATION},
    "inside": {
        "invertible": fam.INVERTIBLE, "orthogonal": fam.ORTHOGONAL, "permutation": fam.PERMUTATION, "none": fam.TRIVIAL,
    },
    "units": {"scaled": fam.INVERTIBLE, "permutation": fam.PERMUTATION},
}  # fmt: skip

CHOICES: dict[str, tuple[str, ...]] = {
    **{option: tuple(choices) for option, choices in LARGEST.items()},
    "moments": ("factors", "circuits", "p1-code"),
    "weighting": ("raw", "balanced", "angle", "columns"),
    "head_metric": ("frobenius-squared", "frobenius", "cosine", "normalised", "spectral"),
    "unit_cost": ("inner", "l1", "cosine"),
}


@dataclass(frozen=True)
class WeightMatching:
    """The options of weight matching; the defaults are what did best on the pairs measured.

    A space is solved in the meet of its own family with the family that an option names: `inside="orthogonal"` means
    rotations of pairs where positions are rotary, and `residual="permutation"` plain permutations everywhere.

    sweeps: at most this many rounds over all spaces.
    tol: stop when a round gains less than this part of the distance; 0 does all rounds.
    guard: refuse every step after the first round that raises the distance, so that it never rises.
    spaces: what is matched, some of "residual" (streams that a norm reads), "attention" (heads and what is inside
        them; alone it is P2's method) and "units" (all others); the rest stays as it is.
    residual: "orthogonal" or "permutation".
    inside: maps inside heads, "invertible", "orthogonal", "permutation" or "none" (P2 without its second stage).
    units: "scaled" (order, and the scales and signs that the activation admits) or "permutation" (order alone).
    moments: what the stream is fitted to in attention: "factors" (queries, keys, values and outputs one by one),
        "circuits" (the products QK and OV of every head, both sides; the distance is then that of circuits, and the
        maps inside heads, which it does not see, are solved once at the end) or "p1-code" (see `stream.py`).
    weighting: how much a block counts, "raw", "balanced", "angle" or "columns" (see `blocks.py`).
    head_metric: distance of circuits, "frobenius-squared", "frobenius", "cosine", "normalised" or "spectral".
    unit_cost: resemblance of hidden units, "inner", "l1" or "cosine" (see `units.py`).
    """

    sweeps: int = 15
    tol: float = 1e-5
    guard: bool = True
    spaces: tuple[str, ...] = GROUPS
    residual: str = "orthogonal"
    inside: str = "invertible"
    units: str = "scaled"
    moments: str = "factors"
    weighting: str = "balanced"
    head_metric: str = "frobenius-squared"
    unit_cost: str = "inner"

    def __post_init__(self) -> None:
        for option, choices in CHOICES.items():
            if getattr(self, option) not in choices:
                raise _refused(option, " or ".join(choices), getattr(self, option))
        known = isinstance(self.spaces, tuple) and set(self.spaces) <= set(GROUPS)
        if not (known and self.spaces):
            raise _refused("spaces", f"some of {', '.join(GROUPS)}", self.spaces)
        if not (type(self.sweeps) is int and self.sweeps >= 1):
            raise _refused("sweeps", "a whole number from 1", self.sweeps)
        if not (isinstance(self.tol, int | float) and 0 <= self.tol < math.inf):
            raise _refused("tol", "a number from 0", self.tol)
        if not isinstance(self.guard, bool):
            raise _refused("guard", "true or false", self.guard)

    def family(self, spec: ModelSpec, space: str) -> Family:
        """The family that `space` is solved in.  Heads, and queries that share one, are reordered whatever is asked."""
        own = spec.family(space)
        match group_of(spec, space):
            case "residual":
                return fam.meet((own, LARGEST["residual"][self.residual]))
            case "units":
                return fam.meet((own, LARGEST["units"][self.units]))
        reordered = spec.spaces[space].base is None or own == fam.PERMUTATION
        return own if reordered else fam.meet((own, LARGEST["inside"][self.inside]))


@dataclass(frozen=True)
class ActivationMatching:
    """The options of activation matching; the defaults are what did best on the pairs measured.

    residual, inside, units: families, as in `WeightMatching`; permutations in all three are P1's baseline.
    weights: the share α of the weights in the moment of the stream beside the activations, from 0 to 1:
        C = (1−α) C_x / |C_x| + α C_w / |C_w|,  solved again once heads and units are in place.
    """

    residual: str = "orthogonal"
    inside: str = "invertible"
    units: str = "scaled"
    weights: float = 0.0

    def __post_init__(self) -> None:
        self.families()
        if not (isinstance(self.weights, int | float) and 0 <= self.weights <= 1):
            raise _refused("weights", "a share from 0 to 1", self.weights)

    def families(self) -> WeightMatching:
        """How weights serve what activations do not see: every block counts alike, and no step is refused."""
        return WeightMatching(
            weighting="angle", guard=False, residual=self.residual, inside=self.inside, units=self.units
        )


def _refused(option: str, expected: str, found: object) -> OnebasinError:
    return OnebasinError(
        f"Matching cannot take this value for '{option}'",
        expected=expected,
        found=repr(found),
        next_step=f"correct the option '{option}', or leave it out",
    )


def group_of(spec: ModelSpec, space: str) -> str:
    """Which of `GROUPS`: fibred spaces and their bases, streams that a norm reads, or the rest."""
    if spec.spaces[space].base is not None or any(other.base == space for other in spec.spaces.values()):
        return "attention"
    return "residual" if any(norm.space == space for norm in spec.norms.values()) else "units"


_P1 = WeightMatching(sweeps=15, tol=0, guard=False, moments="circuits", weighting="raw")

PRESETS: dict[str, WeightMatching] = {
    "default": WeightMatching(),
    "p1-paper": _P1,
    "p1-code": replace(_P1, moments="p1-code", weighting="columns", head_metric="frobenius", unit_cost="l1"),
    "permutation": WeightMatching(residual="permutation", inside="permutation", units="permutation"),
}

"""Latents: free coordinates of each family around the identity.

A latent is what an optimiser may add anything to.  `map` turns it into a map of its family; zero gives the identity
exactly, with finite gradients.  Learning starts at a base map g₀ by acting on a model that g₀ has moved already, so the
learned map is  g = map(latents) ∘ g₀.  Permutations stay as g₀ has them.

A chart is even only near its origin: Cayley's turns a plane by 2 arctan z, so what has turned far turns slowly, and
never by π.  Charts can move along: their origin becomes the map reached so far, and the latents zero.

Shapes: (f?, n, n) or (f?, k), with the leading axis only where the map is fibred.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from onebasin import families as fam
from onebasin.families import Family, Rep
from onebasin.linalg import cayley, centred, expm, skew
from onebasin.maps import Invertible, Map, Orthogonal, map_of
from onebasin.maps.monomial import MonomialGroup
from onebasin.maps.rotary import Rotary

NEWTON_STEPS = 10  # enough for angles up to 170 degrees in float32
FAR = 1e-2  # from orthogonal; products in TF32 leave less

Parts = Mapping[str, Tensor]
Chart = Callable[[Tensor], Tensor]
Kind = TypeVar("Kind", bound=Map)


def kind_of(family: Family, base: type[Kind]) -> type[Kind]:
    """The class of the maps of `family`, which is a kind of `base`."""
    kind = map_of(family)
    assert issubclass(kind, base)
    return kind


@dataclass(frozen=True)
class Latent(ABC):
    """Coordinates of `family` on R^size, `fibres` of them or (None) one.

    `rotation` is the chart of orthogonal matrices; charts that `move` along keep their origin.
    """

    family: Family
    size: int
    fibres: int | None
    rotation: Chart
    moves: bool = False

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each part of the latent, without fibres."""

    def start(self) -> dict[str, Tensor]:
        """The latents to begin with."""
        return {name: torch.zeros(self._front(shape)) for name, shape in self.shapes.items()}

    def state(self) -> dict[str, Tensor]:
        """What else the map depends on and is not learned: more parts."""
        return {}

    def recentred(self, parts: Parts) -> dict[str, Tensor]:
        """New values of parts, with the same map in the middle of the chart."""
        return {}

    def settle(self, parts: Parts) -> None:
        """Check that the chart holds where the latents are."""
        return

    def _front(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if self.fibres is None else (self.fibres, *shape)

    @abstractmethod
    def map(self, parts: Parts) -> Map:
        """The map of these latents, differentiably; it may carry more than a member of the family has to."""

    def member(self, parts: Parts) -> Map:
        """The same as an ordinary member of the family."""
        return self.map(parts)

    def hardened(self, parts: Parts) -> Map:
        """The nearest member, where `member` is a relaxation."""
        return self.member(parts)


class CayleyChart:
    """The orthogonal matrix of Z, (f?, n, n), by Cayley's map of its skew part.

    On a GPU Newton steps take the place of a factorisation, which would wait for the host.  They are too few beyond
    170 degrees; once `settle` has seen that, there is a factorisation in every step.
    """

    def __init__(self, *, newton: bool = True) -> None:
        self.newton = newton

    def __call__(self, z: Tensor) -> Tensor:
        quick = self.newton and self.waits(z) and z.dtype != torch.float64
        return cayley(skew(z), NEWTON_STEPS if quick else None)

    def waits(self, z: Tensor) -> bool:
        """Whether a factorisation there would wait for the host."""
        return z.is_cuda

    @torch.no_grad()
    def settle(self, z: Tensor) -> None:
        """Look whether the map of these latents is orthogonal still."""
        q = self(z)
        off = q.mT @ q - torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
        self.newton = self.newton and bool(off.abs().max() < FAR)


class Charted(Latent):
    """One matrix Z per map; where charts move along, the origin g₁ of each in float64, acting as `origins` say."""

    origins: ClassVar[Mapping[str, Rep]] = {"origin": Rep.VEC}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"z": (self.size, self.size)}

    def state(self) -> dict[str, Tensor]:
        if not self.moves:
            return {}
        one = torch.eye(self.size, dtype=torch.float64).expand(self._front((self.size, self.size)))
        return {name: one.clone() for name in self.origins}

    def settle(self, parts: Parts) -> None:
        if isinstance(self.rotation, CayleyChart):
            self.rotation.settle(parts["z"])

    def recentred(self, parts: Parts) -> dict[str, Tensor]:
        g = self.map({name: x.double() for name, x in parts.items()})
        return {"z": torch.zeros_like(parts["z"]), **{name: g.dense(rep) for name, rep in self.origins.items()}}


def after(matrix: Tensor, parts: Parts, name: str = "origin") -> Tensor:
    """`matrix` after the origin of the chart, where it has one."""
    return matrix @ parts[name].to(matrix.dtype) if name in parts else matrix


class Rotation(Charted):
    """Orthogonal maps.  Where they must fix 1, rows and columns of Z are centred: then every chart does."""

    def map(self, parts: Parts) -> Map:
        z = centred(parts["z"]) if self.family == fam.ORTHOGONAL_ONES else parts["z"]
        return kind_of(self.family, Orthogonal)(after(self.rotation(z), parts))


@dataclass(frozen=True, eq=False, repr=False)
class WithInverse(Invertible):
    """An invertible map that carries g⁻ᵀ, so that acting on covectors needs no inverse."""

    contragredient: Tensor

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """g as vector, the g⁻ᵀ it carries as covector."""
        return self.contragredient if rep is Rep.COV else super().dense(rep)


class Gauge(Charted):
    """Invertible maps g = R exp(H), with the rotation R and the symmetric H from one Z: invertible whatever Z is.

    g⁻ᵀ = R exp(−H).
    """

    origins: ClassVar[Mapping[str, Rep]] = {"origin": Rep.VEC, "contragredient": Rep.COV}

    def map(self, parts: Parts) -> Map:
        matrix, contragredient = self._near(parts["z"])
        return WithInverse(after(matrix, parts), after(contragredient, parts, "contragredient"))

    def _near(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """g and g⁻ᵀ of Z, next to the origin."""
        turn, symmetric = self.rotation(z), (z + z.mT) / 2
        return turn @ expm(symmetric), turn @ expm(-symmetric)

    def member(self, parts: Parts) -> Map:
        return Invertible(self.map(parts).dense())


@dataclass(frozen=True)
class Complex(Latent):
    """One complex number exp(s + iθ) per frequency pair, without s where only rotations are allowed."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        pairs = (self.size // 2,)
        return {"angle": pairs} if self.family == fam.PAIR_ROTATION else {"angle": pairs, "modulus": pairs}

    def map(self, parts: Parts) -> Map:
        angle = parts["angle"]
        modulus = parts["modulus"].exp() if "modulus" in parts else torch.ones_like(angle)
        return kind_of(self.family, Rotary)(modulus * angle.cos(), modulus * angle.sin())


@dataclass(frozen=True)
class Scaling(Latent):
    """Positive factors exp(s): the scales of a base map change in size; its signs and its permutation stay."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"scale": (kind_of(self.family, MonomialGroup).free(self.size),)}

    def map(self, parts: Parts) -> Map:
        free = parts["scale"].exp()
        index = torch.arange(self.size, device=free.device).expand(self._front((self.size,)))
        return kind_of(self.family, MonomialGroup)(index, free.tile(self.size // free.shape[-1]))


LATENTS: dict[Family, type[Latent]] = {  # the other families are finite: signs and permutations
    fam.INVERTIBLE: Gauge,
    fam.ORTHOGONAL: Rotation,
    fam.ORTHOGONAL_ONES: Rotation,
    fam.ROTARY: Complex,
    fam.PAIR_ROTATION: Complex,
    fam.MONOMIAL: Scaling,
    fam.SCALED_PERMUTATION: Scaling,
    fam.SIGNED_SCALING: Scaling,
    fam.POSITIVE_SCALING: Scaling,
    fam.PAIR_SCALING: Scaling,
}

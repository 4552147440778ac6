"""Latents of permutations of the first paper: straight-through (algorithm 1) and soft (appendix C.2).

Both hold a matrix Z per permutation, n² numbers: affordable for heads and for the units of small models.
Straight-through assignments are solved beside the run: they take CPU time that no step waits for.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from onebasin import families as fam
from onebasin.families import Rep
from onebasin.learn.variation import Beside
from onebasin.linalg import assign, sinkhorn
from onebasin.maps import DoublyStochastic, Map
from onebasin.maps.dense import Dense
from onebasin.maps.monomial import MonomialGroup
from onebasin.moving.coordinates import Coordinates
from onebasin.moving.latents import Latent, Parts, kind_of

PERMUTING = (fam.PERMUTATION, fam.PERMUTATION_SIGN, fam.SIGNED_PERMUTATION, fam.SCALED_PERMUTATION, fam.MONOMIAL)


@dataclass(frozen=True, eq=False, repr=False)
class Shares(DoublyStochastic):
    """s P, with P the relaxation of a permutation and positive scales s: s P as vector, P / s as covector."""

    scale: Tensor  # (f?, n)

    def dense(self, rep: Rep = Rep.VEC) -> Tensor:
        """The scales go on the rows."""
        match rep:
            case Rep.VEC:
                return self.scale.unsqueeze(-1) * self.matrix
            case Rep.COV:
                return self.matrix / self.scale.unsqueeze(-1)
            case Rep.PERM:
                return self.matrix


@dataclass(frozen=True)
class Assignment(Latent):
    """A permutation, with scales where the family has them."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        scaled = {"scale": (self.size,)} if self.kind.scaled else {}
        return {"z": (self.size, self.size), **scaled}

    @property
    def kind(self) -> type[MonomialGroup]:
        return kind_of(self.family, MonomialGroup)

    def scores(self, z: Tensor) -> Tensor:
        """What the assignment maximises: the nearest permutation of these latents is `assign(scores)`."""
        return torch.eye(self.size, dtype=z.dtype, device=z.device) + z

    def _scaled(self, shares: Tensor, parts: Parts) -> Dense:
        return Shares(shares, parts["scale"].exp()) if "scale" in parts else DoublyStochastic(shares)

    def hardened(self, parts: Parts) -> Map:
        """The nearest member of the family."""
        index = assign(self.scores(parts["z"]))
        scale = parts["scale"].exp() if "scale" in parts else torch.ones_like(index, dtype=parts["z"].dtype)
        return self.kind(index, scale)


@dataclass(frozen=True)
class StraightThrough(Assignment):
    """P = the permutation nearest to I + Z going forward, I + Z itself going back.

    `index` holds the permutation.  It is state: whoever optimises Z solves the assignment again when it sees fit.
    """

    def state(self) -> dict[str, Tensor]:
        return {"index": torch.arange(self.size).expand(self._front((self.size,))).clone()}

    def map(self, parts: Parts) -> Map:
        z = parts["z"]
        hard = one_hot(parts["index"], self.size).to(z.dtype)
        return self._scaled(hard + (z - z.detach()), parts)

    def member(self, parts: Parts) -> Map:
        return self.hardened(parts)


@dataclass(frozen=True)
class Soft(Assignment):
    """P = Sinkhorn(exp Z) with Z = log(I + U), U uniform on (0, 2a), a = ε √3 σ, σ² = 1/n: not a symmetry.

    ε is the `noise` of the start; `sinkhorn` counts the rounds of scaling.
    """

    sinkhorn: int = 20
    noise: float = 0.01
    seed: int = 0

    def start(self) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        most = 2 * self.noise * (3 / self.size) ** 0.5
        noise = most * torch.rand(self._front((self.size, self.size)), generator=generator)
        tiny = torch.finfo(noise.dtype).tiny  # no logarithm of zero
        return {**super().start(), "z": (torch.eye(self.size) + noise.clamp_min(tiny)).log()}

    def scores(self, z: Tensor) -> Tensor:
        return z

    def map(self, parts: Parts) -> Map:
        return self._scaled(sinkhorn(parts["z"], self.sinkhorn), parts)


class Reassignment(Beside):
    """Every `every` steps the permutations become those of the latents `every` steps ago.

    The delay is fixed, so that a run that is taken up again takes the same course.
    """

    def __init__(self, sides: nn.ModuleList, every: int) -> None:
        super().__init__(sides)
        self.every, self._pool = every, ThreadPoolExecutor(1)
        self._pending: dict[str, Future[Tensor]] = {}

    def refresh(self, step: int) -> None:
        """Take what is solved, and begin to solve for the latents as they are now."""
        if step % self.every:
            return
        solved = self.pending()
        for i, side in enumerate(self.sides):
            assert isinstance(side, Coordinates)
            for stack, latent in side.latents.items():
                if isinstance(latent, StraightThrough):
                    name, parts = f"{i}/{stack}", side.parts(stack)
                    if name in solved:
                        parts["index"].copy_(solved[name])
                    self._pending[name] = self._pool.submit(assign, latent.scores(parts["z"].detach()).cpu())

    def pending(self) -> dict[str, Tensor]:
        """What the next refresh will take, waited for."""
        return {name: future.result() for name, future in self._pending.items()}

    def take_up(self, pending: dict[str, Tensor]) -> None:
        """Go on from what `pending` gave."""
        for name, index in pending.items():
            self._pending[name] = Future()
            self._pending[name].set_result(index.clone())

"""How large the blocks of two models are: one pass over their pages, from which emphasis follows."""

from __future__ import annotations

from dataclasses import dataclass, field

from onebasin.match.circuits import circuits_of, inner_spaces
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.spec import ModelSpec


@dataclass(frozen=True)
class Sizes:
    """|A| |B| of every leaf and of the circuits of every space inside heads, and how many columns these have."""

    spec: ModelSpec
    leaves: dict[str, float] = field(default_factory=dict)
    circuits: dict[str, float] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pages: Pages) -> Sizes:
        """Read all pages once."""
        found = cls(pages.spec)
        for pair in pages:
            found.add(pair)
        return found

    @property
    def matrices(self) -> list[str]:
        """The leaves with more than one axis."""
        return [name for name in self.leaves if len(self.spec.leaves[name].shape) > 1]

    def add(self, pair: Pair) -> None:
        """Look at one page."""
        self.leaves.update({name: float(x.norm() * pair.b[name].norm()) for name, x in pair.a.items()})
        here = self.spec.spaces_of(pair.a)
        for inner in inner_spaces(self.spec):
            if inner in here:
                a, b = (circuits_of(pair, {}, inner, of_b=of_b) for of_b in (False, True))
                self.circuits[inner] = float(a.square.sum().sqrt() * b.square.sum().sqrt())
                self.columns[inner] = a.square.numel() * a.features

"""What `align` returns: models in one basis, the maps that brought them there, and how exact that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from onebasin import recipes
from onebasin.aligning import in_one_gauge, same_form
from onebasin.alignment import Alignment
from onebasin.api.sources import Source, live, opened
from onebasin.checkpoint import Checkpoint
from onebasin.landscape import Simplex
from onebasin.recipes.sections import Dtype

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Live = TypeVar("Live", bound="PreTrainedModel")


@dataclass(frozen=True, repr=False)
class AlignedModels:
    """Models in one basis, so that their tensors can be averaged entry by entry.  What `align` returns.

    `models` are the checkpoints, the reference first; `certificate` says how they were aligned and how exact that is.
    """

    plan: recipes.Plan
    found: recipes.Found
    certificate: dict[str, Any]

    @property
    def models(self) -> list[Checkpoint]:
        """All models in one gauge: the reference's own where `reason` is None, else canonical."""
        return self.found.models

    @property
    def reason(self) -> str | None:
        """Why the reference is not as it was, if it is not: a tied head, a gain near zero, a smaller size."""
        return self.found.aligned[0].reason

    @property
    def alignment(self) -> Alignment:
        """The maps that took B into the basis of A, one per space."""
        return self.alignments[0]

    @property
    def alignments(self) -> tuple[Alignment, ...]:
        """The maps of every model but the first."""
        return tuple(pair.alignment for pair in self.found.aligned)

    def merged(self, weights: Sequence[float] | None = None) -> Checkpoint:
        """Σ λ_m θ_m, a stock checkpoint; the shares λ are `weights` divided by their sum, all the same if not given."""
        recipe = recipes.Merge(self.plan.recipe.models, weights=None if weights is None else tuple(weights))
        return Simplex(self.models).at(recipe.shares)

    @overload
    def apply(self, source: str | Path | Checkpoint, which: int = 1) -> Checkpoint: ...
    @overload
    def apply(self, source: Live, which: int = 1) -> Live: ...
    def apply(self, source: Source, which: int = 1) -> Checkpoint | PreTrainedModel:
        """Another model moved like model `which` (B is 1), such as a later checkpoint of it: the same function.

        It can be averaged with `models[0]`.  A live model comes back as a live model of its class, everything else as a
        checkpoint.
        """
        checkpoint, a = opened(source), self.plan.models[0]
        form_a, form = same_form(a, checkpoint)
        moved = self.found.moved(form, which - 1)
        if self.reason is None:
            (_, moved), _ = in_one_gauge(a, (form_a, moved))
        return moved if isinstance(source, str | Path | Checkpoint) else live(moved)

    def save(self, folder: str | Path, *, dtype: Dtype | None = None) -> None:
        """Write what `onebasin align` writes: the models that were moved, maps, certificate, recipe, report.

        `recipe.yaml` makes the folder again if all models were given as folders or Hub ids; else it is a record.
        """
        recipe = self.plan.recipe
        assert isinstance(recipe, recipes.Align)
        recipe = replace(recipe, write=replace(recipe.write, out=str(folder), dtype=dtype))
        recipes.write(replace(self.plan, recipe=recipe), recipe, self.found, self.certificate)

    def __repr__(self) -> str:
        told = self.certificate
        lines = [f"AlignedModels: {len(self.models)} × {self.models[0].spec.architecture}, method {told['method']}"]
        lines += [f"  {told[key]}" for key in ("because", "why") if told.get(key)]
        names = told["models"][1:]
        for name, own in zip(names, told.get("aligned", [told]), strict=True):
            drift = ", ".join(f"{value:.1e} in {kind}" for kind, value in own["output_drift"].items())
            lines.append(f"  {name}: distance {own['distance_before']:.4g} -> {own['distance_after']:.4g}")
            lines.append(f"    output drift {drift}")
        if "learning" in told:
            before, after = told["learning"]["history"][0]["midpoint"], told["learning"]["midpoint"]
            lines.append(f"  loss at the midpoint, on samples held back: {before:.4f} -> {after:.4f}")
        return "\n".join([*lines, f"  gauge: {told['gauge']}", "  next: .merged().save(FOLDER), .save(FOLDER)"])

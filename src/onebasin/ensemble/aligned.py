"""Aligned: models in one basis, so that their tensors can be averaged entry by entry.  What every method returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torch import Tensor

from onebasin.alignment import Alignment, transport
from onebasin.canonical.rewrites import split_gain
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.sharing import Shared
from onebasin.checkpoint.sources import Source, live, opened
from onebasin.ensemble.ensemble import Ensemble
from onebasin.ensemble.storage import save_paces, save_universe
from onebasin.ensemble.words import describe_drift, difference, html_table
from onebasin.errors import OnebasinError
from onebasin.paths import FactorPath
from onebasin.paths.factor import Paces

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Live = TypeVar("Live", bound="PreTrainedModel")


@dataclass(frozen=True)
class Move:
    """What takes a canonical form into the common basis: maps, then gains.

    `gains` multiply the gain of norms and divide what reads them.  A model that `stays` is in the basis already.
    """

    alignment: Alignment
    gains: Mapping[str, Tensor] = field(default_factory=dict)
    stays: bool = False

    @property
    def still(self) -> bool:
        """Whether nothing changes."""
        return self.stays and not self.gains

    def __call__(self, form: Checkpoint) -> Checkpoint:
        """The form in the common basis: the same function."""
        moved = form if self.stays else transport(form, self.alignment)
        for norm, factor in self.gains.items():
            moved = split_gain(moved, norm, factor)
        return moved


@dataclass(frozen=True, repr=False)
class Aligned(Shared):
    """An ensemble, one move for each of its models, and the course of the run that found them, as plain data.

    `paces` are how fast numbers go from model to model, where that was learned: they belong to averages alone.
    `why_canonical` is a reason why the first model cannot stay as it is.  `certificate` says how the models were
    aligned and how exact that is, once they are certified; `writer` is what `save` uses; `moved` are the forms, if
    they were made before.
    """

    ensemble: Ensemble
    moves: tuple[Move, ...]
    course: Mapping[str, Any] = field(default_factory=dict)
    why_canonical: str | None = None
    paces: tuple[Paces, ...] = ()
    certificate: Mapping[str, Any] = field(default_factory=dict)
    writer: Callable[[Aligned, Path, str | None], object] | None = None
    moved: tuple[Checkpoint, ...] | None = None

    @cached_property
    def forms(self) -> tuple[Checkpoint, ...]:
        """All models in canonical form and in one basis; lazily, leaf by leaf, unless they were `moved_once`."""
        return self.moved or tuple(move(form) for move, form in zip(self.moves, self.ensemble.forms, strict=True))

    def moved_once(self) -> Aligned:
        """The same for what looks at the models again and again: of two, a small one that moves is kept in memory."""
        if len(self.moves) > 2:
            return self
        pairs = zip(self.moves, self.forms, strict=True)
        return replace(self, moved=tuple(form if move.still else form.kept_if_small() for move, form in pairs))

    @cached_property
    def _written(self) -> tuple[tuple[Checkpoint, ...], str | None]:
        return self.ensemble.in_one_gauge(self.forms, self.why_canonical)

    @property
    def models(self) -> tuple[Checkpoint, ...]:
        """All models in one gauge, the reference first: in its own where `reason` is None, else canonical."""
        return self._written[0]

    @property
    def reason(self) -> str | None:
        """Why the reference is not as it was, if it is not: a tied head, a gain near zero, a smaller size."""
        return self._written[1]

    @property
    def alignments(self) -> tuple[Alignment, ...]:
        """The maps of every model into the common basis; the identity for a first model that stays."""
        return tuple(move.alignment for move in self.moves)

    @property
    def alignment(self) -> Alignment:
        """The maps that took B into the basis of A, one per space."""
        return self.moves[1].alignment

    def distances(self, which: int = 1) -> tuple[float, float]:
        """Distance of weights of model `which` from the first: as they are, and aligned; canonical, in A's own basis.

        The same by every method.
        """
        return self.ensemble.distance(self.ensemble.forms[which]), self.ensemble.distance(self.placed(which))

    def placed(self, which: int) -> Checkpoint:
        """The canonical form of model `which` in A's own basis, without learned gains; lazily, leaf by leaf.

        Where A has moved as well, it is taken back to where A was.
        """
        first, move = self.moves[0], self.moves[which]
        moved = replace(move, gains={})(self.ensemble.forms[which]) if move.gains else self.forms[which]
        return moved if first.stays else transport(moved, first.alignment.inverse())

    def merged(self, shares: Sequence[float] | None = None) -> Checkpoint:
        """Σ λ_m θ_m, a stock checkpoint; λ are the `shares` divided by their sum, all the same if not given."""
        given = [1.0] * len(self.moves) if shares is None else list(shares)
        if sum(given) <= 0:
            step = "give one number for each model, none below 0"
            raise OnebasinError("An average needs shares", expected="a sum above 0", found=shares, next_step=step)
        return FactorPath(*self.models, paces=self.paces).at([share / sum(given) for share in given])

    @overload
    def apply(self, source: str | Path | Checkpoint, which: int = 1) -> Checkpoint: ...
    @overload
    def apply(self, source: Live, which: int = 1) -> Live: ...
    def apply(self, source: Source, which: int = 1) -> Checkpoint | PreTrainedModel:
        """Another model moved like model `which` (B is 1), such as a later checkpoint of it: the same function.

        It can be averaged with `models[0]`.  A live model comes back as a live model of its class, everything else as a
        checkpoint.
        """
        form = self.moves[which](self.ensemble.form_of(opened(source), which))
        (_, moved), _ = self.ensemble.in_one_gauge((self.forms[0], form), self.reason)
        return moved if isinstance(source, str | Path | Checkpoint) else live(moved)

    def save_maps(self, folder: Path) -> None:
        """Write the alignment of B, or those of all models where there are more; and the paces of an average."""
        if len(self.moves) == 2 and "universe" not in self.course:
            self.alignment.save(folder)
        else:
            save_universe(self.ensemble.models, self.alignments, self.course["universe"], folder)
        if self.paces:
            save_paces(self.paces, folder)

    def save(self, folder: str | Path, *, dtype: str | None = None) -> None:
        """Write what `onebasin align` writes: the models that were moved, maps, certificate, recipe, report.

        `recipe.yaml` makes the folder again if all models were given as folders or Hub ids; else it is a record.
        """
        if self.writer is None:
            step = "align with onebasin.align, or save the models one by one: .models[1].save(FOLDER)"
            raise OnebasinError("This alignment was not made by a verb", next_step=step)
        self.writer(self, Path(folder), dtype)

    def _repr_html_(self) -> str:
        report = self.certificate
        rows = []
        for name, own in zip(report.get("models", [])[1:], report.get("aligned", [report]), strict=False):
            drifts = [difference(value) for value in own["output_drift"].values()]
            rows.append([name, f"{own['distance_before']:.4g}", f"{own['distance_after']:.4g}", ", ".join(drifts)])
        head = ["model", "distance before", "distance after", "output drift"]
        return html_table(repr(self).partition("\n")[0], head, rows)

    def __repr__(self) -> str:
        spec, report = self.ensemble.spec, self.certificate
        lines = [f"Aligned: {len(self.moves)} × {spec.architecture}, method {report.get('method', 'unknown')}"]
        lines += [f"  {report[key]}" for key in ("because", "why") if report.get(key)]
        for name, own in zip(report.get("models", [])[1:], report.get("aligned", [report]), strict=False):
            lines.append(f"  {name}: distance {own['distance_before']:.4g} -> {own['distance_after']:.4g}")
            lines.append(f"    output drift {describe_drift(own['output_drift'])}")
        if "learning" in self.course:
            before, after = self.course["learning"]["history"][0]["midpoint"], self.course["learning"]["midpoint"]
            lines.append(f"  loss at the midpoint, on samples held back: {before:.4f} -> {after:.4f}")
        gauge = report.get("gauge", "not certified")
        return "\n".join([*lines, f"  gauge: {gauge}", "  next: .merged().save(FOLDER), .save(FOLDER)"])

"""The method that a recipe names, carried out: from checked models to aligned ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from onebasin.aligning import METHODS, Aligned, align, match_forms
from onebasin.alignment import transport
from onebasin.automatic import PROBES, choose
from onebasin.checkpoint import Checkpoint
from onebasin.learn import Learned, Progress, aligned_pairs, learn_together
from onebasin.recipes.plan import Plan, Tick
from onebasin.recipes.recipe import Align, Merge
from onebasin.recipes.sections import Gathering
from onebasin.tasks import Training, training
from onebasin.universe import Universe, as_they_are, load_universe, match_universe
from onebasin.universe.storage import facts, save_universe
from onebasin.universe.universe import called

HELD, LABELS = 1000, 50_000  # samples that learning holds back, and labels of them, at most
BATCH = 64


@dataclass(frozen=True)
class Found:
    """The first model with each of the others, and what there is to tell of how they were aligned."""

    aligned: tuple[Aligned, ...]
    told: dict[str, Any]
    universe: Universe | None = None
    learned: tuple[Learned, ...] = ()

    @property
    def models(self) -> list[Checkpoint]:
        """All models in one gauge."""
        return [self.aligned[0].a, *(pair.b for pair in self.aligned)]

    def moved(self, form: Checkpoint, i: int) -> Checkpoint:
        """A canonical form moved like model i of those that were aligned with the first."""
        return self.learned[i].moved(form) if self.learned else transport(form, self.aligned[i].alignment)

    def save(self, folder: Path) -> None:
        """Write the maps."""
        if self.universe is None:
            self.aligned[0].alignment.save(folder)
        else:
            save_universe(self.universe, folder)


def find(plan: Plan, recipe: Align | Merge, state: Path, tick: Tick) -> Found:
    """Align the models by the method of the recipe.  Learning keeps its state in `state`."""
    if recipe.method in METHODS:
        return _matched(plan, recipe, tick)
    if recipe.method == "auto":
        gathering = recipe.universe or Gathering()
        chosen = choose(
            plan.models, plan.data, recipe.learn, rounds=gathering.rounds, tol=gathering.tol, device=plan.device,
            folder=state, tick=tick, learning=partial(shown, tick=tick),
        )  # fmt: skip
        return _learned(recipe, chosen.universe, chosen.learned, {"why": chosen.why, "starts": chosen.midpoints})
    assert plan.data is not None
    start = as_they_are(plan.models) if recipe.start == "identity" else _gathered(plan, recipe, str(recipe.start), tick)
    learned = learn_together(
        plan.models, (None, *start.alignments[1:]), plan.data, held_back(training(plan.data)),
        recipe.learning(labelled=plan.data.labelled), device=plan.device, folder=state, tick=partial(shown, tick=tick),
    )  # fmt: skip
    return _learned(recipe, start, learned, {"start": recipe.start})


def held_back(data: Training) -> int:
    """How many samples validate a run: a tenth of them, and no more than tell; a window of text has many labels."""
    return max(1, min(HELD, len(data) // 10, LABELS // data.length))


def _matched(plan: Plan, recipe: Align | Merge, tick: Tick) -> Found:
    if not recipe.gathers:
        a, b = plan.models
        return Found((align(a, b, **_how(plan, recipe, str(recipe.method)), tick=tick),), {})
    universe = _gathered(plan, recipe, str(recipe.method), tick)
    return Found(universe.aligned(), {"universe": facts(universe)}, universe)


def _learned(recipe: Align | Merge, start: Universe, learned: Sequence[Learned], told: dict[str, Any]) -> Found:
    """The models by what was learned of each, from `start` on."""
    told, pairs = {**told, "learning": course(learned[1:])}, aligned_pairs(start.models, learned[1:])
    if not recipe.gathers:
        return Found(pairs, told, learned=tuple(learned[1:]))
    universe = start.moved([own.alignment for own in learned])
    return Found(pairs, {"universe": facts(universe), **told}, universe, tuple(learned[1:]))


def _how(plan: Plan, recipe: Align | Merge, method: str) -> dict[str, Any]:
    """The recipe's options of matching."""
    size, batches = recipe.task.batch_size if recipe.task else BATCH, None
    if plan.data is not None and method == "activation":
        batches = [inputs for inputs, _ in plan.data.first(min(len(plan.data), PROBES)).batches(size)]
    options = {"weight": recipe.matching, "activation": recipe.activation}
    return {"method": method, "batches": batches, "device": plan.device, **options}


def _gathered(plan: Plan, recipe: Align | Merge, method: str, tick: Tick) -> Universe:
    """All models in one frame: found anew, or models added to a universe that is there."""
    how = recipe.universe or Gathering(rounds=1)  # the mean of two models tells nothing new
    match = partial(match_forms, **_how(plan, recipe, method))
    if how.folder is None:
        return match_universe(plan.models, match, rounds=how.rounds, tol=how.tol, tick=tick)
    universe, others = load_universe(how.folder, plan.models)
    known = [i for i in range(len(plan.models)) if i not in others]
    for i in others:
        tick(f"adding model {called(i)}")
        universe = universe.add(plan.models[i], match)
    places = [*known, *others]
    return universe.ordered(*(places.index(i) for i in range(len(places))))


def shown(now: Progress, tick: Tick) -> None:
    tick(f"learning: {now}", now.step, now.steps)


def course(moved: Sequence[Learned]) -> dict[str, Any]:
    """What learning did with all models that were moved, as plain data."""
    first, scales = moved[0], [own.scale for own in moved]
    return {
        "options": first.options.as_dict(),
        "best_step": first.best_step,
        "midpoint": first.midpoint,
        "function_kept": first.exact,
        "stream_scale": scales[0] if len(scales) == 1 else scales,
        "norms_with_learned_gains": len(first.gains),
        "history": [asdict(point) for point in first.history],
    }

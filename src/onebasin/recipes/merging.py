"""What a merge may do between aligning and writing: choose the share of B, and train the average."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.words import letter, name_of
from onebasin.errors import Incompatible
from onebasin.landscape import Curve, measure
from onebasin.methods.method import BATCH, Tick, silent
from onebasin.options import write_section
from onebasin.paths import FactorPath
from onebasin.processes.world import World
from onebasin.recipes.plan import Plan, parts_of
from onebasin.recipes.recipe import Merge

PLAIN, MERGED, HEALED = "plain average", "merged", "healed"
SHARES = 21  # shares of B that are tried for the best, both ends included


@dataclass(frozen=True)
class Merging:
    """What came of a merge beside the alignment: what was trained, by the names of rows."""

    trained: Mapping[str, Checkpoint] = field(default_factory=dict)

    def parts(self, plan: Plan, aligned: Aligned) -> dict[str, Checkpoint]:
        """Folder inside the output -> checkpoint."""
        if HEALED in self.trained:
            return {"": self.trained[HEALED]}
        return parts_of(plan.alignment[0], aligned.models, aligned.reason, aligned.paces)


def complete(plan: Plan, aligned: Aligned, world: World, tick: Tick = silent) -> tuple[Plan, Aligned, Merging]:
    """Choose the share and train, as far as the recipe asks for it; the plan and the course of the run say so."""
    plan, aligned = with_share(plan, aligned, world, tick)
    trained, aligned = healed(plan, aligned, world, tick)
    return plan, aligned, Merging(trained)


def with_share(plan: Plan, aligned: Aligned, world: World, tick: Tick = silent) -> tuple[Plan, Aligned]:
    """The plan with the share of B that has the lowest loss, if it is to be found; the path is kept with the result."""
    recipe = plan.recipe
    if not isinstance(recipe, Merge) or recipe.share != "best":
        return plan, aligned
    assert plan.samples.choose is not None
    tick("choosing the share of B")
    size = recipe.task.batch_size if recipe.task else BATCH
    path = measure(
        FactorPath(*aligned.models, paces=aligned.paces),
        plan.samples.choose,
        SHARES,
        batch_size=size,
        device=plan.device,
    )
    assert isinstance(path, Curve)
    lowest = min(range(SHARES), key=lambda i: path.evaluations[i].loss)
    share = world.agreed(path.shares[lowest], plan.device)
    a, b = (name_of(model.path) for model in recipe.models)
    course = {**aligned.course, "path": {"a": a, "b": b, **path.as_dict(), "best": share}}
    return replace(plan, recipe=replace(recipe, share=share)), replace(aligned, course=course)


def healed(plan: Plan, aligned: Aligned, world: World, tick: Tick = silent) -> tuple[dict[str, Checkpoint], Aligned]:
    """The average after training, and what it is compared with, by the names of their rows; nothing if none is asked
    for.  How it went is kept with the result."""
    recipe = plan.recipe
    if not isinstance(recipe, Merge) or recipe.heal is None or not recipe.heals:
        return {}, aligned
    from onebasin.healing.train import EVERY, heal

    train = plan.samples.train
    assert train is not None
    found, losses = {}, {}
    for name, start in starts(plan, recipe, aligned).items():

        def told(step: str, done: float, total: float, name: str = name) -> None:
            tick(f"training {name}: {step}", done, total)

        found[name], losses[name] = heal(start, train, recipe.heal, device=plan.device, world=world, tick=told)
    course = {"options": write_section(recipe.heal), "task": train.name, "every": EVERY, "losses": losses}
    return found, replace(aligned, course={**aligned.course, "healing": course})


def starts(plan: Plan, recipe: Merge, aligned: Aligned) -> dict[str, Checkpoint]:
    """What is trained, by the names of rows: the average, and to compare all models and their plain average."""
    found = {HEALED: FactorPath(*aligned.models, paces=aligned.paces).at(recipe.lambdas)}
    if recipe.heal is None or not recipe.heal.compare:
        return found
    found |= {after(row): model for row, model in zip(members(recipe), plan.models, strict=True)}
    with suppress(Incompatible):  # models of unequal size have none
        found[after(PLAIN)] = FactorPath(*plan.models).at(recipe.lambdas)
    return found


def members(recipe: Merge) -> dict[str, str]:
    """The models that are merged: the names of their rows, and what to call them."""
    return {f"{letter(i)} ({name_of(model.path)})": letter(i) for i, model in enumerate(recipe.models)}


def after(row: str) -> str:
    """The row of a model after the same training as the average."""
    return f"{row}, trained"

"""Which samples of a task a merge trains on, which choose the share of B, and which measure the result."""

from __future__ import annotations

from dataclasses import dataclass

from onebasin.errors import BadTask
from onebasin.methods.method import UNSEEN, Method
from onebasin.recipes.recipe import Merge
from onebasin.tasks import AnyTask, Training, with_labels


@dataclass(frozen=True)
class Samples:
    """Labelled samples to train the average on, to choose its share by, and to measure it on.

    `held` says what was known of the last before.  What nobody asked for is not there.
    """

    train: Training | None = None
    choose: AnyTask | None = None
    measure: AnyTask | None = None
    held: str = ""


def samples_of(data: AnyTask | None, recipe: Merge, method: Method) -> Samples:
    """Nothing is measured on samples that were learned from; half of the others choose the share if that is open."""
    if data is None or with_labels(data) is None:
        if recipe.heals or recipe.share == "best":
            step = "give a task with labels, or leave `heal` and the best share out"
            what = "There is nothing to train the average on, or to choose its share by"
            raise BadTask(what, expected="labels", found=None if data is None else data.name, next_step=step)
        return Samples()
    train: Training | None = None
    choose: AnyTask | None = None
    held, words = method.to_measure_on(data)
    if recipe.heals:
        rest, held = method.split(data)
        train, words = with_labels(rest), words if method.learns else _known(method)
    measure = with_labels(held)
    if measure is not None and recipe.share == "best":
        choose, measure = measure.split(max(1, len(measure) // 2))
    return Samples(train, choose, measure, words)


def _known(method: Method) -> str:
    """What was known of samples that were held back from training alone."""
    if method.needs == "nothing":
        return UNSEEN
    return "held back from training; the method may have seen them, without their labels"

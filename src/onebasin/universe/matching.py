"""Matching of any number of models: align each with their mean, and repeat (P1, section 3.7).

    U ← θ_start;  repeat:  π_m ← ALIGN(θ_m, U),  U ← mean of π_m(θ_m)

Two models are in memory at a time, U and the one that is being aligned, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onebasin.aligning import match_forms
from onebasin.alignment import Alignment, transport
from onebasin.checkpoint import Checkpoint
from onebasin.errors import OnebasinError
from onebasin.universe.universe import Match, Universe, called, centre, common_forms, weights_of

ROUNDS, TOL = 5, 1e-3


def match_universe(
    models: Sequence[Checkpoint],
    match: Match = match_forms,
    *,
    rounds: int = ROUNDS,
    tol: float = TOL,
    start: int = 0,
    tick: Callable[[str], None] = lambda step: None,
) -> Universe:
    """Bring all models into one frame.  `match` is ALIGN: by weights unless another is given, such as
    `partial(match_forms, method="activation", batches=inputs)`.

    Every round but the first goes on from the maps of the one before and is taken only where it lowers the objective.
    The end is reached when a round has gained, or the next could gain, less than `tol` of the objective at the start.
    """
    check_members(len(models), start)
    tick("canonical forms")
    forms = common_forms(models)
    maps = [Alignment.identity(form.spec) for form in forms]
    weight = weights_of(forms[start])
    objective, matches, settled = [centre(forms, weight)[1]], 0, False
    mean = forms[start].in_memory()
    for turn in range(rounds):
        new = list(maps)
        for m, form in enumerate(forms):
            if turn or m != start:
                tick(f"round {turn + 1}, model {called(m)}, distance {objective[-1]:.6g}")
                new[m] = match(mean, form, maps[m] if turn else None).alignment
                matches += 1
        mean, spread = centre([transport(form, g) for form, g in zip(forms, new, strict=True)], weight)
        gain = objective[-1] - spread
        if turn and gain <= 0:
            settled = True
            break
        maps = new
        objective.append(spread)
        if (turn and gain <= tol * objective[0]) or spread <= tol * objective[0]:
            settled = True
            break
    found = Universe(tuple(models), forms, tuple(maps), tuple(objective), matches, start, settled)
    return found.ordered(*range(len(models)))


def check_members(count: int, start: int) -> None:
    """Two models or more, and one of them to begin with."""
    if count < 2 or not 0 <= start < count:
        raise OnebasinError(
            "A universe has two models or more, and begins with one of them",
            expected="2 or more models, start from 0 to their number less one",
            found=f"{count} models, start {start}",
            next_step="give more models, or the number of another to begin with",
        )

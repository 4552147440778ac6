"""Matching of any number of models: align each with their mean, and repeat (P1, section 3.7).

    U ← θ_1;  repeat:  π_m ← ALIGN(θ_m, U) for m > 1,  U ← mean of π_m(θ_m)

The first model is the start, and it stays: π_1 = 1 fixes the frame, which the objective leaves free.  (Moving it too
and going back to its basis afterwards multiplies maps that are badly conditioned where a model has dead directions.)
Within a round all models are aligned with the same U, so that their order does not matter.  However many there are, the
memory is that of aligning two: U and one model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onebasin.aligning import match_forms
from onebasin.alignment import Alignment, transport
from onebasin.checkpoint import Checkpoint
from onebasin.universe.universe import Match, Universe, called, centre, common_forms, weights_of

ROUNDS, TOL = 5, 1e-3


def match_universe(
    models: Sequence[Checkpoint],
    match: Match = match_forms,
    *,
    rounds: int = ROUNDS,
    tol: float = TOL,
    tick: Callable[[str], None] = lambda step: None,
) -> Universe:
    """Bring all models into the basis of the first.  `match` is ALIGN: by weights unless another is given, such as
    `partial(match_forms, method="activation", batches=inputs)`.

    Every round but the first goes on from the maps of the one before and is taken only where it lowers the objective.
    The end is reached when a round has gained, or the next could gain, less than `tol` of the objective at the start.
    """
    tick("canonical forms")
    forms = common_forms(models)
    maps = [Alignment.identity(form.spec) for form in forms]
    weight = weights_of(forms[0])
    objective, matches, settled = [centre(forms, weight)[1]], 0, False
    mean = forms[0].in_memory()
    for turn in range(rounds):
        new = maps[:1]
        for m, form in enumerate(forms[1:], 1):
            tick(f"round {turn + 1}, model {called(m)}, distance {objective[-1]:.6g}")
            new.append(match(mean, form, maps[m] if turn else None).alignment)
            matches += 1
        mean, spread = centre([transport(form, g) for form, g in zip(forms, new, strict=True)], weight)
        gain = objective[-1] - spread
        if not turn or gain > 0:
            maps = new
            objective.append(spread)
        settled = spread <= tol * objective[0] or (turn > 0 and gain <= tol * objective[0])
        if settled:
            break
    return Universe(tuple(models), forms, tuple(maps), tuple(objective), matches, settled)

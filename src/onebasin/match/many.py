"""Any number of models in one frame: align each with their mean, and repeat (first paper, section 3.7).

    U ← θ_1;  repeat:  π_m ← ALIGN(θ_m, U) for m > 1,  U ← mean of π_m(θ_m)

The first model is the start, and it stays: π_1 = 1 fixes the frame, which the objective leaves free.  (Moving it too
and going back to its basis afterwards multiplies maps that are badly conditioned where a model has dead directions.)
Within a round all models are aligned with the same U, so that their order does not matter.  However many there are, the
memory is that of aligning two: U and one model.  Of two models the mean tells nothing new: one round is all.

The map from model p to model q is π_q⁻¹ π_p, so that every cycle closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onebasin.alignment import Alignment, transport
from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.aligned import Aligned, Move
from onebasin.ensemble.ensemble import Ensemble
from onebasin.ensemble.storage import load_universe
from onebasin.ensemble.words import letter
from onebasin.errors import Incompatible
from onebasin.match.options import Gathering
from onebasin.match.weights import Matched, Tick

Match = Callable[[Checkpoint, Checkpoint, Alignment | None], Matched]
"""ALIGN(reference, model, where to go on from), of canonical forms."""


def match_ensemble(ensemble: Ensemble, match: Match, gathering: Gathering, tick: Tick = lambda step: None) -> Aligned:
    """Bring all models into the basis of the first: found anew, or models added to those of an earlier output."""
    if gathering.folder is not None:
        return _added(ensemble, match, load_universe(gathering.folder, ensemble.models), tick)
    if len(ensemble) == 2:
        a, b = ensemble.forms
        found = match(a, b, None)
        course = {"sweeps": len(found.distances) - 1, "converged": found.converged}
        return aligned_by(ensemble, [Alignment.identity(ensemble.spec), found.alignment], course)
    return _gathered(ensemble, match, gathering, tick)


def as_they_are(ensemble: Ensemble) -> Aligned:
    """Nothing is aligned: every map is the identity."""
    facts = _facts([ensemble.centre(ensemble.forms)[1]], 0, settled=True)
    course = {} if len(ensemble) == 2 else {"universe": facts}
    return aligned_by(ensemble, [Alignment.identity(form.spec) for form in ensemble.forms], course)


def aligned_by(ensemble: Ensemble, alignments: Sequence[Alignment], course: Mapping[str, Any]) -> Aligned:
    """The result of maps into the basis of the first model, which stays."""
    return Aligned(ensemble, tuple(Move(g, stays=not m) for m, g in enumerate(alignments)), course)


def _gathered(ensemble: Ensemble, match: Match, gathering: Gathering, tick: Tick) -> Aligned:
    """Every round but the first goes on from the maps of the one before, and is taken only where it is better."""
    forms = ensemble.forms
    maps = [Alignment.identity(form.spec) for form in forms]
    objective, matches, settled = [ensemble.centre(forms)[1]], 0, False
    mean = forms[0].in_memory()
    for turn in range(gathering.rounds):
        new = maps[:1]
        for m, form in enumerate(forms[1:], 1):
            tick(f"round {turn + 1}, model {letter(m)}, objective {objective[-1]:.6g}")
            new.append(match(mean, form, maps[m] if turn else None).alignment)
            matches += 1
        mean, spread = ensemble.centre([transport(form, g) for form, g in zip(forms, new, strict=True)])
        gain = objective[-1] - spread
        if not turn or gain > 0:
            maps = new
            objective.append(spread)
        settled = spread <= gathering.tol * objective[0] or (turn > 0 and gain <= gathering.tol * objective[0])
        if settled:
            break
    return aligned_by(ensemble, maps, {"universe": _facts(objective, matches, settled)})


def _facts(objective: Sequence[float], matches: int, settled: bool) -> dict[str, Any]:
    """How the models came together; the objective is Σ_m w |U − π_m(θ_m)|², before and after every round taken."""
    rounds = max(len(objective) - 1, 0)
    return {"rounds": rounds, "objective": list(objective), "settled": settled, "alignments_made": matches}


def _added(ensemble: Ensemble, match: Match, known: Mapping[int, Alignment], tick: Tick) -> Aligned:
    """Models that are new are aligned with the mean of those that are there, in the order given."""
    frame = next(iter(known.values()))
    _check_sizes(frame, ensemble)
    maps = {m: frame.inverse().compose(g) for m, g in known.items()}
    for m, form in enumerate(ensemble.forms):
        if m not in maps:
            tick(f"adding model {letter(m)}")
            mean, _ = ensemble.centre([transport(ensemble.forms[i], g) for i, g in maps.items()])
            maps[m] = match(mean, form, None).alignment
    back = maps[0].inverse()
    alignments = [back.compose(maps[m]) for m in range(len(ensemble))]
    members = [transport(form, g) for form, g in zip(ensemble.forms, alignments, strict=True)]
    made = len(maps) - len(known)
    facts = _facts([ensemble.centre(members)[1]] if made else [], made, settled=True)
    return aligned_by(ensemble, alignments, {"universe": facts})


def _check_sizes(known: Alignment, ensemble: Ensemble) -> None:
    """The models of an earlier output may have been smaller than a new one makes them now."""
    for space, g in known.maps.items():
        if g.source != ensemble.spec.spaces[space].size:
            raise Incompatible(
                "The universe is too small for the new model",
                space=space,
                expected=g.source,
                found=ensemble.spec.spaces[space].size,
                next_step="align all models anew, without --universe",
            )

"""How exact a rewrite is: how far outputs move."""

from __future__ import annotations

import torch

from onebasin import Alignment, Checkpoint
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.verification.verify import output_drift

EXACT = 1e-9
NOTHING = Alignment({}, {})


def answers(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return outputs(stock_model(checkpoint), checkpoint.spec, probe_inputs(checkpoint.spec, seed=1))


def relative(drift: float, before: dict[str, torch.Tensor]) -> float:
    """To the size of the outputs, where that exceeds one."""
    return drift / max(1.0, *(float(x.abs().max()) for x in before.values()))


def drift(a: Checkpoint, b: Checkpoint, alignment: Alignment = NOTHING) -> float:
    """How far b's outputs are from a's."""
    return drift_from(answers(a), a, b, alignment)


def drift_from(before: dict[str, torch.Tensor], a: Checkpoint, b: Checkpoint, alignment: Alignment = NOTHING) -> float:
    """The same, where a's outputs are at hand: one model less is run."""
    return relative(output_drift(answers(b), before, a.spec, alignment), before)

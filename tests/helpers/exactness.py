"""How exact a rewrite is: how far outputs move, for every class there is a table of."""

from __future__ import annotations

import pytest
import torch

from helpers.random_models import CLASSES, IDS
from onebasin import Alignment, Checkpoint
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.verification.verify import output_drift

EXACT = 1e-9
NOTHING = Alignment({}, {})
every_class = pytest.mark.parametrize(("model_type", "name"), CLASSES, ids=IDS)


def answers(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return outputs(stock_model(checkpoint), checkpoint.spec, probe_inputs(checkpoint.spec, seed=1))


def relative(drift: float, before: dict[str, torch.Tensor]) -> float:
    """To the size of the outputs, where that exceeds one."""
    return drift / max(1.0, *(float(x.abs().max()) for x in before.values()))


def drift(a: Checkpoint, b: Checkpoint, alignment: Alignment = NOTHING) -> float:
    """How far b's outputs are from a's."""
    before, after = answers(a), answers(b)
    return relative(output_drift(after, before, a.spec, alignment), before)

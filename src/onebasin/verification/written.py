"""What rounding does to a model when it is written: the file against the numbers it was made from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from onebasin.alignment import Alignment
from onebasin.checkpoint import DTYPES, Checkpoint, torch_dtype
from onebasin.checkpoint.stock import outputs, probe_inputs
from onebasin.checkpoint.streamed import streamed_model
from onebasin.ensemble.words import describe_written
from onebasin.errors import BrokenPromise
from onebasin.verification.verify import output_drift, size_of

NOTABLE, LOST = 0.05, 0.5  # shares of the largest output


def measure_written(part: Checkpoint, dtype: str | None = None) -> dict[str, Any]:
    """How far the outputs of a checkpoint move when its numbers are rounded as they are written; run in float64."""
    spec, inputs, part = part.spec, probe_inputs(part.spec), part.kept_if_small()

    def stored(key: str) -> torch.dtype:
        return torch_dtype(part.written_as(key, dtype))

    models = streamed_model(part), streamed_model(part, stored=stored)
    exact, rounded = (outputs(model, spec, inputs, part.store.device) for model in models)
    drift = output_drift(rounded, exact, spec, Alignment({}, {}))
    kinds = {DTYPES[part.written_as(key, dtype)].name: None for key in spec.keys}
    return {"dtype": ", ".join(kinds), "drift": drift, "largest_output": size_of(exact)}


def check_written(found: Mapping[str, Any]) -> None:
    """Warn where rounding is large beside the outputs; refuse to write what it destroys.

    Numbers that do not fit the dtype at all are refused when they are written, by the name of their tensor.
    """
    if found["drift"] <= NOTABLE * found["largest_output"] or not math.isfinite(found["drift"]):
        return
    step = "write in float32, or in bfloat16 where numbers are very small or very large"
    if not found["drift"] < LOST * found["largest_output"]:
        raise BrokenPromise(
            f"The file would not hold the model: {describe_written(found)}",
            expected=f"less than {LOST:.0%} of the largest output",
            found=f"{found['drift'] / found['largest_output']:.0%}",
            next_step=f"{step}: --dtype",
        )
    warnings.warn(f"{describe_written(found)}; {step}", stacklevel=3)

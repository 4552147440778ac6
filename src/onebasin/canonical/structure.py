"""What canonical form does to the table, without looking at numbers.  Free of torch."""

from __future__ import annotations

from typing import Any

from onebasin.archs import declare, lookup
from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.spec import ModelSpec


def untied_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """The configuration of the same model with a head of its own."""
    arch, _ = lookup(checkpoint.spec.model_type, [checkpoint.spec.architecture])
    return {**checkpoint.config, **arch.untied}


def untied_spec(checkpoint: Checkpoint) -> ModelSpec:
    """The table of the same model with a head of its own."""
    spec = checkpoint.spec
    if not spec.tied:
        return spec
    loose = declare(transformers_config(untied_config(checkpoint)), tie=False)
    return loose.without(x for x in loose.linears.values() if x.optional and x.name not in spec.linears)


def canonical_spec(checkpoint: Checkpoint) -> ModelSpec:
    """The table that untying and folding reach on generic weights: the largest symmetries of a stock checkpoint."""
    spec = untied_spec(checkpoint)
    return spec.with_unit_gains([*spec.scales, *(norm.name for norm in spec.norms.values() if not norm.blocked)])

"""The method of a recipe that names none.

A section that one method alone looks at names it.  Otherwise it is `auto`, which was better than the others on every
pair measured (docs/learning.md), for all models that predict something; the others have nothing that `auto` could
compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch

from onebasin.automatic import quick
from onebasin.match import ActivationMatching, WeightMatching
from onebasin.recipes.recipe import Aligning
from onebasin.spec import ModelSpec

NAMES = {"start": "learned", "matching": "weight", "activation": "activation", "learn": "auto"}  # section -> method
Kind = TypeVar("Kind", bound=Aligning)


def named(document: Mapping[str, Any]) -> str | None:
    """The method that a document names, by itself or by its sections."""
    if "method" in document:
        return document["method"]  # type: ignore[no-any-return]
    universe = document.get("universe")
    if isinstance(universe, dict) and "folder" in universe and "start" not in document:
        return "weight"
    return next((method for section, method in NAMES.items() if section in document), None)


def decided(recipe: Kind, spec: ModelSpec, device: torch.device) -> tuple[Kind, str | None]:
    """The recipe with its method, and why it is this one where none was named."""
    if recipe.method is not None:
        return recipe, None
    if "logits" in spec.outputs:
        seen = "from the task" if recipe.task else "without data"
        why = f"none was named, and of all it leaves the least loss between the models {seen}"
        found = replace(recipe, method="auto", learn=quick(device))
        return found, f"method auto: {why}; --method weight is quicker and runs no model"
    if recipe.task is None:
        found = replace(recipe, method="weight", matching=WeightMatching())
        return found, f"method weight: none was named, and {spec.architecture} has no head to learn from"
    found = replace(recipe, method="activation", activation=ActivationMatching())
    return found, f"method activation: none was named, and {spec.architecture} has no head to learn from"

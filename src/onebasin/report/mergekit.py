"""A recipe of mergekit for the average of two models that onebasin has put into one basis."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

HEADER = "# mergekit-yaml mergekit.yaml MERGED\n# The folders are named by where they lay when this file was written.\n"


def linear_merge(models: Sequence[str]) -> str:
    """A linear merge with equal weights, in float32."""
    share = 1 / len(models)
    entries = [{"model": model, "parameters": {"weight": share}} for model in models]
    recipe = {"merge_method": "linear", "models": entries, "dtype": "float32"}
    return f"{HEADER}{yaml.safe_dump(recipe, sort_keys=False)}"

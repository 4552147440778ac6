"""Texts beside a checkpoint: its model card, and a recipe of mergekit for the average of aligned models."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from onebasin.ensemble.words import join_words
from onebasin.methods.method import Method

MERGEKIT = (
    "# mergekit-yaml mergekit.yaml MERGED\n# The folders are named by where they lay when this file was written.\n"
)


def describe_aligned(names: Sequence[str], method: Method) -> str:
    """What an aligned model is."""
    kept = "that" if method.exact else "close to that"
    return (
        f"{join_words(names[1:])} in the basis of {names[0]}, by onebasin. The function is {kept} of the original.\n\n"
        f"Method `{method.name}`: {method.summary}."
    )


def describe_merged(names: Sequence[str], shares: Sequence[float], method: Method) -> str:
    """What a merged model is made of."""
    parts = join_words([f"{share:.4g} of {name}" for name, share in zip(names, shares, strict=True)])
    return f"{parts}, aligned and averaged by onebasin.\n\nMethod `{method.name}`: {method.summary}."


def model_card(title: str, names: Sequence[str], text: str) -> str:
    """Markdown with the metadata that the Hub reads; `names` of the models as `name_of` calls them."""
    bases = "\n".join(f"- {name}" for name in names)
    maps = "`alignment.safetensors` and `alignment.json` hold its maps" if len(names) == 2 else "`universe` its maps"
    return f"""---
library_name: transformers
base_model:
{bases}
base_model_relation: merge
tags:
- merge
- onebasin
---

# {title}

{text}

`certificate.json` says how exact the alignment is, and `report.html` shows it; {maps};
`onebasin run recipe.yaml -o OUT` makes the model again.
"""


def linear_merge(models: Sequence[str]) -> str:
    """A recipe of mergekit: a linear merge with equal weights, in float32."""
    share = 1 / len(models)
    entries = [{"model": model, "parameters": {"weight": share}} for model in models]
    recipe = {"merge_method": "linear", "models": entries, "dtype": "float32"}
    return f"{MERGEKIT}{yaml.safe_dump(recipe, sort_keys=False)}"

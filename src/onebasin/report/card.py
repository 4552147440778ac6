"""The model card of an aligned or merged checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from onebasin.ensemble.words import join_words
from onebasin.methods.method import Method


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

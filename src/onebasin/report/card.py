"""The model card of an aligned or merged checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def name_of(source: str) -> str:
    """A Hub id as it is; of a local folder only its own name, never where it lies."""
    folder = Path(source).expanduser()
    return folder.resolve().name if folder.is_dir() else source


def aligned_text(names: Sequence[str], method: str) -> str:
    """What an aligned model is."""
    kept = "close to that" if method == "soft" else "that"
    return (
        f"{listed(names[1:])} in the basis of {names[0]}, by onebasin (method: {method}). "
        f"The function is {kept} of the original."
    )


def merged_text(names: Sequence[str], shares: Sequence[float], method: str) -> str:
    """What a merged model is made of."""
    parts = listed([f"{share:.4g} of {name}" for name, share in zip(names, shares, strict=True)])
    return f"{parts}, aligned and averaged by onebasin (method: {method})."


def listed(words: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


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

"""The model card of an aligned or merged checkpoint."""

from __future__ import annotations

from pathlib import Path


def name_of(source: str) -> str:
    """A Hub id as it is; of a local folder only its own name, never where it lies."""
    folder = Path(source).expanduser()
    return folder.resolve().name if folder.is_dir() else source


def model_card(title: str, a: str, b: str, text: str) -> str:
    """Markdown with the metadata that the Hub reads; `a` and `b` as `name_of` calls them."""
    return f"""---
library_name: transformers
base_model:
- {a}
- {b}
base_model_relation: merge
tags:
- merge
- onebasin
---

# {title}

{text}

`certificate.json` says how exact the alignment is, and `report.html` shows it; `alignment.safetensors` and
`alignment.json` hold its maps; `onebasin run recipe.yaml -o OUT` makes the model again.
"""

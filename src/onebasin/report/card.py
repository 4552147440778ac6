"""The model card of an aligned or merged checkpoint."""

from __future__ import annotations

from pathlib import Path


def name_of(source: str) -> str:
    """A Hub id as it is; of a local folder only its own name, never where it lies."""
    return Path(source).resolve().name if Path(source).is_dir() else source


def model_card(title: str, a: str, b: str, text: str) -> str:
    """Markdown with the metadata that the Hub reads."""
    return f"""---
library_name: transformers
base_model:
- {name_of(a)}
- {name_of(b)}
base_model_relation: merge
tags:
- merge
- onebasin
---

# {title}

{text}

`certificate.json` says how exact the alignment is; `alignment.safetensors` and `alignment.json` hold its maps.
"""

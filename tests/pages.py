"""Pages of the documentation that a test makes: compared with what is there, or written with ONEBASIN_WRITE=1."""

from __future__ import annotations

import os
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def check_page(name: str, text: str) -> None:
    """The page is what the code says now."""
    page = DOCS / name
    if os.environ.get("ONEBASIN_WRITE"):
        page.write_text(text, encoding="utf-8")
    stale = f"docs/{name} is out of date: run the test again with ONEBASIN_WRITE=1"
    assert page.exists(), stale
    assert page.read_text(encoding="utf-8") == text, stale

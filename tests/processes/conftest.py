"""Two models that read bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.random_models import byte_llama


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    return [byte_llama(root / name, i) for i, name in enumerate("ab")]

"""Tiny pairs, written once."""

from __future__ import annotations

import pytest

from helpers.random_models import random_model
from helpers.tiny import TINY
from onebasin import Checkpoint


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """(A, B) of one of the classes in `helpers.tiny.TINY`."""
    root = tmp_path_factory.mktemp("tiny")
    for name, config in TINY.items():
        for seed in (0, 1):
            random_model(name, config, seed).save_pretrained(root / f"{name}-{seed}")
    return lambda name: tuple(Checkpoint.open(root / f"{name}-{seed}") for seed in (0, 1))

"""Random models to rewrite."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helpers.random_models import config_of, random_model
from helpers.rewriting import SETTINGS
from onebasin import Checkpoint


@pytest.fixture
def make(tmp_path):
    """Open a random model of a class, with every bias there can be; `change` may set some of its parameters."""
    count = iter(range(100))

    def build(
        model_type: str,
        name: str,
        seed: int = 1,
        change: Callable = lambda model: None,
        *,
        tied: bool = False,
        weights: int = 0,
    ) -> Checkpoint:
        config = config_of(model_type, seed)
        for key, value in {**SETTINGS, "tie_word_embeddings": tied}.items():
            if hasattr(config, key):
                setattr(config, key, value)
        model = random_model(name, config, weights)
        with torch.no_grad():
            change(model)
        folder = tmp_path / str(next(count))
        model.save_pretrained(folder)
        return Checkpoint.open(folder)

    return build

"""Layers that are told of no positions: nothing ties their queries to pairs of coordinates."""

from __future__ import annotations

from itertools import product

from helpers.random_models import config_of
from onebasin.archs import declare
from onebasin.families import INVERTIBLE, ROTARY


def test_each_layer_turns_as_its_own_setting_says():
    config = config_of("smollm3", 0)
    config.architectures = ["SmolLM3Model"]
    for turned in product((0, 1), repeat=config.num_hidden_layers):
        config.no_rope_layers = list(turned)
        spec = declare(config)
        found = [spec.family(f"layers.{i}.qk") for i in range(len(turned))]
        assert found == [ROTARY if own else INVERTIBLE for own in turned]

"""Excerpts: every architecture, the layers and rows that were asked for, and nothing else."""

from __future__ import annotations

import re

import pytest
import torch

from helpers.pairs import CLASSES, open_random
from onebasin import canonicalize
from onebasin.ensemble.ensemble import Ensemble
from onebasin.ensemble.excerpt import excerpt, layer_of


@pytest.mark.parametrize("model_type", CLASSES)
def test_an_excerpt_has_the_weights_and_families_of_its_model(tmp_path, model_type):
    three = {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}
    model = open_random(tmp_path, model_type, 3, 0, **three)
    part = excerpt(model, [0, 2], tokens=50)
    chosen = [x for x in model.spec.attentions if re.search(r"layers\.[02]\.", x.name)]
    assert len(part.spec.attentions) == len(chosen) >= 2
    for name in part:
        place = layer_of(name)
        own = name if place is None else f"{place[0]}.{[0, 2][place[1]]}.{place[2]}"
        whole = model[own]
        for dim, size in enumerate(part[name].shape):
            whole = whole.index_select(dim, torch.linspace(0, whole.shape[dim] - 1, size).long())
        assert part[name].equal(whole)
    full, short = canonicalize(model).checkpoint.spec, Ensemble.of((part, part)).spec
    assert {short.family(name) for name in short.spaces} == {full.family(name) for name in full.spaces}
    assert all(97 not in leaf.shape for leaf in part.spec.leaves.values())

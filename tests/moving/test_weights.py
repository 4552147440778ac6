"""What learned maps make of stacked weights is what `transport` makes of them, however the file stores them."""

from __future__ import annotations

import pytest
import torch

from helpers.pairs import CLASSES, open_random
from onebasin import Alignment, canonicalize, transport
from onebasin.moving.coordinates import Moves
from onebasin.moving.layout import Grouping
from onebasin.moving.stacks import stacks
from onebasin.moving.weights import Weights

STORED = "gemma3_text", "gptj", "olmo2", "phi3", "llama"  # less one, in turns, over all heads, in rows, plainly


def stacked(spec, alignment):
    """One map for each stack: those of its spaces, layer by layer."""
    found = {}
    for stack in stacks(spec):
        maps = [alignment[space] for space in stack.spaces]
        if stack.fibres is None:
            found[stack.name] = maps[0]
            continue
        parts = [{k: x if stack.each is not None else x[None] for k, x in g.tensors().items()} for g in maps]
        found[stack.name] = type(maps[0]).from_tensors({k: torch.cat([p[k] for p in parts]) for k in parts[0]})
    return found


@pytest.mark.parametrize("model_type", STORED)
def test_stacked_weights_move_as_the_checkpoint_does(tmp_path, model_type):
    form = canonicalize(open_random(tmp_path, model_type, 1, 0, CLASSES[model_type])).checkpoint.in_memory()
    names = [stack.name for stack in stacks(form.spec)]
    alignment = Alignment.random(form.spec, 3)
    found = Grouping(form.spec, names).of(set(form.spec.keys))
    weights = Weights(form, found, torch.float64, lambda form, key: torch.float64)
    moved = transport(form, alignment)
    assert any(not torch.allclose(moved[leaf], form[leaf], atol=0.1) for leaf in form)  # the weights did move
    for i, tensors in weights(Moves(stacked(form.spec, alignment), None, {})).items():
        for key, tensor in zip(found[i].keys, tensors, strict=True):
            assert torch.allclose(tensor, moved.tensor(key), atol=1e-12), key
            assert tensor.shape == form.spec.keys[key]

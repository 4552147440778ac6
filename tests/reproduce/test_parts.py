"""The protocols of the second paper: what is drawn again and what stays."""

from __future__ import annotations

import pytest
import torch

from helpers.reproducing import BERT, GPT2, NEOX, ROFORMER
from onebasin.reproduce.models import fresh
from onebasin.reproduce.p2_protocols import SIZES
from onebasin.reproduce.parts import PROTOCOLS, renew

ATTENTION = {"gpt2": ".attn.", "neox": ".attention.", "bert": ".attention.", "roformer": ".attention."}
FIRST = {"gpt2": "transformer.h.0.", "neox": "gpt_neox.layers.0.", "bert": "layer.0.", "roformer": "layer.0."}


@pytest.mark.parametrize("kind", [GPT2, NEOX, BERT, ROFORMER], ids=lambda kind: kind["kind"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_draws_its_part_again_and_nothing_else(tmp_path, kind, protocol):
    torch.manual_seed(0)
    base = fresh(kind)
    for x in base.parameters():
        if x.requires_grad:
            torch.nn.init.normal_(x)
    base.save_pretrained(tmp_path)
    torch.manual_seed(1)
    copy = fresh(kind)
    renew(copy, tmp_path, protocol)
    old = dict(base.named_parameters())
    changed = {name for name, x in copy.named_parameters() if not x.equal(old[name])}

    def attends(name):
        return ATTENTION[kind["kind"]] in name and "Norm" not in name

    inside = {
        "first attention": lambda name: FIRST[kind["kind"]] in name and attends(name),
        "all attention": attends,
        "first layer": lambda name: FIRST[kind["kind"]] in name,
        "everything": lambda name: "embed_positions" not in name,
    }[protocol]
    assert changed == {name for name in old if inside(name)}
    assert changed


@pytest.mark.parametrize("budget", SIZES)
def test_sizes_of_models_are_whole_multiples(budget):
    sizes = SIZES[budget]
    assert sizes["inner"] == (2 if budget == "tiny" else 4) * sizes["width"]
    assert sizes["width"] % (2 * sizes["heads"]) == 0  # rotary positions turn pairs

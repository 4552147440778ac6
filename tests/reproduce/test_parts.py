"""The protocols of the second paper: what is drawn again and what stays."""

from __future__ import annotations

import pytest
import torch

from helpers.reproducing import GPT2, NEOX
from onebasin.reproduce.models import fresh
from onebasin.reproduce.parts import PROTOCOLS, renew

ATTENTION = {"gpt2": ".attn.", "neox": ".attention."}
FIRST = {"gpt2": "transformer.h.0.", "neox": "gpt_neox.layers.0."}


@pytest.mark.parametrize("kind", [GPT2, NEOX], ids=lambda kind: kind["kind"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_draws_its_part_again_and_nothing_else(tmp_path, kind, protocol):
    torch.manual_seed(0)
    base = fresh(kind)
    for x in base.parameters():
        torch.nn.init.normal_(x)
    base.save_pretrained(tmp_path)
    torch.manual_seed(1)
    copy = fresh(kind)
    renew(copy, tmp_path, protocol)
    old = dict(base.named_parameters())
    changed = {name for name, x in copy.named_parameters() if not x.equal(old[name])}
    inside = {
        "first attention": lambda name: FIRST[kind["kind"]] in name and ATTENTION[kind["kind"]] in name,
        "all attention": lambda name: ATTENTION[kind["kind"]] in name,
        "first layer": lambda name: FIRST[kind["kind"]] in name,
        "everything": lambda name: True,
    }[protocol]
    assert changed == {name for name in old if inside(name)}
    assert changed

"""Parts of a trained model that are drawn again: the four protocols of the second paper."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from transformers import PreTrainedModel

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import stock_model

LAYER = r"\.(h|layers|layer)\.(\d+)\."
PROTOCOLS = ("first attention", "all attention", "first layer", "everything")


def is_fresh(name: str, protocol: str) -> bool:
    """Whether a parameter of that name is drawn again."""
    layer = re.search(LAYER, f".{name}")
    attention = re.search(r"\.(attn|attention|self_attn)\.(?!.*LayerNorm)", f".{name}") is not None
    first = layer is not None and layer[2] == "0"
    return {
        "first attention": first and attention,
        "all attention": layer is not None and attention,
        "first layer": first,
        "everything": True,
    }[protocol]


@torch.no_grad()
def renew(model: PreTrainedModel, base: Path, protocol: str) -> None:
    """Give the new `model` the weights of the trained one in the folder `base`, but for the part that stays new."""
    trained = dict(stock_model(Checkpoint.open(base), torch.float32).named_parameters())
    for name, parameter in model.named_parameters():
        if not is_fresh(name, protocol):
            parameter.copy_(trained[name])

"""The options of healing.  Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onebasin.options import Count, Number, Options, Rate, Seed, Share, Size


@dataclass(frozen=True)
class Healing(Options):
    """Ordinary training of the merged model, of all its weights, on the task's labels.

    `steps` of AdamW on `batch` samples; linear warm-up over the share `warmup` of the steps, then a half cosine to
    zero; gradients clipped to norm `clip` (0 for not at all).  `dropout` is the model's own.  `compare`: the models and
    their plain average are trained on in the same way, on the same batches, to be measured beside it.  `dtype` is that
    of the forward pass ("auto" is bfloat16 on a GPU, float32 elsewhere); weights are float32 meanwhile.
    """

    steps: Number
    batch: Count = 64
    lr: Rate = 3e-4
    weight_decay: Rate = 0.01
    warmup: Share = 0.05
    clip: Size = 1.0
    dropout: bool = True
    augment: bool = False
    compare: bool = True
    dtype: Literal["auto", "bfloat16", "float32", "float64"] = "auto"
    seed: Seed = 0

"""The models that are trained: stock classes of transformers, by kind and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from onebasin.reproduce.data import GAP

BYTES: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": False}


def fresh(model: Mapping[str, Any]) -> PreTrainedModel:
    """A new model with weights from the current random state."""
    sizes = {key: value for key, value in model.items() if key != "kind"}
    return KINDS[model["kind"]](**sizes)


def _vit(
    width: int, layers: int, heads: int, inner: int, image: int = 32, patch: int = 4, activation: str = "gelu"
) -> PreTrainedModel:
    """Linear maps by Xavier; class token, positions and classifier by a truncated normal of 0.02."""
    config = transformers.ViTConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
        image_size=image, patch_size=patch, layer_norm_eps=1e-12, hidden_act=activation,
    )  # fmt: skip
    config.num_labels = 10
    made: Any = transformers.ViTForImageClassification(config)
    for part in made.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
    embeddings = made.vit.embeddings
    for tensor in (embeddings.cls_token, embeddings.position_embeddings, made.classifier.weight):
        nn.init.trunc_normal_(tensor, std=0.02)
    found: PreTrainedModel = made
    return found


def _gpt2(
    width: int, layers: int, heads: int, inner: int, length: int, vocabulary: int = 256, dropout: float = 0.0,
    activation: str = "gelu_new",
) -> PreTrainedModel:  # fmt: skip
    rates: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    config = transformers.GPT2Config(
        n_embd=width, n_layer=layers, n_head=heads, n_inner=inner, n_positions=length, vocab_size=vocabulary,
        activation_function=activation, **rates, **BYTES,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def _neox(
    width: int, layers: int, heads: int, inner: int, length: int, vocabulary: int = 256, dropout: float = 0.0,
    activation: str = "gelu_new",
) -> PreTrainedModel:  # fmt: skip
    """GPT-2 with rotary positions in place of learned ones: one block after the other, all of a head turned."""
    turned: dict[str, Any] = {  # transformers 5, and before
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        "rotary_pct": 1.0,
    }
    config = transformers.GPTNeoXConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
        max_position_embeddings=length, vocab_size=vocabulary, hidden_act=activation, use_parallel_residual=False,
        hidden_dropout=dropout, attention_dropout=dropout, **turned, **BYTES,
    )  # fmt: skip
    made = transformers.GPTNeoXForCausalLM(config)
    with torch.no_grad():
        for name, x in made.named_parameters():
            if name.endswith(("attention.dense.weight", "dense_4h_to_h.weight")):
                x.div_((2 * layers) ** 0.5)  # as GPT-2 begins
    return made


def _llama(
    width: int, layers: int, heads: int, inner: int, length: int, groups: int, vocabulary: int = 256
) -> PreTrainedModel:
    config = transformers.LlamaConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups,
        intermediate_size=inner, max_position_embeddings=length, vocab_size=vocabulary, rms_norm_eps=1e-6,
        pad_token_id=0, **BYTES,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def _encoder(
    positions: str, width: int, layers: int, heads: int, inner: int, length: int, dropout: float = 0.0
) -> PreTrainedModel:
    """A model that fills gaps in bytes: BERT, or RoFormer, which differs from it in its rotary positions alone."""
    kinds: dict[str, tuple[Any, Any]] = {
        "learned": (transformers.BertConfig, transformers.BertForMaskedLM),
        "rotary": (transformers.RoFormerConfig, transformers.RoFormerForMaskedLM),
    }
    config, model = kinds[positions]
    made: PreTrainedModel = model(config(
        vocab_size=GAP + 1, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, max_position_embeddings=length, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, hidden_act="gelu", pad_token_id=None,
    ))  # fmt: skip
    return made


KINDS: dict[str, Callable[..., PreTrainedModel]] = {
    "vit": _vit, "gpt2": _gpt2, "neox": _neox, "llama": _llama, "bert": partial(_encoder, "learned"),
    "roformer": partial(_encoder, "rotary"),
}  # fmt: skip

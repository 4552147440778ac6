"""Tiny models of three classes, and what they say taken as labels."""

from __future__ import annotations

import torch
import transformers

from onebasin import Checkpoint
from onebasin.checkpoint.stock import outputs, probe_inputs
from onebasin.tasks import CLASSIFICATION, LANGUAGE, Task

F64 = torch.float64
TINY = {
    "GPT2LMHeadModel": transformers.GPT2Config(
        n_embd=24, n_layer=2, n_head=3, n_inner=20, vocab_size=17, n_positions=12, tie_word_embeddings=False,
        scale_attn_by_inverse_layer_idx=True, bos_token_id=1, eos_token_id=2,
    ),
    "ViTForImageClassification": transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=8, patch_size=4,
        num_labels=3,
    ),
    "LlamaForCausalLM": transformers.LlamaConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=4, vocab_size=17,
        intermediate_size=20, max_position_embeddings=12, attention_bias=True, tie_word_embeddings=False,
    ),
}  # fmt: skip


def predicted(model: torch.nn.Module, checkpoint: Checkpoint, batch: int = 32) -> Task:
    """A task that the model solves as well as it can: its own first choices."""
    inputs = {k: v for k, v in probe_inputs(checkpoint.spec, batch=batch, length=9).items() if k != "attention_mask"}
    labels = outputs(model, checkpoint.spec, inputs)["logits"].argmax(-1)
    kind = CLASSIFICATION if labels.ndim == 1 else LANGUAGE
    return Task("own", kind, inputs, labels, {"source": "own choices"})

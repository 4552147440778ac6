"""Pairs of tiny random models for matching: scrambled copies, averages, and how far apart two models are."""

from __future__ import annotations

from helpers.classes import predicting
from helpers.random_models import config_of, random_model
from onebasin import Alignment, Checkpoint, transport
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model

CLASSES = {
    "gpt2": "GPT2LMHeadModel", "gpt_neox": "GPTNeoXForCausalLM", "llama": "LlamaForCausalLM",
    "mistral": "MistralForSequenceClassification", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "bert": "BertForMaskedLM", "vit": "ViTForImageClassification", "bloom": "BloomForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM", "gptj": "GPTJForCausalLM", "mixtral": "MixtralForCausalLM",
    "olmo2": "Olmo2ForCausalLM", "olmoe": "OlmoeForCausalLM", "opt": "OPTForCausalLM", "phi3": "Phi3ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "t5": "T5ForConditionalGeneration",
}  # fmt: skip
WIDE = {
    "vocab_size": 97,
    "max_position_embeddings": 48,
    "n_positions": 48,
    "image_size": 32,
    "tie_word_embeddings": False,
}


def open_random(folder, model_type: str, seed: int, weights: int, name: str = "", **changes) -> Checkpoint:
    config = config_of(model_type, seed)
    for field, value in (WIDE | changes).items():
        if hasattr(config, field):
            setattr(config, field, value)
    random_model(name or CLASSES.get(model_type) or predicting(model_type), config, weights).save_pretrained(folder)
    return Checkpoint.open(folder)


def scrambled(form: Checkpoint, seed: int) -> Checkpoint:
    return transport(form, Alignment.random(form.spec, seed, condition=10.0)).in_memory()


def average(a: Checkpoint, b: Checkpoint) -> Checkpoint:
    return a.derive({leaf: (lambda leaf=leaf: (a[leaf] + b[leaf]) / 2) for leaf in a})


def apart(a: Checkpoint, b: Checkpoint) -> float:
    inputs = probe_inputs(a.spec, seed=3)
    x, y = (outputs(stock_model(c), a.spec, inputs)["logits"] for c in (a, b))
    return float((x - y).abs().max() / x.abs().max())

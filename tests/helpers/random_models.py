"""Tiny random models of every declared architecture, with nothing left at its default.

Gains, biases, eps, head counts, widths, activations and ties are all drawn: default initialisation (gain one, bias
zero) would hide most folding errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from onebasin.archs import known
from onebasin.archs.rotary import before_5

CLASSES = [(model_type, name) for model_type, names in known().items() for name in names]
IDS = [name for _, name in CLASSES]


class Dice:
    """Choices from one seed, so that a failing example is one number."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def pick(self, *options: Any) -> Any:
        return options[self._rng.integers(len(options))]


def sizes(dice: Dice) -> dict[str, int]:
    kv, group = dice.pick(1, 2, 3), dice.pick(1, 2, 3)
    width = dice.pick(4, 6, 8)
    return {"kv": kv, "heads": kv * group, "width": width, "layers": dice.pick(1, 2), "ffn": dice.pick(5, 12),
            "vocabulary": dice.pick(11, 17)}  # fmt: skip


def rope(theta: float = 100.0, part: float | None = None, **scaling: Any) -> dict[str, Any]:
    """Rotary positions (base, part of a head, scaling) in the words of the transformers that is installed."""
    factor = {} if part is None else {"partial_rotary_factor": part}
    if not before_5():
        return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **factor, **scaling}}
    old = {"rope_theta": theta, "rotary_emb_base": theta, **factor}
    return old | ({} if part is None else {"rotary_pct": part}) | ({"rope_scaling": scaling} if scaling else {})


def config_of(model_type: str, seed: int) -> transformers.PreTrainedConfig:
    dice = Dice(seed)
    n = sizes(dice)
    eps, tie = dice.pick(1e-12, 1e-6, 1e-5, 1e-3), dice.pick(True, False)
    act = dice.pick("gelu", "relu", "silu", "gelu_new")
    hidden = n["heads"] * n["width"]
    common = {
        "hidden_size": hidden, "num_hidden_layers": n["layers"], "num_attention_heads": n["heads"],
        "intermediate_size": n["ffn"], "hidden_act": act, "num_labels": 3,
    }  # fmt: skip
    text = {"vocab_size": n["vocabulary"], "max_position_embeddings": 12, "tie_word_embeddings": tie, "pad_token_id": 0}
    grouped = {"num_key_value_heads": n["kv"], "rms_norm_eps": eps, "head_dim": n["width"]}
    match model_type:
        case "gpt2":
            return transformers.GPT2Config(
                n_embd=hidden, n_layer=n["layers"], n_head=n["heads"], n_inner=dice.pick(None, n["ffn"]),
                activation_function=act, layer_norm_epsilon=eps, vocab_size=n["vocabulary"], n_positions=12,
                tie_word_embeddings=tie, num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                scale_attn_by_inverse_layer_idx=dice.pick(True, False),
            )  # fmt: skip
        case "gpt_neox":
            return transformers.GPTNeoXConfig(
                **common, **text, layer_norm_eps=eps, attention_bias=dice.pick(True, False),
                use_parallel_residual=dice.pick(True, False),
                **rope(100.0, dice.pick(2, 4, n["width"]) / n["width"]),
            )  # fmt: skip
        case "llama":
            biases = {"attention_bias": dice.pick(True, False), "mlp_bias": dice.pick(True, False)}
            return transformers.LlamaConfig(**common, **text, **grouped, **biases)
        case "mistral":
            return transformers.MistralConfig(**common, **text, **grouped, sliding_window=dice.pick(None, 4))
        case "qwen2":
            return transformers.Qwen2Config(**common, **text, **{k: v for k, v in grouped.items() if k != "head_dim"})
        case "qwen3":
            grouped["head_dim"] = n["width"] + 2
            return transformers.Qwen3Config(**common, **text, **grouped, attention_bias=dice.pick(True, False))
        case "qwen3_moe" | "mixtral" | "qwen2_moe":
            return mixture(model_type, dice, n, {**common, **text, **grouped})
        case "bert":
            return transformers.BertConfig(**common, **text, layer_norm_eps=eps)
        case "vit":
            return transformers.ViTConfig(
                **common, layer_norm_eps=eps, qkv_bias=dice.pick(True, False), image_size=8,
                patch_size=dice.pick(2, 4), num_channels=dice.pick(1, 3), pooler_output_size=dice.pick(None, 5),
                pooler_act=dice.pick("tanh", "relu"),
            )  # fmt: skip
    raise NotImplementedError(f"give {model_type} a random configuration here")


def mixture(model_type: str, dice: Dice, n: dict[str, int], settings: dict[str, Any]) -> transformers.PreTrainedConfig:
    """Experts in some layers or in all; with fewer of them serving a token than there are."""
    own = {"num_experts_per_tok": dice.pick(1, 2), "num_local_experts": 3, "num_experts": dice.pick(3, 4)}
    plain = {"moe_intermediate_size": dice.pick(4, 7), "norm_topk_prob": dice.pick(True, False)}
    plain |= {"mlp_only_layers": dice.pick([], [0] if n["layers"] > 1 else [])}
    match model_type:
        case "mixtral":
            del own["num_experts"]
            return transformers.MixtralConfig(**settings, **own, sliding_window=dice.pick(None, 4))
        case "qwen2_moe":
            del own["num_local_experts"]
            shared = {"qkv_bias": dice.pick(True, False), "shared_expert_intermediate_size": dice.pick(3, 6)}
            return transformers.Qwen2MoeConfig(**settings, **own, **plain, **shared)
    del own["num_local_experts"]
    settings["head_dim"] = n["width"] + 2
    return transformers.Qwen3MoeConfig(**settings, **own, **plain, attention_bias=dice.pick(True, False))


@torch.no_grad()
def randomise(model: torch.nn.Module, seed: int) -> None:
    """Gains of either sign away from zero, biases and weights that matter."""
    torch.manual_seed(seed)
    for name, p in model.named_parameters():
        if p.ndim == 1 and name.endswith("weight"):
            p.copy_((0.5 + torch.rand_like(p)) * torch.where(torch.rand_like(p) < 0.2, -1.0, 1.0))
        elif p.ndim == 1:
            p.normal_(0, 0.5)
        else:
            p.normal_(0, 1.5 / p[0].numel() ** 0.5 if p.ndim > 1 else 1.0)


def random_model(name: str, config: transformers.PreTrainedConfig, seed: int) -> transformers.PreTrainedModel:
    torch.manual_seed(seed)
    model = getattr(transformers, name)(config)
    randomise(model, seed)
    model.tie_weights()
    return model.eval()


def needs_circuits(name: str) -> None:
    """Skip a test of the circuit path where it is refused."""
    if before_5() and name.startswith("Bert"):
        pytest.skip("transformers 4 cannot give BERT another attention: it has no circuit path there")


BYTES = {
    "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4,
    "intermediate_size": 20, "vocab_size": 256, "max_position_embeddings": 32,
}  # fmt: skip


def byte_llama(folder: Path, weights: int = 0, **settings: object) -> Path:
    """Save a small random Llama that reads bytes."""
    config = transformers.LlamaConfig(**{**BYTES, **settings})
    random_model("LlamaForCausalLM", config, weights).save_pretrained(folder)
    return folder


def random_folder(folder: Path, model_type: str, name: str, seed: int, weights_seed: int | None = None) -> Path:
    """Save a random model of class `name`; `seed` draws its shape, `weights_seed` its weights."""
    model = random_model(name, config_of(model_type, seed), seed if weights_seed is None else weights_seed)
    model.save_pretrained(folder)
    return folder

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

CLASSES = [
    (model_type, name) for model_type, names in known().items() for name in names if hasattr(transformers, name)
]  # those that the installed transformers has
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
        case "t5":
            return transformers.T5Config(
                d_model=hidden, d_kv=n["width"] + 2, d_ff=n["ffn"], num_layers=n["layers"], num_heads=n["heads"],
                num_decoder_layers=dice.pick(1, 2), relative_attention_num_buckets=8, layer_norm_epsilon=eps,
                feed_forward_proj=dice.pick("relu", "gated-gelu", "gated-silu"), tie_word_embeddings=tie,
                vocab_size=n["vocabulary"], num_labels=3, relative_attention_max_distance=9, decoder_start_token_id=0,
            )  # fmt: skip
        case "qwen3_moe" | "mixtral" | "qwen2_moe" | "olmoe":
            return mixture(model_type, dice, n, {**common, **text, **grouped})
        case "gemma3_text":
            kinds = [dice.pick("full_attention", "sliding_attention") for _ in range(n["layers"])]
            own = {"layer_types": kinds, "sliding_window": 5, "query_pre_attn_scalar": 7, "hidden_activation": act}
            own |= {"final_logit_softcapping": dice.pick(None, 3.0), "attention_bias": dice.pick(True, False)}
            return transformers.Gemma3TextConfig(**common, **text, **grouped, **own, rope_local_base_freq=33.0)
        case "gemma" | "gemma2":
            own = {"attention_bias": dice.pick(True, False)}
            if model_type == "gemma":
                return transformers.GemmaConfig(**common, **text, **grouped, **own)
            own |= {"query_pre_attn_scalar": 7, "hidden_activation": act, "sliding_window": 5}
            own |= {"attn_logit_softcapping": dice.pick(None, 1.5), "final_logit_softcapping": dice.pick(None, 3.0)}
            return transformers.Gemma2Config(**common, **text, **grouped, **own)
        case "phi3":
            own = {"num_key_value_heads": n["kv"], "rms_norm_eps": eps, "sliding_window": dice.pick(None, 5)}
            return transformers.Phi3Config(
                **common, **text, **own, **rope(100.0, dice.pick(2, 4, n["width"]) / n["width"])
            )
        case "olmo" | "olmo2":
            own = {"num_key_value_heads": n["kv"], "attention_bias": dice.pick(True, False)}
            if model_type == "olmo":
                return transformers.OlmoConfig(**common, **text, **own, clip_qkv=dice.pick(None, 0.7))
            return transformers.Olmo2Config(**common, **text, **own, rms_norm_eps=eps)
        case "opt":
            return transformers.OPTConfig(
                **common, **text, ffn_dim=n["ffn"], activation_function=act, enable_bias=dice.pick(True, False),
                do_layer_norm_before=dice.pick(True, False), layer_norm_elementwise_affine=dice.pick(True, True, False),
                word_embed_proj_dim=dice.pick(None, 6), _remove_final_layer_norm=dice.pick(True, False, False),
            )  # fmt: skip
        case "gptj":
            return transformers.GPTJConfig(
                n_embd=hidden, n_layer=n["layers"], n_head=n["heads"], n_inner=dice.pick(None, n["ffn"]),
                n_positions=12, activation_function=act, layer_norm_epsilon=eps, vocab_size=n["vocabulary"],
                num_labels=3, tie_word_embeddings=tie, pad_token_id=0, rotary_dim=dice.pick(2, 4),
            )  # fmt: skip
        case "gpt_neo":
            return transformers.GPTNeoConfig(
                **common | text, num_layers=n["layers"], num_heads=n["heads"], activation_function=act, window_size=5,
                layer_norm_epsilon=eps, attention_types=[[[dice.pick("global", "local")], n["layers"]]],
            )  # fmt: skip
        case "bloom":
            return transformers.BloomConfig(
                hidden_size=hidden, n_layer=n["layers"], n_head=n["heads"], layer_norm_epsilon=eps, num_labels=3,
                vocab_size=n["vocabulary"], tie_word_embeddings=tie, pad_token_id=0, seq_length=12,
                apply_residual_connection_post_layernorm=dice.pick(True, False, False),
            )  # fmt: skip
        case "falcon":
            new, alibi = dice.pick(True, False), dice.pick(True, False, False)
            own = {"new_decoder_architecture": new, "num_ln_in_parallel_attn": dice.pick(None, 1) if new else None}
            own |= {"multi_query": dice.pick(True, False), "parallel_attn": new or dice.pick(True, False)}
            kv = n["kv"] if new else n["heads"]
            return transformers.FalconConfig(
                **common, **text, **own, num_kv_heads=kv, ffn_hidden_size=n["ffn"], activation=act, alibi=alibi,
                layer_norm_epsilon=eps, bias=dice.pick(True, False),
            )  # fmt: skip
        case "stablelm":
            own = {"use_qkv_bias": dice.pick(True, False), "use_parallel_residual": dice.pick(True, False)}
            turned = rope(100.0, dice.pick(2, 4, n["width"]) / n["width"])
            own |= {"num_key_value_heads": n["kv"], "layer_norm_eps": eps}
            return transformers.StableLmConfig(**common, **text, **own, **turned)
        case "phi":
            turned = rope(100.0, dice.pick(2, 4, n["width"]) / n["width"])
            return transformers.PhiConfig(**common, **text, num_key_value_heads=n["kv"], layer_norm_eps=eps, **turned)
        case "starcoder2":
            own = {"num_key_value_heads": n["kv"], "norm_epsilon": eps, "use_bias": dice.pick(True, False)}
            return transformers.Starcoder2Config(**common, **text, **own, sliding_window=dice.pick(None, 5))
        case "cohere":
            own = {"num_key_value_heads": n["kv"], "layer_norm_eps": eps, "attention_bias": dice.pick(True, False)}
            return transformers.CohereConfig(**common, **text, **own, logit_scale=0.3)
        case "granite":
            own = {"attention_bias": dice.pick(True, False), "mlp_bias": dice.pick(True, False)}
            own |= {"embedding_multiplier": 2.0, "attention_multiplier": 0.4, "residual_multiplier": 0.7}
            return transformers.GraniteConfig(**common, **text, **grouped, **own, logits_scaling=1.5)
        case "smollm3":
            own = {"attention_bias": dice.pick(True, False), "mlp_bias": dice.pick(True, False)}
            turned = [dice.pick(0, 1) for _ in range(n["layers"])]
            return transformers.SmolLM3Config(**common, **text, **grouped, **own, no_rope_layers=turned)
        case "bert":
            return transformers.BertConfig(**common, **text, layer_norm_eps=eps)
        case "roberta" | "xlm-roberta" | "camembert":
            kind = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}[model_type]
            own = {"layer_norm_eps": eps, "pad_token_id": dice.pick(0, 1), "is_decoder": dice.pick(True, False)}
            return getattr(transformers, f"{kind}Config")(**{**common, **text, **own})
        case "electra" | "roformer":
            kind = {"electra": transformers.ElectraConfig, "roformer": transformers.RoFormerConfig}[model_type]
            own = {"embedding_size": dice.pick(6, hidden), "is_decoder": dice.pick(True, False)}
            return kind(**common, **text, **own, layer_norm_eps=eps)
        case "mpnet":
            return transformers.MPNetConfig(**common, **text, layer_norm_eps=eps, bos_token_id=1, eos_token_id=2)
        case "albert":
            groups = dice.pick(1, n["layers"])
            own = {
                "embedding_size": 6,
                "num_hidden_groups": groups,
                "inner_group_num": dice.pick(1, 1 if before_5() else 2),
            }
            return transformers.AlbertConfig(**common, **text, **own, layer_norm_eps=eps)
        case "clip" | "clip_text_model" | "clip_vision_model":
            sides = {"image_size": 8, "patch_size": dice.pick(2, 4), "num_channels": dice.pick(1, 3)}
            end = {"projection_dim": 5, "layer_norm_eps": eps, "bos_token_id": 1, "eos_token_id": dice.pick(2, 3)}
            words = transformers.CLIPTextConfig(**{**common, **text, **end})
            common |= (
                {"hidden_size": hidden + n["heads"], "intermediate_size": n["ffn"] + 1} if model_type == "clip" else {}
            )
            seen = transformers.CLIPVisionConfig(**common, **sides, **end)
            if model_type != "clip":
                return words if model_type == "clip_text_model" else seen
            both = {"text_config": words.to_dict(), "vision_config": seen.to_dict()}
            return transformers.CLIPConfig(**both, projection_dim=5, num_labels=3)
        case "distilbert":
            own = {"dim": hidden, "n_layers": n["layers"], "n_heads": n["heads"], "hidden_dim": n["ffn"]}
            return transformers.DistilBertConfig(**text, **own, activation=act, num_labels=3)
        case "modernbert":
            thetas = {"global_rope_theta": 100.0, "local_rope_theta": 50.0, "global_attn_every_n_layers": 2}
            flags = ("norm_bias", "attention_bias", "mlp_bias", "decoder_bias", "classifier_bias")
            return transformers.ModernBertConfig(
                **common, **text, **thetas, **{flag: dice.pick(True, False) for flag in flags}, norm_eps=eps,
                hidden_activation=act, local_attention=dice.pick(4, 128), classifier_pooling=dice.pick("cls", "mean"),
                classifier_activation=dice.pick("gelu", "relu"), bos_token_id=1, eos_token_id=2, cls_token_id=1,
                sep_token_id=2,
            )  # fmt: skip
        case "vit" | "deit" | "dinov2" | "dinov3_vit":
            common |= {"layer_norm_eps": eps, "qkv_bias": dice.pick(True, False), "image_size": 8,
                       "patch_size": dice.pick(2, 4), "num_channels": dice.pick(1, 3)}  # fmt: skip
            if model_type == "dinov2":
                return transformers.Dinov2Config(
                    **common, mlp_ratio=dice.pick(1, 2), use_mask_token=dice.pick(True, False)
                )
            if model_type == "dinov3_vit":
                common["hidden_size"] = n["heads"] * dice.pick(4, 8)
                flags = ("query_bias", "key_bias", "value_bias", "proj_bias", "mlp_bias", "use_gated_mlp")
                own = {flag: dice.pick(True, False) for flag in flags}
                return transformers.DINOv3ViTConfig(**common, **own, num_register_tokens=dice.pick(1, 3))
            kind = {"vit": transformers.ViTConfig, "deit": transformers.DeiTConfig}[model_type]
            return kind(**common, pooler_output_size=dice.pick(None, 5), pooler_act=dice.pick("tanh", "relu"))
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
        case "olmoe":
            del own["num_local_experts"], plain["moe_intermediate_size"], plain["mlp_only_layers"], settings["head_dim"]
            clip = {"clip_qkv": dice.pick(None, 0.7), "attention_bias": dice.pick(True, False)}
            return transformers.OlmoeConfig(**settings, **own, **plain, **clip, bos_token_id=1, eos_token_id=2)
    del own["num_local_experts"]
    settings["head_dim"] = n["width"] + 2
    return transformers.Qwen3MoeConfig(**settings, **own, **plain, attention_bias=dice.pick(True, False))


@torch.no_grad()
def randomise(model: torch.nn.Module, seed: int) -> None:
    """Gains of either sign away from zero, biases and weights that matter."""
    torch.manual_seed(seed)
    for name, p in model.named_parameters():
        if p.ndim == 1 and name.endswith(("weight", "lambda1")):
            less = 0.0 if p.any() else 1.0  # a gain that begins as zeros is stored less one
            p.copy_((0.5 + torch.rand_like(p)) * torch.where(torch.rand_like(p) < 0.2, -1.0, 1.0) - less)
        elif p.ndim == 1:
            p.normal_(0, 0.5)
        else:
            p.normal_(0, 1.5 / p[0].numel() ** 0.5 if p.ndim > 1 else 1.0)


def random_model(name: str, config: transformers.PreTrainedConfig, seed: int) -> transformers.PreTrainedModel:
    torch.manual_seed(seed)
    by_file = hasattr(config, "scale_decoder_outputs")  # T5: what is in the file decides whether the head is tied
    own_head = by_file and not (config.scale_decoder_outputs and config.tie_word_embeddings)
    if by_file:
        config.tie_word_embeddings = True
    model = getattr(transformers, name)(config)
    if own_head:
        config.scale_decoder_outputs = config.tie_word_embeddings = False
        if hasattr(model, "lm_head"):
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    randomise(model, seed)
    model.tie_weights()
    return model.eval()


def needs_circuits(name: str) -> None:
    """Skip a test of the circuit path where it is refused."""
    if name.startswith(("Albert", "MPNet", "RoFormer")):
        pytest.skip("its attention cannot be exchanged: tests/paths shows the refusal")
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

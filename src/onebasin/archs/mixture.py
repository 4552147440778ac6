"""Mixtures of experts: a router lets every token be served by k of many gated FFNs.

Experts permute, with their rows of the router; the units of an expert are spaces over the experts, as the inside of a
head is over the heads.  Mixtral has experts everywhere, Qwen3-MoE plain FFNs in some layers, Qwen2-MoE also one expert
for all tokens, behind a gate of its own.  OLMoE normalises queries and keys over all heads, and may clip them.

transformers 5 holds all experts in one tensor, and stores them one by one, as releases before it did; it reads both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onebasin.archs.grouped import Attend, attend
from onebasin.archs.llama import like_llama
from onebasin.archs.plain import gated_ffn
from onebasin.archs.registry import GROUPED, Config, Declaration, keep_layers
from onebasin.archs.rotary import geometric, rope_constants
from onebasin.spec import Axis, Builder, Head
from onebasin.spec.ops import elementwise, expert_sum, gated, rope

UNITS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def count_of(cfg: Config) -> int:
    """How many experts a layer has; releases call it by two names."""
    count: int = cfg.num_experts if hasattr(cfg, "num_experts") else cfg.num_local_experts
    return count


def experts(l: Builder, cfg: Config, d: Axis, ln: str, size: int, names: dict[str, str]) -> None:
    """x experts of f units each; `names` are those of the parts of one expert, where each has tensors of its own."""
    x = l.space("experts", count_of(cfg), expert_sum())
    f = l.space("expert_ffn", size, gated(cfg.hidden_act), base=x)
    l.linear("mlp.gate", "d -> x", norm=ln, bias=False, softmax="x", x=x.perm, d=d.co)
    reads: dict[str, Any] = {"maps": "d -> x (t f)", "norm": ln, "bias": False, "bare": True, "x": x.perm, "d": d.co}
    l.linear("mlp.experts.gate_up_proj", part="gate", t=0, f=f.perm, **reads)
    l.linear("mlp.experts.gate_up_proj", part="up", t=1, f=f, **reads)
    l.linear("mlp.experts.down_proj", "f -> x d", bias=False, bare=True, x=x.perm, f=f.co, d=d)
    one = [str(i) for i in range(count_of(cfg))]
    l.apart("mlp.experts.gate_up_proj", "mlp.experts.{x}.{t}.weight", x=one, t=(names["gate"], names["up"]))
    l.apart("mlp.experts.down_proj", f"mlp.experts.{{x}}.{names['down']}.weight", x=one)


def shared_expert(l: Builder, cfg: Config, d: Axis, ln: str) -> None:
    """One expert that serves every token, as much as a sigmoid of one more linear map says."""
    names = "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"
    size = cfg.shared_expert_intermediate_size
    gated_ffn(l, d, norm=ln, size=size, activation=cfg.hidden_act, names=names, space="shared_ffn")
    l.linear("mlp.shared_expert_gate", "d -> a", norm=ln, bias=False, d=d.co)


def is_sparse(cfg: Config, layer: int) -> bool:
    """Whether a layer has experts, and no plain FFN."""
    step, plain = getattr(cfg, "decoder_sparse_step", 1), getattr(cfg, "mlp_only_layers", None) or []
    return layer not in plain and count_of(cfg) > 0 and (layer + 1) % step == 0


def keep_sparse(cfg: Config, layers: Sequence[int]) -> None:
    """As `keep_layers`; layers keep their experts whatever their new numbers are."""
    plain = [new for new, old in enumerate(layers) if not is_sparse(cfg, old)]
    keep_layers(cfg, layers)
    if hasattr(cfg, "mlp_only_layers"):
        cfg.mlp_only_layers, cfg.decoder_sparse_step = plain, 1


def decoder(
    s: Builder, cfg: Config, how: Attend, *, size: int, shared: bool = False, renormalised: bool = True,
    names: dict[str, str] = UNITS,
) -> None:  # fmt: skip
    """As Llama's, with experts of `size` units in place of FFNs."""
    sparse = [i for i in range(cfg.num_hidden_layers) if is_sparse(cfg, i)]
    s.constant("rope", rope_constants(cfg))
    s.constant("sliding window", (getattr(cfg, "sliding_window", None), getattr(cfg, "layer_types", None)))
    s.constant("experts", (count_of(cfg), cfg.num_experts_per_tok, renormalised, sparse))
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embed_tokens.weight", "v d", d=d)
    for i, l in enumerate(s.layers("layers.{}", cfg.num_hidden_layers)):
        attend(l, cfg, d, l.norm("rms", "input_layernorm", d, cfg.rms_norm_eps), how)
        ln = l.norm("rms", "post_attention_layernorm", d, cfg.rms_norm_eps)
        if i not in sparse:
            gated_ffn(l, d, norm=ln, size=cfg.intermediate_size, activation=cfg.hidden_act)
            continue
        experts(l, cfg, d, ln, size, names)
        if shared:
            shared_expert(l, cfg, d, ln)
    ln = s.norm("rms", "norm", d, cfg.rms_norm_eps, blocked=s.final_block("embed_tokens.weight"))
    s.readout(d, ln, "embed_tokens.weight")


def _mixture(model_type: str, name: str, sizes: dict[str, str], **more: Any) -> Callable[[Declaration], Declaration]:
    """Llama's names; `sizes` are the settings that hold how many units an expert has."""
    return like_llama(
        model_type,
        name,
        sizes=lambda cfg: {"v": cfg.vocab_size, "c": cfg.num_labels, "t": 2, "a": 1},
        shorten=keep_sparse,
        **{"fields": {**GROUPED, **sizes, "head": "head_dim", "eps": "rms_norm_eps"}, **more},
    )


@_mixture("qwen3_moe", "Qwen3Moe", {"expert_ffn": "moe_intermediate_size"})
def qwen3_moe(s: Builder, cfg: Config) -> None:
    bias = cfg.attention_bias
    how = Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg)), norm="head")
    decoder(s, cfg, how, size=cfg.moe_intermediate_size, renormalised=cfg.norm_topk_prob)


@_mixture("mixtral", "Mixtral", {"expert_ffn": "intermediate_size"}, renames=((r"\.block_sparse_moe\.", ".mlp."),))
def mixtral(s: Builder, cfg: Config) -> None:
    names = {"gate": "w1", "up": "w3", "down": "w2"}
    decoder(s, cfg, Attend(turn=rope(geometric(cfg))), size=cfg.intermediate_size, names=names)


@_mixture(
    "qwen2_moe", "Qwen2Moe",
    {"expert_ffn": "moe_intermediate_size", "shared_ffn": "shared_expert_intermediate_size"},
)  # fmt: skip
def qwen2_moe(s: Builder, cfg: Config) -> None:
    how = Attend(qkv_bias=getattr(cfg, "qkv_bias", True), turn=rope(geometric(cfg)))
    decoder(s, cfg, how, size=cfg.moe_intermediate_size, shared=True, renormalised=cfg.norm_topk_prob)


@_mixture(
    "olmoe", "Olmoe", {},
    fields={**GROUPED, "expert_ffn": "intermediate_size", "eps": "rms_norm_eps"},
    heads={"OlmoeModel": Head(), "OlmoeForCausalLM": Head("lm_head", vocabulary=True)},
)  # fmt: skip
def olmoe(s: Builder, cfg: Config) -> None:
    clipped, bias = () if cfg.clip_qkv is None else (elementwise("clip"),), cfg.attention_bias
    s.constant("clip", cfg.clip_qkv)
    how = Attend(qkv_bias=bias, o_bias=bias, turn=rope(geometric(cfg)), norm="all", on_qk=clipped, on_v=clipped)
    decoder(s, cfg, how, size=cfg.intermediate_size, renormalised=cfg.norm_topk_prob)

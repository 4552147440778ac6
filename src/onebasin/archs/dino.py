"""DINOv2 and DINOv3: vision encoders with a scale behind every block, which is part of the map before it.

DINOv2 has learned positions, DINOv3 rotary ones in two dimensions, for patches only, and further tokens (registers).
"""

from __future__ import annotations

from typing import Any

from onebasin.archs.encoder import attention
from onebasin.archs.images import images, patch_sizes, patches
from onebasin.archs.plain import ffn, gated_ffn
from onebasin.archs.registry import FIELDS, Config, architecture, covers
from onebasin.archs.vit import ATTENTION, RENAMED
from onebasin.errors import UnknownArchitecture
from onebasin.spec import Axis, Builder, Head
from onebasin.spec.ops import rope


@architecture(
    "dinov2",
    prefix="dinov2.",
    heads={"Dinov2Model": Head(), "Dinov2ForImageClassification": Head("classifier", bias=True)},
    inputs=images,
    sizes=lambda cfg: {"a": 1, "b": 1, **patch_sizes(cfg), "p": patches(cfg) + 1, "z": 2, "c": cfg.num_labels},
    fields={"residual": "hidden_size", "heads": "num_attention_heads", "eps": "layer_norm_eps"},
    renames=RENAMED,
)
def dinov2(s: Builder, cfg: Config) -> None:
    covers(cfg, use_swiglu_ffn=False)
    s.constant("mlp_ratio", cfg.mlp_ratio)
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embeddings.cls_token", "a b d", d=d)
    if getattr(cfg, "use_mask_token", True):
        s.leaf("embeddings.mask_token", "a d", d=d)
    s.leaf("embeddings.position_embeddings", "a p d", d=d)
    s.linear("embeddings.patch_embeddings.projection", "i y x -> d", d=d)
    for l in s.layers("encoder.layer.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "norm1", d, cfg.layer_norm_eps)
        o = attention(l, cfg, d, norm=ln, names=ATTENTION, bias=(*[cfg.qkv_bias] * 3, True))
        l.scale("layer_scale1.lambda1", d, o)
        ln = l.norm("layer", "norm2", d, cfg.layer_norm_eps)
        size = int(cfg.hidden_size * cfg.mlp_ratio)
        o = ffn(l, d, norm=ln, names=("mlp.fc1", "mlp.fc2"), size=size, activation=cfg.hidden_act)
        l.scale("layer_scale2.lambda1", d, o)
    ln = s.norm("layer", "layernorm", d, cfg.layer_norm_eps, blocked=s.final_block(""))
    read(s, d, ln)


def read(s: Builder, d: Axis, ln: str) -> None:
    """Labels of an image read the class token and the mean of the patches, one after the other."""
    if s.head.key is None:
        s.readout(d, ln, "")
        s.output("pooler_output", d)
    else:
        s.root.linear(s.head.key, "(z d) -> c", norm=ln, d=d.co)
        s.output("logits")


@architecture(
    "dinov3_vit",
    prefix="",
    heads={"DINOv3ViTModel": Head()},
    inputs=images,
    sizes=lambda cfg: {"a": 1, "b": 1, **patch_sizes(cfg), "r": cfg.num_register_tokens},
    fields={**FIELDS, "eps": "layer_norm_eps"},
    renames=((r"^model\.layer\.", "layer."),),  # transformers 5 in memory -> as stored
)
def dinov3(s: Builder, cfg: Config) -> None:
    if not cfg.num_register_tokens:
        raise UnknownArchitecture("The table for 'dinov3_vit' does not cover models without registers",
                                  expected="num_register_tokens of 1 or more", found=0)  # fmt: skip
    s.constant("rope", cfg.rope_theta)
    d = s.space("residual", cfg.hidden_size)
    for token, pattern in (("cls_token", "a b d"), ("mask_token", "a b d"), ("register_tokens", "a r d")):
        s.leaf(f"embeddings.{token}", pattern, d=d)
    s.linear("embeddings.patch_embeddings", "i y x -> d", d=d)
    names = ("attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj")
    biases = (cfg.query_bias, cfg.key_bias, cfg.value_bias, cfg.proj_bias)
    for l in s.layers("layer.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "norm1", d, cfg.layer_norm_eps)
        l.scale("layer_scale1.lambda1", d, attention(l, cfg, d, norm=ln, names=names, bias=biases, turn=rope()))
        ln = l.norm("layer", "norm2", d, cfg.layer_norm_eps)
        l.scale("layer_scale2.lambda1", d, units(l, cfg, d, norm=ln))
    ln = s.norm("layer", "norm", d, cfg.layer_norm_eps, blocked=s.final_block(""))
    read(s, d, ln)


def units(l: Builder, cfg: Config, d: Axis, *, norm: str) -> str:
    """The FFN, gated or not; returns its last map."""
    how: dict[str, Any] = {"norm": norm, "size": cfg.intermediate_size, "activation": cfg.hidden_act}
    if cfg.use_gated_mlp:
        return gated_ffn(l, d, bias=cfg.mlp_bias, **how)
    return ffn(l, d, names=("mlp.up_proj", "mlp.down_proj"), bias=cfg.mlp_bias, **how)

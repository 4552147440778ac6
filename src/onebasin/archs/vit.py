"""ViT and DeiT: pre-LayerNorm encoders over image patches with a class token and learned positions.

DeiT has a second token, which learns from a teacher, and maybe a classifier for it.
"""

from __future__ import annotations

from collections.abc import Callable

from onebasin.archs.encoder import UNITS, attention, pooler
from onebasin.archs.images import images, patch_sizes, patches
from onebasin.archs.plain import ffn
from onebasin.archs.registry import FIELDS, Config, Declaration, architecture
from onebasin.spec import Axis, Builder, Head

ATTENTION = ("attention.attention.query", "attention.attention.key", "attention.attention.value",
             "attention.output.dense")  # fmt: skip
RENAMED = tuple(  # transformers 5 in memory -> as stored by 4.x and 5.x
    (rf"\.attention\.{new}_proj\.", f".{old}.") for new, old in zip("qkvo", ATTENTION, strict=True)
)


def _like_vit(model_type: str, name: str, tokens: int, **heads: Head) -> Callable[[Declaration], Declaration]:
    return architecture(
        model_type,
        prefix=f"{model_type}.",
        heads={f"{name}Model": Head(), f"{name}ForImageClassification": Head("classifier", bias=True), **heads},
        inputs=images,
        sizes=lambda cfg: {"a": 1, "b": 1, **patch_sizes(cfg), "p": patches(cfg) + tokens, "c": cfg.num_labels},
        fields={**FIELDS, "eps": "layer_norm_eps"},
        renames=(  # transformers 5 in memory -> as stored by 4.x and 5.x
            (rf"(^|{model_type}\.)layers\.(\d+)\.", r"\1encoder.layer.\2."),
            *RENAMED,
            (r"\.mlp\.fc1\.", ".intermediate.dense."),
            (r"\.mlp\.fc2\.", ".output.dense."),
        ),
        untouched=(r"embeddings\.mask_token$",),
    )


def encoder(s: Builder, cfg: Config, *tokens: str) -> tuple[Axis, str]:
    """The stream, and the norm that its heads read."""
    eps = cfg.layer_norm_eps
    d = s.space("residual", cfg.hidden_size)
    for token in tokens:
        s.leaf(f"embeddings.{token}", "a b d", d=d)
    s.leaf("embeddings.position_embeddings", "a p d", d=d)
    s.linear("embeddings.patch_embeddings.projection", "i y x -> d", d=d)
    for l in s.layers("encoder.layer.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "layernorm_before", d, eps)
        attention(l, cfg, d, norm=ln, names=ATTENTION, bias=(*[cfg.qkv_bias] * 3, True))
        ln = l.norm("layer", "layernorm_after", d, eps)
        ffn(l, d, norm=ln, names=UNITS, size=cfg.intermediate_size, activation=cfg.hidden_act)
    ln = s.norm("layer", "layernorm", d, eps, blocked=s.final_block(""))
    if s.head.key is None:
        size = getattr(cfg, "pooler_output_size", None) or cfg.hidden_size
        e = pooler(s, d, norm=ln, size=size, activation=getattr(cfg, "pooler_act", "tanh"), optional=True)
        s.output("pooler_output", e)
    s.readout(d, ln, "")
    return d, ln


@_like_vit("vit", "ViT", 1)
def vit(s: Builder, cfg: Config) -> None:
    encoder(s, cfg, "cls_token")


@_like_vit("deit", "DeiT", 2, DeiTForImageClassificationWithTeacher=Head("cls_classifier", bias=True))
def deit(s: Builder, cfg: Config) -> None:
    d, ln = encoder(s, cfg, "cls_token", "distillation_token")
    if s.head.key == "cls_classifier":
        s.root.linear("distillation_classifier", "d -> c", norm=ln, d=d.co)

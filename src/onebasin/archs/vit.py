"""ViT: pre-LayerNorm encoder over image patches with a class token and learned positions."""

from __future__ import annotations

from onebasin.archs.encoder import attention, feed_forward, pooler
from onebasin.archs.registry import FIELDS, Config, architecture
from onebasin.errors import LayoutMismatch
from onebasin.spec import Builder, Head, Images

STORED = (*(f"attention.attention.{x}" for x in ("query", "key", "value")), "attention.output.dense")


def _pair(size: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    """(height, width), given as such or as one number for both."""
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(isinstance(side, int) for side in pair):
        raise LayoutMismatch(
            "config.json gives a size that is no height and width",
            expected="32 or [32, 32]",
            found=size,
            next_step="correct image_size and patch_size",
        )
    return pair


def _patches(cfg: Config) -> int:
    (height, width), (p, q) = _pair(cfg.image_size), _pair(cfg.patch_size)
    return (height // p) * (width // q)


@architecture(
    "vit",
    prefix="vit.",
    heads={"ViTModel": Head(), "ViTForImageClassification": Head("classifier", bias=True)},
    inputs=lambda cfg: Images(cfg.num_channels, *_pair(cfg.image_size)),
    sizes=lambda cfg: {
        "a": 1, "b": 1, "i": cfg.num_channels, "y": _pair(cfg.patch_size)[0], "x": _pair(cfg.patch_size)[1],
        "p": _patches(cfg) + 1, "c": cfg.num_labels,
    },
    fields={**FIELDS, "eps": "layer_norm_eps"},
    renames=(  # transformers 5 in memory -> as stored by 4.x and 5.x
        (r"(^|vit\.)layers\.(\d+)\.", r"\1encoder.layer.\2."),
        (r"\.attention\.q_proj\.", ".attention.attention.query."),
        (r"\.attention\.k_proj\.", ".attention.attention.key."),
        (r"\.attention\.v_proj\.", ".attention.attention.value."),
        (r"\.attention\.o_proj\.", ".attention.output.dense."),
        (r"\.mlp\.fc1\.", ".intermediate.dense."),
        (r"\.mlp\.fc2\.", ".output.dense."),
    ),
    untouched=(r"embeddings\.mask_token$",),
)  # fmt: skip
def vit(s: Builder, cfg: Config) -> None:
    eps = cfg.layer_norm_eps
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embeddings.cls_token", "a b d", d=d)
    s.leaf("embeddings.position_embeddings", "a p d", d=d)
    s.linear("embeddings.patch_embeddings.projection", "i y x -> d", d=d)
    for l in s.layers("encoder.layer.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "layernorm_before", d, eps)
        attention(l, cfg, d, norm=ln, names=STORED, bias=(*[cfg.qkv_bias] * 3, True))
        ln = l.norm("layer", "layernorm_after", d, eps)
        feed_forward(l, cfg.intermediate_size, cfg.hidden_act, d, norm=ln)
    ln = s.norm("layer", "layernorm", d, eps, blocked=s.final_block(""))
    if s.head.key is None:
        size = getattr(cfg, "pooler_output_size", None) or cfg.hidden_size
        e = pooler(s, d, norm=ln, size=size, activation=getattr(cfg, "pooler_act", "tanh"), optional=True)
        s.output("pooler_output", e)
    s.readout(d, ln, "")

"""CLIP: a text and a vision encoder, whose answers are compared by their angle in one space of projections.

The vision encoder's first norm writes the stream with its gain, and what it returns is the stream without a norm.
"""

from __future__ import annotations

from collections.abc import Callable

from onebasin.archs.encoder import ON_SKIP, attention
from onebasin.archs.images import images, patch_sizes, patches
from onebasin.archs.plain import ffn
from onebasin.archs.registry import FIELDS, Config, Declaration, architecture
from onebasin.spec import Axis, Builder, Head, Tokens
from onebasin.spec.ops import angle, returned

MAPS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj")
RETURNED = "its output is the model's output, and no linear map follows that could take the gain"


LARGEST = 2  # an `eos_token_id` of old configurations: the token with the largest number ends the text


def _tokens(cfg: Config) -> Tokens:
    end = cfg.eos_token_id
    fixed = range(cfg.vocab_size) if end == LARGEST else (end,)
    return Tokens(cfg.vocab_size, cfg.max_position_embeddings, fixed=fixed)


def _text_sizes(cfg: Config) -> dict[str, int]:
    return {"v": cfg.vocab_size, "p": cfg.max_position_embeddings}


def _image_sizes(cfg: Config) -> dict[str, int]:
    return {**patch_sizes(cfg), "q": patches(cfg) + 1}


def layers(s: Builder, cfg: Config, d: Axis) -> None:
    for l in s.layers("encoder.layers.{}", cfg.num_hidden_layers):
        ln = l.norm("layer", "layer_norm1", d, cfg.layer_norm_eps)
        attention(l, cfg, d, norm=ln, names=MAPS)
        ln = l.norm("layer", "layer_norm2", d, cfg.layer_norm_eps)
        ffn(l, d, norm=ln, names=("mlp.fc1", "mlp.fc2"), size=cfg.intermediate_size, activation=cfg.hidden_act)


def text(s: Builder, cfg: Config, *, blocked: str | None) -> tuple[Axis, str]:
    """The stream of the text encoder, and the norm behind it, whose output is returned if that is `blocked`."""
    s.constant("token whose state is the answer", cfg.eos_token_id)
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embeddings.token_embedding.weight", "v d", d=d)
    s.leaf("embeddings.position_embedding.weight", "p d", d=d)
    layers(s, cfg, d)
    return d, s.norm("layer", "final_layer_norm", d, cfg.layer_norm_eps, blocked=blocked)


def vision(s: Builder, cfg: Config) -> Axis:
    """The stream of the vision encoder."""
    d = s.space("residual", cfg.hidden_size)
    s.leaf("embeddings.class_embedding", "d", d=d)
    s.leaf("embeddings.position_embedding.weight", "q d", d=d)
    s.linear("embeddings.patch_embedding", "i y x -> d", bias=False, d=d)
    s.norm("layer", "pre_layrnorm", d, cfg.layer_norm_eps, blocked=ON_SKIP)
    layers(s, cfg, d)
    return d


def pooled(s: Builder, cfg: Config, d: Axis, *, blocked: str | None) -> str:
    """The norm of the class token's last state."""
    return s.norm("layer", "post_layernorm", d, cfg.layer_norm_eps, blocked=blocked)


def _tower(kind: str, name: str, key: str, **rest: object) -> Callable[[Declaration], Declaration]:
    """One encoder alone; the bare one is stored with the other's prefix by transformers 4."""
    return architecture(
        f"clip_{kind}_model",
        prefix=f"{kind}_model.",
        heads={f"CLIP{name}Model": Head(), f"CLIP{name}ModelWithProjection": Head(key)},
        fields={**FIELDS, "eps": "layer_norm_eps"},
        renames=((rf"^{kind}_model\.", ""),),
        untouched=(r"embeddings\.position_ids$",),
        **rest,  # type: ignore[arg-type]
    )


@_tower("text", "Text", "text_projection", inputs=_tokens, sizes=_text_sizes)
def clip_text(s: Builder, cfg: Config) -> None:
    d, ln = text(s, cfg, blocked=RETURNED)
    s.output("last_hidden_state", d)
    if s.head.key is None:
        s.output("pooler_output", d)
    else:
        e = s.space("projection", cfg.projection_dim, angle())
        s.root.linear(s.head.key, "d -> e", bias=False, norm=ln, d=d.co, e=e)
        s.output("text_embeds", e)


@_tower("vision", "Vision", "visual_projection", inputs=images, sizes=_image_sizes)
def clip_vision(s: Builder, cfg: Config) -> None:
    d = vision(s, cfg)
    s.touch(d, returned())
    s.output("last_hidden_state", d)
    if s.head.key is None:
        pooled(s, cfg, d, blocked=RETURNED)
        s.output("pooler_output", d)
    else:
        ln = pooled(s, cfg, d, blocked=None)
        e = s.space("projection", cfg.projection_dim, angle())
        s.root.linear(s.head.key, "d -> e", bias=False, norm=ln, d=d.co, e=e)
        s.output("image_embeds", e)


@architecture(
    "clip",
    prefix="",
    heads={"CLIPModel": Head(), "CLIPForImageClassification": Head("classifier", bias=True)},
    inputs=lambda cfg: (
        images(cfg.vision_config)
        if "CLIPForImageClassification" in cfg.architectures
        else {"input_ids": _tokens(cfg.text_config), "pixel_values": images(cfg.vision_config)}
    ),
    sizes=lambda cfg: {**_text_sizes(cfg.text_config), **_image_sizes(cfg.vision_config), "c": cfg.num_labels},
    fields={},
    untouched=(r"embeddings\.position_ids$",),
)
def clip(s: Builder, cfg: Config) -> None:
    seen = s.at("vision_model.", "vision.")
    x = vision(seen, cfg.vision_config)
    if s.head.key is not None:
        pooled(seen, cfg.vision_config, x, blocked=RETURNED)
        s.linear(s.head.key, "d -> c", d=x.co)
        s.output("logits")
        return
    t, ln = text(s.at("text_model.", "text."), cfg.text_config, blocked=None)
    e = s.space("projection", cfg.projection_dim, angle())
    s.linear("text_projection", "d -> e", bias=False, norm=ln, d=t.co, e=e)
    ln = pooled(seen, cfg.vision_config, x, blocked=None)
    s.linear("visual_projection", "d -> e", bias=False, norm=ln, d=x.co, e=e)
    s.leaf("logit_scale", "")
    for name, axis in {"logits_per_image": None, "text_embeds": e, "image_embeds": e}.items():
        s.output(name, axis)

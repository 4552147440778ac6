"""The list of known architectures and the one call that turns a configuration into a table."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from onebasin.errors import LayoutMismatch, UnknownArchitecture
from onebasin.spec import Builder, Head, Images, ModelSpec, Tokens

GUIDE = "CONTRIBUTING.md, 'Add an architecture'"

Config = Any  # a transformers configuration: attributes with defaults filled in
Inputs = Tokens | Images | Mapping[str, Tokens | Images]  # one, under its usual name; or several by their names
Declaration = Callable[[Builder, Config], None]


@dataclass(frozen=True)
class Architecture:
    """One model family: how its classes are called, where their heads sit, and its declaration."""

    declare: Declaration
    prefix: str
    heads: Mapping[str, Head]
    inputs: Callable[[Config], Inputs]
    sizes: Callable[[Config], dict[str, int]]
    fields: Mapping[str, str]
    renames: tuple[tuple[str, str], ...]
    untouched: tuple[str, ...]
    follows: Mapping[str, str]
    ties: Callable[[Config, Collection[str]], bool]
    untied: Mapping[str, object]
    shorten: Callable[[Config, Sequence[int]], None]


_known: dict[str, Architecture] = {}

FIELDS = {"residual": "hidden_size", "heads": "num_attention_heads", "ffn": "intermediate_size"}
GROUPED = {**FIELDS, "kv_heads": "num_key_value_heads"}
UNTIED = {"tie_word_embeddings": False}


def tied_by_config(cfg: Config, stored: Collection[str]) -> bool:
    """Whether the head shares the embedding, by the setting that most models have."""
    return bool(getattr(cfg, "tie_word_embeddings", False))


def keep_layers(cfg: Config, layers: Sequence[int]) -> None:
    """Turn a configuration into that of a model with these layers alone, by the settings that most models have."""
    cfg.num_hidden_layers = len(layers)
    if getattr(cfg, "layer_types", None):
        cfg.layer_types = [cfg.layer_types[i] for i in layers]


def architecture(
    model_type: str, *, prefix: str, heads: Mapping[str, Head], inputs: Callable[[Config], Inputs],
    sizes: Callable[[Config], dict[str, int]], fields: Mapping[str, str],
    renames: tuple[tuple[str, str], ...] = (), untouched: tuple[str, ...] = (),
    follows: Mapping[str, str] | None = None, ties: Callable[[Config, Collection[str]], bool] = tied_by_config,
    untied: Mapping[str, object] = UNTIED, shorten: Callable[[Config, Sequence[int]], None] = keep_layers,
) -> Callable[[Declaration], Declaration]:  # fmt: skip
    """Register a declaration under transformers' `model_type`.

    `sizes` gives the lengths of labelled letters.  `fields` names the settings that hold the residual width, the
    number of (query) heads and of hidden units and the eps of the norms; also, where it has them, the number of
    key/value heads and the head width (without, that is the residual width divided by the number of heads).  A setting
    that `follows` another grows with it where the two are equal.  `ties` tells from a configuration and the names in
    the file whether a head shares the embedding, and `untied` are the settings of a model where it does not.
    `shorten` changes a configuration to that of some of its layers.
    """

    def register(declare: Declaration) -> Declaration:
        _known[model_type] = Architecture(
            declare, prefix, heads, inputs, sizes, fields, renames, untouched, follows or {}, ties, untied, shorten
        )
        return declare

    return register


def covers(cfg: Config, **settings: object) -> None:
    """Refuse a configuration with another value of a setting that the table does not cover."""
    for name, value in settings.items():
        found = getattr(cfg, name, value)
        if found != value:
            what = f"The table for {cfg.model_type!r} does not cover {name} = {found!r}"
            step = f"extend the table ({GUIDE}), or use a model without it"
            raise UnknownArchitecture(what, expected=value, found=found, next_step=step)


@cache
def _load_all() -> None:
    package = importlib.import_module("onebasin.archs")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"onebasin.archs.{module.name}")


def known() -> dict[str, tuple[str, ...]]:
    """model_type -> the model classes onebasin can read."""
    _load_all()
    return {model_type: tuple(arch.heads) for model_type, arch in sorted(_known.items())}


def lookup(model_type: str | None, architectures: list[str] | None) -> tuple[Architecture, str]:
    """The registered architecture and the model class of a configuration, or a refusal that lists the choices."""
    classes = known()
    if not isinstance(model_type, str) or model_type not in classes:
        raise UnknownArchitecture(
            f"No table describes model_type {model_type!r}",
            expected=", ".join(classes),
            found=model_type,
            next_step=f"add one ({GUIDE}), or convert the model to one of these types",
        )
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    if name not in classes[model_type]:
        raise UnknownArchitecture(
            f"The table for {model_type!r} does not cover this model class",
            expected=", ".join(classes[model_type]),
            found=name or "no 'architectures' entry in config.json",
            next_step="set 'architectures' in config.json to the class the weights were saved from; "
            f"to add a head, see {GUIDE}",
        )
    return _known[model_type], name


def _by_name(inputs: Inputs) -> Mapping[str, Tokens | Images]:
    if isinstance(inputs, Mapping):
        return inputs
    return {"pixel_values" if isinstance(inputs, Images) else "input_ids": inputs}


def declare(config: Config, *, tie: bool | None = None, stored: Collection[str] = ()) -> ModelSpec:
    """The table of a model of this configuration, whose file has the names `stored`; `tie` overrides what they say."""
    arch, name = lookup(config.model_type, config.architectures)
    tied = arch.ties(config, stored) if tie is None else tie
    try:
        inputs = _by_name(arch.inputs(config))
        if min(size for kind in inputs.values() for size in kind.sizes) < 1:
            raise ValueError(inputs)
        builder = Builder(arch.prefix, arch.heads[name], tied, inputs, arch.sizes(config))
        arch.declare(builder, config)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        step = "correct the sizes and the number of heads in config.json"
        raise LayoutMismatch("config.json has a size that is zero or no number", found=error, next_step=step) from error
    return builder.build(config.model_type, name, arch.renames, arch.untouched)

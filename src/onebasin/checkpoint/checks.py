"""What is checked of a folder before any weights are read: config.json by itself, against transformers and the file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from onebasin.checkpoint.dtypes import DTYPES
from onebasin.checkpoint.folder import quantised_error
from onebasin.checkpoint.store import Header, Store
from onebasin.errors import BadCheckpoint, LayoutMismatch, UnknownArchitecture
from onebasin.spec import ModelSpec

_CORRECT = "correct config.json: take it from the run that wrote these weights"


def transformers_config(config: Mapping[str, Any]) -> Any:
    """The configuration with transformers' defaults filled in; built from data, never from code in the folder."""
    from transformers import CONFIG_MAPPING

    try:
        return CONFIG_MAPPING[config["model_type"]].from_dict(dict(config))
    except Exception as error:
        raise BadCheckpoint(
            f"config.json is not a valid {config['model_type']} configuration",
            found=str(error).strip().replace("\n", " "),
            next_step="correct the field named above, or take config.json from the original model",
        ) from error


def check_numbers(config: Mapping[str, Any], store: Store) -> None:
    """All are finite; no more layers than tensors and no more classes than numbers, of which lists are made."""
    from transformers import CONFIG_MAPPING

    inner = [(f"{key}.{x}", y) for key, value in config.items() if isinstance(value, dict) for x, y in value.items()]
    for key, value in [*config.items(), *inner]:
        if isinstance(value, float) and not isfinite(value):
            what = f"config.json has a {key} that is not finite"
            raise BadCheckpoint(what, expected="a number", found=value, next_step=_CORRECT)
    other = CONFIG_MAPPING[config["model_type"]].attribute_map.get("num_hidden_layers", "num_hidden_layers")
    tensors, numbers = len(store.headers), store.parameters
    for key, most, of in (("num_hidden_layers", tensors, "tensors"), (other, tensors, "tensors"),
                          ("num_labels", numbers, "numbers")):  # fmt: skip
        found = config.get(key)
        if isinstance(found, int | float) and not found <= most:
            what, expected = f"config.json has a {key} that the file cannot hold", f"at most {most:,} ({of} in it)"
            raise LayoutMismatch(what, expected=expected, found=found, next_step=_CORRECT)


def check_runs(architecture: str, config: Mapping[str, Any]) -> None:
    """transformers can make the model of this configuration: tried without memory for its weights."""
    import torch
    import transformers

    full = transformers_config(config)
    try:
        with torch.device("meta"):
            kind = getattr(transformers, architecture)
            kind._from_config(full, attn_implementation=attention_of(kind))
    except Exception as error:  # an activation or a rate of dropout that does not exist, and whatever else it holds
        what, found = f"transformers cannot make a {architecture} of config.json", f"{type(error).__name__}: {error}"
        raise BadCheckpoint(what, found=found, next_step=_CORRECT) from error


@cache
def released() -> frozenset[str]:
    """The names that the transformers here has; asking for a class itself would import its model."""
    import transformers

    return frozenset(dir(transformers))


def check_release(architecture: str) -> None:
    """The transformers that is installed has this class."""
    import transformers

    if architecture not in released():
        what = f"The transformers that is installed has no {architecture}"
        step = "install transformers 5: pip install --upgrade transformers"
        raise UnknownArchitecture(what, found=f"transformers {transformers.__version__}", next_step=step)


def attention_of(kind: Any) -> str:
    """How a class of transformers computes attention: by sdpa, or, if it has only that, by code of its own."""
    return "sdpa" if kind._supports_sdpa else "eager"


def check_headers(spec: ModelSpec, headers: Mapping[str, Header], folder: Path) -> None:
    """The configuration's shapes are the file's shapes, and what is stored are floating-point numbers."""
    shapes = {**spec.keys, **{name: piece.shape for name, piece in spec.pieces.items()}}
    for key, expected in ((key, shape) for key, shape in shapes.items() if key in headers):
        if headers[key].shape != expected:
            raise LayoutMismatch(
                "config.json and the stored tensor disagree about a shape",
                tensor=key,
                expected=expected,
                found=headers[key].shape,
                next_step=_CORRECT,
            )
        if not DTYPES[headers[key].dtype].is_float:
            raise quantised_error(folder, tensor=key, found=headers[key].dtype)

"""What tables with rotary positions share."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from onebasin.archs.registry import Config
from onebasin.errors import BadCheckpoint


def rope_parameters(cfg: Config) -> dict[str, Any]:
    """What the frequencies follow from, as the transformers that is installed reads it.

    5.x has one setting for it, `rope_parameters`.  4.x has several (`rope_theta`, `rope_scaling`, ...) and passes over
    the one: a configuration in which they disagree would run as another model, so it is refused.
    """
    written: dict[str, Any] = getattr(cfg, "rope_parameters", None) or {}
    if not before_5():
        return written
    factor = {"partial_rotary_factor": cfg.partial_rotary_factor} if hasattr(cfg, "partial_rotary_factor") else {}
    scaling = getattr(cfg, "rope_scaling", None) or {}
    read = {"rope_type": "default", "rope_theta": cfg.rope_theta, **factor, **scaling}
    check_read(written, read)
    return read


def check_read(written: dict[str, Any], read: dict[str, Any]) -> None:
    """What transformers 4 reads is what the configuration says in the words of 5."""
    if any(read.get(key) != value for key, value in written.items()):
        raise BadCheckpoint(
            "transformers 4 does not read the rotary positions of config.json",
            expected=f"the settings that stand for rope_parameters {written}",
            found=read,
            next_step="install transformers 5, which wrote this configuration",
        )


def rotary_width(cfg: Config) -> int:
    """How many coordinates of a head are rotated."""
    width = getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads
    return int(width * rope_parameters(cfg).get("partial_rotary_factor", 1.0))


@cache
def before_5() -> bool:
    """Whether transformers 4 is installed."""
    return int(version("transformers").partition(".")[0]) < 5


def rope_constants(cfg: Config) -> dict[str, Any]:
    """What two models must share to turn positions alike; some kinds of scaling look at the length of the context."""
    plain = all(geometric(cfg, kind) for kind in set(getattr(cfg, "layer_types", None) or [""]))
    length = {} if plain else {"max_position_embeddings": cfg.max_position_embeddings}
    return {**rope_parameters(cfg), **length}


def geometric(cfg: Config, kind: str = "") -> bool:
    """Whether every frequency follows from θ^(−2j/d) alone; the other kinds of scaling look at j or d themselves.

    `kind` of layer, where each has rotary positions of its own.
    """
    parameters = rope_parameters(cfg)
    return is_geometric(parameters.get(kind, parameters))


def is_geometric(parameters: dict[str, Any]) -> bool:
    """The same for the settings of one kind of layer."""
    return parameters.get("rope_type", "default") in ("default", "linear", "llama3")

"""What tables with rotary positions share."""

from __future__ import annotations

from onebasin.archs.registry import Config


def geometric(cfg: Config) -> bool:
    """Whether every frequency follows from θ^(−2j/d) alone; the other kinds of scaling look at j or d themselves."""
    parameters = getattr(cfg, "rope_parameters", None) or getattr(cfg, "rope_scaling", None) or {}
    return parameters.get("rope_type", "default") in ("default", "linear", "llama3")

"""What models of images share: heights and widths in config.json, and how many patches they make."""

from __future__ import annotations

from onebasin.archs.registry import Config
from onebasin.errors import LayoutMismatch
from onebasin.spec import Images


def pair(size: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    """(height, width), given as such or as one number for both."""
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise LayoutMismatch(
            "config.json gives a size that is no height and width",
            expected="32 or [32, 32]",
            found=size,
            next_step="correct image_size and patch_size",
        )
    return sides


def patches(cfg: Config) -> int:
    (height, width), (p, q) = pair(cfg.image_size), pair(cfg.patch_size)
    return (height // p) * (width // q)


def images(cfg: Config) -> Images:
    """What a model with this configuration reads."""
    return Images(cfg.num_channels, *pair(cfg.image_size))


def patch_sizes(cfg: Config) -> dict[str, int]:
    """The labelled letters of a patch embedding: channels i, rows y, columns x."""
    return {"i": cfg.num_channels, "y": pair(cfg.patch_size)[0], "x": pair(cfg.patch_size)[1]}

"""Tasks that need no download: drawn shapes, and the source of Python's own library."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks.images import image_task, reads_images
from onebasin.tasks.task import MADE, Task, class_count, too_few
from onebasin.tasks.text import language_task

Grid = NDArray[np.float64]
IMAGES = 1000  # drawn where no number is asked for
SEEDS = {"train": 1, "test": 2}


SHAPES: dict[str, Callable[[Grid, Grid], NDArray[np.bool_]]] = {  # inside the unit square around the centre
    "disc": lambda x, y: np.hypot(x, y) < 0.9,
    "ring": lambda x, y: abs(np.hypot(x, y) - 0.7) < 0.25,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) < 0.8,
    "frame": lambda x, y: abs(np.maximum(abs(x), abs(y)) - 0.7) < 0.25,
    "triangle": lambda x, y: (y < 0.8) & (y > 2.4 * abs(x) - 0.9),
    "plus": lambda x, y: (np.minimum(abs(x), abs(y)) < 0.25) & (np.maximum(abs(x), abs(y)) < 0.9),
    "cross": lambda x, y: (abs(abs(x) - abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 0.9),
    "rows": lambda x, y: (np.sin(9 * y) > 0) & (np.maximum(abs(x), abs(y)) < 1),
    "columns": lambda x, y: (np.sin(9 * x) > 0) & (np.maximum(abs(x), abs(y)) < 1),
    "checks": lambda x, y: (np.sin(7 * x) * np.sin(7 * y) > 0) & (np.maximum(abs(x), abs(y)) < 1),
}


def draw(label: int, number: int, split: str, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """Picture `number` of a split: shape `label` at a random place, size and tilt, in random colours, with noise."""
    rng = np.random.default_rng([SEEDS[split], number])
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    (dx, dy), size, tilt = rng.uniform(-0.3, 0.3, 2), rng.uniform(0.45, 0.8), rng.uniform(-0.3, 0.3)
    x, y = (x - dx) / size, (y - dy) / size
    x, y = x * np.cos(tilt) - y * np.sin(tilt), x * np.sin(tilt) + y * np.cos(tilt)
    inside = list(SHAPES.values())[label](x, y)
    dark, light = rng.uniform(0, 90, channels), rng.uniform(140, 255, channels)
    colours = (dark, light) if rng.random() < 0.5 else (light, dark)
    picture = np.where(inside[:, :, None], colours[0], colours[1]) + rng.normal(0, 20, (height, width, channels))
    return picture.clip(0, 255).astype(np.uint8)


def shapes(checkpoint: Checkpoint, split: str, samples: int | None) -> Task:
    """Up to ten classes of noisy drawings at the model's own size; classes take turns."""
    reads, count = reads_images(checkpoint), IMAGES if samples is None else samples
    if count > MADE:
        raise too_few(count, MADE, f"builtin:shapes:{split}")
    classes = min(len(SHAPES), class_count(checkpoint))
    labels = [i % classes for i in range(max(count, 0))]
    size = (reads.height, reads.width, reads.channels)
    pictures = [partial(draw, label, i, split, *size) for i, label in enumerate(labels)]
    about = {"source": "drawn shapes", "split": split, "classes": list(SHAPES)[:classes]}
    return image_task(pictures, labels, checkpoint, f"builtin:shapes:{split}", about, samples)


def python(checkpoint: Checkpoint, split: str, samples: int | None, length: int | None) -> Task:
    """The modules of the standard library, sorted, end to end; every tenth is `test`, the others `train`."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_sysconfigdata")]
    chosen = [file for i, file in enumerate(files) if (i % 10 == 9) == (split == "test")]
    text = "".join(file.read_text(encoding="utf-8", errors="replace") for file in chosen)
    about = {"source": f"standard library of Python {platform.python_version()}", "split": split}
    return language_task(text, checkpoint, f"builtin:python:{split}", about, samples, length)


def builtin(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None) -> Task:
    """`builtin:shapes` or `builtin:python`, with `:train` for the part that is not `test`."""
    name, _, split = text.partition(":")
    split = split or "test"
    if name not in ("shapes", "python") or split not in SEEDS:
        raise BadTask(
            f"There is no built-in task {text!r}",
            expected="builtin:shapes or builtin:python, alone or with :train or :test",
            found=f"builtin:{text}",
            next_step="use one of these",
        )
    if name == "shapes":
        return shapes(checkpoint, split, samples)
    return python(checkpoint, split, samples, length)

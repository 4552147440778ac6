"""Labelled images from local files: arrays, or folders of pictures."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks.files import about_file, existing
from onebasin.tasks.images import image_task, reads_images
from onebasin.tasks.labels import class_order, label_ids
from onebasin.tasks.task import Task

if TYPE_CHECKING:
    from onebasin.tasks.images import Pixels

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}


def image_files(text: str, checkpoint: Checkpoint, *, samples: int | None) -> Task:
    """`images:FILE.npz` (arrays `images` and `labels`) or `images:FOLDER` (one subfolder per class)."""
    path = existing(text)
    pictures, labels = _from_folder(path, checkpoint) if path.is_dir() else _from_arrays(path, checkpoint)
    return image_task(pictures, labels, checkpoint, f"images:{path.name}", about_file(path), samples)


def _from_arrays(path: Path, checkpoint: Checkpoint) -> tuple[Sequence[Callable[[], Pixels]], Sequence[int]]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in ("images", "labels") if name in stored}
            found = f"arrays {', '.join(stored)}"
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise _arrays(path, error) from error
    if len(arrays) < 2:
        raise _arrays(path, found)
    images, labels = arrays["images"], arrays["labels"]
    if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    shapes = f"images {images.shape} {images.dtype}, labels {labels.shape} {labels.dtype}"
    if images.ndim != 4 or images.dtype != np.uint8 or labels.shape != images.shape[:1]:
        raise _arrays(path, shapes)
    return [lambda i=i: images[i] for i in range(len(images))], label_ids(labels.tolist(), checkpoint, path.name)


def _arrays(path: Path, found: object) -> BadTask:
    return BadTask(
        f"{path.name} does not hold labelled images",
        expected="an .npz with images, uint8 (N, height, width, channels), and labels, integers (N,)",
        found=found,
        next_step="numpy.savez(FILE, images=..., labels=...), or give a folder with one subfolder per class",
    )


def _from_folder(path: Path, checkpoint: Checkpoint) -> tuple[Sequence[Callable[[], Pixels]], Sequence[int]]:
    """Classes take turns, so that the first N images are of all classes."""
    found = {
        folder.name: sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)
        for folder in sorted(path.iterdir())
        if folder.is_dir()
    }
    found = {name: files for name, files in found.items() if files}
    if not found:
        step = "give a folder with one subfolder of images per class"
        raise BadTask(f"{path.name} holds no images", expected="CLASS/IMAGE.png", found="none", next_step=step)
    order, mode = class_order(list(found), checkpoint), {1: "L", 3: "RGB"}.get(reads_images(checkpoint).channels)
    turns = zip_longest(*[[(file, order[name]) for file in files] for name, files in found.items()])
    pairs = [pair for pair in chain.from_iterable(turns) if pair is not None]
    return [lambda file=file: _picture(file, mode) for file, _ in pairs], [label for _, label in pairs]


def _picture(file: Path, mode: str | None) -> Pixels:
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as picture:
            pixels = np.asarray(picture.convert(mode or "RGB"))
    except (OSError, UnidentifiedImageError) as error:
        raise BadTask(f"{file.name} is not an image", found=error, next_step="remove or replace it") from error
    return pixels if pixels.ndim == 3 else pixels[:, :, None]

"""Labelled images from local files, arrays or folders of pictures, prepared as the model's own files say."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.folder import read_json_object
from onebasin.errors import BadTask, one_line
from onebasin.spec import Images
from onebasin.tasks.files import about_file, check_unpacked, class_order, existing, label_ids
from onebasin.tasks.task import (
    CLASSIFICATION,
    EMBEDDINGS,
    IGNORED,
    Task,
    check_labels,
    check_one_kind,
    head_kind,
    too_few,
)

Pixels = NDArray[np.uint8]

BILINEAR = 2  # of Pillow's resampling filters, as in transformers
LARGEST = 20_000  # images where no number is asked for, at most
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}


def reads_images(checkpoint: Checkpoint) -> Images:
    """What the model reads, which must be images."""
    check_one_kind(checkpoint)
    if not isinstance(checkpoint.spec.reads, Images):
        raise BadTask(
            f"{checkpoint.spec.architecture} does not read images",
            expected="a model that reads images",
            found=type(checkpoint.spec.reads).__name__.lower(),
            next_step="give it a text task: text:FILE, labelled:FILE or builtin:python",
        )
    return checkpoint.spec.reads


def image_task(
    pictures: Sequence[Callable[[], Pixels]], labels: Sequence[int] | None, checkpoint: Checkpoint, name: str,
    about: Mapping[str, Any], samples: int | None,
) -> Task:  # fmt: skip
    """The first N images (uint8, height × width × channels), resized where needed, rescaled and normalised.

    Labels of a model without a head do not count.

    x = (pixel · rescale_factor − image_mean) / image_std, as `preprocessor_config.json` says; without one 1/255, ½, ½.
    """
    reads = reads_images(checkpoint)
    kind = head_kind(checkpoint, CLASSIFICATION, EMBEDDINGS)
    count = min(len(pictures), LARGEST) if samples is None else samples
    if count < 1 or count > len(pictures):
        raise too_few(count, len(pictures), name)
    targets = torch.full((count,), IGNORED)
    if labels is not None and kind == CLASSIFICATION:
        targets = torch.tensor(labels, dtype=torch.long)
        check_labels(targets, checkpoint, name)
    rules = _rules(checkpoint)
    pixels = torch.from_numpy(np.stack([_fitted(picture(), reads, rules) for picture in pictures[:count]]))
    x = pixels.permute(0, 3, 1, 2).float()
    if rules.get("do_rescale", True):
        x = x * float(rules.get("rescale_factor", 1 / 255))
    if rules.get("do_normalize", True):
        mean, std = (torch.tensor(rules.get(key, 0.5)).view(-1, 1, 1) for key in ("image_mean", "image_std"))
        x = (x - mean) / std
    full = {**about, "samples": count, "length": [reads.height, reads.width]}
    return Task(name, kind, {"pixel_values": x.contiguous()}, targets[:count], full)


def _rules(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the model's own file says of its images, as far as it is used here."""
    file = checkpoint.store.folder / "preprocessor_config.json"
    rules = read_json_object(file) if file.is_file() else {}
    for key in ("rescale_factor", "image_mean", "image_std", "resample"):
        if key in rules and not _is_valid(key, rules[key], reads_images(checkpoint).channels):
            step = "take the file from the original model"
            raise BadTask(f"{file.name} has no valid {key}", found=rules[key], next_step=step)
    return rules


def _is_valid(key: str, value: Any, channels: int) -> bool:
    """A filter of Pillow; or finite numbers, one or one for each channel, that can be divided by where they are."""
    if key == "resample":
        return value in range(6)
    numbers = value if isinstance(value, list) and key != "rescale_factor" else [value]
    finite = all(isinstance(x, int | float) and abs(x) < 1e30 for x in numbers)
    return finite and len(numbers) in (1, channels) and not (key == "image_std" and 0 in numbers)


def _fitted(pixels: Pixels, reads: Images, rules: Mapping[str, Any]) -> Pixels:
    """The image at the model's own size and number of channels."""
    size, channels = pixels.shape[:2], pixels.shape[2]
    if 0 in size:
        raise BadTask("An image has no pixels", expected="height × width", found=size, next_step="remove or replace it")
    if channels not in (reads.channels, 1):
        raise BadTask(
            "Images have too many channels", expected=reads.channels, found=channels, next_step="convert them"
        )
    if size != (reads.height, reads.width):
        if rules.get("do_center_crop"):
            step = "crop and resize the images to the model's size first"
            raise BadTask(
                "The model crops its images", expected=(reads.height, reads.width), found=size, next_step=step
            )
        picture = Image.fromarray(pixels if channels != 1 else pixels[:, :, 0])
        resized = picture.resize((reads.width, reads.height), Image.Resampling(rules.get("resample", BILINEAR)))
        pixels = np.asarray(resized).reshape(reads.height, reads.width, channels)
    return np.broadcast_to(pixels, (reads.height, reads.width, reads.channels))


def image_files(text: str, checkpoint: Checkpoint, *, samples: int | None, length: int | None = None) -> Task:
    """`images:FILE.npz` (arrays `images` and `labels`) or `images:FOLDER` (one subfolder per class).

    Only texts have a `length`.
    """
    path = existing(text)
    pictures, labels = _from_folder(path, checkpoint) if path.is_dir() else _from_arrays(path, checkpoint)
    return image_task(pictures, labels, checkpoint, f"images:{one_line(path.name)}", about_file(path), samples)


def _from_arrays(path: Path, checkpoint: Checkpoint) -> tuple[Sequence[Callable[[], Pixels]], Sequence[int]]:
    try:
        with zipfile.ZipFile(path) as packed:
            check_unpacked(path, sum(part.file_size for part in packed.infolist()))
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name]) for name in ("images", "labels") if name in stored}
            found = f"arrays {', '.join(stored)}"
    except BadTask:
        raise
    except Exception as error:  # whatever a reader of zip and numpy files stumbles over: there are a dozen kinds
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
    order, channels = class_order(list(found), checkpoint), reads_images(checkpoint).channels
    turns = zip_longest(*[[(file, order[name]) for file in files] for name, files in found.items()])
    pairs = [pair for pair in chain.from_iterable(turns) if pair is not None]
    return [lambda file=file: _picture(file, channels) for file, _ in pairs], [label for _, label in pairs]


def _picture(file: Path, channels: int) -> Pixels:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as picture:
                return as_pixels(picture, channels)
    except Exception as error:  # damaged in any way, or larger than any photograph
        raise BadTask(f"{file.name} is not an image", found=error, next_step="remove or replace it") from error


def as_pixels(picture: Image.Image, channels: int) -> Pixels:
    """Grey where the model reads one channel, else in colours."""
    pixels = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]

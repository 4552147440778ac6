"""Image classification, with the images prepared as the model's own files say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.folder import read_json_object
from onebasin.errors import BadTask
from onebasin.spec import Images
from onebasin.tasks.task import CLASSIFICATION, Task, check_labels, head_kind, too_few

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

BILINEAR = 2  # of Pillow's resampling filters, as in transformers
LARGEST = 20_000  # images where no number is asked for, at most


def reads_images(checkpoint: Checkpoint) -> Images:
    """What the model reads, which must be images."""
    if not isinstance(checkpoint.spec.inputs, Images):
        raise BadTask(
            f"{checkpoint.spec.architecture} does not read images",
            expected="a model that reads images",
            found=type(checkpoint.spec.inputs).__name__.lower(),
            next_step="give it a text task: text:FILE, labelled:FILE or builtin:python",
        )
    return checkpoint.spec.inputs


def image_task(
    pictures: Sequence[Callable[[], Pixels]], labels: Sequence[int], checkpoint: Checkpoint, name: str,
    about: Mapping[str, Any], samples: int | None,
) -> Task:  # fmt: skip
    """The first N images (uint8, height × width × channels), resized where needed, rescaled and normalised.

    x = (pixel · rescale_factor − image_mean) / image_std, as `preprocessor_config.json` says; without one 1/255, ½, ½.
    """
    import numpy as np
    import torch

    reads = reads_images(checkpoint)
    head_kind(checkpoint, CLASSIFICATION)
    count = min(len(pictures), LARGEST) if samples is None else samples
    if count < 1 or count > len(pictures):
        raise too_few(count, len(pictures), name)
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
    return Task(name, CLASSIFICATION, {"pixel_values": x.contiguous()}, targets[:count], full)


def _rules(checkpoint: Checkpoint) -> dict[str, Any]:
    file = checkpoint.store.folder / "preprocessor_config.json"
    return read_json_object(file) if file.is_file() else {}


def _fitted(pixels: Pixels, reads: Images, rules: Mapping[str, Any]) -> Pixels:
    """The image at the model's own size and number of channels."""
    import numpy as np

    size, channels = pixels.shape[:2], pixels.shape[2]
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
        from PIL import Image

        picture = Image.fromarray(pixels if channels != 1 else pixels[:, :, 0])
        resized = picture.resize((reads.width, reads.height), Image.Resampling(rules.get("resample", BILINEAR)))
        pixels = np.asarray(resized).reshape(reads.height, reads.width, channels)
    return np.broadcast_to(pixels, (reads.height, reads.width, reads.channels))

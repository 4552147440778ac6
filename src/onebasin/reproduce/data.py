"""The data: CIFAR-10 and texts from files, and drawn shapes and Python's own source where nothing is given.

A set of data is read once and kept as one file of tensors, from which every process takes what it needs.
"""

from __future__ import annotations

import io
import lzma
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor

from onebasin.errors import BadTask
from onebasin.tasks import CLASSIFICATION, LANGUAGE, MASKED, Task
from onebasin.tasks.builtin import SHAPES, draw
from onebasin.tasks.tokens import hide

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10, by channel
JPEG_END = b"\xff\xd9"
WINDOWS = 1000  # of a text, to be measured on
GAP = 256  # the token after all bytes: what stood here is to be told
SIDE, DRAWN = 16, {"train": 4000, "test": 500}
Tensors = dict[str, Tensor]


def needed(name: str, folder: Path | None) -> None:
    """Refuse what cannot be read, before any work."""
    files = FILES.get(name)
    if files is None:
        return
    if folder is None or not any((folder / file).exists() for file in files):
        raise BadTask(
            f"The data {name} are not there",
            expected=" or ".join(files),
            found=folder or "no --data",
            next_step="give --data FOLDER with that file; --budget tiny needs none",
        )


def prepare(name: str, folder: Path | None, file: Path) -> None:
    """Read the data and keep them in `file`, unless they are there."""
    if file.exists():
        return
    tensors = READERS[name](folder or Path())
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    save_file({key: x.contiguous() for key, x in tensors.items()}, partial)
    partial.replace(file)


def read(file: Path) -> Tensors:
    """`train.pixels`, `train.labels`, `test.pixels`, `test.labels`; or `train.ids`, `valid.ids`, `test.ids`, `gap`."""
    return load_file(file)


def asked(data: Tensors, windows: Tensor, drawn: Generator) -> tuple[Tensors, Tensor]:
    """Of windows of T + 1 tokens: tell each from those before it; or, in texts with a `gap`, what is hidden there."""
    shown, ahead = windows[..., :-1], windows[..., 1:].contiguous()
    if "gap" in data:
        shown, ahead = hide(shown, GAP, torch.rand(shown.shape, generator=drawn).to(shown.device))
    return {"input_ids": shown.contiguous()}, ahead


def normalised(pixels: Tensor) -> Tensor:
    """What a model reads of pixels from 0 to 1, (n, 3, h, w)."""
    mean, deviation = (torch.tensor(x, device=pixels.device)[:, None, None] for x in (MEAN, DEVIATION))
    return (pixels - mean) / deviation


def as_task(name: str, tensors: Tensors, split: str, length: int, samples: int | None) -> Task:
    """A split as a task: images, or windows of `length` tokens, evenly spaced; `samples` at most."""
    about = {"source": name, "split": split}
    if "train.pixels" in tensors:
        pixels, labels = (tensors[f"{split}.{part}"][:samples] for part in ("pixels", "labels"))
        return Task(f"{name}:{split}", CLASSIFICATION, {"pixel_values": normalised(pixels / 255)}, labels, about)
    ids = tensors[f"{split}.ids"].long()
    room = len(ids) - length - 1
    count = max(1, min(samples or WINDOWS, len(ids) // (length + 1)))
    windows = ids[torch.arange(count)[:, None] * (room // count) + torch.arange(length + 1)]
    inputs, labels = asked(tensors, windows, Generator().manual_seed(0))
    if "gap" in tensors:
        return Task(f"{name}:{split}", MASKED, inputs, labels, about)
    tokens = "bytes" if name in IN_BYTES else "tokenizer"
    return Task(f"{name}:{split}", LANGUAGE, inputs, labels, {**about, "tokens": tokens}, ids)


# ---- readers


def _shapes(folder: Path) -> Tensors:
    """Noisy drawings of ten shapes."""
    found: Tensors = {}
    for split, count in DRAWN.items():
        pictures = [draw(i % len(SHAPES), i, split, SIDE, SIDE, 3) for i in range(count)]
        found[f"{split}.pixels"] = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
        found[f"{split}.labels"] = torch.arange(count) % len(SHAPES)
    return found


def _python(folder: Path) -> Tensors:
    """Modules of Python's own library, as bytes."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"".join(file.read_bytes() for file in files if not file.name.startswith("_sysconfigdata"))
    return _split(torch.frombuffer(bytearray(text), dtype=torch.uint8))


def _cifar10(folder: Path) -> Tensors:
    """`cifar10_train.npz` and `cifar10_test.npz` (images, labels), or all as JPEG scans in one file."""
    from PIL import Image

    found: Tensors = {}
    if (folder / "cifar10_train.npz").exists():
        for split in ("train", "test"):
            with np.load(folder / f"cifar10_{split}.npz", allow_pickle=False) as arrays:
                found[f"{split}.pixels"] = torch.from_numpy(arrays["images"]).permute(0, 3, 1, 2)
                found[f"{split}.labels"] = torch.from_numpy(arrays["labels"].astype(np.int64))
        return found
    with np.load(folder / "cifar10_jpeg.npz", allow_pickle=False) as arrays:
        header, scans = arrays["header"].tobytes(), arrays["scans"].tobytes()
        ends, labels = np.cumsum(arrays["lengths"].astype(np.int64)), arrays["labels"].astype(np.int64)
        train = int(arrays["num_train"])
    starts = [0, *ends[:-1].tolist()]
    files = (io.BytesIO(header + scans[a:b] + JPEG_END) for a, b in zip(starts, ends.tolist(), strict=True))
    pixels = torch.from_numpy(np.stack([np.asarray(Image.open(x, formats=("JPEG",))) for x in files]))
    for split, part in (("train", slice(train)), ("test", slice(train, None))):
        found[f"{split}.pixels"] = pixels[part].permute(0, 3, 1, 2)
        found[f"{split}.labels"] = torch.from_numpy(labels[part])
    return found


def _text(folder: Path, name: str) -> str:
    packed, plain = folder / f"{name}.txt.xz", folder / f"{name}.txt"
    return lzma.decompress(packed.read_bytes()).decode() if packed.exists() else plain.read_text(encoding="utf-8")


def _shakespeare(folder: Path) -> Tensors:
    """Tokens of GPT-2, in three parts: 90, 5 and 5 %."""
    from transformers import AutoTokenizer

    own = folder / "tokenizers" / "gpt2"
    tokenizer = AutoTokenizer.from_pretrained(own if own.is_dir() else "gpt2")
    ids = tokenizer(_text(folder, "tiny_shakespeare"), add_special_tokens=False, verbose=False)["input_ids"]
    return _split(torch.tensor(ids, dtype=torch.int32))


def _wikitext2(folder: Path) -> Tensors:
    """UTF-8 bytes of the raw text."""
    return {
        f"{split}.ids": torch.frombuffer(bytearray(_text(folder / "wikitext-2", split).encode()), dtype=torch.uint8)
        for split in ("train", "valid", "test")
    }


def _split(ids: Tensor) -> Tensors:
    first, second = len(ids) * 90 // 100, len(ids) * 95 // 100
    return {"train.ids": ids[:first], "valid.ids": ids[first:second], "test.ids": ids[second:]}


def _with_gaps(text: Callable[[Path], Tensors], folder: Path) -> Tensors:
    """The same bytes, to be filled in."""
    return {**text(folder), "gap": torch.tensor(GAP)}


READERS: dict[str, Callable[[Path], Tensors]] = {
    "shapes": _shapes, "python": _python, "cifar10": _cifar10, "tiny-shakespeare": _shakespeare,
    "wikitext2": _wikitext2, "python-gaps": partial(_with_gaps, _python),
    "wikitext2-gaps": partial(_with_gaps, _wikitext2),
}  # fmt: skip
FILES = {
    "cifar10": ("cifar10_jpeg.npz", "cifar10_train.npz"),
    "tiny-shakespeare": ("tiny_shakespeare.txt.xz", "tiny_shakespeare.txt"),
    "wikitext2": ("wikitext-2/train.txt.xz", "wikitext-2/train.txt"),
}
FILES["wikitext2-gaps"] = FILES["wikitext2"]
IN_BYTES = ("python", "wikitext2")

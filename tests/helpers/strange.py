"""What nobody types on purpose: commands that meet something strange, with what each must say.

The page docs/strange-input.md is made of these tables, by the test that runs every command.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from helpers.folders import edit_config, edit_weights
from helpers.random_models import config_of, random_model, rope
from helpers.task_files import pixels
from onebasin.ensemble import memory
from onebasin.tasks import files


def nothing(place: Path) -> None:
    """Everything is there already."""


@dataclass(frozen=True)
class Strange:
    """`make` puts what is strange into the folder of the models; `patch` is what this machine is made to be like.

    A and B are Llamas, V is a Vision Transformer, T a BERT that names two classes.
    """

    what: str
    line: str | tuple[str, ...]
    says: str
    make: Callable[[Path], object] = nothing
    code: int = 2
    patch: tuple[Any, str, Any] | None = None
    own_words: bool = True  # what was found is said by onebasin, and not by Python or transformers, which change

    @property
    def words(self) -> tuple[str, ...]:
        """The command line."""
        return tuple(self.line.split()) if isinstance(self.line, str) else self.line


# ---- recipes


def tower(last: str) -> str:
    """A recipe of 360 bytes that stands for 10⁹ words."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{y}: &{y} [{','.join([f'*{x}'] * 9)}]" for x, y in zip("abcdefgh", "bcdefghi", strict=True)]
    return "\n".join([*lines, last, ""])


RECIPE = "onebasin: 2\nverb: align\nmodels: [A, B]\n"


def recipe(what: str, text: str, says: str, *, own_words: bool = True) -> Strange:
    def make(place: Path) -> None:
        (place / "recipe.yaml").write_text(text)

    return Strange(what, "run recipe.yaml", says, make, own_words=own_words)


RECIPES = [
    recipe("aliases that stand for 10⁹ words, in 360 bytes", tower("models: *i"), "stands for another part"),
    recipe("600 brackets", "[" * 600, "nested too deeply"),
    recipe("600 sections inside each other", "{a: " * 600 + "1" + "}" * 600, "nested too deeply"),
    recipe("a date that does not exist", RECIPE + "method: 2024-13-45\n", "month must be in 1..12",
           own_words=False),
    recipe("a number of 5,000 digits", RECIPE + f"weight: {{sweeps: {'9' * 5000}}}\n", "4300 digits", own_words=False),
    recipe("a key that is no text", RECIPE + "? [a, b]\n: 1\n", "a key that is no text"),
    recipe("a zero byte in the name of a model",
           'onebasin: 2\nverb: align\nmodels: [A, "a\\0b"]\nmethod: weight\n', "a zero byte"),
    recipe("a zero byte in the name of the output",
           RECIPE + 'method: weight\nwrite: {out: "a\\0b"}\n', "a zero byte"),
    recipe("half a character", RECIPE + 'method: weight\nwrite: {out: "a\\ud800"}\n', "cannot be the name"),
]  # fmt: skip


# ---- words of a command

LONG = "x" * 5000
ALIGN = "align A B -o O --method weight"
LEARN = "align A B -o O --method learned --task synthetic"
COMMANDS = [
    Strange("not a number", "merge A B -o O --share nan --method weight", "share is out of range"),
    Strange("brackets", f"{ALIGN} --set weight.sweeps={'[' * 600}", "no valid YAML"),
    Strange("400 digits", f"{ALIGN} --set weight.tol={'9' * 400}", "at most 18 digits"),
    Strange("400 digits of a count", f"{ALIGN} --set weight.sweeps={'9' * 400}", "at most 18 digits"),
    Strange("400 digits of a share", f"merge A B -o O --set share={'9' * 400}", "at most 18 digits"),
    Strange("400 digits of a size", f"widen A -o O --set hidden_size={'9' * 400}", "--set needs a number"),
    Strange("a rate of learning", f"{LEARN} --set learned.lr=1e300", "learned.lr is out of range"),
    Strange("a seed of learning", f"{LEARN} --set learned.seed={2**40}", "learned.seed is out of range"),
    Strange("a seed beyond 64 bits", f"verify A --seed {2**64}", "Invalid value for '--seed'"),
    Strange("10¹² points", f"barrier A B --task synthetic --points {10**12}", "points is out of range"),
    Strange("10¹⁵ samples", f"barrier V V --task synthetic --samples {10**15}", "cannot give that many"),
    Strange("10¹⁵ pictures", f"barrier V V --task builtin:shapes --samples {10**15}", "cannot give that many"),
    Strange("a zero byte", "inspect a\0b", "a zero byte"),
    Strange("a zero byte in data", "barrier A B --task text:a\0b", "a zero byte"),
    Strange("5,000 characters", f"inspect {LONG}", "5,000 bytes"),
    Strange("5,000 characters of data", f"barrier A B --task text:{LONG}", "5,000 bytes"),
    Strange("250 characters of an output", f"align A B -o {'y' * 250} --method weight", "250 bytes"),
    Strange("5,000 characters of a recipe", f"run {LONG}", "5,000 bytes"),
    Strange("the home of nobody", "inspect ~nobody-of-that-name/x", "cannot be the name", own_words=False),
    Strange("shards below nothing", f"{ALIGN} --max-shard-size=-5GB", "no shard size"),
    Strange("shards of nothing", f"{ALIGN} --max-shard-size=0.0GB", "no shard size"),
    Strange("endless shards", f"{ALIGN} --max-shard-size=1e400GB", "no shard size"),
]


# ---- folders of models


def integers(folder: Path) -> None:
    edit_weights(folder, lambda t: t.update({"lm_head.weight": t["lm_head.weight"].to(torch.int32)}))


def deep_index(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text("[" * 100_000)


def deep_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"a":' * 100_000)


def nested(levels: int) -> dict:
    return {"a": nested(levels - 1)} if levels else {}


def model(what: str, change: Callable[[Path], object], says: str) -> Strange:
    return Strange(what, "verify A", says, lambda place: change(place / "A"), own_words=False)


def setting(what: str, says: str, **changes: object) -> Strange:
    return model(what, lambda folder: edit_config(folder, **changes), says)


MODELS = [
    model("100,000 levels in config.json", deep_config, "not valid JSON"),
    setting("101 levels in config.json", "nested too deeply", more=nested(99)),
    model("100,000 levels in the index of shards", deep_index, "not valid JSON"),
    setting("2,000 layers over a file of one", "num_hidden_layers that the file cannot hold", num_hidden_layers=2000),
    setting("10⁹ layers", "num_hidden_layers that the file cannot hold", num_hidden_layers=10**9),
    setting("10¹² classes", "num_labels that the file cannot hold", num_labels=10**12),
    model("weights that are whole numbers", integers, "floating-point weights"),
    setting("an activation that does not exist", "cannot make a LlamaForCausalLM of config.json", hidden_act="nosuch"),
    setting("eps that is not a number", "rms_norm_eps that is not finite", rms_norm_eps=float("nan")),
    setting("eps below zero", "no valid eps", rms_norm_eps=-1.0),
    setting("a width of 400 digits", "not a valid llama configuration", hidden_size=10**400),
]


# ---- data


def broken_gz(file: Path) -> None:
    packed = bytearray(gzip.compress(b"the cat sat on the mat. " * 40))
    packed[20] ^= 0xFF
    file.write_bytes(packed)


def exploding_npz(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("images.npy", bytes(10**6))
        packed.writestr("labels.npy", b"")


def zipped_junk(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("images.npy", b"junk")
        packed.writestr("labels.npy", b"")


def png(width: int, height: int) -> bytes:
    """A picture that claims a size and holds nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def pictures(folder: Path, odd: bytes) -> None:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        Image.fromarray(pixels(1)[0]).save(folder / name / "1.png")
    (folder / "cat" / "1.png").write_bytes(odd)


def rows(*labels: str) -> Callable[[Path], object]:
    return lambda file: file.write_text("\n".join(["text,label", *(f"good film,{label}" for label in labels)]))


def lines(*entries: str) -> Callable[[Path], object]:
    return lambda file: file.write_text("\n".join(entries))


def data(what: str, line: str, make: Callable[[Path], object], says: str, *, own_words: bool = True) -> Strange:
    """`line` has the two models and the task; the file of the task is made."""
    task = line.split()[2]
    room = (files, "ROOM", 10**5)  # to unpack a file in, so that an exploding one can be small here
    return Strange(
        what, f"barrier {line.replace(task, f'--task {task}')}", says,
        lambda place: make(place / task.partition(":")[2]), patch=room, own_words=own_words,
    )  # fmt: skip


def arrays(images: np.ndarray, labels: np.ndarray) -> Callable[[Path], object]:
    return lambda file: np.savez(file, images=images, labels=labels)


DATA = [
    data("a broken .gz", "A B text:t.txt.gz", broken_gz, "invalid", own_words=False),
    data("a .gz that explodes", "A B text:t.txt.gz", lambda f: f.write_bytes(gzip.compress(bytes(10**6))), "far more",
         own_words=False),
    data("an .npz of no bytes", "V V images:t.npz", lambda f: f.write_bytes(b""), "not hold labelled images"),
    data("an .npz of junk", "V V images:t.npz", zipped_junk, "not hold labelled images"),
    data("an .npz that explodes", "V V images:t.npz", exploding_npz, "far more than it is", own_words=False),
    data("images of no size", "V V images:t.npz",
         arrays(np.zeros((2, 0, 0, 3), np.uint8), np.arange(2)), "no pixels"),
    data("labels of 64 bits", "V V images:t.npz",
         arrays(pixels(2), np.array([2**63, 0], np.uint64)), "of mixed kinds"),
    data("a PNG that explodes", "V V images:t", lambda f: pictures(f, png(50_000, 50_000)), "1.png is not an image"),
    data("a PNG of 10⁸ pixels", "V V images:t", lambda f: pictures(f, png(10_000, 10_000)), "1.png is not an image"),
    data("a broken PNG", "V V images:t", lambda f: pictures(f, png(8, 8)[:40]), "1.png is not an image"),
    data("the label ²", "T T labelled:t.csv", rows("²", "1"), "of mixed kinds"),
    data("the class ², before its text", "T T labelled:t.csv", lines("²,good film", "1,bad film"), "labelled texts"),
    data("the label --5", "T T labelled:t.csv", rows("--5", "1"), "of mixed kinds"),
    data("the label 0.5", "T T labelled:t.csv", rows("0.5", "1"), "found: 0.5"),
    data("a label of 5,000 digits", "T T labelled:t.csv", rows("9" * 5000, "1"), "5,000 characters"),
    data("a label of 18 digits", "T T labelled:t.csv", rows("9" * 18, "1"), "do not fit the head"),
    data("a label of 200,000 characters", "T T labelled:t.csv", rows("x" * 200_000, "1"), ""),
    data("half a character", "T T labelled:t.jsonl", lines('{"text": "\\ud800", "label": 0}'), "line 1"),
    data("100,000 levels in a line", "T T labelled:t.jsonl", lines('{"text":' + "[" * 100_000), "line 1"),
    data("a label without end", "T T labelled:t.jsonl", lines('{"text": "a", "label": 1e400}'), "found: inf"),
]  # fmt: skip


# ---- two models that are given other things


Files = dict[str, object]


def beside(what: str, kind: str, one: Files, two: Files, says: str) -> Strange:
    """Two copies of a model, each with files of its own beside it."""

    def make(place: Path) -> None:
        shutil.copytree(place / kind, place / "copy")
        for name, own in zip("AB", (one, two), strict=True):
            shutil.rmtree(place / name)
            shutil.copytree(place / "copy", place / name)
            for file, content in own.items():
                if file == "config.json":
                    edit_config(place / name, **content)
                else:
                    text = content if isinstance(content, str) else json.dumps(content)
                    (place / name / file).write_text(text)

    return Strange(what, "inspect A B", f"blocks: {says}", make, code=1)


def added(word: str) -> Files:
    decoder = {"2": {"content": word}}
    return {"vocab.json": {"a": 0, "b": 1}, "tokenizer_config.json": {"added_tokens_decoder": decoder}}


def pictures_read(**settings: object) -> Files:
    return {"preprocessor_config.json": settings}


def rotary(length: int) -> Files:
    return {"config.json": {**rope(100.0, rope_type="dynamic", factor=2.0), "max_position_embeddings": length}}


PAIRS = [
    *(
        beside(f"another {name}", "A", {name: "tokens"}, {name: "other tokens"}, f"tokenizer file {name}")
        for name in ("tokenizer.model", "spiece.model", "qwen.tiktoken")
    ),
    beside("another added token", "A", added("<end>"), added("<stop>"), "list of tokens"),
    beside("a token that looks like markup", "A", {"vocab.json": {"[/INST]": 0, "b": 1}},
           {"vocab.json": {"b": 0, "[INST]": 1}}, "list of tokens: A has 2, here alone '[/INST]' (0)"),
    beside("a decoder and an encoder", "T", {}, {"config.json": {"is_decoder": True}}, "is_decoder"),
    beside("dynamic positions of another length", "A", rotary(12), rotary(64), "rope"),
    beside("images that are resized, or not", "V", pictures_read(do_resize=True), pictures_read(do_resize=False),
           "preprocessing: do_resize"),
    beside("images that are cropped, or not", "V", pictures_read(do_center_crop=True),
           pictures_read(do_center_crop=False), "preprocessing: do_center_crop"),
    beside("colours in another order", "V", pictures_read(do_flip_channel_order=True),
           pictures_read(do_flip_channel_order=False), "preprocessing: do_flip_channel_order"),
    beside("the same in processor_config.json", "V",
           {"processor_config.json": {"image_processor": {"do_resize": True}}},
           {"processor_config.json": {"image_processor": {"do_resize": False}}}, "preprocessing: do_resize"),
]  # fmt: skip


# ---- outputs, and promises that would be broken


def thesis(place: Path) -> None:
    (place / "O.state").mkdir()
    (place / "O.state" / "thesis.txt").write_text("years of work")


WRITERS = "embed_tokens|o_proj|down_proj"


def faint(place: Path) -> None:
    """A and B have streams in other units, which their norms take out again: too small for float16."""
    for name in "AB":
        edit_config(place / name, rms_norm_eps=1e-30)
        edit_weights(place / name, lambda tensors: [t.mul_(1e-8) for x, t in tensors.items() if re.search(WRITERS, x)])


def boundless(place: Path) -> None:
    """The head makes outputs that no number holds."""
    edit_weights(place / "A", lambda t: t.update({"lm_head.weight": 1e308 * t["lm_head.weight"].double()}))


OUTPUTS = [
    Strange("a folder O.state that is not onebasin's", ALIGN, "is no state of this version", thesis),
    Strange("the same, with --resume", f"{ALIGN} --resume", "is no state of this version", thesis),
    Strange("an empty mount point", ALIGN, "is a mount point", lambda place: (place / "O").mkdir(),
            patch=(Path, "is_mount", lambda path: path.name == "O")),
    Strange("more memory than there is", "merge A B -o O --dry-run --method weight", "GB of memory",
            patch=(memory, "memory_here", lambda: 10**6)),
    Strange("the same, asked of inspect", "inspect A B", "GB of memory", code=1,
            patch=(memory, "memory_here", lambda: 10**6)),
    Strange("numbers too small for the dtype", f"{ALIGN} --dtype float16", "The file would not hold the model", faint,
            code=1),
    Strange("outputs that are not finite", "verify A --quiet", "float64 drift not finite", boundless, code=1),
]  # fmt: skip


# ---- what looks strange and is right


def zero(name: str) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        for folder in "AB":
            edit_weights(place / folder, lambda tensors: [t.zero_() for x, t in tensors.items() if name in x])

    return make


def half_of_the_values(place: Path) -> None:
    """As a file of half precision: values of every other direction in each head of B are zero."""
    for folder in "AB":
        edit_weights(place / folder, lambda tensors: tensors.update({x: t.bfloat16() for x, t in tensors.items()}))
    edit_weights(place / "B", lambda tensors: [t[1::2].zero_() for x, t in tensors.items() if "v_proj" in x])


def of_class(name: str) -> Callable[[Path], None]:
    """A and B become two BERTs of one class, without their poolers."""

    def make(place: Path) -> None:
        for seed, folder in enumerate("AB"):
            shutil.rmtree(place / folder)
            random_model(name, config_of("bert", 3), seed).save_pretrained(place / folder)
            edit_weights(place / folder, lambda tensors: [tensors.pop(x) for x in list(tensors) if "pooler" in x])

    return make


def long_text(place: Path) -> None:
    (place / "t.csv").write_text("text,label\n" + "good " * 30_000 + ",+1\nbad,0\n")


def numbered(place: Path) -> None:
    """The classes of the model are called by numbers."""
    edit_config(place / "T", id2label={"0": "0.5", "1": "1.5"}, label2id={"0.5": 0, "1.5": 1})
    (place / "t.csv").write_text("text,label\ngood,1.5\nbad,0.5\n")


SYNTHETIC = "barrier A B --task synthetic --samples 2 --length 4 --points 2 --quiet"
RIGHT = [
    Strange("heads with half of their values zero", f"{ALIGN} --quiet", "written to O", half_of_the_values, code=0),
    Strange("gains that are all zero", f"{ALIGN} --quiet", "written to O", zero("norm"), code=0),
    Strange("weights that are all zero", f"{ALIGN} --quiet", "written to O", zero(""), code=0),
    Strange("two models without poolers", f"{ALIGN} --quiet", "written to O", of_class("BertModel"), code=0),
    Strange("outputs as a tuple", "verify A --quiet", "promise holds",
            lambda place: edit_config(place / "A", return_dict=False), code=0),
    Strange("100 levels in config.json", "inspect A", "group dimension 702",
            lambda place: edit_config(place / "A", more=nested(98)), code=0),
    Strange("a text of 150,000 characters, and the label +1", "barrier T T --task labelled:t.csv --dry-run",
            "all checks passed", long_text, code=0),
    Strange("the labels 0.5 and 1.5, where classes are called so", "barrier T T --task labelled:t.csv --dry-run",
            "all checks passed", numbered, code=0),
    *(
        Strange(f"{name} without data", SYNTHETIC, "synthetic, 2 samples", of_class(name), code=0)
        for name in ("BertForMaskedLM", "BertForTokenClassification", "BertModel")
    ),
]  # fmt: skip


SECTIONS = {
    "Recipes": RECIPES,
    "Words of a command": COMMANDS,
    "Models": MODELS,
    "Pairs that are given other things": PAIRS,
    "Data": DATA,
    "Outputs and promises": OUTPUTS,
    "What looks strange and is right": RIGHT,
}

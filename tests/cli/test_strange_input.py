"""What nobody types on purpose: each is refused with a next step, and never ends in a traceback or a wait."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.folders import edit_config, edit_weights
from helpers.task_files import bert, pixels, vit
from onebasin.cli import app
from onebasin.tasks import files


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> Path:
    """A model of images and one of texts."""
    root = tmp_path_factory.mktemp("originals")
    vit(root / "V")
    bert(root / "T")
    return root


@pytest.fixture
def place(pristine, originals, tmp_path, monkeypatch) -> Path:
    """A folder with two Llamas A and B, a ViT V and a BERT T."""
    for source, name in ((pristine / "a", "A"), (pristine / "b", "B"), (originals / "V", "V"), (originals / "T", "T")):
        shutil.copytree(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(cli, place) -> Callable[..., str]:
    """What a command says that ends with exit code 2, a next step, and nothing written."""

    def call(*words: str) -> str:
        before = sorted(place.rglob("*"))
        code, out, err = cli(*words)
        assert (code, out) == (2, ""), err
        assert err.startswith("onebasin: ")
        assert err.rstrip().splitlines()[-1].startswith("  next step: ")
        assert sorted(place.rglob("*")) == before
        return err

    return call


def tower(last: str) -> str:
    """A recipe of 360 bytes that stands for 10⁹ words."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{y}: &{y} [{','.join([f'*{x}'] * 9)}]" for x, y in zip("abcdefgh", "bcdefghi", strict=True)]
    return "\n".join([*lines, last, ""])


RECIPE = "onebasin: 2\nverb: align\nmodels: [A, B]\n"
RECIPES = {
    "aliases": (tower("models: *i"), "stands for another part"),
    "nesting": ("[" * 600, "not valid YAML"),
    "nested sections": ("{a: " * 600 + "1" + "}" * 600, "not valid YAML"),
    "date": (RECIPE + "method: 2024-13-45\n", "month must be in 1..12"),
    "digits": (RECIPE + f"weight: {{sweeps: {'9' * 5000}}}\n", "4300 digits"),
    "a key that is no text": (RECIPE + "? [a, b]\n: 1\n", "a key that is no text"),
    "zero byte in a model": ('onebasin: 2\nverb: align\nmodels: [A, "a\\0b"]\nmethod: weight\n', "a zero byte"),
    "zero byte in an output": (RECIPE + 'method: weight\nwrite: {out: "a\\0b"}\n', "a zero byte"),
    "half a character": (RECIPE + 'method: weight\nwrite: {out: "a\\ud800"}\n', "cannot be the name"),
}


@pytest.mark.parametrize(("text", "says"), RECIPES.values(), ids=RECIPES)
def test_recipes(refused, place, text, says):
    (place / "recipe.yaml").write_text(text)
    assert says in refused("run", "recipe.yaml")


LONG = "x" * 5000
LEARN = ("align", "A", "B", "-o", "O", "--method", "learned", "--task", "synthetic")
ALIGN = ("align", "A", "B", "-o", "O", "--method", "weight")
COMMANDS = {
    "nesting": ((*ALIGN, "--set", "weight.sweeps=" + "[" * 600), "no valid YAML"),
    "400 digits": ((*ALIGN, "--set", "weight.tol=" + "9" * 400), "at most 18 digits"),
    "400 digits of a count": ((*ALIGN, "--set", "weight.sweeps=" + "9" * 400), "at most 18 digits"),
    "400 digits of a share": (("merge", "A", "B", "-o", "O", "--set", "share=" + "9" * 400), "at most 18 digits"),
    "400 digits of a size": (("widen", "A", "-o", "O", "--set", "hidden_size=" + "9" * 400), "--set needs a number"),
    "learning rate": ((*LEARN, "--set", "learned.lr=1e300"), "learned.lr is out of range"),
    "seed of learning": ((*LEARN, "--set", f"learned.seed={2**40}"), "learned.seed is out of range"),
    "seed": (("verify", "A", "--seed", str(2**64)), "Invalid value for '--seed'"),
    "points": (("barrier", "A", "B", "--task", "synthetic", "--points", str(10**12)), "points is out of range"),
    "samples": (("barrier", "V", "V", "--task", "synthetic", "--samples", str(10**15)), "cannot give that many"),
    "drawn": (("barrier", "V", "V", "--task", "builtin:shapes", "--samples", str(10**15)), "cannot give that many"),
    "zero byte": (("inspect", "a\0b"), "a zero byte"),
    "zero byte in data": (("barrier", "A", "B", "--task", "text:a\0b"), "a zero byte"),
    "long model": (("inspect", LONG), "5,000 bytes"),
    "long data": (("barrier", "A", "B", "--task", f"text:{LONG}"), "5,000 bytes"),
    "long output": (("align", "A", "B", "-o", "y" * 250, "--method", "weight"), "250 bytes"),
    "long recipe": (("run", LONG), "5,000 bytes"),
    "home of nobody": (("inspect", "~nobody-of-that-name/x"), "cannot be the name"),
    "negative shards": ((*ALIGN, "--max-shard-size=-5GB"), "no shard size"),
    "empty shards": ((*ALIGN, "--max-shard-size=0.0GB"), "no shard size"),
    "endless shards": ((*ALIGN, "--max-shard-size=1e400GB"), "no shard size"),
}


@pytest.mark.parametrize(("words", "says"), COMMANDS.values(), ids=COMMANDS)
def test_words_of_a_command(refused, words, says):
    assert says in refused(*words)


def integers(folder: Path) -> None:
    edit_weights(folder, lambda t: t.update({"lm_head.weight": t["lm_head.weight"].to(torch.int32)}))


def deep_index(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text("[" * 100_000)


def nested(levels: int) -> dict:
    return {"a": nested(levels - 1)} if levels else {}


MODELS = {
    "deep configuration": (lambda f: (f / "config.json").write_text('{"a":' * 100_000), "not valid JSON"),
    "configuration of 101 levels": (lambda f: edit_config(f, more=nested(99)), "nested too deeply"),
    "deep index": (deep_index, "not valid JSON"),
    "2000 layers": (lambda f: edit_config(f, num_hidden_layers=2000), "num_hidden_layers that the file cannot hold"),
    "10⁹ layers": (lambda f: edit_config(f, num_hidden_layers=10**9), "num_hidden_layers that the file cannot hold"),
    "10¹² classes": (lambda f: edit_config(f, num_labels=10**12), "num_labels that the file cannot hold"),
    "integer weights": (integers, "floating-point weights"),
    "activation": (
        lambda f: edit_config(f, hidden_act="nosuch"),
        "transformers cannot make a LlamaForCausalLM of config.json",
    ),
    "dropout": (lambda f: edit_config(f, attention_dropout="much"), "attention_dropout"),
    "eps": (lambda f: edit_config(f, rms_norm_eps=float("nan")), "rms_norm_eps that is not finite"),
    "negative eps": (lambda f: edit_config(f, rms_norm_eps=-1.0), "no valid eps"),
    "400 digits": (lambda f: edit_config(f, hidden_size=10**400), "not a valid llama configuration"),
}


@pytest.mark.parametrize(("change", "says"), MODELS.values(), ids=MODELS)
def test_models(refused, place, change, says):
    change(place / "A")
    assert says in refused("verify", "A", "--quiet")


def test_a_nesting_that_is_allowed(cli, place):
    """The control: as many levels as a configuration may have."""
    edit_config(place / "A", more=nested(98))
    assert cli("inspect", "A")[0] == 0


def test_outputs_as_a_tuple_are_no_matter(cli, place):
    edit_config(place / "A", return_dict=False, output_hidden_states=True)
    assert cli("verify", "A", "--quiet")[0] == 0


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


DATA = {  # models, task, how its file is made, what is said
    "broken gz": ("A B text:t.txt.gz", broken_gz, "invalid"),
    "exploding gz": ("A B text:t.txt.gz", lambda f: f.write_bytes(gzip.compress(bytes(10**6))), "far more than it is"),
    "empty npz": ("V V images:t.npz", lambda f: f.write_bytes(b""), "not hold labelled images"),
    "npz of junk": ("V V images:t.npz", zipped_junk, "not hold labelled images"),
    "exploding npz": ("V V images:t.npz", exploding_npz, "far more than it is"),
    "images of no size": (
        "V V images:t.npz",
        lambda f: np.savez(f, images=np.zeros((2, 0, 0, 3), np.uint8), labels=np.arange(2)),
        "no pixels",
    ),
    "labels of 64 bits": (
        "V V images:t.npz",
        lambda f: np.savez(f, images=pixels(2), labels=np.array([2**63, 0], np.uint64)),
        "of mixed kinds",
    ),
    "exploding PNG": ("V V images:t", lambda f: pictures(f, png(50_000, 50_000)), "1.png is not an image"),
    "large PNG": ("V V images:t", lambda f: pictures(f, png(10_000, 10_000)), "1.png is not an image"),
    "broken PNG": ("V V images:t", lambda f: pictures(f, png(8, 8)[:40]), "1.png is not an image"),
    "square": ("T T labelled:t.csv", rows("²", "1"), "of mixed kinds"),
    "class from a square": ("T T labelled:t.csv", lines("²,good film", "1,bad film"), "not hold labelled texts"),
    "two signs": ("T T labelled:t.csv", rows("--5", "1"), "of mixed kinds"),
    "half": ("T T labelled:t.csv", rows("0.5", "1"), "found: 0.5"),
    "digits": ("T T labelled:t.csv", rows("9" * 5000, "1"), "5,000 characters"),
    "18 digits": ("T T labelled:t.csv", rows("9" * 18, "1"), "do not fit the head"),
    "half a character": ("T T labelled:t.jsonl", lines('{"text": "\\ud800", "label": 0}'), "line 1"),
    "nesting": ("T T labelled:t.jsonl", lines('{"text":' + "[" * 100_000), "line 1"),
    "infinity": ("T T labelled:t.jsonl", lines('{"text": "a", "label": 1e400}'), "found: inf"),
}


@pytest.mark.parametrize(("line", "make", "says"), DATA.values(), ids=DATA)
def test_data(refused, place, monkeypatch, line, make, says):
    monkeypatch.setattr(files, "ROOM", 10**5)
    a, b, task = line.split()
    make(place / task.partition(":")[2])
    assert says in refused("barrier", a, b, "--task", task)


def test_what_looks_strange_and_is_right(cli, place):
    """The control: a long text, a signed number, a class whose name in the model is a number."""
    (place / "t.csv").write_text("text,label\n" + "good " * 30_000 + ",+1\nbad,0\n")
    assert cli("barrier", "T", "T", "--task", "labelled:t.csv", "--dry-run")[0] == 0
    edit_config(place / "T", id2label={"0": "0.5", "1": "1.5"}, label2id={"0.5": 0, "1.5": 1})
    (place / "t.csv").write_text("text,label\ngood,1.5\nbad,0.5\n")
    assert cli("barrier", "T", "T", "--task", "labelled:t.csv", "--dry-run")[0] == 0


def test_preprocessing_that_is_none(refused, place):
    for rules in ({"image_mean": ["a"]}, {"image_std": 0}, {"rescale_factor": [1, 2]}, {"resample": 99}):
        (place / "V" / "preprocessor_config.json").write_text(json.dumps(rules))
        assert f"no valid {next(iter(rules))}" in refused("barrier", "V", "V", "--task", "builtin:shapes")


def stumbling(error: Exception) -> Callable[..., None]:
    def look(*models: object) -> None:
        raise error

    return look


def test_a_bug_is_called_one_and_has_its_own_exit_code(cli, place, monkeypatch):
    for error in (KeyError("odd"), EOFError(), RecursionError()):
        with monkeypatch.context() as change:
            change.setattr("onebasin.ensemble.inspection.inspect", stumbling(error))
            code, out, err = cli("inspect", "A")
        assert (code, out) == (app.BUG, "")
        assert "Traceback" in err
        assert "This is a bug in onebasin" in err
        assert "please report it" in err


def test_memory_that_is_used_up_is_no_bug(refused, monkeypatch):
    monkeypatch.setattr("onebasin.ensemble.inspection.inspect", stumbling(MemoryError()))
    assert "memory of this machine is used up" in refused("inspect", "A")

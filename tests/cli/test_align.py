"""`onebasin align` and `onebasin merge`: what stops them, before and while they work, and what they tell on the way."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import transformers
from rich.console import Console
from safetensors.torch import load_file, save_file

import onebasin
from helpers.random_models import byte_llama, config_of, random_model, rope
from onebasin import Checkpoint
from onebasin.cli import output

SLOW = {  # a sweep takes long enough to be seen and interrupted
    "hidden_size": 192, "num_attention_heads": 6, "num_key_value_heads": 6, "head_dim": 32, "intermediate_size": 512,
    "num_hidden_layers": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a"), byte_llama(root / "b", 1)


def vit(folder: Path, weights: int = 0, **settings: object) -> Path:
    config = config_of("vit", 3)
    config.update({"num_labels": 3, **settings})
    random_model("ViTForImageClassification", config, weights).save_pretrained(folder)
    return folder


def written(folder: Path, **files: object) -> Path:
    """A folder with JSON files added to it."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def labelled(folder: Path, *names: str) -> Path:
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(i): name for i, name in enumerate(names)}
    config["label2id"] = {name: i for i, name in enumerate(names)}
    return written(folder, config=config)


def tokens(*words: str, added: str = "<end>") -> dict[str, object]:
    vocabulary = {word: i for i, word in enumerate(words)}
    return {"model": {"vocab": vocabulary}, "added_tokens": [{"content": added, "id": len(words)}]}


def two_llamas(folder: Path, **settings: object) -> tuple[Path, Path]:
    return byte_llama(folder / "a"), byte_llama(folder / "b", 1, **settings)


def two_vits(folder: Path, **settings: object) -> tuple[Path, Path]:
    return vit(folder / "a"), vit(folder / "b", 1, **settings)


def with_tokens(folder: Path, first: object, second: object) -> tuple[Path, Path]:
    a, b = two_llamas(folder)
    return written(a, tokenizer=first), written(b, tokenizer=second)


def with_labels(folder: Path) -> tuple[Path, Path]:
    a, b = two_vits(folder)
    return labelled(a, "cat", "dog", "owl"), labelled(b, "dog", "cat", "fox")


def with_pixels(folder: Path) -> tuple[Path, Path]:
    a, b = two_vits(folder)
    return written(a, preprocessor_config={"image_std": [0.5]}), written(b, preprocessor_config={"image_std": [0.2]})


YARN = rope(77.0, rope_type="yarn", factor=2.0, original_max_position_embeddings=16)
STRANGERS = {  # name -> (how the two folders are made, what the one message must say)
    "tokens": (
        lambda t: with_tokens(t, tokens("the", "cat", "sat"), tokens("the", "sat", "dog")),
        [
            "list of tokens differs",
            "expected: 4, here alone 'cat' (1) (A)",
            "here alone 'dog' (2) (B)",
            "one tokenizer",
        ],
    ),
    "added token": (
        lambda t: with_tokens(t, tokens("the", "cat"), tokens("the", "cat", added="<stop>")),
        ["list of tokens differs", "expected: 3, here alone '<end>' (2) (A)"],
    ),
    "damaged tokenizer": (
        lambda t: with_tokens(t, tokens("the"), {"model": ["vocab"]}),
        ["The tokenizer of", "cannot be read"],
    ),
    "size of the vocabulary": (lambda t: two_llamas(t, vocab_size=300), ["length of a labelled axis", "vocabulary"]),
    "id2label": (with_labels, ["list of classes differs", "here alone 'owl' (2) (A)", "here alone 'fox' (2) (B)"]),
    "preprocessing": (with_pixels, ["preprocessing: image_std differs", "[0.5] (A)", "[0.2] (B)"]),
    "depth": (lambda t: two_llamas(t, num_hidden_layers=2), ["number of layers differs", "1 (A)", "2 (B)"]),
    "activation": (lambda t: two_vits(t, hidden_act="relu"), ["operations on", "different things"]),
    "rotary positions": (lambda t: two_llamas(t, **rope(77.0)), ["rope differs", "77.0"]),
    "eps zero": (lambda t: two_llamas(t, rms_norm_eps=0.0), ["size or eps differs", "eps 0 (B)", "an eps is zero"]),
    "kind of norm": (
        lambda t: (byte_llama(t / "a"), vit(t / "b")),
        ["model class differs", "LlamaForCausalLM (A)", "ViTForImageClassification (B)"],
    ),
    "rotary frequencies": (
        lambda t: (byte_llama(t / "a", **YARN), byte_llama(t / "b", 1, **YARN, head_dim=8)),
        ["size or eps differs", "head width 4", "head width 8", "rotary frequencies", "integer multiple"],
    ),
    "biases": (lambda t: two_llamas(t, mlp_bias=True), ["tensors differs", "absent", "present"]),
}


@pytest.mark.parametrize("verb", ["align", "merge"])
@pytest.mark.parametrize("case", STRANGERS)
def test_strangers_are_refused_and_nothing_is_written(cli, tmp_path, verb, case):
    make, says = STRANGERS[case]
    refused(cli, tmp_path, [verb, *make(tmp_path)], says)


def refused(cli, folder: Path, arguments: list[object], says: list[str]) -> None:
    """One message with a next step, exit code 2, no file more or less."""
    before = sorted(folder.rglob("*"))
    code, out, err = cli(*arguments, "-o", folder / "out")
    assert (code, out) == (2, "")
    assert err.startswith("onebasin: ")
    assert err.count("onebasin: ") == 1
    assert [piece for piece in (*says, "next step:") if piece not in err] == []
    assert "Traceback" not in err
    assert sorted(folder.rglob("*")) == before


def test_the_same_words_in_one_order_are_no_strangers(cli, tmp_path):
    a, b = with_tokens(tmp_path, tokens("the", "cat", "sat"), tokens("the", "cat", "sat"))
    assert cli("align", a, b, "-o", tmp_path / "out", "--dry-run")[0] == 0


@pytest.mark.parametrize("ties", [(True, False), (False, True)], ids=["tied A", "tied B"])
def test_a_tie_is_dealt_with_and_said(cli, tmp_path, ties):
    a, b = (byte_llama(tmp_path / str(i), i, tie_word_embeddings=tie) for i, tie in enumerate(ties))
    code, _, err = cli("align", a, b, "-o", tmp_path / "out", "--dtype", "float64", "--method", "weight")
    assert code == 0
    assert err.startswith(f"onebasin: warning: tied embeddings: {ties[0]} in A, {ties[1]} in B;")
    assert len(err.splitlines()) == 1
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["warnings"] == [err.strip().removeprefix("onebasin: warning: ")]
    assert certificate["output_drift"]["float64"] < 1e-9
    assert ("canonical" in certificate["gauge"]) == ties[0]


# ---- data that do not fit


def pixels(file: Path, labels: list[int]) -> str:
    np.savez(file, images=np.zeros((len(labels), 8, 8, 3), np.uint8), labels=np.array(labels))
    return f"images:{file}"


def test_data_that_do_not_fit_are_refused(cli, tmp_path, pair):
    a, b = vit(tmp_path / "a"), vit(tmp_path / "b", 1)
    labels = ["--method", "activation", "--task", pixels(tmp_path / "x.npz", [0, 1, 7]), "--samples", 3]
    refused(cli, tmp_path, ["align", a, b, *labels], ["do not fit the head", "classes 0 to 2", "found: 0 to 7"])
    builtin = ["--method", "activation", "--task", "builtin:shapes"]
    refused(cli, tmp_path, ["merge", *pair, *builtin], ["does not read images"])
    refused(
        cli,
        tmp_path,
        ["align", *pair, "--method", "weight", "--task", "builtin:python"],
        ["task is of no use to the method weight"],
    )
    refused(cli, tmp_path, ["merge", *pair, "--method", "activation"], ["task is missing"])
    refused(cli, tmp_path, ["merge", *pair, "--samples", "3"], ["task.data is missing"])


FEW = ("--method", "activation", "--task", "builtin:python", "--device", "cpu")


def test_too_few_samples_are_told_on_the_way_and_in_the_certificate(cli, tmp_path, pair):
    code, _, err = cli("align", *pair, "-o", tmp_path / "few", *FEW, "--samples", 2, "--length", 8, "--quiet")
    told = "16 samples cannot determine the basis of residual: give at least 24"
    assert code == 0
    assert err == f"onebasin: warning: {told}\n"
    assert json.loads((tmp_path / "few" / "certificate.json").read_text())["warnings"] == [told]
    code, _, err = cli("align", *pair, "-o", tmp_path / "enough", *FEW, "--samples", 3, "--length", 8)
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "enough" / "certificate.json").read_text())["warnings"] == []


def scaled(folder: Path, factor: float, *names: str) -> Path:
    tensors = load_file(folder / "model.safetensors")
    for name in names:
        tensors[f"model.layers.0.mlp.{name}.weight"] *= factor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("verb", ["align", "merge"])
def test_numbers_that_are_not_finite_are_refused(cli, tmp_path, pair, verb):
    broken = scaled(byte_llama(tmp_path / "nan", 1), float("nan"), "down_proj")
    refused(cli, tmp_path, [verb, pair[0], broken], ["not finite", "tensor: model.layers.0.mlp.down_proj.weight"])
    huge = scaled(byte_llama(tmp_path / "huge", 1), 1e30, "up_proj", "down_proj")
    Checkpoint.open(huge).check_values()  # what is stored is finite, what it computes is not
    refused(cli, tmp_path, [verb, pair[0], huge, *FEW, "--samples", 8], ["An activation is not finite"])


# ---- on a terminal, and interrupted


def start(*arguments: object, stderr: int) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(str(Path(package.__file__).parents[1]) for package in (onebasin, transformers))
    return subprocess.Popen(
        [sys.executable, "-m", "onebasin", *map(str, arguments)], stdout=subprocess.PIPE, stderr=stderr,
        env={**os.environ, "PYTHONPATH": paths, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip


SWEEP = rb"sweep \d+, objective [\d.]+"


def read_until(terminal: int, pattern: bytes | None = None, seconds: float = 60) -> bytes:
    """What a terminal shows until the pattern has been seen or the program has left."""
    seen, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and not (pattern and re.search(pattern, seen)):
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the other side is closed
                break
    return seen


def test_progress_on_a_terminal_and_ctrl_c(tmp_path):
    """Steps with sweep and distance on stderr; then an interrupt: exit code 130, our word, and nothing left."""
    models = [byte_llama(tmp_path / str(i), i, **SLOW) for i in (0, 1)]
    before = sorted(tmp_path.rglob("*"))
    terminal, child = pty.openpty()
    running = start("align", *models, "-o", tmp_path / "out", "--method", "weight", stderr=child)
    os.close(child)
    shown = read_until(terminal, SWEEP)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    shown += read_until(terminal)
    out, _ = running.communicate(timeout=60)
    os.close(terminal)
    assert re.search(SWEEP, shown)
    assert running.returncode == 130
    assert out == b""
    assert b"onebasin: interrupted" in shown
    assert b"Aborted" not in shown
    assert b"Traceback" not in shown
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("quiet", [True, False])
def test_progress_names_the_steps_unless_it_should_be_quiet(cli, tmp_path, pair, monkeypatch, quiet):
    shown = io.StringIO()
    monkeypatch.setattr(output, "messages", Console(file=shown, force_terminal=True, width=100))
    assert cli("align", *pair, "-o", tmp_path / "out", "--method", "weight", *["--quiet"] * quiet)[0] == 0
    assert (shown.getvalue() == "") == quiet


@pytest.mark.parametrize("moment", ["onebasin.recipes.running.certificate", "onebasin.recipes.running.card_of"])
def test_an_interrupted_run_leaves_nothing(cli, tmp_path, pair, monkeypatch, moment):
    """Also in the middle of writing."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, stop)
    code, out, err = cli("merge", *pair, "-o", tmp_path / "out", "--method", "weight")
    assert (code, out) == (130, "")
    assert err == "onebasin: interrupted; nothing unfinished is left behind\n"
    assert list(tmp_path.iterdir()) == []

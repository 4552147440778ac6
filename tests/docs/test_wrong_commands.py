"""docs/wrong-commands.md: commands that cannot work, and what each of them says.  Made by running them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.pages import DOCS, check_page
from helpers.random_models import byte_llama, config_of, random_folder
from onebasin.checkpoint import output

INTRODUCTION = """# When something is wrong

Commands that cannot work, and what each of them says: what happened, where, what was expected, what was found, what
to do next. Nothing is written. This page is made by a test, which runs every command; A and B are two small Llamas.

"""

WRONG = {  # heading -> (what is the matter, the command line)
    "Typing": [
        ("A verb that is misspelt", "algin A B -o OUT"),
        ("An option that is misspelt", "align A B -o OUT --metod weight"),
        ("No output folder", "align A B"),
        ("A word where a number belongs", "barrier A B --task text:valid.txt --set task.batch_size=many"),
        ("A method that does not exist", "align A B -o OUT --method wieght"),
        ("A key of a recipe that is misspelt", "align A B -o OUT --set weight.sweps=5"),
        ("A setting without a value", "align A B -o OUT --set weight.sweeps"),
        ("A key of an earlier release", "align A B -o OUT --set matching.sweeps=5"),
        ("A share above one", "merge A B -o OUT --share 1.5"),
        ("Two shares for three models", "merge A B C -o OUT --shares 1,2"),
        ("A size that is no setting of this model", "widen A -o OUT --set hiden_size=48"),
        ("A device that does not exist", "barrier A B --task text:valid.txt --device gpu"),
    ],
    "Files": [
        ("A folder that is not there", "inspect ./missing"),
        ("A file in place of its folder", "inspect A/model.safetensors"),
        ("A folder without a model", "inspect empty"),
        ("A recipe that is not there", "run recipe.yaml"),
        ("A recipe that is not YAML", "run broken.yaml"),
        ("Weights in a pickle", "verify pickled"),
        ("An adapter in place of a model", "verify adapter"),
        ("A download that broke off", "verify truncated"),
        ("A model with a number that is not finite", "merge A nan -o OUT"),
        ("An architecture that has no table", "inspect mamba"),
    ],
    "Pairs": [
        ("Two kinds of models", "align A vit -o OUT"),
        ("Two depths", "merge A deep -o OUT"),
        ("Two vocabularies", "align cats dogs -o OUT"),
        ("One model alone", "merge A -o OUT"),
        ("A target that is smaller", "widen A -o OUT --set intermediate_size=8"),
    ],
    "Tasks": [
        ("A method that needs data, without any", "align A B -o OUT --method activation"),
        ("Data in no form that is known", "barrier A B --task valid.txt"),
        ("Data that are not there", "barrier A B --task text:missing.txt"),
        ("Images for models that read text", "barrier A B --task builtin:shapes"),
        ("Labels that the head does not have", "barrier vit vit --task images:digits.npz"),
        ("Less text than one window", "barrier A B --task text:short.txt --length 32"),
        ("A circuit path between three models", "barrier A B C --task text:valid.txt --path circuit"),
    ],
    "Output": [
        ("A folder that is not empty", "align A B -o full"),
        ("A file where the folder should be", "align A B -o valid.txt"),
        ("A place that is not there", "align A B -o no/such/place"),
        ("A place without permission to write", "align A B -o locked/OUT"),
        ("A disk that is full", "align A B -o tight/OUT"),
    ],
}


def edited(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def words(folder: Path, *tokens: str) -> None:
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))


def with_nan(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][0, 0] = torch.nan
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with everything that the commands name."""
    root = tmp_path_factory.mktemp("wrong").resolve()
    for seed, name in enumerate(("A", "B", "C")):
        byte_llama(root / name, seed)
    words(byte_llama(root / "cats"), "the", "cat")
    words(byte_llama(root / "dogs"), "the", "dog")
    byte_llama(root / "deep", num_hidden_layers=2)
    random_folder(root / "vit", "vit", "ViTForImageClassification", 3)
    for name in ("pickled", "adapter", "truncated", "nan", "mamba"):
        shutil.copytree(root / "A", root / name)
    (root / "pickled" / "model.safetensors").rename(root / "pickled" / "pytorch_model.bin")
    (root / "adapter" / "adapter_config.json").write_text("{}")
    whole = (root / "truncated" / "model.safetensors").read_bytes()
    (root / "truncated" / "model.safetensors").write_bytes(whole[:-100])
    with_nan(root / "nan")
    edited(root / "mamba", model_type="mamba")
    for name in ("empty", "full", "locked", "tight"):
        (root / name).mkdir()
    (root / "full" / "notes.txt").write_text("mine")
    (root / "valid.txt").write_text("the cat sat on the mat. " * 40)
    (root / "short.txt").write_text("the cat")
    (root / "broken.yaml").write_text("models: [A, B\n")
    image = config_of("vit", 3)
    shape = (4, image.image_size, image.image_size, image.num_channels)
    np.savez(root / "digits.npz", images=np.zeros(shape, np.uint8), labels=np.array([0, 1, 2, 9]))
    return root


@pytest.fixture
def said(cli, place, monkeypatch) -> Callable[[str], tuple[int, str]]:
    """Exit code and message of a command typed in that folder; the folder's own name is cut out."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("TERM", "dumb")
    usage, access = shutil.disk_usage, output.os.access
    monkeypatch.setattr(
        output.shutil, "disk_usage", lambda p: SimpleNamespace(free=10**7) if Path(p).name == "tight" else usage(p)
    )
    monkeypatch.setattr(output.os, "access", lambda p, mode: Path(p).name != "locked" and access(p, mode))

    def type_in(line: str) -> tuple[int, str]:
        before = sorted(place.rglob("*"))
        code, out, err = cli(*line.split())
        assert sorted(place.rglob("*")) == before, line
        return code, (out + err).replace(f"{place}/", "").strip()

    return type_in


@pytest.mark.page
def test_every_wrong_command_says_what_happened_and_what_to_do_next(said):
    assert sum(map(len, WRONG.values())) >= 25
    parts = [INTRODUCTION]
    for heading, cases in WRONG.items():
        parts.append(f"## {heading}\n\n")
        for matter, line in cases:
            code, message = said(line)
            assert code == 2, line
            assert "Traceback" not in message, line
            assert message.startswith("onebasin: "), line
            assert message.splitlines()[-1].startswith("  next step: "), f"{line}\n{message}"
            parts.append(f"{matter}:\n\n```\n$ onebasin {line}\n{message}\n```\n\n")
    check_page(DOCS / "wrong-commands.md", "".join(parts).rstrip() + "\n")


def test_the_right_commands_work(said, place, cli):
    """The control: with the mistake put right, there is no message."""
    for line in ("inspect A B", "inspect A", "align A B -o OUT --method weight --set weight.sweeps=5 --dry-run"):
        assert cli(*line.split())[0] == 0, line


def test_the_page_is_on_the_site():
    assert (DOCS / "wrong-commands.md").exists()

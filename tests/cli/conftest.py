"""Models for the command line: folders that are only read, and copies to be changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers.folders import llama
from helpers.random_models import byte_llama, config_of, random_folder, random_model
from onebasin.cli import main


@pytest.fixture(scope="session")
def pristine(tmp_path_factory) -> Path:
    """Folders that are only read: two small Llamas of one shape, and other models."""
    root = tmp_path_factory.mktemp("models")
    llama(root / "a")
    llama(root / "b", weights=1)
    llama(root / "classifier", "LlamaForTokenClassification")
    tied = config_of("gpt2", 2)
    tied.tie_word_embeddings = True
    random_model("GPT2LMHeadModel", tied, 0).save_pretrained(root / "gpt2")
    random_folder(root / "vit", "vit", "ViTForImageClassification", 3)
    return root


@pytest.fixture
def copy(pristine, tmp_path):
    """A copy of one of the pristine folders, to be changed."""

    def make(name: str = "a", to: str = "copy") -> Path:
        return Path(shutil.copytree(pristine / name, tmp_path / to))

    return make


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> list[Path]:
    """Four models that read bytes."""
    root = tmp_path_factory.mktemp("models")
    return [byte_llama(root / name, i) for i, name in enumerate("wxyz")]


@pytest.fixture(scope="session")
def three(models, tmp_path_factory) -> Path:
    """Three of them merged, with their universe."""
    out = tmp_path_factory.mktemp("three") / "out"
    with pytest.raises(SystemExit) as done:
        main(["merge", *map(str, models[:3]), "-o", str(out), "--shares", "2,1,1", "--dtype", "float64", "--quiet",
              "--method", "weight"])  # fmt: skip
    assert not done.value.code
    return out

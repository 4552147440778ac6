"""`save_pretrained` and `push_to_hub` on models and results, and the names of dtypes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from safetensors import safe_open

import onebasin
from helpers.random_models import byte_llama
from onebasin import Checkpoint
from onebasin.checkpoint.dtypes import code_of
from onebasin.errors import BadOutput, BadRecipe
from onebasin.learn.options import LearnedMatching
from onebasin.recipes.recipe import Write


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    return onebasin.align(byte_llama(root / "a"), byte_llama(root / "b", 1), method="weight", weight={"sweeps": 1})


def kinds(folder: Path) -> set[str]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize("which", ["aligned", "merged"])
def test_save_pretrained_is_save(pair, tmp_path, which):
    result = pair if which == "aligned" else pair.merged()
    result.save(tmp_path / "one")
    result.save_pretrained(tmp_path / "two", dtype="bf16")
    assert {p.name for p in (tmp_path / "one").iterdir()} == {p.name for p in (tmp_path / "two").iterdir()}
    assert (kinds(tmp_path / "one"), kinds(tmp_path / "two")) == ({"F32"}, {"BF16"})


@pytest.fixture
def hub(monkeypatch):
    """A Hub that keeps what it is given."""
    kept = SimpleNamespace(token=None, made=[], files=None, how=None)

    class Api:
        def __init__(self, token: str | None) -> None:
            kept.token = token

        def create_repo(self, repo_id: str, **how: object) -> SimpleNamespace:
            kept.made.append((repo_id, how))
            return SimpleNamespace(repo_id=f"me/{repo_id}")

        def upload_folder(self, *, folder_path: Path, **how: object) -> str:
            kept.files, kept.how = {path.name for path in folder_path.iterdir()}, how
            kept.place = folder_path.parent
            return f"https://hub/{how['repo_id']}/commit/1"

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    return kept


def test_push_to_hub_uploads_what_save_writes(pair, hub):
    assert pair.push_to_hub("mine", private=True, token="t") == "https://hub/me/mine/commit/1"
    assert (hub.token, hub.made) == ("t", [("mine", {"private": True, "exist_ok": True})])
    assert hub.files >= {"config.json", "model.safetensors", "certificate.json", "recipe.yaml", "README.md"}
    pair.merged().push_to_hub("mine", revision="v2")
    assert hub.files >= {"config.json", "model.safetensors"}
    assert hub.how["revision"] == "v2"
    assert hub.place.name.startswith("onebasin-")  # whose it is, where a killed process leaves it behind
    assert not hub.place.exists()


def test_a_hub_that_refuses(pair, hub, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise huggingface_hub.errors.HFValidationError("no such name")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refuse)
    with pytest.raises(BadOutput, match="could not be uploaded") as raised:
        pair.merged().push_to_hub("a b c")
    assert "hf auth login" in str(raised.value)


def test_dtypes_have_short_names(cli, pair, tmp_path):
    assert [code_of(x) for x in ("bf16", "bfloat16", "BF16", "fp16", "fp32", None)] == [
        "BF16", "BF16", "BF16", "F16", "F32", None,
    ]  # fmt: skip
    assert (Write(dtype="fp16").dtype, LearnedMatching(dtype="bf16").dtype) == ("float16", "bfloat16")
    with pytest.raises(BadOutput, match="no such dtype"):
        pair.merged().save(tmp_path / "out", dtype="int64")
    with pytest.raises(BadRecipe, match="dtype has no such choice"):
        LearnedMatching(dtype="fp16")  # learning has no such type
    a, b = (str(model.store.folder) for model in pair.ensemble.models)
    code, _, err = cli("merge", a, b, "-o", tmp_path / "out", "--method", "weight", "--dtype", "bf16")
    assert code == 0, err
    assert kinds(tmp_path / "out") == {"BF16"}
    assert "bfloat16" in (tmp_path / "out" / "recipe.yaml").read_text()


def test_a_live_model_was_in_a_folder_of_ours_that_is_gone(pair, monkeypatch):
    written, save = [], Checkpoint.save

    def kept(self: Checkpoint, folder: Path) -> None:
        written.append(folder.parent)
        save(self, folder)

    monkeypatch.setattr(Checkpoint, "save", kept)
    onebasin.live(pair.models[0])
    (folder,) = written
    assert folder.name.startswith("onebasin-")
    assert not folder.exists()

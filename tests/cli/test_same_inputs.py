"""What two models are given must be the same thing (`ensemble/files_beside.py`): tokens, pixels, positions, masks."""

from __future__ import annotations

import json
import shutil

import pytest

from helpers.folders import edit_config
from helpers.random_models import byte_llama, config_of, random_model, rope


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    byte_llama(root / "llama")
    for kind, name in (("vit", "ViTForImageClassification"), ("bert", "BertForMaskedLM")):
        random_model(name, config_of(kind, 3), 0).save_pretrained(root / kind)
    return root


@pytest.fixture
def blocked(cli, models, tmp_path):
    """What blocks two copies of a model, one with some files, the other with others."""

    def find(kind: str, *files: dict[str, object]) -> list[str]:
        folders = []
        for name, own in zip("ab", files, strict=True):
            folders.append(shutil.copytree(models / kind, tmp_path / name, dirs_exist_ok=True))
            for file, content in own.items():
                text = content if isinstance(content, str) else json.dumps(content)
                (tmp_path / name / file).write_text(text)
        found = json.loads(cli("inspect", *folders, "--json")[1])["obstacles"]
        return [obstacle["what"] for obstacle in found if obstacle["blocks"]]

    return find


@pytest.mark.parametrize("name", ["tokenizer.model", "spiece.model", "qwen.tiktoken"])
def test_files_of_tokens_are_compared(blocked, name):
    assert blocked("llama", {name: "tokens"}, {name: "tokens"}) == []
    assert blocked("llama", {name: "tokens"}, {}) == []
    assert blocked("llama", {name: "tokens"}, {name: "other tokens"}) == [f"tokenizer file {name}"]


def test_where_both_have_a_tokenizer_json_it_counts(blocked, cli, tmp_path):
    read = {"tokenizer.json": {"model": {"vocab": {"a": 0, "b": 1}}}}
    assert blocked("llama", {**read, "tokenizer.model": "x"}, {**read, "tokenizer.model": "y"}) == []
    assert "note: tokenizer file tokenizer.model" in cli("inspect", tmp_path / "a", tmp_path / "b")[1]


def test_added_tokens_are_compared(blocked):
    def added(word: str) -> dict[str, object]:
        decoder = {"2": {"content": word}}
        return {"vocab.json": {"a": 0, "b": 1}, "tokenizer_config.json": {"added_tokens_decoder": decoder}}

    assert blocked("llama", added("<end>"), added("<end>")) == []
    assert blocked("llama", added("<end>"), added("<stop>")) == ["list of tokens"]


@pytest.mark.parametrize(
    ("one", "two", "differs"),
    [
        ({"do_resize": True}, {"do_resize": False}, ["preprocessing: do_resize"]),
        ({"do_center_crop": True}, {"size": 8}, ["preprocessing: size", "preprocessing: do_center_crop"]),
        ({"do_flip_channel_order": True}, {"do_flip_channel_order": False}, ["preprocessing: do_flip_channel_order"]),
        ({"do_resize": True, "size": 8}, {"size": 8}, []),
    ],
)
@pytest.mark.parametrize("file", ["preprocessor_config.json", "processor_config.json"])
def test_pixels_are_compared(blocked, one, two, differs, file):
    def wrapped(settings: dict[str, object]) -> dict[str, object]:
        return {file: {"image_processor": settings} if file.startswith("processor") else settings}

    assert blocked("vit", wrapped(one), wrapped(two)) == differs


def test_a_decoder_is_not_an_encoder(cli, blocked, models, tmp_path):
    assert blocked("bert", {}, {}) == []
    edit_config(tmp_path / "b", is_decoder=True)
    assert "is_decoder" in cli("inspect", tmp_path / "a", tmp_path / "b")[1]


@pytest.mark.parametrize(("kind", "differs"), [("dynamic", True), ("linear", False)])
def test_the_length_counts_where_rotary_positions_depend_on_it(cli, tmp_path, kind, differs):
    scaling = rope(100.0, rope_type=kind, factor=2.0)
    a = byte_llama(tmp_path / "a", **scaling)
    b = byte_llama(tmp_path / "b", 1, **scaling, max_position_embeddings=64)
    code, out, _ = cli("inspect", a, b)
    assert ("blocks: rope" in out) == differs == bool(code)

"""How a model is spoken to: only what differs is said, by what it means, and nothing of it blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.folders import edit_config, llama
from onebasin import Checkpoint
from onebasin.ensemble.voice import LONGEST, READERS, voice_obstacles


@pytest.fixture
def said(tmp_path):
    """What differs between two folders with these files, which stay from call to call."""
    folders = [llama(tmp_path / name) for name in "ab"]

    def look(what: str, *sides: dict[str, object], **config: object) -> list[tuple[object, object]]:
        edit_config(folders[1], **config)
        for folder, files in zip(folders, sides, strict=True):
            for name, content in files.items():
                Path(folder, name).write_text(content if isinstance(content, str) else json.dumps(content))
        found = [*voice_obstacles(*(Checkpoint.open(folder) for folder in folders))]
        assert not any(x.blocks for x in found)
        return [(x.a, x.b) for x in found if x.what == what]

    return look


def tokens(*names: str, **more: object) -> dict[str, object]:
    return {"tokenizer.json": {"model": {"vocab": {name: i for i, name in enumerate(names)}}, **more}}


GENERATION = "generation_config.json"
SPECIAL, TEMPLATE, SETTINGS, CUT = READERS


def test_settings_of_generation_differ_where_they_say_something_else(said):
    assert said(SETTINGS, {GENERATION: {"top_k": 5}}, {GENERATION: {"top_k": 5}}) == []
    assert said(SETTINGS, {}, {GENERATION: {"top_k": 5, "transformers_version": "9"}}) == []
    assert said(SETTINGS, {}, {GENERATION: {"top_k": 6, "seed": 1}}) == [("top_k 5, seed None", "top_k 6, seed 1")]


def test_tokens_are_compared_by_name(said):
    """One file of both says the same, also where one folder alone can tell what its tokens are called."""
    ends = {GENERATION: {"eos_token_id": [1, 2]}}
    assert said(SETTINGS, ends, {**ends, **tokens("a", "b", "c")}) == []
    assert said(SETTINGS, tokens("a", "b", "c"), {**tokens("a", "c", "b"), GENERATION: {"eos_token_id": [2, 1]}}) == []
    assert said(SETTINGS, {}, {GENERATION: {"eos_token_id": [2, 0]}}) == [
        ("eos_token_id ['b', 'c']", "eos_token_id ['b', 'a']")
    ]


def test_special_tokens_are_those_of_the_config_and_of_the_tokenizer(said):
    assert said(SPECIAL, {}, {}, eos_token_id=7) == [("eos_token_id 2", "eos_token_id 7")]
    names = [f"t{i}" for i in range(9)]
    moved = [*names[:2], names[7], *names[3:7], names[2], names[8]]
    assert said(SPECIAL, tokens(*names), tokens(*names)) == [("eos_token_id 2", "eos_token_id 7")]
    own = {"tokenizer_config.json": {"eos_token": {"content": "t2"}, "legacy": True, "pad_token": None}}
    assert said(SPECIAL, own, {**tokens(*moved), "special_tokens_map.json": {"eos_token": "t2"}}) == []
    assert said(SPECIAL, {}, {"special_tokens_map.json": {"eos_token": "t3", "legacy": False}}) == [
        ("eos_token 't2'", "eos_token 't3'")
    ]


@pytest.mark.parametrize(
    "files",
    [
        lambda text: {"chat_template.jinja": text},
        lambda text: {"chat_template.json": {"chat_template": text}},
        lambda text: {"tokenizer_config.json": {"chat_template": text}},
    ],
)
def test_a_chat_template_is_one_text_wherever_it_lies(said, files):
    long = "x" * (LONGEST - 1)  # with its quotes too long to be shown
    assert said(TEMPLATE, {}, files(long)) == [("text None", "text its own")]
    assert said(TEMPLATE, {"chat_template.jinja": long[1:]}, {}) == [(f"text '{long[1:]}'", "text its own")]
    assert said(TEMPLATE, {"chat_template.jinja": long}, {}) == []


def test_how_text_is_cut_is_compared_without_numbers(said):
    assert said(CUT, tokens("a", "b"), tokens("b", "a")) == []
    assert said(CUT, {}, tokens("b", "a", decoder={"type": "x"})) == []
    for part in ("normalizer", "pre_tokenizer"):
        assert said(CUT, {}, tokens("b", "a", **{part: {"type": "x"}})) == [(f"{part} None", f"{part} {{'type': 'x'}}")]
    for key, what in (("unk_id", 0), ("type", 1)):
        other = {"tokenizer.json": {"model": {"vocab": {"a": 0, "b": 1}, key: 3}}}
        assert len(said(CUT, {}, other)) == what
    scored = {"tokenizer.json": {"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}}
    turned = {"tokenizer.json": {"model": {"vocab": [["b", -2.0], ["a", -1.0]], "unk_id": 1}}}
    assert said(CUT, scored, turned) == []
    assert len(said(CUT, {}, {"tokenizer.json": {"model": {"vocab": [["b", -2.5], ["a", -1.0]]}}})) == 1

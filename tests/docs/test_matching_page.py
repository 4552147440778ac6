"""docs/matching.md: options, presets, its Python."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import transformers

from helpers.pages import DOCS, blocks, rows
from helpers.random_models import random_model
from onebasin.match import PRESETS, WeightMatching
from onebasin.match.options import CHOICES, GROUPS

MATCHING = DOCS / "matching.md"


def test_the_page_on_matching_lists_every_option_with_its_default_first():
    table = rows(MATCHING, "option | choices, the default first | what it decides")
    listed = {name.strip("`"): choices for name, choices, _ in table}
    default = WeightMatching()
    expected = {}
    for field in fields(WeightMatching):
        value = getattr(default, field.name)
        choices = GROUPS if field.name == "spaces" else CHOICES.get(field.name, ())
        ordered = sorted(choices, key=lambda choice, value=value: choice != value)  # stable: the others as declared
        expected[field.name] = ", ".join(f"`{choice}`" for choice in ordered) or str(value)
    assert listed == expected
    presets = rows(MATCHING, "preset | stream | blocks | heads | units | rounds")
    assert [row[0].strip("`") for row in presets] == list(PRESETS)


def test_the_python_of_the_page_on_matching_runs(tmp_path, monkeypatch):
    config = transformers.GPT2Config(
        vocab_size=17, n_embd=8, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    for seed, name in enumerate("AB"):
        random_model("GPT2LMHeadModel", config, seed).save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (snippet,) = blocks(MATCHING, "python")
    names: dict[str, Any] = {}
    exec(compile(snippet, "matching.md", "exec"), names)
    moved = {name for name, far in names["only_attention"].alignment.displacement().items() if far > 0}
    assert {name.rpartition(".")[2] for name in moved} <= {"heads", "qk", "ov"}

"""What goes with a model whose table of positions was cut: files that say so, and are otherwise as they were."""

from __future__ import annotations

import json

from helpers.task_files import gpt2
from onebasin import Checkpoint
from onebasin.checkpoint.beside import Beside


def test_only_what_would_let_texts_be_too_long_is_changed(tmp_path):
    store = Checkpoint.open(gpt2(tmp_path)).store
    settings = {"model_max_length": 16, "name": "Übergröße", "inner": {"max_length": 16}, "max_length": 7}
    texts = {}
    for name in ("tokenizer_config.json", "short_config.json", "other.json"):
        texts[name] = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        (tmp_path / name).write_text(texts[name], encoding="utf-8")
        settings |= {"model_max_length": 8}
    for name, text in {"list": "[16]", "broken": "{", "odd": '{"max_length": "16"}'}.items():
        (tmp_path / f"{name}_config.json").write_text(text)
    changed = texts["tokenizer_config.json"].replace('"model_max_length": 16', '"model_max_length": 8')
    assert list(Beside(store, 8).shortened()) == [("tokenizer_config.json", changed)]
    assert list(Beside(store, 16).shortened()) == list(Beside(store).shortened()) == []

"""Settings that change what a model computes and that its table does not cover are refused when it is opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.random_models import config_of, random_folder, random_model
from onebasin import Checkpoint
from onebasin.archs import registry
from onebasin.errors import UnknownArchitecture


@pytest.mark.parametrize(
    ("model_type", "name", "setting"),
    [
        ("stablelm", "StableLmForCausalLM", "qk_layernorm"),
        ("phi", "PhiForCausalLM", "qk_layernorm"),
        ("cohere", "CohereForCausalLM", "use_qk_norm"),
    ],
)
def test_a_norm_inside_heads_that_subtracts_the_mean_is_not_covered(tmp_path, model_type, name, setting):
    config = config_of(model_type, 1)
    setattr(config, setting, True)
    random_model(name, config, 0).save_pretrained(tmp_path)
    with pytest.raises(UnknownArchitecture, match=f"does not cover {setting}") as caught:
        Checkpoint.open(tmp_path)
    assert caught.value.next_step


def test_a_class_that_the_installed_transformers_lacks_is_refused(tmp_path, monkeypatch):
    random_folder(tmp_path, "llama", "LlamaForCausalLM", 1)
    page, known = tmp_path / "config.json", registry._known["llama"]
    page.write_text(page.read_text().replace("LlamaForCausalLM", "LlamaForPoetry"))
    heads = {**known.heads, "LlamaForPoetry": known.heads["LlamaForCausalLM"]}
    monkeypatch.setitem(registry._known, "llama", replace(known, heads=heads))
    with pytest.raises(UnknownArchitecture, match="has no LlamaForPoetry"):
        Checkpoint.open(tmp_path)

"""Pages: what one block stores is together, and what is large and of no block is alone."""

from __future__ import annotations

import pytest
from transformers import LlamaConfig

from onebasin.archs import declare
from onebasin.spec import pages

LLAMA = {"vocab_size": 9, "hidden_size": 4, "intermediate_size": 5, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture
def spec():
    return declare(LlamaConfig(**LLAMA, architectures=["LlamaForCausalLM"], tie_word_embeddings=False))


def test_blocks_are_pages_and_all_that_is_small_is_one_more(spec):
    found = pages.page_names(spec)
    assert sorted(name for page in found for name in page) == sorted(spec.leaves)
    blocks = [{name.split("_proj")[0] for name in page} for page in found]
    for layer in range(2):
        for block, names in (("self_attn", "qkvo"), ("mlp", ("gate", "up", "down"))):
            assert {f"model.layers.{layer}.{block}.{name}" for name in names} in blocks
    (rest,) = (page for page in found if "lm_head.weight" in page)
    assert {"model.embed_tokens.weight", "model.norm.weight", "model.layers.1.input_layernorm.weight"} < {*rest}
    assert len(found) == 5


def test_what_is_large_and_of_no_block_is_a_page_of_its_own(spec, monkeypatch):
    monkeypatch.setattr(pages, "SMALL", 4 * 9 - 1)
    found = pages.page_names(spec)
    assert ("model.embed_tokens.weight",) in found
    assert ("lm_head.weight",) in found
    assert len(found) == 7  # norms are small still
    monkeypatch.setattr(pages, "SMALL", 4 * 9)
    assert len(pages.page_names(spec)) == 5

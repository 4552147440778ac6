"""How much memory a verb is said to take: counted by hand for two small models, and compared with what is here."""

from __future__ import annotations

import math

import pytest
import transformers

from helpers.random_models import random_model
from onebasin import Checkpoint, canonicalize
from onebasin.ensemble import memory
from onebasin.ensemble.memory import RUNTIME, check_memory, lacking, memory_here, memory_of, page_work
from onebasin.errors import OnebasinError
from onebasin.spec import pages

D, F, V, T = 8, 20, 11, 12  # width, hidden units, tokens, positions


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """Canonical tables: GELU units are permuted, gated ones scaled as well, so that every pair has a scale."""
    root = tmp_path_factory.mktemp("models")
    gpt2 = transformers.GPT2Config(
        n_embd=D, n_layer=1, n_head=2, n_inner=F, vocab_size=V, n_positions=T, tie_word_embeddings=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    llama = transformers.LlamaConfig(
        hidden_size=D, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, intermediate_size=F,
        vocab_size=V, max_position_embeddings=T, tie_word_embeddings=False,
    )  # fmt: skip
    for name, config in (("GPT2LMHeadModel", gpt2), ("LlamaForCausalLM", llama)):
        random_model(name, config, 0).save_pretrained(root / name)
    return {
        kind: canonicalize(Checkpoint.open(root / name)).checkpoint.spec
        for kind, name in (("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM"))
    }


GPT2 = 2 * V * D + T * D + (4 * D * D + 4 * D) + (2 * D * F + F + D) + 6 * D
LLAMA = 2 * V * D + 4 * D * D + 3 * D * F + 3 * D


@pytest.mark.parametrize(("kind", "parameters", "each"), [("gpt2", GPT2, 10), ("llama", LLAMA, 24)])
def test_whole_models_are_counted_by_the_work(specs, monkeypatch, kind, parameters, each):
    """Bytes of all copies, some n × n matrices of hidden units, and three wherever activations are looked at."""
    monkeypatch.setattr(memory, "PARTS", 10**6)  # one page is never less
    spec, pairs = specs[kind], 8 * each * F**2
    moments = 8 * 3 * (F**2 + 2**2 + 3 * D**2)  # units, heads, and before each of three norms
    assert memory_of(spec, "verify") == RUNTIME + 4 * 8 * parameters
    assert memory_of(spec, "align") == RUNTIME + 5 * 8 * parameters + pairs
    assert memory_of(spec, "learn") == RUNTIME + 7 * 8 * parameters + pairs + moments
    assert memory_of(spec, "learn", 5) == memory_of(spec, "learn") + 3 * 8 * parameters
    assert memory_of(spec, "align", 5) == memory_of(spec, "align")


def test_matching_by_weights_takes_pages_where_these_are_less(specs, monkeypatch):
    spec = specs["gpt2"]
    monkeypatch.setattr(memory, "PARTS", 0)
    assert memory_of(spec, "align") == RUNTIME + 2 * 8 * GPT2  # moved, and as it is written
    monkeypatch.setattr(memory, "SMALL", 8 * GPT2)
    assert memory_of(spec, "align") == RUNTIME
    assert memory_of(spec, "verify") == RUNTIME + 4 * 8 * GPT2


def test_learning_by_blocks_holds_models_as_they_are_stored(specs):
    spec = specs["gpt2"]
    paged = RUNTIME + page_work(spec) + 2 * 8 * GPT2  # moved, and as it is written
    assert memory_of(spec, "learn by blocks") == paged + 2 * 4 * GPT2
    assert memory_of(spec, "learn by blocks", 5) == paged + 5 * 4 * GPT2


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_work_of_a_page_is_copies_of_it_and_scores_of_its_units(specs, monkeypatch, kind):
    monkeypatch.setattr(pages, "SMALL", 0)
    spec = specs[kind]
    sizes = [sum(math.prod(spec.leaves[name].shape) for name in names) for names in pages.page_names(spec)]
    assert len(sizes) > 1
    assert page_work(spec) == 4 * 8 * (max(sizes) + F**2)


def test_what_is_lacking(monkeypatch):
    monkeypatch.setattr(memory, "memory_here", lambda: 2_000_000_000)
    assert lacking(2_000_000_000) is None
    assert lacking(2_100_000_001) == "aligning takes about 2.1 GB of memory, and 2.0 GB are here"
    check_memory(2_000_000_000)
    with pytest.raises(OnebasinError, match=r"not enough memory: aligning takes about 3\.0 GB") as caught:
        check_memory(3_000_000_000)
    assert "--method weight" in caught.value.next_step
    monkeypatch.setattr(memory, "memory_here", lambda: None)
    assert lacking(10**18) is None


def test_what_is_here(monkeypatch):
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000, "SC_AVPHYS_PAGES": 10}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    assert (memory_here(), memory_here(free=True)) == (4_096_000, 40_960)

    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    assert memory_here() is None

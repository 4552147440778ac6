"""Names of other releases: the same model, read and written under them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers.random_models import config_of, random_model
from onebasin import Checkpoint, verify
from onebasin.archs import rotary
from onebasin.archs.rotary import before_5
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadCheckpoint


def memory_names(model: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    """What transformers 5 calls the parameters in memory."""
    return {name: x.contiguous() for name, x in model.state_dict().items()}


def layers(model: transformers.PreTrainedModel) -> range:
    return range(model.config.num_hidden_layers)


def with_masks(model, stored):  # GPT-2 as transformers 4.x before 4.31 wrote it
    mask = torch.ones(12, 12, dtype=torch.uint8).tril().reshape(1, 1, 12, 12)
    masks = {f"transformer.h.{i}.attn.bias": mask.clone() for i in layers(model)}
    return stored | masks | {f"transformer.h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in layers(model)}


def with_rotary_buffers(model, stored):
    own = {f"gpt_neox.layers.{i}.attention" for i in layers(model)}
    frequencies = {f"{a}.rotary_emb.inv_freq": torch.rand(2) for a in own}
    masks = {f"{a}.bias": torch.ones(1, 1, 12, 12, dtype=torch.bool).tril() for a in own}
    return stored | frequencies | masks | {f"{a}.masked_bias": torch.tensor(-1e9) for a in own}


def with_llama_frequencies(model, stored):
    return stored | {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.rand(4) for i in layers(model)}


def with_position_ids(model, stored):
    return stored | {"bert.embeddings.position_ids": torch.arange(12).reshape(1, 12)}


def with_gamma_and_beta(model, stored):
    old = {".LayerNorm.weight": ".LayerNorm.gamma", ".LayerNorm.bias": ".LayerNorm.beta"}
    return {re.sub(r"\.LayerNorm\.\w+$", lambda m: old[m[0]], name): x for name, x in stored.items()}


def without_prefix(model, stored):
    return {name.removeprefix("transformer."): x for name, x in stored.items()}


def with_tied_head(model, stored):
    return stored | {"lm_head.weight": stored["transformer.wte.weight"].clone()}


def with_one_bias(model, stored):  # an untied masked-LM head has two names for one bias
    return {name: x for name, x in stored.items() if name != "cls.predictions.decoder.bias"} | {
        "cls.predictions.bias": stored["cls.predictions.decoder.bias"]
    }


DIALECTS = {  # what was changed -> class, tied?, how its file is rewritten, pattern of what is not written again
    "ViT in memory": ("vit", "ViTForImageClassification", False, lambda model, stored: memory_names(model), ""),
    "bare ViT in memory": ("vit", "ViTModel", False, lambda model, stored: memory_names(model), ""),
    "NeoX in memory": ("gpt_neox", "GPTNeoXForCausalLM", False, lambda model, stored: memory_names(model), ""),
    "GPT-2 masks": ("gpt2", "GPT2LMHeadModel", False, with_masks, r"\.attn\.(masked_)?bias$"),
    "NeoX buffers": (
        "gpt_neox",
        "GPTNeoXForCausalLM",
        True,
        with_rotary_buffers,
        r"inv_freq$|attention\.(masked_)?bias$",
    ),
    "Llama frequencies": ("llama", "LlamaForCausalLM", True, with_llama_frequencies, r"inv_freq$"),
    "BERT position ids": ("bert", "BertForMaskedLM", True, with_position_ids, r"position_ids$"),
    "BERT gamma and beta": ("bert", "BertForTokenClassification", False, with_gamma_and_beta, ""),
    "BERT one bias": ("bert", "BertForMaskedLM", False, with_one_bias, ""),
    "GPT-2 without prefix": ("gpt2", "GPT2LMHeadModel", True, without_prefix, ""),
    "GPT-2 tied head stored": ("gpt2", "GPT2LMHeadModel", True, with_tied_head, ""),
}
ONLY_IN_5 = {"ViT in memory", "bare ViT in memory", "NeoX in memory", "BERT one bias"}


@pytest.fixture(params=DIALECTS)
def dialect(request, tmp_path):
    """(ordinary checkpoint, the same model under other names, pattern of the names that are not written again)."""
    if before_5() and request.param in ONLY_IN_5:
        pytest.skip("transformers 4 knows these tensors by one name only")
    model_type, name, tied, rewrite, untouched = DIALECTS[request.param]
    config = config_of(model_type, 1)
    config.tie_word_embeddings = tied
    model = random_model(name, config, 0)
    for folder in ("ordinary", "other"):
        model.save_pretrained(tmp_path / folder)
    file = tmp_path / "other" / "model.safetensors"
    before = load_file(file)
    save_file(rewrite(model, before), file, metadata={"format": "pt"})
    assert set(load_file(file)) != set(before)  # the names did change
    return Checkpoint.open(tmp_path / "ordinary"), Checkpoint.open(tmp_path / "other"), untouched


def test_rotary_positions_that_transformers_4_would_misread_are_refused(monkeypatch):
    linear = {"rope_type": "linear", "factor": 2.0}
    settings = {"rope_theta": 77.0, "rope_scaling": linear, "partial_rotary_factor": 0.5}
    read = {"rope_theta": 77.0, **linear, "partial_rotary_factor": 0.5}
    monkeypatch.setattr(rotary, "before_5", lambda: True)
    for written in ({}, read, {"rope_theta": 77.0}):
        assert rotary.rope_parameters(SimpleNamespace(**settings, rope_parameters=written)) == read
    for written in ({"rope_theta": 78.0}, {"rope_type": "default"}, {"partial_rotary_factor": 1.0}, {"beta_fast": 1}):
        with pytest.raises(BadCheckpoint, match="install transformers 5"):
            rotary.rope_parameters(SimpleNamespace(**settings, rope_parameters=written))
    monkeypatch.setattr(rotary, "before_5", lambda: False)
    assert rotary.rope_parameters(SimpleNamespace(**settings, rope_parameters={"rope_theta": 78.0})) == {
        "rope_theta": 78.0
    }


def test_another_dialect_is_the_same_model(dialect):
    ordinary, other, _ = dialect
    assert other.spec == ordinary.spec
    other.check_values()
    result = verify(other)
    assert result.holds
    assert max(result.drift["float64"], *result.per_space.values()) < 1e-9
    for leaf in ordinary:
        assert torch.equal(other[leaf], ordinary[leaf])


def test_saving_keeps_the_names_and_loads_in_transformers(dialect, tmp_path):
    ordinary, other, untouched = dialect
    other.save(tmp_path / "out")
    kept = {name for name in other.store.headers if not (untouched and re.search(untouched, name))}
    repeated = {mirror.of for mirror in other.spec.mirrors if not mirror.tied}  # both names, or transformers misses one
    assert set(load_file(tmp_path / "out" / "model.safetensors")) == kept | repeated
    kind = getattr(transformers, other.spec.architecture)
    model, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True, dtype=torch.float64)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    reference = stock_model(ordinary).state_dict()
    assert all(torch.equal(x, reference[name]) for name, x in model.state_dict().items())

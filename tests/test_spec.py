"""The tables: they claim every entry once, know every release's names, and derive the right families."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from random_models import config_of, random_folder, random_model, rope
from safetensors.torch import load_file, save_file

from onebasin import Checkpoint, describe, verify
from onebasin.archs import declare, known, lookup, rotary
from onebasin.archs.rotary import before_5
from onebasin.errors import BadCheckpoint, LayoutMismatch, UnclaimedTensor, UnknownArchitecture
from onebasin.families import Rep
from onebasin.spec import Axis, Leaf, ModelSpec, View
from onebasin.spec.leaves import check_partition
from onebasin.stock import outputs, probe_inputs, stock_model

# ---- claims: every entry of a stored tensor exactly once


def claim(view: str = "(t k) d", axes: tuple = (("k", 0, 4), ("d", 0, 5)), **picks: int) -> Leaf:
    """A part of a tensor of 2 × 4 rows and 5 columns; axes are (letter, start, stop)."""
    layout = View(view, ("t", "k", "d"), (("t", 2), ("k", 4), ("d", 5)))
    return Leaf("leaf", "w", layout, tuple((x, None, a, b) for x, a, b in axes), tuple(picks.items()))


def test_a_partition_is_accepted_and_tells_the_stored_shape():
    halves = (("k", 0, 1), ("d", 0, 5)), (("k", 1, 4), ("d", 0, 5))
    parts = [claim(t=0), claim(axes=halves[0], t=1), claim(axes=halves[1], t=1)]
    assert check_partition("w", parts) == (8, 5)


@pytest.mark.parametrize(
    ("parts", "error", "says"),
    [
        ([claim(t=0)], UnclaimedTensor, "leaves entries unclaimed"),
        ([claim(t=0), claim(axes=(("k", 0, 3), ("d", 0, 5)), t=1)], UnclaimedTensor, "leaves entries unclaimed"),
        ([claim(t=0), claim(t=1), claim(t=1)], UnclaimedTensor, "claims an entry twice"),
        ([claim(t=0), claim(t=0)], UnclaimedTensor, "claims an entry twice"),  # the right number of entries
        ([claim(t=0), claim(t=2)], LayoutMismatch, "outside its tensor"),
        ([claim(t=0), claim(axes=(("k", 1, 5), ("d", 0, 5)), t=1)], LayoutMismatch, "outside its tensor"),
        ([claim(t=0), claim(axes=(("k", 2, 2), ("d", 0, 5)), t=1)], LayoutMismatch, "outside its tensor"),
        ([claim(t=0), claim("(k t) d", t=1)], LayoutMismatch, "two layouts"),
        ([claim(t=0), claim("d (t k)", t=1)], LayoutMismatch, "two layouts"),
    ],
)
def test_anything_else_is_refused_by_name(parts, error, says):
    with pytest.raises(error, match=says) as caught:
        check_partition("w", parts)
    assert caught.value.tensor == "w"


def table(name: str = "GPT2LMHeadModel", model_type: str = "gpt2") -> ModelSpec:
    config = config_of(model_type, 1)
    config.architectures = [name]
    return declare(config, tie=False)


def test_a_fibre_without_its_base_is_refused():
    spec = table()
    leaf = spec.leaves["transformer.h.0.attn.c_attn.weight:query"]
    (h, _, *where), *others = leaf.axes
    assert h == "h"
    loose = replace(leaf, axes=((h, None, *where), *others))
    with pytest.raises(LayoutMismatch, match="fibre without its base") as caught:
        replace(spec, leaves={**spec.leaves, leaf.name: loose})
    assert (caught.value.tensor, caught.value.space) == (leaf.name, "layers.0.qk")


def test_a_reader_that_does_not_read_its_norm_is_refused():
    spec = table()
    leaf = spec.leaves["transformer.h.0.mlp.c_fc.weight"]
    wrong = tuple((x, Axis(axis.space, Rep.VEC), a, b) for x, axis, a, b in leaf.axes)
    with pytest.raises(LayoutMismatch, match="follow a norm but not read it") as caught:
        replace(spec, leaves={**spec.leaves, leaf.name: replace(leaf, axes=wrong)})
    assert (caught.value.tensor, caught.value.space) == (leaf.name, "residual")


# ---- binding: the names in a file


def test_binding_is_one_to_one():
    spec = table("LlamaForCausalLM", "llama")
    bound, names = spec.bind(spec.keys)
    assert bound == spec
    assert names == {key: key for key in spec.keys}


@pytest.mark.parametrize(
    ("change", "says", "tensor"),
    [
        (lambda names: names[1:], "lacks a tensor that LlamaForCausalLM needs$", "model.embed_tokens.weight"),
        (
            lambda names: names[2:],
            "lacks a tensor that LlamaForCausalLM needs and 1 more$",
            "model.embed_tokens.weight",
        ),
        (lambda names: [*names, "odd"], "holds a tensor that LlamaForCausalLM does not have$", "odd"),
        (lambda names: [*names, "odd", "odder"], "does not have and 1 more$", "odd"),
    ],
)
def test_missing_and_extra_tensors_are_named(change, says, tensor):
    spec = table("LlamaForCausalLM", "llama")
    with pytest.raises(UnclaimedTensor) as caught:
        spec.bind(change(list(spec.keys)))
    assert re.search(says, caught.value.what)
    assert caught.value.tensor == tensor
    assert "from_pretrained" in caught.value.next_step


@pytest.mark.parametrize(
    ("model_type", "name", "twice"),
    [
        ("gpt_neox", "GPTNeoXForCausalLM", ("embed_out.weight", "lm_head.weight")),
        ("gpt2", "GPT2LMHeadModel", ("transformer.wte.weight", "wte.weight")),
        ("bert", "BertModel", ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma")),
    ],
)
def test_two_names_for_one_tensor_are_refused(model_type, name, twice):
    spec = table(name, model_type)
    with pytest.raises(UnclaimedTensor, match="the same meaning") as caught:
        spec.bind([*spec.keys, twice[1]])
    assert {caught.value.tensor, caught.value.found} == set(twice)


def test_an_optional_part_may_be_absent_but_not_half_of_it():
    spec = table("BertModel", "bert")
    without = [key for key in spec.keys if not key.startswith("pooler")]
    bound, _ = spec.bind(without)
    assert set(spec.spaces) - set(bound.spaces) == {"pooler"}
    assert set(spec.outputs) - set(bound.outputs) == {"pooler_output"}
    with pytest.raises(UnclaimedTensor, match=r"pooler\.dense\.bias"):
        spec.bind([*without, "pooler.dense.weight"])


def test_unknown_types_and_classes_list_the_known_ones():
    with pytest.raises(UnknownArchitecture) as caught:
        lookup("rwkv", ["RwkvForCausalLM"])
    assert caught.value.expected == "bert, gpt2, gpt_neox, llama, mistral, qwen2, qwen3, vit" == ", ".join(known())
    assert "Add an architecture" in caught.value.next_step
    for architectures, found in (
        (["GPT2DoubleHeadsModel"], "GPT2DoubleHeadsModel"),
        (None, "no 'architectures' entry"),
    ):
        with pytest.raises(UnknownArchitecture) as caught:
            lookup("gpt2", architectures)
        assert caught.value.expected == ", ".join(known()["gpt2"])
        assert found in caught.value.found


# ---- names of other releases: the same model, read and written under them


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


# ---- families and group dimensions, as `inspect` reports them


def described(tmp_path, name: str, config: transformers.PreTrainedConfig) -> dict:
    random_model(name, config, 0).save_pretrained(tmp_path / "model")
    return json.loads(json.dumps(describe(Checkpoint.open(tmp_path / "model"))))


def sized(model_type: str, heads: int, width: int, **settings) -> transformers.PreTrainedConfig:
    """A two-layer model with this many heads of this width."""
    config = config_of(model_type, 1)
    assert config.num_hidden_layers == 2
    for key, value in {"hidden_size": heads * width, "num_attention_heads": heads, **settings}.items():
        setattr(config, key, value)
    return config


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("GPT2LMHeadModel", sized("gpt2", 4, 6), 2 * 4 * 6**2),
        ("ViTForImageClassification", sized("vit", 3, 8), 2 * 3 * 8**2),
        ("BertForMaskedLM", sized("bert", 2, 10), 2 * 2 * 10**2),
        ("LlamaForCausalLM", sized("llama", 4, 6, num_key_value_heads=4, head_dim=6), 4 * (6 + 6**2)),
        ("LlamaForCausalLM", sized("llama", 6, 8, num_key_value_heads=2, head_dim=8), 2 * (8 + 8**2)),
        ("LlamaForCausalLM", sized("llama", 6, 4, num_key_value_heads=3, head_dim=10), 3 * (10 + 10**2)),
        ("MistralForCausalLM", sized("mistral", 6, 8, num_key_value_heads=1, head_dim=8), 8 + 8**2),
        ("Qwen2ForCausalLM", sized("qwen2", 6, 4, num_key_value_heads=3), 3 * (4 + 4**2)),
        ("Qwen3ForCausalLM", sized("qwen3", 6, 4, num_key_value_heads=3, head_dim=6), 3 * 6**2),  # qk: signs only
        ("GPTNeoXForCausalLM", sized("gpt_neox", 3, 8, **rope(100.0, 0.25)), 3 * (2 + 6**2 + 8**2)),
        ("GPTNeoXForCausalLM", sized("gpt_neox", 3, 8, **rope(100.0, 0.5)), 3 * (4 + 4**2 + 8**2)),
        ("GPTNeoXForCausalLM", sized("gpt_neox", 3, 8, **rope(100.0, 1.0)), 3 * (8 + 8**2)),
        ("GPTNeoXForCausalLM", sized("gpt_neox", 3, 8, **rope(100.0, 0.0)), 2 * 3 * 8**2),
    ],
)
def test_the_group_of_one_attention_layer_has_the_dimension_of_p2(tmp_path, name, config, expected):
    report = described(tmp_path, name, config)
    assert report["attention_dimension"] == {f"layers.{i}.attention": expected for i in (0, 1)}
    assert report["dimension"] == sum(space["dimension"] for space in report["spaces"])
    inside = [space for space in report["spaces"] if space["fibres"]]
    assert sum(space["dimension"] for space in inside) == 2 * expected


GL, PERM, SIGNED, ORTHO, ONES = (
    "invertible", "permutation", "signed permutation", "orthogonal", "orthogonal fixing ones",
)  # fmt: skip
ROTARY, GLOBAL, POSITIVE, MONOMIAL = (
    "rotary", "permutation with global sign", "permutation with positive scaling", "permutation with signed scaling",
)  # fmt: skip
ABSOLUTE = {"heads": PERM, "qk": GL, "ov": GL}
ROPE = {"kv_heads": PERM, "queries": PERM, "qk": ROTARY, "ov": GL, "ffn": MONOMIAL}
NORMED = ROPE | {"qk": "pair signs", "qk_gain": "pair scaling"}

# class, tied?, activation: (residual as stored, residual in canonical form, every other space)
TABLE = [
    ("gpt2", "GPT2LMHeadModel", False, "gelu", GLOBAL, ONES, ABSOLUTE | {"ffn": PERM}),
    ("gpt2", "GPT2LMHeadModel", True, "relu", GLOBAL, ONES, ABSOLUTE | {"ffn": POSITIVE}),
    ("gpt2", "GPT2ForSequenceClassification", True, "gelu", GLOBAL, ONES, ABSOLUTE | {"ffn": PERM}),
    ("gpt2", "GPT2Model", True, "gelu", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": PERM}),
    ("gpt_neox", "GPTNeoXForCausalLM", False, "gelu", GLOBAL, ONES,
     {"heads": PERM, "qk_rotary": ROTARY, "qk_pass": GL, "ov": GL, "ffn": PERM}),
    ("gpt_neox", "GPTNeoXForCausalLM", True, "tanh", GLOBAL, ONES,
     {"heads": PERM, "qk_rotary": ROTARY, "qk_pass": GL, "ov": GL, "ffn": SIGNED}),
    ("gpt_neox", "GPTNeoXModel", False, "linear", GLOBAL, GLOBAL,
     {"heads": PERM, "qk_rotary": ROTARY, "qk_pass": GL, "ov": GL, "ffn": GL}),
    ("llama", "LlamaForCausalLM", False, "silu", SIGNED, ORTHO, ROPE),
    ("llama", "LlamaForCausalLM", True, "silu", SIGNED, ORTHO, ROPE),
    ("llama", "LlamaForTokenClassification", False, "silu", SIGNED, ORTHO, ROPE),
    ("llama", "LlamaModel", False, "relu", SIGNED, SIGNED, ROPE),
    ("mistral", "MistralForCausalLM", True, "silu", SIGNED, ORTHO, ROPE),
    ("mistral", "MistralModel", False, "silu", SIGNED, SIGNED, ROPE),
    ("qwen2", "Qwen2ForCausalLM", True, "silu", SIGNED, ORTHO, ROPE),
    ("qwen2", "Qwen2Model", False, "silu", SIGNED, SIGNED, ROPE),
    ("qwen3", "Qwen3ForCausalLM", True, "silu", SIGNED, ORTHO, NORMED),
    ("qwen3", "Qwen3Model", False, "silu", SIGNED, SIGNED, NORMED),
    ("bert", "BertForMaskedLM", False, "gelu", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": PERM, "mlm": PERM}),
    ("bert", "BertForMaskedLM", True, "gelu", PERM, GLOBAL, ABSOLUTE | {"ffn": PERM, "mlm": PERM}),
    ("bert", "BertForMaskedLM", True, "tanh", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": SIGNED, "mlm": GLOBAL}),
    ("bert", "BertForSequenceClassification", True, "gelu", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": PERM, "pooler": SIGNED}),
    ("bert", "BertForTokenClassification", True, "relu", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": POSITIVE}),
    ("bert", "BertModel", True, "gelu", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": PERM, "pooler": SIGNED}),
    ("vit", "ViTForImageClassification", False, "gelu", GLOBAL, ONES, ABSOLUTE | {"ffn": PERM}),
    ("vit", "ViTModel", False, "relu", GLOBAL, GLOBAL, ABSOLUTE | {"ffn": POSITIVE, "pooler": SIGNED}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model_type", "name", "tied", "activation", "stored", "canonical", "others"),
    TABLE,
    ids=[f"{name}-{'tied' if tied else 'untied'}-{act}" for _, name, tied, act, *_ in TABLE],
)
def test_families(tmp_path, model_type, name, tied, activation, stored, canonical, others):
    config = config_of(model_type, 1)  # partial rotary, grouped heads
    config.tie_word_embeddings, config.pooler_act = tied, "tanh"
    setattr(config, "activation_function" if model_type == "gpt2" else "hidden_act", activation)
    spaces = described(tmp_path, name, config)["spaces"]
    found = {space["name"].rpartition(".")[2]: space["family"] for space in spaces}
    assert found == {"residual": canonical, **others}
    assert {space["as_stored"] for space in spaces if space["name"] == "residual"} == {stored}


def test_every_model_class_is_described(tmp_path):
    for model_type, names in known().items():
        for name in names:
            report = describe(Checkpoint.open(random_folder(tmp_path / name, model_type, name, 2)))
            assert report["architecture"] == name
            assert report["parameters"] > 0


def test_the_reasons_are_given(tmp_path):
    spaces = {s["name"]: s for s in described(tmp_path, "GPT2LMHeadModel", config_of("gpt2", 1))["spaces"]}
    assert [op["operation"] for op in spaces["residual"]["because"]] == ["LayerNorm"]
    assert spaces["layers.0.qk"]["because"][0]["admits"] == "invertible"
    assert (spaces["layers.0.qk"]["base"], spaces["layers.0.qk"]["fibres"]) == ("layers.0.heads", 4)


def test_a_checkpoint_read_through_its_table_is_bit_identical(tmp_path):
    """Reading splits and reorders, writing puts together again."""
    for model_type, names in known().items():
        name = names[0]
        checkpoint = Checkpoint.open(random_folder(tmp_path / name, model_type, name, 1))
        for key, (stored, _) in checkpoint.stored.items():
            assert torch.equal(checkpoint.tensor(key), checkpoint.store.read(stored).double())


def test_outputs_are_those_of_the_stock_model(tmp_path):
    checkpoint = Checkpoint.open(random_folder(tmp_path / "m", "bert", "BertModel", 2))
    found = outputs(stock_model(checkpoint), checkpoint.spec, probe_inputs(checkpoint.spec))
    assert set(found) == {"last_hidden_state", "pooler_output"}

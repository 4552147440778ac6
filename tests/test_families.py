"""Families and group dimensions, as `inspect` reports them."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from helpers.random_models import config_of, random_folder, random_model, rope
from onebasin import Checkpoint, describe
from onebasin import families as fam
from onebasin.archs import known
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model


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


@pytest.mark.parametrize(("n", "m"), [(2, 2), (2, 5), (3, 4), (4, 4)])
def test_the_dimension_of_maps_that_are_no_group_is_what_their_equations_leave(n, m):
    def left(equations: torch.Tensor) -> int:
        return equations.shape[1] - int(torch.linalg.matrix_rank(equations))

    q = torch.linalg.qr(torch.randn(m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    basis = torch.eye(m * n, dtype=torch.float64).view(-1, m, n)
    metric = (q.T @ basis + basis.mT @ q).flatten(1).T  # qᵀx + xᵀq = 0
    assert fam.ISOMETRY.dimension(n, m) == left(metric)
    copies = torch.zeros(n, m)
    copies[torch.arange(m) % n, torch.arange(m)] = 1.0  # of the m copies of n units each has a share, which sum to one
    assert fam.SEMI_PERMUTATION.dimension(n, m) == left(copies)
    sums = torch.stack([torch.eye(n * n).view(n, n, n, n).sum(dim).flatten(0, 1) for dim in (2, 3)], -1)
    assert fam.DOUBLY_STOCHASTIC.dimension(n, n) == left(sums.flatten(1).T)

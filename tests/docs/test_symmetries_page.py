"""docs/symmetries.md: operations and derived families."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import transformers

from helpers.pages import DOCS, check_part, rows
from helpers.random_models import config_of, random_model, rope
from onebasin import Checkpoint, describe
from onebasin.archs import known
from onebasin.spec import ops

SYMMETRIES = DOCS / "symmetries.md"


def test_the_page_of_symmetries_lists_the_operations():
    every = [
        ops.layer_norm(gain=False), ops.layer_norm(gain=True), ops.rms_norm(gain=False), ops.rms_norm(gain=True),
        *(ops.elementwise(name) for name in ("gelu", "relu", "tanh", "linear")), ops.gated("silu"),
        ops.elementwise("clip"), ops.head_sum(), ops.head_slopes(), ops.expert_sum(), ops.bilinear(), ops.soft_cap(),
        ops.rope(), ops.qk_norm(), ops.joint_qk_norm(), ops.gain_product(), ops.tied(),
        ops.layer_scale(), ops.angle(), ops.returned(),
    ]  # fmt: skip
    makers = [
        name for name, make in vars(ops).items() if getattr(make, "__module__", "") == ops.__name__ and name != "Op"
    ]
    assert len(makers) == 17, "a new operation belongs on the page and into this list"
    shown = rows(SYMMETRIES, "operation | largest family | reason")
    assert shown == [[op.name, op.admits.name, op.why] for op in every]


SMALL = {"hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 4, "num_labels": 3}
TEXT = {"vocab_size": 11, "max_position_embeddings": 8, "pad_token_id": 0}
GATED = SMALL | TEXT | {"num_key_value_heads": 2}
GPT2 = {
    "n_embd": 16, "n_layer": 1, "n_head": 4, "vocab_size": 11, "n_positions": 8, "activation_function": "gelu",
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
PARTIAL = rope(100.0, 0.5)
IMAGE = {"image_size": 8, "patch_size": 4}
SHOWN = {  # (architecture, variant): a class and its configuration
    ("GPT-2", "untied"): ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, tie_word_embeddings=False)),
    ("GPT-2", "tied"): ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, tie_word_embeddings=True)),
    ("GPT-2", "base"): ("GPT2Model", lambda: transformers.GPT2Config(**GPT2)),
    ("GPT-NeoX", ""): (
        "GPTNeoXForCausalLM",
        lambda: transformers.GPTNeoXConfig(**SMALL, **TEXT, hidden_act="gelu", **PARTIAL),
    ),
    ("Llama", "untied"): ("LlamaForCausalLM", lambda: transformers.LlamaConfig(**GATED, tie_word_embeddings=False)),
    ("Llama", "base"): ("LlamaModel", lambda: transformers.LlamaConfig(**GATED)),
    ("Mistral", ""): ("MistralForCausalLM", lambda: transformers.MistralConfig(**GATED, head_dim=4)),
    ("Qwen2", "untied"): ("Qwen2ForCausalLM", lambda: transformers.Qwen2Config(**GATED, tie_word_embeddings=False)),
    ("Qwen2", "tied"): ("Qwen2ForCausalLM", lambda: transformers.Qwen2Config(**GATED, tie_word_embeddings=True)),
    ("Qwen3", ""): ("Qwen3ForCausalLM", lambda: transformers.Qwen3Config(**GATED, head_dim=6)),
    ("ViT", "classifier"): ("ViTForImageClassification", lambda: transformers.ViTConfig(**SMALL, **IMAGE)),
    ("ViT", "base"): ("ViTModel", lambda: transformers.ViTConfig(**SMALL, **IMAGE)),
    ("BERT", "token labels"): ("BertForTokenClassification", lambda: transformers.BertConfig(**SMALL, **TEXT)),
    ("BERT", "sequence labels"): ("BertForSequenceClassification", lambda: transformers.BertConfig(**SMALL, **TEXT)),
    ("BERT", "masked LM untied"): (
        "BertForMaskedLM", lambda: transformers.BertConfig(**SMALL, **TEXT, tie_word_embeddings=False)
    ),
    ("BERT", "masked LM tied"): (
        "BertForMaskedLM", lambda: transformers.BertConfig(**SMALL, **TEXT, tie_word_embeddings=True)
    ),
}  # fmt: skip
for kind in sorted(known().keys() - {config().model_type for _, config in SHOWN.values()}):  # as the tests draw it
    SHOWN[kind, ""] = known()[kind][-1], lambda kind=kind: config_of(kind, 0)
SPACES = (
    "residual", "embedding", "projection", "heads", "kv_heads", "queries", "qk", "qk_rotary", "qk_pass", "qk_gain",
    "ov", "ffn", "pooler", "mlm", "head", "tokens", "projected",
)  # fmt: skip


def spaces_of(folder: Path, label: tuple[str, str]) -> dict[str, dict]:
    """The spaces of a model with one layer, by kind, as `describe` gives them."""
    name, config = SHOWN[label]
    random_model(name, config(), 0).save_pretrained(folder / name)
    spaces = describe(Checkpoint.open(folder / name))["spaces"]
    shutil.rmtree(folder / name)
    return {re.sub(r"(.*\.)?layers\.\d+\.", "", space["name"]).rpartition(".")[2]: space for space in spaces}


def who(labels: list[tuple[str, str]]) -> str:
    """An architecture alone stands for all of its variants."""
    if len(labels) == len(SHOWN):
        return "all"
    words = []
    for architecture in dict.fromkeys(architecture for architecture, _ in labels):
        here = [variant for name, variant in labels if name == architecture]
        everything = len(here) == sum(name == architecture for name, _ in SHOWN)
        words.append(architecture if everything else f"{architecture} ({', '.join(here)})")
    return ", ".join(words)


def family_table(folder: Path) -> str:
    """One row for each kind of space that differs from the others; the last column says which models have it."""
    having: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for label in SHOWN:
        for kind, space in spaces_of(folder, label).items():
            because = ", ".join(sorted(op["operation"] for op in space["because"])) or "linear maps only"
            having.setdefault((kind, space["as_stored"] or "not there", space["family"], because), []).append(label)
    lines = ["| space | as stored | canonical form | because of | models |", "|---|---|---|---|---|"]
    lines += [
        f"| {' | '.join(row)} | {who(having[row])} |"
        for row in sorted(having, key=lambda r: (*SPACES, r[0]).index(r[0]))
    ]
    return "\n".join(lines)


@pytest.mark.page
def test_the_page_of_symmetries_shows_the_derived_families(tmp_path):
    check_part(SYMMETRIES, "<!-- families -->\n", "\n<!-- /families -->", family_table(tmp_path))


def test_the_page_shows_every_model_type():
    assert {config().model_type for _, config in SHOWN.values()} == set(known())


def test_group_dimensions_on_the_page(tmp_path):
    """H·2d², H·(d + d²) and H·(d_r + (d − d_r)² + d²) a layer, with H key/value heads; both residual streams."""
    attention = {("GPT-2", "untied"): 4 * 2 * 16, ("Llama", "untied"): 2 * (4 + 16), ("GPT-NeoX", ""): 4 * (2 + 4 + 16)}
    residual = {("GPT-2", "untied"): 15 * 14 // 2, ("Llama", "untied"): 16 * 15 // 2, ("GPT-NeoX", ""): 15 * 14 // 2}
    for label, dimension in attention.items():
        spaces = spaces_of(tmp_path, label)
        assert sum(space["dimension"] for kind, space in spaces.items() if kind.startswith(("qk", "ov"))) == dimension
        assert spaces["residual"]["dimension"] == residual[label]

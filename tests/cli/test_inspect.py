"""`inspect`: spaces, families and reasons of one model; what blocks or is widened between two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.folders import edit_config, llama
from helpers.random_models import random_folder, rope
from onebasin.cli.output import duration


def test_inspect_prints_spaces_families_and_reasons(cli, pristine):
    code, out, err = cli("inspect", pristine / "a")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "orthogonal" in lines["residual"]
    assert "RMSNorm" in lines["residual"]
    assert "rotary" in lines["layers.*.qk"]
    assert "linear maps only" in lines["layers.*.ov"]
    assert lines["LlamaForCausalLM"].endswith(str(pristine / "a"))
    assert "group dimension" in out
    assert "memory" in out
    assert "time on this CPU: align two of these" in out


def test_inspect_says_what_is_tied_and_what_stays(cli, pristine, tmp_path):
    _, out, _ = cli("inspect", pristine / "gpt2")
    assert "head tied to transformer.wte.weight" in out
    _, out, _ = cli("inspect", random_folder(tmp_path / "bert", "bert", "BertModel", 2))
    assert "gain(s) stay, embeddings.LayerNorm first: post-norm" in out


def test_inspect_json_is_everything(cli, pristine):
    code, out, _ = cli("inspect", pristine / "a", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["architecture"] == "LlamaForCausalLM"
    assert report["dimension"] == sum(space["dimension"] for space in report["spaces"])
    assert {"name", "size", "fibres", "family", "as_stored", "because"} <= set(report["spaces"][0])


def test_inspect_reads_headers_only(cli, copy, monkeypatch):
    monkeypatch.setattr("onebasin.checkpoint.store.Store.read", lambda *_: pytest.fail("read a tensor"))
    folder = copy()
    assert cli("inspect", folder)[0] == 0
    assert cli("inspect", folder, folder)[0] == 0


def test_inspect_a_pair(cli, pristine):
    code, out, _ = cli("inspect", pristine / "a", pristine / "b")
    assert code == 0
    assert out.splitlines()[-1].startswith("ready: nothing blocks an alignment; next: onebasin align ")
    code, out, _ = cli("inspect", pristine / "a", pristine / "b", "--json")
    pair = json.loads(out)
    assert (code, pair["alignable"], pair["obstacles"]) == (0, True, [])
    assert pair["a"]["dimension"] == pair["b"]["dimension"]


def blocked(cli, a: Path, b: Path) -> list[str]:
    """What the command says blocks the pair, the same in text and JSON; exit code 1."""
    code, out, _ = cli("inspect", a, b)
    assert code == 1
    assert out.splitlines()[-1].startswith("not ready: these two cannot be aligned as they are (")
    code, text, _ = cli("inspect", a, b, "--json")
    pair = json.loads(text)
    assert (code, pair["alignable"]) == (1, False)
    blocks = [o for o in pair["obstacles"] if o["blocks"]]
    assert all(f"blocks: {o['what']}" in out and o["next_step"] for o in blocks)
    return [o["what"] for o in blocks]


def test_another_class_blocks(cli, pristine):
    assert blocked(cli, pristine / "a", pristine / "classifier") == ["model class"]
    assert blocked(cli, pristine / "a", pristine / "gpt2") == ["model class"]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"num_hidden_layers": 2}, "number of layers"),
        ({"vocab_size": 23}, "length of a labelled axis of model.embed_tokens.weight"),
        ({"mlp_bias": False}, "tensors"),
        ({"hidden_act": "relu"}, "operations on layers.0.ffn"),
        ({"rms_norm_eps": 0.0}, "size or eps"),
        (rope(77.0), "rope"),
    ],
)
def test_another_shape_or_computation_blocks(cli, pristine, tmp_path, settings, what):
    assert what in blocked(cli, pristine / "a", llama(tmp_path / "b", **settings))


@pytest.mark.parametrize(
    ("settings", "growth"),
    [
        ({"hidden_size": 24, "num_attention_heads": 6}, "B: residual 24 -> 36, heads 6 -> 9"),
        ({"intermediate_size": 7}, "FFN"),
        ({"num_key_value_heads": 1}, "key/value heads"),
        ({"rms_norm_eps": 0.25}, "B: eps 0.25 -> 1e-06"),
    ],
)
def test_another_size_or_eps_is_widened(cli, pristine, tmp_path, settings, growth):
    code, out, _ = cli("inspect", pristine / "a", llama(tmp_path / "b", **settings))
    assert code == 0
    assert "note: size or eps" in out
    assert growth in out.split("widened first, exactly")[1]


def test_another_tie_is_no_obstacle(cli, pristine, tmp_path):
    code, out, _ = cli("inspect", pristine / "a", llama(tmp_path / "b", tie_word_embeddings=True))
    assert code == 0
    assert "note: tied embeddings" in out


def tokenizer_json(order: list[str]) -> dict[str, str]:
    return {"tokenizer.json": json.dumps({"model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(order)}}})}


def unigram_json(order: list[str]) -> dict[str, str]:
    return {"tokenizer.json": json.dumps({"model": {"type": "Unigram", "vocab": [[t, -1.0] for t in order]}})}


def vocab_json(order: list[str]) -> dict[str, str]:
    return {"vocab.json": json.dumps({t: i for i, t in enumerate(order)})}


def vocab_txt(order: list[str]) -> dict[str, str]:
    return {"vocab.txt": "\n".join(order) + "\n"}


@pytest.mark.parametrize("kind", [tokenizer_json, unigram_json, vocab_json, vocab_txt])
def test_another_vocabulary_blocks_and_another_order_does_not(cli, copy, kind):
    a, b = copy(to="a"), copy(to="b")
    for folder, order in ((a, ["the", "cat", "sat"]), (b, ["the", "dog", "sat"])):
        for name, text in kind(order).items():
            (folder / name).write_text(text)
    assert blocked(cli, a, b) == ["list of tokens"]
    for name, text in kind(["the", "sat", "cat"]).items():
        (b / name).write_text(text)
    code, out, _ = cli("inspect", a, b)
    assert code == 0
    assert "note: order of tokens: A has 'cat' at 1, B has 'cat' at 2" in out


def test_other_classes_block_and_another_order_does_not(cli, copy):
    a, b = copy("vit", "a"), copy("vit", "b")
    edit_config(a, id2label={"0": "cat", "1": "dog", "2": "owl"})
    edit_config(b, id2label={"0": "dog", "1": "cat", "2": "fox"})
    assert blocked(cli, a, b) == ["list of classes"]
    edit_config(b, id2label={"0": "dog", "1": "cat", "2": "owl"})
    code, out, _ = cli("inspect", a, b)
    assert code == 0
    assert "note: order of classes: A has 'cat' at 0, B has 'cat' at 1" in out


def test_other_preprocessing_blocks(cli, copy):
    a, b = copy("vit", "a"), copy("vit", "b")
    (a / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5], "size": 8, "image_processor": "x"}))
    (b / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.4], "size": 8, "image_processor": "y"}))
    assert blocked(cli, a, b) == ["preprocessing: image_mean"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.01, "under 0.1 s"), (0.34, "0.3 s"), (42.4, "42 s"), (90, "2 min"), (1500, "25 min"), (7200, "2 h"),
     (300_000, "3.5 days")],
)  # fmt: skip
def test_times_in_words(seconds, said):
    assert duration(seconds) == said

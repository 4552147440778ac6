"""Each bad input is refused with one clear error, exit code 2, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from helpers.folders import contents, edit_config, edit_weights
from onebasin import Checkpoint
from onebasin.archs.rotary import before_5

FIRST = "model.layers.0.self_attn.q_proj.weight"


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def corrupt(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(b"\xff" * 64 + file.read_bytes()[64:])


def pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def custom_code(folder: Path) -> None:
    (folder / "modeling_own.py").write_text("raise SystemExit('this code must never run')\n")
    edit_config(folder, model_type="own", auto_map={"AutoModelForCausalLM": "modeling_own.OwnModel"})


def adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def shards(folder: Path) -> None:
    """An index that names a file which is not there."""
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {FIRST: "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


BAD = {  # name -> what is done to the folder, what the error must say (what, tensor, expected, found, next step)
    "truncated": (truncate, ["model.safetensors cannot be read", "found:", "next step: the file is damaged"]),
    "corrupt": (corrupt, ["model.safetensors cannot be read", "found:", "next step: the file is damaged"]),
    "missing shard": (shards, ["not in the folder", "expected: model-00001-of-00002.safetensors", "next step:"]),
    "missing tensor": (
        lambda folder: edit_weights(folder, lambda t: t.pop(FIRST)),
        ["lacks a tensor that LlamaForCausalLM needs", f"tensor: {FIRST}", "expected:", "found:", "next step: load"],
    ),
    "extra tensor": (
        lambda folder: edit_weights(folder, lambda t: t.update(odd=torch.ones(2))),
        ["holds a tensor that LlamaForCausalLM does not have", "tensor: odd", "expected:", "found:", "next step: load"],
    ),
    "other width in config": (
        lambda folder: edit_config(folder, intermediate_size=13),
        ["disagree about a shape", "tensor: model.layers.0.mlp", "expected: (13, 36)", "found: (12, 36)", "next step:"],
    ),
    "more layers in config": (
        lambda folder: edit_config(folder, num_hidden_layers=2),
        ["lacks a tensor", "tensor: model.layers.1", "next step:"],
    ),
    "no layers in config": (
        lambda folder: edit_config(folder, num_hidden_layers=0),
        ["holds a tensor", "tensor: model.layers.0", "next step:"],
    ),
    "zero heads in config": (
        lambda folder: edit_config(folder, num_attention_heads=0, head_dim=None),
        ["config.json", "next step: correct"],
    ),
    "nonsense in config": (
        lambda folder: edit_config(folder, hidden_size="wide"),
        ["config.json", "found:", "next step: correct"] if before_5() else  # 4.x takes a word for a number
        ["config.json is not a valid llama configuration", "found:", "hidden_size", "next step: correct"],
    ),
    "unknown type": (
        lambda folder: edit_config(folder, model_type="rwkv"),
        ["No table describes model_type 'rwkv'", "expected: albert, bert,", "found: rwkv", "next step: add one"],
    ),
    "type of another kind": (
        lambda folder: edit_config(folder, model_type=["llama"]),
        ["No table describes model_type ['llama']", "next step: add one"],
    ),
    "unknown class": (
        lambda folder: edit_config(folder, architectures=["LlamaForQuestionAnswering"]),
        ["does not cover this model class", "LlamaForCausalLM", "found: LlamaForQuestionAnswering", "next step: set"],
    ),
    "classes of another kind": (
        lambda folder: edit_config(folder, architectures={"LlamaForCausalLM": 1}),
        ["does not cover this model class", "expected: LlamaModel", "next step: set"],
    ),
    "config not JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        ["config.json is not valid JSON", "found:", "next step:"],
    ),
    "no config": (lambda folder: (folder / "config.json").unlink(), ["has no config.json", "next step:"]),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        ["has no weights", "expected: model.safetensors", "found: no safetensors file", "next step: give a folder"],
    ),
    "pickle only": (
        pickle_only,
        ["pickle weights only", "expected: model.safetensors", "found: pytorch_model.bin", "save_pretrained"],
    ),
    "custom code": (custom_code, ["No table describes model_type 'own'", "expected: albert,", "next step:"]),
    "quantised by config": (
        lambda folder: edit_config(folder, quantization_config={"quant_method": "gptq"}),
        ["is quantised", "found: quantization_config", "next step: use the original checkpoint, or dequantise it"],
    ),
    "quantised tensors": (
        lambda folder: edit_weights(folder, lambda t: t.update({FIRST: t[FIRST].to(torch.int8)})),
        ["is quantised", f"tensor: {FIRST}", "found: I8", "next step: use the original checkpoint"],
    ),
    "adapter": (adapter, ["is an adapter", "found: adapter_config.json", "next step: merge it"]),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["inspect", "verify"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(cli, copy, tmp_path, verb, case):
    damage, says = BAD[case]
    folder = copy()
    damage(folder)
    before = contents(tmp_path)
    code, out, err = cli(verb, folder)
    assert (code, out) == (2, "")
    assert err.startswith("onebasin: ")
    assert [piece for piece in says if piece not in err] == []
    assert "Traceback" not in err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("field", ["image_size", "patch_size"])
@pytest.mark.parametrize("size", [[], [8], [8, 8, 8]])
def test_a_size_that_is_no_height_and_width_is_refused(cli, copy, field, size):
    folder = copy("vit")
    edit_config(folder, **{field: size})
    code, out, err = cli("inspect", folder)
    assert (code, out) == (2, "")
    for piece in ("no height and width", "expected: 32 or [32, 32]", f"found: {size}", "next step: correct image_size"):
        assert piece in err
    edit_config(folder, image_size=[8, 8], patch_size=Checkpoint.open(copy("vit", "whole")).config["patch_size"])
    assert cli("inspect", folder)[0] == 0


def test_bad_input_beside_good_input_is_refused(cli, copy, pristine):
    folder = copy()
    truncate(folder)
    assert cli("inspect", pristine / "a", folder)[0] == 2
    assert cli("inspect", folder, pristine / "a")[0] == 2


@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.json"])
def test_a_damaged_tokenizer_is_refused(cli, copy, pristine, file):
    folder = copy()
    (folder / file).write_text("{")
    code, out, err = cli("inspect", pristine / "a", folder)
    assert (code, out) == (2, "")
    assert f"{file} is not valid JSON" in err


@pytest.mark.parametrize(("value", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")])
def test_numbers_that_are_not_finite_are_refused(cli, copy, value, shown):
    folder = copy()
    edit_weights(folder, lambda t: t[FIRST].view(-1).__setitem__(5, value))
    said = (
        "not finite",
        f"tensor: {FIRST}",
        "expected: finite",
        f"found: 1 of 1296, first {shown} at (0, 5)",
        "next step:",
    )
    for arguments in (["verify", folder], ["widen", folder, "--set", "intermediate_size=99", "-o", folder / "out"]):
        code, out, err = cli(*arguments)
        assert (code, out) == (2, "")
        assert [piece for piece in said if piece not in err] == []


def test_a_tie_between_different_tensors_is_refused(cli, copy):
    folder = copy("gpt2")
    edit_weights(folder, lambda t: t.update({"lm_head.weight": t["transformer.wte.weight"] + 1}))
    code, out, err = cli("verify", folder)
    assert (code, out) == (2, "")
    for piece in ("ties two tensors", "tensor: lm_head.weight", "transformer.wte.weight", "next step: set tie_word"):
        assert piece in err


def test_custom_code_is_never_run(cli, copy):
    """A known architecture with code of its own is read as data."""
    folder = copy()
    custom_code(folder)
    edit_config(folder, model_type="llama")
    assert cli("inspect", folder)[0] == 0
    assert cli("verify", folder)[0] == 0


def test_a_path_that_is_not_there(cli, tmp_path):
    code, out, err = cli("inspect", tmp_path / "absent")
    assert (code, out) == (2, "")
    assert "there is no folder" in err
    assert "next step: check the path" in err


def test_the_traceback_is_shown_on_request(cli, copy):
    folder = copy()
    truncate(folder)
    code, out, err = cli("--debug", "inspect", folder)
    assert (code, out) == (2, "")
    assert "Traceback" in err
    assert err.rstrip().splitlines()[-1].startswith("  next step:")

"""`inspect A B --weights`: one basin already, independent, or between; and which layers say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import onebasin
from helpers.folders import edit_config, edit_weights, llama
from helpers.pairs import scrambled
from onebasin import Checkpoint, canonicalize

SHAPE = {"num_hidden_layers": 3, "vocab_size": 97}


@pytest.fixture(scope="module")
def a(tmp_path_factory) -> Path:
    return llama(tmp_path_factory.mktemp("a") / "a", **SHAPE)


def noisy(a: Path, to: Path, share: float, where: str = "") -> Path:
    """A copy whose matrices moved away from those of `a` by so much of their own length."""
    generator = torch.Generator().manual_seed(1)

    def change(tensors):
        for name, x in tensors.items():
            if x.ndim > 1 and where in name:
                noise = torch.randn(x.shape, generator=generator)
                x += share * noise * x.norm() / noise.norm()

    shutil.copytree(a, to)
    edit_weights(to, change)
    return to


def looked(cli, a: Path, b: Path) -> tuple[int, dict, list[str]]:
    """(exit code, what JSON says of the weights, the lines that people see)."""
    code, out, _ = cli("inspect", a, b, "--weights")
    again, text, _ = cli("inspect", a, b, "--weights", "--json")
    assert code == again
    return code, json.loads(text)["weights"], out.splitlines()


def test_other_first_weights_are_independent(cli, a, tmp_path):
    code, weights, lines = looked(cli, a, llama(tmp_path / "b", weights=1, **SHAPE))
    assert (code, weights["verdict"], weights["note"]) == (0, "independent", "quick match of all layers")
    assert lines[-2].startswith("independent: no common ancestor is visible (median cosine ")
    assert lines[-1].startswith("ready: nothing blocks an alignment; next: onebasin align ")
    assert all(abs(layer["stored"]) < 0.1 for layer in weights["layers"])
    assert sum("·" in line and "model.layers." in line for line in lines) == 3
    for line, (name, heads) in zip(lines[-4:-2], weights["heads"].items(), strict=True):
        assert line.startswith(
            f"heads of {name.upper()}: the weakest direction inside is {heads['weakest']['weakest']:.2g}"
        )


def test_a_fine_tuned_copy_needs_no_alignment(cli, a, tmp_path):
    code, weights, lines = looked(cli, a, noisy(a, tmp_path / "b", 0.1))
    assert (code, weights["verdict"]) == (0, "one basin")
    assert all(layer["stored"] > 0.98 and layer["matched"] > 0.98 for layer in weights["layers"])
    assert lines[-1].startswith("nothing to align: the two have a common ancestor; next: average them as they are")


def test_a_copy_that_has_gone_far_still_shows_its_ancestor(cli, a, tmp_path):
    code, weights, lines = looked(cli, a, noisy(a, tmp_path / "b", 1.0))
    assert (code, weights["verdict"]) == (0, "common ancestor")
    assert weights["cosine"] == pytest.approx(0.5**0.5, abs=0.05)
    assert "in 3 of 3 layers" in lines[-2]
    assert "next: onebasin barrier" in lines[-1]


def test_layers_that_disagree_are_between(cli, a, tmp_path):
    _, weights, lines = looked(cli, a, noisy(a, tmp_path / "b", 100.0, where="layers.1."))
    assert weights["verdict"] == "between"
    assert "in 2 of 3 layers" in lines[-2]


def test_the_quick_match_sees_what_the_stored_weights_hide(cli, a, tmp_path):
    """A scrambled copy computes the same: as stored it is a stranger, and the match finds most of it again."""
    scrambled(canonicalize(Checkpoint.open(a)).checkpoint, 3).save(tmp_path / "b")
    _, weights, _ = looked(cli, a, tmp_path / "b")
    _, strangers, _ = looked(cli, a, llama(tmp_path / "c", weights=1, **SHAPE))
    assert weights["verdict"] == "independent"
    found, by_chance = (min(layer["matched"] for layer in each["layers"]) for each in (weights, strangers))
    assert found > 2 * by_chance


@pytest.mark.parametrize("turned", [False, True])
def test_models_of_unequal_depth_are_paired_layer_for_layer(cli, a, tmp_path, turned):
    """B has layers 0 and 2 of A."""
    b = noisy(a, tmp_path / "b", 0.1)
    tensors = {x: y for x, y in load_file(b / "model.safetensors").items() if ".layers.1." not in x}
    kept = {name.replace(".layers.2.", ".layers.1."): x for name, x in tensors.items()}
    save_file(kept, b / "model.safetensors", metadata={"format": "pt"})
    edit_config(b, num_hidden_layers=2)
    code, weights, lines = looked(cli, *((b, a) if turned else (a, b)))
    sides = [("a", "b"), ("b", "a")][turned]
    found = [tuple(layer[side][-1] for side in sides) for layer in weights["layers"]]
    assert (code, weights["verdict"], found) == (1, "one basin", [("0", "0"), ("2", "1")])
    assert all(layer["matched"] > 0.98 for layer in weights["layers"])
    assert "take the layers paired above from the deeper model" in lines[-1]


def test_strangers_of_unequal_depth_are_spread_evenly(cli, a, tmp_path):
    _, weights, _ = looked(cli, a, llama(tmp_path / "b", weights=1, **{**SHAPE, "num_hidden_layers": 2}))
    found = [(layer["a"][-1], layer["b"][-1]) for layer in weights["layers"]]
    assert (weights["verdict"], found) == ("independent", [("0", "0"), ("2", "1")])
    assert all(layer["matched"] is not None for layer in weights["layers"])


def test_models_without_a_table_are_compared_as_stored(cli, a, tmp_path):
    folders = Path(shutil.copytree(a, tmp_path / "a")), noisy(a, tmp_path / "b", 0.1)
    for folder in folders:
        edit_config(folder, model_type="novel", architectures=["NovelForCausalLM"])
    code, weights, lines = looked(cli, *folders)
    assert (code, weights["verdict"]) == (1, "one basin")
    assert weights["note"] == "no quick match: no table describes these models"
    assert lines[0] == "blocks: an architecture without a table: A has NovelForCausalLM, B has NovelForCausalLM"
    assert cli("inspect", *folders)[0] == 2


@pytest.mark.parametrize("which", [0, 1])
def test_one_model_without_a_table_is_enough_to_compare_them_as_stored(cli, a, tmp_path, which):
    folders, names = (Path(shutil.copytree(a, tmp_path / "a")), noisy(a, tmp_path / "b", 0.1)), ["LlamaForCausalLM"] * 2
    names[which] = "NovelForCausalLM"
    edit_config(folders[which], model_type="novel", architectures=names[which:][:1])
    code, weights, lines = looked(cli, *folders)
    assert (code, weights["verdict"]) == (1, "one basin")
    assert weights["note"] == "no quick match: no table describes these models"
    assert lines[0] == f"blocks: an architecture without a table: A has {names[0]}, B has {names[1]}"


def test_deep_models_with_a_tied_head_are_matched_in_part(cli, tmp_path):
    shape = {**SHAPE, "num_hidden_layers": 6, "tie_word_embeddings": True}
    a, b = (llama(tmp_path / str(i), weights=i, **shape) for i in range(2))
    code, weights, _ = looked(cli, a, b)
    assert (code, weights["note"]) == (0, "quick match of 4 of 6 layers")
    assert [layer["matched"] is None for layer in weights["layers"]] == [False, True, False, False, True, False]


def test_another_width_has_no_entries_in_common(cli, a, tmp_path):
    narrow = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 7}
    code, weights, lines = looked(cli, a, llama(tmp_path / "b", **{**SHAPE, **narrow}))
    assert (code, weights["verdict"], weights["layers"]) == (0, "not comparable", [])
    assert lines[-2].startswith("not comparable as stored")
    assert lines[-1].startswith("ready")


def test_another_vocabulary_is_compared_but_not_matched(cli, a, tmp_path):
    _, weights, _ = looked(cli, a, llama(tmp_path / "b", weights=1, **{**SHAPE, "vocab_size": 98}))
    assert weights["verdict"] == "independent"
    assert weights["note"].startswith("no quick match: length of a labelled axis of model.embed_tokens.weight")
    assert all(layer["matched"] is None for layer in weights["layers"])


def test_what_cannot_be_compared_is_refused(cli, a, tmp_path):
    code, _, err = cli("inspect", a, "--weights")
    assert (code, err.splitlines()[0]) == (2, "onebasin: --weights compares two models")
    b = Path(shutil.copytree(a, tmp_path / "b"))
    edit_weights(b, lambda tensors: tensors["model.layers.1.mlp.up_proj.weight"].fill_(float("nan")))
    code, _, err = cli("inspect", a, b, "--weights")
    assert code == 2
    assert "tensor: model.layers.1.mlp.up_proj.weight" in err


def test_a_zero_matrix_has_no_direction(cli, a, tmp_path):
    b = noisy(a, tmp_path / "b", 0.1)
    edit_weights(b, lambda tensors: tensors["model.layers.1.mlp.up_proj.weight"].zero_())
    _, weights, _ = looked(cli, a, b)
    assert weights["verdict"] == "one basin"
    assert [len(layer["tensors"]) for layer in weights["layers"]] == [7, 6, 7]


def test_python_says_the_same(a, tmp_path):
    b = noisy(a, tmp_path / "b", 0.1)
    found = onebasin.inspect(a, b, weights=True)
    assert found.verdict == "one basin"
    assert "one basin already" in repr(found)
    assert onebasin.inspect(a, b).verdict is None
    with pytest.raises(onebasin.OnebasinError, match="compares two models"):
        onebasin.inspect(a, weights=True)

"""The tables claim every entry of a stored tensor once, and are bound to the names in a file."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.random_models import config_of
from onebasin.archs import declare, known, lookup
from onebasin.errors import LayoutMismatch, UnclaimedTensor, UnknownArchitecture
from onebasin.families import Rep
from onebasin.spec import Axis, Leaf, ModelSpec, View
from onebasin.spec.checks import check_partition
from onebasin.spec.pieces import Piece


def claim(view: str = "(t k) d", axes: tuple = (("k", 0, 4), ("d", 0, 5)), **picks: int) -> Leaf:
    """A part of a tensor of 2 × 4 rows and 5 columns; axes are (letter, start, stop)."""
    layout = View(view, ("t", "k", "d"), (("t", 2), ("k", 4), ("d", 5)))
    return Leaf("leaf", "w", layout, tuple((x, None, a, b) for x, a, b in axes), tuple(picks.items()))


def test_a_partition_is_accepted_and_tells_the_stored_shape():
    halves = (("k", 0, 1), ("d", 0, 5)), (("k", 1, 4), ("d", 0, 5))
    parts = [claim(t=0), claim(axes=halves[0], t=1), claim(axes=halves[1], t=1)]
    assert check_partition("w", parts) == (8, 5)


def test_a_piece_lies_in_the_leaves_that_have_some_of_it():
    """Of t = 1 and the third k: row two of a leaf that begins at the second k, and none of one that ends there."""
    layout = View("(t k) d", ("t", "k", "d"), (("t", 2), ("k", 4), ("d", 5)))
    piece = Piece("w", layout, (("t", 1), ("k", 2)))
    assert (piece.stored, piece.order, piece.shape) == ("(d)", ("d",), (5,))
    assert piece.index == (1, 2, slice(None))
    assert piece.inside(claim(axes=(("k", 1, 4), ("d", 0, 5)), t=1)) == ((slice(0, 5),), (1, slice(None)))
    assert piece.inside(claim(axes=(("k", 1, 3), ("d", 2, 4)), t=1)) == ((slice(2, 4),), (1, slice(None)))
    for other in (claim(axes=(("k", 0, 2), ("d", 0, 5)), t=1), claim(axes=(("k", 3, 4), ("d", 0, 5)), t=1), claim(t=0)):
        assert piece.inside(other) is None


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


def test_a_name_without_the_prefix_is_understood_and_an_unknown_one_left_alone():
    spec = table()
    for stored in ("transformer.wte.weight", "wte.weight"):
        assert spec.table_name(stored) == "transformer.wte.weight"
    for stored in ("nonsense.weight", "transformer.nonsense.weight", "lm_head.weight"):
        assert spec.table_name(stored) == stored


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
    assert caught.value.expected == ", ".join(known())
    assert {"bert", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "vit"} <= known().keys()
    assert "Add an architecture" in caught.value.next_step
    for architectures, found in (
        (["GPT2DoubleHeadsModel"], "GPT2DoubleHeadsModel"),
        (None, "no 'architectures' entry"),
        ([], "no 'architectures' entry"),
    ):
        with pytest.raises(UnknownArchitecture) as caught:
            lookup("gpt2", architectures)
        assert caught.value.expected == ", ".join(known()["gpt2"])
        assert found in caught.value.found

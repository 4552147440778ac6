"""Another order of tokens and classes, and fewer positions, on every table: the model computes what it did."""

from __future__ import annotations

import pytest
import torch
import transformers

from helpers.classes import any_of_each_type, one_of_each_type
from helpers.random_models import config_of, random_folder, random_model
from onebasin import Checkpoint
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.labels.pairs import at_one_length
from onebasin.labels.rewrites import CLASSES, TOKENS, lengths, positions, reorder, shorten
from onebasin.spec import Tokens

EXACT = 1e-12


def fixed(checkpoint: Checkpoint) -> set[int]:
    """Numbers that configuration or table give a meaning: their tokens stay."""
    known = {value for key, value in checkpoint.config.items() if key.endswith("_token_id")}
    kinds = [kind for kind in checkpoint.spec.inputs.values() if isinstance(kind, Tokens)]
    return {x for x in known if isinstance(x, int)} | {x for kind in kinds for x in (*kind.fixed, kind.end)} - {None}


def orders_of(checkpoint: Checkpoint) -> dict[str, list[int]]:
    """A random order on each labelled axis that has one."""
    found, dice = {}, torch.Generator().manual_seed(5)
    for letter, size in lengths(checkpoint.spec).items():
        if letter in (TOKENS, CLASSES):
            stay = fixed(checkpoint) if letter == TOKENS else set()
            free = torch.tensor([i for i in range(size) if i not in stay], dtype=torch.long)
            order = torch.arange(size)
            order[free] = free[torch.randperm(len(free), generator=dice)]
            found[letter] = order.tolist()
    return found


def said(checkpoint: Checkpoint, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return outputs(stock_model(checkpoint), checkpoint.spec, inputs)


def apart(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> float:
    return max(float((one[name] - two[name]).abs().max()) for name in one)


@any_of_each_type()
def test_another_order_is_the_same_model_with_other_numbers(tmp_path, model_type, name):
    checkpoint = Checkpoint.open(random_folder(tmp_path / "model", model_type, name, 3))
    orders = orders_of(checkpoint)
    if all(order == sorted(order) for order in orders.values()):
        pytest.skip("nothing is labelled that could move")
    moved, inputs = reorder(checkpoint, orders), probe_inputs(checkpoint.spec, seed=1)
    tokens = torch.tensor(orders.get(TOKENS, []))
    others = {key: tokens[x] if len(tokens) and key.endswith("input_ids") else x for key, x in inputs.items()}
    found, expected = said(moved, inputs), said(checkpoint, others)
    said_of = CLASSES if CLASSES in orders else TOKENS
    if "logits" in expected:
        expected["logits"] = expected["logits"][..., torch.tensor(orders[said_of])]
    assert apart(found, expected) < EXACT
    assert apart(found, said(checkpoint, inputs)) > 1e-3  # the control: without the numbers it is another model


def longer(tmp_path, model_type: str, name: str, count: int, folder: str) -> Checkpoint:
    config = config_of(model_type, 3)
    config.max_position_embeddings = count
    random_model(name, config, 0).save_pretrained(tmp_path / folder)
    return Checkpoint.open(tmp_path / folder)


@one_of_each_type()
def test_a_shorter_table_of_positions_computes_the_same_for_short_texts(tmp_path, model_type, name):
    if not hasattr(config_of(model_type, 3), "max_position_embeddings"):
        pytest.skip("no setting names positions")
    checkpoint = longer(tmp_path, model_type, name, 12, "long")
    short = shorten(checkpoint, 9)
    if short is None:  # nothing stored depends on it: a model of the other setting has the same tensors
        other = longer(tmp_path, model_type, name, 9, "other")
        assert other.spec.keys == checkpoint.spec.keys
        return
    assert positions(short) == 9
    (reads,) = {kind for kind in short.spec.inputs.values() if isinstance(kind, Tokens)}
    inputs = probe_inputs(short.spec)
    assert inputs["input_ids"].shape[1] == reads.positions < 12
    expected = said(checkpoint, inputs)
    assert apart(said(short, inputs), expected) < EXACT
    short.save(tmp_path / "short")
    loaded = getattr(transformers, name).from_pretrained(tmp_path / "short")
    assert loaded.config.max_position_embeddings == 9
    again = Checkpoint.open(tmp_path / "short")
    assert again.spec.keys == short.spec.keys
    assert at_one_length((again, checkpoint))[1].spec.keys == again.spec.keys
    last = checkpoint.derive({key: _rolled(checkpoint, key) for key, leaf in short.spec.leaves.items()
                              if leaf.shape != checkpoint.spec.leaves[key].shape})  # fmt: skip
    assert apart(said(shorten(last, 9), inputs), expected) > 1e-3  # the control: other rows are another model


def _rolled(checkpoint: Checkpoint, leaf: str):
    return lambda: checkpoint[leaf].roll(-3, 0)

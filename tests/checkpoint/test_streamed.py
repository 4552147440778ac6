"""A model whose modules have their weights only while they run says what the whole model says."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from helpers.classes import one_of_each_type
from helpers.random_models import CLASSES, random_folder
from onebasin import Checkpoint
from onebasin.checkpoint.checks import attention_of
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.checkpoint.streamed import streamed_model


@one_of_each_type(dtype=[torch.float64, torch.float32])
def test_it_says_what_the_whole_model_says(tmp_path, model_type, name, dtype):
    checkpoint = Checkpoint.open(random_folder(tmp_path, model_type, name, 1))
    inputs = probe_inputs(checkpoint.spec)
    whole, streamed = (
        outputs(make(checkpoint, dtype), checkpoint.spec, inputs) for make in (stock_model, streamed_model)
    )
    assert whole.keys() == streamed.keys() > set()
    for key, expected in whole.items():
        assert streamed[key].equal(expected), key


def test_no_weights_are_held_before_and_after(tmp_path):
    checkpoint = Checkpoint.open(random_folder(tmp_path, *CLASSES[0], 1))
    model = streamed_model(checkpoint)
    assert {(x.device.type, x.requires_grad) for x in model.parameters()} == {("meta", False)}
    outputs(model, checkpoint.spec, probe_inputs(checkpoint.spec))
    assert {(x.device.type, x.requires_grad) for x in model.parameters()} == {("meta", False)}
    assert {x.device.type for x in stock_model(checkpoint).parameters()} == {"cpu"}  # the control


def test_it_can_be_run_as_it_would_be_stored(tmp_path):
    checkpoint = Checkpoint.open(random_folder(tmp_path, *CLASSES[0], 1))
    inputs = probe_inputs(checkpoint.spec)
    rounded = streamed_model(checkpoint, stored=lambda key: torch.bfloat16)
    found, exact = (outputs(model, checkpoint.spec, inputs) for model in (rounded, stock_model(checkpoint)))
    whole = stock_model(checkpoint)
    with torch.no_grad():
        for x in whole.parameters():
            x.copy_(x.to(torch.bfloat16))
    expected = outputs(whole, checkpoint.spec, inputs)
    assert all(found[key].equal(expected[key]) for key in expected)
    assert not any(found[key].equal(exact[key]) for key in exact)


def test_attention_is_that_of_torch_where_a_class_has_it():
    assert [attention_of(SimpleNamespace(_supports_sdpa=x)) for x in (True, False)] == ["sdpa", "eager"]

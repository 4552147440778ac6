"""Where activation matching looks: at what reads the stream, and at what reads hidden units."""

from __future__ import annotations

import pytest

from helpers.random_models import CLASSES, IDS, config_of
from onebasin.archs import declare
from onebasin.families import Rep
from onebasin.match.activations import stream_readers, unit_readers
from onebasin.spec import ModelSpec


def table(model_type: str, name: str) -> ModelSpec:
    config = config_of(model_type, 1)
    config.architectures = [name]
    return declare(config, tie=False)


@pytest.mark.parametrize(
    ("model_type", "name", "space", "reader"),
    [
        ("gpt2", "GPT2LMHeadModel", "layers.1.ffn", "transformer.h.1.mlp.c_proj"),
        ("llama", "LlamaForCausalLM", "layers.1.ffn", "model.layers.1.mlp.down_proj"),
        ("bert", "BertForMaskedLM", "layers.1.ffn", "bert.encoder.layer.1.output.dense"),
    ],
)
def test_hidden_units_are_seen_where_they_are_read(model_type, name, space, reader):
    assert unit_readers(table(model_type, name))[space] == reader


@pytest.mark.parametrize(("model_type", "name"), CLASSES, ids=IDS)
def test_all_units_are_seen_and_every_place_reads_its_space(model_type, name):
    spec = table(model_type, name)
    units, streams = unit_readers(spec), stream_readers(spec)
    assert {space for space in spec.spaces if space.endswith("ffn") and spec.spaces[space].base is None} <= units.keys()
    assert units.keys().isdisjoint(streams)
    assert all(" " not in spec.linears[x].reads for names in streams.values() for x in names)  # one vector at a time
    for space, linear in [*units.items(), *((space, x) for space, names in streams.items() for x in names)]:
        assert spec.leaves[spec.linears[linear].weight].dim(space, Rep.COV) is not None

"""Deep models: what is done to a table takes time in proportion to its length."""

from __future__ import annotations

from time import process_time

import pytest

from helpers.random_models import byte_llama
from onebasin import Checkpoint, canonicalize
from onebasin.canonical.gauge import in_gauge_of
from onebasin.canonical.structure import canonical_spec
from onebasin.ensemble.inspection import inspect
from onebasin.spec import ModelSpec
from onebasin.widening.target import target_spec


@pytest.fixture
def deep(tmp_path):
    def opened(layers: int) -> Checkpoint:
        return Checkpoint.open(byte_llama(tmp_path / f"{layers}", num_hidden_layers=layers, tie_word_embeddings=False))

    return opened


STEPS = {
    "canonical table": lambda model: canonical_spec(model),
    "canonical form": lambda model: canonicalize(model),
    "back to the gauge": lambda model: in_gauge_of(model, canonicalize(model).checkpoint),
    "table of a wider model": lambda model: target_spec(canonicalize(model).checkpoint.spec, model.config),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_as_many_tables_are_checked_for_a_deep_model_as_for_a_shallow_one(step, deep, monkeypatch):
    built, check = [], ModelSpec.__post_init__
    monkeypatch.setattr(ModelSpec, "__post_init__", lambda spec: (built.append(spec), check(spec)))
    counts = []
    for model in (deep(1), deep(5)):
        built.clear()
        step(model)
        counts.append(len(built))
    assert counts[0] == counts[1] > 0


def test_four_times_the_layers_take_at_most_eight_times_as_long_to_inspect(deep):
    seconds = []
    for model in (deep(12), deep(48)):
        rounds = []
        for _ in range(3):
            start = process_time()
            inspect(Checkpoint.open(model.store.folder))
            rounds.append(process_time() - start)
        seconds.append(min(rounds))
    assert seconds[1] < 8 * seconds[0]


def test_what_reads_writes_and_touches_is_what_a_search_finds(deep):
    """The indices of a table against its definition, leaf by leaf."""
    spec = canonical_spec(deep(3))
    for name in spec.norms:
        assert spec.readers(name) == [linear for linear in spec.linears.values() if linear.norm == name]
    for key in spec.keys:
        assert list(spec.parts[key]) == [leaf for leaf in spec.leaves.values() if leaf.key == key]
    for space in spec.spaces:
        assert spec.touching[space] == tuple(x for x in spec.leaves.values() if x.dim(space) is not None)

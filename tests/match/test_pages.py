"""Pages: every leaf once, blocks whole, one page in memory at a time, and the same maps as from whole models."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
import torch

from helpers.classes import KINDS, one_of_each_type, some
from helpers.learning import write_pair
from helpers.matching import preset
from helpers.pairs import open_random
from onebasin import Alignment, transport
from onebasin.canonical.form import canonicalize
from onebasin.canonical.structure import canonical_spec
from onebasin.ensemble.ensemble import Ensemble
from onebasin.linalg import workers
from onebasin.match.options import WeightMatching, group_of
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.room import Memory
from onebasin.match.weights import match_weights
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight
from onebasin.papers.strategies import strategy_of
from onebasin.spec import pages as module
from onebasin.spec.pages import page_names


def forms_of(tmp_path, model_type: str):
    return [
        canonicalize(open_random(tmp_path / f"{model_type}-{w}", model_type, 1, w)).checkpoint.in_memory()
        for w in (0, 1)
    ]


@one_of_each_type()
def test_every_leaf_is_on_one_page_and_blocks_are_whole(tmp_path, model_type, name):
    spec = canonical_spec(open_random(tmp_path, model_type, 1, 0, name))
    pages = page_names(spec)
    assert sorted(name for names in pages for name in names) == sorted(spec.leaves)
    for space in spec.spaces:
        if group_of(spec, space) != "residual":
            assert len({names for names in pages for leaf in spec.touching[space] if leaf.name in names}) == 1
    assert len(pages) > 2


@pytest.mark.parametrize("model_type", some(KINDS, 0, 3))
def test_what_is_read_again_and_again_gives_the_maps_of_what_is_kept(tmp_path, model_type):
    a, b = forms_of(tmp_path, model_type)
    options = preset("p1-paper", sweeps=3, tol=0.0)
    for strategy in (None, strategy_of(options.paper)):
        kept, read = (
            match_weights(Pages.of(a, b, keep=keep), WeightMatching(sweeps=3, tol=0), strategy)
            for keep in (True, False)
        )
        assert kept.distances == read.distances
        for space, g in kept.alignment.maps.items():
            for part, tensor in g.tensors().items():
                assert tensor.equal(read.alignment[space].tensors()[part]), space


def test_one_page_is_in_memory_at_a_time(tmp_path, monkeypatch):
    a, b = forms_of(tmp_path, "llama")
    monkeypatch.setattr(module, "SMALL", 0)
    pages, seen, part = Pages.of(a, b, keep=False), [], Pair.of
    monkeypatch.setattr(Pair, "of", lambda a, b, device, names: part(a, b, device, names))  # some leaves, never all
    watched = replace(pages, read=lambda names: seen.append(names) or pages.read(names))
    match_weights(watched, WeightMatching(sweeps=2, tol=0))
    assert set(seen) == set(pages.names)
    assert max(map(len, pages.names)) < len(pages.spec.leaves) / 2


def test_units_that_other_processes_solve_give_the_same_maps(tmp_path, monkeypatch):
    a, b = forms_of(tmp_path, "llama")
    here = match_weights(Pages.of(a, b), WeightMatching(sweeps=2, tol=0))
    monkeypatch.setattr(workers.Workers, "takes", lambda self, size, device: size >= 4)
    monkeypatch.setattr("onebasin.linalg.candidates.FEW", 1000)
    there = match_weights(Pages.of(a, b), WeightMatching(sweeps=2, tol=0))
    assert there.distances == pytest.approx(here.distances, rel=1e-12)


def test_a_scrambled_copy_comes_back_from_pages_that_rest_on_a_device(tmp_path):
    model = open_random(tmp_path / "a", "gpt2", 1, 0)
    form = canonicalize(model).checkpoint
    copy = transport(form, Alignment.random(form.spec, 3))
    with model.store.resting("cpu", 1e9):
        found = match_weights(Pages.of(form, copy, keep=False))
        assert {"lm_head.weight", "transformer.wte.weight"} <= model.store.shelves[-1].kept.keys()
    assert found.distances[-1] < 1e-9 * found.distances[0]
    assert not model.store.shelves[-1].kept  # what rested is given back


def test_weights_are_kept_where_there_is_room_for_both_models(tmp_path, monkeypatch):
    ensemble = Ensemble.of(write_pair(tmp_path, "LlamaForCausalLM"))
    whole, kept, real = 16 * sum(map(prod, ensemble.spec.keys.values())), [], Pages.of
    monkeypatch.setattr(Pages, "of", lambda *given, keep: kept.append(keep) or real(*given, keep=keep))
    for room in (whole, whole - 1):
        monkeypatch.setattr(Memory, "room", lambda *_, room=room: room)
        Weight(sweeps=1).run(ensemble, None, Job(torch.device("cpu")))
    assert kept == [True, False]

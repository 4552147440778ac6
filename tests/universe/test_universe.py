"""Universes: any number of models in one frame, cycles that close, memory that does not grow, models that are added."""

from __future__ import annotations

import gc
import json
import weakref
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.pairs import CLASSES, apart, open_random, scrambled
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.aligning import align, match_forms
from onebasin.canonical.gauge import in_gauge_of
from onebasin.errors import BadCheckpoint, Incompatible, NotExpressible
from onebasin.landscape import Simplex
from onebasin.match import WeightMatching
from onebasin.checkpoint.stock import probe_inputs
from onebasin.universe import Universe, load_universe, match_universe, save_universe
from onebasin.ensemble.storage import FOLDER, SIDECAR
from onebasin.universe.universe import centre, distance, weights_of
from onebasin.verification.verify import drifts


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """A random model; `weights` draws its numbers, models of one seed have one shape."""
    root = tmp_path_factory.mktemp("models")

    def opened(model_type: str = "llama", weights: int = 0, seed: int = 6, **changes: object) -> Checkpoint:
        name = f"{model_type}-{weights}-{seed}-{len(list(root.iterdir()))}"
        return open_random(root / name, model_type, seed, weights, **changes)

    return opened


def copies(a: Checkpoint, count: int) -> list[Checkpoint]:
    """The model and scrambled copies of it: the same function in other bases."""
    form = canonicalize(a).checkpoint
    return [a, *(scrambled(form, seed) for seed in range(1, count))]


def merged(universe: Universe) -> Checkpoint:
    pairs = universe.aligned()
    models = [pairs[0].a, *(pair.b for pair in pairs)]
    return Simplex(models).at([1 / len(models)] * len(models))


class Counting:
    """ALIGN, and how often it was asked."""

    def __init__(self, **how: Any) -> None:
        self.calls, self.match = 0, partial(match_forms, **how)

    def __call__(self, reference: Checkpoint, form: Checkpoint, start: Alignment | None) -> Any:
        self.calls += 1
        return self.match(reference, form, start)


def test_where_one_model_refuses_the_gauge_all_are_canonical(make, monkeypatch):
    """A gain of A may be too small for what one of the others adds behind it, and not for another."""
    models = copies(make(), 3)
    asked = []

    def refuses_the_last(a: Checkpoint, form: Checkpoint) -> Checkpoint:
        asked.append(form)
        if len(asked) == 2:
            raise NotExpressible("too small")
        return in_gauge_of(a, form)

    monkeypatch.setattr("onebasin.aligning.in_gauge_of", refuses_the_last)
    universe = match_universe(models)
    asked.clear()
    pairs = universe.aligned()
    assert [pair.reason for pair in pairs] == ["too small"] * 2
    assert all(pair.a is universe.forms[0] and pair.b is form for pair, form in zip(pairs, asked, strict=True))
    assert apart(models[0], merged(universe)) < 1e-9


# ---- scrambled copies


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("model_type", CLASSES)
def test_scrambled_copies_merge_to_the_original(make, model_type, count):
    a = make(model_type)
    models = copies(a, count)
    assert apart(a, Simplex([canonicalize(model).checkpoint for model in models]).at([1 / count] * count)) > 1e-2
    universe = match_universe(models)
    assert apart(a, merged(universe)) < 1e-9
    assert universe.matches == count - 1  # nothing is left to gain after one round
    for model, pair in zip(models[1:], universe.aligned(), strict=True):
        assert pair.a is a
        assert pair.matched.distances[1] < 1e-9 * pair.matched.distances[0]
        assert drifts(model, pair.b.in_memory(), pair.alignment)[0]["float64"] < 1e-9


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "vit", "bert"])
def test_scrambled_copies_come_back_by_activations(make, model_type):
    a = make(model_type, num_hidden_layers=1, n_layer=1)
    batches = [
        {name: x.float() if x.is_floating_point() else x for name, x in probe_inputs(a.spec, batch=32, seed=s).items()}
        for s in range(4)
    ]
    universe = match_universe(copies(a, 3), partial(match_forms, method="activation", batches=batches))
    assert apart(a, merged(universe)) < 1e-4  # activations are float32


@pytest.mark.filterwarnings("ignore:tied embeddings")  # scrambled copies are untied
@pytest.mark.parametrize("tie", [True, False])
def test_where_the_first_is_tied_all_are_written_in_canonical_form(make, tie):
    a = make("gpt2", tie_word_embeddings=tie)
    pairs = match_universe(copies(a, 3)).aligned()
    assert [pair.reason is None for pair in pairs] == [not tie] * 2
    assert pairs[0].a.spec.tied is False
    assert apart(a, pairs[1].b) < 1e-9


# ---- independent models


@pytest.fixture(scope="module")
def strangers(make) -> list[Checkpoint]:
    """Four models with little in common: one model plus much noise, scrambled."""
    models = []
    for seed in range(4):
        form = canonicalize(make("llama")).checkpoint.in_memory()
        noise = torch.Generator().manual_seed(seed)

        def noisy(name: str, form: Checkpoint = form, noise: torch.Generator = noise) -> torch.Tensor:
            x = form[name]
            return x + 0.7 * x.std() * torch.randn(x.shape, generator=noise, dtype=x.dtype) if x.ndim > 1 else x

        models.append(scrambled(form.derive({name: partial(noisy, name) for name in form}).in_memory(), seed))
    return models


def test_the_objective_never_rises_and_rounds_gain(strangers):
    universe = match_universe(strangers, rounds=6, tol=0)
    before, *rounds = universe.objective
    assert before > rounds[0]
    assert len(rounds) > 1
    assert rounds == sorted(rounds, reverse=True)
    weight = weights_of(universe.forms[0])
    mean, spread = centre(universe.members(), weight)
    assert spread == pytest.approx(rounds[-1], rel=1e-12)
    assert spread == pytest.approx(sum(distance(mean, member, weight) for member in universe.members()), rel=1e-9)


def test_a_round_that_does_not_lower_the_objective_is_not_taken(strangers):
    first = match_universe(strangers, rounds=1)
    asked = Counting()

    def worse(reference: Checkpoint, form: Checkpoint, start: Alignment | None) -> Any:
        matched = asked(reference, form, start)
        return matched if asked.calls < 4 else align_randomly(form)

    def align_randomly(form: Checkpoint) -> Any:
        found = match_forms(form, form)
        return type(found)(Alignment.random(form.spec, 1), found.distances, found.converged)

    universe = match_universe(strangers, worse)
    assert asked.calls == universe.matches == 6
    assert universe.objective == first.objective
    assert universe.settled


def test_cycles_close(strangers):
    universe = match_universe(strangers[:3], rounds=2)
    around = universe.between(2, 0).compose(universe.between(1, 2)).compose(universe.between(0, 1))
    assert max(around.displacement().values()) < 1e-9
    one_by_one = [align(strangers[q], strangers[p]).alignment for p, q in ((0, 1), (1, 2), (2, 0))]
    around = one_by_one[2].compose(one_by_one[1]).compose(one_by_one[0])
    assert max(around.displacement().values()) > 1e-2


def test_the_frame_can_be_that_of_another_member(strangers):
    universe = match_universe(strangers[:3], rounds=1)
    turned = universe.ordered(2, 0)
    assert turned.models == (strangers[2], strangers[0])
    assert max(turned.alignments[0].displacement().values()) < 1e-9
    one, other = (Simplex([x.members()[i] for i in places]).at([0.5, 0.5]) for x, places in
                  ((universe, (2, 0)), (turned, (0, 1))))  # fmt: skip
    assert apart(one, other) < 1e-9  # the average is the same model in another basis


# ---- adding


def test_adding_costs_one_alignment(make):
    a = make("gpt2")
    models, asked = copies(a, 4), Counting()
    three = match_universe(models[:3], asked)
    assert asked.calls == 2
    four = three.add(models[3], asked)
    assert asked.calls == 3
    assert four.matches == 3
    assert apart(a, merged(four)) < 1e-9


def test_what_is_added_is_aligned_with_the_mean(strangers):
    three = match_universe(strangers[:3], rounds=2)
    four = three.add(strangers[3])
    assert four.alignments[:3] == three.alignments
    mean, _ = centre(three.members(), weights_of(three.forms[0]))
    found = match_forms(mean, four.forms[3]).alignment
    difference = found.inverse().compose(four.alignments[3])
    assert max(difference.displacement().values()) < 1e-9


def test_a_universe_is_read_as_it_was_written(strangers, tmp_path):
    universe = match_universe(strangers[:3], rounds=2)
    save_universe(universe, tmp_path)
    again, others = load_universe(tmp_path, strangers[:3])
    assert others == []
    for one, two in zip(universe.members(), again.members(), strict=True):
        assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-12
    again, others = load_universe(tmp_path, [strangers[2], strangers[3], strangers[0]])
    assert others == [1]
    assert again.models == (strangers[2], strangers[0])
    document = json.loads((tmp_path / FOLDER / SIDECAR).read_text())
    assert document["objective"] == list(universe.objective)
    assert document["alignments_made"] == 4


def test_what_is_no_universe_is_refused(strangers, tmp_path):
    save_universe(match_universe(strangers[:3], rounds=1), tmp_path)
    nearly = strangers[0].derive({name: lambda x=strangers[0][name]: x + 1e-9 for name in list(strangers[0])[:1]})
    with pytest.raises(Incompatible, match="knows too few") as refused:
        load_universe(tmp_path, [nearly, strangers[1], strangers[3]])
    assert refused.value.found == "1 of 3"
    (tmp_path / FOLDER / SIDECAR).write_text('{"format": "onebasin universe 2", "models": []}')
    with pytest.raises(BadCheckpoint, match="not a universe"):
        load_universe(tmp_path, strangers)
    with pytest.raises(BadCheckpoint):
        load_universe(tmp_path / "absent", strangers)


def test_models_without_a_common_basis_are_refused_by_name(make):
    with pytest.raises(Incompatible, match=r"\(C\)"):
        match_universe([make("llama"), make("llama", 1), make("llama", 2, num_hidden_layers=3)])
    with pytest.raises(Incompatible, match="more than one"):
        match_universe([make("llama")])


# ---- memory


class Live(TorchDispatchMode):
    """The most memory that all tensors that were made held at one time, in float64 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0.0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and id(x.untyped_storage()) not in self._seen:
                self._count(x.untyped_storage())
        return out

    def _count(self, storage: Any) -> None:
        size, known = storage.nbytes() / 8, id(storage)
        self._seen.add(known)
        self.now += size
        self.most = max(self.most, self.now)

        def gone() -> None:
            self._seen.discard(known)
            self.now -= size

        weakref.finalize(storage, gone)


def most_memory(work: Any) -> float:
    gc.collect()
    with Live() as live:
        work()
    return live.most


def size_of(model: Checkpoint) -> int:
    return sum(model[name].numel() for name in model)


@pytest.fixture(scope="module")
def large(make) -> list[Checkpoint]:
    """Models that are much larger than their maps."""
    return [make("gpt2", weights, vocab_size=997, n_layer=1) for weights in range(5)]


def growth(work: Any, models: list[Checkpoint]) -> float:
    """How much more memory the work takes with five models than with three, in models."""
    three, five = (most_memory(lambda n=n: work(models[:n])) for n in (3, 5))
    return (five - three) / size_of(models[0])


def test_memory_does_not_grow_with_the_number_of_models(large):
    """But for the maps, of which there are two sets while a round may still be refused."""
    match = partial(match_forms, weight=WeightMatching(sweeps=2))
    assert growth(lambda models: match_universe(models, match, rounds=2, tol=0), large) < 0.1
    assert growth(lambda models: [model.in_memory() for model in models], large) > 1.9  # the measure sees models


def test_a_mean_holds_one_leaf_of_one_model_beside_it(large):
    forms = [canonicalize(model).checkpoint for model in large]
    moved = [transport(form, Alignment.random(form.spec, i)) for i, form in enumerate(forms)]
    weight = weights_of(forms[0])
    assert growth(lambda models: centre(models, weight), moved) < 0.1
    leaf = max(moved[0][name].numel() for name in moved[0])
    assert most_memory(lambda: centre(moved, weight)) < size_of(forms[0]) + 6 * leaf

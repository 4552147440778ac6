"""Any number of models in one frame, cycles that close, memory that does not grow, models that are added."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.classes import HEADS, one_of_each_kind
from helpers.matching import CPU, align, match, matcher
from helpers.pairs import apart, open_random, scrambled
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.alignment import apply
from onebasin.canonical.gauge import in_gauge_of
from onebasin.checkpoint.recent import Recent
from onebasin.checkpoint.stock import probe_inputs
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.ensemble.storage import FOLDER, SIDECAR, load_universe
from onebasin.errors import BadCheckpoint, Incompatible, NotExpressible
from onebasin.match.many import Match, match_ensemble
from onebasin.match.options import Gathering, WeightMatching
from onebasin.match.pair import Pair
from onebasin.methods.activation import Activation
from onebasin.paths import FactorPath
from onebasin.tasks import Task
from onebasin.verification.verify import drifts


def gather(models: list[Checkpoint], align: Match | None = None, **gathering: object) -> Aligned:
    return match_ensemble(Ensemble.of(models), align or matcher(), Gathering(**gathering))


def between(found: Aligned, p: int, q: int) -> Alignment:
    """The map from model p to model q."""
    return found.alignments[q].inverse().compose(found.alignments[p])


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


class Counting:
    """ALIGN, and how often it was asked."""

    def __init__(self) -> None:
        self.calls, self.match = 0, matcher()

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

    monkeypatch.setattr("onebasin.ensemble.ensemble.in_gauge_of", refuses_the_last)
    found = gather(models)
    assert found.reason == "too small"
    assert found.models == found.forms
    assert found.forms[1:] == tuple(asked)
    assert apart(models[0], found.merged()) < 1e-9


# ---- scrambled copies


@one_of_each_kind(HEADS, count=[3, 5])
def test_scrambled_copies_merge_to_the_original(make, model_type, name, count):
    a = make(model_type, name=name)
    models = copies(a, count)
    assert apart(a, FactorPath(*[canonicalize(model).checkpoint for model in models]).at([1 / count] * count)) > 1e-2
    found = gather(models)
    assert apart(a, found.merged()) < 1e-9
    assert found.course["universe"]["alignments_made"] == count - 1  # nothing is left to gain after one round
    assert found.models[0] is a
    for i, model in enumerate(models[1:], 1):
        before, after = found.distances(i)
        assert after < 1e-9 * before
        assert drifts(model, found.models[i].in_memory(), found.alignments[i])[0]["float64"] < 1e-9


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "vit", "bert"])
def test_scrambled_copies_come_back_by_activations(make, model_type):
    a = make(model_type, num_hidden_layers=1, n_layer=1)
    inputs = {n: x.float() if x.is_floating_point() else x for n, x in probe_inputs(a.spec, batch=128).items()}
    task = Task("probes", "any", inputs, torch.zeros(128, dtype=torch.long), {})
    found = Activation().run(Ensemble.of(copies(a, 3)), task, CPU)
    assert apart(a, found.merged()) < 1e-4  # activations are float32


@pytest.mark.filterwarnings("ignore:tied embeddings")  # scrambled copies are untied
@pytest.mark.parametrize("tie", [True, False])
def test_where_the_first_is_tied_all_are_written_in_canonical_form(make, tie):
    a = make("gpt2", tie_word_embeddings=tie)
    found = gather(copies(a, 3))
    assert (found.reason is None) == (not tie)
    assert found.models[0].spec.tied is False
    assert apart(a, found.models[2]) < 1e-9


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
    found = gather(strangers, rounds=6, tol=0)
    before, *rounds = found.course["universe"]["objective"]
    assert before > rounds[0]
    assert len(rounds) > 1
    assert rounds == sorted(rounds, reverse=True)
    mean, spread = found.ensemble.centre(found.forms)
    assert spread == pytest.approx(rounds[-1], rel=1e-12)
    w = found.ensemble.emphasis
    apart = [float(w[x] * (mean[x] - member[x]).square().sum()) for member in found.forms for x in mean]
    assert spread == pytest.approx(sum(apart), rel=1e-9)


def test_a_round_that_does_not_lower_the_objective_is_not_taken(strangers):
    first = gather(strangers, rounds=1)
    asked = Counting()

    def worse(reference: Checkpoint, form: Checkpoint, start: Alignment | None) -> Any:
        matched = asked(reference, form, start)
        return matched if asked.calls < 4 else align_randomly(form)

    def align_randomly(form: Checkpoint) -> Any:
        found = match(Pair.of(form, form))
        return type(found)(Alignment.random(form.spec, 1), found.distances, found.converged)

    facts = gather(strangers, worse).course["universe"]
    assert asked.calls == facts["alignments_made"] == 6
    assert facts["objective"] == first.course["universe"]["objective"]
    assert facts["settled"]


def test_a_round_that_changes_nothing_is_not_taken(strangers):
    asked = Counting()

    def same(reference: Checkpoint, form: Checkpoint, start: Alignment | None) -> Any:
        matched = asked(reference, form, start)
        return matched if start is None else replace(matched, alignment=start)

    facts = gather(strangers, same).course["universe"]
    assert facts["rounds"] == 1
    assert len(facts["objective"]) == 2
    assert facts["settled"]


def test_cycles_close(strangers):
    found = gather(strangers[:3], rounds=2)
    around = between(found, 2, 0).compose(between(found, 1, 2)).compose(between(found, 0, 1))
    assert max(around.displacement().values()) < 1e-9
    one_by_one = [align(strangers[q], strangers[p]).alignment for p, q in ((0, 1), (1, 2), (2, 0))]
    around = one_by_one[2].compose(one_by_one[1]).compose(one_by_one[0])
    assert max(around.displacement().values()) > 1e-2


# ---- adding


def test_an_earlier_output_serves_other_orders_and_fewer_models(strangers, tmp_path):
    """The frame is then that of another member; the average is the same model in another basis."""
    found = gather(strangers[:3], rounds=1)
    found.save_maps(tmp_path)
    asked = Counting()
    turned = gather([strangers[2], strangers[0]], asked, folder=str(tmp_path))
    assert asked.calls == 0
    assert max(turned.alignments[0].displacement().values()) < 1e-9
    one, other = FactorPath(found.forms[2], found.forms[0]).at(0.5), FactorPath(*turned.forms).at(0.5)
    assert apart(one, other) < 1e-9


def test_adding_costs_one_alignment(make, tmp_path):
    a = make("gpt2")
    models, asked = copies(a, 4), Counting()
    gather(models[:3], asked).save_maps(tmp_path)
    assert asked.calls == 2
    four = gather(models, asked, folder=str(tmp_path))
    assert asked.calls == 3
    assert four.course["universe"]["alignments_made"] == 1
    assert apart(a, four.merged()) < 1e-9


def test_what_is_added_is_aligned_with_the_mean(strangers, tmp_path):
    three = gather(strangers[:3], rounds=2)
    three.save_maps(tmp_path)
    four = gather(strangers, folder=str(tmp_path))
    for old, new in zip(three.alignments, four.alignments, strict=False):
        assert max(old.inverse().compose(new).displacement().values()) < 1e-9
    mean, _ = three.ensemble.centre(three.forms)
    found = match(Pair.of(mean, four.ensemble.forms[3])).alignment
    difference = found.inverse().compose(four.alignments[3])
    assert max(difference.displacement().values()) < 1e-6


def test_maps_of_many_are_read_as_they_were_written(strangers, tmp_path):
    found = gather(strangers[:3], rounds=2)
    found.save_maps(tmp_path)
    again = load_universe(tmp_path, strangers[:3])
    assert list(again) == [0, 1, 2]
    for m, g in again.items():
        one, two = (transport(found.ensemble.forms[m], x) for x in (g, found.alignments[m]))
        assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-12
    assert list(load_universe(tmp_path, [strangers[2], strangers[3], strangers[0]])) == [0, 2]
    document = json.loads((tmp_path / FOLDER / SIDECAR).read_text())
    assert document["objective"] == found.course["universe"]["objective"]
    assert document["alignments_made"] == 4


def test_what_is_no_universe_is_refused(strangers, tmp_path):
    gather(strangers[:3], rounds=1).save_maps(tmp_path)
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
        gather([make("llama"), make("llama", 1), make("llama", 2, num_hidden_layers=3)])
    with pytest.raises(Incompatible, match="two models or more"):
        gather([make("llama")])


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


def test_memory_does_not_grow_with_the_number_of_models(large, monkeypatch):
    """But for the maps, of which there are two sets while a round may still be refused; and the moved
    weights that are kept for a while, among which all of these models would have room."""
    monkeypatch.setattr(apply, "RECENT", Recent(most=1000))
    match = matcher(WeightMatching(sweeps=2))
    assert growth(lambda models: gather(models, match, rounds=2, tol=0), large) < 0.1
    assert growth(lambda models: [model.in_memory() for model in models], large) > 1.9  # the measure sees models


def test_a_mean_holds_one_leaf_of_one_model_beside_it(large):
    ensemble = Ensemble.of(large)
    moved = [transport(form, Alignment.random(form.spec, i)) for i, form in enumerate(ensemble.forms)]
    assert ensemble.emphasis
    assert growth(ensemble.centre, moved) < 0.1
    leaf = max(moved[0][name].numel() for name in moved[0])
    assert most_memory(lambda: ensemble.centre(moved)) < size_of(ensemble.forms[0]) + 6 * leaf

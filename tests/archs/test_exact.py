"""The central promise, on every declared architecture and model class: symmetries do not move the function."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from helpers.classes import every_class, one_of_each_kind, one_of_each_type
from helpers.exactness import EXACT, answers, drift, drift_from, relative
from helpers.random_models import random_folder
from onebasin import Alignment, Checkpoint, canonicalize, in_gauge_of, transport
from onebasin.canonical.rewrites import untie
from onebasin.canonical.structure import canonical_spec
from onebasin.checkpoint.stock import all_in_float64, outputs, probe_inputs, stock_model
from onebasin.errors import NotExpressible
from onebasin.verification.verify import output_drift

SEEDS = range(6)


@pytest.fixture
def make(tmp_path, model_type, name, seed):
    """Open a random checkpoint of the test's class; other weights for every number given."""

    def build(weights: int = 0) -> Checkpoint:
        folder = tmp_path / f"{name}-{weights}"
        return Checkpoint.open(random_folder(folder, model_type, name, seed, 1000 * weights + seed))

    return build


@every_class(seed=SEEDS)
def test_a_random_symmetry_in_every_space_does_not_move_the_outputs_of_what_is_saved(make, tmp_path, name, seed):
    original = make()
    form = canonicalize(original).checkpoint.in_memory()
    alignment, inputs = Alignment.random(form.spec, seed), probe_inputs(original.spec, seed=1)
    assert drift_from(answers(original), original, form) < EXACT
    moved = transport(form, alignment).in_memory()
    changed = [float((moved[x] - form[x]).abs().max()) for x in form if form.spec.leaves[x].spaces()]
    assert max(changed) > 0.1  # the weights did move
    moved.save(tmp_path / "out", dtype="F64", max_shard_size="2KB")
    models = loaded(original, name, original.store.folder), loaded(moved, name, tmp_path / "out")
    for model in models:
        all_in_float64(model.eval())
    before, after = (outputs(model, form.spec, inputs) for model in models)
    assert relative(output_drift(after, before, form.spec, alignment), before) < EXACT
    assert Checkpoint.open(tmp_path / "out").spec.architecture == name


def loaded(checkpoint: Checkpoint, name: str, folder: Path) -> transformers.PreTrainedModel:
    """What `from_pretrained` makes of a folder: the class, nothing missing, and the weights of the stock model."""
    kind = getattr(transformers, name)
    model, report = kind.from_pretrained(folder, output_loading_info=True, dtype=torch.float64)
    assert type(model) is kind
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    unused = {mirror.key for mirror in checkpoint.spec.mirrors if not mirror.tied}  # stored, never read by the model
    ours, theirs = stock_model(checkpoint).state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours.keys() - unused)
    return model


@pytest.mark.parametrize(("model_type", "name"), [("gptj", "GPTJForCausalLM"), ("gpt_neo", "GPTNeoForCausalLM")])
def test_models_that_compute_attention_in_float32_are_exact_as_far_as_that_goes(tmp_path, model_type, name):
    """Run as transformers runs them, in float64 but for scores; the same models all in float64 differ by nothing."""
    original = Checkpoint.open(random_folder(tmp_path / "model", model_type, name, 1))
    form = canonicalize(original).checkpoint.in_memory()
    alignment, inputs = Alignment.random(form.spec, 1), probe_inputs(original.spec, seed=1)
    transport(form, alignment).save(tmp_path / "moved", dtype="F64")
    kind = getattr(transformers, name)
    models = [kind.from_pretrained(tmp_path / x, dtype=torch.float64).eval() for x in ("model", "moved")]

    def moved() -> float:
        before, after = (outputs(model, form.spec, inputs) for model in models)
        return relative(output_drift(after, before, form.spec, alignment), before)

    assert 1e-9 < moved() < 1e-5
    for model in models:
        all_in_float64(model)
    assert moved() < EXACT


@one_of_each_type(seed=SEEDS)
def test_the_stock_model_is_what_from_pretrained_loads(make, name):
    checkpoint = make()
    loaded(checkpoint, name, checkpoint.store.folder)


@one_of_each_type(seed=SEEDS)
def test_a_random_symmetry_of_the_stored_model_needs_no_canonical_form(make, seed):
    original = make()
    alignment = Alignment.random(original.spec, seed)
    assert drift(original, transport(original, alignment), alignment) < EXACT


@one_of_each_kind(seed=SEEDS)
def test_the_canonical_form_is_reached_once(make):
    original = make()
    form = canonicalize(original).checkpoint.in_memory()
    again = canonicalize(form).checkpoint
    assert max(float((again[x] - form[x]).abs().max()) for x in form) < EXACT
    assert form.spec.spaces == canonical_spec(original).spaces


@one_of_each_kind(seed=SEEDS)
def test_inverse_and_composition(make, seed):
    form = canonicalize(make()).checkpoint.in_memory()
    g, h = Alignment.random(form.spec, seed), Alignment.random(form.spec, seed + 100)
    back = transport(transport(form, g), g.inverse())
    both, one = transport(transport(form, h), g), transport(form, g.compose(h))
    for leaf in form:
        assert torch.allclose(back[leaf], form[leaf], atol=EXACT)
        assert torch.allclose(both[leaf], one[leaf], atol=EXACT)


@one_of_each_type(seed=SEEDS)
def test_a_model_in_the_gauge_of_another_averages_to_the_canonical_midpoint(make, seed):
    a, b = make(0), make(1)
    form_a, form_b = canonicalize(a).checkpoint, canonicalize(b).checkpoint
    alignment = Alignment.random(form_b.spec, seed)
    aligned = transport(form_b, alignment)
    if a.spec.tied:
        with pytest.raises(NotExpressible, match="ties its head"):
            in_gauge_of(a, aligned)
        a = untie(a)
    spoken = in_gauge_of(a, aligned)
    assert drift(b, spoken, alignment) < EXACT
    assert drift(midpoint(form_a, aligned), midpoint(a, spoken)) < EXACT


def midpoint(a: Checkpoint, b: Checkpoint) -> Checkpoint:
    return a.derive({leaf: (lambda leaf=leaf: (a[leaf] + b[leaf]) / 2) for leaf in a})

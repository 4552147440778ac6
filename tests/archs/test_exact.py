"""The central promise, on every declared architecture and model class: symmetries do not move the function."""

from __future__ import annotations

import pytest
import torch
import transformers

from helpers.exactness import EXACT, drift, every_class, relative
from helpers.random_models import random_folder
from onebasin import Alignment, Checkpoint, canonicalize, in_gauge_of, transport
from onebasin.canonical.structure import canonical_spec
from onebasin.checkpoint.stock import all_in_float64, outputs, probe_inputs, stock_model
from onebasin.errors import NotExpressible
from onebasin.verification.verify import output_drift

SEEDS = range(6)
every_seed = pytest.mark.parametrize("seed", SEEDS)


@pytest.fixture
def make(tmp_path, model_type, name, seed):
    """Open a random checkpoint of the test's class; other weights for every number given."""

    def build(weights: int = 0) -> Checkpoint:
        folder = tmp_path / f"{name}-{weights}"
        return Checkpoint.open(random_folder(folder, model_type, name, seed, 1000 * weights + seed))

    return build


@every_class
@every_seed
def test_a_random_symmetry_in_every_space_does_not_move_the_outputs(make, seed):
    original = make()
    form = canonicalize(original).checkpoint
    alignment = Alignment.random(form.spec, seed)
    moved = transport(form, alignment)
    assert drift(original, moved, alignment) < EXACT
    changed = [float((moved[x] - form[x]).abs().max()) for x in form if form.spec.leaves[x].spaces()]
    assert max(changed) > 0.1  # the weights did move


@every_class
@every_seed
def test_a_random_symmetry_of_the_stored_model_needs_no_canonical_form(make, seed):
    original = make()
    alignment = Alignment.random(original.spec, seed)
    assert drift(original, transport(original, alignment), alignment) < EXACT


@every_class
@every_seed
def test_canonical_form_keeps_the_function_and_is_reached_once(make):
    original = make()
    form = canonicalize(original).checkpoint
    assert drift(original, form) < EXACT
    again = canonicalize(form).checkpoint
    assert max(float((again[x] - form[x]).abs().max()) for x in form) < EXACT
    assert form.spec.spaces == canonical_spec(original).spaces


@every_class
@every_seed
def test_inverse_and_composition(make, seed):
    form = canonicalize(make()).checkpoint
    g, h = Alignment.random(form.spec, seed), Alignment.random(form.spec, seed + 100)
    back = transport(transport(form, g), g.inverse())
    both, one = transport(transport(form, h), g), transport(form, g.compose(h))
    for leaf in form:
        assert torch.allclose(back[leaf], form[leaf], atol=EXACT)
        assert torch.allclose(both[leaf], one[leaf], atol=EXACT)


@every_class
@every_seed
def test_a_model_in_the_gauge_of_another_averages_to_the_canonical_midpoint(make, seed):
    a, b = make(0), make(1)
    form_a, form_b = canonicalize(a).checkpoint, canonicalize(b).checkpoint
    alignment = Alignment.random(form_b.spec, seed)
    aligned = transport(form_b, alignment)
    if a.spec.tied:
        with pytest.raises(NotExpressible, match="ties its head"):
            in_gauge_of(a, aligned)
        return
    spoken = in_gauge_of(a, aligned)
    assert drift(b, spoken, alignment) < EXACT
    assert drift(midpoint(form_a, aligned), midpoint(a, spoken)) < EXACT


def midpoint(a: Checkpoint, b: Checkpoint) -> Checkpoint:
    return a.derive({leaf: (lambda leaf=leaf: (a[leaf] + b[leaf]) / 2) for leaf in a})


@every_class
@pytest.mark.parametrize("seed", [0])
def test_saved_folders_load_in_transformers(make, tmp_path, name, seed):
    original = make()
    form = canonicalize(original).checkpoint
    alignment = Alignment.random(form.spec, seed)
    moved = transport(form, alignment)
    moved.save(tmp_path / "out", dtype="F64", max_shard_size="2KB")
    kind = getattr(transformers, name)
    model, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True, dtype=torch.float64)
    assert type(model) is kind
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    before = kind.from_pretrained(original.store.folder, dtype=torch.float64)
    inputs = probe_inputs(original.spec, seed=1)
    for loaded in (before, model):
        all_in_float64(loaded.eval())
    found, expected = (outputs(loaded, form.spec, inputs) for loaded in (model, before))
    assert relative(output_drift(found, expected, form.spec, alignment), expected) < EXACT
    assert Checkpoint.open(tmp_path / "out").spec.architecture == name


@every_class
@pytest.mark.parametrize("seed", [0, 1])
def test_the_stock_model_is_what_from_pretrained_loads(make, tmp_path, name, seed):
    checkpoint = make()
    ours = stock_model(checkpoint).state_dict()
    theirs = getattr(transformers, name).from_pretrained(checkpoint.store.folder, dtype=torch.float64).state_dict()
    assert ours.keys() == theirs.keys()
    unused = {mirror.key for mirror in checkpoint.spec.mirrors if not mirror.tied}  # stored, never read by the model
    assert all(torch.equal(ours[key], theirs[key]) for key in ours.keys() - unused)

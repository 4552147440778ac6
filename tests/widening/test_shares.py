"""Unequal numbers of units and heads: copies with the best shares, by `weight.extra`."""

from __future__ import annotations

import json

import pytest
import torch

from helpers.exactness import EXACT
from helpers.growing import drift, roles
from helpers.pairs import apart, open_random, scrambled
from onebasin import Checkpoint, canonicalize
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import OnebasinError
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight
from onebasin.verification.certificate import certificate
from onebasin.widening.embeddings import Embedding, shareable
from onebasin.widening.target import sizes_of, target_config, target_spec
from onebasin.widening.widen import widen_form

KINDS = {
    "opt": {"activation_function": "relu", "num_attention_heads": 3, "hidden_size": 12},
    "llama": {},
    "qwen2": {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16},
    "vit": {},
}


def align(a: Checkpoint, b: Checkpoint, extra: str = "shares"):
    return Weight(extra=extra).run(Ensemble.of([a, b]), None, Job(torch.device("cpu")))


def split(small: Checkpoint, seed: int) -> Checkpoint:
    """The same function with more heads and units: random copies of them, with random shares."""
    form = canonicalize(small).checkpoint
    now, g = sizes_of(form.spec), torch.Generator().manual_seed(seed)
    more = now["kv_heads"] + 2
    units = {role: n + 4 for role, n in now.items() if role.endswith("ffn")}
    settings = roles(form.spec, kv_heads=more, heads=more * (now["heads"] // now["kv_heads"]), **units)
    large, fills = target_spec(form.spec, target_config(form, settings)), {}
    for name in shareable(form.spec, large):
        n, m = (spec.spaces[name].size for spec in (form.spec, large))
        source = torch.cat((torch.arange(n), torch.randint(n, (m - n,), generator=g)))[torch.randperm(m, generator=g)]
        share = torch.rand(m, generator=g, dtype=torch.float64) + 0.1
        share = share / torch.zeros(n, dtype=torch.float64).scatter_add(0, source, share)[source]
        fills[name] = Embedding(tuple(source.tolist()), parts=tuple(share.tolist()))
    assert len(fills) >= 2
    return widen_form(form, settings, fills=fills)


@pytest.mark.parametrize(("kind", "larger_first"), list(zip(KINDS, (True, False, True, False), strict=True)))
@pytest.mark.filterwarnings("ignore:size or eps")
def test_a_split_that_was_made_is_undone_and_only_by_shares(tmp_path, kind, larger_first):
    small = open_random(tmp_path / "m", kind, 3, 5, **KINDS[kind])
    scrambled(split(small, 1), 7).save(tmp_path / "large", dtype="F64")
    large = Checkpoint.open(tmp_path / "large")
    pair = (large, small) if larger_first else (small, large)
    found = {extra: align(*pair, extra) for extra in ("zero", "split", "shares")}
    assert apart(small, found["shares"].merged()) < 1e-7
    assert found["shares"].distances()[1] < 1e-6
    for extra in ("zero", "split"):  # controls
        assert apart(small, found[extra].merged()) > 1e-3
        assert found[extra].distances()[1] > 1e-2
    for aligned in found.values():
        written = aligned.models[int(larger_first)]  # that of the small model
        assert drift(small, written) < EXACT
        assert certificate(aligned)["output_drift"]["float64"] < 1e-9
    distances = found["shares"].course["extra"]
    assert distances["shares"] < 1e-9 < min(distances["zero"], distances["split"])


@pytest.mark.filterwarnings("ignore:size or eps")
def test_models_that_have_nothing_to_do_with_each_other_come_closer_and_stay_exact(tmp_path):
    large = open_random(tmp_path / "a", "opt", 3, 5, **KINDS["opt"], ffn_dim=17)
    small = open_random(tmp_path / "b", "opt", 3, 6, **KINDS["opt"], ffn_dim=6)
    aligned = align(large, small)
    distances = aligned.course["extra"]
    assert distances["shares"] < min(distances["zero"], distances["split"])
    assert drift(small, aligned.models[1]) < EXACT
    later = small.derive({name: (lambda x=small[name]: 1.01 * x) for name in small if "fc1" in name})
    assert drift(later, aligned.apply(later)) < EXACT


@pytest.mark.filterwarnings("ignore:size or eps")
def test_from_the_command_line(cli, tmp_path):
    for name, (seed, units) in {"a": (5, 11), "b": (6, 7)}.items():
        open_random(tmp_path / name, "opt", 3, seed, **KINDS["opt"], ffn_dim=units)
    models = (tmp_path / "a", tmp_path / "b")
    code, _, err = cli("merge", *models, "-o", tmp_path / "out", "--method", "weight", "--set", "weight.extra=shares")
    assert code == 0, err
    merged = Checkpoint.open(tmp_path / "out")
    assert sizes_of(merged.spec)["ffn"] == 11
    certified = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certified["output_drift"]["float64"] < 1e-9
    assert "extra: shares" in (tmp_path / "out" / "recipe.yaml").read_text()


@pytest.mark.filterwarnings("ignore:size or eps")
def test_more_than_two_models_are_refused(tmp_path):
    models = [
        open_random(tmp_path / str(i), "opt", 3, i, **KINDS["opt"], ffn_dim=units) for i, units in enumerate((7, 9, 9))
    ]
    with pytest.raises(OnebasinError, match="one of two models"):
        Weight(extra="shares").check(models)
    with pytest.raises(OnebasinError, match="one of two models"):
        Weight(extra="shares").run(Ensemble.of(models), None, Job(torch.device("cpu")))
    Weight(extra="zero").check(models)

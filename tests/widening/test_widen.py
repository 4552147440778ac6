"""Widening keeps the function of every declared class, in every size it may change."""

from __future__ import annotations

import pytest
import torch
import transformers

from helpers.exactness import EXACT, every_class
from helpers.growing import drift, growths
from helpers.random_models import random_folder
from onebasin import Checkpoint, canonicalize, widen
from onebasin.canonical.structure import canonical_spec
from onebasin.checkpoint.stock import all_in_float64
from onebasin.errors import Incompatible, NotExpressible
from onebasin.families import ORTHOGONAL, ORTHOGONAL_ONES
from onebasin.widening.embeddings import EXTRA
from onebasin.widening.target import fields_of, sizes_of


@every_class
@pytest.mark.parametrize(("seed", "extra"), list(enumerate(EXTRA)))
def test_every_dimension_alone_and_together(tmp_path, model_type, name, seed, extra):
    small = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, seed))
    before = sizes_of(small.spec)
    if not fields_of(small.spec):
        with pytest.raises(NotExpressible, match="each of its encoders"):
            widen(small, {"hidden_size": 99}, extra=extra)
    for settings in growths(canonical_spec(small), extra):
        large = widen(small, settings, extra=extra).in_memory()
        after = sizes_of(large.spec)
        assert after != before
        assert all(after[role] >= n for role, n in before.items())
        assert drift(small, large) < EXACT


@every_class
def test_the_result_is_a_stock_model(tmp_path, model_type, name):
    small = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, 1))
    *_, settings = list(growths(canonical_spec(small))) or [{}]
    if not settings:
        return
    widen(small, settings).save(tmp_path / "out", dtype="F64")
    kind = getattr(transformers, name)
    model, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True, dtype=torch.float64)
    assert type(model) is kind
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert all(getattr(model.config, field) == value for field, value in settings.items())
    all_in_float64(model)
    again = Checkpoint.open(tmp_path / "out")
    assert again.spec.architecture == name
    assert drift(small, again) < EXACT


@every_class
def test_another_eps_stretches_the_stream_where_it_can(tmp_path, model_type, name):
    small = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, 2))
    free, field = canonical_spec(small), fields_of(small.spec).get("eps", "")
    eps = next(iter(small.spec.norms.values())).eps
    inside = "eps of query/key norms" in free.constants
    families = {free.family(norm.space) for norm in free.norms.values()}
    if not inside and families <= {ORTHOGONAL, ORTHOGONAL_ONES}:
        large = widen(small, {field: 0.01})
        assert drift(small, large) < EXACT
        unstretched = canonicalize(small).checkpoint
        config = {**unstretched.config, field: 0.01}
        assert drift(small, unstretched.derive({}, config=config)) > 1e-6 or eps == 0.01
    else:
        with pytest.raises((NotExpressible, Incompatible), match=r"eps|each of its encoders"):
            widen(small, {field: 0.01})

"""What learning refuses, with the reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from helpers.learning import open_pair, run
from helpers.random_models import random_folder
from onebasin import Checkpoint
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import BadRecipe, BadTask, NotExpressible, NotInFamily
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.methods import learned
from onebasin.methods.learned import Learned
from onebasin.papers.options import PaperLearning
from onebasin.tasks import LANGUAGE


def test_units_that_cannot_be_scaled_are_refused(root):
    with pytest.raises(NotInFamily, match="have no symmetry with continuous coordinates"):
        run(root, "GPT2LMHeadModel", None, learn=("units",))
    assert run(root, "ViTForImageClassification", None, learn=("units",), steps=2).course["learning"]["history"]  # relu


def test_normalised_queries_have_no_circuits(tmp_path):
    a, b = (Checkpoint.open(random_folder(tmp_path / str(i), "qwen3", "Qwen3ForCausalLM", 6, i)) for i in (0, 1))
    with pytest.raises(NotExpressible, match="normalises or cuts queries, keys"):
        Objective(Ensemble.of([a, b]).forms, LearnedMatching(path="circuit"), LANGUAGE)


def test_orders_of_many_units_are_refused_with_what_they_would_take(root, monkeypatch):
    a, b = (x.spec for x in open_pair(root, "LlamaForCausalLM"))
    monkeypatch.setattr(learned, "SQUARES", 2 * 12**2 + 2 * 2**2 - 1)  # two layers of 12 units and 2 groups of heads
    models = [SimpleNamespace(spec=spec) for spec in (a, b)]
    every = {"learn": ("residual", "heads", "units")}
    for kind in ("straight-through", "soft"):
        with pytest.raises(BadRecipe, match="so many units") as refused:
            Learned(**every, paper=PaperLearning(permutations=kind)).check(models)
        assert "layers of up to 12 units" in str(refused.value)
        Learned(learn=("heads",), paper=PaperLearning(permutations=kind)).check(models)
        Learned(**every).check(models)
    monkeypatch.setattr(learned, "SQUARES", 2 * 12**2 + 2 * 4**2)
    Learned(**every, paper=PaperLearning(permutations="soft")).check(models)


def test_batches_that_do_not_fit_are_refused(root):
    with pytest.raises(BadTask, match="do not fit"):
        run(root, "GPT2LMHeadModel", None, batch=1000)
    with pytest.raises(BadTask, match="Only images"):
        run(root, "GPT2LMHeadModel", None, augment=True)

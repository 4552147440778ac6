"""What learning refuses, with the reason."""

from __future__ import annotations

import pytest

from helpers.learning import run
from helpers.random_models import random_folder
from onebasin import Checkpoint
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import BadTask, NotExpressible, NotInFamily
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.tasks import LANGUAGE


def test_units_that_cannot_be_scaled_are_refused(root):
    with pytest.raises(NotInFamily, match="have no symmetry with continuous coordinates"):
        run(root, "GPT2LMHeadModel", None, learn=("units",))
    assert run(root, "ViTForImageClassification", None, learn=("units",), steps=2).course["learning"]["history"]  # relu


def test_normalised_queries_have_no_circuits(tmp_path):
    a, b = (Checkpoint.open(random_folder(tmp_path / str(i), "qwen3", "Qwen3ForCausalLM", 6, i)) for i in (0, 1))
    with pytest.raises(NotExpressible, match="normalises queries and keys"):
        Objective(Ensemble.of([a, b]).forms, LearnedMatching(path="circuit"), LANGUAGE)


def test_batches_that_do_not_fit_are_refused(root):
    with pytest.raises(BadTask, match="do not fit"):
        run(root, "GPT2LMHeadModel", None, batch=1000)
    with pytest.raises(BadTask, match="Only images"):
        run(root, "GPT2LMHeadModel", None, augment=True)

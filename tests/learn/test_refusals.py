"""What learning refuses, with the reason."""

from __future__ import annotations

import pytest

from helpers.learning import (
    run,
)
from helpers.random_models import random_folder
from onebasin import Checkpoint
from onebasin.aligning import same_form
from onebasin.errors import BadTask, NotExpressible, NotInFamily
from onebasin.learn import LearnedMatching
from onebasin.learn.objective import Objective
from onebasin.tasks import LANGUAGE


def test_units_that_cannot_be_scaled_are_refused(root):
    with pytest.raises(NotInFamily, match="have no symmetry with continuous coordinates"):
        run(root, "GPT2LMHeadModel", None, learn=("units",))
    assert run(root, "ViTForImageClassification", None, learn=("units",), steps=2).history  # relu


def test_a_stream_that_norms_write_to_is_not_scaled(root):
    with pytest.raises(NotInFamily, match="The stream cannot be scaled"):
        run(root, "BertForSequenceClassification", None, learn=("scale",))


def test_normalised_queries_have_no_circuits(tmp_path):
    a, b = (Checkpoint.open(random_folder(tmp_path / str(i), "qwen3", "Qwen3ForCausalLM", 6, i)) for i in (0, 1))
    with pytest.raises(NotExpressible, match="normalises queries and keys"):
        Objective(same_form(a, b), LearnedMatching(path="circuit"), LANGUAGE)


def test_batches_that_do_not_fit_are_refused(root):
    with pytest.raises(BadTask, match="do not fit"):
        run(root, "GPT2LMHeadModel", None, batch=1000)
    with pytest.raises(BadTask, match="Only images"):
        run(root, "GPT2LMHeadModel", None, augment=True)

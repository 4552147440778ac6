"""Options: those that must make a difference, or none, and those that are refused."""

from __future__ import annotations

import pytest
import torch

from helpers.learning import F64, open_pair, run, taught_by, tensors
from onebasin.checkpoint.stock import outputs, stock_model
from onebasin.errors import BadRecipe
from onebasin.landscape import evaluate
from onebasin.learn.options import LearnedMatching
from onebasin.methods.learned import Learned
from onebasin.options import write_section
from onebasin.papers.options import PaperLearning


def test_what_a_run_depends_on(root):
    name = "ViTForImageClassification"
    short = {"steps": 4, "eval_every": 2}

    def found(**options):
        return tensors(run(root, name, None, **{**short, **options}).alignment)["residual/matrix"]

    plain = found()
    assert plain.equal(found())
    for change in (
        {"seed": 1}, {"law": "highest"}, {"lr": 1e-2}, {"augment": True}, {"accumulate": 2}, {"clip": 1e-4},
        {"weight_decay": 0.5}, {"optimizer": "muon"}, {"warmup": 0.5}, {"loss": "agreement"}, {"two_sided": True},
        {"paper": {"law": "full"}}, {"paper": {"rotation": "exponential"}}, {"paper": {"rotation": "polar"}},
        {"paper": {"scale": True}},
    ):  # fmt: skip
        assert not plain.equal(found(**change)), change
    for change in ({"paper": {}}, {"loss": "task"}, {"law": "middle"}):
        assert plain.equal(found(**change)), change
    torch.testing.assert_close(plain, found(checkpointing=True), rtol=1e-9, atol=1e-12)


def test_early_stop_keeps_the_best(root):
    learned = run(root, "GPT2LMHeadModel", None, steps=400, lr=1.0, eval_every=1, patience=3, warmup=0.0)
    course = learned.course["learning"]
    best = min(course["history"], key=lambda point: point["midpoint"])
    assert course["history"][-1]["step"] == best["step"] + 3 < 400
    assert course["best_step"] == best["step"]


def test_of_equals_the_first_is_kept(root):
    """Steps so small that nothing changes: the start stays the best, and patience ends."""
    learned = run(root, "GPT2LMHeadModel", None, steps=40, lr=1e-300, eval_every=1, patience=3)
    course = learned.course["learning"]
    assert [point["midpoint"] for point in course["history"]] == [course["history"][0]["midpoint"]] * 4
    assert course["best_step"] == 0


def test_float32_latents_give_float64_maps(root):
    learned = run(root, "GPT2LMHeadModel", None, steps=4, eval_every=2, dtype="float32")
    q = learned.alignment["residual"].dense()
    assert q.dtype == F64
    assert (q.mT @ q - torch.eye(len(q), dtype=F64)).abs().max() < 1e-13


def test_the_models_as_learned_are_those_in_the_files(root):
    """Validation on the way and the written midpoint agree."""
    learned = run(root, "LlamaForCausalLM", None, steps=6, eval_every=3)
    a, b = open_pair(root, "LlamaForCausalLM")
    _, held = taught_by(a).split(32)
    midpoint = evaluate(stock_model(learned.merged()), held).loss
    assert abs(midpoint - min(point["midpoint"] for point in learned.course["learning"]["history"])) < 1e-9
    assert outputs(stock_model(b), b.spec, held.inputs)["logits"].isfinite().all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"learn": ("residual", "brains")}, {"learn": ()}, {"learn": ("qk", "qk")}, {"law": "always"}, {"steps": 0},
        {"batch": 0}, {"lr": -1.0}, {"lr": float("nan")}, {"warmup": 2.0}, {"path": "scenic"}, {"dtype": "float8"},
        {"optimizer": "sgd"}, {"patience": -1}, {"alpha": 0.0}, {"loss": "none"}, {"compile": "always"},
    ],
    ids=str,
)  # fmt: skip
def test_options_are_checked(wrong):
    with pytest.raises(BadRecipe, match=rf"^{next(iter(wrong))}\b"):
        LearnedMatching(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"permutations": "hard"}, {"law": "middle"}, {"assign_every": 0}, {"sinkhorn": 0}, {"noise": -1.0},
     {"rotation": "quaternions"}, {"scale": "large"}],
    ids=str,
)  # fmt: skip
def test_options_of_the_papers_are_checked(wrong):
    with pytest.raises(BadRecipe, match=rf"^{next(iter(wrong))}\b"):
        PaperLearning(**wrong)


def test_options_that_exclude_each_other_are_refused():
    soft, half = PaperLearning(permutations="soft"), PaperLearning(law="half")
    with pytest.raises(BadRecipe, match="permutations cannot be soft with two sides"):
        Learned(two_sided=True, paper=soft)
    with pytest.raises(BadRecipe, match=r"paper\.law takes the place of law"):
        Learned(law="middle", paper=half)
    assert not Learned(paper=soft).exact
    assert Learned(two_sided=True, paper=half).exact


def test_the_options_are_plain_data():
    options = LearnedMatching(learn=("residual", "qk"), lr=0.1)
    assert LearnedMatching(**write_section(options)) == options

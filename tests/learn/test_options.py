"""Options that must make a difference, or none."""

from __future__ import annotations

import torch

from helpers.learning import (
    F64,
    open_pair,
    run,
    taught_by,
    tensors,
)
from onebasin.landscape import evaluate
from onebasin.learn import aligned
from onebasin.stock import outputs, stock_model


def test_what_a_run_depends_on(root):
    name = "ViTForImageClassification"
    short = {"steps": 4, "eval_every": 2}

    def found(**options):
        return tensors(run(root, name, None, **{**short, **options}).correction)["residual/matrix"]

    plain = found()
    assert plain.equal(found())
    for change in (
        {"seed": 1}, {"law": "full"}, {"lr": 1e-2}, {"augment": True}, {"accumulate": 2}, {"clip": 1e-4},
        {"rotation": "exponential"}, {"optimizer": "adam", "weight_decay": 0.5}, {"optimizer": "muon"},
        {"schedule": "constant"},
    ):  # fmt: skip
        assert not plain.equal(found(**change)), change
    torch.testing.assert_close(plain, found(checkpointing=True), rtol=1e-9, atol=1e-12)


def test_early_stop_keeps_the_best(root):
    learned = run(root, "GPT2LMHeadModel", None, steps=400, lr=1.0, eval_every=1, patience=3, warmup=0.0)
    best = min(learned.history, key=lambda point: point.midpoint)
    assert learned.history[-1].step == best.step + 3 < 400
    assert learned.best_step == best.step


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
    midpoint = evaluate(stock_model(aligned(a, b, learned).midpoint()), held).loss
    assert abs(midpoint - min(point.midpoint for point in learned.history)) < 1e-9
    assert outputs(stock_model(b), b.spec, held.inputs)["logits"].isfinite().all()

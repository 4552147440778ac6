"""The loss of a large vocabulary in chunks: the same loss and gradients, and never all logits at once."""

from __future__ import annotations

import pytest
import torch

from helpers.learning import F64, objective, share
from onebasin.moving import head

LMS = pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM", "GPTNeoXForCausalLM"])
FEW, MANY = 3 * 17, 2**26  # logits: of three tokens, or of all


def padded(samples: int = 4) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Texts of unequal length, with labels that do not count."""
    g = torch.Generator().manual_seed(3)
    ids, labels = torch.randint(17, (2, samples, 8), generator=g)
    mask = (torch.arange(8) < torch.tensor([8, 5, 3, 7])[:, None]).long()
    return {"input_ids": ids, "attention_mask": mask}, labels.masked_fill(mask == 0, -100)


@pytest.fixture
def made_at_once(monkeypatch):
    """How many logits each piece had."""
    sizes = []
    own = head.logits

    def seen(theta, states):
        made = own(theta, states)
        sizes.append(made.numel())
        return made

    monkeypatch.setattr(head, "logits", seen)
    return sizes


@LMS
@pytest.mark.parametrize("loss", ["task", "agreement"])
def test_chunks_have_the_loss_and_the_gradients_of_all_logits(root, name, loss, monkeypatch, made_at_once):
    made, *_ = objective(root, name, checkpointing=True, loss=loss)
    inputs, labels = padded()
    found = {}
    for chunk in (MANY, FEW):
        monkeypatch.setattr(head, "CHUNK", chunk)
        made.zero_grad()
        assert not made_at_once
        value = made(inputs, made.target(inputs, labels, share(0.4)), share(0.4), back=True)
        found[chunk] = [value, *(p.grad.clone() for p in made.learned())]
    assert max(made_at_once) == FEW
    for whole, chunked in zip(*found.values(), strict=True):
        assert (chunked - whole).norm() <= 1e-12 * whole.norm()
    labels[0, 0] = -100  # the control: what counts is seen
    inputs["attention_mask"][0, 7] = 0
    other = made(inputs, made.target(inputs, labels, share(0.4)), share(0.4))
    assert abs(float(other.detach() - found[FEW][0])) > 1e-6


def test_random_numbers_are_not_kept_for_what_draws_none(root, monkeypatch, made_at_once):
    """Reading their state would wait for the GPU at every chunk; blocks with dropout keep it."""
    kept, read = [], torch.get_rng_state
    monkeypatch.setattr(torch, "get_rng_state", lambda: kept.append(1) or read())
    monkeypatch.setattr(head, "CHUNK", FEW)
    for dropout in (False, True):
        made, *_ = objective(root, "GPT2LMHeadModel", checkpointing=True, dropout=dropout)
        inputs, labels = padded()
        made(inputs, labels, share(0.4), back=True)
        assert made_at_once
        assert bool(kept) == dropout


def test_a_model_that_changes_its_logits_has_them_whole(root, monkeypatch, made_at_once):
    """As some do after their head; the loss is that of what the model says."""
    made, *_ = objective(root, "LlamaForCausalLM", checkpointing=True)
    inputs, labels = padded()
    own = made.model.forward

    def doubled(**given):
        outputs = own(**given)
        outputs.logits = 2 * outputs.logits
        return outputs

    monkeypatch.setattr(made.model, "forward", doubled)
    expected = made(inputs, labels, share(0.4))
    monkeypatch.setattr(head, "CHUNK", FEW)
    assert made(inputs, labels, share(0.4)).equal(expected)
    assert not made_at_once


def test_a_loss_of_the_users_own_is_given_all_logits(root, monkeypatch, made_at_once):
    made, *_ = objective(root, "LlamaForCausalLM", checkpointing=True)
    inputs, labels = padded()
    shapes = []

    def own(outputs, labels):
        shapes.append(tuple(outputs.logits.shape))
        return outputs.logits.square().mean((1, 2))

    made.running.loss = own
    monkeypatch.setattr(head, "CHUNK", FEW)
    made(inputs, labels, share(0.4), back=True)
    assert (shapes, made_at_once) == ([(4, 8, 17)], [])
    assert made.learned()[0].dtype == F64

"""What several models say together: of texts, what a pile of texts by all of them says; of all else, their mean."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from onebasin.tasks import CLASSIFICATION, EMBEDDINGS, LANGUAGE, MASKED
from onebasin.tasks.losses import believed
from onebasin.tasks.teachers import together

TEXTS, LENGTH, VOCABULARY = 5, 9, 6


def spoken(models: int, seed: int = 0, size: float = 2.0) -> tuple[list[SimpleNamespace], dict[str, Tensor]]:
    """(what so many models say, the texts that they read)."""
    g = torch.Generator().manual_seed(seed)
    outputs = [
        SimpleNamespace(logits=size * torch.randn(TEXTS, LENGTH, VOCABULARY, generator=g)) for _ in range(models)
    ]
    return outputs, {"input_ids": torch.randint(VOCABULARY, (TEXTS, LENGTH), generator=g)}


def log_chance(each: Tensor, ids: Tensor) -> Tensor:
    """Of every token but the first."""
    return each.log()[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1)


@pytest.mark.parametrize("share", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.5, 0.3)])
def test_texts_are_as_likely_as_in_a_pile_by_all_models(share):
    """Π_t p(x_t | x_<t) = Σ_m λ_m Π_t p_m(x_t | x_<t); the mean of the models has other chances."""
    outputs, inputs = spoken(len(share))
    at, ids = torch.tensor(share), inputs["input_ids"]
    each = torch.stack([log_chance(believed(x, inputs), ids).sum(-1) for x in outputs])
    pile = (at.log()[:, None] + each).logsumexp(0)
    torch.testing.assert_close(log_chance(together(outputs, inputs, at, LANGUAGE), ids).sum(-1), pile)
    mean = sum(s * believed(x, inputs) for s, x in zip(share, outputs, strict=True))
    assert (log_chance(mean, ids).sum(-1) - pile).abs().max() > 0.1  # the control


def written_by(which: int) -> tuple[list[SimpleNamespace], dict[str, Tensor]]:
    """Two models, each all but sure of its own next token, and a text that one of them wrote."""
    ids = torch.tensor([[(which + 1) * t % VOCABULARY for t in range(LENGTH)]])
    logits = [torch.zeros(1, LENGTH, VOCABULARY) for _ in range(2)]
    for m, x in enumerate(logits):
        x[0, torch.arange(LENGTH), (ids[0] + m + 1) % VOCABULARY] = 5.0
    return [SimpleNamespace(logits=x) for x in logits], {"input_ids": ids}


@pytest.mark.parametrize("which", [0, 1])
def test_the_teacher_of_a_text_is_who_wrote_it(which):
    outputs, inputs = written_by(which)
    found = together(outputs, inputs, torch.tensor([0.5, 0.5]), LANGUAGE)
    own, other = believed(outputs[which], inputs), believed(outputs[1 - which], inputs)
    torch.testing.assert_close(found[:, 0], (own + other)[:, 0] / 2)  # nothing is read yet
    assert (found[:, 3:] - own[:, 3:]).abs().max() < 1e-4 < 0.5 < (found[:, 3:] - other[:, 3:]).abs().max()
    exchanged = together(outputs[::-1], inputs, torch.tensor([0.5, 0.5]), LANGUAGE)
    torch.testing.assert_close(exchanged, found)


def test_alone_a_model_is_its_own_teacher():
    """Also of a text that it gives no chance at all."""
    outputs, inputs = spoken(2, size=200.0)
    for which, share in enumerate(torch.eye(2)):
        assert together(outputs, inputs, share, LANGUAGE).equal(believed(outputs[which], inputs))
    assert together(outputs, inputs, torch.tensor([0.5, 0.5]), LANGUAGE).isfinite().all()


def test_padding_is_not_read():
    outputs, inputs = spoken(2)
    at, half = torch.tensor([0.5, 0.5]), LENGTH // 2
    mask = (torch.arange(LENGTH) >= half).long().expand(TEXTS, -1)  # texts are put at the end
    cut = [SimpleNamespace(logits=x.logits[:, half:]) for x in outputs]
    alone = together(cut, {"input_ids": inputs["input_ids"][:, half:]}, at, LANGUAGE)
    found = together(outputs, {**inputs, "attention_mask": mask}, at, LANGUAGE)
    assert (together(outputs, inputs, at, LANGUAGE)[:, half:] - alone).abs().max() > 1e-2  # the control
    torch.testing.assert_close(found[:, half:], alone)


@pytest.mark.parametrize("kind", [CLASSIFICATION, MASKED])
def test_models_that_write_nothing_have_their_mean(kind):
    outputs, inputs = spoken(3)
    share = torch.tensor([0.2, 0.5, 0.3])
    mean = sum(s * believed(x, inputs) for s, x in zip(share, outputs, strict=True))
    torch.testing.assert_close(together(outputs, inputs, share, kind), mean)


def test_embeddings_have_their_mean():
    g = torch.Generator().manual_seed(0)
    outputs = [SimpleNamespace(last_hidden_state=torch.randn(4, 3, 2, generator=g)) for _ in range(2)]
    found = together(outputs, {}, torch.tensor([0.25, 0.75]), EMBEDDINGS)
    torch.testing.assert_close(found, 0.25 * believed(outputs[0], {}) + 0.75 * believed(outputs[1], {}))

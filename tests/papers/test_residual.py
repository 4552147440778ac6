"""The first paper's comparison with order alone: the stream, too, learns a permutation."""

from __future__ import annotations

import pytest
import torch

from helpers.learning import run
from onebasin.errors import BadRecipe
from onebasin.methods.learned import Learned
from onebasin.papers.options import PaperLearning
from onebasin.verification.certificate import certificate

ORDER = {"permutations": "straight-through", "residual": "permutation", "assign_every": 1}
HOW = {"steps": 20, "eval_every": 5, "lr": 0.1, "learn": ("residual",)}


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM", "ViTForImageClassification"])
def test_the_stream_learns_its_order_alone_and_the_function_stays(root, name):
    learned, rotated = run(root, name, None, paper=ORDER, **HOW), run(root, name, None, **HOW)
    (space,) = [space for space in learned.alignment.maps if space in learned.ensemble.spec.streams]
    order, turn = (x.alignment[space].dense() for x in (learned, rotated))
    one = torch.eye(len(order), dtype=order.dtype)
    torch.testing.assert_close(order, order.round(), rtol=0, atol=1e-12)
    torch.testing.assert_close(order @ order.T, one, rtol=0, atol=1e-12)
    assert order.min() > -1e-12
    assert not torch.allclose(order, one)  # it did move
    assert (turn - turn.round()).abs().max() > 1e-3  # the control: a rotation is no order
    assert certificate(learned)["output_drift"]["float64"] < 1e-12


def test_an_order_that_is_frozen_cannot_be_learned():
    with pytest.raises(BadRecipe, match=r"paper\.residual cannot be permutation"):
        Learned(paper=PaperLearning(residual="permutation"))

"""Layers that are alike share one computation of their weights, and it can be compiled."""

from __future__ import annotations

from functools import partial
from unittest.mock import Mock

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from helpers.learning import inputs_of, open_pair
from onebasin.ensemble.ensemble import Ensemble
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.tasks import LANGUAGE

F32 = torch.float32
SHARE = torch.tensor([0.6, 0.4], dtype=F32)


def gradients(forms, **options):
    made = Objective(forms, LearnedMatching(loss="agreement", checkpointing=True, **options), LANGUAGE, dtype=F32)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in made.learned():
            p.copy_(0.2 * torch.randn(p.shape, generator=g, dtype=F32))
    inputs = inputs_of(forms[0], 2)
    made(inputs, made.target(inputs, torch.zeros(2, 8), SHARE), SHARE, back=True)
    return made, [p.grad for p in made.learned()]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # what torch's compiler does
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # the same
def test_layers_alike_are_compiled_once(root, monkeypatch):
    forms = Ensemble.of(open_pair(root, "GPTNeoXForCausalLM")).forms
    made, plain = gradients(forms, two_sided=True)
    assert [x.shared.blocks for x in made.running.blocks] == [1, 2, 2, 1, 1]  # embedding, layers, norm, head
    torch.compiler.reset()
    counter = CompileCounter()
    monkeypatch.setattr(LearnedMatching, "compiles", lambda options, device: True)
    compiling = Mock(wraps=partial(torch.compile, backend=counter, fullgraph=True))
    monkeypatch.setattr(torch, "compile", compiling)
    _, compiled = gradients(forms, two_sided=True)
    assert [x.kwargs for x in compiling.call_args_list] == [{"dynamic": False}]  # every size is known
    assert counter.frame_count == 2  # where the models stay, to be taught by them, and where they move
    for p, q in zip(plain, compiled, strict=True):
        assert p.norm() > 0
        assert (p - q).norm() < 1e-5 * p.norm()

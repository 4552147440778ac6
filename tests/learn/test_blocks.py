"""Blocks that make their own weights: the numbers of the whole model, its gradients, and how little is in memory."""

from __future__ import annotations

import pytest
import torch

from helpers.random_models import CLASSES, IDS, random_folder
from onebasin import Checkpoint
from onebasin.checkpoint.stock import probe_inputs
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import NotInFamily
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.tasks.task import head_of

F64 = torch.float64
SHARE = torch.tensor([0.6, 0.4], dtype=F64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blocks")


def forms_of(folder, model_type, name):
    """The canonical forms of two models of a class that share their shape."""
    paths = [folder / f"{name}-{seed}" for seed in (1, 2)]
    for seed, path in enumerate(paths):
        if not path.exists():
            random_folder(path, model_type, name, 5, seed)
    return Ensemble.of([Checkpoint.open(path) for path in paths]).forms


def weighed(outputs, labels):
    """A loss that any model has: a fixed combination of all numbers it says."""
    x = outputs[0]
    return (x * torch.linspace(-1, 1, x[0].numel(), dtype=x.dtype).view_as(x[0])).flatten(1).sum(1)


def objectives(forms, **options):
    """(whole, in blocks) with the same random latents, of everything that the model can learn."""
    kind, groups = head_of(forms[0]), ["residual", "qk", "ov", "units", "gains"]
    while groups:
        try:
            made = [
                Objective(
                    forms, LearnedMatching(**{"learn": tuple(groups), "checkpointing": blocks, **options}), kind,
                    dtype=F64, loss=weighed,
                )
                for blocks in (False, True)
            ]  # fmt: skip
            break
        except NotInFamily as refused:
            groups.remove(str(refused).split()[1])
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p, q in zip(*(x.learned() for x in made), strict=True):
            p.copy_(0.2 * torch.randn(p.shape, generator=g, dtype=F64))
            q.copy_(p)
    return made


def relative(x, y):
    return float((x - y).norm() / y.norm())


@pytest.mark.parametrize(("model_type", "name"), CLASSES, ids=IDS)
def test_gradients_by_blocks_are_those_of_the_whole_model(folder, model_type, name):
    forms = forms_of(folder, model_type, name)
    whole, blocks = objectives(forms, loss="task", two_sided=True)
    inputs, labels = probe_inputs(forms[0].spec, batch=2, length=6), torch.zeros(2, dtype=torch.long)
    losses = [made(inputs, labels, SHARE, back=True) for made in (whole, blocks)]
    assert relative(losses[1], losses[0]) < 1e-12
    for p, q in zip(whole.learned(), blocks.learned(), strict=True):
        assert p.grad.abs().max() > 0
        assert relative(q.grad, p.grad) < 1e-12
    theta, again = whole.theta(SHARE), blocks.theta(SHARE)
    assert theta.keys() <= again.keys()
    for x in theta:
        torch.testing.assert_close(again[x], theta[x], rtol=1e-12, atol=1e-12)

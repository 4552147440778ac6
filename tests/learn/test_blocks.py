"""Blocks that make their own weights: the numbers of the whole model, its gradients, and how little is in memory."""

from __future__ import annotations

import weakref
from math import prod

import pytest
import torch

from helpers.learning import inputs_of, open_pair
from helpers.random_models import CLASSES, IDS, random_folder
from onebasin import Checkpoint
from onebasin.checkpoint.stock import probe_inputs, stock_model
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import NotInFamily
from onebasin.learn import options
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.methods.learned import Learned
from onebasin.methods.weight import Weight
from onebasin.moving.blocks import Block, block_names
from onebasin.tasks import CLASSIFICATION, LANGUAGE
from onebasin.tasks.task import head_of

F64 = torch.float64
SHAPES = {"RoFormerForSequenceClassification": 9}  # with 5 it is a decoder that reads the first token: no attention
SHARE = torch.tensor([0.6, 0.4], dtype=F64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blocks")


def forms_of(folder, model_type, name):
    """The canonical forms of two models of a class that share their shape."""
    paths = [folder / f"{name}-{seed}" for seed in (1, 2)]
    for seed, path in enumerate(paths):
        if not path.exists():
            random_folder(path, model_type, name, SHAPES.get(name, 5), seed)
    return Ensemble.of([Checkpoint.open(path) for path in paths]).forms


def weighed(outputs, labels):
    """A loss that any model has, without cancellation: squares of all it says, each with a factor of its own."""
    x = outputs[0]
    return (x.square() * torch.linspace(1, 2, x[0].numel(), dtype=x.dtype).view_as(x[0])).flatten(1).sum(1)


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


@pytest.mark.parametrize(("model_type", "name"), CLASSES, ids=IDS)
def test_gradients_by_blocks_are_those_of_the_whole_model(folder, model_type, name):
    forms = forms_of(folder, model_type, name)
    whole, blocks = objectives(forms, loss="task", two_sided=True)
    inputs, labels = probe_inputs(forms[0].spec, batch=2, length=6), torch.zeros(2, dtype=torch.long)
    losses = [made(inputs, labels, SHARE, back=True) for made in (whole, blocks)]
    assert abs(losses[1] - losses[0]) < 1e-12 * losses[0]
    for p, q in zip(whole.learned(), blocks.learned(), strict=True):
        assert p.grad.norm() > 0
        assert (q.grad - p.grad).norm() < 1e-12 * p.grad.norm()
    theta, again = whole.theta(SHARE), blocks.theta(SHARE)
    assert theta.keys() <= again.keys()
    for x in theta:
        torch.testing.assert_close(again[x], theta[x], rtol=1e-12, atol=1e-12)


def test_a_step_holds_the_frozen_models_and_no_weights_between_them(root, tmp_path, monkeypatch):
    """Models in the type of their files, teachers included; θ(λ) of a layer is gone when the layer has run."""
    for m, model in enumerate(open_pair(root, "LlamaForCausalLM")):
        model.save(tmp_path / str(m), dtype="bf16")
    forms = Ensemble.of([Checkpoint.open(tmp_path / str(m)) for m in (0, 1)]).forms
    chosen = LearnedMatching(checkpointing=True, loss="agreement")
    made = Objective(forms, chosen, LANGUAGE, forward_dtype=torch.bfloat16)
    parameters = sum(prod(shape) for shape in forms[0].spec.keys.values())
    assert sum(p.nbytes for p in made.running.blocks.parameters()) == 2 * 2 * parameters
    living, own = [], Block.theta

    def watched(block, where):
        theta = own(block, where)
        living.extend(weakref.ref(x) for x in theta.values())
        return theta

    monkeypatch.setattr(Block, "theta", watched)
    inputs, share = inputs_of(forms[0], 4), SHARE.float()
    loss = made(inputs, made.target(inputs, torch.zeros(4, 8), share), share)
    assert len(living) == 3 * len(list(made.model.parameters()))
    assert not any(x() is not None for x in living)
    loss.backward()
    assert not any(x() is not None for x in living)
    again = Objective(forms, LearnedMatching(loss="agreement"), LANGUAGE)  # the control: float32, as one block
    again(inputs, again.target(inputs, torch.zeros(4, 8), share), share, back=True)
    for p, q in zip(made.learned(), again.learned(), strict=True):
        assert torch.nn.functional.cosine_similarity(p.grad.flatten(), q.grad.flatten(), dim=0) > 0.95


def test_pictures_are_seen_in_the_type_of_the_forward_pass(root):
    forms = Ensemble.of(open_pair(root, "ViTForImageClassification")).forms
    chosen = LearnedMatching(checkpointing=True, loss="task")
    made = Objective(forms, chosen, CLASSIFICATION, forward_dtype=torch.bfloat16)
    assert made.at(SHARE.float())(inputs_of(forms[0], 2)).dtype == torch.bfloat16


def test_blocks_are_layers_and_what_has_parameters_besides(root):
    model = stock_model(open_pair(root, "LlamaForCausalLM")[0])
    assert block_names(model) == ["model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "lm_head"]
    model = stock_model(open_pair(root, "BertForSequenceClassification")[0])
    assert block_names(model)[-2:] == ["bert.pooler.dense", "classifier"]


def test_large_models_are_run_block_by_block(root, monkeypatch):
    form, _ = open_pair(root, "LlamaForCausalLM")
    numbers = sum(prod(shape) for shape in form.spec.keys.values())
    for largest, blocks in ((numbers, False), (numbers - 1, True)):
        monkeypatch.setattr(options, "LARGE", largest)
        assert LearnedMatching().by_blocks(form.spec) == blocks
        assert LearnedMatching(checkpointing=True).by_blocks(form.spec)
        assert Learned(start=Weight()).work(form.spec) == ("learn by blocks" if blocks else "learn")
        assert Learned().work(form.spec) == "learn"  # activations take whole models

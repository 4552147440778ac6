"""Several models side by side train as each would alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch.func import vmap

from helpers.reproducing import BERT, GPT2, LLAMA, NEOX, ROFORMER, VIT
from onebasin.methods.method import silent
from onebasin.reproduce.batches import jitter
from onebasin.reproduce.data import normalised
from onebasin.reproduce.models import fresh
from onebasin.reproduce.pausing import OutOfTime, Progress
from onebasin.reproduce.plan import Course
from onebasin.reproduce.training import CLIP, Best, SideBySide, rate, train

CPU = torch.device("cpu")


def models(kind, count=2):
    torch.manual_seed(0)
    return [fresh(kind) for _ in range(count)]


def data(kind):
    g = torch.Generator().manual_seed(0)
    if kind is VIT:
        pixels = torch.randint(256, (20, 3, 16, 16), generator=g, dtype=torch.uint8)
        return {"train.pixels": pixels, "train.labels": torch.arange(20) % 10}
    return {f"{split}.ids": torch.randint(256, (200,), generator=g, dtype=torch.uint8) for split in ("train", "valid")}


def batch(kind):
    g = torch.Generator().manual_seed(1)
    if kind is VIT:
        return {"pixel_values": torch.randn(2, 4, 3, 16, 16, generator=g)}, torch.randint(10, (2, 4), generator=g)
    return {"input_ids": torch.randint(256, (2, 4, 8), generator=g)}, torch.randint(256, (2, 4, 8), generator=g)


@pytest.mark.parametrize("kind", [VIT, GPT2, NEOX, LLAMA, BERT, ROFORMER], ids=lambda kind: kind["kind"])
def test_one_more_axis_gives_the_gradients_of_each_model_alone(kind):
    side, (inputs, labels) = SideBySide(models(kind), CPU), batch(kind)
    losses = side._backward(vmap(side._loss, randomness="different"), inputs, labels)
    found = [side.parameters({name: x.grad[i] for name, x in side.flat.items()}) for i in range(2)]
    for i, model in enumerate(models(kind)):  # the stock model, with its own convolution
        one = {name: x[i] for name, x in inputs.items()}
        loss = torch.nn.functional.cross_entropy(model(**one).logits.flatten(0, -2), labels[i].flatten())
        loss.backward()
        torch.testing.assert_close(losses[i], loss.detach())
        assert set(found[i]) == {name for name, x in model.named_parameters() if x.requires_grad}
        for name, x in model.named_parameters():
            torch.testing.assert_close(found[i].get(name), x.grad, atol=1e-6, rtol=1e-4)
    assert not torch.allclose(losses[0], losses[1])


@pytest.mark.parametrize("kind", [GPT2, NEOX, LLAMA, BERT, ROFORMER], ids=lambda kind: kind["kind"])
def test_models_have_the_sizes_that_were_asked_for(kind):
    config = fresh(kind).config
    found = (config.hidden_size, config.num_hidden_layers, config.num_attention_heads, config.max_position_embeddings)
    assert found == tuple(kind[size] for size in ("width", "layers", "heads", "length"))
    assert (config.vocab_size, config.pad_token_id) in ((256, None), (256, 0), (257, None))


def test_models_begin_as_their_papers_say():
    """The ViT: Xavier maps without biases, what is added or read out by a normal of 0.02 that is cut at two.  Decoders
    with rotary positions: what writes the stream is smaller, as in GPT-2."""
    torch.manual_seed(0)
    vit = fresh({**VIT, "width": 64, "heads": 4, "inner": 128})
    for name, x in vit.state_dict().items():
        if name.endswith(("cls_token", "position_embeddings", "classifier.weight")):
            assert 0.015 < float(x.std()) < 0.025, name
        elif name.endswith("dense.weight") or "query" in name:
            assert float(x.abs().max()) == pytest.approx(math.sqrt(6 / sum(x.shape)), rel=0.02), name
        elif name.endswith(("dense.bias", "query.bias", "classifier.bias")):
            assert not x.any(), name
    for layers in (1, 8):
        neox = fresh({**NEOX, "width": 64, "heads": 4, "inner": 128, "layers": layers})
        sizes = {name: float(x.std()) for name, x in neox.state_dict().items() if x.ndim > 1}
        inside = "gpt_neox.layers.0.attention"
        ratio = sizes[f"{inside}.dense.weight"] / sizes[f"{inside}.query_key_value.weight"]
        assert ratio == pytest.approx((2 * layers) ** -0.5, rel=0.1)


def test_pixels_are_scaled_by_what_deviations_can_be():
    """Numbers from 0 to 1 deviate from their mean by a half at most."""
    black, white = (normalised(torch.full((1, 3, 2, 2), value)) for value in (0.0, 1.0))
    assert (white - black).min() >= 2
    assert black.max() < 0 < white.min()


def test_grey_pictures_change_in_brightness_and_contrast_alone():
    grey = torch.full((3, 3, 4, 4), 0.3)
    grey[..., 2:] = 0.6
    dice = torch.Generator().manual_seed(1)
    brighter, apart = (0.6 + 0.8 * torch.rand(3, 1, 1, 1, generator=dice) for _ in range(2))
    middle = 0.45 * brighter
    expected = middle + (grey * brighter - middle) * apart
    torch.testing.assert_close(jitter(grey, torch.Generator().manual_seed(1)), expected)


def test_every_gradient_is_cut_by_itself():
    side = SideBySide(models(VIT), CPU)
    for x in side.flat.values():
        x.grad = torch.ones_like(x)
        x.grad[1] *= 1e-6
    side.clip()
    sizes = [math.sqrt(sum(float(x.grad[i].square().sum()) for x in side.flat.values())) for i in range(2)]
    assert sizes[0] == pytest.approx(CLIP, rel=1e-5)
    assert sizes[1] == pytest.approx(1e-6 * math.sqrt(sum(x[0].numel() for x in side.flat.values())), rel=1e-5)


def test_the_l2_term_spares_norms_and_biases():
    """Without a gradient only decay could move them."""
    from onebasin.reproduce.training import _optimizer

    side = SideBySide(models(VIT), CPU)
    optimizer, before = _optimizer(side, Course(1, 8, 0.1, 0.1, "l2")), side.copies()
    for x in side.flat.values():
        x.grad = torch.zeros_like(x)
    optimizer.step()
    assert side.flat["vectors"].equal(before["vectors"])
    assert not side.flat["matrices"].equal(before["matrices"])
    assert all("bias" in name or "norm" in name for name in side.parts["vectors"])


def trained(kind, seeds, steps=4, **more):
    course = Course(steps, 8, 1e-2, 0.0, **more)
    return train(models(kind, len(seeds)), data(kind), kind.get("length", 0), course, seeds, CPU, silent)


@pytest.mark.parametrize("kind", [VIT, GPT2], ids=lambda kind: kind["kind"])
def test_training_can_be_repeated_and_depends_on_the_seed(kind):
    first, again, other = trained(kind, (0, 1)), trained(kind, (0, 1)), trained(kind, (5, 6))
    for a, b, c in zip(first, again, other, strict=True):
        weights = [next(x for name, x in model.named_parameters() if x.ndim > 1) for model in (a, b, c)]
        assert weights[0].equal(weights[1])
        assert not weights[0].equal(weights[2])
        assert a.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("kind", [VIT, {**GPT2, "dropout": 0.3}], ids=lambda kind: kind["kind"])
def test_a_pause_changes_nothing(tmp_path, kind):
    """With dropout, the best kept by validation, and an optimiser that remembers."""
    course = Course(70, 4, 1e-2, 1e-3, "l2", eval_every=10, patience=0 if kind is VIT else 9)

    def run(progress, tick=silent):
        begun = models(kind)
        return train(begun, data(kind), kind.get("length", 0), course, (0, 1), CPU, tick, progress)

    def stops(step, done=0, total=0):
        if done > 50:
            raise OutOfTime

    whole = run(None)
    progress = Progress(tmp_path / "paused" / "one.safetensors", {"lr": 1})
    with pytest.raises(OutOfTime):
        run(progress, stops)
    torch.rand(5)  # something else happens
    other = run(Progress(progress.file, {"lr": 2}))  # another training does not take it for its own
    for a, b, c in zip(whole, run(progress), other, strict=True):
        for x, y, z in zip(a.parameters(), b.parameters(), c.parameters(), strict=True):
            assert x.equal(y)
            assert kind is not VIT or x.equal(z)


def test_the_rate_warms_up_and_ends_near_nothing():
    rates = [rate(step, 100) for step in range(100)]
    assert rates[0] < rates[4]
    assert rates.index(max(rates)) == 4
    assert rates[-1] < 1e-3


def test_each_model_is_kept_as_it_was_at_its_best(monkeypatch):
    side = SideBySide(models(GPT2), CPU)
    best, start = Best(side, [], patience=2), side.copies()
    heights = iter([[1.0, 5.0], [2.0, 4.0], [3.0, 9.0], [0.0, 9.0]])
    monkeypatch.setattr(SideBySide, "validate", lambda self, held: torch.tensor(next(heights)))
    ends = []
    for _ in range(4):
        ends.append(best.ended())
        with torch.no_grad():
            for x in side.flat.values():
                x += 1
    assert ends == [False, False, False, True]  # the first had its time when it would have been better again
    for kind, x in best.kept.items():
        torch.testing.assert_close(x - start[kind], torch.tensor([0.0, 1.0])[:, None].expand_as(x))

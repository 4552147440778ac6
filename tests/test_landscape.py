"""Paths, evaluation, curves and their pictures, against brute force and with controls that must fail."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import torch
import transformers
from random_models import CLASSES, config_of, needs_circuits, random_folder, random_model
from torch.nn.functional import cross_entropy
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.archs.rotary import before_5
from onebasin.errors import BadOutput, BadTask, Incompatible, NotExpressible, OnebasinError
from onebasin.landscape import CircuitPath, Curve, Evaluation, FactorPath, evaluate, measure, path_between, pick_device
from onebasin.report import plot
from onebasin.stock import outputs, probe_inputs, stock_model
from onebasin.tasks import CLASSIFICATION, IGNORED, LANGUAGE, Task, load_task

F64 = torch.float64

TINY = {
    "GPT2LMHeadModel": transformers.GPT2Config(
        n_embd=24, n_layer=2, n_head=3, n_inner=20, vocab_size=17, n_positions=12, tie_word_embeddings=False,
        scale_attn_by_inverse_layer_idx=True, bos_token_id=1, eos_token_id=2,
    ),
    "ViTForImageClassification": transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=8, patch_size=4,
        num_labels=3,
    ),
    "LlamaForCausalLM": transformers.LlamaConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=4, vocab_size=17,
        intermediate_size=20, max_position_embeddings=12, attention_bias=True, tie_word_embeddings=False,
    ),
}  # fmt: skip
INSIDE = {  # where the attention modules are
    "GPT2LMHeadModel": "transformer.h.{}.attn",
    "ViTForImageClassification": "vit.layers.{}.attention",
    "LlamaForCausalLM": "model.layers.{}.self_attn",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """(A, B) of one of the classes above."""
    root = tmp_path_factory.mktemp("tiny")
    for name, config in TINY.items():
        for seed in (0, 1):
            random_model(name, config, seed).save_pretrained(root / f"{name}-{seed}")
    return lambda name: tuple(Checkpoint.open(root / f"{name}-{seed}") for seed in (0, 1))


def gap(x: dict[str, torch.Tensor], y: dict[str, torch.Tensor]) -> float:
    return max(float((x[name] - y[name]).abs().max()) for name in x)


def run(model: torch.nn.Module, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return outputs(model, checkpoint.spec, probe_inputs(checkpoint.spec, length=9))


# ---- paths


@pytest.mark.parametrize("model_type_and_class", CLASSES, ids=[name for _, name in CLASSES])
@pytest.mark.parametrize("kind", ["factor", "circuit"])
def test_both_ends_are_the_models_themselves(tmp_path, kind, model_type_and_class):
    model_type, name = model_type_and_class
    a, b = (Checkpoint.open(random_folder(tmp_path / str(i), model_type, name, 6, i)) for i in (0, 1))
    if kind == "circuit" and model_type == "qwen3":
        with pytest.raises(NotExpressible, match="normalises queries and keys"):
            path_between(kind, a, b)
        return
    if kind == "circuit":
        needs_circuits(name)
    path = path_between(kind, a, b)
    ends = [run(stock_model(x), x) for x in (a, b)]
    scale = max(float(x.abs().max()) for end in ends for x in end.values())
    for weight in (0, 1, 0):  # the same module is used for every point
        assert gap(run(path.model(weight, F64), a), ends[weight]) < 1e-9 * max(1, scale)
    assert gap(run(path.model(0.5, F64), a), ends[0]) > 1e-3


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("kind", ["factor", "circuit"])
def test_ends_in_float32(tiny, kind, name):
    a, b = tiny(name)
    path = path_between(kind, a, b)
    for weight, end in ((0, a), (1, b)):
        assert gap(run(path.model(weight), end), run(stock_model(end), end)) < 1e-5


def test_padding_is_not_attended_to(tmp_path):
    a, b = (
        Checkpoint.open(random_folder(tmp_path / str(i), "bert", "BertForSequenceClassification", 6, i)) for i in (0, 1)
    )
    inputs = probe_inputs(a.spec, length=9)
    inputs["attention_mask"][:2, 5:] = 0
    path = CircuitPath(a, b)
    if before_5():  # there this class has its own attention, and no way to give it another
        with pytest.raises(NotExpressible, match="install transformers 5, or use the factor path"):
            path.model(0.5, F64)
        return
    for weight, end in ((0, a), (1, b)):
        expected = outputs(stock_model(end), end.spec, inputs)
        assert gap(outputs(path.model(weight, F64), end.spec, inputs), expected) < 1e-9
        assert gap(run(stock_model(end), end), expected) > 1e-4  # the mask matters
    padded = outputs(path.model(0.5, F64), a.spec, inputs)
    inputs["input_ids"][:2, 5:] = 3
    assert gap(outputs(path.model(0.5, F64), a.spec, inputs), padded) < 1e-9


def reference_attention(path, weight, index, scaling, hidden_states, position_embeddings=None, **_):
    """Scores and outputs of both models head by head, averaged as numbers; nothing is doubled or concatenated."""
    record, scores, values = path.a.spec.attentions[index], 0.0, []
    for share, end in ((1 - weight, path.a), (weight, path.b)):
        q, k, v = (_project(end, linear, hidden_states) for linear in (*record.queries, *record.keys, record.value))
        k, v = (x if x.ndim == q.ndim else x.unsqueeze(3).expand_as(q) for x in (k, v))  # one key for a group
        q, k, v = (x.flatten(2, -2).transpose(1, 2) for x in (q, k, v))
        if position_embeddings is not None:
            q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        scores = scores + share * scaling * q @ k.mT
        values.append(v)
    if path.a.spec.model_type != "vit":
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
    out = 0.0
    for share, end, v in ((1 - weight, path.a, values[0]), (weight, path.b, values[1])):
        linear = end.spec.linears[record.output]
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        out = out + share * (mixed @ end[linear.weight].flatten(1).T + end[linear.bias])
    return out, None


def _project(end, name, x):
    linear = end.spec.linears[name]
    y = torch.tensordot(x, end[linear.weight], ([-1], [-1]))
    return y if linear.bias is None else y + end[linear.bias]


def brute_force(path: CircuitPath, weight: float, name: str) -> dict[str, torch.Tensor]:
    model = FactorPath(path.a, path.b).model(weight, F64)
    for i in range(2):
        module = model.get_submodule(INSIDE[name].format(i))
        module.forward = partial(reference_attention, path, weight, i, module.scaling)
    return run(model, path.a)


@pytest.mark.skipif(before_5(), reason="the reference takes the place of modules that transformers 4 builds otherwise")
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_the_circuit_path_averages_scores_and_outputs(tiny, name, weight):
    a, b = tiny(name)
    path = CircuitPath(a, b)
    expected = brute_force(path, weight, name)
    assert gap(run(path.model(weight, F64), a), expected) < 1e-9
    assert gap(run(FactorPath(path.a, path.b).model(weight, F64), a), expected) > 1e-2  # another path
    assert gap(run(path.model(1 - weight + 0.1, F64), a), expected) > 1e-3  # another point


def predicted(model: torch.nn.Module, checkpoint: Checkpoint, batch: int = 32) -> Task:
    """A task that the model solves as well as it can: its own first choices."""
    inputs = {k: v for k, v in probe_inputs(checkpoint.spec, batch=batch, length=9).items() if k != "attention_mask"}
    labels = outputs(model, checkpoint.spec, inputs)["logits"].argmax(-1)
    kind = CLASSIFICATION if labels.ndim == 1 else LANGUAGE
    return Task("own", kind, inputs, labels, {"source": "own choices"})


@pytest.mark.parametrize("name", TINY)
def test_maps_inside_heads_leave_the_circuit_path_flat(tiny, name):
    a = canonicalize(tiny(name)[0]).checkpoint.in_memory()
    inside = [space for space in a.spec.spaces if space.endswith((".qk", ".ov"))]
    b = transport(a, Alignment.random(a.spec, 3).only(*inside)).in_memory()
    task = predicted(stock_model(a), a)
    flat, bent = (measure(kind(a, b), task, 5, dtype=F64) for kind in (CircuitPath, FactorPath))
    assert flat.barrier < 1e-9
    assert max(abs(e.loss - flat.ends[0].loss) for e in flat.evaluations) < 1e-9
    assert bent.barrier > 0.02
    moved = transport(a, Alignment.random(a.spec, 3)).in_memory()  # the stream moves too: circuits do not help
    assert measure(CircuitPath(a, moved), task, 5, dtype=F64).barrier > 0.02


def test_the_factor_path_is_made_of_stock_checkpoints(tiny, tmp_path):
    a, b = tiny("LlamaForCausalLM")
    path = FactorPath(a, b)
    path.at(0.3).save(tmp_path / "between")
    back = Checkpoint.open(tmp_path / "between")
    assert gap(run(stock_model(back), a), run(path.model(0.3, F64), a)) < 1e-4  # written in float32
    for name in a:
        torch.testing.assert_close(path.at(0.3)[name], 0.7 * a[name] + 0.3 * b[name])
        assert path.at(0)[name].equal(a[name])
        assert path.at(1)[name].equal(b[name])


def test_half_precision_rounds_once(tiny):
    a, b = tiny("LlamaForCausalLM")
    model, exact = FactorPath(a, b).model(0.3, torch.bfloat16), FactorPath(a, b).model(0.3)
    for (_, p), (_, q) in zip(model.named_parameters(), exact.named_parameters(), strict=True):
        assert p.equal(q.to(torch.bfloat16))


def test_a_tied_and_an_untied_model_have_a_path(tmp_path):
    config = config_of("llama", 6)
    for tie in (True, False):
        config.tie_word_embeddings = tie
        random_model("LlamaForCausalLM", config, int(tie)).save_pretrained(tmp_path / str(tie))
    a, b = (Checkpoint.open(tmp_path / str(tie)) for tie in (True, False))
    path = FactorPath(a, b)
    for weight, end in ((0, a), (1, b)):
        assert gap(run(path.model(weight, F64), end), run(stock_model(end), end)) < 1e-9


def test_bad_paths_are_refused(tiny):
    a, b = tiny("GPT2LMHeadModel")
    other = tiny("ViTForImageClassification")[0]
    for kind in (FactorPath, CircuitPath):
        with pytest.raises(Incompatible, match="different tensors"):
            kind(a, other)
        with pytest.raises(OnebasinError, match="between its ends"):
            kind(a, b).model(1.5)
    with pytest.raises(OnebasinError, match="no such path"):
        path_between("scenic", a, b)
    with pytest.raises(OnebasinError, match="no device"):
        pick_device("tpu")


# ---- evaluation


class Fixed(torch.nn.Module):
    """A model that answers row by row from a table of logits."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(logits)

    def forward(self, row: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table[row])


def fixed(shape: tuple[int, ...], kind: str, **about: object) -> tuple[Fixed, Task]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(*shape, generator=generator, dtype=F64)
    labels = torch.randint(shape[-1], shape[:-1], generator=generator)
    return Fixed(logits), Task("fixed", kind, {"row": torch.arange(shape[0])}, labels, about)


def test_classification_figures():
    model, task = fixed((10, 4), CLASSIFICATION)
    found = evaluate(model, task, batch_size=3)
    each = cross_entropy(model.table, task.labels, reduction="none").detach()
    assert found.loss == pytest.approx(float(each.mean()))
    assert found.standard_error == pytest.approx(float(each.std()) / math.sqrt(10))
    assert found.metrics == {"accuracy": pytest.approx(float((model.table.argmax(-1) == task.labels).double().mean()))}
    assert found.samples == 10


def test_language_figures_count_labelled_tokens_only():
    model, task = fixed((6, 5, 7), LANGUAGE, tokens="bytes")
    labels = task.labels.clone()
    labels[0, 2:], labels[3, 0] = IGNORED, IGNORED
    found = evaluate(model, replace(task, labels=labels), batch_size=4)
    kept = labels != IGNORED
    loss = float(cross_entropy(model.table[kept].detach(), labels[kept]))
    assert found.loss == pytest.approx(loss)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(loss))
    assert found.metrics["bits_per_byte"] == pytest.approx(loss / math.log(2))
    assert found.metrics["accuracy"] == pytest.approx(float((model.table.argmax(-1) == labels)[kept].double().mean()))
    assert found.loss != pytest.approx(evaluate(model, task).loss)  # the ignored ones would have counted
    assert "bits_per_byte" not in evaluate(model, replace(task, about={"tokens": "tokenizer"})).metrics


def test_a_loss_that_is_not_finite_is_refused():
    model, task = fixed((4, 3), CLASSIFICATION)
    with torch.no_grad():
        model.table[1] = math.nan
    with pytest.raises(BadTask, match="not finite"):
        evaluate(model, task)


# ---- curves


def curve(*losses: float, path: str = "factor") -> Curve:
    each = [torch.tensor([loss - 0.1, loss + 0.1], dtype=F64) for loss in losses]
    evaluations = [Evaluation(x, {"accuracy": 1 / (1 + x)}, 0.1, 2, e) for x, e in zip(losses, each, strict=True)]
    weights = tuple(i / (len(losses) - 1) for i in range(len(losses)))
    return Curve(weights, tuple(evaluations), path, {"name": "made up", "split": "test", "samples": 2})


def test_the_barrier_is_the_largest_height_above_the_chord():
    c = curve(1.0, 2.0, 2.4, 3.0)
    assert c.chord(0.5) == pytest.approx(2.0)
    assert c.barrier == pytest.approx(2.0 - 5 / 3)
    assert c.barrier_at == pytest.approx(1 / 3)
    assert c.barrier_error == pytest.approx(0)  # every sample rises by the same amount
    assert curve(1.0, 1.2, 0.9, 3.0).barrier == 0  # below the chord: no barrier
    assert curve(0.1, 0.2, 0.3).barrier == pytest.approx(0)


def test_a_curve_tells_everything(tiny):
    a, b = tiny("LlamaForCausalLM")
    task = predicted(stock_model(a), a)
    seen = []
    c = measure(CircuitPath(a, b), task, 3, tick=seen.append)
    data = json.loads(json.dumps(c.as_dict()))
    assert seen == data["weights"] == [0, 0.5, 1]
    assert data["path"] == "circuit"
    assert data["task"]["source"] == "own choices"
    assert [p["loss"] for p in data["points"]] == [e.loss for e in c.evaluations]
    assert data["ends"]["b"]["loss"] == c.ends[1].loss
    assert data["barrier"] == {"loss": c.barrier, "standard_error": c.barrier_error, "weight": c.barrier_at}
    assert measure(FactorPath(a, b), task, weights=[0, 0.9, 1]).weights == (0, 0.9, 1)
    for wrong in ({"points": 1}, {"weights": [0.1, 1]}, {"weights": [0, 0.5]}):
        with pytest.raises(OnebasinError):
            measure(FactorPath(a, b), task, **wrong)


def test_pictures(tmp_path):
    curves = {"raw": curve(1, 3, 1), "aligned": curve(1, 1.2, 1, path="circuit")}
    plot(curves, tmp_path / "c.svg")
    plot(curves, tmp_path / "again.svg")
    plot(curves, tmp_path / "c.png")
    assert (tmp_path / "c.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    text = " ".join(ElementTree.parse(tmp_path / "c.svg").getroot().itertext())
    for piece in ("raw: barrier 2 at", "aligned: barrier 0.2 at", "share of B", "loss (nats)", "accuracy"):
        assert piece in text
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BadOutput):
        plot(curves, tmp_path / "c.doc")
    with pytest.raises(OnebasinError, match="no metric in common"):
        plot({}, tmp_path / "none.svg")


# ---- trained pairs


def test_the_raw_language_pair_has_a_barrier(zoo, data):
    a, b = (Checkpoint.open(zoo / f"gpt2-wikitext2-{i}") for i in (0, 1))
    task = load_task(f"text:{Path(data.__file__).with_name('wikitext-2') / 'valid.txt.xz'}", a, samples=20)
    c = measure(FactorPath(a, b), task, 3)
    assert (task.about["split"], task.about["length"], task.about["tokens"]) == ("valid", 256, "bytes")
    assert [e.loss for e in c.ends] == pytest.approx([1.15, 1.15], abs=0.1)
    assert 1.9 < c.barrier < 2.7
    assert measure(FactorPath(a, a), task.first(2), 3).barrier < 1e-6


def test_the_raw_image_pair_has_a_barrier(zoo, data, tmp_path):
    import numpy as np

    images, labels = data.cifar10("test", 100)
    np.savez(tmp_path / "cifar_test.npz", images=images, labels=labels)
    a, b = (Checkpoint.open(zoo / f"vit-cifar10-adamw-{i}") for i in (0, 1))
    task = load_task(f"images:{tmp_path / 'cifar_test.npz'}", a)
    c = measure(FactorPath(a, b), task, 3)
    assert min(e.metrics["accuracy"] for e in c.ends) > 0.7
    assert c.evaluations[1].metrics["accuracy"] < 0.5
    assert 1.8 < c.barrier < 3.3

"""Curves, barriers, their pictures, and those of trained pairs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from helpers.tiny import F64, predicted
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadOutput, OnebasinError
from onebasin.landscape import Curve, Evaluation, evaluate, measure
from onebasin.paths import CircuitPath, FactorPath
from onebasin.report import plot
from onebasin.tasks import load_task


def curve(*losses: float, path: str = "factor") -> Curve:
    each = [torch.tensor([loss - 0.1, loss + 0.1], dtype=F64) for loss in losses]
    evaluations = [Evaluation(x, {"accuracy": 1 / (1 + x)}, 0.1, 2, e) for x, e in zip(losses, each, strict=True)]
    shares = (i / (len(losses) - 1) for i in range(len(losses)))
    return Curve(
        tuple((1 - share, share) for share in shares),
        tuple(evaluations),
        path,
        {"name": "made up", "split": "test", "samples": 2},
    )


def test_the_barrier_is_the_largest_height_above_the_chord():
    c = curve(1.0, 2.0, 2.4, 3.0)
    assert c.barrier == pytest.approx(2.0 - 5 / 3)
    assert c.barrier_at == pytest.approx(1 / 3)
    assert c.barrier_error == pytest.approx(0)  # every sample rises by the same amount
    assert curve(1.0, 1.2, 0.9, 3.0).barrier == 0  # below the chord: no barrier
    assert curve(0.1, 0.2, 0.3).barrier == pytest.approx(0)


def test_the_error_of_the_barrier_is_that_of_the_height_sample_by_sample():
    """The ends differ, and the top is nearer to A: neither may be taken for the other."""
    losses = torch.tensor([[1.0, 2.0, 6.0], [5.0, 9.0, 7.0], [2.0, 8.0, 3.0]], dtype=F64)
    each = [Evaluation(float(row.mean()), {}, 0.1, 3, row) for row in losses]
    found = Curve(((1, 0), (0.75, 0.25), (0, 1)), tuple(each), "factor", {"name": "made up"})
    heights = losses[1] - (0.75 * losses[0] + 0.25 * losses[2])
    height, error = float(heights.mean()), float(heights.std()) / 3**0.5
    assert (found.barrier_at, found.barrier, found.barrier_error) == pytest.approx((0.25, height, error))
    assert found.as_dict()["barrier"] == pytest.approx({"loss": height, "standard_error": error, "share": 0.25})


def test_a_curve_tells_everything(tiny):
    a, b = tiny("LlamaForCausalLM")
    task = predicted(stock_model(a), a)
    seen = []
    c = measure(CircuitPath(a, b), task, 3, tick=seen.append)
    data = json.loads(json.dumps(c.as_dict()))
    assert [of_b for _, of_b in seen] == data["shares"] == [0, 0.5, 1]
    assert data["path"] == "circuit"
    assert data["task"]["source"] == "own choices"
    ends = [evaluate(stock_model(x, torch.float32), task) for x in (a, b)]
    for point, end in zip((data["points"][0], data["points"][-1]), ends, strict=True):
        assert (point["loss"], point["samples"]) == (pytest.approx(end.loss, rel=1e-5), 32)
        assert point["standard_error"] == pytest.approx(end.standard_error, rel=1e-4)
        assert point["metrics"] == pytest.approx(end.metrics, rel=1e-5)
    assert [data["ends"]["a"], data["ends"]["b"]] == [data["points"][0], data["points"][-1]]
    height = data["points"][1]["loss"] - (ends[0].loss + ends[1].loss) / 2
    assert abs(height) > 0.1
    assert data["barrier"]["loss"] == pytest.approx(max(height, 0), rel=1e-4)
    assert data["barrier"]["share"] == (0.5 if height > 0 else 0)
    assert measure(FactorPath(a, b), task, shares=[0, 0.9, 1]).shares == (0, 0.9, 1)
    for wrong in ({"points": 1}, {"shares": [0.1, 1]}, {"shares": [0, 0.5]}):
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


def test_the_raw_language_pair_has_a_barrier(zoo, data):
    a, b = (Checkpoint.open(zoo / f"gpt2-wikitext2-{i}") for i in (0, 1))
    task = load_task(f"text:{Path(data.__file__).with_name('wikitext-2') / 'valid.txt.xz'}", a, samples=20)
    c = measure(FactorPath(a, b), task, 3)
    assert (task.about["split"], task.about["length"], task.about["tokens"]) == ("valid", 256, "bytes")
    assert [e.loss for e in c.vertices] == pytest.approx([1.15, 1.15], abs=0.1)
    assert 1.9 < c.barrier < 2.7
    assert measure(FactorPath(a, a), task.first(2), 3).barrier < 1e-6


def test_the_raw_image_pair_has_a_barrier(zoo, data, tmp_path):
    import numpy as np

    images, labels = data.cifar10("test", 100)
    np.savez(tmp_path / "cifar_test.npz", images=images, labels=labels)
    a, b = (Checkpoint.open(zoo / f"vit-cifar10-adamw-{i}") for i in (0, 1))
    task = load_task(f"images:{tmp_path / 'cifar_test.npz'}", a)
    c = measure(FactorPath(a, b), task, 3)
    assert min(e.metrics["accuracy"] for e in c.vertices) > 0.7
    assert c.evaluations[1].metrics["accuracy"] < 0.5
    assert 1.8 < c.barrier < 3.3

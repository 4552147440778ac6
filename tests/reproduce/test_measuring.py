"""Rows: of three models, of models of unequal size, and how far learning turned the stream."""

from __future__ import annotations

import pytest
import torch

from helpers.reproducing import GPT2, VIT
from onebasin import Checkpoint
from onebasin.reproduce import data
from onebasin.reproduce.measuring import measure_row, weakest
from onebasin.reproduce.models import fresh
from onebasin.reproduce.plan import Row
from onebasin.reproduce.tables import cells, draw, summary

CPU = torch.device("cpu")
LEARN = {"method": "learned", "learned": {"start": "weight", "steps": 2, "batch": 4, "eval_every": 1}}
FEW = {"points": 3, "samples": 20, "train_samples": 40}


def write(out, name, model, seed):
    torch.manual_seed(seed)
    fresh(model).save_pretrained(out / "models" / name)


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "DRAWN", {"train": 300, "test": 20})
    data.prepare("shapes", None, tmp_path / "data" / "shapes.safetensors")
    for seed in range(3):
        write(tmp_path, f"vit-{seed}", VIT, seed)
    return tmp_path


@pytest.mark.parametrize("way", [{}, {"method": "weight"}, LEARN], ids=["vanilla", "weight", "learned"])
def test_three_models_are_measured_over_their_triangle(shapes, way):
    row = Row("g", "l", ("vit-0", "vit-1", "vit-2"), "shapes", way, ("factor",), **FEW)
    found = measure_row(row, shapes, CPU)
    curve = found["paths"]["factor"]
    assert len(curve["ends"]) == 3
    assert len(curve["losses"]) == len(curve["shares"]) == 7  # corners, middles of sides, centre
    centre = curve["shares"].index([pytest.approx(1 / 3)] * 3)
    assert curve["midpoint"] == curve["losses"][centre]
    chords = [sum(s * end for s, end in zip(place, curve["ends"], strict=True)) for place in curve["shares"]]
    rises = [loss - chord for loss, chord in zip(curve["losses"], chords, strict=True)]
    assert curve["barrier"] == pytest.approx(max(0.0, *rises), abs=1e-6)
    line = {"group": "g", "label": "l", "published": None, "pairs": 1, **summary([found])}
    assert cells(line)[4] == f"{curve['barrier']:.3f}"
    draw({"table": [line]}, shapes / "none.svg")  # no curve, no figure
    assert not (shapes / "none.svg").exists()


def test_learning_says_how_far_it_turned_the_stream(shapes):
    more = {"steps": 20, "batch": 64, "lr": 0.03, "eval_every": 5}
    still, learned = (
        measure_row(
            Row("g", "l", ("vit-0", "vit-1"), "shapes", way, ("factor",), **{**FEW, "train_samples": None}), shapes, CPU
        )
        for way in ({"method": "weight"}, {**LEARN, "learned": {**LEARN["learned"], **more}})
    )
    assert still["turned"] == {}
    (angles,) = learned["turned"].values()
    assert angles["median"] > 0
    line = {"group": "g", "label": "l", "published": None, "pairs": 1, **summary([learned])}
    assert cells(line)[7] == f"{angles['median']:.2f}"


@pytest.mark.filterwarnings("ignore:size or eps")
def test_models_of_unequal_size(tmp_path, monkeypatch):
    data.prepare("python", None, tmp_path / "data" / "python.safetensors")
    write(tmp_path, "large", {**GPT2, "activation": "relu"}, 0)
    write(tmp_path, "small", {**GPT2, "activation": "relu", "inner": 4}, 1)
    barriers = {}
    for fill in ("zero", "split", "shares"):
        way = {"method": "weight", "weight": {"extra": fill}}
        found = measure_row(Row("g", fill, ("small", "large"), "python", way, **FEW), tmp_path, CPU)
        ends = {path: curve["ends"] for path, curve in found["paths"].items()}
        assert ends["circuit"] == pytest.approx(ends["factor"], abs=1e-5)
        barriers[fill] = found["paths"]["factor"]["midpoint"]
    assert len(set(barriers.values())) == 3
    found = measure_row(Row("g", "learned", ("small", "large"), "python", {**LEARN, "weight": {"extra": "shares"}},
                            ("factor",), **FEW), tmp_path, CPU)  # fmt: skip
    assert found["turned"] == {}


def test_the_weakest_matrix_stands_beside_the_middle_one(tmp_path):
    """Of matrices alone: a gain or a bias near zero is no layer that died."""
    torch.manual_seed(0)
    model = fresh(GPT2)
    with torch.no_grad():
        for name, x in model.named_parameters():
            x.fill_(1.0 if x.ndim > 1 else 1e-6)
            if name.endswith("h.1.mlp.c_fc.weight"):
                x.fill_(0.25)
    model.save_pretrained(tmp_path)
    assert weakest(Checkpoint.open(tmp_path)) == pytest.approx(0.25)

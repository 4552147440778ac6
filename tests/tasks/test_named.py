"""Tasks that are built in, or come from the Hub."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from PIL import Image

from helpers.task_files import bert, gpt2, pixels, refused, vit
from onebasin import Checkpoint
from onebasin.tasks import load_task
from onebasin.tasks.builtin import SHAPES


def test_shapes_can_be_told_apart(tmp_path):
    """Well above chance by ridge regression with the kernel ⟨x, y⟩², for which dark on light is light on dark."""
    model = Checkpoint.open(vit(tmp_path, tuple("abcdefghij"), image_size=16))
    splits = [load_task(f"builtin:shapes:{s}", model, samples=n) for s, n in (("train", 800), ("test", 200))]
    x, u = (t.inputs["pixel_values"].mean(1).flatten(1).double() for t in splits)
    x, u = (torch.nn.functional.normalize(z - z.mean(1, keepdim=True)) for z in (x, u))
    y, v = (t.labels for t in splits)
    dual = torch.linalg.solve((x @ x.T) ** 2 + 0.1 * torch.eye(len(x)), torch.eye(10, dtype=x.dtype)[y])
    guess = ((u @ x.T) ** 2 @ dual).argmax(1)
    assert (guess == v).double().mean() > 0.35
    assert (guess == v.roll(1)).double().mean() < 0.2  # control: other labels
    again = load_task("builtin:shapes", model, samples=200)
    assert again.inputs["pixel_values"].equal(splits[1].inputs["pixel_values"])
    assert not again.inputs["pixel_values"][:100].equal(splits[0].inputs["pixel_values"][:100])
    assert (again.about["split"], again.about["classes"]) == ("test", list(SHAPES))


def test_shapes_fit_the_model(tmp_path):
    task = load_task("builtin:shapes", Checkpoint.open(vit(tmp_path, num_channels=1)), samples=7)
    assert task.inputs["pixel_values"].shape == (7, 1, 8, 8)
    assert task.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    refused("builtin:shapes", gpt2(tmp_path / "lm"), "does not read images")


def test_the_library_of_python(tmp_path):
    folder = gpt2(tmp_path / "m")
    test, train = (load_task(f"builtin:python{s}", Checkpoint.open(folder), samples=50) for s in ("", ":train"))
    assert test.inputs["input_ids"].shape == (50, 16)
    assert int(test.inputs["input_ids"].max()) < 256
    assert test.about["tokens"] == "bytes"
    assert not test.labels.equal(train.labels)
    assert b"    " in bytes(test.inputs["input_ids"].flatten().tolist())  # somebody indents with four spaces
    refused("builtin:python", vit(tmp_path / "vit"), "does not read text")


@pytest.mark.parametrize("task", ["", "images", "images:", "poetry:x", "builtin:chess", "builtin:shapes:valid"])
def test_unknown_tasks_are_refused(tmp_path, task):
    refused(task, vit(tmp_path), "expected:", "found:")


@pytest.mark.parametrize(
    ("task", "step"),
    [
        ("csv:x.csv", "say what it is, like labelled:x.csv"),
        ("photos.npz", "say what it is, like images:photos.npz"),
        ("valid.txt", "say what it is, like text:valid.txt"),
        ("images", "give it one of these forms"),
    ],
)
def test_a_file_of_a_known_kind_is_guessed(tmp_path, task, step):
    refused(task, vit(tmp_path), step)


class Rows(list):
    """As much of a Hub dataset as is used."""

    @property
    def column_names(self):
        return list(self[0])

    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


def test_hub_datasets(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    refused("hub:cifar10", vit(tmp_path / "vit"), "pip install 'onebasin[hub]'")
    asked, held = [], {}

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        return held[name]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    held["pets"] = Rows({"img": Image.fromarray(x), "label": i} for i, x in enumerate(pixels(3)))
    task = load_task("hub:pets", Checkpoint.open(tmp_path / "vit"))
    assert (task.labels.tolist(), task.about["split"]) == ([0, 1, 2], "test")
    held["films"] = Rows([{"text": "good film", "label": 1}, {"text": "bad", "label": 0}])
    task = load_task("hub:films:validation", Checkpoint.open(bert(tmp_path / "bert")), length=3)
    assert task.inputs["input_ids"].tolist() == [[2, 4, 0], [3, 0, 0]]
    held["org/wiki"] = Rows([{"text": "abcdefghij"}, {"text": "klmnopqrst"}])
    task = load_task("hub:org/wiki:raw:train", Checkpoint.open(gpt2(tmp_path / "lm")), samples=1)
    assert bytes(task.inputs["input_ids"][0].tolist()) == b"abcdefghij\nklmno"
    assert asked == [("pets", None, "test"), ("films", None, "validation"), ("org/wiki", "raw", "train")]
    refused("hub:films", tmp_path / "vit", "expected: image or img", "found: text, label")

    def fails(*_, **__):
        raise ValueError("Unknown split")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=fails))
    refused("hub:pets:dev", tmp_path / "vit", "could not be loaded", "found: Unknown split")

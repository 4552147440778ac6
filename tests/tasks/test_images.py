"""Tasks of images: what is read, how it is prepared, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.random_models import random_folder
from helpers.task_files import bert, npz, pixels, refused, vit
from onebasin import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks import CLASSIFICATION, load_task
from onebasin.tasks.images import reads_images


def test_batches_and_first(tmp_path):
    task = load_task(npz(tmp_path / "x.npz", images=pixels(7), labels=np.arange(7) % 3), Checkpoint.open(vit(tmp_path)))
    sizes = [len(labels) for _, labels in task.batches(3)]
    assert sizes == [3, 3, 1]
    assert torch.cat([x["pixel_values"] for x, _ in task.batches(3)]).equal(task.inputs["pixel_values"])
    few = task.first(2)
    assert (len(few), few.about["samples"]) == (2, 2)
    assert few.labels.tolist() == [0, 1]
    for n in (0, 8):
        with pytest.raises(BadTask, match="cannot give that many samples"):
            task.first(n)


def test_images_are_prepared_as_the_model_says(tmp_path):
    folder, x = vit(tmp_path / "m"), pixels(4)
    task = load_task(npz(tmp_path / "my_test.npz", images=x, labels=[2, 0, 1, 1]), Checkpoint.open(folder))
    expected = torch.from_numpy(x).permute(0, 3, 1, 2) / 255
    torch.testing.assert_close(task.inputs["pixel_values"], (expected - 0.5) / 0.5)
    assert (task.kind, task.labels.tolist()) == (CLASSIFICATION, [2, 0, 1, 1])
    assert task.about == {"source": "my_test.npz", "split": "test", "samples": 4, "length": [8, 8]}
    mean, std = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    rules = {"image_mean": mean, "image_std": std, "rescale_factor": 1 / 100}
    (folder / "preprocessor_config.json").write_text(json.dumps(rules))
    other = load_task(f"images:{tmp_path / 'my_test.npz'}", Checkpoint.open(folder), samples=3)
    scaled = (expected * 2.55 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(other.inputs["pixel_values"], scaled[:3])
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_normalize": False}))
    plain = load_task(f"images:{tmp_path / 'my_test.npz'}", Checkpoint.open(folder))
    torch.testing.assert_close(plain.inputs["pixel_values"], expected)


def test_channels_first_and_other_sizes(tmp_path):
    folder, x = vit(tmp_path / "m"), pixels(2, 12, 10, 3)
    last = load_task(npz(tmp_path / "a.npz", images=x, labels=[0, 1]), Checkpoint.open(folder))
    first = load_task(npz(tmp_path / "b.npz", images=x.transpose(0, 3, 1, 2), labels=[0, 1]), Checkpoint.open(folder))
    assert last.inputs["pixel_values"].equal(first.inputs["pixel_values"])
    resized = np.stack([np.asarray(Image.fromarray(image).resize((8, 8), Image.Resampling.BILINEAR)) for image in x])
    expected = torch.from_numpy(resized).permute(0, 3, 1, 2) / 255
    torch.testing.assert_close(last.inputs["pixel_values"], (expected - 0.5) / 0.5)


@pytest.mark.parametrize(
    ("labels", "order"), [(("owl", "cat", "dog"), [1, 2, 0]), (("LABEL_0", "LABEL_1", "LABEL_2"), [0, 1, 2])]
)
def test_a_folder_of_images_takes_the_models_own_order(tmp_path, labels, order):
    folder = vit(tmp_path / "m", labels)
    for k, name in enumerate(("cat", "dog", "owl")):
        for i in range(2):
            (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((8, 8, 3), 10 * k + i, np.uint8)).save(tmp_path / "data" / name / f"{i}.png")
    task = load_task(f"images:{tmp_path / 'data'}", Checkpoint.open(folder), samples=4)
    assert task.labels.tolist() == [*order, order[0]]  # classes take turns
    values = ((task.inputs["pixel_values"][:, 0, 0, 0] + 1) * 127.5).round().int()
    assert values.tolist() == [0, 10, 20, 1]
    (tmp_path / "data" / "owl" / "0.png").write_text("no picture")
    refused(f"images:{tmp_path / 'data'}", folder, "0.png is not an image")
    (tmp_path / "empty").mkdir()
    refused(f"images:{tmp_path / 'empty'}", folder, "holds no images")


def test_some_names_known_and_some_not(tmp_path):
    folder = vit(tmp_path / "m")
    task = npz(tmp_path / "x.npz", images=pixels(2), labels=["cat", "eel"])
    refused(task, folder, "expected: cat, dog, owl", "found: eel")


def test_wrong_arrays_are_refused(tmp_path):
    folder = vit(tmp_path / "m")
    x, y = pixels(3), np.array([0, 1, 2])
    file = tmp_path / "x.npz"
    refused(npz(file, images=x), folder, "labelled images", "found: arrays images")
    refused(npz(file, images=x / 255, labels=y), folder, "float64")
    refused(npz(file, images=x, labels=y[:2]), folder, "labels (2,)")
    refused(npz(file, images=x[0], labels=y), folder, "images (8, 8, 3)")
    refused(npz(file, images=np.array([{}]), labels=[0]), folder, "labelled images")  # would need pickle
    refused(npz(file, images=x, labels=[0, 1, 3]), folder, "expected: classes 0 to 2", "found: 0 to 3")
    refused(npz(file, images=x, labels=[-1, 1, 2]), folder, "found: -1 to 2")
    refused(npz(file, images=x, labels=y), folder, "expected: 3", "found: 4", samples=4)
    refused(npz(file, images=x, labels=y), folder, samples=0)
    refused(npz(file, images=x[:0], labels=y[:0]), folder, "next step: give more data")
    file.write_text("no arrays")
    refused(f"images:{file}", folder, "labelled images")
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_center_crop": True}))
    refused(npz(file, images=pixels(3, 9, 9, 3), labels=y), folder, "crops its images")
    refused(npz(file, images=x, labels=y), vit(tmp_path / "grey", num_channels=1), "channels", "expected: 1")


def test_grey_images_for_a_coloured_model(tmp_path):
    task = load_task(npz(tmp_path / "x.npz", images=pixels(2, 8, 8, 1), labels=[0, 1]), Checkpoint.open(vit(tmp_path)))
    x = task.inputs["pixel_values"]
    assert x.shape == (2, 3, 8, 8)
    assert x[:, 0].equal(x[:, 2])


def test_only_models_of_images_alone_read_images(tmp_path):
    both = Checkpoint.open(random_folder(tmp_path / "both", "clip", "CLIPModel", 0))
    with pytest.raises(BadTask, match="reads input_ids and pixel_values, and no task has both"):
        reads_images(both)
    with pytest.raises(BadTask, match="does not read images"):
        reads_images(Checkpoint.open(bert(tmp_path / "text")))
    assert reads_images(Checkpoint.open(vit(tmp_path / "images"))).sizes == (3, 8, 8)

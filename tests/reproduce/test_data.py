"""Data from files: pictures in either form, texts packed or plain, and what is hidden in them."""

from __future__ import annotations

import io
import lzma
import shutil

import numpy as np
import pytest
import torch
from PIL import Image, UnidentifiedImageError

from helpers.task_files import add_tokenizer, pixels
from onebasin.reproduce.data import GAP, READERS, SIDE, as_task, asked, needed, prepare, read
from onebasin.tasks import CLASSIFICATION, LANGUAGE, MASKED

LABELS = {"train": [3, 1, 4], "test": [1, 5]}


def test_pictures_of_two_files(tmp_path):
    for split, labels in LABELS.items():
        arrays = {"images": pixels(len(labels), 4, 6, 3), "labels": np.array(labels, dtype=np.uint8)}
        np.savez(tmp_path / f"cifar10_{split}.npz", **arrays)
    found = READERS["cifar10"](tmp_path)
    for split, labels in LABELS.items():
        assert found[f"{split}.labels"].tolist() == labels
        assert found[f"{split}.labels"].dtype == torch.int64
        expected = torch.from_numpy(pixels(len(labels), 4, 6, 3)).movedim(-1, 1)
        assert found[f"{split}.pixels"].equal(expected)


def test_pictures_as_scans_with_one_header(tmp_path):
    """What all files begin with is kept once, and nobody keeps how they end."""
    pictures, files = [np.full((16, 8, 3), 40 * i, dtype=np.uint8) for i in range(5)], []
    for picture in pictures:
        picture[: 2 * len(files)] = 255
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=95)
        files.append(file.getvalue())
    begin = files[0].index(b"\xff\xda") + 14  # the last part of the header is as long
    assert len({file[:begin] for file in files}) == 1
    scans = [file[begin:-2] for file in files]
    arrays = {"header": np.frombuffer(files[0][:begin], np.uint8), "scans": np.frombuffer(b"".join(scans), np.uint8)}
    more = {"lengths": [len(scan) for scan in scans], "labels": [*LABELS["train"], *LABELS["test"]], "num_train": 3}
    np.savez(tmp_path / "cifar10_jpeg.npz", **arrays, **more)
    found = READERS["cifar10"](tmp_path)
    assert found["train.pixels"].shape == (3, 3, 16, 8)
    assert found["test.pixels"].shape == (2, 3, 16, 8)
    for split, first in (("train", 0), ("test", 3)):
        assert found[f"{split}.labels"].tolist() == LABELS[split]
        for got, picture in zip(found[f"{split}.pixels"], pictures[first:], strict=False):
            assert (got.movedim(0, -1).int() - torch.from_numpy(picture).int()).abs().float().mean() < 4


def test_scans_are_of_no_other_kind(tmp_path):
    """Readers of rare formats are not all as well tried."""
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    whole = np.frombuffer(file.getvalue(), np.uint8)
    arrays = {"header": whole[:8], "scans": whole[8:], "lengths": [len(whole) - 8], "labels": [0], "num_train": 1}
    np.savez(tmp_path / "cifar10_jpeg.npz", **arrays)
    with pytest.raises(UnidentifiedImageError):
        READERS["cifar10"](tmp_path)


@pytest.mark.parametrize("packed", [True, False])
def test_texts_in_three_files_are_bytes(tmp_path, packed):
    (tmp_path / "wikitext-2").mkdir()
    for split in ("train", "valid", "test"):
        file, text = tmp_path / "wikitext-2" / f"{split}.txt", f"{split}: λ".encode()
        file.write_bytes(text)
        if packed:  # it comes first
            file.with_name(f"{split}.txt.xz").write_bytes(lzma.compress(text[:-1] + text[-1:]))
            file.write_bytes(b"other")
    found, gaps = READERS["wikitext2"](tmp_path), READERS["wikitext2-gaps"](tmp_path)
    assert {name: bytes(ids.tolist()).decode() for name, ids in found.items()} == {
        f"{split}.ids": f"{split}: λ" for split in ("train", "valid", "test")
    }
    assert gaps.pop("gap") == GAP == 256
    assert {name: ids.tolist() for name, ids in gaps.items()} == {name: ids.tolist() for name, ids in found.items()}


def test_a_text_in_tokens_is_cut_into_three(tmp_path):
    (tmp_path / "tokenizers").mkdir()
    add_tokenizer(tmp_path / "tokenizers" / "gpt2", cls_token="very")
    (tmp_path / "tiny_shakespeare.txt").write_text("good bad film very " * 25)
    found = READERS["tiny-shakespeare"](tmp_path)
    assert [len(found[f"{split}.ids"]) for split in ("train", "valid", "test")] == [90, 5, 5]
    assert found["train.ids"][:5].tolist() == [2, 3, 4, 5, 2]
    assert found["train.ids"].dtype == torch.int32


def test_what_is_hidden_comes_from_the_dice_that_are_given():
    windows = torch.arange(40).view(2, 20)
    (plain, ahead), gaps = asked({}, windows, torch.Generator()), {"gap": torch.tensor(GAP)}
    assert plain["input_ids"].equal(windows[:, :-1])
    assert ahead.equal(windows[:, 1:])
    first, again, other = (asked(gaps, windows, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert first[0]["input_ids"].equal(again[0]["input_ids"])
    assert not first[0]["input_ids"].equal(other[0]["input_ids"])
    hidden = first[0]["input_ids"] == GAP
    assert first[1][hidden].equal(windows[:, :-1][hidden])
    assert (first[1][~hidden] == -100).all()


def test_splits_are_tasks(tmp_path):
    text = {"train.ids": torch.arange(100), "test.ids": torch.arange(200)}
    task = as_task("python", text, "test", 9, None)
    assert (task.kind, task.about["tokens"], len(task)) == (LANGUAGE, "bytes", 20)
    assert task.inputs["input_ids"][:, 0].tolist() == list(range(0, 180, 9))  # evenly, to the end
    assert as_task("other", text, "test", 9, 3).about["tokens"] == "tokenizer"
    assert as_task("python", text, "test", 9, 3).inputs["input_ids"][:, 0].tolist() == [0, 63, 126]
    assert as_task("python-gaps", {**text, "gap": torch.tensor(GAP)}, "test", 9, 3).kind == MASKED
    pictures = {"train.pixels": torch.zeros(4, 3, 2, 2), "train.labels": torch.arange(4)}
    task = as_task("cifar10", pictures, "train", 0, 3)
    assert (task.kind, task.labels.tolist(), task.name) == (CLASSIFICATION, [0, 1, 2], "cifar10:train")


def test_data_are_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr("onebasin.reproduce.data.DRAWN", {"train": 12, "test": 3})
    file = tmp_path / "data" / "shapes.safetensors"
    prepare("shapes", None, file)
    found = read(file)
    assert found["train.pixels"].shape == (12, 3, SIDE, SIDE)
    assert found["train.labels"].tolist() == [*range(10), 0, 1]
    assert [x.name for x in file.parent.iterdir()] == ["shapes.safetensors"]
    before = file.stat().st_mtime_ns
    prepare("shapes", None, file)
    assert file.stat().st_mtime_ns == before
    needed("shapes", None)
    shutil.rmtree(file.parent)

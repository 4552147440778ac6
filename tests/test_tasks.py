"""Tasks: what is read, how it is prepared, and one clear refusal for everything that does not fit."""

from __future__ import annotations

import json
import lzma
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from random_models import random_model
from tokenizers import Tokenizer, models, pre_tokenizers

from onebasin import Checkpoint
from onebasin.errors import BadTask
from onebasin.landscape import evaluate
from onebasin.stock import stock_model
from onebasin.tasks import CLASSIFICATION, LANGUAGE, load_task
from onebasin.tasks.builtin import SHAPES

WORDS = ["[PAD]", "[UNK]", "good", "bad", "film", "very"]


def save(folder: Path, name: str, config: transformers.PreTrainedConfig) -> Path:
    random_model(name, config, 0).save_pretrained(folder)
    return folder


def vit(folder: Path, labels: tuple[str, ...] = ("cat", "dog", "owl"), **settings: object) -> Path:
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, patch_size=4,
        id2label=dict(enumerate(labels)), label2id={x: i for i, x in enumerate(labels)},
        **{"image_size": 8, "num_channels": 3, **settings},
    )  # fmt: skip
    return save(folder, "ViTForImageClassification", config)


def gpt2(folder: Path, vocabulary: int = 256, name: str = "GPT2LMHeadModel") -> Path:
    config = transformers.GPT2Config(
        n_embd=8, n_layer=1, n_head=2, vocab_size=vocabulary, n_positions=16, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return save(folder, name, config)


def bert(folder: Path, tokens: bool = True, name: str = "BertForSequenceClassification", **settings: object) -> Path:
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=2,
        **{"vocab_size": len(WORDS), "max_position_embeddings": 6, "pad_token_id": 0, **settings},
    )  # fmt: skip
    save(folder, name, config)
    if tokens:
        add_tokenizer(folder)
    return folder


def add_tokenizer(folder: Path, padding: str | None = "[PAD]") -> None:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token=padding)
    fast.save_pretrained(folder)


def pixels(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, *(shape or (8, 8, 3)))).astype(np.uint8)


def npz(file: Path, **arrays: object) -> str:
    np.savez(file, **arrays)
    return f"images:{file}"


def refused(task: str, folder: Path, *says: str, **settings: object) -> None:
    with pytest.raises(BadTask) as caught:
        load_task(task, Checkpoint.open(folder), **settings)
    error = caught.value
    assert error.next_step
    assert error.expected is not None or error.found is not None
    assert [piece for piece in says if piece not in str(error)] == []


# ---- a task


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


# ---- images


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


# ---- text


def test_windows_of_bytes(tmp_path):
    text = "".join(chr(32 + i % 90) for i in range(500)) + "é"
    with lzma.open(tmp_path / "valid.txt.xz", "wt", encoding="utf-8") as stream:
        stream.write(text)
    model = Checkpoint.open(gpt2(tmp_path / "m"))
    task = load_task(f"text:{tmp_path / 'valid.txt.xz'}", model, samples=7)
    raw, step = text.encode(), (502 - 17) // 7
    for i in range(7):
        assert bytes(task.inputs["input_ids"][i].tolist()) == raw[i * step : i * step + 16]
        assert bytes(task.labels[i].tolist()) == raw[i * step + 1 : i * step + 17]
    about = {"source": "valid.txt.xz", "split": "valid", "tokens": "bytes", "samples": 7, "length": 16}
    assert (task.kind, task.about) == (LANGUAGE, about)
    assert len(load_task(f"text:{tmp_path / 'valid.txt.xz'}", model)) == 502 // 17
    short = load_task(f"text:{tmp_path / 'valid.txt.xz'}", model, samples=3, length=5)
    assert short.inputs["input_ids"].shape == short.labels.shape == (3, 5)


def test_windows_of_the_models_own_tokens(tmp_path):
    folder = gpt2(tmp_path / "m", len(WORDS))
    add_tokenizer(folder)
    (tmp_path / "t.txt").write_text("good film very bad film " * 30)
    task = load_task(f"text:{tmp_path / 't.txt'}", Checkpoint.open(folder), samples=1)
    assert task.inputs["input_ids"][0, :5].tolist() == [2, 4, 5, 3, 4]
    assert task.about["tokens"] == "tokenizer"
    assert "bits_per_byte" not in evaluate(stock_model(Checkpoint.open(folder)), task).metrics


def test_text_that_does_not_fit_is_refused(tmp_path):
    folder, file = gpt2(tmp_path / "m"), tmp_path / "t.txt"
    file.write_text("x" * 40)
    task = f"text:{file}"
    refused(f"text:{tmp_path / 'absent.txt'}", folder, "There is no file", "next step: check the path")
    refused(task, folder, "expected: 1 to 16", "found: 17", length=17)
    refused(task, folder, "40 tokens, windows of 17", "found: 25", samples=25)
    assert len(load_task(task, Checkpoint.open(folder), samples=24)) == 24
    file.write_text("x" * 16)
    refused(task, folder, "next step: give more data")
    file.write_bytes(b"\xff\xfe\xff")
    refused(task, folder, "cannot be read", "expected: UTF-8")
    file.write_text("x" * 40)
    refused(task, gpt2(tmp_path / "small", 255), "expected: tokenizer files in the folder, or 256", "found: 255 tokens")
    add_tokenizer(tmp_path / "small")
    refused(task, vit(tmp_path / "vit"), "does not read text")
    refused(task, bert(tmp_path / "bert"), "expected: a model for language", "found: classification")
    refused(task, bert(tmp_path / "mlm", name="BertForMaskedLM"), "expected: a model for language")
    wrong = gpt2(tmp_path / "wrong", 3)
    add_tokenizer(wrong)
    file.write_text("good film " * 20)
    refused(task, wrong, "expected: ids below 3", "found: 4")
    (wrong / "tokenizer.json").write_text("{}")
    refused(task, wrong, "tokenizer of wrong cannot be read")


LABELLED = {
    "header.csv": 'label,text\n1,good film\n0,"bad, very bad"\n',
    "names.csv": "text,label\ngood film,LABEL_1\n\"bad, very bad\",LABEL_0\n",
    "plain.csv": '"2","good","film"\n"1","bad,","very bad"\n',
    "rows.jsonl": '{"text": "good film", "label": 1}\n\n{"text": "bad, very bad", "label": 0}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", LABELLED)
def test_labelled_texts(tmp_path, name):
    (tmp_path / name).write_text(LABELLED[name])
    model = Checkpoint.open(bert(tmp_path / "m"))
    task = load_task(f"labelled:{tmp_path / name}", model, length=5)
    assert (task.kind, task.labels.tolist(), task.about["length"]) == (CLASSIFICATION, [1, 0], 5)
    assert task.inputs["input_ids"].tolist() == [[2, 4, 0, 0, 0], [3, 1, 5, 3, 0]]
    assert task.inputs["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]
    assert load_task(f"labelled:{tmp_path / name}", model).inputs["input_ids"].shape == (2, 6)
    assert len(load_task(f"labelled:{tmp_path / name}", model, samples=1)) == 1
    assert evaluate(stock_model(model), task).samples == 2


def test_padding_does_not_change_the_loss(tmp_path):
    (tmp_path / "x.csv").write_text("text,label\ngood film,1\nvery bad,0\n")
    model = Checkpoint.open(bert(tmp_path / "m"))
    short, long = (load_task(f"labelled:{tmp_path / 'x.csv'}", model, length=n) for n in (2, 6))
    runner = stock_model(model)
    assert evaluate(runner, short).loss == pytest.approx(evaluate(runner, long).loss, abs=1e-12)


def test_labelled_texts_that_do_not_fit_are_refused(tmp_path):
    folder, file = bert(tmp_path / "m"), tmp_path / "x.csv"
    task = f"labelled:{file}"
    for text, says in {
        "": "an empty file",
        "title,class\na,b\n": "found: title, class",
        "text,label\ngood\n": "a row of 1 columns",
        "text,label\n": "holds no samples",
        "text,label\ngood,2\n": "expected: classes 0 to 1",
        "text,label\ngood,a\nbad,b\nfilm,c\n": "found: 0 to 2",
        "3,good\n1,bad\n": "found: 0 to 2",
    }.items():
        file.write_text(text)
        refused(task, folder, says)
    file.write_text("text,label\ngood,1\n")
    refused(task, folder, "found: 7", length=7)
    refused(task, folder, "found: 2", samples=2)
    refused(task, bert(tmp_path / "bare", tokens=False), "no tokenizer")
    refused(task, bert(tmp_path / "other", pad_token_id=3), "padding token", "found: 0")
    refused(task, gpt2(tmp_path / "lm"), "expected: a model for classification", "found: language")
    refused(task, vit(tmp_path / "vit"), "does not read text")
    (tmp_path / "x.jsonl").write_text('{"text": "good", "label": 0}\n{"text": "good"}\n')
    refused(f"labelled:{tmp_path / 'x.jsonl'}", folder, "line 2")


# ---- built in, and the Hub


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

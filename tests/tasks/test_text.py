"""Tasks of text and of labelled sentences: windows, tokenizers, and what is refused."""

from __future__ import annotations

import lzma

import pytest

from helpers.task_files import WORDS, add_tokenizer, bert, gpt2, refused, vit
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate
from onebasin.tasks import CLASSIFICATION, LANGUAGE, load_task


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
    assert task.text is not None
    assert "text=" not in repr(task)  # which may be long
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
    refused(
        task, bert(tmp_path / "tags", name="BertForTokenClassification"), "found: token labels", "labelled:FILE.jsonl"
    )
    refused(
        task, bert(tmp_path / "mlm", False, "BertForMaskedLM", vocab_size=256), "no tokenizer with a token that hides"
    )
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

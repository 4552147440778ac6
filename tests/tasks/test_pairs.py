"""Pairs of texts: what the decoder reads and should say is what transformers makes of them."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from helpers.random_models import random_model
from helpers.task_files import WORDS, add_tokenizer, refused
from onebasin import Checkpoint, align
from onebasin.checkpoint.stock import stock_model
from onebasin.landscape import evaluate
from onebasin.tasks import IGNORED, PAIRED, as_task, load_task

ROWS = [("good film", "bad"), ("very very bad film", "good film"), ("film", "very good good")]
START = 1


def t5(folder, weights: int = 0, **settings):
    config = transformers.T5Config(
        d_model=8, d_kv=4, d_ff=8, num_layers=1, num_decoder_layers=1, num_heads=2, vocab_size=len(WORDS),
        relative_attention_num_buckets=4, **{"decoder_start_token_id": START, "pad_token_id": 0, **settings},
    )  # fmt: skip
    random_model("T5ForConditionalGeneration", config, weights).save_pretrained(folder)
    add_tokenizer(folder)
    return folder


def write(file, kind: str) -> str:
    if kind == "jsonl":
        lines = [json.dumps({"source": source, "target": target}) for source, target in ROWS]
    else:
        lines = ["target,source", *(f"{target},{source}" for source, target in ROWS)]
    path = file / f"pairs.{kind}"
    path.write_text("\n".join(lines) + "\n")
    return f"pairs:{path}"


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_the_loss_is_that_of_transformers(tmp_path, kind):
    checkpoint = Checkpoint.open(t5(tmp_path / "m"))
    task = load_task(write(tmp_path, kind), checkpoint, length=5)
    assert (task.kind, len(task), task.labelled) == (PAIRED, 3, True)
    ids = {word: i for i, word in enumerate(WORDS)}
    assert task.labels[2].tolist() == [ids["very"], ids["good"], ids["good"], IGNORED, IGNORED]
    assert task.inputs["decoder_input_ids"][2].tolist() == [START, ids["very"], ids["good"], ids["good"], 0]
    model = stock_model(checkpoint, torch.float64)
    given = {name: task.inputs[name] for name in ("input_ids", "attention_mask")}
    expected = float(model(**given, labels=task.labels).loss.detach())  # makes the decoder's inputs itself
    found = evaluate(model, task)
    assert found.loss == pytest.approx(expected)
    assert found.metrics["perplexity"] == pytest.approx(torch.tensor(expected).exp().item())
    assert expected != pytest.approx(float(model(**given, labels=task.labels.roll(1, 0)).loss.detach()))
    assert evaluate(model, load_task(write(tmp_path, kind), checkpoint, length=9)).loss == pytest.approx(found.loss)
    assert len(load_task(write(tmp_path, kind), checkpoint, samples=2)) == 2


def test_batches_as_transformers_has_them_are_such_pairs(tmp_path):
    checkpoint = Checkpoint.open(t5(tmp_path / "m"))
    task = load_task(write(tmp_path, "csv"), checkpoint, length=5)
    batch = {name: task.inputs[name] for name in ("input_ids", "attention_mask")} | {"labels": task.labels}
    own = as_task([batch], checkpoint)
    assert own.kind == PAIRED
    assert all(own.inputs[name].equal(task.inputs[name]) for name in task.inputs)
    assert own.labels.equal(task.labels)


def test_models_of_pairs_are_aligned_and_measured(cli, tmp_path):
    a, b = t5(tmp_path / "a"), t5(tmp_path / "b", 1)
    task = write(tmp_path, "csv")
    found = align(a, b, method="activation", task=task, device="cpu")
    assert found.certificate["output_drift"]["float64"] < 1e-9
    code, out, err = cli("barrier", a, b, "--task", task, "--length", 5, "--points", 3, "--json", "--quiet")
    assert code == 0, err
    ends = [point["loss"] for point in json.loads(out)["points"]]
    each = [evaluate(stock_model(Checkpoint.open(x), torch.float32), load_task(task, Checkpoint.open(a), length=5))
            for x in (a, b)]  # fmt: skip
    assert [ends[0], ends[-1]] == pytest.approx([x.loss for x in each], rel=1e-5)


def test_what_is_no_pair_is_refused(tmp_path):
    folder = t5(tmp_path / "m")
    (tmp_path / "p.csv").write_text("text,label\ngood,1\n")
    refused(f"pairs:{tmp_path / 'p.csv'}", folder, "does not hold pairs of texts", "source, target", "text, label")
    (tmp_path / "p.jsonl").write_text('{"source": "good"}\n')
    refused(f"pairs:{tmp_path / 'p.jsonl'}", folder, "does not hold pairs of texts", "line 1")
    (tmp_path / "t.txt").write_text("good film " * 20)
    refused(f"text:{tmp_path / 't.txt'}", folder, "does not fit the head", "pairs:FILE.csv")
    refused(write(tmp_path, "csv"), folder, "cannot give that many", samples=4)


def test_a_decoder_that_begins_with_nothing_is_refused(tmp_path):
    folder = t5(tmp_path / "m", decoder_start_token_id=None)
    refused(write(tmp_path, "csv"), folder, "does not say what its decoder begins with", "decoder_start_token_id")

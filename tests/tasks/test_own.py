"""Data of one's own as a task: batches of every form, rows of a table, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from helpers.task_files import add_tokenizer, bert, gpt2, vit
from onebasin import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks import CLASSIFICATION, EMBEDDINGS, IGNORED, LANGUAGE, MASKED, TAGGING, Task, as_task

IDS = torch.tensor([[2, 4, 5, 3], [3, 4, 0, 0], [5, 5, 2, 0]])
MASK = (IDS != 0).long()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Checkpoint]:
    root = tmp_path_factory.mktemp("models")
    folders = {
        "classes": bert(root / "classes"), "tags": bert(root / "tags", name="BertForTokenClassification"),
        "masked": bert(root / "masked", name="BertForMaskedLM"), "bare": bert(root / "bare", name="BertModel"),
        "language": gpt2(root / "language", 6), "images": vit(root / "images"),
    }  # fmt: skip
    add_tokenizer(folders["masked"], mask_token="very")
    return {name: Checkpoint.open(folder) for name, folder in folders.items()}


def batch(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"input_ids": IDS, "attention_mask": MASK, **more}


def test_a_loader_of_pairs_and_a_list_of_dicts_give_the_same_samples(models):
    labels = torch.tensor([0, 1, 1])
    loader = DataLoader(TensorDataset(IDS, labels), batch_size=2)
    task = as_task(loader, models["classes"])
    assert (task.kind, task.name, len(task)) == (CLASSIFICATION, "own:DataLoader", 3)
    assert task.inputs["input_ids"].equal(IDS)
    assert task.labels.equal(labels)
    dicts = [
        {"input_ids": IDS[:2], "labels": labels[:2], "id": ["x", "y"]},
        {"input_ids": IDS[2:], "label": labels[2:]},
    ]
    again = as_task(dicts, models["classes"])
    assert again.inputs.keys() == {"input_ids"}  # what the model does not take is left out
    assert again.labels.equal(labels)
    assert len(as_task(loader, models["classes"], samples=2)) == 2
    assert as_task(task, models["classes"], samples=2).labels.tolist() == [0, 1]


def test_no_more_is_read_than_was_asked_for(models):
    read: list[int] = []

    class Batches:
        def __init__(self, count: int) -> None:
            self.count = count

        def __iter__(self):
            for number in range(self.count):
                read.append(number)
                yield {"input_ids": IDS, "attention_mask": MASK}

    for samples, looked_at in ((3, 1), (4, 2), (6, 2)):
        read.clear()
        task = as_task(Batches(9), models["language"], samples=samples)
        assert (len(task), len(read), task.about["samples"]) == (samples, looked_at, samples)
        assert len(task.inputs["attention_mask"]) == len(task.labels) == samples
    assert len(as_task(Batches(2), models["language"])) == 6  # all there are
    assert len(as_task(Batches(2), models["language"], samples=6)) == 6
    for samples in (7, 0):
        with pytest.raises(BadTask):
            as_task(Batches(2), models["language"], samples=samples)


def test_texts_may_be_as_long_as_the_model_reads(models):
    positions = models["language"].config["n_positions"]
    ids = torch.ones(1, positions, dtype=torch.long)
    assert as_task([ids], models["language"]).inputs["input_ids"].equal(ids)
    with pytest.raises(BadTask, match="do not fit the model"):
        as_task([torch.ones(1, positions + 1, dtype=torch.long)], models["language"])
    with pytest.raises(BadTask, match="do not fit the model"):
        as_task([ids.float()], models["language"])


def test_shorter_batches_are_padded(models):
    short = {"input_ids": IDS[1:2, :2], "attention_mask": MASK[1:2, :2], "labels": torch.tensor([[1, 0]])}
    long = {"input_ids": IDS[:1], "attention_mask": MASK[:1], "labels": torch.tensor([[0, 1, 1, 0]])}
    task = as_task([short, long], models["tags"])
    assert task.kind == TAGGING
    assert task.inputs["input_ids"].tolist() == [[3, 4, 0, 0], [2, 4, 5, 3]]
    assert task.inputs["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert task.labels.tolist() == [[1, 0, IGNORED, IGNORED], [0, 1, 1, 0]]


def test_labels_of_a_language_model_are_the_next_tokens(models):
    """Those of a dict lie over the inputs, as transformers has them; those of a pair are the next tokens already."""
    following = torch.tensor([[4, 5, 3, IGNORED], [4, IGNORED, IGNORED, IGNORED], [5, 2, IGNORED, IGNORED]])
    over = IDS.masked_fill(MASK == 0, IGNORED)
    for data in ([batch(labels=over)], [batch()], [(batch(), following)]):
        task = as_task(data, models["language"])
        assert task.kind == LANGUAGE
        assert task.labels.equal(following)
    own = as_task([batch(labels=over)], models["language"], loss=lambda outputs, labels: outputs.logits.mean())
    assert own.labels.equal(over)  # as they are


def test_a_masked_model_without_labels_gets_gaps(models):
    task = as_task([batch()], models["masked"])
    hidden = task.labels != IGNORED
    assert task.kind == MASKED
    assert torch.where(hidden, task.labels, task.inputs["input_ids"]).equal(IDS)
    assert not (hidden & (MASK == 0)).any()  # padding has no gaps
    given = torch.tensor([[IGNORED, 4, IGNORED, IGNORED]] * 3)
    assert as_task([batch(labels=given)], models["masked"]).labels.equal(given)  # those of a collator


def test_a_model_without_a_head_has_no_labels(models):
    task = as_task([batch(labels=torch.tensor([0, 1, 0]))], models["bare"])
    assert (task.kind, task.scored) == (EMBEDDINGS, False)


def test_own_functions_go_with_the_task(models):
    def loss(outputs, labels):
        return outputs.logits[:, 0]

    task = as_task([batch(labels=torch.tensor([0.5, 1.5, 2.0]))], models["classes"], loss=loss, metrics={"m": loss})
    assert (task.loss, task.metrics, task.labelled) == (loss, {"m": loss}, True)
    assert task.labels.tolist() == [0.5, 1.5, 2.0]
    assert as_task([batch()], models["classes"], loss=loss).labelled  # a loss may do without labels
    assert as_task(task, models["classes"]).loss is loss


class Table:
    """What is used of a `datasets.Dataset`."""

    def __init__(self, **columns: list[object]) -> None:
        self.columns = columns

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key: object) -> object:
        return self.columns[key] if isinstance(key, str) else {name: x[key] for name, x in self.columns.items()}


def test_the_columns_of_a_table_are_named(models):
    table = Table(review=["good film", "very bad"], stars=[1, 0])
    task = as_task(table, models["classes"], columns={"text": "review", "label": "stars"}, length=4)
    assert task.inputs["input_ids"].tolist() == [[2, 4, 0, 0], [5, 3, 0, 0]]
    assert task.labels.tolist() == [1, 0]
    with pytest.raises(BadTask, match="lacks a column") as caught:
        as_task(table, models["classes"])
    assert 'columns={"text": NAME}' in caught.value.next_step
    words = Table(tokens=[["good", "film"], ["bad"]], ner_tags=[[1, 0], [1]])
    assert as_task(words, models["tags"], length=4).labels.tolist() == [[1, 0, IGNORED, IGNORED], [1] + [IGNORED] * 3]


def test_a_dataset_of_the_library(models):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"sentence": ["good film", "very bad"], "label": [1, 0]})
    assert as_task(rows, models["classes"], length=4).labels.tolist() == [1, 0]
    tokens = datasets.Dataset.from_dict({"input_ids": IDS.tolist(), "labels": [0, 1, 1]})
    task = as_task(tokens, models["classes"])
    assert task.inputs["input_ids"].equal(IDS)
    assert task.labels.tolist() == [0, 1, 1]


WRONG = {
    "a number": (3, {}, ["nothing to read samples from", "int", "docs/tasks.md"]),
    "a model": (torch.nn.Linear(2, 2), {}, ["nothing to read samples from", "Linear"]),
    "a dataset": (TensorDataset(IDS), {}, ["DataLoader(dataset, batch_size=32)"]),
    "one batch": (batch(), {}, ["[batch]"]),
    "a generator": ((batch() for _ in range(2)), {}, ["read only once"]),
    "a path": (Path("words.txt"), {}, ["text:words.txt"]),
    "texts": (["good film"], {}, ["Batch 0", "found: str", "collate_fn"]),
    "no tokens": ([{"ids": IDS}], {}, ["Batch 0", "input_ids"]),
    "texts in a batch": ([{"input_ids": ["good film"]}], {}, ["Batch 0"]),
    "uneven batch": ([(IDS, torch.tensor([1]))], {}, ["one number of samples", "(3, 4)", "(1,)"]),
    "nothing": ([], {}, ["own:list cannot give that many"]),
    "too few": ([batch()], {"samples": 4}, ["own:list cannot give that many", "expected: 3", "found: 4"]),
    "too long": ([{"input_ids": torch.zeros(1, 7, dtype=torch.long)}], {}, ["at most 6", "(1, 7)"]),
    "unknown tokens": ([{"input_ids": torch.full((1, 2), 9)}], {}, ["ids below 6", "found: 9"]),
    "unknown class": ([batch(labels=torch.tensor([0, 1, 2]))], {}, ["classes 0 to 1", "found: 0 to 2"]),
    "numbers as classes": ([batch(labels=torch.tensor([0.0, 1, 2]))], {}, ["whole numbers", "loss=lambda"]),
    "labels of words": ([batch(labels=IDS)], {}, ["shape (3,)", "(3, 4)"]),
    "length": ([batch()], {"length": 3}, ["a length of their own"]),
    "columns": ([batch()], {"columns": {"text": "x"}}, ["columns cannot be used here"]),
    "loss": ([batch()], {"loss": "mse"}, ["loss cannot be measured"]),
    "metric": ([batch()], {"metrics": {"f1": 3}}, ["f1 cannot be measured"]),
    "metric called loss": ([batch()], {"metrics": {"loss": print}}, ["which is not loss"]),
    "another head": (Task("x", LANGUAGE, {"input_ids": IDS}, IDS, {}), {}, ["does not fit the head"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_objects_get_a_fitting_message(models, case):
    data, options, says = WRONG[case]
    with pytest.raises(BadTask) as caught:
        as_task(data, models["classes"], **options)
    assert caught.value.next_step
    assert [piece for piece in says if piece not in str(caught.value)] == []


def test_labels_that_are_the_inputs_are_noticed(models):
    with pytest.raises(BadTask, match="labels are the inputs themselves"):
        as_task([(IDS, IDS)], models["language"])


def test_images_have_the_size_of_the_model(models):
    pixels = torch.randn(4, 3, 8, 8)
    task = as_task([(pixels, torch.tensor([0, 1, 2, 0]))], models["images"])
    assert task.inputs["pixel_values"].equal(pixels)
    with pytest.raises(BadTask, match="not of the model's size"):
        as_task([(pixels[..., :4], torch.tensor([0, 1, 2, 0]))], models["images"])

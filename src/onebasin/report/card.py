"""Texts beside a checkpoint: its model card, and a recipe of mergekit for the average of aligned models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from onebasin.ensemble.words import join_words
from onebasin.landscape.tables import note_of, table_of
from onebasin.methods.method import Method

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

MERGEKIT = (
    "# mergekit-yaml mergekit.yaml MERGED\n# The folders are named by where they lay when this file was written.\n"
)


def plain_text(name: str) -> str:
    """A name in Markdown, as it is."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", name)


def describe_aligned(names: Sequence[str], method: Method) -> str:
    """What an aligned model is."""
    names = [plain_text(name) for name in names]
    kept = "that" if method.exact else "close to that"
    return (
        f"{join_words(names[1:])} in the basis of {names[0]}, by onebasin. The function is {kept} of the original.\n\n"
        f"Method `{method.name}`: {method.summary}."
    )


def describe_merged(names: Sequence[str], shares: Sequence[float], method: Method) -> str:
    """What a merged model is made of."""
    parts = join_words([f"{share:.4g} of {plain_text(name)}" for name, share in zip(names, shares, strict=True)])
    return f"{parts}, aligned and averaged by onebasin.\n\nMethod `{method.name}`: {method.summary}."


def describe_merging(report: Mapping[str, Any]) -> list[str]:
    """How the share was chosen and how the average was trained, from a certificate; nothing where neither was."""
    said = []
    if "path" in report:
        path = report["path"]
        point = path["points"][path["shares"].index(path["best"])]
        said.append(
            f"The share of B is {path['best']:.2g}: of {len(path['shares'])} it has the lowest loss, "
            f"{point['loss']:.4f}, on {point['samples']:,} samples held back for this choice."
        )
    if "healing" in report:
        steps, batch = (report["healing"]["options"][key] for key in ("steps", "batch"))
        said.append(
            f"After merging all weights were trained: {steps:,} steps of {batch} samples of "
            f"{report['healing']['task']}. What is exact is the alignment before."
        )
    if "equal_steps" in report:
        said.append(f"With the same training for all it is {report['equal_steps']}.")
    return said


def describe_notes(notes: Sequence[str]) -> list[str]:
    """A list of what differed between the models and was dealt with, if anything did."""
    return ["\n".join(["Where the models differ:", "", *(f"- {plain_text(note)}" for note in notes)])] if notes else []


def describe_quality(scores: Mapping[str, Any] | None, verdict: str) -> str:
    """How good a merged model is: a verdict, and the table behind it."""
    said = f"**Merged: {verdict}.**"
    if scores is None:
        return said
    head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in table_of(scores)]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([said, "", *lines, "", f"Measured on {note_of(scores)}."])


def eval_results(scores: Mapping[str, Any], name: str, pipeline: str) -> list[EvalResult]:
    """The row of one model as the Hub reads it, one entry for each figure."""
    from huggingface_hub import EvalResult

    task, row = scores["task"], next((row for row in scores["rows"] if row["name"] == name), None)
    if row is None:
        return []
    measured = (
        [(about, row["tasks"][one]) for one, about in task["tasks"].items()] if "tasks" in task else [(task, row)]
    )
    return [
        EvalResult(task_type=pipeline, dataset_type=about["name"].partition(":")[2] or about["name"],
                   dataset_name=about["name"], dataset_split=about.get("split"),
                   metric_type=metric, metric_name=metric.replace("_", " "), metric_value=value)
        for about, figures in measured for metric, value in {"loss": figures["loss"], **figures["metrics"]}.items()
    ]  # fmt: skip


def model_card(
    title: str, names: Sequence[str], text: str, code: str, metadata: Mapping[str, Any],
    results: Sequence[EvalResult] = (), *, universe: bool,
) -> str:  # fmt: skip
    """Markdown with the metadata that the Hub reads; `names` of the models as `name_of` calls them, `code` that loads
    the model, more of the `metadata` (its pipeline, its licence), and whether the maps lie in a `universe`."""
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        library_name="transformers", base_model=list(names), base_model_relation="merge", tags=["merge", "onebasin"],
        model_name=f"{title}: {join_words(names)}" if results else None, eval_results=list(results) or None, **metadata,
    )  # fmt: skip
    maps = "`universe` holds" if universe else "`alignment.safetensors` and `alignment.json` hold"
    return f"""---
{data.to_yaml()}
---

# {title}

{text}

{code}

`certificate.json` says how exact the alignment is, and `report.html` shows it; {maps} its maps;
`onebasin run recipe.yaml -o OUT` makes the model again.
"""


def linear_merge(models: Sequence[str]) -> str:
    """A recipe of mergekit: a linear merge with equal weights, in float32."""
    share = 1 / len(models)
    entries = [{"model": model, "parameters": {"weight": share}} for model in models]
    recipe = {"merge_method": "linear", "models": entries, "dtype": "float32"}
    return f"{MERGEKIT}{yaml.safe_dump(recipe, sort_keys=False)}"

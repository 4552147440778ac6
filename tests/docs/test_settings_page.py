"""docs/settings.md, made from the code: what the demo and the papers' tables train and measure, with every number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from helpers.pages import DOCS, check_page
from helpers.random_models import config_of
from onebasin.archs import declare
from onebasin.archs.rotary import before_5
from onebasin.demo import VARIANTS
from onebasin.ensemble import work
from onebasin.ensemble.memory import MODELS, memory_of
from onebasin.reproduce.foretelling import minutes
from onebasin.reproduce.models import fresh
from onebasin.reproduce.plan import BUDGETS, Entry, Plan, Published, Row, Training
from onebasin.reproduce.registry import ENTRIES

INTRODUCTION = """# Settings of the demo and of the papers' tables

What `onebasin demo` and `onebasin reproduce` train and measure, with every number; what is published beside it is in
[the three papers](papers.md). Minutes are foretold, for one H200 and three pairs. `samples` are of the test data,
`train_samples` of those that are matched on or learned from; without a number it is all of them.

"""
SEEDS = 3
CONFIG = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "n_inner",
    "vocab_size", "max_position_embeddings", "image_size", "patch_size", "num_labels", "hidden_act",
    "activation_function", "layer_norm_eps", "rms_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "hidden_dropout", "attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "tie_word_embeddings",
    "use_parallel_residual", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip
Line = dict[str, str]


def told(value: Any) -> str:
    """Settings as one cell."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {told(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return f"({' '.join(map(told, value))})"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def listed(names: Iterable[str]) -> str:
    """Each once; of many the first and the last."""
    each = list(dict.fromkeys(names))
    return "; ".join(each) if len(each) <= 4 else f"{len(each)}: {each[0]} … {each[-1]}"


def table(lines: Iterable[tuple[Line, Line]]) -> str:
    """Lines of names and settings; those with the same settings are one line, with all of their names."""
    found: dict[tuple[str, ...], list[Line]] = {}
    for names, settings in lines:
        found.setdefault(tuple(settings.values()), []).append(names)
    header = [*names, *settings]
    rows = [[*(listed(each[name] for each in of) for name in names), *cells] for cells, of in found.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)) + "\n"


def trained(training: Training) -> tuple[Line, Line]:
    settings = asdict(training)
    members = settings.pop("members")
    names = {"models": listed(member["name"] for member in members), "seeds": told([x["seed"] for x in members])}
    return names, {name: told(value) for name, value in settings.items()}


def measured(row: Row) -> tuple[Line, Line]:
    """Which models, the table of trainings says; orders of heads have them for a label."""
    settings = {name: value for name, value in asdict(row).items() if name != "models"}
    settings["method"].pop("heads", None)
    names = {"group": settings.pop("group"), "way": settings.pop("label")}
    return names, {name: told(value) for name, value in settings.items()}


def published(group: str, way: str, found: Published) -> tuple[Line, Line]:
    return {"group": group, "way": way}, {"published": str(found), "where": found.where}


def configured(model: PreTrainedModel) -> tuple[Line, Line]:
    """What the class and its configuration are, in transformers' names."""
    settings = {name: getattr(model.config, name) for name in CONFIG if hasattr(model.config, name)}
    count = f"{model.num_parameters():,}"
    return {"class": type(model).__name__}, {"parameters": count, "settings": told(settings)}


def of_budgets(plans: Mapping[str, Plan], part: str, shown: Callable[[Any], tuple[Line, Line]]) -> str:
    lines = [(budget, *shown(each)) for budget, plan in plans.items() for each in getattr(plan, part)]
    return table(({"budget": budget, **names}, settings) for budget, names, settings in lines)


def section(entry: Entry) -> str:
    plans = {budget: entry.plan(budget, SEEDS) for budget in BUDGETS}
    times = ", ".join(f"{budget} {minutes(plan):.3g}" for budget, plan in plans.items())
    models = {told(x.model): x.model for plan in plans.values() for x in plan.trainings}
    with torch.device("meta"):
        made = [configured(fresh(model)) for model in models.values()]
    return "\n".join([
        f"## {entry.name}\n", f"{entry.title}. Minutes: {times}.\n",
        of_budgets(plans, "trainings", trained), table(made), of_budgets(plans, "rows", measured),
        table(published(*key, found) for key, found in entry.published.items()),
    ])  # fmt: skip


def demo() -> str:
    """Every field of the variants."""
    columns = [asdict(variant) for variant in VARIANTS.values()]
    cells = {name: [told(getattr(x[name], "__name__", x[name])) for x in columns] for name in columns[0]}
    names = [f"{name}, quick" if quick else name for name, quick in VARIANTS]
    lines = [({"": name}, dict(zip(names, each, strict=True))) for name, each in cells.items()]
    with torch.device("meta"):
        made = [configured(variant.fresh()) for variant in VARIANTS.values()]
    return "## The demo\n\n" + table(lines) + "\n" + table(made)


def estimates() -> str:
    """What is counted of one model: how long stages take (`ensemble/work.py`), and how much memory they need."""
    config = config_of("llama", 0)
    config.architectures = ["LlamaForCausalLM"]
    spec = declare(config, tie=False)
    loads = {
        "reading 10⁶ bytes": work.reading(10**6), "matching, 3 sweeps": work.matching(spec, 3),
        "activations of 1,000 tokens": work.looking(spec, 1000), "a step of learning, 1,000 tokens":
        work.learning_step(spec, 1000), "a validation, 1,000 tokens": work.validation(spec, 1000),
        "certificate": work.certificate(spec), "writing 10⁶ bytes": work.writing(spec, 10**6),
    }  # fmt: skip
    counted = [({"": name}, {key: f"{x:.6g}" for key, x in asdict(load).items()}) for name, load in loads.items()]
    kinds = (*MODELS, "learn by blocks")
    needed = [({"": name}, {"bytes": f"{memory_of(spec, name):,}"}) for name in kinds]
    words = "## Estimates\n\nOf a small Llama: operations, bytes and seconds of one core.\n"
    return "\n".join([words, table(counted), table(needed)])


@pytest.mark.page
@pytest.mark.skipif(before_5(), reason="configurations differ between releases of transformers")
def test_the_page_shows_all_settings():
    check_page(DOCS / "settings.md", "\n".join([INTRODUCTION + demo(), *map(section, ENTRIES.values()), estimates()]))

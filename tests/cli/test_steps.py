"""What runs say while they work: every step of every verb once, in order, in the log file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.random_models import byte_llama
from helpers.reproducing import SMALL
from onebasin.reproduce import data, registry

TASK = "--task builtin:python --samples 12 --length 8"
LEARN = "--set learned.batch=4 --set learned.eval_every=1 --steps 2"
READ = ["checking that every number is finite", "what will be written"]
MATCH = ["looking at the weights", "sweep n objective n"]
LEARNED = [
    "validation at step n midpoint n barrier n", "validation at step n training loss n midpoint n barrier n",
    "learning: step n/n loss n barrier at ½ about n n steps/s", "learning done after step n best at step n midpoint n",
]  # fmt: skip
WRITE = ["certificate", "writing"]
LOOK = ["activations", "heads, the maps inside them, and units"]
TOGETHER = "measuring the models and their ensemble"
HEALED = ["healed: loss n", "A (A), trained: loss n", "B (B), trained: loss n", "plain average, trained: loss n"]
ROWS = ["A (A)", "B (B)", "plain average", "merged", "healed", "A (A), trained", "B (B), trained",
        "plain average, trained"]  # fmt: skip
KINDS = ["residual", *(f"layers.*.{name}" for name in ("kv_heads", "queries", "qk", "ov", "ffn"))]
MEASURED = "circuit path of {0}", "factor path of {0}", "drawings, {0}"
STEPS = {  # n stands for numbers
    "verify A": [READ[0], "reading weights", "all spaces at once", *KINDS],
    "widen A --set intermediate_size=40 -o OUT": [READ[0], "widening", "writing"],
    "align A B -o OUT --method weight --set weight.sweeps=2": [*READ, *MATCH, *WRITE],
    "align A B C -o OUT --method weight --set weight.sweeps=1": [
        *READ, "round n model B, objective n", *MATCH, "round n model C, objective n", *WRITE,
    ],
    f"align A B -o OUT --method activation {TASK}": [*READ, *LOOK, *WRITE],
    f"align A B -o OUT --method learned --start weight {TASK} {LEARN}": [*READ, *MATCH, *LEARNED, *WRITE],
    f"align A B -o OUT --method auto {TASK} {LEARN}": [
        *READ, "comparing: no alignment", *MATCH, "comparing: weights", *LOOK, "comparing: activations", *LEARNED,
        "comparing: learning", *WRITE,
    ],
    "merge A B -o OUT --method weight": [*READ, *MATCH, *WRITE],
    f"merge A B -o OUT --method weight --share best --heal 2 --set heal.batch=4 {TASK}": [
        *READ, *MATCH, "choosing the share of B", *(f"training {x}" for x in HEALED), *WRITE, TOGETHER,
        *(f"measuring {x}" for x in ROWS),
    ],
    f"barrier A B {TASK} --points 3 -o OUT": [READ[0], "measuring", "measured n of the last model"],
    f"eval A B {TASK} --ensemble": ["reading A", "reading B", READ[0], TOGETHER, "measuring A", "measuring B"],
    "reproduce small -o OUT --seeds 1 --device cpu": [
        "loading torch and transformers", "reading shapes", "training n models like smalln loss n",
        *(x.format("vanilla") for x in MEASURED), *MATCH, *(x.format("weight") for x in MEASURED),
    ],
}  # fmt: skip


def steps(log: str) -> list[str]:
    """The lines without times and numbers, each once."""
    lines = [re.sub(r"-?\d[\d.,:]*(e[+-]?\d+)?", "n", line[20:]) for line in log.splitlines()]
    return list(dict.fromkeys(re.sub(r" the best so far$|, n left$", "", line) for line in lines))


@pytest.mark.parametrize("command", STEPS)
def test_a_log_shows_every_step(cli, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "DRAWN", {"train": 40, "test": 20})
    monkeypatch.setattr(registry, "ENTRIES", {"small": SMALL})
    for seed, name in enumerate("ABC"):
        byte_llama(Path(name), seed)
    code, _, err = cli(*command.split(), "--verbose", "--log-file", "log")
    assert code == 0, err
    assert steps(Path("log").read_text())[1:] == [*STEPS[command], "done"]

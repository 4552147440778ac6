"""docs/large.md says what benchmarks/results/large.json holds."""

from __future__ import annotations

import json

import pytest

from helpers.pages import DOCS, ROOT, check_part

HEADER = "| parameters | B | seconds | GPU GB | host GB | distance from A, found (known) | logits, found (known) |\n"


@pytest.mark.page
def test_the_table_of_large_models():
    results = json.loads((ROOT / "benchmarks" / "results" / "large.json").read_text(encoding="utf-8"))["results"]
    lines = []
    for size in (x for x in results.values() if isinstance(x, dict) and "random" in x):
        planted = size.get("planted")
        for kind, found in (("random", size["random"]), *([("planted", planted["aligned"])] if planted else [])):
            pairs = [f"{found['distance_after']:.3f}", ""]
            if kind == "planted":
                both = planted["found"], planted["known inverse"]
                pairs = ["{:.5f} ({:.5f})".format(*(x[key] for x in both)) for key in ("distance", "logits")]
            cost = [found["seconds"], found["GPU GB"], found["host GB"]]
            lines.append(f"| {size['parameters'] / 1e9:.2f} B | {kind} | {' | '.join(map(str, [*cost, *pairs]))} |")
    check_part(DOCS / "large.md", HEADER + "|---|---|---|---|---|---|---|\n", "\n\n", "\n".join(lines))


def test_the_sentence_on_two_cores():
    results = json.loads((ROOT / "benchmarks" / "results" / "large_cpu.json").read_text(encoding="utf-8"))["results"]
    kinds = results["0.13B"]["random"], results["0.13B"]["planted"]["aligned"]
    seconds, memory = (
        [f"{found[key]:.{digits}f}" for found in kinds] for key, digits in (("seconds", 0), ("host GB", 1))
    )
    text = " ".join((DOCS / "large.md").read_text(encoding="utf-8").split())
    assert f"take {seconds[0]} s and, planted, {seconds[1]} s, with {memory[0]} and {memory[1]} GB" in text


def test_the_sentence_on_writing():
    merged = json.loads((ROOT / "benchmarks" / "results" / "writing.json").read_text(encoding="utf-8"))["results"][
        "merged"
    ]
    text = " ".join((DOCS / "large.md").read_text(encoding="utf-8").split())
    said = f"takes {merged['seconds']} s with {merged['host GB']:.1f} GB, and a bare loop that copies both files"
    assert f"{said} {merged['bare loop, seconds']} s" in text

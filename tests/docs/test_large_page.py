"""docs/large.md says what the results in benchmarks/results hold."""

from __future__ import annotations

import pytest

from helpers.pages import DOCS, check_part, prose, results

HEADER = "| parameters | B | seconds | GPU GB | host GB | distance from A, found (known) | logits, found (known) |\n"
WRITING = "| on | written | seconds | bare loop | ratio | host GB |\n"
LEARNING = "| parameters | learning | tokens per second | of plain training | peak GB (allowed) |\n"
WAYS = {
    "merged": "the average of both, twice",
    "reordered": "B reordered, and the average",
    "rotated": "B rotated, and the average",
}


@pytest.mark.page
def test_the_table_of_large_models():
    lines = []
    for size in (x for x in results("large").values() if isinstance(x, dict) and "random" in x):
        planted, less = size.get("planted"), size.get("random, 16GB")
        kinds = {"random": size["random"], "planted": planted and planted["aligned"], "random, at most 16 GB": less}
        for kind, found in ((kind, found) for kind, found in kinds.items() if found):
            pairs = [f"{found['distance_after']:.3f}", ""]
            if kind == "planted":
                both = planted["found"], planted["known inverse"]
                pairs = ["{:.5f} ({:.5f})".format(*(x[key] for x in both)) for key in ("distance", "logits")]
            cost = [found["seconds"], found["GPU GB"], found["host GB"]]
            lines.append(f"| {size['parameters'] / 1e9:.2f} B | {kind} | {' | '.join(map(str, [*cost, *pairs]))} |")
    check_part(DOCS / "large.md", HEADER + "|---|---|---|---|---|---|---|\n", "\n\n", "\n".join(lines))


def test_the_sentence_on_two_cores():
    found = results("large_cpu")["0.13B"]
    kinds = found["random"], found["planted"]["aligned"]
    seconds, memory = (
        [f"{found[key]:.{digits}f}" for found in kinds] for key, digits in (("seconds", 0), ("host GB", 1))
    )
    said = f"take {seconds[0]} s and, planted, {seconds[1]} s, with {memory[0]} and {memory[1]} GB"
    assert said in prose(DOCS / "large.md")


@pytest.mark.page
def test_the_table_of_writing():
    found = results("writing")
    lines = [
        f"| {device} | {name} | {row['seconds']} | {row['bare loop, seconds']} | {row['ratio']} | {row['host GB']} |"
        for device, rows in found.items()
        if isinstance(rows, dict)
        for way, name in WAYS.items()
        if (row := rows.get(way))
    ]
    check_part(DOCS / "large.md", WRITING + "|---|---|---|---|---|---|\n", "\n\n", "\n".join(lines))


@pytest.mark.page
def test_the_table_of_learning():
    lines = []
    for size in (x for x in results("learned_size").values() if isinstance(x, dict)):
        for way, row in size.items():
            if isinstance(row, dict) and way != "plain":
                speed, memory = row["share of plain speed"], f"{row['peak GB']} ({row['allowed GB']})"
                cells = [f"{size['parameters'] / 1e9:.2f} B", way, row["tokens per second"], f"{speed:.2f}", memory]
                lines.append(f"| {' | '.join(map(str, cells))} |")
    check_part(DOCS / "large.md", LEARNING + "|---|---|---|---|---|\n", "\n\n", "\n".join(lines))

"""docs/worth.md says what benchmarks/results/embedders.json holds."""

from __future__ import annotations

import pytest

from helpers.pages import DOCS, check_part, results

HEADER = "| model | accuracy | error | seconds |\n"


@pytest.mark.page
def test_the_table_of_embedding_models():
    lines = [
        f"| {name} | {row['accuracy']:.3f} ± {row['standard_error']:.3f} | {row['error']:.3f} | {row['seconds']:.0f} |"
        for name, row in results("embedders")["rows"].items()
    ]
    check_part(DOCS / "worth.md", HEADER + "|---|---|---|---|\n", "\n\n", "\n".join(lines))


@pytest.mark.page
def test_the_table_of_skip_connections():
    lines = [
        f"| {name} | {min(each):z.2f} | {sum(each) / len(each):z.2f} | {max(each):z.2f} |"
        for name, each in results("embedders")["streams"].items()
    ]
    header = "| coordinates of B | lowest | mean | highest |\n"
    check_part(DOCS / "worth.md", header + "|---|---|---|---|\n", "\n\n", "\n".join(lines))

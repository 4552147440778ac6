"""Numbers for people, and notes in the log."""

from __future__ import annotations

import pytest

from helpers.random_models import random_folder
from onebasin.cli.output import size


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_500_000, "1.5 MB"), (28e9, "28 GB"), (2e12, "2 TB"),
     (5e15, "5e+03 TB")],
)  # fmt: skip
def test_sizes_are_told_in_the_largest_unit_that_fits(nbytes, words):
    assert size(nbytes) == words


def test_what_a_command_says_is_in_its_log(cli, tmp_path):
    models = [random_folder(tmp_path / x, "bert", "BertModel", 1) for x in "ab"]
    log = tmp_path / "run.log"
    code, _, err = cli("align", *models, "-o", tmp_path / "out", "--log-file", log)
    assert code == 0, err
    (said,) = [line for line in err.splitlines() if "No --method given" in line]
    assert said.removeprefix("onebasin: ") in log.read_text()

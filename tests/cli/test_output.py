"""Numbers for people, and notes in the log."""

from __future__ import annotations

import pytest

from helpers.random_models import random_folder
from onebasin.cli.output import size
from onebasin.cli.watching import Watch


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


def test_widening_tells_how_far_the_writing_is(cli, models, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(Watch, "tick", lambda _, *progress: told.append(progress))
    assert cli("widen", models[0], "-o", tmp_path / "out", "--set", "intermediate_size=24")[0] == 0
    writing = [(done, total) for step, done, total in (x for x in told if len(x) == 3) if step == "writing"]
    assert writing
    assert writing[-1][0] == writing[-1][1] > 0

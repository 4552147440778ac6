"""What is seen of a run without a terminal: log lines on stderr, a log file, everything with -v."""

from __future__ import annotations

import io
import re
import warnings
from types import SimpleNamespace

import pytest
from rich.console import Console

from onebasin.cli import output, pace, watching
from onebasin.cli.watching import Watch, Watching, watch
from onebasin.errors import OnebasinError

LEARN = (
    "--method", "learned", "--task", "builtin:python", "--samples", "40", "--length", "8", "--device", "cpu",
    "--steps", "4", "--set", "learned.batch=4", "--set", "learned.eval_every=2", "--set", "learned.log_every=1",
)  # fmt: skip
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def lines(text: str) -> list[str]:
    """Log lines without their times."""
    found = [re.fullmatch(rf"{STAMP} (.*)", line) for line in text.splitlines()]
    return [match[1] for match in found if match]


@pytest.fixture
def learned(cli, models, tmp_path):
    """stderr of a short run with these flags."""

    def call(*flags: object) -> str:
        code, _, err = cli("align", *models[:2], "-o", tmp_path / f"out{len(flags)}", *LEARN, *flags)
        assert code == 0, err
        return err

    return call


def test_validations_are_logged_where_there_is_no_terminal(learned):
    logged = lines(learned())
    assert [line.split(":")[0] for line in logged[:3]] == [f"validation at step {i}" for i in (0, 2, 4)]
    assert re.fullmatch(r"learning done after step 4, best at step \d: midpoint \d\.\d{4}", logged[3])
    assert len(logged) == 4
    assert re.search(r"training loss \d\.\d{4}, midpoint \d\.\d{4}, barrier -?\d\.\d{4}", logged[1])


def test_nothing_when_quiet_and_everything_when_verbose(learned):
    assert learned("--quiet") == ""
    logged = lines(learned("-v", "--json"))
    steps = [line for line in logged if line.startswith("learning: ")]
    assert [line.split(",")[0] for line in steps] == [f"learning: step {i}/4" for i in (1, 2, 3, 4)]
    assert re.search(r"loss \d\.\d{4}, barrier at ½ about \d\.\d{4}, [\d.e+]+ steps/s, \d+:\d\d left$", steps[1])
    assert logged.count("what will be written") == 1
    assert sum(line.startswith("checking that every number") for line in logged) == 1  # not for every tensor


def test_a_line_every_few_seconds(monkeypatch):
    """The clock of the test goes three seconds on whenever it is looked at."""
    now = iter(range(0, 10**6, 3))
    clock = SimpleNamespace(monotonic=lambda: next(now), strftime=lambda form: "2000-01-01 00:00:00")
    monkeypatch.setattr(watching, "time", clock)
    monkeypatch.setattr(watching, "EVERY", 10.0)
    ticks = []
    seen = Watch(lambda *told: ticks.append(told), (shown := []).append, (file := []).append, verbose=False)
    for i in range(20):
        seen.tick("sweeping", i, 20)
    assert len(ticks) == 20
    assert 3 <= len(shown) <= 8
    assert shown == file
    assert shown[0].startswith("2000-01-01 00:00:00 sweeping")


def test_the_time_left_is_that_of_the_kind_of_work(monkeypatch):
    now = SimpleNamespace(value=0.0)
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now.value))
    it = pace.Pace()
    told = []
    for seconds, step, done in ((0, "learning: step 500", 500), (10, "learning: step 600", 600), (12, "writing", 1),
                                (13, "writing", 2), (20, "writing", 1)):  # fmt: skip
        now.value = seconds
        told.append(it.left(step, done, 1000 if done > 10 else 90))
    assert told == ["", "0:40 left", "", "1:28 left", ""]  # a run that was taken up at step 500 has its own speed


def test_the_bar_shows_the_time_left(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(output, "messages", Console(file=shown, force_terminal=True, width=120))
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=iter(range(0, 100, 30)).__next__))
    with output.progress() as tick:
        tick("reading [/b]", 1, 4)
        tick("reading [/b]", 2, 4)
    assert "1:00 left" in shown.getvalue()
    assert "reading [/b]" in shown.getvalue()


def test_a_log_file_grows_with_every_run_and_holds_what_went_wrong(learned, cli, models, tmp_path):
    log = tmp_path / "run.log"
    learned("--quiet", "--log-file", log)
    first = lines(log.read_text())
    assert first[0].startswith("onebasin ")
    assert [line for line in first if line.startswith("validation at step 4")]
    assert first[-1] == "done"
    code, _, _ = cli("align", *models[:2], "-o", tmp_path, "--method", "weight", "--log-file", log)
    assert code == 2
    assert log.read_text().startswith("\n".join(log.read_text().splitlines()[: len(first)]))
    assert "is not empty" in log.read_text()
    assert "BadOutput" in log.read_text()


def test_warnings_are_in_the_log_file(cli, models, tmp_path):
    log = tmp_path / "run.log"
    flags = ("--method", "activation", "--task", "builtin:python", "--samples", 1, "--length", 3, "--device", "cpu")
    code, _, err = cli("align", *models[:2], "-o", tmp_path / "out", *flags, "--log-file", log)
    assert code == 0
    (told,) = err.splitlines()
    assert told.startswith("onebasin: warning: ")
    assert [line for line in lines(log.read_text()) if line.startswith("warning: ")] == [
        told.removeprefix("onebasin: ")
    ]


def test_a_log_file_that_cannot_be(cli, models, tmp_path):
    code, _, err = cli("verify", models[0], "--log-file", tmp_path / "no" / "run.log")
    assert code == 2
    assert "run.log cannot be written" in err
    assert "next step" in err


def test_a_log_that_fills_the_disk_does_not_end_the_run(tmp_path):
    full = SimpleNamespace(write=lambda text: (_ for _ in ()).throw(OSError(28, "No space left")), close=lambda: None)
    watching._writer(full)("a line")
    with pytest.raises(OnebasinError), watch(Watching(quiet=True, log_file=tmp_path / "log")):
        raise OnebasinError("it went wrong")
    assert "OnebasinError: it went wrong" in (tmp_path / "log").read_text()


def test_of_several_processes_the_first_is_watched(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with watch(Watching(verbose=True, log_file=tmp_path / "log")) as (seen, _):
        seen.tick("working")
        seen.log("validated")
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "verb", ["", "align", "barrier", "demo", "inspect", "merge", "reproduce", "run", "verify", "widen"]
)
def test_help_has_a_short_name(cli, verb):
    words = [verb] if verb else []
    assert cli(*words, "-h") == cli(*words, "--help")
    assert cli(*words, "-h")[0] == 0


def test_a_long_warning_is_one_line(capsys):
    with watch(Watching(quiet=True)):
        warnings.warn_explicit("word " * 100, UserWarning, watching.__file__, 1, module="onebasin.cli.watching")
    assert len(capsys.readouterr().err.splitlines()) == 1

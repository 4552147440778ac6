"""The mutation run itself: which mutants there are, that they are sampled evenly, and where their tests lie."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import mutants

CODE = '''
"""Words, 3 < 4."""
LIMIT: "1 + 1" = 0.5


def nearest(x: int, *, low: int = 0) -> int:
    """Not 5, and not True."""
    assert x < 7
    if x < low and not x == 2:
        raise ValueError(f"{x + 1} is below", 6)
    log(x)
    return max(-x, low, key=abs)


class Thing:
    def __repr__(self) -> str:
        return 8 * "-"
'''
EXPECTED = [
    ": 0.5 → 5.0",
    "nearest: 0 → 1",
    "nearest: x < low and not x == 2 → (not (x < low and (not x == 2)))",
    "nearest: x < low and not x == 2 → (x < low or not x == 2)",
    "nearest: x < low → (x <= low)",
    "nearest: x < low → (x >= low)",
    "nearest: not x == 2 → (x == 2)",
    "nearest: x == 2 → (x != 2)",
    "nearest: 2 → 3",
    "nearest: log(x) → pass",
    "nearest: return max(-x, low, key=abs) → return None",
    "nearest: max(-x, low, key=abs) → max(-x, low)",
    "nearest: max → min",
    "nearest: -x → x",
]


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path)
    return tmp_path


def test_code_is_changed_and_words_are_not(package):
    (package / "one.py").write_text(CODE)
    found = mutants.mutants_of(package / "one.py")
    assert sorted(mutant.name for mutant in found) == sorted(f"one.py {change}" for change in EXPECTED)
    for mutant in found:
        assert CODE.encode()[mutant.start : mutant.end].decode() == mutant.old


def test_a_mutant_that_is_listed_is_left_out(package, monkeypatch):
    (package / "one.py").write_text(CODE)
    monkeypatch.setattr(mutants, "EQUIVALENT", {"one.py nearest: -x → x": "a reason"})
    assert len(mutants.mutants_of(package / "one.py")) == len(EXPECTED) - 1


def test_every_module_gives_as_many_as_it_has(package):
    for name, lines in (("few", 1), ("many", 50), ("more", 50)):
        (package / f"{name}.py").write_text("x = 1\n" * lines)
    found = [mutant.file.stem for mutant in mutants.sample(package.glob("*.py"), 11, 0)]
    assert {name: found.count(name) for name in found} == {"few": 1, "many": 5, "more": 5}


def test_every_mutant_of_the_package_is_python():
    files = sorted(mutants.PACKAGE.rglob("*.py"))
    for mutant in mutants.sample(files, 5 * len(files), 0):
        source = mutant.file.read_bytes()
        compile(source[: mutant.start] + mutant.new.encode() + source[mutant.end :], mutant.file, "exec")


def test_the_tests_of_a_module_lie_where_it_lies():
    assert mutants.mirror(mutants.PACKAGE / "maps" / "base.py") == [mutants.TESTS / "maps"]
    assert mutants.mirror(mutants.PACKAGE / "families.py") == [mutants.TESTS / "test_families.py"]
    assert mutants.mirror(mutants.PACKAGE / "errors.py") == []


def test_a_mutant_meets_the_tests_that_reach_its_line(package, monkeypatch):
    monkeypatch.setattr(mutants, "MOST", 3)
    file = package / "one.py"
    file.write_text("LIMIT = 1\ndef f():\n    return LIMIT + 2\n\ndef g():\n    return 3\n")
    lines = {1: [""], 3: ["t.py::wide", "t.py::far[1]", "t.py::far[2]", "t.py::special"], 6: ["t.py::wide", "t.py::g"]}
    seconds = {"t.py::special": 3.0, "t.py::far[1]": 2.0, "t.py::far[2]": 1.0}
    reached = mutants.Reached({file: lines, package / "two.py": {}}, seconds)
    (package / "two.py").write_text("")
    found = {mutant.line: reached.tests(mutant) for mutant in mutants.mutants_of(file)}
    assert found == {1: ["t.py::wide", "t.py::far[2]", "t.py::special"], 3: found[1], 6: ["t.py::g", "t.py::wide"]}


def test_a_default_meets_the_tests_of_its_function_and_pages(package):
    file = package / "one.py"
    file.write_text("def calc(\n    x=1,\n):\n    return x\n\ndef g():\n    return 3\n")
    lines = {2: [""], 4: ["t.py::calls"], 7: ["tests/docs/t.py::page", "t.py::g"]}
    reached = mutants.Reached({file: lines}, {"tests/docs/t.py::page": 0.2})
    found = {mutant.line: reached.tests(mutant) for mutant in mutants.mutants_of(file)}
    assert found[2] == ["tests/docs/t.py::page", "t.py::calls"]
    assert found[7] == ["t.py::g", "tests/docs/t.py::page"]


def test_what_runs_at_import_meets_pages_though_a_test_was_the_first_to_import_it(package):
    file = package / "one.py"
    file.write_text("LIMIT = 1\n")
    reached = mutants.Reached({file: {1: ["", "t.py::first"], 2: ["tests/docs/t.py::page"]}}, {})
    assert reached.tests(mutants.mutants_of(file)[0]) == ["tests/docs/t.py::page", "t.py::first"]


def test_of_two_tests_the_mirrored_one_comes_first(monkeypatch):
    file = mutants.PACKAGE / "names.py"
    line = next(mutant for mutant in mutants.mutants_of(file))
    names = ["tests/cli/test_names.py::a", "tests/test_names.py::b"]
    reached = mutants.Reached({file: {line.line: names}}, dict.fromkeys(names, 1.0))
    assert reached.tests(line) == [*reversed(names)]
    slow = mutants.Reached({file: {line.line: names}}, {names[0]: 1.0, names[1]: 20.0})
    assert slow.tests(line) == names
    other = mutants.Reached({file: {line.line: names[:1], line.line + 1: names}}, {})
    assert other.tests(line) == names  # at last mirrored ones that are not known to reach it


def test_times_are_read_as_pytest_writes_them(tmp_path):
    tests, times = tmp_path / "folder" / "test_one.py", tmp_path / "times.xml"
    tests.parent.mkdir()
    tests.write_text("import pytest\n@pytest.mark.parametrize('x', [1.5])\ndef test_it(x): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={times}", "folder"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    found = mutants._seconds(times)
    assert [*found] == ["folder/test_one.py::test_it[1.5]"]
    assert 0 <= found["folder/test_one.py::test_it[1.5]"] < 10


def test_by_name_the_mirrored_files_that_speak_of_the_place_come_first():
    found = {mutant.inside: mutant for mutant in mutants.mutants_of(mutants.PACKAGE / "match" / "solve.py")}
    files = mutants.by_name(found["scaled_scores"])
    assert files[0] in ("tests/match/test_match.py", "tests/match/test_units.py")
    assert {str(x.relative_to(mutants.ROOT)) for x in (mutants.TESTS / "match").glob("test_*.py")} <= {*files}


@pytest.fixture
def tried(package, tmp_path, monkeypatch):
    """(What became of a mutant if pytest ends with these codes, what lay in the copy each time, which tests were
    asked for, the tests that fail anyway.)"""
    file = package / "one.py"
    file.write_text(CODE)
    mutant, copied = mutants.mutants_of(file)[0], tmp_path / "copy"
    place = copied / file.relative_to(tmp_path.parent)
    place.parent.mkdir(parents=True)

    def call(*codes: int | None) -> tuple[str, list[str], list[list[str]], set[str]]:
        left, seen, asked, failing = list(codes), [], [], set()

        def outcome(source: Path, tests: list[str], budget: float) -> int | None:
            seen.append(place.read_text())
            asked.append(tests)
            (source / mutants.NOTE).write_text(f"test {len(asked)}")
            return left.pop(0)

        monkeypatch.setattr(mutants, "outcome", outcome)
        told = mutants.fate(mutant, ["all"], copied, 1.0, failing)
        assert place.read_text() == CODE
        assert not left
        changed = CODE.replace(mutant.old, mutant.new, 1)
        return told, ["mutant" if text == changed else text for text in seen], asked, failing

    return call


@pytest.mark.parametrize(
    ("codes", "told"),
    [([0], "survived"), ([1, 0], "killed"), ([None, 0], "timed out"), ([None, None], "survived"), ([2, 0], "killed"),
     ([2, 2], "survived"), ([4, 0], "killed")],
)  # fmt: skip
def test_a_mutant_is_killed_only_by_tests_that_hold_without_it(tried, codes, told):
    """Tests that fail, that never end, or that cannot even be collected."""
    found, seen, asked, failing = tried(*codes)
    assert found == told
    assert seen == ["mutant", CODE][: len(codes)]
    assert asked == [["all"], ["test 1"] if codes[0] == 1 else ["all"]][: len(codes)]
    assert not failing


def test_nothing_is_told_from_tests_that_are_not_there(tried):
    with pytest.raises(SystemExit, match=r"remove \.mutants"):
        tried(4, 4)


@pytest.mark.parametrize(("then", "told"), [([0], "survived"), ([1, 0], "killed")])
@pytest.mark.parametrize("without", [1, None])
def test_a_test_that_fails_without_the_mutant_is_left_out(tried, without, then, told):
    found, seen, asked, failing = tried(1, without, *then)
    assert found == told
    assert seen == ["mutant", CODE, "mutant", CODE][: 2 + len(then)]
    assert asked == [["all"], ["test 1"], ["--deselect=test 1", "all"], ["test 3"]][: 2 + len(then)]
    assert failing == {"test 1"}


def test_where_nothing_can_be_collected_a_test_that_fails_anyway_is_left_out_too(tried):
    found, _, asked, failing = tried(2, 1, 2, 0)
    assert found == "killed"
    assert failing == {"test 2"}
    assert asked[2:] == [["--deselect=test 2", "all"]] * 2


@pytest.mark.parametrize(("seconds", "spent"), [(-1.0, True), (60.0, False)])
def test_no_test_begins_when_the_time_is_spent(tmp_path, seconds, spent):
    budget, session = mutants.Budget(seconds, tmp_path / "note"), SimpleNamespace(shouldstop=False)
    with pytest.raises(pytest.skip.Exception) if spent else nullcontext():
        budget.pytest_runtest_setup(SimpleNamespace(session=session))
    assert bool(session.shouldstop) == budget.spent == spent


def test_the_test_that_failed_is_noted(tmp_path):
    note = tmp_path / "note"
    budget = mutants.Budget(60.0, note)
    for failed in (False, True, False):
        budget.pytest_runtest_logreport(SimpleNamespace(nodeid=f"test {failed}", failed=failed))
    assert note.read_text() == "test True"

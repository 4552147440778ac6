"""The mutation run itself: which mutants there are, that they are sampled evenly, and where their tests lie."""

from __future__ import annotations

from pathlib import Path

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
    monkeypatch.setattr(mutants, "MOST", 2)
    file = package / "one.py"
    file.write_text("LIMIT = 1\ndef f():\n    return LIMIT + 2\n\ndef g():\n    return 3\n")
    lines = {1: [""], 3: ["t.py::wide", "t.py::far[1]", "t.py::far[2]", "t.py::special"], 6: ["t.py::wide", "t.py::g"]}
    reached = mutants.Reached({file: lines, package / "two.py": {}})
    (package / "two.py").write_text("")
    found = {mutant.line: reached.tests(mutant) for mutant in mutants.mutants_of(file)}
    assert found == {1: ["t.py::far[1]", "t.py::special"], 3: found[1], 6: ["t.py::g", "t.py::wide"]}

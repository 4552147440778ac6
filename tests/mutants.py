"""Break the code in small ways, one at a time, and see whether a test fails: `make mutants`.

A mutant is a place in `src/onebasin` and other code for it.  It is *killed* if a test fails or never ends, else it has
*survived*.  Each mutant meets tests until one fails, for so many seconds of a processor at most.  Which come first is
told by what each test reaches: the whole suite runs once for that, and `.mutants*` keep it until code or tests change.
Quick and special tests come first, and mirrored ones (those of `match/solve.py` are in `tests/match`, those of
`options.py` in `tests/test_options.py`).  With `--by-name` nothing runs ahead, and files of tests that speak of the
place come first: the mirrored ones, then others.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import math
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS = ROOT / "src" / "onebasin", ROOT / "tests"
NOTE = ".failed"  # in a copy of the source: the test that failed last
DATABASE = ROOT / ".mutants"  # of coverage: lines by test
TIMES = ROOT / ".mutants.xml"  # how long each test took
MOST = 120  # tests that reach a mutant, at most; and as many mirrored ones that do not
PAGES = "tests/docs/"
NEAR = 5  # mirrored tests come first, but for those that take so many times as long or reach so many more lines
ENOUGH = 0.95  # the least share of mutants to be killed
LOOP, HANG = 3, 30  # times the budget: seconds of the processor, and of the clock, after which a run has no end
FORKS = get_context("forkserver")  # its children find imported what takes long
IMPORTED = ["torch", "transformers.modeling_utils", "transformers.models.auto.modeling_auto", "scipy.optimize",
            "matplotlib.figure", "hypothesis", "pytest", "typer", "__main__"]  # fmt: skip
QUIETLY = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")
say = partial(print, flush=True)

# Mutants that compute the same, by their name, with the reason.  Reviewed by hand: keep it short.
EQUIVALENT = {
    "linalg/stochastic.py _line_search: size > 1e-10 → (size >= 1e-10)": "size is a power of two, never 1e-10",
    "checkpoint/shard.py : 4 → 5": "from a GPU; more at once is no other file",
    "methods/method.py silent: 0 → 1": "nobody watches",
    "ensemble/likeness.py _partners: min → max": "the layers of a model are alike",
    "linalg/orthogonal.py _Polar.backward: m > n → (m >= n)": "a square matrix has nothing outside of its columns",
    "linalg/orthogonal.py _Polar.backward: m < n → (m <= n)": "nor outside of its rows",
    "moving/blocks.py Where._has_pace: group.keys[0] in own.paces → "
    "(group.keys[0] not in own.paces)": "the same numbers by a longer way",
    "ensemble/aligned.py Aligned.merged: 1.0 → 10.0": "shares are divided by their sum",
    "moving/latents.py CayleyChart.settle: 1 → 2": "the matrix is square",
    "tasks/batches.py Batches.__call__: _seed(self.seed, n) * self.world.size + self.world.rank → "
    "(_seed(self.seed, n) * self.world.size - self.world.rank)": "as good a number, of no other process",
}

SAID = ("strict", "stacklevel")  # a check, and the line that a warning names
ELSEWHERE = (*SAID, "encoding", "device")  # what shows on other systems only

OPERATORS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,), ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.And: (ast.Or,), ast.Or: (ast.And,),
}  # fmt: skip
PAIRS = ("min max", "amin amax", "argmin argmax", "minimum maximum", "clamp_min clamp_max", "all any", "sum mean")
SWAPPED = {a: b for pair in PAIRS for a, b in (pair.split(), reversed(pair.split())) if a != "sum"}


class Budget:
    """A plugin of pytest that begins no test after so many seconds of the processor, and notes the one that failed."""

    def __init__(self, seconds: float, note: Path) -> None:
        self.end, self.spent, self.note = time.process_time() + seconds, False, note

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if time.process_time() > self.end:
            self.spent, item.session.shouldstop = True, "no time is left"
            pytest.skip("no time is left")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.note.write_text(report.nodeid, encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    file: Path
    line: int
    start: int  # in bytes, as `end`
    end: int
    inside: str  # the function or class
    old: str
    new: str

    @property
    def name(self) -> str:
        old, new = (" ".join(x.split()) for x in (self.old, self.new))
        return f"{self.file.relative_to(PACKAGE)} {self.inside}: {old} → {new}"


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of one node."""

    def changed(**fields: object) -> ast.AST:
        twin = copy.copy(node)
        for field, value in fields.items():
            setattr(twin, field, value)
        return twin

    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                yield from (changed(ops=[*ops[:i], kind(), *ops[i + 1 :]]) for kind in OPERATORS[type(op)])
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            yield from (changed(op=kind()) for kind in OPERATORS.get(type(op), ()))
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 10 or 1.0)
        case ast.Name(id=name) if name in SWAPPED:
            yield changed(id=SWAPPED[name])
        case ast.Attribute(attr=name) if name in SWAPPED:
            yield changed(attr=SWAPPED[name])
        case ast.Call(keywords=words):
            yield from (
                changed(keywords=[w for w in words if w is not x]) for x in words if x.arg not in (None, *ELSEWHERE)
            )
        case ast.IfExp(test=test):
            yield changed(test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The children that compute: no annotations, decorators, messages, texts, and no asserts (`strict=` is one)."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            words = isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr)
            words |= getattr(child, "arg", "") in SAID or getattr(child, "name", "") == "__repr__"
            if isinstance(child, ast.AST) and not words:
                yield child


def mutants_of(file: Path) -> list[Mutant]:
    """All there are, in the order of the file."""
    source = file.read_bytes()
    starts = [0, *(i + 1 for i, byte in enumerate(source) if byte == ord("\n"))]
    found: list[Mutant] = []

    def add(node: ast.AST, new: str, inside: str) -> None:
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        found.append(Mutant(file, node.lineno, start, end, inside, source[start:end].decode(), new))

    def visit(node: ast.AST, inside: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = f"{inside}.{node.name}".lstrip(".")
        for other in variants(node):
            text = ast.unparse(ast.fix_missing_locations(other))
            bare = isinstance(node, ast.stmt) or isinstance(other, ast.Constant | ast.Name | ast.Attribute | ast.Call)
            add(node, text if bare else f"({text})", inside)
        if isinstance(node, ast.If | ast.While) and ast.unparse(node.test) != "TYPE_CHECKING":
            add(node.test, f"(not ({ast.unparse(node.test)}))", inside)
        for child in parts(node):
            visit(child, inside)

    visit(ast.parse(source), "")
    return [mutant for mutant in found if mutant.name not in EQUIVALENT]


def sample(files: Iterable[Path], count: int, seed: int) -> list[Mutant]:
    """As many of every module, as far as it has them."""
    dice = random.Random(seed)
    lists = [dice.sample(found, len(found)) for found in map(mutants_of, sorted(files))]
    dice.shuffle(lists)
    return [mutant for mutant in chain(*zip_longest(*lists)) if mutant is not None][:count]


def mirror(file: Path) -> list[Path]:
    """The tests of a module, by its place."""
    first = file.relative_to(PACKAGE).parts[0]
    place = TESTS / (f"test_{first}" if first.endswith(".py") else first)
    return [place] if place.exists() else []


class Reached:
    """Which tests reach which lines, and how long they take.  A test that reaches few lines is special."""

    def __init__(self, lines: dict[Path, dict[int, list[str]]], seconds: dict[str, float]) -> None:
        self.lines = {file: {n: [x for x in tests if x] for n, tests in of.items()} for file, of in lines.items()}
        self.imported = {(file, n) for file, of in lines.items() for n, tests in of.items() if "" in tests}
        self.width = Counter(test for of in self.lines.values() for tests in of.values() for test in tests)
        self.seconds = seconds

    @classmethod
    def measured(cls, workers: int) -> Reached:
        """Of the suite as it is, which must be green."""
        newest = max(file.stat().st_mtime for folder in (PACKAGE, TESTS) for file in folder.rglob("*.py"))
        if not DATABASE.exists() or DATABASE.stat().st_mtime < newest:
            command = [sys.executable, "-m", "pytest", "-q", f"-n{workers}", f"--cov={PACKAGE}", "--cov-context=test"]
            settings = {"PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1", "COVERAGE_FILE": f"{DATABASE}.new"}
            command += ["--cov-report=", f"--junitxml={TIMES}"]
            run = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False)
            if run.returncode:
                raise SystemExit("the tests fail without any mutant: mend them first")
            Path(f"{DATABASE}.new").replace(DATABASE)
        from coverage import CoverageData  # not everywhere, and `--by-name` does without

        data = CoverageData(str(DATABASE))
        data.read()
        return cls({Path(file): _tests_by_line(data, file) for file in data.measured_files()}, _seconds(TIMES))

    def tests(self, mutant: Mutant) -> list[str]:
        """Up to MOST: one of every function, best first, then the others.  Then mirrored ones not known to reach it, as
        many.  No folders: pytest would drop what it is given of a folder, and run all of it in its own order.

        What runs at import is a default, a size, a text: pages show such, so their tests are near to it, too."""
        place = [str(x.relative_to(ROOT)) for x in mirror(mutant.file)]
        found, near = {*self.lines.get(mutant.file, {}).get(mutant.line, ())}, tuple(place)
        if not found or (mutant.file, mutant.line) in self.imported:
            found |= self._naming(mutant) | {x for x in self.width if x.startswith(PAGES)}
            near += (PAGES,)

        def worth(test: str) -> tuple[float, str]:
            return self.width[test] * (0.1 + self.seconds.get(test, 0.0)) / (NEAR if test.startswith(near) else 1), test

        rest = sorted((x for x in self.width if x.startswith(tuple(place)) and x not in found), key=worth)
        first = {x.partition("[")[0]: x for x in sorted(found, key=worth, reverse=True)}.values()
        best = dict.fromkeys([*sorted(first, key=worth), *sorted(found, key=worth)])
        return [*best][:MOST] + rest[:MOST]

    def _naming(self, mutant: Mutant) -> set[str]:
        """The tests of the function in whose head it stands, and of lines that name what it defines; or of its file."""
        here, found = self.lines.get(mutant.file, {}), set()
        names, body = defined(mutant)
        words = re.compile(rf"\b({'|'.join(map(re.escape, names)) or '(?!)'})\b")
        for file, lines in self.lines.items():
            for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if words.search(text) or (file == mutant.file and number in body):
                    found.update(lines.get(number, ()))
        return found or set(chain(*here.values()))


def _tests_by_line(data: CoverageData, file: str) -> dict[int, list[str]]:
    """Without the part of the test (`|setup`, `|run`, `|teardown`)."""
    return {line: [x.rpartition("|")[0] for x in found] for line, found in data.contexts_by_lineno(file).items()}


def _seconds(file: Path) -> dict[str, float]:
    """What every test took, by its name."""
    cases = ElementTree.parse(file).iter("testcase")
    return {f"{x.get('classname').replace('.', '/')}.py::{x.get('name')}": float(x.get("time")) for x in cases}


def defined(mutant: Mutant) -> tuple[list[str], range]:
    """The names that the statement around a mutant gives a value; or the function in whose head it stands, and its
    lines."""
    names, body = [], range(0)
    for node in ast.walk(ast.parse(mutant.file.read_bytes())):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names += [x.id for target in targets if target for x in ast.walk(target) if isinstance(x, ast.Name)]
            if isinstance(node, ast.FunctionDef):
                names, body = [*names, node.name], range(node.lineno, (node.end_lineno or 0) + 1)
    return names, body


def by_name(mutant: Mutant) -> list[str]:
    """Files of tests, best first: those that speak of the function around the mutant, those that mirror its module,
    those that speak of the module, and of one that imports it."""
    place, inside, stem = mirror(mutant.file), mutant.inside.rpartition(".")[2], mutant.file.stem
    module = re.compile(rf"from onebasin\.{'.'.join(mutant.file.relative_to(PACKAGE).with_suffix('').parts)} import")
    users = {file.stem for file in PACKAGE.rglob("*.py") if module.search(file.read_text(encoding="utf-8"))}
    worth = [(wording({inside} if inside else {*defined(mutant)[0]}), 20), (wording({stem}), 4), (wording(users), 2)]
    ranked = []
    for file in sorted(TESTS.rglob("test_*.py")):
        text = f"{file.stem} {file.read_text(encoding='utf-8')}"
        score = sum(each * min(len(words.findall(text)), 3) for words, each in worth)
        score += 30 * (file.stem.removeprefix("test_") in {*users, stem})
        if score := score + 10 * any(file == x or x in file.parents for x in place):
            ranked.append((-score, str(file.relative_to(ROOT))))
    classes = re.findall(r'"([A-Z]\w*?)(?:Model|(?:LMHead|For)\w*)?"', mutant.file.read_text(encoding="utf-8"))
    only = ["-k", " or ".join(sorted({*classes}))] if classes and mutant.file.parent.name == "archs" else []
    return [*(name for _, name in sorted(ranked)), *only]  # of an architecture, the tests of its classes


def wording(names: set[str]) -> re.Pattern[str]:
    """What finds these names as words, with underscores around them or not; short ones would be found everywhere."""
    long = "|".join(re.escape(x.strip("_")) for x in names if len(x) > 3 and x != "__init__")
    return re.compile(rf"\b(?:test)?_*({long or '(?!)'})_*\b")


def attempt(source: Path, tests: list[str], budget: float) -> None:
    """Run the tests on this copy of the source, in a process that was forked with the libraries imported."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(LOOP * budget),) * 2)
    os.chdir(ROOT)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.environ["PYTHONPATH"] = str(source)
    sys.path[:0] = [str(source), str(ROOT)]  # the latter as `python -m pytest` has it
    code, plugin = 3, Budget(budget, source / NOTE)  # pytest's own code where something else than a test goes wrong
    with suppress(Exception):
        code = pytest.main([*QUIETLY, *tests], plugins=[plugin])
    sys.exit(0 if plugin.spent and code == pytest.ExitCode.INTERRUPTED else code)


def outcome(source: Path, tests: list[str], budget: float) -> int | None:
    """The exit code of pytest on this copy: 0 if all tests hold, 1 if one fails; None if one never ends."""
    running = FORKS.Process(target=attempt, args=(source, tests, budget))
    running.start()
    running.join(HANG * budget)
    if running.exitcode is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.join()
    return None if running.exitcode < 0 else running.exitcode


def fate(mutant: Mutant, tests: list[str], source: Path, budget: float, failing: set[str]) -> str:
    """Killed, timed out or survived, on a copy of the source that is left as it was.

    A test that fails without the mutant, too, kills nothing: it joins the `failing` ones, and the others are tried."""
    file, original = source / mutant.file.relative_to(PACKAGE.parent), mutant.file.read_bytes()
    file.write_bytes(original[: mutant.start] + mutant.new.encode() + original[mutant.end :])
    asked = [*(f"--deselect={x}" for x in sorted(failing)), *tests]
    try:
        code = outcome(source, asked, budget) if tests else 0
    finally:
        shutil.copy2(mutant.file, file)  # with its time, so that its bytecode is good again
    if code == 0:
        return "survived"
    failed = [noted(source)] if code == 1 else asked
    alone = outcome(source, failed, budget)
    if alone == 0:
        return "timed out" if code is None else "killed"
    if alone == pytest.ExitCode.USAGE_ERROR:
        raise SystemExit(f"some tests are not there any more: remove {DATABASE.name}* and begin again")
    if 1 not in (code, alone):  # these tests do not end, or not even begin, without the mutant either
        return "survived"
    failing.add(failed[0] if code == 1 else noted(source))
    say(f"fails without a mutant, and is left out: {', '.join(sorted(failing))}")
    return fate(mutant, tests, source, budget, failing)


def noted(source: Path) -> str:
    """The test that failed last on this copy."""
    return (source / NOTE).read_text(encoding="utf-8")


def copy_of_source(folder: Path) -> Path:
    """A copy with its bytecode, so that a mutant costs the compiling of one file."""
    copied = Path(shutil.copytree(ROOT / "src", folder, ignore=lambda *_: ["__pycache__"]))
    compileall.compile_dir(copied, quiet=2)
    return copied


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--sample", type=int, default=100, help="how many mutants")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--only", type=Path, nargs="+", default=[PACKAGE], help="files or folders of src/onebasin")
    ask.add_argument("--budget", type=float, default=60, help="seconds of a processor for the tests of one mutant")
    ask.add_argument("--by-name", action="store_true", help="do not run the suite first: choose tests by their words")
    given = ask.parse_args()
    files = [f for x in given.only for f in ([x.resolve()] if x.is_file() else sorted(x.resolve().rglob("*.py")))]
    fates = run(sample(files, given.sample, given.seed), given.workers, given.budget, named=given.by_name)
    score = killed(fates)
    say(f"{score:.0%} of {len(fates)} mutants killed, {list(fates.values()).count('timed out')} of them by time")
    return 0 if score >= ENOUGH else 1


def run(chosen: list[Mutant], workers: int, budget: float, *, named: bool = False) -> dict[Mutant, str]:
    """What became of every mutant; a line each as it is known."""
    tests_of = by_name if named else Reached.measured(workers).tests
    copies, failing = queue.SimpleQueue[Path](), set[str]()
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    FORKS.set_forkserver_preload(IMPORTED)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        for i in range(workers):
            copies.put(copy_of_source(Path(folder, str(i))))
        if outcome(Path(folder, "0"), ["tests/test_families.py"], budget) != 0:
            raise SystemExit("the tests fail on a copy without any mutant: nothing could be told from it")

        def one(mutant: Mutant) -> str:
            source, start = copies.get(), time.monotonic()
            found = fate(mutant, tests_of(mutant), source, budget, failing)
            copies.put(source)
            taken = f"{time.monotonic() - start:4.0f} s"
            say(f"{found:9} {taken}  {mutant.file.relative_to(ROOT)}:{mutant.line}  {mutant.name}")
            return found

        return dict(zip(chosen, pool.map(one, chosen), strict=True))


def killed(fates: dict[Mutant, str]) -> float:
    """The share of them that a test noticed."""
    return 1 - list(fates.values()).count("survived") / max(len(fates), 1)


if __name__ == "__main__":
    sys.exit(main())

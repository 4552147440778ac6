"""Who may import whom, and who may know architectures by name; the rules are checked on trees that break them, too."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onebasin
from helpers.pages import DOCS
from helpers.random_models import random_folder
from onebasin.archs import known

SOURCE = Path(onebasin.__file__).parent

LAYERS = (  # a module imports only from layers above its own, and from packages before its own in its layer
    ("errors", "names", "families", "options", "events", "processes"),
    ("linalg", "maps"),
    ("spec", "archs"),
    ("checkpoint",),
    ("labels", "canonical", "widening", "alignment"),
    ("tasks", "paths"),
    ("ensemble",),
    ("verification", "landscape"),
    ("match", "moving", "learn", "healing", "papers"),
    ("methods",),
    ("report", "recipes"),
    ("api", "demo", "reproduce", "cli"),
)
ORDER = tuple(package for layer in LAYERS for package in layer)
KNOW_NAMES = ("archs", "demo", "reproduce", "cli", "papers")  # the only ones that may speak of architectures
FREE_OF_TORCH = (  # packages and modules: not even inside a function
    "errors", "names", "families", "options", "spec", "archs", "ensemble/compatibility", "ensemble/inspection",
    "ensemble/words", "match/options", "learn/options", "papers/options", "healing/options",
)  # fmt: skip
TORCH_INSIDE = ("methods", "labels")  # help and recipes read them: only inside a function, and for types
ORDINARY = {"clip"}  # model types that are words of all code: only their class names and capitals tell
ROOT = ("__init__", "__main__")  # the public names, imported when first used, and the command line


def name_pattern() -> re.Pattern[str]:
    """Model types as words or parts of snake_case, and the beginnings of their class names."""
    words = {word for model_type in known() for word in (model_type, model_type.upper())} - ORDINARY
    stems = {re.split(r"Model|LMHead|For", name)[0] for names in known().values() for name in names}
    either = [rf"{word}(?![A-Za-z])" for word in words] + [rf"{stem}(?![a-z])" for stem in stems]
    return re.compile(rf"(?<![A-Za-z])(?:{'|'.join(sorted(either))})")


NAMES = name_pattern()


def violations(root: Path) -> list[str]:
    """Every broken rule in the package below `root`, as 'file:line: what'."""
    found = []
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        tree, layer = ast.parse(file.read_text(encoding="utf-8")), parts[0]
        if layer in ROOT:
            continue
        problems = [*wrong_imports(tree, parts), *foreign_names(tree, layer)]
        found += [f"{file.relative_to(root)}:{line}: {what}" for line, what in problems]
    return found


def imports(tree: ast.AST, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line, full dotted name) of everything imported anywhere in a module of the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ["onebasin", *parts[:-1]]
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def wrong_imports(tree: ast.AST, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    package = parts[0]
    if package not in ORDER:
        yield 1, f"{package} is in no layer"
        return
    yield from torch_imports(tree, parts)
    for line, name in imports(tree, parts):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top != "onebasin" or target in (package, "__version__"):
            continue
        if target not in ORDER:
            yield line, f"{package} imports {name}, which is in no layer"
        elif ORDER.index(target) > ORDER.index(package):
            yield line, f"{package} imports {target}, which is below it"


def torch_imports(tree: ast.AST, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Torch where it may not be; in a module that may use it inside functions, what is imported with the module."""
    here = "/".join(parts)
    for name in (*FREE_OF_TORCH, *TORCH_INSIDE):
        if here == name or here.startswith(f"{name}/"):
            allowed = set(inside(tree)) if name in TORCH_INSIDE else set()
            for line, module in imports(tree, parts):
                if module.partition(".")[0] == "torch" and line not in allowed:
                    yield line, f"{name} imports torch"


def inside(tree: ast.AST) -> Iterator[int]:
    """The lines of functions, and those that only a type checker reads."""
    for node in ast.walk(tree):
        checked = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if checked or isinstance(node, ast.FunctionDef):
            yield from (line for part in node.body for line in range(part.lineno, part.end_lineno + 1))


def foreign_names(tree: ast.AST, layer: str) -> Iterator[tuple[int, str]]:
    """Architecture names in identifiers and string constants; docstrings may explain with them."""
    if layer in KNOW_NAMES:
        return
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for text in texts(node) if id(node) not in docstrings else ():
            if NAMES.search(text):
                yield node.lineno, f"{layer} speaks of {NAMES.search(text)[0]}"


def texts(node: ast.AST) -> list[str]:
    match node:
        case ast.Constant(value=str(text)) | ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
            return [text]
        case ast.FunctionDef(name=text) | ast.ClassDef(name=text) | ast.AsyncFunctionDef(name=text):
            return [text]
        case ast.keyword(arg=str(text)):
            return [text]
        case ast.alias(name=text, asname=other):
            return [text, other or ""]
    return []


def test_every_module_keeps_to_its_layer():
    assert violations(SOURCE) == []


def test_the_checker_sees_the_package():
    """It would be silent on an empty folder as well."""
    seen = {file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in SOURCE.rglob("*.py")}
    assert seen == {*ORDER, *ROOT}
    for name in (*FREE_OF_TORCH, *TORCH_INSIDE):
        assert (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()
    count = sum(
        name.startswith("onebasin.")
        for file in SOURCE.rglob("*.py")
        for _, name in imports(ast.parse(file.read_text()), file.relative_to(SOURCE).with_suffix("").parts)
    )
    assert count > 100


def test_the_page_names_the_layers_and_the_modules_that_there_are():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = [row.split("|")[2] for row in text.splitlines() if row.startswith("| ")]
    assert tuple(tuple(re.findall(r"`(\w+)`", row)) for row in rows if "`" in row) == LAYERS
    walk = re.findall(r"`((?:\w+/)?\w+\.py)`", text)
    assert len(walk) > 40
    assert [name for name in walk if not (SOURCE / name).is_file()] == []


CLEAN = {
    "errors.py": "class Error(Exception): ...",
    "spec/__init__.py": '"""What a Llama is."""\nfrom onebasin.errors import Error',
    "spec/model.py": "from onebasin import families\nfrom onebasin.spec import Error\nactivity = vital = 'vitality'",
    "archs/llama.py": "from onebasin.spec import Builder\n\ndef llama(): return 'LlamaForCausalLM'",
    "checkpoint/stock.py": "import torch\nfrom onebasin import __version__",
    "ensemble/aligned.py": "from torch import Tensor",
    "papers/own.py": "from onebasin.learn.options import Options\nfrom onebasin.match.pair import Pair",
    "methods/own.py": "if TYPE_CHECKING:\n    import torch\n\ndef f():\n    from torch import Tensor",
    "cli/app.py": "from onebasin.checkpoint.stock import model\nfrom transformers import LlamaConfig",
    "__init__.py": "from onebasin.cli import main",
    "report/page.py": "from . import parts\nfrom .parts import a\nfrom ..checkpoint import Store\nfrom .. import match",
}
BREAKS = [  # file, code, what must be reported
    ("errors.py", "from onebasin.spec import Leaf", "errors.py:1: errors imports spec, which is below it"),
    ("errors.py", "import onebasin.cli.app", "errors.py:1: errors imports cli, which is below it"),
    ("maps/base.py", "def f():\n    from onebasin.archs import known", "maps/base.py:2: maps imports archs"),
    ("maps/base.py", "from ..checkpoint import Store", "maps/base.py:1: maps imports checkpoint, which is below it"),
    ("maps/base.py", "from .. import match", "maps/base.py:1: maps imports match, which is below it"),
    ("match/core.py", "from onebasin import learn", "match/core.py:1: match imports learn, which is below it"),
    (
        "match/core.py",
        "if TYPE_CHECKING:\n    from onebasin.report import page",
        "match/core.py:2: match imports report",
    ),
    (
        "match/core.py",
        "from onebasin import Alignment",
        "match/core.py:1: match imports onebasin.Alignment, which is in no",
    ),
    ("helpers.py", "x = 1", "helpers.py:1: helpers is in no layer"),
    ("match/core.py", "from onebasin.helpers import x", "match imports onebasin.helpers.x, which is in no layer"),
    ("match/core.py", "if model_type == 'gpt2': ...", "match/core.py:1: match speaks of gpt2"),
    ("match/core.py", "def match_llama(): ...", "match/core.py:1: match speaks of llama"),
    ("match/core.py", "class LlamaMatcher: ...", "match/core.py:1: match speaks of Llama"),
    ("match/core.py", "from transformers import ViTModel", "match/core.py:1: match speaks of ViT"),
    ("match/core.py", "x = f'{kind} of BERT'", "match/core.py:1: match speaks of BERT"),
    ("match/core.py", "x = spec.qwen3_norm", "match/core.py:1: match speaks of qwen3"),
    ("match/core.py", "f(gpt_neox=1)", "match/core.py:1: match speaks of gpt_neox"),
    ("match/core.py", "def f(mistral): ...", "match/core.py:1: match speaks of mistral"),
    ("spec/model.py", "import torch", "spec/model.py:1: spec imports torch"),
    ("archs/own.py", "def f():\n    from torch.nn import Linear", "archs/own.py:2: archs imports torch"),
    ("ensemble/inspection.py", "from torch import Tensor", "inspection.py:1: ensemble/inspection imports torch"),
    ("match/options.py", "def f():\n    import torch", "match/options.py:2: match/options imports torch"),
    ("methods/own.py", "from torch import Tensor", "methods/own.py:1: methods imports torch"),
    ("methods/own.py", "class Own:\n    import torch", "methods/own.py:2: methods imports torch"),
    ("methods/own.py", "if True:\n    import torch", "methods/own.py:2: methods imports torch"),
    ("linalg/gauge.py", "from onebasin import maps", "linalg/gauge.py:1: linalg imports maps, which is below it"),
    ("match/core.py", "from onebasin.papers.own import x", "match/core.py:1: match imports papers, which is below it"),
    ("learn/core.py", "from onebasin.methods import x", "learn/core.py:1: learn imports methods, which is below it"),
]


def write(root: Path, files: dict[str, str]) -> Path:
    for name, code in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(code)
    return root


def test_a_clean_tree_is_clean(tmp_path):
    assert violations(write(tmp_path, CLEAN)) == []


@pytest.mark.parametrize(("file", "code", "report"), BREAKS)
def test_a_broken_rule_is_reported(tmp_path, file, code, report):
    found = violations(write(tmp_path, {**CLEAN, file: code}))
    assert len(found) == 1
    assert report in found[0]


# ---- what is imported when


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has imported after `code`."""
    report = "import json, sys; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(json.loads(ran.stderr.splitlines()[-1]))


HELP = """
import runpy, sys
sys.argv = ["onebasin", "--help"]
try:
    runpy.run_module("onebasin", run_name="__main__")
except SystemExit as done:
    assert not done.code
"""


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import onebasin", {"torch", "transformers", "matplotlib", "typer"}),
        (HELP, {"torch", "transformers", "matplotlib"}),
        (HELP.replace('"--help"', '"align", "--help"'), {"torch", "transformers", "matplotlib"}),
        ("import onebasin.families, onebasin.spec, onebasin.archs", {"torch", "transformers"}),
        ("from onebasin.archs import known; known()", {"torch", "transformers"}),
        ("import onebasin.ensemble.inspection, onebasin.checkpoint", {"torch", "transformers"}),
        ("import onebasin.ensemble.compatibility, onebasin.ensemble.words", {"torch", "transformers"}),
        ("from onebasin.methods.registry import methods, table; methods(), table()", {"torch", "transformers"}),
    ],
)
def test_light_imports_stay_light(code, absent):
    assert modules_after(code) & absent == set()


def test_inspecting_a_pair_needs_no_torch(tmp_path):
    """transformers imports torch for its configuration classes where it can, so torch is made impossible to import."""
    folder = random_folder(tmp_path / "m", "llama", "LlamaForCausalLM", 10)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from onebasin import Checkpoint, describe_pair\n"
        f"c = Checkpoint.open({str(folder)!r}); print(describe_pair(c, c)['alignable'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "True\n")


def test_the_measure_sees_a_heavy_import():
    assert "torch" in modules_after("import onebasin.maps")
    assert "onebasin" in modules_after("from onebasin import OnebasinError")

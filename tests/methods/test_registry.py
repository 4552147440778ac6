"""All methods by name: their sections are read as they were written, and one more file is one more method."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
import torch
import yaml

import onebasin
from helpers.folders import certificate, same
from helpers.random_models import byte_llama
from helpers.recipe_texts import LEAST, TASK
from onebasin.errors import BadRecipe
from onebasin.methods.auto import Auto
from onebasin.methods.learned import Learned
from onebasin.methods.registry import methods, names, read_method, resolve_name, table, write_method
from onebasin.methods.weight import Weight
from onebasin.options import Options, hints_of, known_keys
from onebasin.papers.options import PRESETS, PaperLearning
from onebasin.recipes import parse, plain

CPU, GPU = torch.device("cpu"), torch.device("cuda")

# ---- sections


def others(hint: Any, value: Any) -> Iterator[Any]:
    """Values that an option could have as well."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        yield from (choice for choice in get_args(hint) if choice != value)
    elif get_origin(hint) is tuple:
        yield from (value[:1], value[::-1])
    elif isinstance(value, Options):
        yield from changed(value)
    elif hint is bool:
        yield not value
    elif hint is int or hint is float:
        yield value + hint(1) if hint is int else value / 3 + 0.01
    else:  # of something or nothing
        yield from (x for kind in get_args(hint) for x in others(kind, value))
        yield from [None] if value is not None else []


def changed(options: Options) -> Iterator[Options]:
    """The options with one of them changed, wherever that makes sense."""
    for name in known_keys(type(options)):
        for value in others(hints_of(type(options))[name], getattr(options, name)):
            try:
                yield replace(options, **{name: value})
            except BadRecipe:  # `auto` finds where learning begins; an order that is frozen is not learned
                if not isinstance(options, Auto) and name != "paper":
                    raise


@pytest.mark.parametrize("name", methods())
def test_a_section_is_read_as_it_was_written(name):
    """Every option in turn, on whatever device it is read: all defaults are written out."""
    default = read_method(name, {}, CPU)
    variants = [default, methods()[name](), *changed(default)]
    assert len(variants) > len(known_keys(methods()[name]))
    for method in variants:
        sections = yaml.load(yaml.dump(write_method(method), Dumper=yaml.CSafeDumper), Loader=yaml.CSafeLoader)
        assert name in sections
        for device in (CPU, GPU):
            left = {**sections, "other": 1}
            assert read_method(name, left, device) == method
            assert left == {"other": 1}  # what it used, and nothing else


def test_what_learning_begins_with_has_its_own_section():
    method = Learned(start=Weight(sweeps=3, units="permutation"))
    sections = write_method(method)
    assert (set(sections), sections["learned"]["start"]) == ({"learned", "weight"}, "weight")
    assert sections["weight"]["sweeps"] == 3
    assert write_method(Learned(start=None))["learned"]["start"] == "identity"
    assert set(write_method(Auto())) == set(methods())


@pytest.mark.parametrize("name", PRESETS)
def test_options_beside_a_preset_replace_only_themselves(name):
    preset = read_method("weight", {"weight": {"preset": name}}, CPU)
    assert preset != Weight()
    beside = {"weight": {"preset": name, "sweeps": 4, "paper": {"head_metric": "cosine"}}}
    paper = replace(preset.paper, head_metric="cosine")
    assert read_method("weight", beside, CPU) == replace(preset, sweeps=4, paper=paper)


def test_options_beside_a_short_name_replace_only_themselves():
    sections = {"learned": {"steps": 3, "paper": {"noise": 0.5}}}
    soft = read_method(resolve_name("soft", sections), sections, CPU)
    assert (soft.steps, soft.paper) == (3, PaperLearning(permutations="soft", noise=0.5))
    assert {"heads", "units"} < set(soft.learn)
    assert not soft.exact
    sections = {}
    assert read_method(resolve_name("dual", sections), sections, CPU) == Learned(two_sided=True)
    assert (resolve_name("learned", {}), resolve_name("auto", {})) == ("learned", "auto")


@pytest.mark.parametrize("name", ["nonsense", "", 3, ["weight"], {"weight": 1}, True])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(BadRecipe, match="method has no such choice"):
        resolve_name(name, {})


# ---- everyone knows every method


@pytest.mark.parametrize("name", names())
def test_help_table_and_recipes_know_every_method(cli, tmp_path, name):
    kind = methods()[resolve_name(name, {})]
    for verb in ("align", "merge"):
        code, out, _ = cli(verb, "--help")
        assert code == 0
        (line,) = [line for line in out.splitlines() if line.startswith(f"    {name} ")]
        assert line.split(None, 1)[1] == names()[name].partition(";")[0]
    assert f"| `{name}` |" in table()
    assert names()[name] in table()
    document = {**LEAST["align"], "method": name, **({} if kind.needs == "nothing" else {"task": TASK})}
    recipe = parse(document)
    assert type(recipe.method) is kind
    written = plain(recipe, tmp_path)
    assert written["method"] == kind.name
    assert {name for name, section in write_method(recipe.method).items() if section} <= set(written)
    assert parse(written, base=tmp_path).method == recipe.method


def test_a_method_is_a_file():
    files = {file.stem for file in Path(onebasin.__file__).with_name("methods").glob("*.py")}
    assert files - {"__init__", "method", "registry"} == set(methods())
    assert next(iter(methods())) == "auto"  # what is taken where none is named
    assert all(kind.summary and kind.__doc__ for kind in methods().values())


# ---- one more method, as docs/architecture.md tells

GUIDE = Path(__file__).parents[2] / "docs" / "architecture.md"


def guide() -> str:
    """The code that the guide shows."""
    _, heading, section = GUIDE.read_text(encoding="utf-8").partition("\n## Add a method\n")
    assert heading
    return section.partition("```python\n")[2].partition("```")[0]


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Path:
    """A copy of the package with one more file."""
    root = tmp_path_factory.mktemp("source")
    shutil.copytree(Path(onebasin.__file__).parent, root / "onebasin", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "onebasin" / "methods" / "example.py").write_text(guide(), encoding="utf-8")
    return root


SEVERAL = """
import contextlib, io, json, sys
from onebasin.cli import main
from onebasin.methods.registry import table

found = {"table": [0, table(), ""]}
for name, command in json.load(sys.stdin).items():
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(command)
    except SystemExit as end:
        found[name] = [end.code or 0, out.getvalue(), err.getvalue()]
print(json.dumps(found))
"""


def run(root: Path, **commands: list[object]) -> dict[str, tuple[int, str, str]]:
    """(exit code, stdout, stderr) of commands in one other process, with the package in `root` before ours."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL], input=json.dumps(commands, default=str), capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "500"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_one_file_is_one_more_method(extended, tmp_path):
    models = byte_llama(tmp_path / "a"), byte_llama(tmp_path / "b", 1)
    align, out = ["align", *models, "--method", "example", "--quiet"], tmp_path / "out"
    found = run(
        extended,
        help=["align", "--help"],
        align=[*align, "--set", "example.strength=0.5", "-o", out],
        again=["run", out / "recipe.yaml", "-o", tmp_path / "again"],
        wrong=[*align, "--set", "example.strength=1.5", "-o", tmp_path / "wrong"],
    )
    assert {name: code for name, (code, *_) in found.items()} == {
        "table": 0,
        "help": 0,
        "align": 0,
        "again": 0,
        "wrong": 2,
    }
    assert "    example     leaves the models as they are\n" in found["help"][1]
    assert "| `example` | nothing | leaves the models as they are |" in found["table"][1]
    assert "| `example` |" not in table()  # the package as it is
    assert found["align"][2] == ""
    recipe = yaml.safe_load((tmp_path / "out" / "recipe.yaml").read_text())
    assert (recipe["method"], recipe["example"]) == ("example", {"strength": 0.5})
    assert certificate(tmp_path / "out")["method"] == "example"
    assert certificate(tmp_path / "out")["output_drift"]["float64"] < 1e-9
    assert certificate(tmp_path / "out")["distance_after"] == certificate(tmp_path / "out")["distance_before"]
    assert same(tmp_path / "out", tmp_path / "again")
    assert "example.strength is out of range" in found["wrong"][2]


def test_without_the_file_there_is_no_such_method(cli):
    code, _, err = cli("align", "a", "b", "--method", "example", "-o", "out")
    assert code == 2
    assert "method has no such choice" in err

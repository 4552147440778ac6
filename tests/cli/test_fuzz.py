"""Whatever lies in a file or is typed as a name: an answer or a refusal with a next step, never a bug.

Every run draws the same examples; `--hypothesis-profile=default --hypothesis-seed=N` draws others.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.task_files import bert
from onebasin.cli import main
from onebasin.methods.registry import methods
from onebasin.options import all_keys
from onebasin.recipes import Align, Barrier, Merge

some = partial(examples, suppress_health_check=list(HealthCheck), deadline=None)

NUMBERS = (10**400, 1e300, math.nan, math.inf, 2**64, 2**40, 2000, 0, -1, 1, 0.5, -1.0)
TEXTS = ("x" * 5000, "a\0b", "\ud800", "²", "--5", "0.5", "9" * 30, "9" * 5000, "", "[/INST]", "$x^{$", "a: b",
         "~nobody", "-5GB", "\x1b[2J")  # fmt: skip
nested = st.sampled_from([60, 200, 900]).map(lambda depth: json.loads("[" * depth + "]" * depth))
plain = st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | nested
values = plain | plain | st.none() | st.booleans() | st.text(max_size=8) | st.dictionaries(st.just("a"), plain)
names = (st.sampled_from(TEXTS) | st.text(max_size=300)).map(lambda name: f"./n{name.replace('/', '')}")


@pytest.fixture(scope="module")
def place(pristine, tmp_path_factory) -> Path:
    """Models to be changed, one of each kind, and the place to do it."""
    root = tmp_path_factory.mktemp("fuzz")
    for name in ("a", "b", "gpt2", "vit"):
        shutil.copytree(pristine / name, root / name)
    bert(root / "bert")
    return root


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)


def ends_well(*words: object) -> int:
    """Run a command: its exit code, which is no bug, and of a refusal the next step."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    code, said = int(caught.value.code or 0), err.getvalue()
    assert code in (0, 1, 2), said
    assert code < 2 or said.rstrip().splitlines()[-1].startswith("  next step: "), said
    return code


@contextlib.contextmanager
def changed(file: Path, content: str | bytes):
    before = file.read_bytes()
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        yield
    finally:
        file.write_bytes(before)


@some(30)
@given(st.sampled_from(["a", "gpt2", "vit", "bert"]), st.data())
def test_configurations(model, data):
    file = Path(model) / "config.json"
    config = json.loads(file.read_text())
    key = data.draw(st.sampled_from(sorted({*config, "num_labels", "return_dict", "output_attentions"})))
    with changed(file, json.dumps({**config, key: data.draw(values)})):
        if ends_well("inspect", model) == 0:
            ends_well("verify", model, "--quiet")


@some(30)
@given(st.sampled_from(["config.json", "model.safetensors.index.json"]), st.text(max_size=60) | values.map(json.dumps))
def test_files_that_are_no_configuration(name, text):
    file = Path("b") / name
    present = file.exists()
    if not present:
        file.write_text("{}")
        (Path("b") / "model.safetensors").rename("b/model-1.safetensors")
    with changed(file, text):
        ends_well("inspect", "b")
    if not present:
        file.unlink()
        Path("b/model-1.safetensors").rename("b/model.safetensors")


@some(30)
@given(st.data())
def test_headers(data):
    file = Path("a/model.safetensors")
    whole = file.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header: dict[str, Any] = json.loads(whole[8 : 8 + length])
    tensor = data.draw(st.sampled_from(sorted(header)))
    entry = data.draw(
        st.fixed_dictionaries({
            "dtype": st.sampled_from(["F32", "F16", "I32", "U8", "BOOL", "F8_E4M3", "odd"]) | plain,
            "shape": st.lists(st.integers(-1, 40), max_size=4) | values,
            "data_offsets": st.just(header[tensor].get("data_offsets")) | st.lists(st.integers(-1, 5000), max_size=3),
        })
        | values
    )  # fmt: skip
    name = data.draw(st.just(tensor) | st.text(max_size=20))
    written = json.dumps({**{key: x for key, x in header.items() if key != tensor}, name: entry}).encode()
    size = data.draw(st.just(len(written)) | st.integers(0, 2**64 - 1))
    with changed(file, struct.pack("<Q", size) + written + whole[8 + length :]):
        ends_well("inspect", "a")


def keys() -> list[str]:
    """Every key of a recipe, those of the methods included."""
    own = [*all_keys(Merge), *all_keys(Align), *all_keys(Barrier), "onebasin", "verb", "models.0.path"]
    return sorted({*own, *(f"{name}.{key}" for name, kind in methods().items() for key in all_keys(kind))})


RECIPE = {"onebasin": 2, "verb": "merge", "models": ["a", "b"], "write": {"out": "OUT"}}


@some(30)
@given(st.sampled_from(keys()), values, st.sampled_from(["weight", "learned", None]))
def test_recipes(key, value, method):
    """A recipe in which one value is another."""
    document: dict[str, Any] = {**RECIPE, **({"method": method} if method else {})}
    *sections, last = key.replace("models.0.path", "models").split(".")
    inside = document
    for section in sections:
        inside = inside.setdefault(section, {})
        inside = inside if isinstance(inside, dict) else {}
    inside[last] = value
    Path("recipe.yaml").write_text(json.dumps(document))  # which is YAML, too
    ends_well("run", "recipe.yaml", "--dry-run", "--quiet")
    ends_well("align", "a", "b", "-o", "OUT", "--method", "weight", "--set", f"{key}={value}", "--dry-run", "--quiet")


@some(30)
@given(st.text(max_size=60) | values.map(lambda x: f"models: {x}"))
def test_texts_that_are_no_recipe(text):
    Path("recipe.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert ends_well("run", "recipe.yaml", "--dry-run") == 2


rows = st.tuples(st.sampled_from(["good film", '"', "", "label"]), st.sampled_from(TEXTS) | st.text(max_size=8))


@some(30)
@given(st.lists(rows | st.just(("bad", "1")), max_size=2), st.booleans())
def test_tables(table, header):
    lines = [",".join(row if header else row[::-1]) for row in ([("text", "label")] if header else []) + table]
    Path("table.csv").write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    ends_well("barrier", "bert", "bert", "--task", "labelled:table.csv", "--dry-run", "--quiet")


@some(30)
@given(
    st.lists(st.fixed_dictionaries({"text": st.just("good film") | values, "label": values}), min_size=1, max_size=2)
)
def test_json_lines(entries):
    Path("lines.jsonl").write_text("\n".join(map(json.dumps, entries)))
    ends_well("barrier", "bert", "bert", "--task", "labelled:lines.jsonl", "--dry-run", "--quiet")


@some(12)
@given(names)
def test_names(name):
    assert ends_well("inspect", name) == 2
    assert ends_well("run", name) == 2
    assert ends_well("barrier", "a", "b", "--task", f"text:{name}", "--dry-run") == 2
    ends_well("align", "a", "b", "-o", name, "--method", "weight", "--dry-run", "--quiet")

"""The guide to a new architecture works as written, and wrong tables are noticed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers

from helpers.pages import ROOT, blocks
from helpers.random_models import config_of, random_model, rope
from onebasin.archs import known, registry
from onebasin.archs.rotary import rope_parameters

GLM = ("GlmModel", "GlmForCausalLM", "GlmForSequenceClassification", "GlmForTokenClassification")


TABLE, CONFIGURATION, SEEDS = blocks(ROOT / "CONTRIBUTING.md", "python")


def insert(page: Path, mark: str, text: str, *, after: bool) -> None:
    """Put the lines of the guide where it says: before or after the only line with `mark`."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    (place,) = [i for i, line in enumerate(lines) if mark in line]
    lines.insert(place + after, text)
    page.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which somebody has followed the guide."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("src", "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "CITATION.cff"):
        shutil.copy(ROOT / name, tree)
    (tree / "src" / "onebasin" / "archs" / "glm.py").write_text(TABLE, encoding="utf-8")
    tests = tree / "tests"
    insert(tests / "helpers" / "random_models.py", "give {model_type} a random", CONFIGURATION, after=False)
    insert(tests / "archs" / "test_outside.py", "SEEDS = {", SEEDS, after=True)
    return tree


# What somebody does after the guide, in one process: `onebasin verify`, the tests of the new classes, `make pages`.
AFTERWARDS = """
import contextlib, io, json, os, sys
import pytest
from onebasin.cli import main

def told(call, *arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = call(*arguments)
        except SystemExit as end:
            code = end.code
    return [int(code or 0), out.getvalue()]

verify, tests, pages = json.load(sys.stdin)
found = [told(main, verify), told(pytest.main, tests)]
os.environ["ONEBASIN_WRITE"] = "1"
for name in [name for name in sys.modules if name.startswith("helpers")]:
    del sys.modules[name]
print(json.dumps([*found, told(pytest.main, pages)]))
"""


@pytest.fixture(scope="module")
def afterwards(tree: Path) -> dict[str, tuple[int, str]]:
    """(exit code, stdout) of each."""
    random_model("GlmForCausalLM", glm_config(5), 5).save_pretrained(tree / "FOLDER")
    (command,) = re.findall(
        r"^pages:.*\n\tONEBASIN_WRITE=1 \$\(PY\) -m pytest (.*)$", (tree / "Makefile").read_text(), re.MULTILINE
    )
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
    tests = ["-q", "tests/archs/test_exact.py", "tests/archs/test_outside.py", "-k", "Glm", *plain]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    paths = os.pathsep.join(str(tree / folder) for folder in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS], cwd=tree, env={**clean, "PYTHONPATH": paths}, text=True, check=False,
        capture_output=True, input=json.dumps([["verify", "FOLDER"], tests, [*command.split(), *plain]]),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(("verify", "tests", "pages"), json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_the_guide_works_as_written(afterwards):
    code, said = afterwards["verify"]
    assert "promise holds" in said
    assert code == 0


def test_the_tests_take_up_the_guides_architecture(afterwards):
    code, said = afterwards["tests"]
    assert code == 0, said
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) >= 11  # two properties of each of four classes, and three of one of them


def test_the_pages_take_up_the_guides_architecture(afterwards, tree):
    """`make pages`, as the guide says: every list of models has the new one, and the tests of these lists pass."""
    for page in ("README.md", "docs/symmetries.md", "docs/wrong-commands.md"):
        before, after = ((root / page).read_text(encoding="utf-8") for root in (ROOT, tree))
        assert not re.search(r"\bglm\b", before)
        assert re.search(r"\bglm\b", after)
    code, said = afterwards["pages"]
    assert code == 0, said


@pytest.fixture
def learned() -> Iterator[None]:
    """A registry that forgets what a test has registered."""
    before = known()
    yield
    for model_type in known().keys() - before.keys():
        del registry._known[model_type]


def learn(table: str) -> None:
    """Register a table as importing its file would."""
    exec(compile(table, "onebasin/archs/glm.py", "exec"), {"__name__": "onebasin.archs.glm"})


def glm_config(seed: int, part: float | None = None) -> transformers.GlmConfig:
    like = config_of("gpt_neox", seed)
    kv = 2 if like.num_attention_heads % 2 == 0 else 1
    part = part or rope_parameters(like)["partial_rotary_factor"]
    return transformers.GlmConfig(
        vocab_size=13, hidden_size=like.hidden_size, intermediate_size=like.intermediate_size, num_hidden_layers=2,
        num_attention_heads=like.num_attention_heads, num_key_value_heads=kv, hidden_act="gelu_new", num_labels=3,
        head_dim=like.hidden_size // like.num_attention_heads, attention_bias=seed != 2, eos_token_id=1,
        max_position_embeddings=12, rms_norm_eps=1e-4, pad_token_id=0, **rope(100.0, part),
        tie_word_embeddings=like.tie_word_embeddings,
    )  # fmt: skip


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", GLM)
def test_the_guides_table_is_exact(tmp_path, name, seed, cli):
    learn(TABLE)
    random_model(name, glm_config(seed), seed).save_pretrained(tmp_path / "P")
    code, out, _ = cli("verify", tmp_path / "P", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["drift"]["float64"] < 1e-9 * max(1, result["scale"])
    assert max(result["displacement"].values()) > 0.5


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("k=qk.co", "k=qk", 1),  # keys move like queries
        ("k=ov.co", "k=ov", 1),  # outputs move like values
        (", rope()", "", 1),  # any invertible map inside a rotary head
        (".in_turns", "", 1),  # pairs (j, j + half) where the model turns neighbours
        ("t=1, norm=ln, ", "t=1, ", 1),  # the up branch misses the folded gain
        ("f=f.perm", "f=f", 1),  # the gate is scaled with the up branch
        ("d=d.co, f=f)", "d=d, f=f)", 2),  # a reader that is no covector
        ("(n g k) -> d", "(g n k) -> d", 1),  # groups and queries exchanged
        (".at(rotated)", "", 2),  # both parts claim the front of the head
    ],
)
def test_a_wrong_table_is_noticed(tmp_path, right, wrong, code, cli):
    assert TABLE.count(right) == 1
    learn(TABLE.replace(right, wrong))
    assert cli("verify", wide_glm(tmp_path))[0] == code


@pytest.mark.usefixtures("learned")
def test_the_right_table_holds_where_wrong_ones_are_noticed(tmp_path, cli):
    learn(TABLE)
    assert cli("verify", wide_glm(tmp_path))[0] == 0


def wide_glm(folder: Path) -> Path:
    """A model in which every two axes that could be taken for each other differ."""
    config = glm_config(1, 0.5)
    config.num_attention_heads, config.num_key_value_heads, config.hidden_size, config.head_dim = 6, 2, 48, 8
    config.tie_word_embeddings = True
    random_model("GlmForCausalLM", config, 1).save_pretrained(folder)
    return folder


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize(
    ("right", "wrong", "axis"),
    [
        ("d=d.co, f=f)", "d=d.co)", "f"),
        ("n=n.co, g=g.co", "g=g.co", "n"),
        ('"v d", d=d', '"v e", d=d', "e"),
    ],
)
def test_a_forgotten_axis_is_named(tmp_path, right, wrong, axis, cli):
    assert TABLE.count(right) == 1
    learn(TABLE.replace(right, wrong))
    random_model("GlmForCausalLM", glm_config(1), 1).save_pretrained(tmp_path)
    code, _, err = cli("verify", tmp_path)
    assert code == 2
    for piece in ("does not say where an axis of a tensor lives", f"axis: {axis}\n", "tensor: model.", "next step:"):
        assert piece in err


def test_glm_is_only_the_example():
    assert "glm" not in known()

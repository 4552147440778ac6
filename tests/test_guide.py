"""The documentation is true: the guide works as written, the README's Python runs, the tables are the code's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import typer
import yaml
from random_models import byte_llama, config_of, random_model, rope
from safetensors.torch import load_file

from onebasin import Checkpoint, describe
from onebasin.archs import known, registry
from onebasin.archs.rotary import rope_parameters
from onebasin.cli import main
from onebasin.cli.app import app
from onebasin.match import PRESETS, WeightMatching
from onebasin.match.options import CHOICES, GROUPS
from onebasin.spec import ops
from onebasin.stock import outputs, probe_inputs, stock_model

ROOT = Path(__file__).resolve().parents[1]
README, GUIDE, SYMMETRIES = ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "symmetries.md"
MATCHING, ATTENTION = ROOT / "docs" / "matching.md", ROOT / "docs" / "attention.md"
API = ROOT / "docs" / "api.md"
PAGES = [README, GUIDE, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

PHI = ("PhiModel", "PhiForCausalLM", "PhiForSequenceClassification", "PhiForTokenClassification")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def rows(text: str, columns: str) -> list[list[str]]:
    """The cells of the markdown table whose header is `columns`."""
    _, _, table = text.partition(f"| {columns} |\n")
    lines = table.splitlines()[1:]  # less the rule below the header
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


def run(*arguments: str) -> object:
    """The exit code of the command line."""
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    return leaving.value.code


# The guide: three blocks, the file, the random configuration, the seeds.

TABLE, CONFIGURATION, SEEDS = blocks(GUIDE, "python")


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
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "src" / "onebasin" / "archs" / "phi.py").write_text(TABLE, encoding="utf-8")
    insert(tree / "tests" / "random_models.py", "give {model_type} a random configuration", CONFIGURATION, after=False)
    insert(tree / "tests" / "test_outside.py", "SEEDS = {", SEEDS, after=True)
    return tree


def in_tree(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    paths = os.pathsep.join(str(tree / folder) for folder in ("src", "tests"))
    return subprocess.run([sys.executable, *arguments], cwd=tree, env={**clean, "PYTHONPATH": paths},
                          capture_output=True, text=True, check=False)  # fmt: skip


def test_the_guide_works_as_written(tree):
    random_model("PhiForCausalLM", phi_config(5), 5).save_pretrained(tree / "FOLDER")
    done = in_tree(tree, "-m", "onebasin", "verify", "FOLDER")
    assert "promise holds" in done.stdout, done.stderr
    assert done.returncode == 0


def test_the_tests_take_up_the_guides_architecture(tree):
    chosen = [f"{seed}-{name}" for seed in (4, 5) for name in PHI] + [f"{name}-" for name in PHI]
    done = in_tree(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                   "tests/test_exact.py", "tests/test_outside.py", "-k", " or ".join(chosen))  # fmt: skip
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 40  # five properties of four classes with two seeds, and nothing outside


@pytest.fixture
def learned() -> Iterator[None]:
    """A registry that forgets what a test has registered."""
    before = known()
    yield
    for model_type in known().keys() - before.keys():
        del registry._known[model_type]


def learn(table: str) -> None:
    """Register a table as importing its file would."""
    exec(compile(table, "onebasin/archs/phi.py", "exec"), {"__name__": "onebasin.archs.phi"})


def phi_config(seed: int, part: float | None = None) -> transformers.PhiConfig:
    like = config_of("gpt_neox", seed)
    kv = 2 if like.num_attention_heads % 2 == 0 else 1
    part = part or rope_parameters(like)["partial_rotary_factor"]
    return transformers.PhiConfig(
        vocab_size=13, hidden_size=like.hidden_size, intermediate_size=like.intermediate_size, num_hidden_layers=2,
        num_attention_heads=like.num_attention_heads, num_key_value_heads=kv, hidden_act="gelu_new", num_labels=3,
        max_position_embeddings=12, layer_norm_eps=1e-4, pad_token_id=0, **rope(100.0, part),
        tie_word_embeddings=like.tie_word_embeddings,
    )  # fmt: skip


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PHI)
def test_the_guides_table_is_exact(tmp_path, name, seed, capsys):
    learn(TABLE)
    random_model(name, phi_config(seed), seed).save_pretrained(tmp_path / "P")
    capsys.readouterr()
    assert run("verify", str(tmp_path / "P"), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["drift"]["float64"] < 1e-9 * max(1, result["scale"])
    assert max(result["displacement"].values()) > 0.5


@pytest.mark.usefixtures("learned")
@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("k=qk.co", "k=qk", 1),  # keys move like queries
        ("k=ov.co", "k=ov", 1),  # outputs move like values
        (", rope()", "", 1),  # any invertible map inside a rotary head
        ("norm=ln, d=d.co, f=f", "d=d.co, f=f", 1),  # the FFN misses the folded gain
        ("norm=ln, d=d.co, f=f", "norm=ln, d=d, f=f", 2),  # a reader that is no covector
        ("(n g k) -> d", "(g n k) -> d", 1),  # groups and queries exchanged
        (".at(rotated)", "", 2),  # both parts claim the front of the head
    ],
)
def test_a_wrong_table_is_noticed(tmp_path, right, wrong, code):
    assert TABLE.count(right) == 1
    config = phi_config(1, 0.5)
    config.num_attention_heads, config.num_key_value_heads, config.hidden_size = 6, 2, 48
    config.tie_word_embeddings = True
    random_model("PhiForCausalLM", config, 1).save_pretrained(tmp_path)
    learn(TABLE)
    assert run("verify", str(tmp_path)) == 0
    learn(TABLE.replace(right, wrong))
    assert run("verify", str(tmp_path)) == code


@pytest.mark.usefixtures("learned")
def test_the_guides_table_refuses_what_it_does_not_cover(tmp_path, capsys):
    learn(TABLE)
    config = phi_config(0)
    config.qk_layernorm = True
    random_model("PhiForCausalLM", config, 0).save_pretrained(tmp_path)
    assert run("verify", str(tmp_path)) == 2
    assert "qk_layernorm" in capsys.readouterr().err


def test_phi_is_only_the_example():
    assert "phi" not in known()


# README: its Python, its commands, its tables.


def test_the_python_of_the_layer_below_moves_a_model_and_brings_it_back(tmp_path, monkeypatch):
    config = transformers.LlamaConfig(
        vocab_size=17, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, max_position_embeddings=16,
    )  # fmt: skip
    random_model("LlamaForCausalLM", config, 0).save_pretrained(tmp_path / "A")
    monkeypatch.chdir(tmp_path)
    *_, snippet = blocks(API, "python")
    exec(compile(snippet, "api.md", "exec"), {"__name__": "api"})
    a, moved, back = (Checkpoint.open(folder) for folder in ("A", "moved", "back"))
    inputs = probe_inputs(a.spec)
    logits = [outputs(stock_model(x), x.spec, inputs)["logits"] for x in (a, moved, back)]
    assert max(float((x - logits[0]).abs().max()) for x in logits) < 1e-4  # saved in float32
    q = "model.layers.0.self_attn.q_proj.weight"
    assert float((a[q] - moved[q]).abs().max()) > 0.1
    assert float((a[q] - back[q]).abs().max()) < 1e-5
    model, report = transformers.LlamaForCausalLM.from_pretrained("moved", output_loading_info=True)
    assert type(model) is transformers.LlamaForCausalLM
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]


def test_the_recipe_of_the_readme_runs(tmp_path):
    a, b = byte_llama(tmp_path / "A"), byte_llama(tmp_path / "B", 1)
    (text,) = blocks(README, "yaml")
    (tmp_path / "recipe.yaml").write_text(text)
    assert run("run", str(tmp_path / "recipe.yaml")) == 0
    assert run("align", str(a), str(b), "-o", str(tmp_path / "aligned"), "--set", "matching.sweeps=5",
               "--dtype", "float64") == 0  # fmt: skip
    first, aligned, merged = (Checkpoint.open(folder) for folder in (a, tmp_path / "aligned", tmp_path / "MERGED"))
    q = "model.layers.0.self_attn.q_proj.weight"
    assert float((0.6 * first[q] + 0.4 * aligned[q] - merged[q]).abs().max()) < 1e-2  # bfloat16
    assert float((aligned[q] - merged[q]).abs().max()) > 0.1
    assert load_file(tmp_path / "MERGED" / "model.safetensors")[q].dtype == torch.bfloat16
    written = yaml.safe_load((tmp_path / "MERGED" / "recipe.yaml").read_text())
    assert written["models"] == ["../A", "../B"]
    assert written["matching"]["sweeps"] == 5


def code(page: Path) -> list[str]:
    """What a page sets as code, except Python: the lines of its blocks and its inline spans."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return "".join(blocks(page, "(?:sh)?")).splitlines() + re.findall(r"`([^`\n]+)`", prose)


@pytest.mark.parametrize("page", [x for x in PAGES if x.stem != "wrong-commands"], ids=lambda page: page.name)
def test_every_command_shown_exists(page):
    verbs = typer.main.get_command(app).commands
    general = {flag for option in typer.main.get_command(app).params for flag in option.opts} | {"--help"}
    for line in code(page):
        if match := re.match(r"(?:\$ )?onebasin ((?:--[\w-]+ )*)(\S+)(.*)", line):
            before, verb, rest = match.groups()
            assert set(before.split()) <= general, line
            if verb.startswith("--"):
                assert verb in general, line
                continue
            assert verb in verbs, line
            options = {flag for option in verbs[verb].params for flag in option.opts}
            assert set(re.findall(r"--[\w-]+", rest)) <= options, line
        if match := re.match(r"make (\w+)", line):
            assert f"\n{match[1]}:" in (ROOT / "Makefile").read_text(), line
    if page == README:
        shown = {match[1] for line in code(page) if (match := re.match(r"(?:\$ )?onebasin (\w+)", line))}
        assert {"inspect", "verify"} <= shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_readme_lists_the_known_models():
    table = rows(README.read_text(), "model type | model classes")
    listed = {model_type.strip("`"): sorted(re.findall(r"`(\w+)`", names)) for model_type, names in table}
    assert listed == {model_type: sorted(names) for model_type, names in known().items()}


def test_the_readme_quotes_what_other_tools_made_of_our_folders():
    results = json.loads((ROOT / "benchmarks" / "interop.json").read_text())["results"]
    text = " ".join(README.read_text().split())
    merges = results["linear merge"]
    for row in merges.values():
        theirs, ours = row["loss, mergekit's average of A and aligned B"], row["loss, onebasin merge"]
        assert abs(theirs - ours) < 1e-6  # float32 rounding
        assert row["loss, mergekit's average of A and B"] > ours + 0.1
        assert row["windows"] == 1000
    for key in ("loss, onebasin merge", "loss, mergekit's average of A and B"):
        assert " and ".join(f"{row[key]:.4f}" for row in merges.values()) in text
    for row in results["transformers"].values():
        for folder in (row["aligned"], row["merged"]):
            assert (folder["class"], folder["missing"], folder["unexpected"]) == (row["B"]["class"], [], [])
            assert folder["loaded in"] == "float32"
        says = "accuracy" if "accuracy" in row["B"] else "continues"
        assert row["aligned"][says] == row["B"][says]  # the same function


def test_the_estimate_of_memory_is_near_what_was_measured():
    results = json.loads((ROOT / "benchmarks" / "memory.json").read_text())["results"]
    rows = [row for row in results.values() if isinstance(row, dict)]
    assert len(rows) == 4
    for row in rows:
        assert 0.75 < row["peak over foretold"] < 1.25
        assert row["largest tensor in matching attention, D·D"] <= 2 < results["heads"]


def test_the_readme_quotes_what_was_measured():
    verified = json.loads((ROOT / "benchmarks" / "core.json").read_text())["results"]["verify"]
    assert all(result["holds"] for result in verified.values())
    expected = []
    for pair in sorted({name.rpartition("-")[0] for name in verified}):
        both = [verified[f"{pair}-{i}"] for i in (0, 1)]
        worst = {
            (kind, dtype): f"{max(model[kind][dtype] for model in both):.1e}"
            for kind in ("drift", "rounding alone")
            for dtype in ("float64", "float32", "bfloat16")
        }
        rounded = [f"{worst['drift', d]} ({worst['rounding alone', d]})" for d in ("float32", "bfloat16")]
        expected.append([f"`{pair}`", worst["drift", "float64"], *rounded])
    assert rows(README.read_text(), "pair | float64 | float32 | bfloat16, as stored") == expected


def barriers(row: dict[str, Any]) -> str:
    return f"{row['factor']['barrier']['loss']:.2f} ({row['circuit']['barrier']['loss']:.2f})"


def test_the_readme_quotes_the_barriers_that_were_measured():
    results = json.loads((ROOT / "benchmarks" / "matching.json").read_text())["results"]
    pairs = {name: found for name, found in results.items() if isinstance(found, dict)}
    methods = ("none", "weight", "weight, permutations only", "auto", "activation", "auto, unlabelled inputs")
    expected = []
    for pair, found in pairs.items():
        ends = [end["loss"] for end in found["methods"]["none"]["factor"]["ends"].values()]
        cells = [barriers(found["methods"][method]) for method in methods]
        expected.append([f"`{pair}`", f"{ends[0]:.3f} / {ends[1]:.3f}", *cells])
    header = "pair | end points | as stored | `weight` | permutations only | `auto` | `activation` | `auto` with inputs"
    assert rows(README.read_text(), header) == expected
    copies = [copy for found in pairs.values() for copy in found["scrambled"].values()]
    assert len(copies) == 10
    assert max(abs(copy["excess, after weight matching"]) for copy in copies) < 1e-7


def test_the_page_on_learning_quotes_what_was_measured_without_data():
    results = json.loads((ROOT / "benchmarks" / "data_free.json").read_text())["results"]
    expected = []
    for pair, found in results.items():
        if not isinstance(found, dict):
            continue
        auto = [found["methods"][f"auto, seed {seed}"] for seed in results["seeds"]]
        spread = [f"{x['mean']:.2f} ± {x['deviation']:.2f}" for x in found["auto, all seeds"].values()]
        weight, curves = found["methods"]["weight"], found["learned with labels from"]
        reached = curves["weight"][-1]["midpoint loss"]
        steps = next(point["step"] for point in curves["auto"] if point["midpoint loss"] <= reached)
        seconds = sum(row["seconds"] for row in auto) / len(auto)
        cells = [f"{weight['factor']['barrier']['loss']:.2f}", *spread, f"{weight['seconds']:.0f}", f"{seconds:.0f}"]
        expected.append([f"`{pair}`", *cells, str(steps)])
    header = ("pair | `weight` | `auto` | `auto`, circuit path | seconds, `weight` | seconds, `auto` | "
              "steps to reach 300 steps from `weight`")  # fmt: skip
    assert rows((ROOT / "docs" / "learning.md").read_text(), header) == expected


# docs/matching.md and docs/attention.md: options, presets, what was planted.


def test_the_page_on_matching_lists_every_option_with_its_default_first():
    table = rows(MATCHING.read_text(), "option | choices, the default first | what it decides")
    listed = {name.strip("`"): choices for name, choices, _ in table}
    default = WeightMatching()
    expected = {}
    for field in fields(WeightMatching):
        value = getattr(default, field.name)
        choices = GROUPS if field.name == "spaces" else CHOICES.get(field.name, ())
        ordered = sorted(choices, key=lambda choice, value=value: choice != value)  # stable: the others as declared
        expected[field.name] = ", ".join(f"`{choice}`" for choice in ordered) or str(value)
    assert listed == expected
    presets = rows(MATCHING.read_text(), "preset | stream | blocks | heads | units | rounds")
    assert [row[0].strip("`") for row in presets] == list(PRESETS)


def test_the_python_of_the_page_on_matching_runs(tmp_path, monkeypatch):
    config = transformers.GPT2Config(
        vocab_size=17, n_embd=8, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    for seed, name in enumerate("AB"):
        random_model("GPT2LMHeadModel", config, seed).save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (snippet,) = blocks(MATCHING, "python")
    names: dict[str, Any] = {}
    exec(compile(snippet, "matching.md", "exec"), names)
    moved = {name for name, far in names["only_attention"].alignment.displacement().items() if far > 0}
    assert {name.rpartition(".")[2] for name in moved} <= {"heads", "qk", "ov"}


def test_the_page_on_attention_quotes_what_was_measured():
    results = json.loads((ROOT / "benchmarks" / "attention.json").read_text())["results"]
    page = ATTENTION.read_text()
    stages = ("no second stage", "orthogonal", "full")
    header = f"model | positions | noise | loss of A / B | naive | {' | '.join(stages)}"
    assert rows(page, header) == [
        [f"`{name}`", model["positions"], level, f"{row['loss of A']:.2f} / {row['loss of B']:.2f}",
         f"{row['naive']:.3f}", *(f"{row[f'{stage}, % of naive']:.0f} %" for stage in stages)]
        for name, model in results["stages"].items() for level, row in model["levels"].items()
    ]  # fmt: skip
    columns = ("ours", "best", "second", "median", "worst")
    assert rows(page, "model | rank of ours | as good as ours | ours | best | second | median | worst") == [
        [f"`{name}`", f"{x['rank of ours']} of {x['orders']}", str(x["as good as ours"]),
         *(f"{x[column]:.3f}" for column in columns)]
        for name, x in results["orders"].items()
    ]  # fmt: skip
    measured = [model for name, model in results["metrics"].items() if name != "draws"]
    layers, right = sum(model["layers"] for model in measured), measured[0]["right"]
    header = " | ".join(["metric", *(f"noise {float(level):g}" for level in right["cosine"])])
    assert rows(page, header) == [
        [f"`{metric}`", *(
            f"{100 * sum(x['layers'] * x['right'][metric][level] for x in measured) / layers:.0f} %" for level in levels
        )]
        for metric, levels in right.items()
    ]  # fmt: skip


# docs/symmetries.md: operations and derived families.


def test_the_page_of_symmetries_lists_the_operations():
    every = [
        ops.layer_norm(gain=False), ops.layer_norm(gain=True), ops.rms_norm(gain=False), ops.rms_norm(gain=True),
        *(ops.elementwise(name) for name in ("gelu", "relu", "tanh", "linear")), ops.gated("silu"), ops.head_sum(),
        ops.bilinear(), ops.rope(), ops.qk_norm(), ops.gain_product(), ops.tied(),
    ]  # fmt: skip
    makers = [
        name for name, make in vars(ops).items() if getattr(make, "__module__", "") == ops.__name__ and name != "Op"
    ]
    assert len(makers) == 10, "a new operation belongs on the page and into this list"
    shown = rows(SYMMETRIES.read_text(), "operation | largest family | reason")
    assert shown == [[op.name, op.admits.name, op.why] for op in every]


SMALL = {"hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 4, "num_labels": 3}
TEXT = {"vocab_size": 11, "max_position_embeddings": 8, "pad_token_id": 0}
GATED = SMALL | TEXT | {"num_key_value_heads": 2}
GPT2 = {
    "n_embd": 16, "n_layer": 1, "n_head": 4, "vocab_size": 11, "n_positions": 8, "activation_function": "gelu",
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
PARTIAL = rope(100.0, 0.5)
IMAGE = {"image_size": 8, "patch_size": 4}
SHOWN = {  # (architecture, variant): a class and its configuration
    ("GPT-2", "untied"): ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, tie_word_embeddings=False)),
    ("GPT-2", "tied"): ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, tie_word_embeddings=True)),
    ("GPT-2", "base"): ("GPT2Model", lambda: transformers.GPT2Config(**GPT2)),
    ("GPT-NeoX", ""): (
        "GPTNeoXForCausalLM",
        lambda: transformers.GPTNeoXConfig(**SMALL, **TEXT, hidden_act="gelu", **PARTIAL),
    ),
    ("Llama", "untied"): ("LlamaForCausalLM", lambda: transformers.LlamaConfig(**GATED, tie_word_embeddings=False)),
    ("Llama", "base"): ("LlamaModel", lambda: transformers.LlamaConfig(**GATED)),
    ("Mistral", ""): ("MistralForCausalLM", lambda: transformers.MistralConfig(**GATED, head_dim=4)),
    ("Qwen2", "untied"): ("Qwen2ForCausalLM", lambda: transformers.Qwen2Config(**GATED, tie_word_embeddings=False)),
    ("Qwen2", "tied"): ("Qwen2ForCausalLM", lambda: transformers.Qwen2Config(**GATED, tie_word_embeddings=True)),
    ("Qwen3", ""): ("Qwen3ForCausalLM", lambda: transformers.Qwen3Config(**GATED, head_dim=6)),
    ("ViT", "classifier"): ("ViTForImageClassification", lambda: transformers.ViTConfig(**SMALL, **IMAGE)),
    ("ViT", "base"): ("ViTModel", lambda: transformers.ViTConfig(**SMALL, **IMAGE)),
    ("BERT", "token labels"): ("BertForTokenClassification", lambda: transformers.BertConfig(**SMALL, **TEXT)),
    ("BERT", "sequence labels"): ("BertForSequenceClassification", lambda: transformers.BertConfig(**SMALL, **TEXT)),
    ("BERT", "masked LM untied"): (
        "BertForMaskedLM", lambda: transformers.BertConfig(**SMALL, **TEXT, tie_word_embeddings=False)
    ),
    ("BERT", "masked LM tied"): (
        "BertForMaskedLM", lambda: transformers.BertConfig(**SMALL, **TEXT, tie_word_embeddings=True)
    ),
}  # fmt: skip
SPACES = (
    "residual", "heads", "kv_heads", "queries", "qk", "qk_rotary", "qk_pass", "qk_gain", "ov", "ffn", "pooler", "mlm",
)  # fmt: skip


def spaces_of(folder: Path, label: tuple[str, str]) -> dict[str, dict]:
    """The spaces of a model with one layer, by kind, as `describe` gives them."""
    name, config = SHOWN[label]
    random_model(name, config(), 0).save_pretrained(folder / name)
    spaces = describe(Checkpoint.open(folder / name))["spaces"]
    shutil.rmtree(folder / name)
    return {space["name"].removeprefix("layers.0."): space for space in spaces}


def who(labels: list[tuple[str, str]]) -> str:
    """An architecture alone stands for all of its variants."""
    if len(labels) == len(SHOWN):
        return "all"
    words = []
    for architecture in dict.fromkeys(architecture for architecture, _ in labels):
        here = [variant for name, variant in labels if name == architecture]
        everything = len(here) == sum(name == architecture for name, _ in SHOWN)
        words.append(architecture if everything else f"{architecture} ({', '.join(here)})")
    return ", ".join(words)


def family_table(folder: Path) -> str:
    """One row for each kind of space that differs from the others; the last column says which models have it."""
    having: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for label in SHOWN:
        for kind, space in spaces_of(folder, label).items():
            because = ", ".join(sorted(op["operation"] for op in space["because"])) or "linear maps only"
            having.setdefault((kind, space["as_stored"] or "not there", space["family"], because), []).append(label)
    lines = ["| space | as stored | canonical form | because of | models |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} | {who(having[row])} |" for row in sorted(having, key=lambda r: SPACES.index(r[0]))]
    return "\n".join(lines)


def test_the_page_of_symmetries_shows_the_derived_families(tmp_path):
    shown = re.search(r"<!-- families -->\n(.*?)\n?<!-- /families -->", SYMMETRIES.read_text(), re.DOTALL)
    assert shown is not None
    table = family_table(tmp_path)
    assert shown[1] == table, f"docs/symmetries.md should hold this table:\n{table}"


def test_the_page_shows_every_model_type():
    assert {config().model_type for _, config in SHOWN.values()} == set(known())


def test_group_dimensions_on_the_page(tmp_path):
    """H·2d², H·(d + d²) and H·(d_r + (d − d_r)² + d²) a layer, with H key/value heads; both residual streams."""
    attention = {("GPT-2", "untied"): 4 * 2 * 16, ("Llama", "untied"): 2 * (4 + 16), ("GPT-NeoX", ""): 4 * (2 + 4 + 16)}
    residual = {("GPT-2", "untied"): 15 * 14 // 2, ("Llama", "untied"): 16 * 15 // 2, ("GPT-NeoX", ""): 15 * 14 // 2}
    for label, dimension in attention.items():
        spaces = spaces_of(tmp_path, label)
        assert sum(space["dimension"] for kind, space in spaces.items() if kind.startswith(("qk", "ov"))) == dimension
        assert spaces["residual"]["dimension"] == residual[label]

"""The README's Python, recipe, commands, links and list of models; commands and links of every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import transformers
import typer
import yaml
from safetensors.torch import load_file

from helpers.pages import DOCS, README, ROOT, blocks
from helpers.random_models import byte_llama, random_model
from onebasin import Checkpoint
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.cli.app import app

PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def test_the_python_of_the_layer_below_moves_a_model_and_brings_it_back(tmp_path, monkeypatch):
    config = transformers.LlamaConfig(
        vocab_size=17, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, max_position_embeddings=16,
    )  # fmt: skip
    random_model("LlamaForCausalLM", config, 0).save_pretrained(tmp_path / "A")
    monkeypatch.chdir(tmp_path)
    *_, snippet = blocks(DOCS / "api.md", "python")
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


def test_the_recipe_of_the_readme_runs(tmp_path, cli):
    a, b = byte_llama(tmp_path / "A"), byte_llama(tmp_path / "B", 1)
    (text,) = blocks(README, "yaml")
    (tmp_path / "recipe.yaml").write_text(text)
    assert cli("run", tmp_path / "recipe.yaml")[0] == 0
    options = "--set", "weight.sweeps=5", "--method", "weight", "--dtype", "float64"
    assert cli("align", a, b, "-o", tmp_path / "aligned", *options)[0] == 0
    first, aligned, merged = (Checkpoint.open(folder) for folder in (a, tmp_path / "aligned", tmp_path / "MERGED"))
    q = "model.layers.0.self_attn.q_proj.weight"
    assert float((0.6 * first[q] + 0.4 * aligned[q] - merged[q]).abs().max()) < 1e-2  # bfloat16
    assert float((aligned[q] - merged[q]).abs().max()) > 0.1
    assert load_file(tmp_path / "MERGED" / "model.safetensors")[q].dtype == torch.bfloat16
    written = yaml.safe_load((tmp_path / "MERGED" / "recipe.yaml").read_text())
    assert written["models"] == ["../A", "../B"]
    assert written["weight"]["sweeps"] == 5


def code(page: Path) -> list[str]:
    """What a page sets as code, except Python: the lines of its blocks and its inline spans."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return "".join(blocks(page, "(?:sh)?")).splitlines() + re.findall(r"`([^`\n]+)`", text)


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

"""Names from outside are shown as they are: no markup, no formula, no YAML, no control of the terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from helpers.folders import edit_config
from onebasin.cli.output import progress

NAMES = ("[INST]", "[red]x", ":smile:", "$x^{$", "a: b", "- d", "_e", "*f*", "<b>g", "h\ni", "j\x1b[2J", "&k", "l|m")


@pytest.fixture
def named(pristine, tmp_path, monkeypatch):
    """A copy of the second model under another name; in its folder lies A."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pristine / "a", "A")
    return lambda name, source="b": str(shutil.copytree(pristine / source, name))


def shown(name: str) -> str:
    return name.replace("\n", " ").replace("\x1b", r"\x1b")


@pytest.mark.parametrize("name", NAMES)
def test_inspect_and_plans_show_names_as_they_are(cli, named, name):
    folder = named(name)
    code, out, _ = cli("inspect", f"./{folder}")
    assert code == 0
    assert out.splitlines()[0] == f"LlamaForCausalLM  {shown(name)}"
    code, out, _ = cli("align", "A", f"./{folder}", "-o", "OUT", "--method", "weight", "--dry-run")
    assert code == 0
    assert f"align A and {shown(name)} (LlamaForCausalLM)" in out


def test_a_closing_tag_as_token_and_label(cli, named):
    one, two = named("one"), named("two")
    for folder, words in ((one, ["[/INST]", "b"]), (two, ["b", "c"])):
        (Path(folder) / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    code, out, _ = cli("inspect", one, two)
    assert code == 1
    assert "blocks: list of tokens: A has 2, here alone '[/INST]' (0)" in out
    for folder, label in ((named("three", "vit"), "[/INST]"), (named("four", "vit"), "x")):
        edit_config(Path(folder), id2label={"0": label, "1": "b", "2": "c"})
    code, out, _ = cli("inspect", "three", "four")
    assert code == 1
    assert "here alone '[/INST]' (0)" in out


@pytest.mark.parametrize("name", ["a: b", "- d", "#c", "h\ni", "[INST]"])
def test_the_metadata_of_a_card_are_yaml(cli, named, name):
    folder = named(name)
    assert cli("align", "A", f"./{folder}", "-o", "OUT", "--method", "weight", "--quiet")[0] == 0
    _, head, text = Path("OUT/README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head)["base_model"] == ["A", shown(name)]
    assert shown(name).replace("[", r"\[").replace("]", r"\]") in text


@pytest.mark.parametrize("name", ["$x^{$", "_e"])
def test_pictures_show_names_as_they_are(cli, named, name):
    folder = named(name)
    measure = "--task", "synthetic", "--samples", "2", "--length", "4", "--points", "2", "--quiet"
    assert cli("barrier", f"./{folder}", "A", *measure, "-o", "OUT")[0] == 0
    assert f"{name} to A, factor path" in Path("OUT/barrier.svg").read_text()
    assert cli("barrier", f"./{folder}", "A", "A", *measure, "-o", "MORE")[0] == 0
    assert f"{name}</text>" in Path("MORE/barrier.svg").read_text()


def test_progress_shows_names_as_they_are(monkeypatch):
    from onebasin.cli import output

    monkeypatch.setattr(output.messages, "_force_terminal", True)
    with progress() as tick:
        tick("[/INST]")

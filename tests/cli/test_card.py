"""The model cards that `merge` and `align` write: licence, pipeline, usage."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import transformers
import yaml

MAPS = ("alignment.safetensors", "alignment.json")


@pytest.fixture
def licensed(pristine, tmp_path, monkeypatch):
    """Copies of three models, each with a card that names a licence, or with none."""
    monkeypatch.chdir(tmp_path)

    def make(*licences: str | None) -> list[str]:
        for name, source, licence in zip("ABC", "aba", licences, strict=False):
            shutil.copytree(pristine / source, name)
            if licence is not None:
                (Path(name) / "README.md").write_text(f"---\nlicense: {licence}\n---\n\n# {name}\n")
        return list("ABC"[: len(licences)])

    return make


def card() -> tuple[dict, str]:
    _, head, text = Path("OUT/README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), text


def named() -> set[str]:
    """The files that the end of the card names, all of which are there."""
    found = set(re.findall(r"`([\w.]+)`", card()[1].rpartition("\n\n")[2]))
    assert [name for name in found if not Path("OUT", name).exists()] == []
    return found


@pytest.mark.parametrize("verb", ["merge", "align"])
def test_a_common_licence_goes_on(cli, licensed, verb):
    assert cli(verb, *licensed("mit", "mit"), "-o", "OUT", "--method", "weight", "--quiet")[0] == 0
    head, text = card()
    assert (head["license"], head["pipeline_tag"]) == ("mit", "text-generation")
    assert "Licence: `mit`, which the cards of all its models name." in text


@pytest.mark.parametrize(("licences", "said"), [(("mit", "gpl-3.0"), "A `mit` and B `gpl-3.0`"),
                                                ((None, "mit"), "A names none and B `mit`")])  # fmt: skip
def test_no_licence_is_made_up(cli, licensed, licences, said):
    assert cli("merge", *licensed(*licences), "-o", "OUT", "--method", "weight", "--quiet")[0] == 0
    head, text = card()
    assert "license" not in head
    assert f"Licence: left open, because the cards do not name one licence: {said}." in text


@pytest.mark.parametrize("count", [2, 3])
def test_the_card_loads_what_lies_beside_it(cli, licensed, count):
    models = licensed(*[None] * count)
    assert cli("align", *models, "-o", "OUT", "--method", "weight", "--quiet")[0] == 0
    (code,) = re.findall(r"^```python\n(.*?)^```$", card()[1], re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert type(names["model"]) is transformers.LlamaForCausalLM
    assert named() == {"certificate.json", "report.html", *(MAPS if count == 2 else ("universe",))}


def test_the_card_of_two_models_of_a_universe_names_the_universe(cli, models, three, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("align", models[2], models[1], "-o", "OUT", "--universe", three, "--quiet")[0] == 0
    assert named() == {"certificate.json", "report.html", "universe"}

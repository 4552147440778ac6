"""Licence, pipeline and usage of a model card."""

from __future__ import annotations

import pytest
import transformers

from helpers.random_models import config_of, random_model
from onebasin.archs import known
from onebasin.report.hub import common_licence, pipeline_of, read_licence, usage

CLASSES = [(kind, name) for kind, names in known().items() for name in names]
APACHE, MIT, NONE = {"license": "apache-2.0"}, {"license": "mit"}, {}
OTHER = {"license": "other", "license_name": "own-1.0"}


@pytest.mark.parametrize(("kind", "name"), CLASSES, ids=[name for _, name in CLASSES])
def test_what_the_card_names_loads_the_class(kind, name):
    loader, _ = pipeline_of(name, images=kind == "vit")
    config = config_of(kind, 0)
    config.architectures = [name]  # of several classes in a list it is the one that the configuration names
    model = getattr(transformers, loader).from_config(config)
    assert type(model).__name__ == name.replace("WithProjection", "")  # which no list of transformers has


@pytest.mark.parametrize(
    ("name", "images", "tag"),
    [("LlamaForCausalLM", False, "text-generation"), ("GPT2LMHeadModel", False, "text-generation"),
     ("BertForMaskedLM", False, "fill-mask"), ("BertForSequenceClassification", False, "text-classification"),
     ("ViTForImageClassification", True, "image-classification"), ("BertModel", False, "feature-extraction"),
     ("ViTModel", True, "image-feature-extraction")],
)  # fmt: skip
def test_the_pipeline_is_that_of_the_hub(name, images, tag):
    assert pipeline_of(name, images=images)[1] == tag


@pytest.mark.parametrize(
    ("text", "found"),
    [("---\nlicense: apache-2.0\ntags: [x]\n---\n# A\n", APACHE), ("---\nlicense: 'mit'  # yes\n---\n", MIT),
     ("---\nlicense: other\nlicense_name: own-1.0\n---\n", OTHER), ("# A\n\nlicense: mit\n", NONE),
     ("---\ntags: x\n---\nlicense: mit\n", NONE), ("---\nlicense: [mit, gpl]\n---\n", NONE),
     ("---\nlicense_name: own\n---\n", NONE), ("---\nlicense: &a [*a]\n---\n", NONE), ("---\nlicense: mit", NONE),
     ("---\nlicense: `x`<b>\n---\n", NONE), ("", NONE)],
)  # fmt: skip
def test_a_licence_is_read_from_the_metadata_alone(tmp_path, text, found):
    (tmp_path / "README.md").write_text(text)
    assert read_licence(tmp_path) == found


def test_a_card_that_is_no_text_names_none(tmp_path):
    assert read_licence(tmp_path) == {}
    (tmp_path / "README.md").write_bytes(b"\xff\xfe\x00")
    assert read_licence(tmp_path) == {}
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").mkdir()
    assert read_licence(tmp_path) == {}


@pytest.mark.parametrize("licences", [[APACHE, MIT], [APACHE, NONE], [NONE, NONE], [{"license": "other"}] * 2])
def test_no_licence_is_chosen(licences):
    chosen, said = common_licence("AB", licences)
    assert chosen == {}
    assert said.startswith("Licence: left open")


@pytest.mark.parametrize("licence", [APACHE, OTHER])
def test_the_licence_that_all_name_is_named(licence):
    chosen, said = common_licence("AB", [licence, dict(licence)])
    assert chosen == licence
    assert f"`{licence['license']}`" in said


def test_the_snippet_brings_the_tokenizer_where_there_is_one(tmp_path):
    assert "AutoTokenizer" not in usage("AutoModel", "OUT", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert 'tokenizer = AutoTokenizer.from_pretrained("OUT")' in usage("AutoModel", "OUT", tmp_path)
    assert r'from_pretrained("a \"b")' in usage("AutoModel", 'a "b', tmp_path)


def test_the_snippet_runs(tmp_path, monkeypatch):
    random_model("LlamaForCausalLM", config_of("llama", 0), 0).save_pretrained(tmp_path / "OUT")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(usage("AutoModelForCausalLM", "OUT", tmp_path / "OUT").removeprefix("```python\n").removesuffix("```"), names)
    assert type(names["model"]) is transformers.LlamaForCausalLM

"""What the Hub wants to know of a model: its licence, its pipeline, and how it is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from onebasin.ensemble.words import join_words

# What a class ends with in transformers' own lists, what loads it, and the pipeline that the Hub gives it.
PIPELINES = {
    "CAUSAL_LM": ("AutoModelForCausalLM", "text-generation"),
    "SEQ_TO_SEQ_CAUSAL_LM": ("AutoModelForSeq2SeqLM", "text2text-generation"),
    "MASKED_LM": ("AutoModelForMaskedLM", "fill-mask"),
    "SEQUENCE_CLASSIFICATION": ("AutoModelForSequenceClassification", "text-classification"),
    "TOKEN_CLASSIFICATION": ("AutoModelForTokenClassification", "token-classification"),
    "IMAGE_CLASSIFICATION": ("AutoModelForImageClassification", "image-classification"),
}
READERS = {"tokenizer_config.json": "AutoTokenizer", "preprocessor_config.json": "AutoImageProcessor"}

_HEAD = 65_536  # characters of a card in which its metadata are looked for
_LICENCE = re.compile(r"""^(license(?:_name|_link)?):[ \t]*(["']?)([\w.+:/%?=-]+)\2[ \t]*(?:#.*)?$""", re.M)


def _encoders(lists: Any) -> Collection[str]:
    """Classes that are the encoder of a model that has a decoder as well."""
    names: Collection[str] = lists.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.values()
    return names


def pipeline_of(architecture: str, *, images: bool) -> tuple[str, str]:
    """The class of transformers that loads such a model, and its pipeline; `images` if it reads those."""
    lists = import_module("transformers.models.auto.modeling_auto")
    for kind, found in PIPELINES.items():
        listed = getattr(lists, f"MODEL_FOR_{kind}_MAPPING_NAMES").values()
        if any(architecture in ((names,) if isinstance(names, str) else names) for names in listed):
            return found
    if architecture not in lists.MODEL_MAPPING_NAMES.values() and architecture in _encoders(lists):
        return "AutoModelForTextEncoding", "feature-extraction"
    return "AutoModel", "image-feature-extraction" if images else "feature-extraction"


def read_licence(folder: Path) -> dict[str, str]:
    """`license`, and its name and link if it has any, as the card in a folder gives them; nothing if it does not.

    The card was written by others: only these lines are read, as they stand, and no other YAML.
    """
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as stream:
            head = re.match(r"\ufeff?---\n(.*?)^---\s*$", stream.read(_HEAD), re.M | re.S)
    except OSError:  # none, or none to be read
        return {}
    found = {key: value for key, _, value in _LICENCE.findall(head[1] if head else "")}
    return found if "license" in found else {}


def common_licence(names: Sequence[str], licences: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], str]:
    """The licence that all models name, and a sentence on it; nothing is chosen where they differ.

    "other" stands for any licence: it is the same one only under the same name.
    """
    first = licences[0]
    if first and all(own == first for own in licences) and (first["license"] != "other" or "license_name" in first):
        return dict(first), f"Licence: {_called(first)}, which the cards of all its models name."
    said = [f"{name} {_called(own) if own else 'names none'}" for name, own in zip(names, licences, strict=True)]
    return {}, f"Licence: left open, because the cards do not name one licence: {join_words(said)}."


def _called(licence: Mapping[str, str]) -> str:
    return " ".join(f"`{licence[key]}`" for key in ("license", "license_name") if key in licence)


def usage(loader: str, address: str, folder: Path) -> str:
    """Python that loads the model; with its tokenizer or image processor where the folder holds one."""
    readers = [reader for file, reader in READERS.items() if (folder / file).is_file()]
    where = json.dumps(address)
    lines = [f"from transformers import {', '.join([loader, *readers])}", ""]
    lines.append(f"model = {loader}.from_pretrained({where})  # this folder, or its id on the Hub")
    names = {"AutoTokenizer": "tokenizer", "AutoImageProcessor": "processor"}
    lines += [f"{names[reader]} = {reader}.from_pretrained({where})" for reader in readers]
    return "\n".join(["```python", *lines, "```"])

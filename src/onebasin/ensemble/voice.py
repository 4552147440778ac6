"""How a model is spoken to: special tokens, chat template, settings of generation.  All outputs take those of A."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.ensemble.obstacle import Obstacle
from onebasin.labels.names import json_object, same_tokenizer, vocabulary
from onebasin.labels.rewrites import is_id

Settings = dict[str, Any]
LONGEST = 40  # characters of a value that is shown
SPLITTING = ("normalizer", "pre_tokenizer", "model")  # parts of tokenizer.json that cut text into tokens
_OF_FILES = ("transformers_version", "_from_model_config")


def voice_obstacles(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    """What B says differently; nothing of it blocks, for the outputs say what A says."""
    for what, read in READERS.items():
        mine, theirs = read(a, b)
        keys = [key for key in dict.fromkeys([*mine, *theirs]) if mine.get(key) != theirs.get(key)]
        if keys:
            yield Obstacle(what, _shown(mine, keys), _shown(theirs, keys), "nothing to do: the outputs have A's", False)


def _shown(settings: Mapping[str, Any], keys: list[str]) -> str:
    values = {key: repr(settings.get(key)) for key in keys}
    return ", ".join(f"{key} {value if len(value) <= LONGEST else 'its own'}" for key, value in values.items())


def _special_tokens(a: Checkpoint, b: Checkpoint) -> tuple[Settings, Settings]:
    """By name: what config.json says with numbers, and the tokenizer's own settings."""
    keys = sorted({key for model in (a, b) for key in model.config if is_id(key)})
    configs = [transformers_config(model.config) for model in (a, b)]
    one, two = ({key: getattr(config, key, None) for key in keys} for config in configs)
    if not same_tokenizer(a.folder, b.folder):
        one, two = ({**_by_name(model, ids), **_of_tokenizer(model)} for model, ids in ((a, one), (b, two)))
    return one, two


def _of_tokenizer(model: Checkpoint) -> Settings:
    said = json_object(model.folder / "special_tokens_map.json") | json_object(model.folder / "tokenizer_config.json")
    named = {key: value.get("content") if isinstance(value, dict) else value for key, value in said.items()}
    return {key: value for key, value in named.items() if key.endswith("_token") and isinstance(value, str)}


def _by_name(model: Checkpoint, settings: Settings) -> Settings:
    """Tokens by what they are called, where the folder says so."""
    names = {number: name for name, number in vocabulary(model.folder).items()}

    def name(value: Any) -> Any:
        return [name(x) for x in value] if isinstance(value, list) else names.get(value, value)

    return {key: name(value) if is_id(key) else value for key, value in settings.items()}


def _chat_template(a: Checkpoint, b: Checkpoint) -> tuple[Settings, Settings]:
    one, two = ({"text": _template_of(model)} for model in (a, b))
    return one, two


def _template_of(model: Checkpoint) -> Any:
    file = model.folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8", errors="replace")
    own = json_object(model.folder / "chat_template.json") or json_object(model.folder / "tokenizer_config.json")
    return own.get("chat_template")


def _generation(a: Checkpoint, b: Checkpoint) -> tuple[Settings, Settings]:
    said = [json_object(model.folder / "generation_config.json") for model in (a, b)]
    if said[0] == said[1]:
        return {}, {}
    one, two = (
        _by_name(model, {key: value for key, value in own.items() if key not in _OF_FILES})
        for model, own in zip((a, b), said, strict=True)
    )
    return one, two


def _splitting(a: Checkpoint, b: Checkpoint) -> tuple[Settings, Settings]:
    """How text is cut into tokens; which number each of them has does not matter here."""
    if same_tokenizer(a.folder, b.folder):
        return {}, {}
    said = [json_object(model.folder / "tokenizer.json") for model in (a, b)]
    if not all(said):
        return {}, {}
    one, two = ({key: _without_numbers(key, own.get(key)) for key in SPLITTING} for own in said)
    return one, two


def _without_numbers(key: str, part: Any) -> Any:
    if key != "model" or not isinstance(part, dict):
        return part
    vocabulary = part.get("vocab")
    scores = dict(map(tuple, vocabulary)) if isinstance(vocabulary, list) else None
    return {**{name: value for name, value in part.items() if name not in ("vocab", "unk_id")}, "scores": scores}


READERS: dict[str, Callable[[Checkpoint, Checkpoint], tuple[Settings, Settings]]] = {
    "special tokens": _special_tokens,
    "chat template": _chat_template,
    "settings of generation": _generation,
    "how text becomes tokens": _splitting,
}

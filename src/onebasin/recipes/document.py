"""Recipes from files and flags, and back: YAML documents whose names of folders and files are relative to their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml

from onebasin.automatic import quick
from onebasin.errors import BadRecipe
from onebasin.landscape import pick_device
from onebasin.landscape.curve import POINTS
from onebasin.landscape.simplex import SIDE
from onebasin.match import PRESETS
from onebasin.recipes.choice import named
from onebasin.recipes.recipe import VERBS, Aligning, Barrier, Device, Merge, Recipe
from onebasin.recipes.schema import convert, read_section, write_section
from onebasin.tasks import on_files

FORMAT = 1


def load(file: Path, settings: Iterable[str] = (), *, out: Path | None = None) -> Recipe:
    """The recipe in a YAML file, with `settings` ("key.path=value") put into it, and another output folder."""
    try:
        document = yaml.load(file.read_text(encoding="utf-8"), Strict)
    except OSError as error:
        raise BadRecipe(f"{file} cannot be read", found=error, next_step="check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())
        raise BadRecipe(f"{file} is not valid YAML", found=found, next_step="correct that line") from error
    recipe = parse(document, settings, base=file.parent)
    return recipe if out is None else replace(recipe, write=replace(recipe.write, out=str(out)))  # type: ignore[arg-type]


def parse(document: Any, settings: Iterable[str] = (), *, base: Path = Path()) -> Recipe:
    """The recipe that a document describes; `base` is the folder that its names are relative to."""
    if not isinstance(document, dict):
        found = type(document).__name__
        raise BadRecipe("A recipe is keys with values", expected="verb: ...", found=found, next_step="see README.md")
    document = deepcopy(document)
    _spell_out_models(document)
    for setting in settings:
        put(document, setting)
    _spell_out_models(document)
    _take(document, "onebasin", (FORMAT,))
    kind = VERBS[_take(document, "verb", tuple(VERBS))]
    if issubclass(kind, Aligning):
        _spell_out_method(document)
    _spell_out_number(document, kind)
    recipe = read_section(kind, _with_preset(document))
    return _placed(recipe, lambda name: _model(base, name), lambda name: str(base / Path(name).expanduser()))


def plain(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The document of this recipe in a file in `folder`: all defaults written out, but not where the output goes."""

    def relative(name: str) -> str:
        return os.path.relpath(Path(name).resolve(), folder.resolve()) if Path(name).exists() else name

    section = write_section(_placed(recipe, relative, relative))
    section["models"] = [model if len(model) > 1 else model["path"] for model in section["models"]]
    section["write"].pop("out", None)
    return {"onebasin": FORMAT, "verb": recipe.verb, **{key: value for key, value in section.items() if value != {}}}


def put(document: dict[str, Any], setting: str) -> None:
    """Set one key of a document from "key.path=value", the value read as YAML."""
    path, equals, text = setting.partition("=")
    *sections, key = path.split(".")
    inside: Any = document
    for section in sections:
        if isinstance(inside, list):
            inside = inside[int(section)] if section.isdigit() and int(section) < len(inside) else None
        elif isinstance(inside, dict):
            inside = inside.setdefault(section, {})
    if not equals or not key or not isinstance(inside, dict):
        step = "write it like matching.sweeps=5"
        raise BadRecipe(f"{setting} sets no key of a recipe", expected="KEY.PATH=VALUE", found=setting, next_step=step)
    try:
        inside[key] = yaml.load(text, Strict)
    except yaml.YAMLError as error:
        raise BadRecipe(f"{path} has no valid YAML value", found=text, next_step="put it in quotes") from error


def _spell_out_models(document: dict[str, Any]) -> None:
    """A model that is only a name becomes a section."""
    if isinstance(document.get("models"), list):
        document["models"] = [{"path": model} if isinstance(model, str) else model for model in document["models"]]


def _spell_out_method(document: dict[str, Any]) -> None:
    """The method, where a section names it, and what it looks at, so that all defaults are written out."""
    method = named(document)
    if method is not None:
        document["method"] = method
    if method in ("learned", "dual", "soft"):
        document.setdefault("start", "activation")
        document.setdefault("learn", {})
    for kind, section in (("weight", "matching"), ("activation", "activation")):
        if kind in (method, document.get("start")):
            document.setdefault(section, {})
    if method == "auto" and isinstance(document.setdefault("learn", {}), dict):
        device = convert(Device, document.get("device", "auto"), "device")
        document["learn"] = {**write_section(quick(pick_device(device))), **document["learn"]}


def _spell_out_number(document: dict[str, Any], kind: type[Recipe]) -> None:
    """The defaults that depend on how many models there are."""
    count = len(models) if isinstance(models := document.get("models"), list) else 0
    if issubclass(kind, Aligning) and count > 2 and document.get("start") != "identity":
        document.setdefault("universe", {})
    if kind is Merge and "weights" not in document and count:
        document.setdefault(*("weight", 0.5) if count == 2 else ("weights", [1.0] * count))
    if kind is Barrier and count in (2, 3):
        document.setdefault("points", POINTS if count == 2 else SIDE)


def _take(document: dict[str, Any], key: str, choices: tuple[Any, ...]) -> Any:
    if key not in document:
        expected, step = ", ".join(map(str, choices)), f"begin the recipe with {key}: {choices[0]}"
        raise BadRecipe(f"{key} is missing", expected=expected, found=", ".join(map(str, document)), next_step=step)
    return convert(Literal[choices], document.pop(key), key)


def _with_preset(document: dict[str, Any]) -> dict[str, Any]:
    """`matching.preset` stands for the fields of that preset; fields beside it replace them."""
    matching = document.get("matching")
    if not isinstance(matching, dict) or "preset" not in matching:
        return document
    fields = dict(matching)
    name = convert(Literal[tuple(PRESETS)], fields.pop("preset"), "matching.preset")
    return {**document, "matching": {**write_section(PRESETS[name]), **fields}}


def _placed(recipe: Recipe, model: Callable[[str], str], file: Callable[[str], str]) -> Recipe:
    """The recipe with other names for its models, its file of data, its universe and its output."""
    models = tuple(replace(m, path=model(m.path)) for m in recipe.models)
    task = recipe.task and replace(recipe.task, data=on_files(recipe.task.data, file))
    out = recipe.write.out
    write = replace(recipe.write, out=None if out is None else file(out))
    placed = replace(recipe, models=models, task=task, write=write)  # type: ignore[arg-type]
    if isinstance(placed, Aligning) and placed.universe is not None and placed.universe.folder is not None:
        placed = replace(placed, universe=replace(placed.universe, folder=file(placed.universe.folder)))
    return placed


def _model(base: Path, name: str) -> str:
    """A folder beside the recipe; what is not there is a Hub id."""
    path = base / Path(name).expanduser()
    if path.exists() or name.startswith((".", "~", "/")):
        return str(path)
    if Path(name).exists():
        step = f"write {os.path.relpath(name, base)}: names are relative to the folder of the recipe"
        raise BadRecipe(f"there is no folder {path}", expected="a folder or a Hub id", found=name, next_step=step)
    return name


class Strict(yaml.SafeLoader):
    """Plain data only, and no key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            raise yaml.YAMLError(f"{twice[0]} is given twice")
        return dict(super().construct_mapping(node, deep=True))

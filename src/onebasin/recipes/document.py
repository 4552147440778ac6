"""Recipes from files and flags, and back: YAML documents whose names of folders and files are relative to their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml

from onebasin.errors import BadRecipe
from onebasin.match.options import Gathering
from onebasin.methods.method import Method
from onebasin.methods.registry import methods, named_by, names, read_method, resolve_name, write_method
from onebasin.names import as_output, as_path
from onebasin.options import all_keys, convert, known_keys, read_section, unknown_key, write_section
from onebasin.paths.points import POINTS, SIDE
from onebasin.processes.devices import Device, pick_device
from onebasin.recipes.moved import refuse_old_keys
from onebasin.recipes.recipe import VERBS, Aligning, Barrier, Merge, Recipe

FORMAT = 2


def load(file: Path, settings: Iterable[str] = (), *, out: Path | None = None) -> Recipe:
    """The recipe in a YAML file, with `settings` ("key.path=value") put into it, and another output folder."""
    try:
        document = _read(as_path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRecipe(f"{file} cannot be read", found=error, next_step="check the path") from error
    except ValueError as error:
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
    refuse_old_keys(document, FORMAT)
    _take(document, "onebasin", (FORMAT,))
    kind = VERBS[_take(document, "verb", tuple(VERBS))]
    if issubclass(kind, Aligning):
        _check_keys(document, kind)
        _read_method(document, merges=kind is Merge)
    _spell_out_number(document, kind)
    recipe = read_section(kind, document)
    return _placed(recipe, lambda name: _model(base, name), lambda name: str(base / as_path(name)))


def plain(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The document of this recipe in a file in `folder`: all defaults written out, but not where the output goes."""

    def relative(name: str) -> str:
        return os.path.relpath(Path(name).resolve(), folder.resolve()) if Path(name).exists() else name

    placed = _placed(recipe, relative, relative)
    section = write_section(placed)
    if isinstance(placed, Aligning) and placed.method is not None:
        del section["method"]
        section |= {"method": placed.method.name, **write_method(placed.method)}
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
        step = "write it like weight.sweeps=5"
        raise BadRecipe(f"{setting} sets no key of a recipe", expected="KEY.PATH=VALUE", found=setting, next_step=step)
    try:
        inside[key] = _read(text)
    except ValueError as error:
        raise BadRecipe(f"{path} has no valid YAML value", found=text, next_step="put it in quotes") from error


def _spell_out_models(document: dict[str, Any]) -> None:
    """A model that is only a name becomes a section."""
    if isinstance(document.get("models"), list):
        document["models"] = [{"path": model} if isinstance(model, str) else model for model in document["models"]]


def _check_keys(document: dict[str, Any], kind: type[Aligning]) -> None:
    """Refuse an unknown key, with the sections of methods among those that could be meant."""
    here = [*known_keys(kind), *methods()]
    sections = {name: [key for key in all_keys(method) if key.partition(".")[0] not in here]
                for name, method in methods().items()}  # fmt: skip
    inner = [f"{name}.{key}" for name, keys in sections.items() for key in keys]
    for key in document:
        if key not in here:
            raise unknown_key(str(key), here, [*all_keys(kind), *methods(), *inner])


def _read_method(document: dict[str, Any], *, merges: bool) -> None:
    """The method, by its name or by its sections, in place of these; none where nothing names one."""
    sections = {name: document.pop(name) for name in methods() if name in document}
    if not sections and isinstance(universe := document.get("universe"), dict) and "folder" in universe:
        document.setdefault("method", "weight")
    name = document.pop("method", None) or named_by(sections)
    if name is None and sections:
        expected, step = ", ".join(names()), "name the method that they are options of"
        raise BadRecipe("method is missing", expected=expected, found=", ".join(sections), next_step=step)
    if name is None:
        return
    device = pick_device(convert(Device, document.get("device", "auto"), "device"))
    document["method"] = method = read_method(resolve_name(name, sections), sections, device, merges=merges)
    for section in sections:
        raise BadRecipe(
            f"{section} is of no use to the method {method.name}", next_step="leave it out, or choose another method"
        )


def _spell_out_number(document: dict[str, Any], kind: type[Recipe]) -> None:
    """The defaults that depend on how many models there are."""
    count = len(models) if isinstance(models := document.get("models"), list) else 0
    method: Method | None = document.get("method")
    if issubclass(kind, Aligning) and count > 2 and (method is None or method.gathers(Gathering())):
        document.setdefault("universe", {})
    if kind is Merge and "shares" not in document and count:
        document.setdefault(*("share", 0.5) if count == 2 else ("shares", [1.0] * count))
    if kind is Barrier and count in (2, 3):
        document.setdefault("points", POINTS if count == 2 else SIDE)


def _take(document: dict[str, Any], key: str, choices: tuple[Any, ...]) -> Any:
    if key not in document:
        expected, step = ", ".join(map(str, choices)), f"begin the recipe with {key}: {choices[0]}"
        raise BadRecipe(f"{key} is missing", expected=expected, found=", ".join(map(str, document)), next_step=step)
    return convert(Literal[choices], document.pop(key), key)


def _placed(recipe: Recipe, model: Callable[[str], str], file: Callable[[str], str]) -> Recipe:
    """The recipe with other names for its models, its file of data, its universe and its output."""
    models = tuple(replace(m, path=model(m.path)) for m in recipe.models)
    task = recipe.task and recipe.task.placed(file)
    out = recipe.write.out
    write = replace(recipe.write, out=None if out is None else file(str(as_output(out))))
    placed = replace(recipe, models=models, task=task, write=write)  # type: ignore[arg-type]
    if isinstance(placed, Aligning) and placed.universe is not None and placed.universe.folder is not None:
        placed = replace(placed, universe=replace(placed.universe, folder=file(placed.universe.folder)))
    return placed


def _model(base: Path, name: str) -> str:
    """A folder beside the recipe; what is not there is a Hub id."""
    path = base / as_path(name)
    if path.exists() or name.startswith((".", "~", "/")):
        return str(path)
    if Path(name).exists():
        step = f"write {os.path.relpath(name, base)}: names are relative to the folder of the recipe"
        raise BadRecipe(f"there is no folder {path}", expected="a folder or a Hub id", found=name, next_step=step)
    return name


def _read(text: str) -> Any:
    """The data in a YAML text; `ValueError` where it is none, an impossible date and a number of a mile included."""
    try:
        return yaml.load(text, Strict)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(error) from error


class Strict(yaml.SafeLoader):
    """Plain data only, no key twice, nothing by reference: ten lines of that can stand for more than memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            place = f"*{event.anchor} in line {event.start_mark.line + 1}"
            raise yaml.YAMLError(f"{place} stands for another part: write that out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if odd := [key for key in keys if not isinstance(key, str)]:
            raise yaml.YAMLError(f"{odd[0]!r} is a key that is no text")
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            raise yaml.YAMLError(f"{twice[0]} is given twice")
        return dict(super().construct_mapping(node, deep=True))

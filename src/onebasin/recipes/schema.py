"""A section of a recipe is a dataclass: its fields are the keys, its annotations the types, its defaults the defaults.

Nothing unknown is ignored and nothing is guessed.  A refusal names the key with the sections around it, what was
expected there and what was found.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from onebasin.errors import BadRecipe, OnebasinError

T = TypeVar("T")


def read_section(kind: type[T], section: object, where: str = "") -> T:
    """The dataclass `kind` with the values of a parsed YAML mapping; `where` is the dotted path of the section."""
    if not isinstance(section, dict):
        raise wrong_type(where or "the recipe", "a section (key: value)", section)
    keys = known_keys(kind)
    for key in section:
        if key not in keys:
            raise unknown_key(dotted(where, key), keys, [dotted(where, known) for known in all_keys(kind)])
    missing = [name for name, key in keys.items() if name not in section and _required(key)]
    if missing:
        raise BadRecipe(
            f"{dotted(where, missing[0])} is missing",
            expected=described(get_type_hints(kind)[missing[0]]),
            found=", ".join(map(str, section)) or "an empty section",
            next_step=f"write it, or give --set {dotted(where, missing[0])}=...",
        )
    hints = get_type_hints(kind)
    values = {key: convert(hints[key], value, dotted(where, key)) for key, value in section.items()}
    try:
        return kind(**values)
    except BadRecipe:
        raise
    except OnebasinError as error:  # the dataclass refuses its own values
        what = f"{where}: {error.what}"
        raise BadRecipe(what, expected=error.expected, found=error.found, next_step=error.next_step) from error


def write_section(value: Any) -> Any:
    """The plain data that `read_section` reads back: every field, except those that are None as by default."""
    if is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        absent = {field.name for field in fields(value) if field.default is None and found[field.name] is None}
        return {name: write_section(x) for name, x in found.items() if name not in absent}
    return [write_section(x) for x in value] if isinstance(value, tuple) else value


def convert(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotation `hint` wants it, or a refusal."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _either(hint, [x for x in choices if x is not type(None)], value, where)
    if is_dataclass(hint):
        return read_section(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        return _one_of(choices, value, where)
    if origin is tuple and isinstance(value, list):
        return _entries(choices, value, where)
    if hint is float and isinstance(value, str):
        value = _number(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise wrong_type(where, described(hint), value)


def _either(hint: Any, kinds: list[Any], value: Any, where: str) -> Any:
    """The first kind that fits; of one optional kind, its own refusal."""
    if value is None and type(None) in get_args(hint):
        return None
    if len(kinds) == 1:
        return convert(kinds[0], value, where)
    for kind in kinds:
        try:
            return convert(kind, value, where)
        except BadRecipe:
            continue
    raise wrong_type(where, described(hint), value)


def _one_of(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    if value in choices and type(value) in {type(choice) for choice in choices}:
        return value
    near = nearest(str(value), [str(choice) for choice in choices])
    raise BadRecipe(
        f"{where} has no such choice",
        expected=described(Literal[choices]),
        found=value,
        next_step=f"did you mean {near}?" if near else "use one of these",
    )


def _entries(kinds: tuple[Any, ...], value: list[Any], where: str) -> tuple[Any, ...]:
    if kinds[-1:] == (...,):
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise wrong_type(where, f"{len(kinds)} entries", f"{len(value)} entries")
    return tuple(convert(kind, x, f"{where}.{i}") for i, (kind, x) in enumerate(zip(kinds, value, strict=True)))


def _number(text: str) -> object:
    """YAML reads 1e-5, without a point, as text."""
    try:
        return float(text)
    except ValueError:
        return text


def described(hint: Any) -> str:
    """An annotation in words."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join("nothing (null)" if x is type(None) else described(x) for x in get_args(hint))
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list of " + ", ".join(described(x) for x in get_args(hint) if x is not ...)
    if is_dataclass(hint):
        return f"a section with {', '.join(field.name for field in fields(hint))}"
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return words.get(hint, str(hint))


def known_keys(kind: Any) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(kind) if field.init}


def all_keys(kind: Any) -> Iterator[str]:
    """Every key of a section and of the sections inside it, dotted."""
    hints = get_type_hints(kind)
    for name in known_keys(kind):
        yield name
        for inner in (hints[name], *get_args(hints[name])):
            if is_dataclass(inner):
                yield from (f"{name}.{key}" for key in all_keys(inner))


def dotted(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def nearest(key: str, known: list[str]) -> str | None:
    """The known key whose last part is most like that of this one."""
    last = {name.rpartition(".")[2]: name for name in reversed(known)}
    found = get_close_matches(key.rpartition(".")[2], list(last), 1)
    return last[found[0]] if found else None


def unknown_key(where: str, here: Any, known: list[str]) -> BadRecipe:
    near = nearest(where, known)
    step = f"did you mean {near}?" if near else "remove it, or use one of these"
    return BadRecipe(f"{where} is not a key of this recipe", expected=", ".join(here), found=where, next_step=step)


def wrong_type(where: str, expected: str, value: object) -> BadRecipe:
    found = "nothing (null)" if value is None else f"{value!r} ({type(value).__name__})"
    step = "text that looks like a number or like yes and no needs quotes" if expected == "text" else f"give {expected}"
    return BadRecipe(f"{where} has the wrong type", expected=expected, found=found, next_step=step)


def within(where: str, value: float, low: float, high: float | None = None) -> None:
    """Refuse a number outside its range."""
    if value < low or (high is not None and value > high):
        expected = f"{low} or more" if high is None else f"from {low} to {high}"
        raise BadRecipe(
            f"{where} is out of range", expected=expected, found=value, next_step=f"give a number: {expected}"
        )


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING

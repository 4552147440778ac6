"""Options: frozen dataclasses whose annotations are their rules.

A field is a key of a recipe; its annotation is the type it must have, with its choices (`Literal`) and its bounds
(`Annotated[int, Within(1)]`); its default is the default.  `Options` checks all of that when an object is made, from
Python as from a file, so nothing else has to.  Nothing unknown is ignored and nothing is guessed: a refusal names the
key with the sections around it, what was expected there and what was found.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from onebasin.errors import BadRecipe

T = TypeVar("T")
SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}  # what dtypes are called, too


@dataclass(frozen=True)
class Within:
    """A bound in an annotation: from `low` to `high`, `low` itself excluded if `above`."""

    low: float
    high: float = math.inf
    above: bool = False

    def __str__(self) -> str:
        if self.high < math.inf:
            return f"from {self.low:.10g} to {self.high:.10g}"
        return f"more than {self.low:g}" if self.above else f"{self.low:g} or more"

    def check(self, value: float, where: str) -> None:
        """Refuse a number outside the bounds, NaN included."""
        if not self.low <= value <= self.high or (self.above and value == self.low) or value == math.inf:
            raise BadRecipe(f"{where} is out of range", expected=self, found=value, next_step=f"give a number: {self}")


@dataclass(frozen=True)
class Distinct:
    """A rule in an annotation: one entry or more, none of them twice."""

    def __str__(self) -> str:
        return "one or more, each once"

    def check(self, value: tuple[Any, ...], where: str) -> None:
        """Refuse an empty list and repeated entries."""
        if not value or len(set(value)) < len(value):
            found = ", ".join(map(str, value)) or "nothing"
            raise BadRecipe(f"{where} has the wrong entries", expected=self, found=found, next_step="correct the list")


LARGEST = 10**18  # whole numbers: what fits into 64 bits everywhere

Count = Annotated[int, Within(1)]
Number = Annotated[int, Within(0)]
Size = Annotated[float, Within(0)]
Share = Annotated[float, Within(0, 1)]
Positive = Annotated[float, Within(0, above=True)]
Seed = Annotated[int, Within(0, 2**32 - 1)]
Rate = Annotated[float, Within(0, 1e30)]
BYTES = "more than 0 KB, MB, GB or TB"


class Options:
    """The base of a section: every field is converted and checked by its annotation."""

    def __post_init__(self) -> None:
        for name in known_keys(type(self)):
            object.__setattr__(self, name, convert(hints_of(type(self))[name], getattr(self, name), name))


def hints_of(kind: type) -> dict[str, Any]:
    """The annotations of a dataclass, with their bounds."""
    return get_type_hints(kind, include_extras=True)


def read_section(kind: type[T], section: object, where: str = "") -> T:
    """The options `kind` with the values of a parsed YAML mapping; `where` is the dotted path of the section."""
    if isinstance(section, kind):
        return section
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
            expected=described(hints_of(kind)[missing[0]]),
            found=", ".join(map(str, section)) or "an empty section",
            next_step=f"write it, or give --set {dotted(where, missing[0])}=...",
        )
    try:
        return kind(**section)
    except BadRecipe as error:  # it names the key; the section is known here
        if not where:
            raise
        raise error.inside(where) from error


def write_section(value: Any) -> Any:
    """The plain data that `read_section` reads back: every field, except those that are None as by default."""
    if is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        absent = {field.name for field in fields(value) if field.default is None and found[field.name] is None}
        return {name: write_section(x) for name, x in found.items() if name not in absent}
    if isinstance(value, dict):
        return {key: write_section(x) for key, x in value.items()}
    return [write_section(x) for x in value] if isinstance(value, tuple) else value


def convert(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotation `hint` wants it, or a refusal."""
    origin, choices = get_origin(hint), get_args(hint)
    if origin is Annotated:
        plain = convert(choices[0], value, where)
        for rule in hint.__metadata__:
            rule.check(plain, where)
        return plain
    if origin in (Union, types.UnionType):
        return _either(hint, [x for x in choices if x is not type(None)], value, where)
    if is_dataclass(hint):
        return read_section(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        return _one_of(choices, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return _entries(choices, value, where)
    if origin is dict and isinstance(value, dict):
        return {convert(choices[0], key, where): convert(choices[1], x, dotted(where, key)) for key, x in value.items()}
    if hint is float and isinstance(value, str):
        value = _number(value)
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise wrong_type(where, f"{described(hint)} of at most 18 digits", value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise wrong_type(where, described(hint), value)


def _either(hint: Any, kinds: list[Any], value: Any, where: str) -> Any:
    """The first kind that fits; of one that could, its own refusal."""
    if value is None and type(None) in get_args(hint):
        return None
    fitting = [kind for kind in kinds if len(kinds) == 1 or _may_be(kind, value)]
    if len(fitting) == 1:
        return convert(fitting[0], value, where)
    for kind in fitting:
        try:
            return convert(kind, value, where)
        except BadRecipe:
            continue
    raise wrong_type(where, described(hint), value)


def _may_be(kind: Any, value: Any) -> bool:
    """Only text is one of some words, and only a mapping has names."""
    if get_origin(kind) is Literal:
        return isinstance(value, str)
    return isinstance(value, dict) or get_origin(kind) is not dict


def _one_of(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    value = SHORT[value] if isinstance(value, str) and SHORT.get(value) in choices else value
    if value in choices and type(value) in {type(choice) for choice in choices}:
        return value
    raise no_such_choice(where, [str(choice) for choice in choices], value)


def _entries(kinds: tuple[Any, ...], value: list[Any] | tuple[Any, ...], where: str) -> tuple[Any, ...]:
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
    if get_origin(hint) is Annotated:
        return ", ".join([described(get_args(hint)[0]), *map(str, hint.__metadata__)])
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join("nothing (null)" if x is type(None) else described(x) for x in get_args(hint))
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is dict:
        return f"names, each with {described(get_args(hint)[1])}"
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
    hints = hints_of(kind)
    for name in known_keys(kind):
        yield name
        for inner in (hints[name], *get_args(hints[name])):
            if isinstance(inner, type) and is_dataclass(inner):  # not a rule, which is one too
                yield from (f"{name}.{key}" for key in all_keys(inner))


def dotted(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def nearest(key: str, known: list[str]) -> str | None:
    """The known key whose last part is most like that of this one."""
    last = {name.rpartition(".")[2]: name for name in reversed(known)}
    found = get_close_matches(key.rpartition(".")[2], list(last), 1)
    return last[found[0]] if found else None


def no_such_choice(where: str, choices: list[str], value: object) -> BadRecipe:
    near = nearest(str(value), choices)
    step = f"did you mean {near}?" if near else "use one of these"
    return BadRecipe(f"{where} has no such choice", expected=", ".join(choices), found=value, next_step=step)


def unknown_key(where: str, here: Any, known: list[str]) -> BadRecipe:
    near = nearest(where, known)
    step = f"did you mean {near}?" if near else "remove it, or use one of these"
    return BadRecipe(f"{where} is not a key of this recipe", expected=", ".join(here), found=where, next_step=step)


def wrong_type(where: str, expected: str, value: object) -> BadRecipe:
    found = "nothing (null)" if value is None else f"{value!r} ({type(value).__name__})"
    step = "text that looks like a number or like yes and no needs quotes" if expected == "text" else f"give {expected}"
    return BadRecipe(f"{where} has the wrong type", expected=expected, found=found, next_step=step)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def bytes_of(text: str) -> int | None:
    """How many bytes a size like 5GB or 200MB is, or a plain number of them; None where it is no size above zero."""
    found = re.fullmatch(r"(\d{1,15})|(\d{1,6}(?:\.\d{1,6})?)([KMGT])B", text, re.ASCII | re.IGNORECASE)
    if not found:
        return None
    size = int(found[1]) if found[1] else float(found[2]) * 1000 ** (1 + "KMGT".index(found[3].upper()))
    return int(size) or None

"""tests/snapshots/tables.md: the table of every model class, of small random configurations, as the code says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import pytest

from helpers.classes import predicting
from helpers.pages import SNAPSHOTS, check_page
from helpers.random_models import config_of
from onebasin.archs import declare, known
from onebasin.archs.registry import lookup
from onebasin.archs.rotary import before_5
from onebasin.families import Family, Rep
from onebasin.spec import Axis, Leaf, Linear, ModelSpec
from onebasin.spec.model import kind_of
from onebasin.spec.ops import Op

INTRODUCTION = """# Tables

Which axis of which tensor lives where, and what else the tables say, for every model class: of one class, with a small
random configuration, then what other classes of that type have besides. Layers that are alike stand there once.
How to read it: [add an architecture](../../CONTRIBUTING.md#2-write-the-file).

"""
PARTS = ("spaces", "leaves", "linears", "norms", "scales", "attentions", "mirrors", "inputs", "outputs", "constants",
         "pieces", "renames", "untouched", "prefix")  # fmt: skip
KEPT = ("fields", "follows", "untied")  # of the registry


def default_of(kind: type, name: str) -> Any:
    """What a field of a record is if nothing is said."""
    field = next(x for x in fields(kind) if x.name == name)
    return field.default_factory() if field.default_factory is not MISSING else field.default


def told(value: Any) -> str:
    """A value in a line; of a record what is not as always."""
    match value:
        case Leaf():
            sizes = dict(value.view.sizes)
            axes = [f"{letter}{'' if stop - start == sizes[letter] else f'[{start}:{stop}]'}: {told(axis)}"
                    for letter, axis, start, stop in value.axes]  # fmt: skip
            rest = [f"{name} {getattr(value, name):g}" for name in ("plus", "times")
                    if getattr(value, name) != default_of(Leaf, name)]  # fmt: skip
            rows = [f"from row {value.view.start}"] if value.view.start else []
            return "; ".join([value.name, value.view.pattern, *map(told, value.picks), *axes, *rest, *rows])
        case Axis():
            more = [f"from {value.start}"] * bool(value.start) + ["in turns"] * value.interleaved
            return " ".join([value.space if value.rep is Rep.VEC else f"{value.space}.{value.rep.name.lower()}", *more])
        case Linear():
            ends = [told(getattr(value, x)) for x in ("norm", "optional", "softmax") if getattr(value, x)]
            names = [told(x).removeprefix(value.name) for x in (value.weight, value.bias) if x]
            return ", ".join([f"{value.name}: {value.reads} -> {value.writes}", *names, *ends])
        case Op() | Family():
            return value.name
        case Mapping():
            return "{" + ", ".join(f"{key}: {told(x)}" for key, x in value.items()) + "}"
        case list() | tuple() | set() | frozenset():
            return "(" + ", ".join(map(told, value)) + ")"
        case float():
            return f"{value:.6g}"
    if is_dataclass(value):
        parts = [(x.name, getattr(value, x.name)) for x in fields(value)]
        return ", ".join(f"{told(x)}" if name == "name" else f"{name} {told(x)}"
                         for name, x in parts if x != default_of(type(value), name))  # fmt: skip
    return str(value)


def lines(spec: ModelSpec) -> Iterator[tuple[str, str]]:
    """(part of the table, a line of it)."""
    for part in PARTS:
        found = getattr(spec, part)
        each = found.values() if isinstance(found, Mapping) and part not in ("inputs", "outputs", "constants") else None
        if each is None:
            each = found.items() if isinstance(found, Mapping) else found if isinstance(found, tuple) else [found]
        for x in each:
            yield part, kind_of(told(x))
    for name in spec.spaces:
        yield "families", kind_of(f"{name}: {spec.family(name).name}")


def section(model_type: str) -> str:
    """One class in full; of the others what is new."""
    first = predicting(model_type)
    arch = lookup(model_type, [first])[0]
    parts = [f"## {model_type}\n", "\n".join(f"- {name}: {told(getattr(arch, name))}" for name in KEPT) + "\n"]
    before: set[tuple[str, str]] = set()
    for name in (first, *(name for name in known()[model_type] if name != first)):
        config = config_of(model_type, 0)
        config.architectures = [name]
        new: dict[str, list[str]] = {}
        for part, line in dict.fromkeys(lines(declare(config))):
            if (part, line) not in before:
                new.setdefault(part, []).append(line)
                before.add((part, line))
        text = "\n".join(f"{part}:\n" + "\n".join(f"  {line}" for line in each) for part, each in new.items())
        parts.append(f"{name}\n\n```\n{text}\n```\n")
    return "\n".join(parts)


@pytest.mark.page
@pytest.mark.skipif(before_5(), reason="configurations differ between releases of transformers")
def test_the_page_shows_all_tables():
    check_page(SNAPSHOTS / "tables.md", INTRODUCTION + "\n".join(map(section, known())))

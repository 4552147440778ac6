"""All methods by name: what the command line's help, recipes, the default, model cards and the docs read.

A method is found because its file lies in this package.  In a recipe `method: NAME` chooses one, and the section NAME
holds its options.  An option that is itself a method is written as its name, with a section of its own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebasin.errors import BadRecipe
from onebasin.methods.method import Method
from onebasin.options import dotted, known_keys, no_such_choice, read_section, write_section
from onebasin.papers.options import PRESETS

if TYPE_CHECKING:
    import torch

    from onebasin.spec import ModelSpec

DEFAULT, IDENTITY = "auto", "identity"


@cache
def methods() -> dict[str, type[Method]]:
    """Every method by its name, the default first."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"onebasin.methods.{module.name}")
    found = {kind.name: kind for kind in Method.__subclasses__()}
    return dict(sorted(found.items(), key=lambda item: (item[0] != DEFAULT, item[0])))


def names() -> dict[str, str]:
    """What `--method` may be given, with a summary of each."""
    found = {}
    for name, kind in methods().items():
        found[name] = kind.summary
        found |= {short: summary for short, (summary, _) in kind.names.items()}
    return found


def table() -> str:
    """All methods as a table in Markdown."""
    rows = [f"| `{name}` | {methods()[name].needs if name in methods() else '—'} | {summary} |" for name, summary in
            names().items()]  # fmt: skip
    return "\n".join(["| `--method` | cannot do without | what it does |", "|---|---|---|", *rows])


def resolve_name(name: object, sections: dict[str, Any]) -> str:
    """The method of that name; a short name puts the options that it stands for into the method's section."""
    name = str(name)
    if name in methods():
        return name
    for kind in methods().values():
        if name in kind.names:
            section = sections.get(kind.name, {})
            if isinstance(section, dict):
                sections[kind.name] = _over(kind.names[name][1], section)
            return kind.name
    raise no_such_choice("method", list(names()), name)


def read_method(name: str, sections: dict[str, Any], device: torch.device, *, merges: bool = False) -> Method:
    """The method with the options of its section; sections that it uses are taken out of `sections`.

    `merges` says that only an average is asked for.
    """
    kind = methods()[name]
    kind.fill(sections, device, merges=merges)
    section = sections.pop(name, {})
    if isinstance(section, dict):
        section = _with_preset(dict(section), name)
        for key in known_keys(kind):
            if key in methods() and key in section:
                step = f"write it beside {name}, as {key}"
                raise BadRecipe(f"{name}.{key} is a section of its own", found=section[key], next_step=step)
            if (inner := _inner(key, section)) is not None:
                section[key] = None if inner == IDENTITY else read_method(inner, sections, device)
    return read_section(kind, section, name)


def _inner(key: str, section: Mapping[str, Any]) -> str | None:
    """The name of the method that an option stands for: by its own name, or by what the option `start` says."""
    if key == "start":
        start, starts = section.get(key, "activation"), [name for name, kind in methods().items() if not kind.learns]
        if start not in (*starts, IDENTITY):
            raise no_such_choice("learned.start", [*starts, IDENTITY], start)
        return str(start)
    return key if key in methods() else None


def _with_preset(section: dict[str, Any], where: str) -> dict[str, Any]:
    """`preset` stands for the options of that preset; options beside it replace them."""
    if "preset" not in section:
        return section
    name = str(section.pop("preset"))
    if name not in PRESETS:
        raise no_such_choice(dotted(where, "preset"), list(PRESETS), name)
    return _over(PRESETS[name], section)


def _over(defaults: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    """The section, with what it does not say taken from `defaults`; so in the sections inside it."""
    shared = [key for key in section if isinstance(section[key], dict) and isinstance(defaults.get(key), dict)]
    return {**defaults, **section, **{key: {**defaults[key], **section[key]} for key in shared}}


def write_method(method: Method) -> dict[str, Any]:
    """The sections of a recipe that `read_method` reads back."""
    own: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    for key in known_keys(type(method)):
        value = getattr(method, key)
        if isinstance(value, Method):
            inner |= write_method(value)
            own |= {key: value.name} if key != value.name else {}
        elif key == "start":
            own[key] = IDENTITY
        else:
            own[key] = write_section(value)
    return {method.name: own, **inner}


def default_method(spec: ModelSpec, *, task: bool) -> tuple[str, str]:
    """The method where none is named, and why, for the user."""
    if "logits" in spec.outputs:
        return DEFAULT, (
            f"No --method given: using {DEFAULT} (minutes on a CPU). For a quick result use --method weight."
        )
    name = "activation" if task else "weight"
    other = "--method auto learns from how alike it finds inputs"
    return name, f"No --method given: using {name}, for {spec.architecture} has no head; {other}."


def named_by(sections: Mapping[str, Any]) -> str | None:
    """The method that the sections of a recipe name where the recipe itself names none."""
    learned = sections.get("learned")
    if isinstance(learned, dict) and "start" in learned:
        return "learned"
    single = [name for name in sections if name in methods()]
    return {"learned": DEFAULT}.get(single[0], single[0]) if len(single) == 1 else None

"""Which classes of the registry a property is tried on, and with which of its options.

The registry grows, so `make test` looks at a class only once or twice: at every class where its own table or head could
be wrong, at one class of each model type where the code is the same for all its heads, at one of each kind where it is
the same for all tables; and with one option of several, taken in turn.  `make test-all` (ONEBASIN_EXAMPLES above 1)
tries every class with every option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any
from zlib import crc32

import pytest

from helpers.examples import TIMES
from helpers.random_models import CLASSES
from onebasin.archs import known

Classes = list[tuple[str, str]]  # (model type, name)
ALL = TIMES > 1
HEADS = [(model_type, name) for model_type, name in CLASSES if re.search("For[A-Z]|LMHead", name)]  # that say logits
KINDS = ("gpt2", "gpt_neox", "llama", "qwen3", "bert", "vit")  # tables that differ in kind


def predicting(model_type: str) -> str:
    """The first class of a model type that has a head, or the only one there is."""
    return next((name for kind, name in HEADS if kind == model_type), known()[model_type][-1])


def some(options: Sequence[Any], place: int, count: int = 1) -> list[Any]:
    """`count` neighbours among the options, from a place on; or all of them."""
    return list(options) if ALL else [options[(place + i) % len(options)] for i in range(min(count, len(options)))]


def place_of(model_type: str, name: str) -> int:
    """Where a class begins to choose.  It does not depend on other model types, and neighbours begin at neighbours."""
    return crc32(model_type.encode()) + known()[model_type].index(name)


def every_class(**options: Sequence[Any]) -> pytest.MarkDecorator:
    """Each class; with one of the values of each option in turn, such as `every_class(seed=range(6))`."""
    return _chosen(CLASSES, options)


def one_of_each_type(of: Classes = CLASSES, /, **options: Sequence[Any]) -> pytest.MarkDecorator:
    """One class of each model type, with a head; or all classes `of` some."""
    return _chosen(of if ALL else _predicting(known()), options)


def any_of_each_type() -> pytest.MarkDecorator:
    """One class of each model type, heads and bare models in turn."""
    return _chosen([(kind, x) for kind, names in known().items() for x in some(names, crc32(kind.encode()))], {})


def one_of_each_kind(of: Classes = CLASSES, /, **options: Sequence[Any]) -> pytest.MarkDecorator:
    """One class of each model type that differs in kind from the others; or all classes `of` some."""
    return _chosen(of if ALL else _predicting(KINDS), options)


def in_turn(whole: int = 1, **axes: Sequence[Any] | Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrise by the combinations of the first axes (`whole` of them), each with one value of each later axis.

    `in_turn(name=TINY, side=["one", "two"])` tries each name with one side; a mapping gives its values ids.
    """
    named = [dict(axis) if isinstance(axis, Mapping) else {str(x): x for x in axis} for axis in axes.values()]
    rows = []
    for i, first in enumerate(product(*named[:whole])):
        rows += [(*first, *rest) for rest in product(*(some(list(axis), i) for axis in named[whole:]))]
    values = [tuple(axis[key] for axis, key in zip(named, row, strict=True)) for row in rows]
    return pytest.mark.parametrize(tuple(axes), values, ids=["-".join(row) for row in rows])


def _predicting(model_types: Iterable[str]) -> Classes:
    return [(model_type, predicting(model_type)) for model_type in model_types]


def _chosen(classes: Classes, options: dict[str, Sequence[Any]]) -> pytest.MarkDecorator:
    rows = [(*of, *values) for of in classes for values in product(*(some(x, place_of(*of)) for x in options.values()))]
    ids = ["-".join([name, *map(str, values)]) for _, name, *values in rows]
    return pytest.mark.parametrize(("model_type", "name", *options), rows, ids=ids)

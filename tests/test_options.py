"""Options are dataclasses whose annotations are their rules: what does not fit is refused, in a file and in Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from helpers.recipe_texts import LEAST, TASK
from onebasin.errors import BadRecipe
from onebasin.healing.options import Healing
from onebasin.match.options import Gathering
from onebasin.methods.activation import Activation
from onebasin.methods.auto import Auto
from onebasin.methods.learned import Learned
from onebasin.methods.weight import Weight
from onebasin.options import Distinct, Options, Within, hints_of, known_keys, read_section, write_section, wrong_type
from onebasin.recipes import VERBS, parse
from onebasin.recipes.recipe import Model, Task, WriteAligned


@dataclass(frozen=True)
class Inner(Options):
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Everything(Options):
    """Every kind of annotation that a section may have."""

    inner: Inner
    both: tuple[Inner, Inner]
    words: tuple[str, ...] = ()
    kind: Literal["one", "two"] = "one"
    count: int | None = 7
    flag: bool = True
    rate: Annotated[float, Within(0)] = 1e-5
    part: Annotated[float, Within(0, 1, above=True)] | None = None
    some: Annotated[tuple[str, ...], Distinct()] = ("x",)
    mixed: int | str = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate > 1e300:
            raise BadRecipe("rate is absurd", expected="less", found=self.rate, next_step="think again")


WORDS = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=5)  # YAML folds odd line breaks
NUMBERS = st.integers(-(10**18) + 1, 10**18 - 1)  # longer ones are refused
inners = st.builds(Inner, WORDS, st.floats(allow_nan=False))
everythings = st.builds(
    Everything, inners, st.tuples(inners, inners), st.lists(WORDS, max_size=3).map(tuple),
    st.sampled_from(["one", "two"]), st.none() | NUMBERS, st.booleans(),
    st.floats(0, 1e300), st.none() | st.floats(0, 1, exclude_min=True),
    st.lists(WORDS, min_size=1, unique=True).map(tuple), NUMBERS | WORDS,
)  # fmt: skip


@given(everythings)
def test_a_section_is_read_as_it_was_written(value):
    text = yaml.safe_dump(write_section(value), allow_unicode=True)
    assert read_section(Everything, yaml.safe_load(text)) == value


GOOD = {"inner": {"name": "x"}, "both": [{"name": "y"}, {"name": "z", "share": 1}]}


@pytest.mark.parametrize(
    ("change", "path", "expected", "found"),
    [
        ({"inner": {"nam": "x"}}, "inner.nam is not a key", "name, share", "inner.nam"),
        ({"inner": {}}, "inner.name is missing", "text", "an empty section"),
        ({"inner": "x"}, "inner has the wrong type", "a section", "'x' (str)"),
        ({"inner": {"name": 3}}, "inner.name has the wrong type", "text", "3 (int)"),
        ({"inner": {"name": "x", "share": "half"}}, "inner.share has the wrong type", "a number", "'half'"),
        ({"inner": {"name": "x", "share": True}}, "inner.share has the wrong type", "a number", "True (bool)"),
        ({"both": [{"name": "x"}]}, "both has the wrong type", "2 entries", "1 entries"),
        ({"both": [{"name": "x"}, {"name": 1}]}, "both.1.name has the wrong type", "text", "1 (int)"),
        ({"words": "x"}, "words has the wrong type", "a list of text", "'x' (str)"),
        ({"words": [1]}, "words.0 has the wrong type", "text", "1 (int)"),
        ({"kind": "tow"}, "kind has no such choice", "one, two", "tow"),
        ({"kind": None}, "kind has no such choice", "one, two", None),
        ({"count": 1.0}, "count has the wrong type", "a whole number", "1.0 (float)"),
        ({"count": False}, "count has the wrong type", "a whole number", "False (bool)"),
        ({"flag": 1}, "flag has the wrong type", "true or false", "1 (int)"),
        ({"flag": None}, "flag has the wrong type", "true or false", "nothing (null)"),
        ({"mixed": 0.5}, "mixed has the wrong type", "a whole number or text", "0.5 (float)"),
        ({"rate": -1}, "rate is out of range", "0 or more", "-1.0"),
        ({"rate": math.nan}, "rate is out of range", "0 or more", "nan"),
        ({"rate": math.inf}, "rate is out of range", "0 or more", "inf"),
        ({"rate": 1e301}, "rate is absurd", "less", "1e+301"),
        ({"part": 0}, "part is out of range", "from 0 to 1", "0.0"),
        ({"part": 1.5}, "part is out of range", "from 0 to 1", "1.5"),
        ({"some": []}, "some has the wrong entries", "each once", "nothing"),
        ({"some": ["y", "x", "y"]}, "some has the wrong entries", "each once", "y, x, y"),
        ({3: 1}, "3 is not a key", "inner, both", "3"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(change, path, expected, found):
    read_section(Everything, GOOD, "here")
    with pytest.raises(BadRecipe) as refused:
        read_section(Everything, {**GOOD, **change}, "here")
    error = refused.value
    assert error.what.startswith(f"here.{path}")
    assert expected in str(error.expected)
    assert found is None or found in str(error.found)
    assert error.next_step


@pytest.mark.parametrize(
    ("value", "expected", "step"),
    [
        (True, "text", "text that looks like a number or like yes and no needs quotes"),
        ("x", "a number", "give a number"),
    ],
)
def test_the_next_step_of_a_wrong_type(value, expected, step):
    assert wrong_type("key", expected, value).next_step == step


def test_python_is_refused_what_a_file_is():
    good = Everything(Inner("x"), (Inner("y"), Inner("z", 1)))
    assert good == read_section(Everything, GOOD)
    assert isinstance(good.both[1].share, float)
    with pytest.raises(BadRecipe, match="rate is out of range"):
        Everything(good.inner, good.both, rate=-1)
    with pytest.raises(BadRecipe, match=r"both\.1 has the wrong type"):
        Everything(good.inner, (good.inner, "z"))


def test_a_number_may_be_written_without_a_point():
    """YAML 1.1 reads 1e-5 as text and 1.0e-5 as a number."""
    assert yaml.safe_load("1e-5") == "1e-5"
    assert read_section(Inner, yaml.safe_load("{name: x, share: 1e-5}")).share == 1e-5
    assert read_section(Inner, {"name": "x", "share": 2}).share == 2.0


# ---- every option there is

NUMBER = ("many", None, True, [1])
WHOLE = (1.5, *NUMBER)
COUNT, ZERO = (0, -1, *WHOLE), (-1, *WHOLE)
SIZE = (-1e-9, math.nan, math.inf, *NUMBER)
FLAG = (1, "on", None)
TEXT = (3, True, ["x"])


def choice(*near: object) -> tuple[object, ...]:
    return (*near, "nonsense", 1, True, None)


def some_of(*near: object) -> tuple[object, ...]:
    """Wrong values of a list of words; the first word is a right one."""
    return ([], near[:1] * 2, ["nonsense"], [near[0], 1], near[0], None, *near[1:])


FAMILIES = {
    "residual": choice("invertible", "Orthogonal"), "inside": choice("scaled"), "units": choice("orthogonal"),
}  # fmt: skip
WRONG: dict[str, tuple[object, ...]] = {
    "weight.sweeps": COUNT, "weight.tol": SIZE, "weight.spaces": some_of("residual", ["residual", "qk"]),
    "weight.extra": choice("share"),
    **{f"{method}.{key}": wrong for method in ("weight", "activation") for key, wrong in FAMILIES.items()},
    "weight.paper.guard": FLAG, "weight.paper.moments": choice("circuit"), "weight.paper.weighting": choice("balance"),
    "weight.paper.head_metric": choice("l1"), "weight.paper.unit_cost": choice("cosine"),
    "learned.learn": some_of("residual", ["attention"], ["residual", "scale"]), "learned.two_sided": FLAG,
    "learned.recentre_every": ZERO, "learned.loss": choice("labels"), "learned.path": choice("scenic"),
    "learned.law": choice("near-b"), "learned.alpha": (0, *SIZE), "learned.augment": FLAG, "learned.dropout": FLAG,
    "learned.steps": COUNT, "learned.batch": COUNT, "learned.accumulate": COUNT, "learned.optimizer": choice("sgd"),
    "learned.lr": SIZE, "learned.weight_decay": SIZE, "learned.warmup": (1.1, *SIZE), "learned.clip": SIZE,
    "learned.eval_every": COUNT, "learned.patience": ZERO, "learned.log_every": COUNT, "learned.save_every": COUNT,
    "learned.dtype": choice("float16"), "learned.compile": choice("on"), "learned.checkpointing": FLAG,
    "learned.seed": ZERO, "learned.start": ("auto", "learned", "nonsense", 3, True),
    "learned.paper.law": ("middle", "nonsense", 1), "learned.paper.permutations": choice("hard"),
    "learned.paper.residual": choice("invertible"), "learned.paper.assign_every": COUNT,
    "learned.paper.sinkhorn": COUNT, "learned.paper.noise": SIZE, "learned.paper.rotation": choice("givens"),
    "learned.paper.scale": FLAG,
    "auto.weight": (3, "x", None), "auto.activation": (3, "x", None), "auto.learned": (3, "x", None),
    "universe.rounds": COUNT, "universe.tol": SIZE, "universe.folder": TEXT,
    "models.0.path": (*TEXT, None), "models.0.revision": TEXT,
    "task.data": (*TEXT, None), "task.samples": ("many", 1.5, True), "task.length": ("long", 1.5, True),
    "task.batch_size": COUNT, "task.weights": ({"news": 1}, {"news": "much"}, 1, "x"),
    "heal.steps": ZERO, "heal.batch": COUNT, "heal.lr": SIZE, "heal.weight_decay": SIZE, "heal.warmup": (1.1, *SIZE),
    "heal.clip": SIZE, "heal.dropout": FLAG, "heal.augment": FLAG, "heal.compare": FLAG,
    "heal.dtype": choice("float16"), "heal.seed": ZERO,
    "write.out": TEXT, "write.dtype": ("float8", "F32", 32), "write.max_shard_size": (*TEXT, None),
    "write.mergekit": FLAG,
    "device": choice("gpu"), "memory": ({"gpu": "much"}, {"host": "-1GB"}, {"gpu": "0GB"}, {"disk": "1GB"}, 16),
    "share": (-0.1, 1.1, math.nan, "half", True, [1]),
    "shares": ([1, -1], [1, math.nan], [1, "x"], [1, True], 1, "1,1"),
    "path": choice("scenic"), "points": (1, 0, 2.5, "3", True),
}  # fmt: skip
METHODS = {"weight": Weight, "activation": Activation, "learned": Learned, "auto": Auto}
SECTIONS = {
    **METHODS, "universe": Gathering, "task": Task, "write": WriteAligned, "heal": Healing, "models.0": Model,
}  # fmt: skip


def keys(kind: type, where: str) -> Iterator[str]:
    """Every option of a section, and of the sections inside it that are no methods."""
    for name in known_keys(kind):
        inner = hints_of(kind)[name]
        if is_dataclass(inner) and kind is not Auto:
            yield from keys(inner, f"{where}.{name}")
        else:
            yield f"{where}.{name}"


def test_the_table_has_every_option():
    sections = {key for where, kind in SECTIONS.items() for key in keys(kind, where)}
    own = {key for kind in VERBS.values() for key in known_keys(kind)}
    assert set(WRONG) == sections | own - {"models", "method", "universe", "task", "write", "heal"}


def least(key: str) -> dict[str, Any]:
    """A good document for the option."""
    section = key.partition(".")[0]
    models = {"models": [{"path": "a"}, {"path": "b"}]}
    if section in METHODS:
        return {**LEAST["align"], "method": section, **({} if section == "weight" else {"task": TASK})}
    if section == "heal":
        return {**LEAST["merge"], "task": TASK, "heal": {"steps": 1}}
    if section in ("universe", "share", "shares"):
        return {**LEAST["merge"], **({"models": ["a", "b", "c"]} if section == "universe" else {})}
    return {**LEAST["barrier" if section in ("path", "points", "task") else "align"], **models}


def put(document: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    """The document with a value at a dotted key."""
    whole = inside = deepcopy(document)
    *sections, last = key.split(".")
    for section in sections:
        inside = inside[int(section)] if isinstance(inside, list) else inside.setdefault(section, {})
    inside[last] = value
    return whole


@pytest.mark.parametrize("key", WRONG)
def test_a_file_with_a_wrong_value_is_refused_with_its_key(key):
    parse(least(key))
    for value in WRONG[key]:
        text = yaml.safe_dump(put(least(key), key, value))
        with pytest.raises(BadRecipe) as refused:
            parse(yaml.safe_load(text))
        assert key in str(refused.value), value
        assert refused.value.next_step


@pytest.mark.parametrize("key", WRONG)
def test_python_with_a_wrong_value_is_refused_with_its_key(key):
    """A method is made with its options; the rest of a recipe, with its sections."""
    section, _, option = key.partition(".")
    document = {name: value for name, value in least(key).items() if name not in ("onebasin", "verb", "method")}
    document["models"] = [{"path": name} if isinstance(name, str) else name for name in document["models"]]
    kind, given, name = VERBS[least(key)["verb"]], document, key
    if section in METHODS:
        kind, given, name = METHODS[section], {}, option
    for value in WRONG[key]:
        with pytest.raises(BadRecipe) as refused:
            kind(**put(given, name, value))
        assert name in refused.value.what, value

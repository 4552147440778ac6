"""What a table or figure of a paper needs: models to train, paths to measure between them, published numbers.

All of it is plain data, so that what lies in a folder already can be compared with what is asked for.  Free of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

BUDGETS = ("tiny", "small", "paper")
Table = list[dict[str, Any]]
TURNED = "turned, rad"  # by learning: the middle of the angles of the stream's planes, from where matching put it
NAIVE: dict[str, Any] = {}  # the method that leaves the models as they are


@dataclass(frozen=True)
class Course:
    """How a model is trained: AdamW, or Adam with the decay as an L2 term that spares norms and biases.

    Linear warm-up, then a half cosine to zero; gradients cut to norm 1.  With `patience` the model that did best on
    the validation data is kept, and training ends when so many validations in a row were no better.
    """

    steps: int
    batch: int
    lr: float
    decay: float
    optimizer: Literal["adamw", "l2"] = "adamw"
    eval_every: int = 50
    patience: int = 0


@dataclass(frozen=True)
class Member:
    """One trained model: its folder, the seed of its weights and of the order of its data, what is drawn `fresh`."""

    name: str
    seed: int
    fresh: str | None = None


@dataclass(frozen=True)
class Training:
    """Models of one shape on one set of data, trained side by side.

    `model` is the kind and its sizes.  With `base` every member begins as that trained model, but for the part that it
    draws fresh.
    """

    model: Mapping[str, Any]
    data: str
    course: Course
    members: tuple[Member, ...]
    base: str | None = None

    def settings(self, member: Member) -> dict[str, Any]:
        """All that one of the models depends on."""
        return asdict(replace(self, members=(member,)))


@dataclass(frozen=True)
class Row:
    """What lies between trained models, two or three, after a method: `group` and `label` say where in the table.

    `method` is a section of a recipe ({"method": NAME, NAME: options}), or nothing.  Its "heads" are an order for the
    heads of the first layer, taken afterwards.
    """

    group: str
    label: str
    models: tuple[str, ...]
    data: str
    method: Mapping[str, Any]
    paths: tuple[str, ...] = ("circuit", "factor")
    points: int = 11
    samples: int | None = None
    train_samples: int | None = None

    @property
    def key(self) -> str:
        words = f"{self.group} {self.label} {' '.join(self.models)}"
        return "".join(x if x.isalnum() or x in "-." else "_" for x in words)

    def settings(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """What is trained and what is measured, in the order of importance."""

    trainings: tuple[Training, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Published:
    """A number of a paper, as printed there; `where` it stands; `second_hand` if it was read in a summary."""

    value: str
    where: str
    second_hand: bool = False

    def __str__(self) -> str:
        return f"{self.value} (second-hand)" if self.second_hand else self.value


@dataclass(frozen=True)
class Entry:
    """A table or figure that can be reproduced.

    `plan` takes the budget and the number of pairs; `published` is by (group, label), and a group of the budget `tiny`
    has none.  `differs` says what is not as in the paper; `digest` makes the lines that are shown of those measured.
    """

    name: str
    title: str
    plan: Callable[[str, int], Plan]
    published: Mapping[tuple[str, str], Published]
    differs: str
    digest: Callable[[Table], Table] | None = None


def members(name: str, count: int) -> tuple[Member, ...]:
    """The models NAME-0, NAME-1, ... for so many pairs, none of which is in two of them."""
    return tuple(Member(f"{name}-{seed}", seed) for seed in range(2 * count))


def pairs(name: str, count: int) -> list[tuple[str, str]]:
    """Those pairs."""
    return [(f"{name}-{2 * i}", f"{name}-{2 * i + 1}") for i in range(count)]


def slug(group: str) -> str:
    """A group as part of a folder's name."""
    return group.lower().replace(",", "").replace(" ", "-")

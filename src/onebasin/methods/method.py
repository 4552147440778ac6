"""Method: how models are brought into one basis.  One class in one file of this package is all that a method is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from onebasin.events import Callback
from onebasin.match.options import Gathering
from onebasin.match.room import Memory
from onebasin.options import Options
from onebasin.processes.devices import for_float64

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from onebasin.checkpoint import Checkpoint
    from onebasin.ensemble.aligned import Aligned
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.ensemble.memory import Work
    from onebasin.ensemble.work import Load
    from onebasin.spec import ModelSpec
    from onebasin.tasks import AnyTask, Training

BATCH = 64
HELD, LABELS = 1000, 50_000  # samples that learning holds back, and labels of them, at most
UNSEEN = "held back: the method has not seen them"
CHOSE = "held back: nothing was learned from them, but they chose which maps are kept"


class Tick(Protocol):
    """Told what is being done, and how much of it is."""

    def __call__(self, step: str, done: float = 0, total: float = 0) -> None: ...


def silent(step: str, done: float = 0, total: float = 0) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Inputs:
    """How many samples a run has to look at, and how many vectors of the stream each of them becomes."""

    samples: int
    tokens: int


@dataclass(frozen=True)
class Job:
    """What a run has besides its models and its data.

    `state` is where learning keeps what it has reached; `gathering` is how more than two models come together;
    `batch_size` is how many inputs are run at a time to look at activations; `memory` is the most to take; `tick` is
    told what is being done, and `told` how learning goes.
    """

    device: torch.device
    state: Path | None = None
    gathering: Gathering = field(default_factory=Gathering)
    batch_size: int = BATCH
    tick: Tick = silent
    memory: Memory = field(default_factory=Memory)
    told: Callback = field(default_factory=Callback)

    @property
    def solver(self) -> torch.device:
        """Where matches are solved, in float64."""
        return for_float64(self.device)


def held_back(data: Training) -> int:
    """How many samples validate a run: a tenth of them, and no more than tell; a window of text has many labels."""
    return max(1, min(HELD, len(data) // 10, LABELS // data.length))


class Method(Options):
    """The base of all methods.  A method is a frozen dataclass; its fields are its options, the keys of its section.

    `name` is what `--method` is given, `summary` says in half a sentence what it does, and `needs` what it cannot do
    without: nothing, or inputs.  A method that `learns` holds all models in memory.  `names` are short names for some
    of its options: name -> (summary, section).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[Literal["nothing", "inputs"]] = "nothing"
    learns: ClassVar[bool] = False
    names: ClassVar[Mapping[str, tuple[str, dict[str, Any]]]] = {}

    @property
    def exact(self) -> bool:
        """Whether the moved models compute what they did."""
        return True

    @property
    def for_merges(self) -> bool:
        """Whether what it finds belongs to an average, and not to the models alone."""
        return False

    @classmethod
    def fill(cls, sections: dict[str, Any], device: torch.device, *, merges: bool = False) -> None:
        """Put defaults that depend on the device into the sections of a recipe, or on whether it writes an average."""

    def gathers(self, gathering: Gathering) -> bool:
        """Whether the method has a use for how models come together."""
        return True

    def resolve(self, data: AnyTask | None) -> Self:
        """The options as they will be: what depends on the data is decided, so that a recipe records what ran."""
        return self

    def suited(self, form: Checkpoint) -> Self:
        """Without defaults that are not for models like this one, which is in canonical form."""
        return self

    def check(self, models: Sequence[Checkpoint]) -> None:
        """Refuse models that the method cannot align, before any work."""

    def work(self, spec: ModelSpec) -> Work:
        """What kind of work it is, for an estimate of its memory; `spec` is in canonical form."""
        return "learn" if self.learns or self.needs == "inputs" else "align"

    def stages(self, spec: ModelSpec, inputs: Inputs | None) -> dict[str, Load]:
        """What it takes to bring one model into the basis of another, stage by stage, for an estimate of its time."""
        return {}

    def why_canonical(self, spec: ModelSpec) -> str | None:
        """Why the first model cannot stay as it is, if that is known before; `spec` is in canonical form."""
        return None

    def to_measure_on(self, data: AnyTask) -> tuple[AnyTask, str]:
        """Samples of the data to measure the result on, and what the method knew of them: nothing, where it can be."""
        return data, UNSEEN if self.needs == "nothing" and not self.learns else "the method has seen them"

    def split(self, data: AnyTask) -> tuple[Training, AnyTask]:
        """(what may be learned from, what is held back from learning)."""
        from onebasin.tasks import training

        whole = training(data)
        return whole.split(held_back(whole))

    @abstractmethod
    def run(self, ensemble: Ensemble, data: AnyTask | None, job: Job) -> Aligned:
        """Bring all models into one basis."""

"""One base class for everything that can go wrong on the user's side.

Each error names what it is about (tensor, axis, space), what was expected, what was found and what to do next, so that
the message can be acted on without reading the code.
"""

from __future__ import annotations

_FIELDS = ("tensor", "axis", "space", "expected", "found", "next_step")
LONGEST = 500  # characters of a value that a message shows


def one_line(value: object) -> str:
    """Text from outside as it may be shown: in one line, and what cannot be printed as its code."""
    words = " ".join(str(value).splitlines())
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in words)


def _write(value: object) -> str:
    text = one_line(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


class OnebasinError(Exception):
    """A refusal with its reason.  `what` is one sentence; the keyword fields become one line each."""

    def __init__(
        self,
        what: str,
        *,
        tensor: str | None = None,
        axis: object = None,
        space: str | None = None,
        expected: object = None,
        found: object = None,
        next_step: str | None = None,
    ) -> None:
        self.what, self.tensor, self.axis, self.space = what, tensor, axis, space
        self.expected, self.found, self.next_step = expected, found, next_step
        given = {name.replace("_", " "): getattr(self, name) for name in _FIELDS}
        lines = [f"  {name}: {_write(value)}" for name, value in given.items() if value is not None]
        super().__init__("\n".join([_write(what), *lines]))


class BadCheckpoint(OnebasinError):
    """The folder cannot be read as a checkpoint: damaged, missing, foreign, or not safe to open."""


class UnknownArchitecture(OnebasinError):
    """No table describes this `model_type`, or this head of it."""


class UnclaimedTensor(OnebasinError):
    """Table and file disagree about which entries exist: an entry is unclaimed, missing or claimed twice."""


class LayoutMismatch(OnebasinError):
    """A tensor has another shape than the configuration says."""


class NotInFamily(OnebasinError):
    """A map does not belong to the family of symmetries of the space it is used on."""


class NotExpressible(OnebasinError):
    """An exact rewrite has no place in the stock architecture (a missing bias, a zero gain, a tie)."""


class Incompatible(OnebasinError):
    """Two models (or a model and an alignment) do not have the same spaces."""


class BadTask(OnebasinError):
    """The data cannot be read, or do not fit the model they are meant for."""


class BadRecipe(OnebasinError):
    """A recipe or an option does not keep to the rules: an unknown or missing key, a wrong type or value."""

    def inside(self, section: str) -> BadRecipe:
        """The same refusal of a key in a section."""
        return BadRecipe(f"{section}.{self.what}", expected=self.expected, found=self.found, next_step=self.next_step)


class BadOutput(OnebasinError):
    """The output folder cannot be written."""


class BrokenPromise(OnebasinError):
    """A result is not what it promises to be: it is not written."""


class Diverged(OnebasinError):
    """Learning met numbers that are not finite."""


class Stopped(OnebasinError):
    """A signal ended the work; what it had reached is kept."""


class Lost(OnebasinError):
    """Another process of a shared run has ended or cannot go on."""

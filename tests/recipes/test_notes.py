"""The warnings of a run: its own are kept and shown once, others go their usual way."""

from __future__ import annotations

import warnings

from onebasin.recipes.notes import HERE, keep_warnings

OWN, FOREIGN = str(HERE / "a.py"), "elsewhere.py"


def said(text: str, kind: type[Warning] = UserWarning, file: str = OWN, module: str = "onebasin.a") -> None:
    warnings.warn_explicit(text, kind, file, 1, module=module)


def test_own_warnings_are_kept_once_and_others_are_left_alone():
    with warnings.catch_warnings(record=True) as usual:
        warnings.simplefilter("ignore")
        told: list[str] = []
        with keep_warnings(told.append) as notes:
            for _ in range(2):
                said("few samples")
            said("old", DeprecationWarning)  # Python hides these, and so does a run
            said("theirs", file=FOREIGN, module="elsewhere")
    assert notes == told == ["few samples"]
    assert usual == []


def test_without_a_listener_python_shows_them():
    with warnings.catch_warnings(record=True) as usual, keep_warnings() as notes:
        said("few samples")
    assert notes == [str(x.message) for x in usual] == ["few samples"]

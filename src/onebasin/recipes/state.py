"""The folder OUT.state, where learning keeps what it has reached: known by its mark, and by all that it depends on.

A folder of that name without the mark is somebody else's: it is neither used nor removed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onebasin.checkpoint import json_text, whole_folder
from onebasin.checkpoint.folder import read_json_object
from onebasin.ensemble.storage import digest
from onebasin.ensemble.words import letter
from onebasin.errors import BadOutput
from onebasin.learn.state import FILE
from onebasin.methods.registry import write_method
from onebasin.recipes.plan import Plan
from onebasin.tasks import AnyTask, Mixture, Task, parts_of

MARK, FORMAT = "onebasin-state.json", "onebasin state 1"


def check_state(folder: Path, *, resume: bool) -> None:
    """Refuse a folder that is not a state; and a state, unless it is to be gone on with.  Before any work."""
    if not folder.exists():
        return
    if not (folder / MARK).is_file() or read_json_object(folder / MARK).get("format") != FORMAT:
        raise BadOutput(
            f"{folder} stands where learning keeps its state, and is no state of this version",
            expected=f"{MARK} in it, format {FORMAT!r}",
            next_step="give another output folder, or move this one away",
        )
    if not resume:
        raise BadOutput(
            "Learning that was interrupted has left its state beside the output folder",
            found=folder,
            next_step="give --resume to go on with it, or remove it to begin anew",
        )


def check_dependencies(folder: Path, plan: Plan) -> None:
    """Refuse a state that was begun with other models, data or options."""
    if not folder.exists() or not plan.alignment[1].learns:
        return
    stored, now = read_json_object(folder / MARK)["depends on"], dependencies(plan)
    odd = [name for name in {**now, **stored} if now.get(name) != stored.get(name)]
    if odd:
        raise BadOutput(
            f"The state in {folder} was begun with another value of: {', '.join(odd)}",
            expected=stored.get(odd[0]),
            found=now.get(odd[0]),
            next_step="give what it was begun with to go on, or remove it to begin anew",
        )


@contextmanager
def kept_state(folder: Path | None, plan: Plan, *, first: bool = True) -> Iterator[None]:
    """A folder for the state of a run; it stays if the run ends early and there is something to go on with.

    The `first` of several processes keeps it.
    """
    if folder is None or not plan.alignment[1].learns or not first:
        yield
        return
    if not folder.exists():
        mark = {"format": FORMAT, "depends on": dependencies(plan)}
        with whole_folder(folder) as fresh:
            (fresh / MARK).write_text(json_text(mark), encoding="utf-8")
    try:
        yield
    except BaseException:
        if not (folder / FILE).is_file():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def dependencies(plan: Plan) -> dict[str, str]:
    """What a state depends on -> a digest, or the value itself where it is short."""
    recipe, method = plan.alignment
    found = {f"the weights of {letter(i)}": digest(model) for i, model in enumerate(plan.models)}
    found["the data"] = "none" if plan.data is None else _digest_of_data(plan.data)
    for section, options in write_method(method).items():
        found |= {f"{section}.{key}": json.dumps(value, sort_keys=True) for key, value in options.items()}
    return {**found, "the method": method.name, "universe": repr(recipe.universe)}


def _digest_of_data(data: AnyTask) -> str:
    known = hashlib.sha256()
    for task, one, weight in parts_of(data):
        assert isinstance(one, Task)
        known.update(f"{task} {weight}".encode() if isinstance(data, Mixture) else b"")
        for name, tensor in (*sorted(one.inputs.items()), ("labels", one.labels)):
            known.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            known.update(tensor.contiguous().cpu().numpy().data)
    return known.hexdigest()

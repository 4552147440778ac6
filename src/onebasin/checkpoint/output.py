"""Output folders that appear whole or not at all, and the files of an input folder that belong into them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onebasin.errors import BadOutput
from onebasin.names import as_output
from onebasin.processes.signals import interruptible

MARGIN = 32 * 2**20
"""Bytes kept free beside the weights, for the configuration, the tokenizer and the report."""

OURS = {"certificate.json": {"output_drift", "aligned"}, "barrier.json": {"barrier"}, "demo.json": {"rows"}}
"""The file that every output of ours has, and keys of which it holds one."""

LARGEST = 100 * 2**20
"""Bytes; the largest tokenizers are a third of this."""

SUFFIXES = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe", ".vocab", ".codes", ".spm")
LEGAL = ("license", "licence", "notice", "copying", "use_policy")
_TEMPLATES = "additional_chat_templates"
_WRITTEN_ANEW = {"config.json", "certificate.json", "alignment.json", "barrier.json"}
_TRAINING = {"trainer_state.json", "training_args.json", "all_results.json", "train_results.json", "eval_results.json"}


def check_output(out: Path, nbytes: int, *, overwrite: bool = False) -> None:
    """Raise `BadOutput` unless `out` can become a new folder with `nbytes` of weights in it.  Writes nothing.

    With `overwrite` it may also be one that onebasin has written.
    """
    out = as_output(out).resolve()
    parent = out.parent
    if out.exists() and not out.is_dir():
        raise BadOutput(f"{out} is a file", expected="a new folder", next_step="give another output folder")
    if out.is_dir() and any(out.iterdir()) and not (overwrite and is_ours(out)):
        if overwrite:
            step = "give another output folder, or remove this one yourself"
            raise BadOutput(f"{out} was not written by onebasin", expected=" or ".join(OURS), next_step=step)
        step = "give another output folder, or remove this one" + "; --overwrite replaces it" * is_ours(out)
        raise BadOutput(f"{out} is not empty", expected="a new or empty folder", next_step=step)
    if out.is_mount():
        step = f"give a folder inside it: {out / 'model'}"
        raise BadOutput(f"{out} is a mount point, which no folder can replace", next_step=step)
    if not parent.is_dir():
        raise BadOutput(f"{parent} is not a folder", next_step=f"create it first: mkdir -p {parent}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise BadOutput(f"{parent} cannot be written to", next_step="give an output folder in a place you may write to")
    free, needed = shutil.disk_usage(parent).free, nbytes + MARGIN
    if free < needed:
        raise BadOutput(
            f"there is not enough disk space for {out}",
            expected=f"{needed / 1e9:.2f} GB free",
            found=f"{free / 1e9:.2f} GB",
            next_step="free some space, or give an output folder on another disk",
        )


def is_ours(folder: Path) -> bool:
    """Whether a folder holds what `align`, `merge`, `widen`, `barrier` or `demo` write."""
    for name, keys in OURS.items():
        try:
            found = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(found, dict) and keys & found.keys():
            return True
    return False


@contextmanager
def whole_folder(out: Path, nbytes: int = 0, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden folder beside `out` to write to; it becomes `out` at the end.

    If the block fails or is interrupted, by SIGTERM or SIGHUP too, the hidden folder is removed and `out` is as before.
    """
    check_output(out, nbytes, overwrite=overwrite)
    out = out.resolve()
    partial, old = (out.with_name(f".{out.name}.{what}-{secrets.token_hex(4)}") for what in ("partial", "old"))
    with interruptible():
        try:
            partial.mkdir()
            yield partial
            if overwrite and out.is_dir():
                out.replace(old)
            partial.replace(out)
        except OSError as error:
            step = "nothing was written; check the disk and try again"
            raise BadOutput(f"{out} could not be written", found=error, next_step=step) from error
        finally:
            if old.exists() and not out.exists():
                old.replace(out)
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


def is_carried(name: str) -> bool:
    """Whether a file of this name is carried over.

    Allowed are tokenizer, processor, generation and chat-template files, told by their suffix, and licences.  Denied
    are thereby weights, pickles, code and the model card; and by name what is written anew, shard indices and the
    state of a training run.
    """
    name = name.lower()
    denied = name in _WRITTEN_ANEW | _TRAINING or name.endswith(".index.json") or name.startswith(".")
    return not denied and (name.endswith(SUFFIXES) or (_is_legal(name) and not name.endswith(".py")))


def _is_legal(name: str) -> bool:
    return name.lower().startswith(LEGAL)


def carry_files(source: Path, target: Path, licences: Path | None = None) -> None:
    """Copy the carried files of one folder to another, the chat templates one level down included.

    Licences are those in the folder `licences`, if that is another.  A link that leads out of its folder is passed
    over: what it shows may be private.
    """
    if licences is not None and licences != source:
        _carry([file for file in licences.iterdir() if _is_legal(file.name)], licences, target)
        _carry([file for file in _candidates(source) if not _is_legal(file.name)], source, target)
    else:
        _carry(_candidates(source), source, target)


def _candidates(source: Path) -> list[Path]:
    return [*source.iterdir(), *(source / _TEMPLATES).glob("*.jinja")]


def _carry(files: list[Path], source: Path, target: Path) -> None:
    for file in sorted(files):
        if not file.is_file() or not is_carried(file.name) or file.stat().st_size > LARGEST:
            continue
        if not belongs(file, source):
            warnings.warn(f"{file.name} is not carried over: it is a link out of {source}", stacklevel=2)
            continue
        copy = target / file.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
        if copy.name.endswith("config.json"):
            _forget_code(copy)


def belongs(file: Path, source: Path) -> bool:
    """Whether a file lies in the folder, or is a link of the Hub's cache: snapshots/COMMIT/FILE -> blobs/HASH."""
    real, folder = file.resolve(), source.resolve()
    cached = folder.parent.name == "snapshots" and real.parent == folder.parents[1] / "blobs"
    return real.is_relative_to(folder) or cached


def _forget_code(file: Path) -> None:
    """Take `auto_map` out of a configuration: it names code, which is not carried over."""
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return
    if isinstance(config, dict) and config.pop("auto_map", None) is not None:
        file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

"""What stands where on a labelled axis: tokens by the files of the tokenizer, classes by config.json."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.folder import read_json_object
from onebasin.errors import BadCheckpoint, Incompatible
from onebasin.labels.rewrites import CLASSES, TOKENS, lengths

SHOWN = 3  # names in a message
FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "added_tokens.json", "tokenizer_config.json")  # that name tokens
STEPS = {
    TOKENS: "give both models one tokenizer first: rows of their embeddings mean tokens that the other lacks",
    CLASSES: "give both models the same classes, or the same names for them (id2label in config.json)",
}
WORDS = {TOKENS: "tokens", CLASSES: "classes"}


def names_of(model: Checkpoint, letter: str) -> dict[str, int]:
    """Name -> place of the tokens or classes of a model; nothing where it names none."""
    return vocabulary(model.folder) if letter == TOKENS else classes(model.config)


def order_by_name(a: Checkpoint, b: Checkpoint, letter: str) -> list[int] | None:
    """Where `b` has what `a` has at each place; None where it is the same place, or nothing has a name.

    Places without a name keep their order.  Of axes of unequal length nothing is said.
    """
    if letter == TOKENS and same_tokenizer(a.folder, b.folder):
        return None
    mine, theirs = names_of(a, letter), names_of(b, letter)
    if not mine or not theirs or mine == theirs:
        return None
    _check_same(mine, theirs, letter)
    size = lengths(a.spec)[letter]
    if lengths(b.spec)[letter] != size:
        return None
    for names in (mine, theirs):
        _check_places(names, size, letter)
    rest = [[i for i in range(size) if i not in taken] for taken in (set(mine.values()), set(theirs.values()))]
    found = {**{place: theirs[name] for name, place in mine.items()}, **dict(zip(*rest, strict=True))}
    return [found[i] for i in range(size)]


def _check_same(mine: Mapping[str, int], theirs: Mapping[str, int], letter: str) -> None:
    if mine.keys() != theirs.keys():
        raise Incompatible(
            f"The models do not name the same {WORDS[letter]}",
            expected=_only(mine, theirs),
            found=_only(theirs, mine),
            next_step=STEPS[letter],
        )


def _only(names: Mapping[str, int], others: Mapping[str, int]) -> str:
    """How many names, and the first that the other model lacks, in words."""
    own = sorted((name for name in names if name not in others), key=names.__getitem__)
    said = ", ".join(f"{name!r} ({names[name]})" for name in own[:SHOWN])
    more = f" and {len(own) - SHOWN:,} more" if len(own) > SHOWN else ""
    return f"{len(names):,}, here alone {said}{more}" if own else f"{len(names):,}, all known to the other"


def _check_places(names: Mapping[str, int], size: int, letter: str) -> None:
    """Every name has a place of its own on the axis: otherwise nothing can be reordered by name."""
    known: dict[int, str] = {}
    for name, place in names.items():
        if place in known or not 0 <= place < size:
            raise Incompatible(
                f"The {WORDS[letter]} of a model cannot be reordered by name: one has no place of its own",
                expected=f"a place of its own below {size:,}",
                found=f"{name!r} at {place}" + (f", as {known[place]!r}" if place in known else ""),
                next_step=f"give both models their {WORDS[letter]} in one order first",
            )
        known[place] = name


def classes(config: Mapping[str, Any]) -> dict[str, int]:
    """Name -> place of the classes in a configuration that names them."""
    listed = config.get("id2label") or {}
    named = {str(name): int(place) for place, name in listed.items()}
    if len(named) < len(listed):  # two of one name: nothing can be said of them
        return {f"{name} ({place})": int(place) for place, name in listed.items()}
    return named


def has_tokenizer(folder: Path) -> bool:
    """Whether some file of the folder names tokens."""
    return any((folder / name).is_file() for name in FILES)


def same_tokenizer(a: Path, b: Path) -> bool:
    """Whether all files that name tokens are the same, byte for byte: large ones need not be read twice."""
    here, there = ({name for name in FILES if (folder / name).is_file()} for folder in (a, b))
    return here == there and all(filecmp.cmp(a / name, b / name, shallow=False) for name in here)


def vocabulary(folder: Path) -> dict[str, int]:
    """Token -> id, from whichever tokenizer files the folder has; tokens that were added later included."""
    tokenizer = json_object(folder / "tokenizer.json")
    try:
        known = (tokenizer.get("model") or {}).get("vocab") or json_object(folder / "vocab.json")
        added = {entry["content"]: entry["id"] for entry in tokenizer.get("added_tokens") or []}
        if isinstance(known, list):
            known = {entry[0] if isinstance(entry, list) else entry: i for i, entry in enumerate(known)}
        elif not known and (folder / "vocab.txt").is_file():
            lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
            known = {token: i for i, token in enumerate(lines)}
        decoder = json_object(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
        added |= {entry["content"]: int(i) for i, entry in decoder.items()}
        return {**known, **added, **json_object(folder / "added_tokens.json")}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        step = "take the tokenizer files from the original model"
        raise BadCheckpoint(f"The tokenizer of {folder} cannot be read", found=repr(error), next_step=step) from error


def json_object(path: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing where there is none."""
    return read_json_object(path) if path.is_file() else {}

"""Recipes of earlier releases: which of their keys are called otherwise now, and which are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onebasin.errors import BadRecipe

SECTIONS = {"matching": "weight", "learn": "learned"}  # section -> what it is called now
PAPERS = {
    "weight": ("guard", "moments", "weighting", "head_metric", "unit_cost"),
    "learned": ("permutations", "assign_every", "sinkhorn", "noise", "rotation"),
}
MOVED = {  # key, or key=value -> what to write now
    "start": "learned.start",
    "weights": "shares",
    **{f"{section}.{key}": f"{section}.paper.{key}" for section, keys in PAPERS.items() for key in keys},
    **{f"learned.law={law}": f"learned.paper.law={law}" for law in ("half", "full", "normal", "near-a")},
    "learned.law=near-b": "nothing: exchange the models and use learned.paper.law=near-a",
    "learned.law=small-end": "learned.paper.law=near-a, with the smaller model first",
    "learned.turns": "nothing: all latents move together",
    "learned.invertible": "nothing: the maps inside heads stay invertible wherever the latents go",
    "learned.optimizer=adam": "learned.optimizer=adamw",
    "learned.schedule": "nothing: the rate falls by a half cosine",
    "learned.tf32": "nothing: products of float32 use it on a GPU",
    **dict.fromkeys((f"learned.compile={mode}" for mode in ("default", "reduce-overhead", "max-autotune")),
                    "learned.compile=auto"),
    "activation.weights": "nothing: weights do not enter the rotation of the stream",
}  # fmt: skip


def refuse_old_keys(document: Mapping[str, Any], new: int) -> None:
    """Name the replacement of every key that has one; `new` is the number of the form that recipes have now."""
    found = dict(_replaced(document))
    if found or document.get("onebasin") == 1:
        changes = [f"{old} is now {new}" for old, new in found.items()]
        if document.get("onebasin") == 1:
            changes.insert(0, f"onebasin: 1 is now onebasin: {new}")
        raise BadRecipe(
            "The recipe is of an earlier release",
            expected=f"the keys of onebasin: {new}",
            found=", ".join(found) or "onebasin: 1",
            next_step="; ".join(changes),
        )


def _replaced(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(key as it is written, what to write now)."""
    for key, value in document.items():
        name = SECTIONS.get(key, key)
        if key in SECTIONS:
            yield key, name
        if key in MOVED:
            yield key, MOVED[key]
        if key == "weight" and isinstance(value, int | float):
            yield key, "share"
        for inner, x in value.items() if isinstance(value, dict) else ():
            if inner == "learn" and isinstance(x, list | tuple) and "scale" in x:
                yield f"{key}.learn: scale", "learned.paper.scale=true"
            for known in (f"{name}.{inner}", f"{name}.{inner}={x}"):
                if known in MOVED:
                    yield f"{key}{known.removeprefix(name)}", MOVED[known]

"""Models that name the same things, in one labelling: the order of the first, and as many positions as all have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.beside import Beside
from onebasin.checkpoint.store import Store
from onebasin.errors import Incompatible
from onebasin.labels.names import has_tokenizer, order_by_name
from onebasin.labels.rewrites import CLASSES, TOKENS, lengths, positions, reorder, shorten, with_ids_of
from onebasin.spec import Tokens


def in_one_labelling(models: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    """All models with the labels of the first, exactly; one that names other things stays as it is.

    Tables of positions are cut to the shortest.  Files beside the weights, special tokens and the names of classes are
    those of the first.
    """
    first, *others = at_one_length(models)
    return (first, *(_named_as(first, other) for other in others))


def at_one_length(models: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    """All models with as many learned positions as the one that has fewest."""
    counts = [positions(model) for model in models]
    fewest = min((count for count in counts if count is not None), default=0)
    return tuple(
        _cut(model, fewest) if count is not None and count > fewest else model
        for model, count in zip(models, counts, strict=True)
    )


def _cut(model: Checkpoint, count: int) -> Checkpoint:
    short = shorten(model, count)
    return model if short is None else replace(short, beside=Beside(_files(model), _longest(short)))


def is_cut(model: Checkpoint) -> bool:
    """Whether the model has lost positions."""
    return model.beside is not None and model.beside.longest is not None


def _files(model: Checkpoint) -> Store:
    """Where the files beside its weights are; whoever holds it keeps the folder, which may be a temporary one."""
    return model.beside.store if model.beside else model.store


def _longest(model: Checkpoint) -> int:
    """Tokens of the longest text that the model reads."""
    return min(kind.positions for kind in model.spec.inputs.values() if isinstance(kind, Tokens))


def _named_as(a: Checkpoint, b: Checkpoint) -> Checkpoint:
    """`b` with the labels of `a`, where both name the same things."""
    try:
        orders = {letter: order for letter in (TOKENS, CLASSES) if (order := order_between(a, b, letter)) is not None}
    except Incompatible:
        return b
    config = dict(b.config)
    if a.spec.model_type == b.spec.model_type:
        config = with_ids_of(config, a.config)
    if CLASSES in orders:
        config |= {key: a.config[key] for key in ("id2label", "label2id") if key in a.config}
    longest = next((x.beside.longest for x in (a, b) if x.beside and x.beside.longest), None)
    beside = Beside(_files(a if has_tokenizer(a.folder) or not has_tokenizer(b.folder) else b), longest)
    return replace(reorder(b, orders).derive({}, config=config), beside=beside)


def order_between(a: Checkpoint, b: Checkpoint, letter: str) -> list[int] | None:
    """Where `b` has what `a` has on the axes of a letter; None where there is nothing to do.

    Refused are models that name other things, and models that look at the numbers themselves.
    """
    counts = lengths(a.spec).get(letter), lengths(b.spec).get(letter)
    order = order_by_name(a, b, letter) if None not in counts else None
    if order is not None and letter == TOKENS:
        _check_fixed(a, order)
    if letter == TOKENS:
        _check_end(a, b, order)
    return order


def _check_end(a: Checkpoint, b: Checkpoint, order: Sequence[int] | None) -> None:
    """Refuse models that look for different tokens at the end of a text."""
    for name, kind in a.spec.inputs.items():
        other = b.spec.inputs.get(name)
        if isinstance(kind, Tokens) and isinstance(other, Tokens):
            end = other.end if order is None or other.end is None else order.index(other.end)
            if end != kind.end:
                what = "The models look for another token at the end of a text"
                raise Incompatible(what, expected=kind.end, found=end, next_step="give both one eos_token_id first")


def _check_fixed(a: Checkpoint, order: Sequence[int]) -> None:
    """Refuse to move a token whose number the model computes with."""
    for kind in a.spec.inputs.values():
        moved = [i for i in kind.fixed if order[i] != i] if isinstance(kind, Tokens) else []
        if moved:
            raise Incompatible(
                "A token cannot be moved, for the model computes with its number",
                expected=f"the same token at {moved[0]} in both models",
                found=f"what is at {order[moved[0]]} in the other",
                next_step="give both models this token at one place first",
            )

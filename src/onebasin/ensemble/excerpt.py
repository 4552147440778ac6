"""A smaller model made of some layers and some tokens of a large one: enough to see how two models match, quickly."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from onebasin.archs import declare, lookup
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.checks import transformers_config
from onebasin.checkpoint.model import Recipe
from onebasin.spec import Leaf

if TYPE_CHECKING:
    from torch import Tensor

_LAYER = re.compile(r"(?P<stack>.*?)\.(?P<number>\d+)\.(?P<rest>.+)")


def layer_of(name: str) -> tuple[str, int, str] | None:
    """(stack, number, rest) of the name of a tensor inside a layer: its first number is that of the layer."""
    found = _LAYER.fullmatch(name)
    return (found["stack"], int(found["number"]), found["rest"]) if found else None


def excerpt(model: Checkpoint, layers: Sequence[int], tokens: int, without: Collection[str] = ()) -> Checkpoint:
    """The model with these of its layers alone, and at most so many rows of its vocabulary, evenly spread.

    What it computes is of no use; its spaces and families are those of the model.  `without` names optional tensors
    outside of layers that are left out.
    """
    config = transformers_config(model.config)
    lookup(model.spec.model_type, [model.spec.architecture])[0].shorten(config, layers)
    if getattr(config, "vocab_size", 0) > tokens:
        config.vocab_size = tokens
    names = {new: old for new, old in _names(model, layers).items() if old not in without}
    spec, _ = declare(config, tie=model.spec.tied).bind(names)
    leaves = {x.name: _reader(model, _renumbered(x.name, dict(enumerate(layers))), x) for x in spec.leaves.values()}
    stored = {key: model.stored[old] for key, old in names.items()}
    guessed = {"id2label", "label2id"} - set(model.config)  # names of classes that transformers makes up
    settings = {key: value for key, value in config.to_dict().items() if key not in guessed}
    return Checkpoint(spec, settings, leaves, stored, model.store, model.beside)


def _renumbered(name: str, numbers: Mapping[int, int]) -> str:
    """The name of a tensor, or of a part of one, with the number of its layer replaced."""
    found = layer_of(name)
    return name if found is None else f"{found[0]}.{numbers[found[1]]}.{found[2]}"


def _names(model: Checkpoint, layers: Sequence[int]) -> dict[str, str]:
    """Table name in the excerpt -> table name in the model."""
    place = {old: new for new, old in enumerate(layers)}
    names = {}
    for key in model.stored:
        found = layer_of(key)
        if found is None:
            names[key] = key
        elif found[1] in place:
            names[_renumbered(key, place)] = key
    return names


def _reader(model: Checkpoint, name: str, leaf: Leaf) -> Recipe:
    def read() -> Tensor:
        import torch

        tensor = model[name]
        for dim, size in enumerate(leaf.shape):
            if size < tensor.shape[dim]:
                tensor = tensor.index_select(dim, torch.linspace(0, tensor.shape[dim] - 1, size).long())
        return tensor

    return read

"""What is labelled in another order, or shorter: exact rewrites of tokens, classes and positions.

No map moves a labelled axis; a name says what every place on it means.  Of two models that name the same things in
another order, one takes the order of the other, in every tensor with such an axis:

    new[..., i, ...] = old[..., order[i], ...]

and computes what it did, for the tokens and the classes of the same names.  A table of learned positions may lose its
last rows: texts that reach none of them are computed as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onebasin.archs import declare
from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.spec import Leaf, ModelSpec

if TYPE_CHECKING:
    from torch import Tensor

TOKENS, CLASSES = "v", "c"  # their letters in every table
POSITIONS = "max_position_embeddings"  # transformers knows the settings of other names by this one


def reorder(checkpoint: Checkpoint, orders: Mapping[str, Sequence[int]]) -> Checkpoint:
    """The checkpoint with another order on the labelled axes of these letters; its configuration stays."""

    def recipe(leaf: Leaf, dims: Mapping[int, Sequence[int]]) -> Callable[[], Tensor]:
        def moved() -> Tensor:
            import torch

            tensor = checkpoint[leaf.name]
            for dim, order in dims.items():
                tensor = tensor.index_select(dim, torch.tensor(order, device=tensor.device))
            return tensor

        return moved

    placed = {
        leaf: {i: orders[x] for i, (x, axis, *_) in enumerate(leaf.axes) if axis is None and x in orders}
        for leaf in checkpoint.spec.leaves.values()
    }
    return checkpoint.derive({leaf.name: recipe(leaf, dims) for leaf, dims in placed.items() if dims})


def lengths(spec: ModelSpec) -> dict[str, int]:
    """Letter -> length of the labelled axis."""
    labelled = (axis for leaf in spec.leaves.values() for axis in leaf.axes if axis[1] is None)
    return {letter: stop for letter, _, _, stop in labelled}


def positions(checkpoint: Checkpoint) -> int | None:
    """How many positions the configuration names, if it does."""
    found = getattr(transformers_config(checkpoint.config), POSITIONS, None)
    return found if isinstance(found, int) else None


def shorten(checkpoint: Checkpoint, count: int) -> Checkpoint | None:
    """The checkpoint with `count` positions, the first; None where no table gets shorter by that, or more would change.

    Which tables these are is seen from two tables of the architecture: that of `count` positions has shorter ones.
    """
    config = with_positions(checkpoint.config, count)
    spec, _ = declare(transformers_config(config), stored=checkpoint.store.headers).bind(checkpoint.store.headers)
    before = checkpoint.spec
    cut = {name for name, leaf in spec.leaves.items() if leaf.shape != before.leaves[name].shape}
    if not cut or spec.constants != before.constants or any(not _first_rows(spec, before, name) for name in cut):
        return None

    def recipe(leaf: Leaf) -> Callable[[], Tensor]:
        return lambda: checkpoint[leaf.name][tuple(slice(n) for n in leaf.shape)]

    return checkpoint.derive({name: recipe(spec.leaves[name]) for name in cut}, spec=spec, config=config)


def _first_rows(small: ModelSpec, large: ModelSpec, name: str) -> bool:
    """Whether a leaf is the beginning of another: shorter on one labelled axis, and alike in all others."""
    one, two = small.leaves[name], large.leaves[name]
    shorter = [i for i, (n, m) in enumerate(zip(one.shape, two.shape, strict=True)) if n != m]
    return len(shorter) == 1 and one.axes[shorter[0]][1] is None and one.shape[shorter[0]] < two.shape[shorter[0]]


def with_positions(config: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The configuration with another number of positions, under the name that this kind of model has for it."""
    from transformers import CONFIG_MAPPING

    own = CONFIG_MAPPING[config["model_type"]].attribute_map.get(POSITIONS, POSITIONS)
    return {**{key: value for key, value in config.items() if key != POSITIONS}, own: count}


def with_ids_of(config: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the special tokens of another, in its parts as well."""
    parts = {x for x, part in config.items() if isinstance(part, Mapping) and isinstance(other.get(x), Mapping)}
    own = {x: with_ids_of(value, other[x]) if x in parts else value for x, value in config.items() if not is_id(x)}
    return own | {key: value for key, value in other.items() if is_id(key)}


def is_id(setting: str) -> bool:
    """Whether a setting holds the number of a token, or a list of them."""
    return str(setting).endswith("_token_id")

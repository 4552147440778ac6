"""The exact rewrites of norms that lead to canonical form, one function each; those of attention are in `biases.py`.

Each keeps the model's function to rounding, returns a stock checkpoint of the same class, and raises `NotExpressible`
with the reason where the architecture has no place for the result.  Notation: a norm computes γ ⊙ n + β with n the
normalised stream, a reader computes W x + b, M = I − 11ᵀ/D is the projection along the all-ones vector.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from einops import einsum
from torch import Tensor

from onebasin.canonical.structure import untied_config, untied_spec
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.model import Recipe
from onebasin.errors import NotExpressible
from onebasin.families import Rep
from onebasin.maps.indexed import along
from onebasin.spec import Linear, Mirror, Norm, Scale

LARGEST_OFFSET = 1e4  # larger ratios of offset to gain would cancel digits when the result is run in float32


def untie(checkpoint: Checkpoint) -> Checkpoint:
    """Give the head its own copy of the embedding, so that the last gain can be folded into it alone."""
    spec = checkpoint.spec
    if not spec.tied:
        return checkpoint
    loose = untied_spec(checkpoint)
    source = {mirror.key: mirror for mirror in spec.mirrors}
    copies = {key: partial(_copy, checkpoint, source[key]) for key in loose.leaves if key not in spec.leaves}
    return checkpoint.derive(copies, spec=loose, config=untied_config(checkpoint))


def _copy(checkpoint: Checkpoint, mirror: Mirror) -> Tensor:
    tensor = checkpoint[mirror.of]
    return tensor if mirror.times == 1 else mirror.times * tensor


def keeps_offset(checkpoint: Checkpoint, norm: Norm) -> bool:
    """Whether β must stay in the norm because some reader has no bias to take Wβ."""
    return norm.bias is not None and any(x.bias is None for x in checkpoint.spec.readers(norm.name))


def fold_gains(checkpoint: Checkpoint, names: Iterable[str]) -> tuple[Checkpoint, list[NotExpressible]]:
    """W ← W diag(γ), b ← b + Wβ, γ ← 1, β ← 0; where a reader has no bias, β ← β/γ stays in the norm.

    Returns also why some norms keep their gains.
    No two norms have a reader in common, so the order does not matter, and one new table serves for all.
    """
    changed: dict[str, Recipe] = {}
    folded, refused = [], []
    for name in names:
        try:
            changed |= _folded(checkpoint, name)
            folded.append(name)
        except NotExpressible as reason:
            refused.append(reason)
    return checkpoint.derive(changed, spec=checkpoint.spec.with_unit_gains(folded)), refused


def _folded(checkpoint: Checkpoint, name: str) -> dict[str, Recipe]:
    """What folding one gain changes; nothing where a gain that cannot move may stay."""
    norm = checkpoint.spec.norms[name]
    if norm.blocked:
        _check_constant_gain(checkpoint, norm)
        return {}
    if norm.gain is None:
        return {}
    gain = checkpoint[norm.gain]
    offset = None if norm.bias is None else checkpoint[norm.bias]
    keep = keeps_offset(checkpoint, norm)
    changed: dict[str, Recipe] = {norm.gain: lambda: torch.ones_like(gain)}
    if norm.bias is not None and offset is not None:
        rest = _offset_over_gain(norm, offset, gain) if keep else torch.zeros_like(offset)
        changed[norm.bias] = lambda: rest
    for reader in checkpoint.spec.readers(name):
        changed[reader.weight] = partial(_scale, checkpoint, reader.weight, norm.space, Rep.COV, gain)
        if offset is not None and reader.bias is not None and not keep:
            changed[reader.bias] = partial(shift, checkpoint, reader, norm, offset)
    return changed


def fold_scales(checkpoint: Checkpoint) -> Checkpoint:
    """W ← diag(λ) W, b ← λ ⊙ b, λ ← 1: a scale behind a linear map is part of it."""
    scales = [scale for scale in checkpoint.spec.scales.values() if not scale.unit]
    if not scales:
        return checkpoint
    changed: dict[str, Recipe] = {}
    for scale in scales:
        changed |= scale_writer(checkpoint, scale, checkpoint[scale.gain])
        changed[scale.gain] = partial(torch.ones_like, checkpoint[scale.gain])
    return checkpoint.derive(changed, spec=checkpoint.spec.with_unit_gains(scale.name for scale in scales))


def scale_writer(checkpoint: Checkpoint, scale: Scale, factor: Tensor) -> dict[str, Recipe]:
    """diag(factor) W and factor ⊙ b of the map that `scale` follows."""
    writer = checkpoint.spec.linears[scale.writer]
    leaves = [leaf for leaf in (writer.weight, writer.bias) if leaf is not None]
    return {leaf: partial(_scale, checkpoint, leaf, scale.space, Rep.VEC, factor) for leaf in leaves}


def split_gain(checkpoint: Checkpoint, name: str, factor: Tensor) -> Checkpoint:
    """γ ← s ⊙ γ, β ← s ⊙ β, W ← W diag(1/s): a norm and its readers share what `fold_gains` leaves to the readers."""
    norm = checkpoint.spec.norms[name]
    own = [leaf for leaf in (norm.gain, norm.bias) if leaf is not None]
    changed: dict[str, Recipe] = {leaf: partial(_times, checkpoint, leaf, factor) for leaf in own}
    for reader in checkpoint.spec.readers(name):
        changed[reader.weight] = partial(_scale, checkpoint, reader.weight, norm.space, Rep.COV, 1 / factor)
    return checkpoint.derive(changed)


def _check_constant_gain(checkpoint: Checkpoint, norm: Norm) -> None:
    """A gain that cannot move but is the same for every coordinate labels nothing, so it may stay."""
    gain = checkpoint[str(norm.gain)]
    if bool((gain == gain[0]).all()) and bool(gain[0] != 0):
        return
    raise NotExpressible(
        "A norm's gain cannot be folded",
        tensor=norm.gain,
        space=norm.space,
        found=norm.blocked,
        next_step="nothing to do: the space keeps the smaller family that respects the gain",
    )


def _times(checkpoint: Checkpoint, leaf: str, factor: Tensor) -> Tensor:
    tensor = checkpoint[leaf]
    return factor.to(tensor.device) * tensor


def _scale(checkpoint: Checkpoint, leaf: str, space: str, rep: Rep, gain: Tensor) -> Tensor:
    """A leaf times `gain` along its axis in `space`: W diag(gain) of a reader, diag(gain) W of a writer."""
    tensor = checkpoint[leaf]
    dim = checkpoint.spec.leaves[leaf].place(space, rep)
    return tensor * along(gain.to(tensor.device), tensor.ndim, dim, None)


def shift(checkpoint: Checkpoint, reader: Linear, norm: Norm, offset: Tensor) -> Tensor:
    """b + W offset of a reader of `norm`."""
    leaf, weight = checkpoint.spec.leaves[reader.weight], checkpoint[reader.weight]
    dim, bias = leaf.place(norm.space, Rep.COV), checkpoint.spec.leaves[str(reader.bias)]
    pattern = f"{' '.join(leaf.letters)}, {leaf.letters[dim]} -> {' '.join(bias.letters)}"
    return checkpoint[bias.name] + einsum(weight, offset.to(weight.device), pattern)


def _offset_over_gain(norm: Norm, offset: Tensor, gain: Tensor) -> Tensor:
    ratio = torch.where(offset == 0, torch.zeros_like(offset), offset / gain)
    worst = int(ratio.abs().nan_to_num(nan=torch.inf).argmax())
    if not float(ratio[worst].abs()) <= LARGEST_OFFSET:
        raise NotExpressible(
            "The norm's bias must stay (a reader has no bias of its own), and its gain is too small to divide by",
            tensor=norm.gain,
            axis=worst,
            space=norm.space,
            expected=f"|bias/gain| <= {LARGEST_OFFSET:g}",
            found=f"gain {float(gain[worst]):g}, bias {float(offset[worst]):g}",
            next_step="nothing to do: the space keeps the smaller family that respects the gain",
        )
    return ratio


def centre(checkpoint: Checkpoint, space: str) -> Checkpoint:
    """writer ← M · writer: LayerNorm subtracts the mean anyway."""
    spec = checkpoint.spec
    norms = [norm for norm in spec.norms.values() if norm.space == space]
    others = [op.name for op in spec.ops(space) if op not in {norm.op for norm in norms}]
    others += [reader.name for reader in spec.raw_readers(space)]
    if not norms or others or any(norm.kind != "layer" for norm in norms):
        raise NotExpressible(
            "Something other than LayerNorm reads the space and sees its mean",
            space=space,
            found=", ".join(others) or "no LayerNorm",
            next_step="nothing to do",
        )
    return checkpoint.derive(
        {leaf.name: partial(_less_mean, checkpoint, leaf.name, space, Rep.VEC) for leaf in spec.writers(space)}
    )


def project(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """W ← W M for the readers of a folded LayerNorm: what they read has mean zero."""
    norm = checkpoint.spec.norms[name]
    if norm.kind != "layer" or not norm.unit or norm.blocked or keeps_offset(checkpoint, norm):
        raise NotExpressible(
            "The readers of this norm see more than a vector of mean zero",
            tensor=norm.gain,
            space=norm.space,
            next_step="nothing to do",
        )
    return checkpoint.derive(
        {
            reader.weight: partial(_less_mean, checkpoint, reader.weight, norm.space, Rep.COV)
            for reader in checkpoint.spec.readers(name)
        }
    )


def _less_mean(checkpoint: Checkpoint, leaf: str, space: str, rep: Rep) -> Tensor:
    tensor = checkpoint[leaf]
    return tensor - tensor.mean(checkpoint.spec.leaves[leaf].place(space, rep), keepdim=True)

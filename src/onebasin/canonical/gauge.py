"""The way back from canonical form: write a model in another model's gauge.

A and a canonical B differ in how they split a norm from its readers.  Giving B the gains, offsets and value biases of A
makes them comparable number by number: A's own files, averaged with the result in any tool, are the canonical midpoint.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from onebasin.canonical.biases import keeps_value_bias, through
from onebasin.canonical.rewrites import LARGEST_OFFSET, fold_gains, keeps_offset, scale_writer, shift, split_gain
from onebasin.checkpoint import Checkpoint
from onebasin.errors import Incompatible, NotExpressible
from onebasin.spec import Attention, Norm, Scale


def in_gauge_of(reference: Checkpoint, canonical: Checkpoint) -> Checkpoint:
    """The model of `canonical`, function unchanged, with the folded norms and value biases of `reference`.

    For a folded norm with reference gain γ and offset β:  W ← W/γ, b ← b − (W/γ)β, and the norm takes γ, β.  A norm
    that kept its offset o takes γ and γ ⊙ o; one that was given a gain s of its own takes γ ⊙ s.  Where the value bias
    was folded, b_V becomes the reference's effective one and b_O ← b_O − W_O v.  Gains that could not be folded stay
    the model's own.  A scale λ behind a linear map is the reference's again, and the map is divided by it.
    """
    _check_same_table(reference, canonical)
    folded = [
        n for n in reference.spec.norms.values() if canonical.spec.norms[n.name].unit and not n.unit and not n.blocked
    ]
    plain, refused = fold_gains(reference, (norm.name for norm in folded))
    if refused:
        raise refused[0]
    result = canonical
    for attention in reference.spec.attentions:
        result = _restore_value_bias(plain, result, attention)
    for norm in folded:
        result = _restore_gain(reference, result, norm)
    for scale in reference.spec.scales.values():
        result = _restore_scale(reference, result, scale)
    return result.derive({}, spec=reference.spec)


def _check_same_table(reference: Checkpoint, canonical: Checkpoint) -> None:
    if reference.spec.tied and not canonical.spec.tied:
        raise NotExpressible(
            "The reference ties its head to its embedding, so its last gain has no counterpart in an untied model",
            tensor=str(reference.spec.constants["tied embedding"]),
            next_step="write both models in canonical form instead",
        )
    for name, leaf in reference.spec.leaves.items():
        other = canonical.spec.leaves.get(name)
        if other is None or other.shape != leaf.shape:
            raise Incompatible(
                "The two models do not have the same tensors",
                tensor=name,
                expected=leaf.shape,
                found=other and other.shape,
                next_step="compare them with `onebasin inspect A B`",
            )


def _restore_value_bias(plain: Checkpoint, model: Checkpoint, attention: Attention) -> Checkpoint:
    v, o = model.spec.linears[attention.value], model.spec.linears[attention.output]
    if v.bias is None or o.bias is None or keeps_value_bias(model.spec, v, o):
        return model
    bias, effective = v.bias, plain[v.bias]
    return model.derive(
        {
            bias: lambda: effective,
            o.bias: lambda: model[str(o.bias)] - through(model, o, bias, effective),
        }
    )


def _restore_gain(reference: Checkpoint, model: Checkpoint, norm: Norm) -> Checkpoint:
    gain = reference[str(norm.gain)]
    offset = None if norm.bias is None else reference[norm.bias]
    _check_divisible(norm, gain, offset)
    result = split_gain(model, norm.name, gain)
    if norm.bias is None or offset is None or keeps_offset(model, norm):
        return result
    readers = [reader for reader in model.spec.readers(norm.name) if reader.bias is not None]
    shifted = {str(reader.bias): partial(shift, result, reader, norm, -offset) for reader in readers}
    return result.derive({norm.bias: lambda: offset, **shifted})


def _restore_scale(reference: Checkpoint, model: Checkpoint, scale: Scale) -> Checkpoint:
    if scale.unit:
        return model
    factor = reference[scale.gain]
    _check_divisible(scale, factor, None)
    return model.derive({**scale_writer(model, scale, 1 / factor), scale.gain: lambda: factor})


def _check_divisible(norm: Norm | Scale, gain: Tensor, offset: Tensor | None) -> None:
    size = 1 if offset is None else offset.abs().clamp_min(1)
    growth = (size / gain.abs()).nan_to_num(nan=torch.inf)
    worst = int(growth.argmax())
    if not float(growth[worst]) <= LARGEST_OFFSET:
        raise NotExpressible(
            "A gain of the reference is too small to divide by",
            tensor=norm.gain,
            axis=worst,
            space=norm.space,
            expected=f"|gain| >= {1 / LARGEST_OFFSET:g}",
            found=f"{float(gain[worst]):g}",
            next_step="write both models in canonical form instead",
        )

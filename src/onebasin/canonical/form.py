"""Canonical form: every rewrite that applies, in the order that lets later ones apply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from onebasin.canonical import biases, rewrites
from onebasin.checkpoint import Checkpoint
from onebasin.errors import NotExpressible
from onebasin.spec import ModelSpec

Rewrite = Callable[[Checkpoint], Checkpoint]


@dataclass(frozen=True)
class Canonical:
    """A checkpoint in canonical form, and why some rewrites were refused."""

    checkpoint: Checkpoint
    refused: tuple[NotExpressible, ...]


def _steps(spec: ModelSpec) -> Iterator[Rewrite]:
    """What follows on the folding of gains, which makes biases whole: what softmax does not see, then the mean."""
    for attention in spec.attentions:
        for key in attention.keys:
            yield partial(biases.drop_key_bias, key=key)
        yield partial(biases.fold_value_bias, value=attention.value, output=attention.output)
    for linear in spec.linears.values():
        if linear.softmax:
            yield partial(biases.centre_scores, name=linear.name)
    centred = [norm for norm in spec.norms.values() if norm.kind == "layer"]
    for space in dict.fromkeys(norm.space for norm in centred):
        yield partial(rewrites.centre, space=space)
    for norm in centred:
        if not norm.blocked:
            yield partial(rewrites.project, name=norm.name)


def canonicalize(checkpoint: Checkpoint, *, untie: bool = True) -> Canonical:
    """Apply every exact rewrite that is expressible; the result has the same function, class and layout.

    With `untie`, a tied head gets its own tensor (the file grows by one embedding), which frees the residual stream
    from the last norm's gain.  Refusals are collected, not raised: each leaves a smaller family, never a wrong model.
    """
    if untie:
        checkpoint = rewrites.untie(checkpoint)
    checkpoint, refused = rewrites.fold_gains(rewrites.fold_scales(checkpoint), checkpoint.spec.norms)
    for rewrite in _steps(checkpoint.spec):
        try:
            checkpoint = rewrite(checkpoint)
        except NotExpressible as reason:
            refused.append(reason)
    return Canonical(checkpoint, tuple(refused))

"""What the published code of the first paper fits the rotation of the residual stream to."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from onebasin.families import Rep
from onebasin.match.circuits import circuits_of, inner_spaces, side
from onebasin.match.pair import Maps, Pair
from onebasin.match.stream import cross_of, zero_moment


def p1_code_cross(pair: Pair, maps: Maps, space: str, emphasis: Mapping[str, float]) -> Tensor:
    """Σ w C over circuits as the first paper's code stores them: the query side of QK and the output side of OV.

    The code writes the circuits of h heads as one block [√(F/d) QK, I, I] of 3hF columns for queries, keys and values
    (F = D + 1, or D without biases; the root makes up for the scale 1/√F of heads that wide) and one block OV of hF
    columns.  The identities stand for the other sides: they add 2h I, which damps the step.
    """
    spec, total = pair.spec, zero_moment(pair, space)
    queries = {spec.linears[name].weight for attention in spec.attentions for name in attention.queries}
    outputs = {spec.linears[attention.output].weight for attention in spec.attentions}
    scores = [inner for inner in emphasis if any(leaf.name in queries for leaf in side(spec, inner, Rep.VEC))]
    for inner, w in emphasis.items():
        found = cross_of(pair, maps, space, inner, lambda leaf: leaf.name in queries | outputs)
        if inner in scores:
            of_a, size = circuits_of(pair, {}, inner, of_b=False), spec.spaces[inner].size
            parts = [x for x in inner_spaces(spec, spec.spaces[inner].base) if x in scores]
            width = sum(spec.spaces[x].size for x in parts)  # d; more than `size` where part of a head is rotary
            found *= of_a.features / width
            found.diagonal().add_(2 * of_a.square.numel() * size / width)
            found /= 3
        total += w * found
    return total

"""What softmax cannot see, taken out of attention and routers: key biases, value biases, what all scores share.

As in `rewrites.py`, each function keeps the model's function to rounding and raises `NotExpressible` with the reason
where the architecture has no place for the result.  Attention computes W_O softmax(q·k) (W_V x + b_V) + b_O.
"""

from __future__ import annotations

from functools import partial

import torch
from einops import einsum
from torch import Tensor

from onebasin.checkpoint import Checkpoint
from onebasin.errors import NotExpressible
from onebasin.families import Rep
from onebasin.spec import Leaf, Linear, ModelSpec
from onebasin.spec.ops import bilinear


def drop_key_bias(checkpoint: Checkpoint, key: str) -> Checkpoint:
    """b_K ← 0: it adds the same number to every score of a query, which softmax cannot see."""
    linear = checkpoint.spec.linears[key]
    if linear.bias is None:
        return checkpoint
    inner = [axis.space for _, axis in checkpoint.spec.leaves[linear.bias].spaces() if axis.rep is Rep.COV]
    seen = [op for space in inner for op in checkpoint.spec.ops(space) if op != bilinear()]
    if seen:
        raise NotExpressible(
            "The key bias is not free",
            tensor=linear.bias,
            space=inner[0],
            found=seen[0].name,
            next_step="nothing to do: the bias moves with its space",
        )
    zeros = torch.zeros(checkpoint.spec.leaves[linear.bias].shape, dtype=torch.float64)
    return checkpoint.derive({linear.bias: lambda: zeros})


def keeps_value_bias(spec: ModelSpec, value: Linear, output: Linear) -> str:
    """Why the bias of `value` stays where it is, if it has one: there is no other, or it would not arrive as it is."""
    if output.bias is None:
        return "no output bias"
    inside = [axis.space for _, axis in spec.leaves[value.weight].spaces() if spec.fibres(axis.space)]
    return ", ".join(op.name for space in inside for op in spec.ops(space))


def fold_value_bias(checkpoint: Checkpoint, value: str, output: str) -> Checkpoint:
    """b_O ← b_O + W_O b_V, b_V ← 0: attention weights sum to one, so the value bias arrives unchanged."""
    v, o = checkpoint.spec.linears[value], checkpoint.spec.linears[output]
    if v.bias is None:
        return checkpoint
    obstacle = keeps_value_bias(checkpoint.spec, v, o)
    if obstacle:
        raise NotExpressible(
            "The value bias cannot move into an output bias",
            tensor=v.bias,
            found=obstacle,
            next_step="nothing to do: the bias moves with its space",
        )
    zeros = torch.zeros(checkpoint.spec.leaves[v.bias].shape, dtype=torch.float64)
    return checkpoint.derive(
        {
            v.bias: lambda: zeros,
            str(o.bias): lambda: checkpoint[str(o.bias)] + through(checkpoint, o, str(v.bias), checkpoint[str(v.bias)]),
        }
    )


def through(checkpoint: Checkpoint, output: Linear, bias: str, vector: Tensor) -> Tensor:
    """W_O · vector, for a vector with the axes of the leaf `bias` (grouped query heads share it)."""
    leaves = checkpoint.spec.leaves
    weight, shared = leaves[output.weight].letters, leaves[bias].letters
    result = leaves[str(output.bias)].letters
    matrix, pattern = checkpoint[output.weight], f"{' '.join(weight)}, {' '.join(shared)} -> {' '.join(result)}"
    return einsum(matrix, vector.to(matrix.device), pattern)


def centre_scores(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """W ← W − mean of its rows, b likewise: softmax cannot see what is added to all scores of a token."""
    linear = checkpoint.spec.linears[name]
    leaves = [checkpoint.spec.leaves[leaf] for leaf in (linear.weight, linear.bias) if leaf is not None]

    def centred(leaf: Leaf) -> Tensor:
        tensor = checkpoint[leaf.name]
        return tensor - tensor.mean(leaf.letters.index(str(linear.softmax)), keepdim=True)

    return checkpoint.derive({leaf.name: partial(centred, leaf) for leaf in leaves})

"""What several models say together about an input: the target of a model between them.

A point λ of the simplex stands for a pile of texts of which model m wrote the share λ_m.  What comes next in a text of
that pile, after what has been read of it, is by Bayes' rule

    p(x_t | x_<t) = Σ_m w_m p_m(x_t | x_<t)        w_m ∝ λ_m Π_{s<t} p_m(x_s | x_<s).

So a text that only one of the models could have written has that model as its teacher, however long the others have
known better elsewhere, and at the beginning of a text all of them are asked.  Models that write no text have w = λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from onebasin.linalg import mixture, running_shares
from onebasin.tasks.losses import Inputs, attended, believed
from onebasin.tasks.task import LANGUAGE


def together(outputs: Sequence[Any], inputs: Inputs, share: Tensor, kind: str) -> Tensor:
    """The target at λ = `share` (M,): the chances of every class in place of logits, or a matrix of cosines."""
    each = [believed(one, inputs) for one in outputs]
    weight = share.float()
    if kind == LANGUAGE:
        ids = inputs["input_ids"]
        weight = writers([look_up(x[:, :-1], ids[:, 1:]) for x in each], attended(inputs, ids), weight)
    return mixture(each, running_shares(weight))


def look_up(chances: Tensor, ids: Tensor) -> Tensor:
    """log p (...) of the tokens that came, from the chances (..., v) of all."""
    found = chances.gather(-1, ids[..., None]).squeeze(-1)
    return found.clamp_min(torch.finfo(found.dtype).tiny).log()


def writers(told: Sequence[Tensor], counted: Tensor, share: Tensor) -> Tensor:
    """w (M, n, T): the chance that model m wrote what has been read of a text when so many tokens are.

    Shapes: told (n, T − 1), as from `look_up`; counted (n, T), 0 for padding; share (M,).
    """
    both = counted[:, 1:] * counted[:, :-1]
    read = torch.stack([pad(x * both, (1, 0)).cumsum(-1) for x in told])
    return (share.log()[:, None, None] + read).softmax(0)

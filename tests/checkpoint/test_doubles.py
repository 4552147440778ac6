"""A forward pass in float64 stays there, whatever the model's code casts to."""

from __future__ import annotations

import torch
from torch import nn

from onebasin.checkpoint.doubles import Doubles, forward_in_float64

X = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / 3


def test_casts_to_float32_are_left_out_and_others_are_not():
    casts = [
        lambda x: x.float(),
        lambda x: x.to(torch.float32),
        lambda x: x.to(dtype=torch.float32),
        lambda x: x.type(torch.float32),
        lambda x: torch.softmax(x, -1, dtype=torch.float),
        lambda x: nn.functional.softmax(x, dim=-1, dtype=torch.float32),
    ]
    assert {cast(X).dtype for cast in casts} == {torch.float32}  # the control
    with Doubles():
        assert {cast(X).dtype for cast in casts} == {torch.float64}
        assert X.to(torch.int64).dtype == torch.int64
        assert torch.arange(3).float().dtype == torch.float32  # positions, not weights
        assert X.half().float().dtype == torch.float32


class Router(nn.Module):
    def forward(self, x):
        return x.float().softmax(-1).to(x.dtype)


def test_the_forward_pass_of_a_module():
    exact = X.softmax(-1)
    assert torch.equal(forward_in_float64(Router(), X), exact)
    assert 0 < (Router()(X) - exact).abs().max() < 1e-6

"""A forward pass in float64 stays there, whatever the model's code casts to, also where it is computed again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from onebasin.checkpoint.stock import _KeepFloat64, all_in_float64, keeping_float64

X = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / 3
CASTS = {
    "float": lambda x: x.float(),
    "to": lambda x: x.to(torch.float32),
    "to dtype": lambda x: x.to(dtype=torch.float32),
    "type": lambda x: x.type(torch.float32),
    "softmax": lambda x: torch.softmax(x, -1, dtype=torch.float),
}


class Layer(nn.Module):
    gradient_checkpointing = True

    def __init__(self, cast) -> None:
        super().__init__()
        self.cast, self.seen = cast, []

    def forward(self, x):
        y = self.cast(x)
        self.seen.append(y.dtype)
        return (y * y).to(x.dtype)


class Model(nn.Module):
    def __init__(self, cast) -> None:
        super().__init__()
        self.layer, self.config = Layer(cast), SimpleNamespace()

    def forward(self, x):
        assert torch.arange(3).float().dtype == torch.float32  # positions, not weights
        return checkpoint(self.layer.forward, x, use_reentrant=False).sum()


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
def test_nothing_is_cast_to_float32_while_the_model_runs(cast):
    kept, plain = Model(cast), Model(cast)
    all_in_float64(kept)
    for model in (kept, plain):
        model(X.clone().requires_grad_()).backward()
    assert kept.layer.seen == [torch.float64] * 2  # forward, and again for the gradient
    assert plain.layer.seen == [torch.float32] * 2
    assert cast(X).dtype == torch.float32  # nothing is left open


def test_inside_of_itself_it_does_nothing_more(monkeypatch):
    entered, usual = [], _KeepFloat64.__enter__
    monkeypatch.setattr(_KeepFloat64, "__enter__", lambda mode: entered.append(mode) or usual(mode))
    with keeping_float64():
        with keeping_float64(), keeping_float64():
            assert X.float().dtype == torch.float64
        assert X.float().dtype == torch.float64  # the inner ones end nothing
    assert X.float().dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32
    assert not _KeepFloat64.on
    assert len(entered) == 1

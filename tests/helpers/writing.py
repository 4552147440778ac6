"""Tensors to write, and what a refusal must leave as it was."""

import pytest
import torch

from onebasin.checkpoint import (
    DTYPES,
    Planned,
    Store,
    torch_dtype,
    write_folder,
)
from onebasin.errors import BadOutput

CONFIG = {"model_type": "toy", "b": 1, "a": {"d": None, "c": [1.5]}}
CODES = {torch_dtype(code): code for code in DTYPES}


def planned(tensors: dict[str, torch.Tensor], dtype: str | None = None) -> list[Planned]:
    return [Planned(k, tuple(t.shape), dtype or CODES[t.dtype], lambda t=t: t) for k, t in tensors.items()]


def sample() -> dict[str, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    floats = {code: torch.randn(5, 7, generator=made, dtype=torch.float64) for code in ("F64", "F32", "BF16", "F16")}
    return {
        **{code: value.to(torch_dtype(code)) for code, value in floats.items()},
        "number": torch.tensor(2.5),
        "empty": torch.ones(0, 3, dtype=torch.bfloat16),
        "ids": torch.arange(9),
        "mask": torch.ones(3, 3, dtype=torch.bool).tril(),
    }


def assert_same_tensors(store: Store, tensors: dict[str, torch.Tensor]) -> None:
    assert store.headers.keys() == tensors.keys()
    for name, tensor in tensors.items():
        read = store.read(name)
        assert (read.dtype, read.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(read, tensor)


def refusal(out, tensors, **options) -> BadOutput:
    """The error of a write that must fail, and leave the surroundings as they were."""
    surroundings = sorted(out.parent.rglob("*")) if out.parent.exists() else None
    with pytest.raises(BadOutput) as caught:
        write_folder(out, tensors, **{"config": CONFIG, "carry_from": None} | options)
    assert caught.value.next_step
    assert (sorted(out.parent.rglob("*")) if out.parent.exists() else None) == surroundings
    return caught.value


def never() -> torch.Tensor:
    pytest.fail("work was done before the output was checked")


UNMADE = [Planned("w", (2, 2), "F32", never)]

"""Numbers are rounded once, when they are written."""

import pytest
import torch

from helpers.writing import CONFIG, UNMADE, assert_same_tensors, planned, refusal
from onebasin.checkpoint import (
    Planned,
    Store,
    torch_dtype,
    write_folder,
)


def test_rounds_once_to_the_nearest(tmp_path):
    values = torch.linspace(-3, 3, 1001, dtype=torch.float64)
    for code in ("F64", "F32", "BF16", "F16"):
        write_folder(tmp_path / code, planned({"w": values}, code), config=CONFIG, carry_from=None)
        read = Store.open(tmp_path / code).read("w")
        assert torch.equal(read, values.to(torch_dtype(code)))


def test_views_and_shared_memory_are_written_apart(tmp_path):
    whole = torch.arange(12.0).reshape(3, 4).requires_grad_()
    tensors = {
        "whole": whole,
        "same": whole,
        "row": whole[1],
        "transposed": whole.T,
        "expanded": whole[:1].expand(5, 4),
    }
    write_folder(tmp_path / "out", planned(tensors), config=CONFIG, carry_from=None)
    assert_same_tensors(Store.open(tmp_path / "out"), tensors)


def test_overflow(tmp_path):
    tensors = {"fine": torch.ones(2), "large": torch.tensor([1.0, -7e4])}
    error = refusal(tmp_path / "out", planned(tensors, "F16"))
    assert (error.tensor, error.found) == ("large", "7e+04")
    assert "BF16" in error.next_step
    write_folder(tmp_path / "out", planned(tensors, "BF16"), config=CONFIG, carry_from=None)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_computed_tensor_not_finite(tmp_path, value):
    error = refusal(tmp_path / "out", planned({"fine": torch.ones(2), "bad": torch.tensor([1.0, value])}))
    assert error.tensor == "bad"
    assert "not finite" in str(error)


@pytest.mark.parametrize("made", [torch.ones(3, 2), torch.ones(6), torch.ones(2, 3, dtype=torch.int64)])
def test_not_as_planned(tmp_path, made):
    error = refusal(tmp_path / "out", [Planned("w", (2, 3), "F32", lambda: made)])
    assert (error.tensor, error.expected) == ("w", "F32 (2, 3)")
    assert str(tuple(made.shape)) in error.found


def test_same_name_twice(tmp_path):
    with pytest.raises(ValueError, match="same name"):
        write_folder(tmp_path / "out", UNMADE * 2, config=CONFIG, carry_from=None)

"""Names of devices, and which of them are here."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from unittest.mock import Mock

import pytest
import torch

from onebasin.errors import OnebasinError
from onebasin.processes.devices import own_device, pick_device, quick_products, random_numbers


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


def test_devices_that_are_here(two_gpus, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    names = {"auto": "cuda", "cpu": "cpu", "cuda": "cuda", "cuda:1": "cuda:1", "mps": "mps"}
    assert {name: str(pick_device(name)) for name in names} == names


@pytest.mark.parametrize(
    ("name", "says"),
    [("cuda:2", "There is no GPU 2 here"), ("mps", "no GPU of Apple"), ("gpu", "no such choice"),
     ("cuda:-1", "no such choice"), ("cuda:", "no such choice"), ("mps:1", "no such choice")],
)  # fmt: skip
def test_devices_that_are_not(two_gpus, monkeypatch, name, says):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(OnebasinError, match=says):
        pick_device(name)


def test_no_gpu_at_all(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(pick_device("auto")) == "cpu"
    with pytest.raises(OnebasinError, match="torch finds no GPU here"):
        pick_device("cuda:0")


def test_each_process_has_its_own_gpu(two_gpus, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert str(pick_device("auto")) == "cuda:1"
    assert str(own_device(torch.device("cpu"))) == "cpu"
    with pytest.raises(OnebasinError, match="cannot share one GPU"):
        pick_device("cuda:0")


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_a_recipe_may_name_it_and_the_machine_says_whether_it_is_there(cli, models, tmp_path, device):
    code, _, err = cli("align", *models[:2], "-o", tmp_path / "out", "--method", "weight", "--device", device)
    assert code == 2
    assert "torch finds no GPU" in err
    assert list(tmp_path.iterdir()) == []


def test_products_are_quick_only_while_asked_for():
    """Also after an error."""
    before, stack = torch.get_float32_matmul_precision(), ExitStack()
    stack.enter_context(quick_products())
    assert torch.get_float32_matmul_precision() == "high" != before
    error = KeyError()
    assert not stack.__exit__(KeyError, error, None)
    assert torch.get_float32_matmul_precision() == before


def test_a_seed_holds_only_while_it_is_asked_for():
    def drawn(seed):
        with random_numbers(seed, torch.device("cpu")):
            return torch.rand(3)

    before = torch.get_rng_state()
    assert drawn(1).equal(drawn(1))
    assert not drawn(1).equal(drawn(2))
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize(("name", "kept"), [("cpu", []), ("mps", []), ("cuda:1", [torch.device("cuda", 1)])])
def test_of_several_gpus_only_the_numbers_of_the_one_in_use_are_kept(monkeypatch, name, kept):
    """torch cannot keep those of `mps`, and begins on every GPU where none is named."""
    forked = Mock(return_value=nullcontext())
    monkeypatch.setattr(torch.random, "fork_rng", forked)
    monkeypatch.setattr(torch, "manual_seed", Mock())
    with random_numbers(1, torch.device(name)):
        forked.assert_called_once_with(kept)

"""The most memory that a run takes: how it is written, and what is left of it for weights."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from helpers.pairs import open_random
from onebasin.ensemble.memory import page_work
from onebasin.errors import BadRecipe, OnebasinError
from onebasin.match.room import Memory, free
from onebasin.options import bytes_of
from onebasin.processes.devices import for_float64

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "size"),
    [("5GB", 5 * 10**9), ("1.5mb", 1_500_000), ("200", 200), ("2TB", 2 * 10**12), ("0GB", None), ("-1GB", None),
     ("much", None), ("GB", None), ("1e3GB", None), ("", None), ("²GB", None)],
)  # fmt: skip
def test_sizes_in_words(text, size):
    assert bytes_of(text) == size


def test_what_is_given_less_the_work_is_room(tmp_path):
    spec = open_random(tmp_path / "a", "gpt2", 1, 0).spec
    assert Memory(host="1GB").room(CPU, spec) == 10**9 - page_work(spec)
    assert Memory(host="1KB").room(CPU, spec) == 0
    assert Memory(gpu="1GB").room(CPU, spec) > 0  # the GPU's has nothing to say here: a part of what is free
    assert 0 < free(CPU) < math.inf
    with pytest.raises(BadRecipe, match=r"memory\.gpu is no size"):
        Memory(gpu="much")


def test_a_run_with_little_memory_gives_the_same_model(tmp_path, cli, monkeypatch):
    """Pages that take all that is given leave no room for weights to rest in."""
    for seed in (0, 1):
        open_random(tmp_path / str(seed), "llama", 1, seed)
    written = []
    for name, more in {"kept": (), "read": ("--memory", "gpu=1GB,host=1GB")}.items():
        monkeypatch.setattr("onebasin.match.room.page_work", lambda spec, name=name: 10**9 if name == "read" else 0)
        code, _, err = cli("align", tmp_path / "0", tmp_path / "1", "-o", tmp_path / name, "--method", "weight", *more)
        assert code == 0, err
        written.append((tmp_path / name / "model.safetensors").read_bytes())
    assert written[0] == written[1]
    code, _, err = cli("align", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "x", "--memory", "host=much")
    assert code == 2
    assert "memory.host is no size" in err


def test_what_does_not_fit_is_refused_before_work(tmp_path, monkeypatch):
    """By the option that is too small, with how much would do."""
    spec, gpu = open_random(tmp_path / "a", "gpt2", 1, 0).spec, torch.device("cuda")
    Memory(host="3GB").check(CPU, spec, 3 * 10**9)
    Memory().check(CPU, spec, 10**15)  # what is here is looked at elsewhere
    with pytest.raises(OnebasinError, match=r"memory\.host is too little") as caught:
        Memory(host="3GB").check(CPU, spec, 3 * 10**9 + 1)
    assert "host=4GB" in caught.value.next_step
    monkeypatch.setattr("onebasin.match.room.page_work", lambda spec: 2 * 10**9)
    Memory(gpu="2GB", host="1GB").check(gpu, spec, 3 * 10**9)
    with pytest.raises(OnebasinError, match="too little memory for a page") as caught:
        Memory(gpu="1.9GB").check(gpu, spec, 0)
    assert "gpu=2GB" in caught.value.next_step
    assert "--device cpu" in caught.value.next_step
    monkeypatch.setattr("onebasin.match.room.free", lambda device: 10**9)
    with pytest.raises(OnebasinError, match="too little memory for a page"):
        Memory().check(gpu, spec, 0)


def test_torch_refuses_what_exceeds_the_memory_given_for_the_gpu(monkeypatch):
    told = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=8 * 10**9))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: told.append(given))
    for memory, device in ((Memory(gpu="2GB"), "cuda:3"), (Memory(gpu="16GB"), "cuda"), (Memory(gpu="2GB"), "cpu"),
                           (Memory(host="2GB"), "cuda")):  # fmt: skip
        memory.keep(torch.device(device))
    assert told == [(0.25, 3), (1.0, 0)]


def test_what_is_free_on_a_gpu(monkeypatch, tmp_path):
    spec = open_random(tmp_path / "a", "gpt2", 1, 0).spec
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 8 * 10**9))
    assert free(torch.device("cuda")) == 10**9
    assert Memory().room(torch.device("cuda"), spec) == 0.6 * 10**9 - page_work(spec)
    monkeypatch.setattr("onebasin.match.room.memory_here", lambda free: None)
    assert free(CPU) == math.inf


def test_a_device_without_float64_leaves_that_to_the_cpu():
    assert for_float64(torch.device("mps")) == CPU
    assert for_float64(torch.device("cuda:1")) == torch.device("cuda:1")

"""Several tensors are made and written at once: the same bytes, within bounds, and whole or not at all."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from helpers.writing import CONFIG, planned, refusal, sample
from onebasin.checkpoint import Planned, shard, write_folder
from onebasin.checkpoint.pieces import Once
from onebasin.checkpoint.shard import AT_ONCE, _pool
from onebasin.checkpoint.store import Shelf
from onebasin.paths import FactorPath


@pytest.fixture
def at_once(monkeypatch):
    """Make so many tensors at once, of so many bytes."""

    def bound(workers: int, most: int = 2**20) -> None:
        monkeypatch.setitem(AT_ONCE, "cpu", workers)
        monkeypatch.setattr(shard, "EACH", most // workers)

    return bound


class Busy:
    """Tensors that take a while; how many of them, and of their bytes, were in the making at once."""

    def __init__(self) -> None:
        self.lock, self.now, self.most = threading.Lock(), [], [0, 0]

    def plan(self, *counts: int) -> list[Planned]:
        return [Planned(f"t{i}", (n,), "F32", lambda i=i, n=n: self.make(i, n)) for i, n in enumerate(counts)]

    def make(self, i: int, n: int) -> torch.Tensor:
        with self.lock:
            self.now.append(4 * n)
            self.most = [max(self.most[0], len(self.now)), max(self.most[1], sum(self.now))]
        time.sleep(0.01)
        with self.lock:
            self.now.remove(4 * n)
        return torch.full((n,), float(i))


@pytest.mark.parametrize("shard", ["5GB", "500"])
def test_the_bytes_do_not_depend_on_how_many_work(tmp_path, at_once, shard):
    tensors = {f"{name}-{i}": tensor for i in range(4) for name, tensor in sample().items()}
    for workers in (1, 2, 8):
        at_once(workers)
        out = tmp_path / str(workers)
        write_folder(out, planned(tensors), config=CONFIG, carry_from=None, max_shard_size=shard)
    first, *others = ({x.name: x.read_bytes() for x in (tmp_path / str(n)).iterdir()} for n in (1, 2, 8))
    assert others == [first, first]
    assert len(first) > 3 or shard == "5GB"


@pytest.mark.parametrize(("workers", "most"), [(1, 10**6), (3, 10**6), (8, 1000), (8, 10)])
def test_what_is_in_the_making_is_bounded(tmp_path, at_once, workers, most):
    busy, calls = Busy(), []
    at_once(workers, most)
    counts = (50, 100, 200, 50, 50, 100, 400, 10, 10, 10)  # numbers of four bytes; 400 of them are above 1000 bytes
    write_folder(
        tmp_path / "out",
        busy.plan(*counts),
        config=CONFIG,
        carry_from=None,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert busy.most[0] <= workers
    assert busy.most[1] <= max(most, 1600)
    assert busy.most[0] == (1 if workers == 1 or most == 10 else busy.most[0])
    assert calls == sorted(calls)
    assert len(calls) == len(counts)
    assert calls[-1] == (4 * sum(counts), 4 * sum(counts))


def together(count: int, *shape: int) -> list[Planned]:
    """Tensors of which each waits until all are in the making."""
    barrier = threading.Barrier(count, timeout=1)

    def make() -> torch.Tensor:
        barrier.wait()
        return torch.zeros(shape)

    return [Planned(f"t{i}", shape, "F32", make) for i in range(count)]


def test_they_are_made_at_once(tmp_path, at_once):
    at_once(3)
    write_folder(tmp_path / "three", together(3), config=CONFIG, carry_from=None)
    at_once(2)
    with pytest.raises(threading.BrokenBarrierError):
        write_folder(tmp_path / "two", together(3), config=CONFIG, carry_from=None)
    assert [path.name for path in tmp_path.iterdir()] == ["three"]


@pytest.mark.parametrize(("count", "numbers"), [(3, 1), (2, 2**24 + 1)])
def test_a_cpu_makes_two_at_once_and_128_mib_of_them(tmp_path, count, numbers):
    write_folder(tmp_path / "out", together(2, 1), config=CONFIG, carry_from=None)
    with pytest.raises(threading.BrokenBarrierError):
        write_folder(tmp_path / "more", together(count, numbers), config=CONFIG, carry_from=None)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError, MemoryError, SystemExit])
def test_one_that_fails_in_the_middle_leaves_nothing(tmp_path, at_once, workers, failure):
    def fail() -> torch.Tensor:
        raise failure

    busy, before = Busy(), threading.active_count()
    at_once(workers)
    tensors = busy.plan(*[10] * 12)
    tensors[5] = Planned("bad", (10,), "F32", fail)
    with pytest.raises(failure):
        write_folder(tmp_path / "out", tensors, config=CONFIG, carry_from=None)
    assert list(tmp_path.iterdir()) == []
    assert busy.now == []
    assert threading.active_count() == before


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_several_work_leaves_nothing(tmp_path, at_once, how):
    def ask() -> torch.Tensor:
        os.kill(os.getpid(), how)
        return torch.ones(10)

    busy = Busy()
    at_once(4)
    tensors = busy.plan(*[10] * 40)
    tensors[5] = Planned("asks", (10,), "F32", ask)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "out", tensors, config=CONFIG, carry_from=None)
    assert list(tmp_path.iterdir()) == []
    assert busy.now == []


def test_the_disk_is_full_when_a_tensor_is_written(tmp_path, at_once):
    at_once(4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        error = refusal(tmp_path / "out", planned({f"t{i}": torch.ones(10_000) for i in range(6)}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "could not be written" in str(error)


def test_numbers_that_do_not_fit_are_found_in_any_part(tmp_path, at_once):
    at_once(4)
    tensor = torch.ones(2**20)
    tensor[-1] = 7e4
    error = refusal(tmp_path / "out", planned({"fine": torch.ones(5), "large": tensor, "more": torch.ones(9)}, "F16"))
    assert (error.tensor, error.found) == ("large", "7e+04")


@pytest.mark.parametrize("counts", [(3,), (3, 4), (3, 2, 2)])
def test_parts_must_be_as_many_numbers_as_planned(tmp_path, counts):
    parts = [Planned("w", (2, 3), "F32", lambda: iter([torch.ones(n) for n in counts]))]
    error = refusal(tmp_path / "out", parts)
    assert (error.tensor, error.found) == ("w", f"{sum(counts)} numbers")


def test_what_pieces_are_cut_from_is_made_once(monkeypatch):
    made = []

    def make() -> torch.Tensor:
        made.append(True)
        time.sleep(0.01)
        return torch.arange(8.0)

    monkeypatch.setattr("onebasin.checkpoint.pieces.cut", lambda whole, piece: whole[piece])
    once = Once(make, 8)
    with ThreadPoolExecutor(8) as pool:
        assert [float(x) for x in pool.map(once.cut, range(8))] == list(range(8))
    assert len(made) == 1
    assert once._made is None


def test_a_shelf_that_several_take_from_keeps_what_there_is_room_for():
    shelf, barrier = Shelf(room=100), threading.Barrier(8)

    def read(device: object) -> torch.Tensor:
        time.sleep(0.001)
        return torch.ones(10)

    def take(i: int) -> list[torch.Tensor]:
        barrier.wait()
        return [shelf.take(f"t{j}", read) for j in range(4)]

    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(take, range(8)))
    assert len(shelf.kept) == 2
    assert shelf.room == 20
    for row in rows:
        assert all(found is shelf.kept[f"t{j}"] for j, found in enumerate(row) if f"t{j}" in shelf.kept)


def test_threads_work_on_the_gpu_that_is_in_use(monkeypatch):
    """Torch has its solvers before any of them asks."""
    used, loaded = threading.local(), []
    monkeypatch.setattr(shard, "_load_solvers", loaded.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: setattr(used, "device", device))
    with _pool(4, torch.device("cuda")) as pool:
        assert set(pool.map(lambda _: used.device, range(16))) == {3}
    assert loaded == [torch.device("cuda")]
    with _pool(4, torch.device("cpu")) as pool:
        assert not any(pool.map(lambda _: hasattr(used, "device"), range(16)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_an_average_made_on_a_gpu_is_the_same_file(tiny, tmp_path):
    a, b = tiny("LlamaForCausalLM")
    for device in ("cpu", "cuda"):
        with a.store.resting(device), b.store.resting(device):
            FactorPath(a, b).at(0.3).save(tmp_path / device)
    one, other = ((tmp_path / device / "model.safetensors").read_bytes() for device in ("cpu", "cuda"))
    assert one == other

"""Tensors one after the other, into folders that are whole or not at all."""

import json
import shutil
import weakref
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from helpers.writing import CONFIG, UNMADE, planned, refusal, sample
from onebasin.checkpoint import (
    Planned,
    write_folder,
)
from onebasin.checkpoint.shard import write_shard
from onebasin.errors import BadOutput


def test_shards_are_made_in_turn(tmp_path):
    seen = []

    def make(i: int) -> torch.Tensor:
        (partial,) = tmp_path.iterdir()
        seen.append((i, len(list(partial.glob("*.safetensors")))))
        return torch.ones(10)

    calls = []
    write_folder(
        tmp_path / "out",
        [Planned(f"t{i}", (10,), "F32", lambda i=i: make(i)) for i in range(4)],
        config=CONFIG,
        carry_from=None,
        max_shard_size=80,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert sorted(seen) == [(0, 1), (1, 1), (2, 2), (3, 2)]
    assert calls == [(40, 160), (80, 160), (120, 160), (160, 160)]


def test_two_tensors_are_in_memory_at_a_time(tmp_path):
    """One is on its way to the disk while the next is made."""
    known, alive = [], []

    def make() -> torch.Tensor:
        alive.append(sum(tensor() is not None for tensor in known))
        tensor = torch.ones(1000)
        known.append(weakref.ref(tensor.untyped_storage()))
        return tensor

    write_folder(
        tmp_path / "out", [Planned(f"t{i}", (1000,), "F32", make) for i in range(6)], config=CONFIG, carry_from=None
    )
    assert max(alive) <= 1
    assert len(alive) == 6


def test_a_file_is_as_safetensors_writes_it(tmp_path):
    """Header and numbers, but for the order of tensors of one width, which the format leaves open."""
    tensors = sample()
    write_folder(tmp_path / "out", planned(tensors), config=CONFIG, carry_from=None)
    file, own = tmp_path / "out" / "model.safetensors", tmp_path / "own.safetensors"
    save_file(tensors, own, {"format": "pt"})
    assert file.stat().st_size == own.stat().st_size
    with safe_open(file, "pt") as ours, safe_open(own, "pt") as theirs:
        assert ours.metadata() == theirs.metadata()
        assert set(ours.keys()) == set(theirs.keys())
    size = int.from_bytes(file.read_bytes()[:8], "little")
    assert size % 8 == 0
    places = json.loads(file.read_bytes()[8 : 8 + size])
    for name, tensor in tensors.items():
        assert places[name]["data_offsets"][0] % tensor.element_size() == 0


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, RuntimeError, MemoryError, SystemExit])
def test_interrupted(tmp_path, interrupt):
    during = []

    def fail() -> torch.Tensor:
        during.extend(path.name for path in tmp_path.rglob("*"))
        raise interrupt

    tensors = planned({"a": torch.ones(10), "b": torch.ones(10)})
    with pytest.raises(interrupt):
        write_folder(
            tmp_path / "out",
            [*tensors, Planned("c", (10,), "F32", fail)],
            config=CONFIG,
            carry_from=None,
            max_shard_size=40,
        )
    assert "model-00002-of-00003.safetensors" in during
    assert "out" not in during
    assert list(tmp_path.iterdir()) == []


def test_disk_fills_up_while_writing(tmp_path, monkeypatch):
    def full(file, *others):
        return write_shard(Path("/dev/full"), *others)

    monkeypatch.setattr("onebasin.checkpoint.write.write_shard", full)
    assert "No space left" in str(refusal(tmp_path / "out", planned(sample())))


def test_carried_file_cannot_be_copied(tmp_path, monkeypatch, make_folder):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    source = make_folder({}, name="source")
    (source / "vocab.json").write_text("{}")
    monkeypatch.setattr(shutil, "copyfile", fail)
    assert "No space left" in str(refusal(tmp_path / "out", UNMADE, carry_from=source))


def test_output_appears_meanwhile(tmp_path):
    out = tmp_path / "out"

    def make() -> torch.Tensor:
        out.mkdir()
        (out / "precious").write_text("kept")
        return torch.ones(2)

    with pytest.raises(BadOutput):
        write_folder(out, [Planned("w", (2,), "F32", make)], config=CONFIG, carry_from=None)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "precious"]

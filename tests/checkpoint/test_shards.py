"""One shard at a time, whole or not at all."""

import shutil

import pytest
import torch
from safetensors import SafetensorError

from helpers.writing import CONFIG, UNMADE, planned, refusal, sample
from onebasin.checkpoint import (
    Planned,
    write_folder,
)
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
    assert seen == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert calls == [(40, 160), (80, 160), (120, 160), (160, 160)]


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
    def fail(*args, **kwargs):
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
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

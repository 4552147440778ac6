"""Where a tensor lies in its file, and the two ways to read it."""

from __future__ import annotations

import pytest
import torch

from helpers.writing import sample
from onebasin.checkpoint import Store, torch_dtype
from onebasin.checkpoint.reading import copied, mapped
from onebasin.errors import BadCheckpoint

CPU = torch.device("cpu")


def test_headers_say_where_tensors_are(make_folder):
    folder = make_folder(sample())
    whole = (folder / "model.safetensors").read_bytes()
    for name, header in Store.open(folder).headers.items():
        own = sample()[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        assert whole[header.start : header.start + header.nbytes] == own


@pytest.mark.parametrize("piece", [1, 7, 64, 2**23])
def test_a_copy_in_pieces_is_what_is_mapped(make_folder, monkeypatch, piece):
    monkeypatch.setattr("onebasin.checkpoint.reading.PIECE", piece)
    store = Store.open(make_folder(sample()))
    for name, header in store.headers.items():
        if header.nbytes:
            place = store.folder / header.file, header.start, header.nbytes
            assert torch.equal(copied(*place, CPU), mapped(*place))
            read = copied(*place, CPU).view(torch_dtype(header.dtype)).reshape(header.shape)
            assert torch.equal(read, store.read(name))


def test_reading_reads_no_header_again(make_folder, monkeypatch):
    def never(*given, **options):
        pytest.fail("the header was read again")

    store = Store.open(make_folder({"a": torch.arange(6.0)}))
    monkeypatch.setattr("onebasin.checkpoint.store.safe_open", never)
    assert torch.equal(store.read("a"), torch.arange(6.0))


def test_a_file_cut_short_meanwhile(make_folder):
    folder = make_folder({"a": torch.arange(600.0), "b": torch.arange(600.0)})
    store, file = Store.open(folder), folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    assert torch.equal(store.read("a"), torch.arange(600.0))
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        store.read("b")
    header = store.headers["b"]
    with pytest.raises(EOFError, match="ends before"):
        copied(file, header.start, header.nbytes, CPU)


def test_numbers_that_begin_anywhere(tmp_path):
    """Other writers leave numbers where they come, at no multiple of their bytes."""
    numbers = torch.arange(5, dtype=torch.float64)
    (tmp_path / "file").write_bytes(b"abc" + numbers.numpy().tobytes())
    assert torch.equal(mapped(tmp_path / "file", 3, 40).view(torch.float64), numbers)

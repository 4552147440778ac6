import json
import struct
from pathlib import Path

import pytest
import torch

from onebasin.checkpoint import DTYPES, Header, Store, is_finite, torch_dtype
from onebasin.errors import BadCheckpoint

FIRST, SECOND = {"a": torch.arange(6.0).reshape(2, 3)}, {"b": torch.ones(4, dtype=torch.bfloat16)}


def refusal(folder) -> BadCheckpoint:
    before = sorted(folder.iterdir())
    with pytest.raises(BadCheckpoint) as caught:
        Store.open(folder)
    assert caught.value.next_step
    assert sorted(folder.iterdir()) == before
    return caught.value


def edit_index(folder, **changes: str | None) -> None:
    """Point tensors at other files in the index; None removes a tensor from it."""
    file = folder / "model.safetensors.index.json"
    index = json.loads(file.read_text())
    index["weight_map"] = {k: v for k, v in {**index["weight_map"], **changes}.items() if v}
    file.write_text(json.dumps(index))


def test_one_file(make_folder):
    store = Store.open(make_folder(FIRST | SECOND | {"ids": torch.arange(5)}))
    first = 8 + int.from_bytes((store.folder / "model.safetensors").read_bytes()[:8], "little")
    assert store.headers == {
        "ids": Header("I64", (5,), "model.safetensors", first),
        "a": Header("F32", (2, 3), "model.safetensors", first + 40),
        "b": Header("BF16", (4,), "model.safetensors", first + 40 + 24),
    }
    assert store.parameters == 10
    assert store.nbytes == 24 + 8 + 40
    assert torch.equal(store.read("a"), FIRST["a"])
    assert store.read("b").dtype == torch.bfloat16


def test_shards(make_folder):
    store = Store.open(make_folder(FIRST, SECOND))
    assert [header.file[:11] for header in store.headers.values()] == ["model-00001", "model-00002"]
    assert torch.equal(store.read("a"), FIRST["a"])
    assert torch.equal(store.read("b"), SECOND["b"])


@pytest.mark.parametrize("code", DTYPES)
def test_types_agree_with_torch(code):
    dtype = torch_dtype(code)
    assert (dtype.itemsize, dtype.is_floating_point) == (DTYPES[code].itemsize, DTYPES[code].is_float)
    assert str(dtype) == f"torch.{DTYPES[code].name}"


def test_reading_one_tensor_opens_one_file(make_folder):
    folder = make_folder(FIRST, SECOND)
    store = Store.open(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert torch.equal(store.read("a"), FIRST["a"])
    with pytest.raises(BadCheckpoint, match="model-00002-of-00002"):
        store.read("b")


def test_unknown_tensor(make_folder):
    with pytest.raises(KeyError):
        Store.open(make_folder(FIRST)).read("z")


def test_changing_a_read_tensor_changes_nothing_else(make_folder):
    store = Store.open(make_folder(FIRST))
    store.read("a").zero_()
    assert torch.equal(store.read("a"), FIRST["a"])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="mapped memory is read from /proc, which is Linux's")
def test_memory_is_given_back(make_folder):
    def mapped() -> int:
        with Path("/proc/self/status").open() as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssFile")) * 1024

    size = 64 * 2**20
    store = Store.open(make_folder({f"t{i}": torch.ones(size // 32) for i in range(8)}))
    before = mapped()
    store.check_finite()
    assert mapped() - before < size / 4
    kept = [store.read(name) for name in store.headers]
    assert sum(float(t.sum()) for t in kept) == size / 4
    assert mapped() - before > size / 2  # the measure does see mapped pages


@pytest.mark.parametrize("size", [0, 5, 40, 95])
def test_truncated(make_folder, size):
    folder = make_folder(FIRST)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    assert "model.safetensors cannot be read" in str(refusal(folder))


@pytest.mark.parametrize(
    "header",
    [
        b"not json at all!",
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}',
        b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}',
        b'{"a":{"dtype":"WHAT","shape":[2],"data_offsets":[0,8]}}',
    ],
)
def test_corrupt_header(make_folder, header):
    folder = make_folder(FIRST)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    error = refusal(folder)
    assert "model.safetensors" in str(error)
    assert "header" in str(error.found)


def test_the_corrupt_headers_are_corrupt_for_the_reason_given(make_folder):
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    folder = make_folder(FIRST)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    assert Store.open(folder).headers["a"].shape == (2,)


def test_git_lfs_pointer(make_folder):
    folder = make_folder(FIRST)
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "git lfs pull" in refusal(folder).next_step


def test_index_not_json(make_folder):
    folder = make_folder(FIRST, SECOND)
    (folder / "model.safetensors.index.json").write_text("{")
    assert "index.json" in str(refusal(folder))


@pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {"a": 1}}])
def test_index_without_map(make_folder, index):
    folder = make_folder(FIRST, SECOND)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "weight_map" in str(refusal(folder))


def test_missing_shard(make_folder):
    folder = make_folder(FIRST, SECOND)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert refusal(folder).expected == "model-00002-of-00002.safetensors"


def test_shard_outside_the_folder(make_folder):
    outside = make_folder(FIRST, name="outside")
    folder = make_folder(FIRST, SECOND)
    edit_index(folder, a=f"../{outside.name}/model.safetensors")
    assert "not in the folder" in str(refusal(folder))


def test_tensor_missing_from_its_shard(make_folder):
    folder = make_folder(FIRST, SECOND)
    edit_index(folder, c="model-00002-of-00002.safetensors")
    error = refusal(folder)
    assert (error.tensor, error.expected) == ("c", "model-00002-of-00002.safetensors")


def test_tensor_not_in_the_index(make_folder):
    folder = make_folder(FIRST | {"c": torch.ones(1)}, SECOND)
    edit_index(folder, c=None)
    error = refusal(folder)
    assert (error.tensor, error.found) == ("c", "in model-00001-of-00002.safetensors")


def test_tensor_in_two_shards(make_folder):
    error = refusal(make_folder(FIRST | {"c": torch.ones(1)}, SECOND | {"a": torch.zeros(2, 3)}))
    assert error.tensor == "a"
    assert "model-00001-of-00002.safetensors" in str(error)
    assert "model-00002-of-00002.safetensors" in str(error)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2])
def test_quantised_types(make_folder, dtype):
    error = refusal(make_folder(FIRST | {"packed": torch.zeros(8, 1).to(dtype)}))
    assert error.tensor == "packed"
    assert error.found in ("I8", "U8", "F8_E4M3", "F8_E5M2")
    assert "dequantise" in error.next_step


def test_causal_mask_of_bytes_is_not_quantised(make_folder):
    mask = torch.ones(1, 1, 4, 4, dtype=torch.uint8).tril()
    assert torch.equal(Store.open(make_folder(FIRST | {"mask": mask})).read("mask"), mask)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_not_finite(make_folder, dtype, value):
    bad = torch.linspace(-2, 2, 60).reshape(3, 20).to(dtype)
    bad[1, 7] = bad[2, 0] = value
    store = Store.open(make_folder(FIRST | SECOND | {"w": bad}))
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors") as caught:
        store.check_finite()
    assert caught.value.tensor == "w"
    assert caught.value.found == f"2 of 60, first {value} at (1, 7)"


def test_finite(make_folder):
    extremes = torch.tensor([torch.finfo(torch.float32).max, torch.finfo(torch.float32).min, 0.0, 1e-45])
    store = Store.open(make_folder(FIRST | SECOND | {"w": extremes, "none": torch.ones(0, 3), "ids": torch.arange(3)}))
    calls = []
    store.check_finite(progress=lambda done, total: calls.append((done, total)))
    assert len(calls) == 5
    assert calls[-1] == (store.nbytes, store.nbytes)
    assert calls == sorted(calls)


def test_is_finite_on_one_number():
    assert is_finite(torch.tensor(1.0))
    assert not is_finite(torch.tensor(float("nan")))


def test_zoo(zoo):
    for folder in sorted(zoo.iterdir()):
        store = Store.open(folder)
        assert store.nbytes + 8 < (folder / "model.safetensors").stat().st_size
        assert store.parameters * 2 == store.nbytes
        store.check_finite()

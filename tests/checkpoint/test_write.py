import json
import os
import shutil
from collections import namedtuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from transformers import BertForSequenceClassification, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from onebasin.checkpoint import (
    DTYPES,
    Planned,
    Store,
    carry_files,
    check_output,
    is_carried,
    read_config,
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


# Round trips


@pytest.mark.parametrize("max_shard_size", ["5GB", 200])
def test_round_trip(tmp_path, max_shard_size):
    tensors = sample()
    write_folder(tmp_path / "out", planned(tensors), config=CONFIG, carry_from=None, max_shard_size=max_shard_size)
    assert_same_tensors(Store.open(tmp_path / "out"), tensors)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@given(
    st.lists(st.tuples(st.sampled_from(["F64", "F32", "BF16", "F16"]), st.lists(st.integers(0, 4), max_size=3))),
    st.integers(1, 300),
)
def test_round_trip_of_any_shapes(tmp_path_factory, headers, max_shard_size):
    tensors = {f"t{i}": torch.rand(shape).to(torch_dtype(code)) for i, (code, shape) in enumerate(headers)}
    tensors["last"] = torch.ones(1)
    out = tmp_path_factory.mktemp("any") / "out"
    write_folder(out, planned(tensors), config=CONFIG, carry_from=None, max_shard_size=max_shard_size)
    assert_same_tensors(Store.open(out), tensors)


def test_one_file_as_transformers_writes_it(tmp_path):
    write_folder(tmp_path / "out", planned(sample()), config=CONFIG, carry_from=None)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]
    text = (tmp_path / "out" / "config.json").read_text()
    assert text == json.dumps(CONFIG, indent=2, sort_keys=True) + "\n"
    with safe_open(tmp_path / "out" / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}


def llama(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=32, tie_word_embeddings=False, **sizes))


def test_folder_is_that_of_transformers(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    llama().save_pretrained(theirs, max_shard_size="4KB")
    store, config = Store.open(theirs), read_config(theirs)
    tensors = {name: store.read(name) for name in llama().state_dict()}
    write_folder(ours, planned(tensors), config=config, carry_from=theirs, max_shard_size="4KB")

    names = sorted(file.name for file in theirs.iterdir())
    assert len(names) > 6
    assert sorted(file.name for file in ours.iterdir()) == names
    for name in ("config.json", "generation_config.json"):
        assert (ours / name).read_text() == (theirs / name).read_text()
    index, expected = (json.loads((folder / "model.safetensors.index.json").read_text()) for folder in (ours, theirs))
    expected["metadata"]["total_parameters"] = llama().num_parameters()  # transformers 4 leaves it out
    assert index == expected


def test_output_loads_with_transformers(tmp_path):
    model = llama()
    write_folder(
        tmp_path / "out",
        planned(model.state_dict()),
        config=model.config.to_dict() | {"architectures": ["LlamaForCausalLM"]},
        carry_from=None,
        max_shard_size="4KB",
    )
    loaded, info = LlamaForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_zoo_model_copied_loads_with_its_tokenizer(zoo, tmp_path):
    source = Store.open(zoo / "bert-agnews-0")
    plan = [Planned(name, h.shape, h.dtype, lambda name=name: source.read(name)) for name, h in source.headers.items()]
    config = read_config(source.folder)
    write_folder(tmp_path / "out", plan, config=config, carry_from=source.folder, max_shard_size="1MB")
    loaded, info = BertForSequenceClassification.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "out" / "tokenizer.json"))
    ids = tokenizer("stocks fell on monday", return_tensors="pt")["input_ids"]
    original = BertForSequenceClassification.from_pretrained(source.folder)
    torch.testing.assert_close(loaded(ids).logits, original(ids).logits)


def test_files_can_be_read_by_others(tmp_path):
    old = os.umask(0o022)
    try:
        write_folder(tmp_path / "out", planned(sample()), config=CONFIG, carry_from=None, max_shard_size=100)
    finally:
        os.umask(old)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "out").iterdir()} == {0o644}


# Rounding


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


# One shard at a time, whole or not at all


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


# Refusals before any work


def test_output_not_empty(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("kept")
    assert "not empty" in str(refusal(tmp_path / "out", UNMADE))


def test_output_is_a_file(tmp_path):
    (tmp_path / "out").write_text("kept")
    assert "is a file" in str(refusal(tmp_path / "out", UNMADE))
    assert (tmp_path / "out").read_text() == "kept"


def test_parent_missing(tmp_path):
    error = refusal(tmp_path / "none" / "out", UNMADE)
    assert error.next_step.endswith(f"mkdir -p {tmp_path / 'none'}")


def test_parent_is_a_file(tmp_path):
    (tmp_path / "none").write_text("kept")
    assert "is not a folder" in str(refusal(tmp_path / "none" / "out", UNMADE))


def test_parent_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # permissions do not bind root
    assert "cannot be written to" in str(refusal(tmp_path / "out", UNMADE))


def test_not_enough_disk(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12 - 10**9, 10**9))
    check_output(tmp_path / "out", 9 * 10**8)
    error = refusal(tmp_path / "out", [Planned("w", (10**9,), "BF16", never)])
    assert error.expected == "2.03 GB free"
    assert error.found == "1.00 GB"


def test_shard_size_not_a_size(tmp_path):
    assert "5 parsecs" in str(refusal(tmp_path / "out", UNMADE, max_shard_size="5 parsecs"))


def test_empty_folder_and_relative_path_are_fine(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    write_folder(type(tmp_path)("out"), planned(sample()), config=CONFIG, carry_from=None)
    assert_same_tensors(Store.open(tmp_path / "out"), sample())


# Files beside the weights


@pytest.mark.parametrize(
    "name",
    [
        *("generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
        *("added_tokens.json", "vocab.json", "vocab.txt", "vocab.bpe", "merges.txt", "tokenizer.model", "spiece.model"),
        *("sentencepiece.bpe.model", "qwen.tiktoken", "preprocessor_config.json", "processor_config.json"),
        *("video_preprocessor_config.json", "chat_template.jinja", "chat_template.json"),
        *("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "NOTICE", "USE_POLICY.md", "License.pdf"),
    ],
)
def test_carried(name):
    assert is_carried(name)


@pytest.mark.parametrize(
    "name",
    [
        *("config.json", "README.md", "modeling_custom.py", "license.py", ".gitattributes", ".hidden.json"),
        *("model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"),
        *("pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth", "tf_model.h5", "model.gguf"),
        *("flax_model.msgpack", "model.onnx", "vocab.pkl", "training_args.bin", "optimizer.pt", "scheduler.pt"),
        *("rng_state.pth", "trainer_state.json", "all_results.json", "eval_results.json", "events.out.tfevents.1"),
    ],
)
def test_not_carried(name):
    assert not is_carried(name)


def test_files_beside_the_weights(tmp_path, make_folder, monkeypatch):
    monkeypatch.setattr("onebasin.checkpoint.carry.LARGEST", 1000)
    source = make_folder({}, name="source", config={"model_type": "other"})
    for name in ("tokenizer.json", "merges.txt", "README.md", "modeling.py", "trainer_state.json"):
        (source / name).write_text(f"from the input: {name}")
    (source / "vocab.json").write_text("x" * 1001)
    (source / "tokenizer.json").chmod(0o400)
    (source / "original" / "deep").mkdir(parents=True)
    (source / "original" / "params.json").write_text("{}")
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")
    extra = {"README.md": "ours — ‖·‖", "plot.svg": b"<svg/>", "merges.txt": "ours"}
    out = tmp_path / "out"
    write_folder(out, planned(sample()), config=CONFIG, carry_from=source, extra_files=extra)
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files == {
        *("config.json", "model.safetensors", "tokenizer.json", "merges.txt", "README.md", "plot.svg"),
        "additional_chat_templates/tools.jinja",
    }
    assert json.loads((out / "config.json").read_text()) == CONFIG
    assert (out / "tokenizer.json").read_text() == "from the input: tokenizer.json"
    assert (out / "tokenizer.json").stat().st_mode & 0o200
    assert (out / "README.md").read_text(encoding="utf-8") == extra["README.md"]
    assert (out / "plot.svg").read_bytes() == extra["plot.svg"]
    assert (out / "merges.txt").read_text() == "ours"


def test_carries_what_links_point_to(tmp_path):
    blobs, source, out = (tmp_path / name for name in ("blobs", "source", "out"))
    for folder in (blobs, source, out):
        folder.mkdir()
    (blobs / "0a1b").write_text("{}")
    (source / "tokenizer.json").symlink_to(blobs / "0a1b")
    carry_files(source, out)
    assert not (out / "tokenizer.json").is_symlink()
    assert (out / "tokenizer.json").read_text() == "{}"

"""What is written is read again, by onebasin and by transformers."""

import json
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from transformers import BertForSequenceClassification, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from helpers.writing import CONFIG, assert_same_tensors, planned, sample
from onebasin.checkpoint import (
    Planned,
    Store,
    read_config,
    torch_dtype,
    write_folder,
)


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

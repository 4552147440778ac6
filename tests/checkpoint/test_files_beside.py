"""Files beside the weights: what is carried over and what is not."""

import json

import pytest

from helpers.writing import CONFIG, planned, sample
from onebasin.checkpoint import (
    carry_files,
    is_carried,
    write_folder,
)


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
    monkeypatch.setattr("onebasin.checkpoint.output.LARGEST", 1000)
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

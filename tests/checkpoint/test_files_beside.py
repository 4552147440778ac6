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


@pytest.mark.parametrize(("nbytes", "carried"), [(100 * 2**20, True), (100 * 2**20 + 1, False)])
def test_a_file_of_up_to_100_megabytes_is_carried(tmp_path, make_folder, monkeypatch, nbytes, carried):
    source, copied = make_folder({}, name="source", config={"model_type": "other"}), []
    with (source / "vocab.json").open("wb") as file:
        file.truncate(nbytes)  # without blocks on the disk
    monkeypatch.setattr("onebasin.checkpoint.output.shutil.copyfile", lambda file, copy: copied.append(file.name))
    carry_files(source, tmp_path / "out")
    assert ("vocab.json" in copied) == carried


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


def test_links_out_of_the_folder_are_not_followed(tmp_path, make_folder):
    """A link to a private key must not put it into the output; a link to a file of the folder may stay."""
    (tmp_path / "key").write_text("private")
    source, out = make_folder({}, name="source"), tmp_path / "out"
    (source / "vocab.txt").write_text("a b")
    (source / "notes.txt").symlink_to(tmp_path / "key")
    (source / "merges.txt").symlink_to("vocab.txt")
    (source / "gone.txt").symlink_to("nowhere")
    out.mkdir()
    with pytest.warns(UserWarning, match=r"notes.txt is not carried over: it is a link out of"):
        carry_files(source, out)
    assert {file.name for file in out.iterdir()} == {"vocab.txt", "merges.txt"}


def test_links_of_the_hub_cache_are_followed(tmp_path):
    cache, out = tmp_path / "models--org--name", tmp_path / "out"
    snapshot = cache / "snapshots" / "0123abc"
    for folder in (snapshot, cache / "blobs", tmp_path / "blobs", out):
        folder.mkdir(parents=True)
    (cache / "blobs" / "f00").write_text("tokens")
    (tmp_path / "blobs" / "f00").write_text("private")
    (snapshot / "vocab.txt").symlink_to("../../blobs/f00")
    (snapshot / "notes.txt").symlink_to(tmp_path / "blobs" / "f00")
    with pytest.warns(UserWarning, match=r"notes.txt"):
        carry_files(snapshot, out)
    assert {file.name: file.read_text() for file in out.iterdir()} == {"vocab.txt": "tokens"}
    assert not (out / "vocab.txt").is_symlink()


def test_code_that_stays_behind_is_not_named(tmp_path, make_folder):
    """`auto_map` names Python files of the input; nothing in the output may."""
    own = {"auto_map": {"AutoModel": "modeling.Model"}}
    source, out = make_folder({}, name="source"), tmp_path / "out"
    for name in ("tokenizer_config.json", "preprocessor_config.json"):
        (source / name).write_text(json.dumps({**own, "kept": 1}))
    (source / "generation_config.json").write_text("not JSON")
    write_folder(out, planned(sample()), config={**CONFIG, **own}, carry_from=source)
    assert json.loads((out / "config.json").read_text()) == CONFIG
    for name in ("tokenizer_config.json", "preprocessor_config.json"):
        assert json.loads((out / name).read_text()) == {"kept": 1}
    assert (out / "generation_config.json").read_text() == "not JSON"

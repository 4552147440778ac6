import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import errors
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

from onebasin.checkpoint import has_custom_code, locate, read_config, weights_entry
from onebasin.checkpoint.folder import _is_deeper
from onebasin.errors import BadCheckpoint


def refusal(call, *args) -> BadCheckpoint:
    with pytest.raises(BadCheckpoint) as caught:
        call(*args)
    assert caught.value.next_step
    return caught.value


def bare_folder(tmp_path: Path, **files: str) -> Path:
    for name, content in files.items():
        (tmp_path / name.replace("__", ".")).write_text(content)
    return tmp_path


def test_config_is_read_as_it_is(make_folder):
    config = {"model_type": "toy", "n": 3, "nested": {"a": [1, 2.5, None]}}
    assert read_config(make_folder({}, config=config)) == config


def test_no_folder(tmp_path):
    error = refusal(read_config, tmp_path / "absent")
    assert "absent" in str(error)


def test_no_config(tmp_path):
    assert "config.json" in str(refusal(read_config, tmp_path))


@pytest.mark.parametrize("content", ["{", "", "\x00", '"text', "{'model_type': 'toy'}"])
def test_config_not_json(tmp_path, content):
    error = refusal(read_config, bare_folder(tmp_path, config__json=content))
    assert "config.json is not valid JSON" in str(error)
    assert error.found


def test_config_not_text(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert "not valid JSON" in str(refusal(read_config, tmp_path))


@pytest.mark.parametrize(("content", "found"), [("[]", "list"), ("null", "NoneType"), ("3", "int")])
def test_config_not_an_object(tmp_path, content, found):
    error = refusal(read_config, bare_folder(tmp_path, config__json=content))
    assert "config.json is not an object" in str(error)
    assert error.found == found


def test_adapter(tmp_path):
    folder = bare_folder(tmp_path, adapter_config__json="{}", adapter_model__safetensors="")
    for call in (read_config, weights_entry):
        assert "merge_and_unload" in refusal(call, folder).next_step


@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_quantised_by_config(make_folder, key):
    error = refusal(read_config, make_folder({}, config={key: {"bits": 4}}))
    assert key in error.found
    assert "dequantise" in error.next_step


def test_quantised_by_file(make_folder):
    folder = make_folder({})
    (folder / "quantize_config.json").write_text("{}")
    assert "quantize_config.json" in refusal(read_config, folder).found


def test_empty_quantisation_is_none(make_folder):
    assert read_config(make_folder({}, config={"quantization_config": None})) == {"quantization_config": None}


@pytest.mark.parametrize(
    ("file", "kind", "step"),
    [
        ("pytorch_model.bin", "pickle", "save_pretrained(OUT)"),
        ("pytorch_model-00001-of-00002.bin", "pickle", "save_pretrained(OUT)"),
        ("consolidated.00.pth", "pickle", "save_pretrained(OUT)"),
        ("model-q4.gguf", "GGUF", "converted from"),
        ("tf_model.h5", "TensorFlow", "from_tf=True"),
        ("flax_model.msgpack", "Flax", "from_flax=True"),
    ],
)
def test_other_formats_only(make_folder, file, kind, step):
    folder = make_folder()
    (folder / file).write_bytes(b"not opened")
    for call in (read_config, weights_entry):
        error = refusal(call, folder)
        assert f"{kind} weights only" in str(error)
        assert file in error.found
        assert step in error.next_step


def test_other_formats_beside_safetensors_are_left_alone(make_folder):
    folder = make_folder({})
    (folder / "pytorch_model.bin").write_bytes(b"not opened")
    assert weights_entry(folder) == folder / "model.safetensors"
    assert read_config(folder)


def test_no_weights(make_folder):
    error = refusal(weights_entry, make_folder())
    assert "model.safetensors" in error.expected


def test_weights_under_another_name(make_folder):
    folder = make_folder({})
    (folder / "model.safetensors").rename(folder / "model.fp16.safetensors")
    error = refusal(weights_entry, folder)
    assert error.found == "model.fp16.safetensors"
    assert "rename" in error.next_step


def test_one_file_wins_over_an_old_index(make_folder):
    folder = make_folder({})
    (folder / "model.safetensors.index.json").write_text("stale")
    assert weights_entry(folder).name == "model.safetensors"


def test_custom_code_is_told_and_never_run(make_folder):
    folder = make_folder({})
    assert not has_custom_code(folder, read_config(folder))
    assert has_custom_code(folder, {"auto_map": {"AutoModel": "modeling.Model"}})
    (folder / "modeling.py").write_text("raise SystemExit('executed')")
    assert has_custom_code(folder, read_config(folder))


def test_locate_local_folder(tmp_path):
    assert locate(str(tmp_path)) == tmp_path


def test_locate_file(tmp_path):
    file = bare_folder(tmp_path, model__safetensors="") / "model.safetensors"
    assert "is a file" in str(refusal(locate, str(file)))


@pytest.mark.parametrize("path", ["/no/such", "./none", "../none", "~/none-such", "a/b/c"])
def test_locate_path_never_asks_the_hub(path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("the Hub was asked"))
    assert path in str(refusal(locate, path))


def http_error(kind: type) -> Exception:
    error = kind.__new__(kind)  # their constructors want the response of a server
    Exception.__init__(error, "from the server")
    return error


@pytest.mark.parametrize(
    ("raised", "what", "step"),
    [
        (http_error(RepositoryNotFoundError), "no such model", "spelling"),
        (http_error(GatedRepoError), "to everyone", "hf auth login"),
        (http_error(errors.RevisionNotFoundError), "no revision v9", "branch"),
        (LocalEntryNotFoundError("outgoing traffic has been disabled"), "could not provide", "go online"),
        (errors.OfflineModeIsEnabled("offline"), "could not provide", "go online"),
    ],
)
def test_locate_hub_errors(monkeypatch, raised, what, step):
    def fail(*args, **kwargs):
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    error = refusal(locate, "someone/model", "v9")
    assert what in str(error)
    assert step in error.next_step


def test_locate_not_an_id():
    assert "not a Hub id" in str(refusal(locate, "no such folder"))


def test_locate_downloads_data_only(monkeypatch, tmp_path):
    asked = {}
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **k: asked.update(k, name=name) or tmp_path)
    assert locate("someone/model", "v1") == tmp_path
    assert (asked["name"], asked["revision"]) == ("someone/model", "v1")
    offered = [
        *("config.json", "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"),
        *("tokenizer.json", "tokenizer.model", "merges.txt", "chat_template.jinja", "LICENSE", "adapter_config.json"),
    ]
    refused = ["pytorch_model.bin", "modeling.py", "tf_model.h5", "model-q4.gguf", "consolidated.safetensors"]
    taken = huggingface_hub.utils.filter_repo_objects(offered + refused, allow_patterns=asked["allow_patterns"])
    assert list(taken) == offered


def test_headers_need_no_torch(make_folder):
    folder = make_folder({})
    code = (
        "import sys; from pathlib import Path; from onebasin.checkpoint import Store, read_config\n"
        "folder = Path(sys.argv[1]); read_config(folder); Store.open(folder)\n"
        "{}\n"
        "sys.exit(' '.join({{'torch', 'transformers'}} & set(sys.modules)) or None)"
    )
    clean = subprocess.run([sys.executable, "-c", code.format(""), folder], capture_output=True, text=True)
    assert (clean.returncode, clean.stderr) == (0, "")
    control = subprocess.run(
        [sys.executable, "-c", code.format("import torch"), folder], capture_output=True, text=True
    )
    assert (control.returncode, control.stderr.strip()) == (1, "torch")


@pytest.mark.parametrize("wrap", [lambda x: {"key": x}, lambda x: [x], lambda x: {"a": 1, "b": [x]}])
def test_objects_and_lists_lie_in_each_other_so_many_times(wrap):
    value: object = 1
    for level in range(1, 5):
        value = wrap(value)
        depth = level * (2 if isinstance(value, dict) and "b" in value else 1)
        assert not _is_deeper(value, depth)
        assert _is_deeper(value, depth - 1)

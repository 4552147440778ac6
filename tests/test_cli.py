"""The command line, in process: what it prints, its exit codes, and one clear refusal for every bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
import typer
from random_models import config_of, random_folder, random_model, rope
from safetensors.torch import load_file, save_file

import onebasin
from onebasin import Checkpoint, verification
from onebasin.archs.rotary import before_5
from onebasin.checkpoint import output
from onebasin.cli.app import app
from onebasin.maps import Orthogonal

FIRST = "model.layers.0.self_attn.q_proj.weight"
LLAMA = {
    "hidden_size": 36, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 9, "head_dim": 4,
    "num_key_value_heads": 3, "hidden_act": "silu", "vocab_size": 17, "max_position_embeddings": 12, "num_labels": 3,
    "rms_norm_eps": 1e-6, "mlp_bias": True, "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def llama(folder: Path, name: str = "LlamaForCausalLM", weights: int = 0, **settings: object) -> Path:
    random_model(name, transformers.LlamaConfig(**{**LLAMA, **settings}), weights).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def pristine(tmp_path_factory) -> Path:
    """Folders that are only read: two small Llamas of one shape, and other models."""
    root = tmp_path_factory.mktemp("models")
    llama(root / "a")
    llama(root / "b", weights=1)
    llama(root / "classifier", "LlamaForTokenClassification")
    tied = config_of("gpt2", 2)
    tied.tie_word_embeddings = True
    random_model("GPT2LMHeadModel", tied, 0).save_pretrained(root / "gpt2")
    random_folder(root / "vit", "vit", "ViTForImageClassification", 3)
    return root


@pytest.fixture
def run(cli):
    return cli


@pytest.fixture
def copy(pristine, tmp_path):
    """A copy of one of the pristine folders, to be changed."""

    def make(name: str = "a", to: str = "copy") -> Path:
        return Path(shutil.copytree(pristine / name, tmp_path / to))

    return make


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def edit_weights(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


# ---- the verbs


VERBS = {
    "align": {
        "models", "--out", "-o", "--method", "--preset", "--spaces", "--task", "--samples", "--length", "--start",
        "--steps", "--learn", "--universe", "--device", "--dtype", "--max-shard-size", "--mergekit", "--set",
        "--dry-run", "--resume", "--json", "--quiet",
    },
    "barrier": {
        "models", "--task", "--out", "-o", "--path", "--points", "--samples", "--length", "--batch-size", "--device",
        "--set", "--dry-run", "--json", "--quiet",
    },
    "demo": {"--out", "-o", "--task", "--quick", "--json", "--quiet"},
    "inspect": {"a", "b", "--revision", "--json"},
    "merge": {
        "models", "--out", "-o", "--weight", "--weights", "--method", "--preset", "--spaces", "--task", "--samples",
        "--length", "--start", "--steps", "--learn", "--universe", "--device", "--dtype", "--max-shard-size", "--set",
        "--dry-run", "--resume", "--json", "--quiet",
    },
    "run": {"recipe", "--out", "-o", "--set", "--dry-run", "--resume", "--json", "--quiet"},
    "verify": {"a", "--revision", "--seed", "--json", "--quiet"},
    "widen": {"a", "--out", "-o", "--set", "--extra", "--revision", "--json", "--quiet"},
}  # fmt: skip


def test_the_verbs_and_their_options_are_these():
    """A frozen list: scripts depend on it, so a change here belongs into the changelog."""
    command = typer.main.get_command(app)
    found = {
        verb: {name for p in sub.params for name in (*p.opts, *p.secondary_opts)} - {"--help"}
        for verb, sub in command.commands.items()
    }
    assert found == VERBS
    assert {name for p in command.params for name in p.opts} - {"--install-completion", "--show-completion"} == {
        "--debug",
        "--version",
    }


def test_help_lists_the_verbs(run):
    code, out, _ = run("--help")
    assert code == 0
    for verb in VERBS:
        assert f"\n  {verb} " in out
    for verb, options in VERBS.items():
        code, out, _ = run(verb, "--help")
        assert code == 0
        assert all(option in out for option in options if option.startswith("--"))


def test_version(run):
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith(f"onebasin {onebasin.__version__}, torch {torch.__version__.split('+')[0]}")


@pytest.mark.parametrize("arguments", [["conquer"], ["inspect"], ["verify", "--fast", "x"], ["inspect", "a", "b", "c"]])
def test_usage_errors(run, arguments):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("onebasin: ")
    assert "next step:" in err
    assert "--help lists what there is" in err


def test_a_typing_mistake_is_guessed(run):
    assert "Did you mean 'align'?" in run("algin", "a", "b")[2]
    assert "next step: did you mean --method? onebasin align --help" in run("align", "a", "b", "--metod", "weight")[2]


def test_no_arguments_show_the_help(run):
    assert run() == run("--help")


# ---- inspect


def test_inspect_prints_spaces_families_and_reasons(run, pristine):
    code, out, err = run("inspect", pristine / "a")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "orthogonal" in lines["residual"]
    assert "RMSNorm" in lines["residual"]
    assert "rotary" in lines["layers.*.qk"]
    assert "linear maps only" in lines["layers.*.ov"]
    assert lines["LlamaForCausalLM"].endswith(str(pristine / "a"))
    assert "group dimension" in out
    assert "memory" in out


def test_inspect_says_what_is_tied_and_what_stays(run, pristine, tmp_path):
    _, out, _ = run("inspect", pristine / "gpt2")
    assert "head tied to transformer.wte.weight" in out
    _, out, _ = run("inspect", random_folder(tmp_path / "bert", "bert", "BertModel", 2))
    assert "gain(s) stay, embeddings.LayerNorm first: post-norm" in out


def test_inspect_json_is_everything(run, pristine):
    code, out, _ = run("inspect", pristine / "a", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["architecture"] == "LlamaForCausalLM"
    assert report["dimension"] == sum(space["dimension"] for space in report["spaces"])
    assert {"name", "size", "fibres", "family", "as_stored", "because"} <= set(report["spaces"][0])


def test_inspect_reads_headers_only(run, copy, monkeypatch):
    monkeypatch.setattr("onebasin.checkpoint.store.Store.read", lambda *_: pytest.fail("read a tensor"))
    folder = copy()
    assert run("inspect", folder)[0] == 0
    assert run("inspect", folder, folder)[0] == 0


def test_inspect_a_pair(run, pristine):
    code, out, _ = run("inspect", pristine / "a", pristine / "b")
    assert code == 0
    assert out.splitlines()[-1].startswith("ready: nothing blocks an alignment; next: onebasin align ")
    code, out, _ = run("inspect", pristine / "a", pristine / "b", "--json")
    pair = json.loads(out)
    assert (code, pair["alignable"], pair["obstacles"]) == (0, True, [])
    assert pair["a"]["dimension"] == pair["b"]["dimension"]


def blocked(run, a: Path, b: Path) -> list[str]:
    """What the command says blocks the pair, the same in text and JSON; exit code 1."""
    code, out, _ = run("inspect", a, b)
    assert code == 1
    assert out.splitlines()[-1].startswith("not ready: these two cannot be aligned as they are (")
    code, text, _ = run("inspect", a, b, "--json")
    pair = json.loads(text)
    assert (code, pair["alignable"]) == (1, False)
    blocks = [o for o in pair["obstacles"] if o["blocks"]]
    assert all(f"blocks: {o['what']}" in out and o["next_step"] for o in blocks)
    return [o["what"] for o in blocks]


def test_another_class_blocks(run, pristine):
    assert blocked(run, pristine / "a", pristine / "classifier") == ["model class"]
    assert blocked(run, pristine / "a", pristine / "gpt2") == ["model class"]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"num_hidden_layers": 2}, "number of layers"),
        ({"vocab_size": 23}, "length of a labelled axis of model.embed_tokens.weight"),
        ({"mlp_bias": False}, "tensors"),
        ({"hidden_act": "relu"}, "operations on layers.0.ffn"),
        ({"rms_norm_eps": 0.0}, "size or eps"),
        (rope(77.0), "rope"),
    ],
)
def test_another_shape_or_computation_blocks(run, pristine, tmp_path, settings, what):
    assert what in blocked(run, pristine / "a", llama(tmp_path / "b", **settings))


@pytest.mark.parametrize(
    ("settings", "growth"),
    [
        ({"hidden_size": 24, "num_attention_heads": 6}, "B: residual 24 -> 36, heads 6 -> 9"),
        ({"intermediate_size": 7}, "FFN"),
        ({"num_key_value_heads": 1}, "key/value heads"),
        ({"rms_norm_eps": 0.25}, "B: eps 0.25 -> 1e-06"),
    ],
)
def test_another_size_or_eps_is_widened(run, pristine, tmp_path, settings, growth):
    code, out, _ = run("inspect", pristine / "a", llama(tmp_path / "b", **settings))
    assert code == 0
    assert "note: size or eps" in out
    assert growth in out.split("widened first, exactly")[1]


def test_another_tie_is_no_obstacle(run, pristine, tmp_path):
    code, out, _ = run("inspect", pristine / "a", llama(tmp_path / "b", tie_word_embeddings=True))
    assert code == 0
    assert "note: tied embeddings" in out


def tokenizer_json(order: list[str]) -> dict[str, str]:
    return {"tokenizer.json": json.dumps({"model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(order)}}})}


def unigram_json(order: list[str]) -> dict[str, str]:
    return {"tokenizer.json": json.dumps({"model": {"type": "Unigram", "vocab": [[t, -1.0] for t in order]}})}


def vocab_json(order: list[str]) -> dict[str, str]:
    return {"vocab.json": json.dumps({t: i for i, t in enumerate(order)})}


def vocab_txt(order: list[str]) -> dict[str, str]:
    return {"vocab.txt": "\n".join(order) + "\n"}


@pytest.mark.parametrize("kind", [tokenizer_json, unigram_json, vocab_json, vocab_txt])
def test_another_order_of_the_vocabulary_blocks(run, copy, kind):
    a, b = copy(to="a"), copy(to="b")
    for folder, order in ((a, ["the", "cat", "sat"]), (b, ["the", "sat", "cat"])):
        for name, text in kind(order).items():
            (folder / name).write_text(text)
    assert blocked(run, a, b) == ["token 'cat'"]
    for name, text in kind(["the", "cat", "sat"]).items():
        (b / name).write_text(text)
    assert run("inspect", a, b)[0] == 0


def test_other_labels_block(run, copy):
    a, b = copy("vit", "a"), copy("vit", "b")
    edit_config(a, id2label={"0": "cat", "1": "dog", "2": "owl"})
    edit_config(b, id2label={"0": "dog", "1": "cat", "2": "owl"})
    assert blocked(run, a, b) == ["class names (id2label)"]


def test_other_preprocessing_blocks(run, copy):
    a, b = copy("vit", "a"), copy("vit", "b")
    (a / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5], "size": 8, "image_processor": "x"}))
    (b / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.4], "size": 8, "image_processor": "y"}))
    assert blocked(run, a, b) == ["preprocessing: image_mean"]


# ---- verify


def test_verify_holds(run, pristine):
    code, out, err = run("verify", pristine / "a", "--seed", "3")
    assert (code, err) == (0, "")
    assert "promise holds" in out
    assert "layers.0.qk" in out
    code, out, _ = run("verify", pristine / "a", "--seed", "3", "--json", "--quiet")
    report = json.loads(out)
    assert (code, report["holds"]) == (0, True)
    assert set(report["drift"]) == {"float64", "float32"}
    assert report["drift"]["float64"] < 1e-9 < report["drift"]["float32"]


def test_a_broken_promise_is_exit_code_1(run, pristine, monkeypatch):
    monkeypatch.setattr(verification, "PROMISE", 0.0)
    code, out, _ = run("verify", pristine / "a")
    assert code == 1
    assert "promise IS BROKEN" in out


def test_a_wrong_map_is_found(run, pristine, monkeypatch):
    """A residual map that is off by a percent: the command must notice, and tell the space."""
    monkeypatch.setattr(Orthogonal, "_draw", classmethod(lambda cls, n, m, draw: cls(1.01 * draw.isometry(m, n))))
    code, out, _ = run("verify", pristine / "gpt2", "--json")
    assert code == 0  # this one has no orthogonal space
    code, out, _ = run("verify", pristine / "a", "--json")
    report = json.loads(out)
    assert (code, report["holds"]) == (1, False)
    assert {space for space, drift in report["per_space"].items() if drift > 1e-9} == {"residual"}


# ---- bad input: each is refused with one clear error, exit code 2, and nothing written


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def corrupt(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(b"\xff" * 64 + file.read_bytes()[64:])


def pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def custom_code(folder: Path) -> None:
    (folder / "modeling_own.py").write_text("raise SystemExit('this code must never run')\n")
    edit_config(folder, model_type="own", auto_map={"AutoModelForCausalLM": "modeling_own.OwnModel"})


def adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def shards(folder: Path) -> None:
    """An index that names a file which is not there."""
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {FIRST: "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


BAD = {  # name -> what is done to the folder, what the error must say (what, tensor, expected, found, next step)
    "truncated": (truncate, ["model.safetensors cannot be read", "found:", "next step: the file is damaged"]),
    "corrupt": (corrupt, ["model.safetensors cannot be read", "found:", "next step: the file is damaged"]),
    "missing shard": (shards, ["not in the folder", "expected: model-00001-of-00002.safetensors", "next step:"]),
    "missing tensor": (
        lambda folder: edit_weights(folder, lambda t: t.pop(FIRST)),
        ["lacks a tensor that LlamaForCausalLM needs", f"tensor: {FIRST}", "expected:", "found:", "next step: load"],
    ),
    "extra tensor": (
        lambda folder: edit_weights(folder, lambda t: t.update(odd=torch.ones(2))),
        ["holds a tensor that LlamaForCausalLM does not have", "tensor: odd", "expected:", "found:", "next step: load"],
    ),
    "other width in config": (
        lambda folder: edit_config(folder, intermediate_size=13),
        ["disagree about a shape", "tensor: model.layers.0.mlp", "expected: (13, 36)", "found: (12, 36)", "next step:"],
    ),
    "more layers in config": (
        lambda folder: edit_config(folder, num_hidden_layers=2),
        ["lacks a tensor", "tensor: model.layers.1", "next step:"],
    ),
    "no layers in config": (
        lambda folder: edit_config(folder, num_hidden_layers=0),
        ["holds a tensor", "tensor: model.layers.0", "next step:"],
    ),
    "zero heads in config": (
        lambda folder: edit_config(folder, num_attention_heads=0, head_dim=None),
        ["config.json", "next step: correct"],
    ),
    "nonsense in config": (
        lambda folder: edit_config(folder, hidden_size="wide"),
        ["config.json", "found:", "next step: correct"] if before_5() else  # 4.x takes a word for a number
        ["config.json is not a valid llama configuration", "found:", "hidden_size", "next step: correct"],
    ),
    "unknown type": (
        lambda folder: edit_config(folder, model_type="rwkv"),
        ["No table describes model_type 'rwkv'", "expected: bert, gpt2,", "found: rwkv", "next step: add one"],
    ),
    "type of another kind": (
        lambda folder: edit_config(folder, model_type=["llama"]),
        ["No table describes model_type ['llama']", "next step: add one"],
    ),
    "unknown class": (
        lambda folder: edit_config(folder, architectures=["LlamaForQuestionAnswering"]),
        ["does not cover this model class", "LlamaForCausalLM", "found: LlamaForQuestionAnswering", "next step: set"],
    ),
    "classes of another kind": (
        lambda folder: edit_config(folder, architectures={"LlamaForCausalLM": 1}),
        ["does not cover this model class", "expected: LlamaModel", "next step: set"],
    ),
    "config not JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        ["config.json is not valid JSON", "found:", "next step:"],
    ),
    "no config": (lambda folder: (folder / "config.json").unlink(), ["has no config.json", "next step:"]),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        ["has no weights", "expected: model.safetensors", "found: no safetensors file", "next step: give a folder"],
    ),
    "pickle only": (
        pickle_only,
        ["pickle weights only", "expected: model.safetensors", "found: pytorch_model.bin", "save_pretrained"],
    ),
    "custom code": (custom_code, ["No table describes model_type 'own'", "expected: bert,", "next step:"]),
    "quantised by config": (
        lambda folder: edit_config(folder, quantization_config={"quant_method": "gptq"}),
        ["is quantised", "found: quantization_config", "next step: use the original checkpoint, or dequantise it"],
    ),
    "quantised tensors": (
        lambda folder: edit_weights(folder, lambda t: t.update({FIRST: t[FIRST].to(torch.int8)})),
        ["is quantised", f"tensor: {FIRST}", "found: I8", "next step: use the original checkpoint"],
    ),
    "adapter": (adapter, ["is an adapter", "found: adapter_config.json", "next step: merge it"]),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["inspect", "verify"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(run, copy, tmp_path, verb, case):
    damage, says = BAD[case]
    folder = copy()
    damage(folder)
    before = contents(tmp_path)
    code, out, err = run(verb, folder)
    assert (code, out) == (2, "")
    assert err.startswith("onebasin: ")
    assert [piece for piece in says if piece not in err] == []
    assert "Traceback" not in err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("field", ["image_size", "patch_size"])
@pytest.mark.parametrize("size", [[], [8], [8, 8, 8]])
def test_a_size_that_is_no_height_and_width_is_refused(run, copy, field, size):
    folder = copy("vit")
    edit_config(folder, **{field: size})
    code, out, err = run("inspect", folder)
    assert (code, out) == (2, "")
    for piece in ("no height and width", "expected: 32 or [32, 32]", f"found: {size}", "next step: correct image_size"):
        assert piece in err
    edit_config(folder, image_size=[8, 8], patch_size=Checkpoint.open(copy("vit", "whole")).config["patch_size"])
    assert run("inspect", folder)[0] == 0


def test_bad_input_beside_good_input_is_refused(run, copy, pristine):
    folder = copy()
    truncate(folder)
    assert run("inspect", pristine / "a", folder)[0] == 2
    assert run("inspect", folder, pristine / "a")[0] == 2


@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.json"])
def test_a_damaged_tokenizer_is_refused(run, copy, pristine, file):
    folder = copy()
    (folder / file).write_text("{")
    code, out, err = run("inspect", pristine / "a", folder)
    assert (code, out) == (2, "")
    assert f"{file} is not valid JSON" in err


@pytest.mark.parametrize(("value", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")])
def test_numbers_that_are_not_finite_are_refused(run, copy, value, shown):
    folder = copy()
    edit_weights(folder, lambda t: t[FIRST].view(-1).__setitem__(5, value))
    code, out, err = run("verify", folder)
    assert (code, out) == (2, "")
    for piece in (
        "not finite",
        f"tensor: {FIRST}",
        "expected: finite",
        f"found: 1 of 1296, first {shown} at (0, 5)",
        "next step:",
    ):
        assert piece in err


def test_a_tie_between_different_tensors_is_refused(run, copy):
    folder = copy("gpt2")
    edit_weights(folder, lambda t: t.update({"lm_head.weight": t["transformer.wte.weight"] + 1}))
    code, out, err = run("verify", folder)
    assert (code, out) == (2, "")
    for piece in ("ties two tensors", "tensor: lm_head.weight", "transformer.wte.weight", "next step: set tie_word"):
        assert piece in err


def test_custom_code_is_never_run(run, copy):
    """A known architecture with code of its own is read as data."""
    folder = copy()
    custom_code(folder)
    edit_config(folder, model_type="llama")
    assert run("inspect", folder)[0] == 0
    assert run("verify", folder)[0] == 0


def test_a_path_that_is_not_there(run, tmp_path):
    code, out, err = run("inspect", tmp_path / "absent")
    assert (code, out) == (2, "")
    assert "there is no folder" in err
    assert "next step: check the path" in err


def test_the_traceback_is_shown_on_request(run, copy):
    folder = copy()
    truncate(folder)
    code, out, err = run("--debug", "inspect", folder)
    assert (code, out) == (2, "")
    assert "Traceback" in err
    assert err.rstrip().splitlines()[-1].startswith("  next step:")


# ---- bad output: refused before work


def refused_output(run, out: Path, *says: str) -> None:
    before = contents(out.parent), sorted(out.parent.rglob("*"))
    code, printed, err = run("demo", "-o", out)
    assert (code, printed) == (2, "")
    assert err.startswith("onebasin: ")
    assert "Traceback" not in err
    assert [piece for piece in (*says, "next step:") if piece not in err] == []
    assert (contents(out.parent), sorted(out.parent.rglob("*"))) == before


def test_a_file_as_output(run, tmp_path):
    (tmp_path / "out").write_text("")
    refused_output(run, tmp_path / "out", "is a file")


def test_an_output_folder_that_is_not_empty(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("x")
    refused_output(run, tmp_path / "out", "is not empty", "expected: a new or empty folder")


def test_a_read_only_target(run, tmp_path, monkeypatch):
    monkeypatch.setattr(output.os, "access", lambda path, mode: False)
    refused_output(run, tmp_path / "out", "cannot be written to")


def test_not_enough_disk(run, tmp_path, monkeypatch):
    monkeypatch.setattr(output.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    refused_output(run, tmp_path / "out", "not enough disk space", "expected:", "found: 0.00 GB")


def test_output_below_a_folder_that_is_not_there(run, tmp_path):
    code, printed, err = run("demo", "-o", tmp_path / "no" / "out")
    assert (code, printed) == (2, "")
    assert "mkdir -p" in err
    assert list(tmp_path.iterdir()) == []

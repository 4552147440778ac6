"""The Python verbs: every kind of source, the tensors of the command line, and what the results say of themselves."""

from __future__ import annotations

import gc
import inspect
import json
from pathlib import Path

import pytest
import torch
import transformers
import typer
import yaml

import onebasin
from helpers.random_models import BYTES, byte_llama, random_model
from onebasin import Aligned, Alignment, Checkpoint, OnebasinError, canonicalize, in_gauge_of, transport
from onebasin.checkpoint.sources import opened
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.cli.app import app
from onebasin.ensemble.merged import Merged
from onebasin.methods.registry import resolve_name

Q = "model.layers.0.self_attn.q_proj.weight"
SMALL = {"steps": 2, "batch": 4, "eval_every": 1}
FEW = {"task": "builtin:python:train", "samples": 40, "length": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three random models that read bytes."""
    root = tmp_path_factory.mktemp("models")
    for seed, name in enumerate("abc"):
        byte_llama(root / name, seed)
    return root


@pytest.fixture(scope="module")
def pair(folder) -> Aligned:
    return onebasin.align(folder / "a", folder / "b", method="weight")


def logits(checkpoint: Checkpoint) -> torch.Tensor:
    return outputs(stock_model(checkpoint), checkpoint.spec, probe_inputs(checkpoint.spec))["logits"]


def same(a: Checkpoint, b: Checkpoint) -> bool:
    return list(a) == list(b) and all(torch.equal(a[leaf], b[leaf]) for leaf in a)


def test_about_ten_public_names_and_all_of_them_are_there():
    assert len(onebasin.__all__) == 13
    for name in onebasin.__all__:
        assert getattr(onebasin, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'aline'"):
        onebasin.aline  # noqa: B018


# ---- sources


def live_model(seed: int) -> transformers.PreTrainedModel:
    return random_model("LlamaForCausalLM", transformers.LlamaConfig(**BYTES), seed)


@pytest.mark.parametrize("kind", ["text", "path", "checkpoint", "live"])
def test_every_kind_of_source_gives_the_same_tensors(folder, pair, kind):
    make = {
        "text": lambda i: str(folder / "ab"[i]),
        "path": lambda i: folder / "ab"[i],
        "checkpoint": lambda i: Checkpoint.open(folder / "ab"[i]),
        "live": live_model,
    }[kind]
    found = onebasin.align(make(0), make(1), method="weight")
    assert same(found.models[1], pair.models[1])
    assert found.certificate["output_drift"] == pair.certificate["output_drift"]


def test_a_checkpoint_in_memory_is_taken_as_it_is_and_not_as_its_folder(folder, pair):
    form = canonicalize(Checkpoint.open(folder / "b")).checkpoint
    moved = transport(form, Alignment.random(form.spec, 3))
    found = onebasin.align(folder / "a", moved, method="weight")
    assert found.certificate["distance_before"] != pytest.approx(pair.certificate["distance_before"], rel=1e-3)
    assert torch.allclose(logits(found.models[1]), logits(pair.models[1]))


def test_the_folder_of_a_live_model_goes_with_its_last_reader():
    checkpoint = opened(live_model(0))
    root, derived = checkpoint.store.folder.parent, checkpoint.derive({})
    del checkpoint
    gc.collect()
    assert root.exists()
    derived.check_values()
    del derived
    gc.collect()
    assert not root.exists()


@pytest.mark.parametrize("source", [3, None, torch.nn.Linear(2, 2)])
def test_what_is_no_model_is_refused(source):
    with pytest.raises(OnebasinError, match="This is no model") as caught:
        onebasin.verify(source)
    assert "save_pretrained" in caught.value.next_step


def test_a_live_model_that_cannot_be_read_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mamba = transformers.MambaModel(transformers.MambaConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1))
    with pytest.raises(OnebasinError, match="No table describes"):
        opened(mamba)
    assert list(tmp_path.glob("onebasin-*")) == []  # torch may put its own things there


# ---- align and merge


def test_align_writes_what_the_command_line_writes(cli, folder, pair, tmp_path):
    pair.save(tmp_path / "api")
    assert cli("align", folder / "a", folder / "b", "--method", "weight", "-o", tmp_path / "cli")[0] == 0
    names = [sorted(file.name for file in (tmp_path / side).iterdir()) for side in ("api", "cli")]
    assert names[0] == names[1]
    for name in ("model.safetensors", "alignment.safetensors", "config.json", "recipe.yaml"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes(), name
    certificates = [json.loads((tmp_path / side / "certificate.json").read_text()) for side in ("api", "cli")]
    assert certificates[0] == certificates[1]


def test_nothing_is_written_before_save_and_no_folder_is_overwritten(folder, pair, tmp_path):
    with pytest.raises(OnebasinError, match="is not empty"):
        pair.save(folder)
    pair.save(tmp_path / "half", dtype="bfloat16")
    assert yaml.safe_load((tmp_path / "half" / "recipe.yaml").read_text())["write"]["dtype"] == "bfloat16"
    assert Checkpoint.open(tmp_path / "half").stored[Q][1] == "BF16"


def test_merged_is_the_weighted_average_and_merge_says_the_same(folder, pair):
    a, b = pair.models
    assert torch.allclose(pair.merged([3, 1])[Q], 0.75 * a[Q] + 0.25 * b[Q])
    assert torch.allclose(pair.merged()[Q], (a[Q] + b[Q]) / 2)
    merged = onebasin.merge([folder / "a", folder / "b"], shares=[3, 1], method="weight")
    assert same(merged, pair.merged([3, 1]))
    with pytest.raises(OnebasinError, match="one share for each"):
        pair.merged([1, 2, 3])


def test_merge_writes_what_the_command_line_writes(cli, folder, tmp_path):
    """The same files, and the same scores."""
    (tmp_path / "valid.txt").write_text("the cat sat on the mat. " * 40)
    task = f"text:{tmp_path / 'valid.txt'}"
    models = [folder / "a", folder / "b"]
    merged = onebasin.merge(models, shares=[3, 1], method="weight", task=task, samples=20, length=8)
    merged.save(tmp_path / "api")
    flags = ("--shares", "3,1", "--method", "weight", "--task", task, "--samples", 20, "--length", 8)
    assert cli("merge", *models, *flags, "-o", tmp_path / "cli")[0] == 0
    names = [sorted(file.name for file in (tmp_path / side).iterdir()) for side in ("api", "cli")]
    assert names[0] == names[1]
    for name in ("model.safetensors", "alignment.safetensors", "config.json", "recipe.yaml", "certificate.json"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes(), name
    scores = json.loads((tmp_path / "api" / "certificate.json").read_text())["scores"]
    assert [row["name"] for row in scores["rows"]] == ["A (a)", "B (b)", "plain average", "merged", "ensemble"]


@pytest.mark.parametrize(
    ("verdict", "warned"), [("worse than A by 0.5 ± 0.1: not recommended", True), ("unknown", False)]
)
def test_a_merge_that_is_worse_is_warned_of(folder, tmp_path, recwarn, verdict, warned):
    Merged.of(Checkpoint.open(folder / "a"), lambda *_, **__: {"verdict": verdict}).save(tmp_path / "out")
    assert [str(warning.message) for warning in recwarn] == [f"the merged model is {verdict}"] * warned


def test_a_merged_model_is_a_checkpoint(folder, tmp_path):
    merged = onebasin.merge([folder / "a", folder / "b"], method="weight")
    assert "lm_head.weight" in merged.spec.keys
    assert type(merged.in_memory()) is Checkpoint  # a rewrite of it is another model
    assert type(onebasin.live(merged)).__name__ == "LlamaForCausalLM"
    merged.save(tmp_path / "out", max_shard_size="1GB")
    with pytest.raises(OnebasinError, match="not empty"):
        merged.save(tmp_path / "out")
    merged.save(tmp_path / "out", overwrite=True)
    assert "quality unknown" in (tmp_path / "out" / "README.md").read_text()
    again = onebasin.merge([folder / "a", tmp_path / "out"], method="weight")
    with pytest.raises(OnebasinError, match="would replace an input"):
        again.save(tmp_path / "out", overwrite=True)


def test_the_certificate_is_of_the_dtype_that_is_saved(folder, pair, tmp_path):
    """Found out when it is saved: before, the dtype was that of the inputs."""
    assert pair.certificate["written"]["."]["dtype"] == "float32"
    pair.save(tmp_path / "half", dtype="bf16")
    written = json.loads((tmp_path / "half" / "certificate.json").read_text())["written"]["."]
    assert written["dtype"] == "bfloat16"
    assert written["drift"] > 100 * pair.certificate["written"]["."]["drift"]


def test_many_models(folder):
    found = onebasin.align(*(folder / name for name in "abc"), method="weight")
    assert len(found.models) == 3
    assert len(found.alignments) == 3
    for name, model in zip("bc", found.models[1:], strict=True):
        assert torch.allclose(logits(model), logits(Checkpoint.open(folder / name)))
    assert torch.allclose(found.merged()[Q], sum(model[Q] for model in found.models) / 3)
    assert same(found.apply(folder / "c", which=2), found.models[2])
    assert repr(found).count("output drift") == 2


def test_merge_takes_a_list(folder):
    for models in (str(folder / "a"), [folder / "a"]):
        with pytest.raises(OnebasinError, match="A merge takes a list of models") as caught:
            onebasin.merge(models)
        assert "merge([A, B])" in caught.value.next_step


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("activation", FEW),
        ("learned", {**FEW, "learned": SMALL}),
        ("dual", {**FEW, "learned": {**SMALL, "start": "weight"}}),
        ("soft", {**FEW, "learned": {**SMALL, "start": "identity"}}),
        ("auto", {"task": "synthetic", "samples": 20, "length": 8, "learned": SMALL}),
    ],
)
def test_every_method_of_the_command_line(folder, pair, method, options):
    found = onebasin.align(folder / "a", folder / "b", method=method, **options)
    name = resolve_name(method, {})
    assert found.certificate["method"] == name
    assert f"method {name}" in repr(found)
    if method != "soft":  # whose maps are no symmetries
        assert found.certificate["output_drift"]["float64"] < 1e-9
        assert not torch.allclose(found.models[1][Q], pair.models[1][Q])
    if "learned" in options:
        assert "midpoint" in repr(found)


def test_options_reach_the_recipe_and_wrong_ones_are_refused(folder):
    found = onebasin.align(folder / "a", folder / "b", weight={"preset": "p1-code", "sweeps": 2})
    assert found.certificate["sweeps"] == 2
    with pytest.raises(OnebasinError, match=r"weight\.sweep is not a key"):
        onebasin.align(folder / "a", folder / "b", weight={"sweep": 2})
    with pytest.raises(OnebasinError, match="method has no such choice"):
        onebasin.align(folder / "a", folder / "b", method="wieght")
    with pytest.raises(OnebasinError, match="task is missing"):
        onebasin.align(folder / "a", folder / "b", method="learned")


def test_a_notebook_shows_the_models_that_were_moved(pair):
    shown, before = pair._repr_html_(), pair.certificate["distance_before"]
    assert "<p>Aligned: 2 × LlamaForCausalLM, method weight</p>" in shown
    assert f"<td>b</td><td>{before:.4g}</td>" in shown


# ---- apply


def test_apply_moves_like_b(folder, pair):
    assert same(pair.apply(folder / "b"), pair.models[1])
    other = Checkpoint.open(folder / "c")
    moved = pair.apply(other)
    assert torch.allclose(logits(moved), logits(other))
    assert not torch.allclose(moved[Q], other[Q])


SCALE = {"learn": ["residual"], "paper": {"scale": True}}
GAINS = {"learn": ["residual", "gains"]}


@pytest.mark.parametrize(("method", "what"), [("learned", SCALE), ("learned", GAINS), ("dual", GAINS)])
def test_apply_takes_all_that_was_learned(folder, method, what):
    """What is no map of a space, too: the scale of the stream, and the gains of norms."""
    options = {**SMALL, "steps": 20, "eval_every": 10, "lr": 0.05, **what}
    found = onebasin.align(folder / "a", folder / "b", method=method, learned=options, **FEW)
    assert same(found.apply(folder / "b"), found.models[1])
    maps_alone = transport(canonicalize(Checkpoint.open(folder / "b")).checkpoint, found.alignment)
    written = in_gauge_of(Checkpoint.open(folder / "a"), maps_alone)
    assert not same(written, found.models[1])  # the control


def test_a_live_model_comes_back_alive(pair):
    model = live_model(2)
    moved = pair.apply(model)
    ids = torch.randint(256, (2, 8), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before, after = (m(ids).logits for m in (model, moved))
    assert type(moved) is type(model)
    assert moved.dtype == model.dtype
    assert float((before - after).abs().max()) < 1e-4
    assert not torch.equal(moved.model.layers[0].self_attn.q_proj.weight, model.model.layers[0].self_attn.q_proj.weight)


# ---- barrier, inspect, verify, widen


def test_barrier_is_that_of_the_command_line(cli, folder, pair):
    task = {"task": "builtin:python:test", "samples": 20, "length": 8}
    curve = onebasin.barrier(folder / "a", folder / "b", points=5, **task)
    code, out, _ = cli("barrier", folder / "a", folder / "b", "--task", task["task"], "--samples", 20, "--length", 8,
                       "--points", 5, "--json")  # fmt: skip
    assert code == 0
    assert json.loads(out)["barrier"] == curve.as_dict()["barrier"]
    assert f"barrier {curve.barrier:.4f}" in repr(curve)
    assert "20 samples" in repr(curve)
    aligned = onebasin.barrier(*pair.models, points=3, **task)
    assert aligned.evaluations[1].loss != pytest.approx(curve.evaluations[2].loss)
    surface = onebasin.barrier(*(folder / name for name in "abc"), points=3, **task)
    assert f"Surface: barrier {surface.barrier:.4f}" in repr(surface)


def test_inspect_says_whether_two_models_are_ready(folder, tmp_path, monkeypatch):
    both = onebasin.inspect(folder / "a", folder / "b")
    assert both.ready
    assert "orthogonal" in repr(both)
    assert repr(both).endswith(f"next: onebasin align {folder / 'a'} {folder / 'b'} -o OUT")
    deep = byte_llama(tmp_path / "deep", num_hidden_layers=2)
    blocked = onebasin.inspect(folder / "a", deep)
    assert not blocked.ready
    assert "not ready" in repr(blocked)
    assert "number of layers" in blocked.advice()
    monkeypatch.setattr("onebasin.ensemble.memory.memory_here", lambda: 10**6)
    assert onebasin.inspect(folder / "a").advice("A").startswith("not ready: aligning takes about 0.5 GB")


def test_verify_and_widen(folder):
    result = onebasin.verify(live_model(0))
    assert result.holds
    assert "the promise holds" in repr(result)
    wide = onebasin.widen(folder / "a", {"intermediate_size": 30})
    assert torch.allclose(logits(wide), logits(Checkpoint.open(folder / "a")))
    assert repr(wide).startswith("Checkpoint(LlamaForCausalLM, ")
    assert onebasin.live(wide).config.intermediate_size == 30


@pytest.mark.parametrize(
    ("verb", "function"),
    [("align", onebasin.align), ("merge", onebasin.merge), ("barrier", onebasin.barrier), ("eval", onebasin.evaluate),
     ("inspect", onebasin.inspect), ("verify", onebasin.verify), ("widen", onebasin.widen)],
)  # fmt: skip
def test_python_and_the_command_line_have_the_same_defaults(verb, function):
    """Where both have an option of that name."""
    flags = {x.name: x.default for x in typer.main.get_command(app).commands[verb].params if not x.required}
    named = inspect.signature(function).parameters.values()
    defaults = {x.name: x.default for x in named if x.default is not x.empty and x.name in flags}
    usual = {"device": "auto", "path": "factor"}  # what the command line means by nothing
    assert {name: value for name, value in defaults.items() if value != usual.get(name, ...)} == {
        name: flags[name] for name, value in defaults.items() if value != usual.get(name, ...)
    }
    assert defaults

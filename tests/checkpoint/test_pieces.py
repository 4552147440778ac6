"""Experts as one tensor or as many: both are read as the same model, and written as they were read."""

from __future__ import annotations

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers.exactness import EXACT, drift
from helpers.random_models import random_folder
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.archs.rotary import before_5
from onebasin.errors import LayoutMismatch, UnclaimedTensor

MIXTURES = [("qwen3_moe", "Qwen3MoeForCausalLM"), ("mixtral", "MixtralForCausalLM")]
every_mixture = pytest.mark.parametrize(("model_type", "name"), MIXTURES)
WEIGHTS = "model.safetensors"


@pytest.fixture
def apart(tmp_path, model_type, name):
    return random_folder(tmp_path / "apart", model_type, name, 6)


def fused(folder, out):
    """The same folder with all experts of a layer in one tensor, put together without onebasin."""
    stored, whole = load_file(folder / WEIGHTS), {}
    for key, tensor in stored.items():
        before, _, rest = key.partition(".experts.")
        if not rest:
            whole[key] = tensor
            continue
        expert, part = int(rest.split(".")[0]), rest.split(".")[1]
        target, half = {"gate_proj": ("gate_up_proj", 0), "w1": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1),
                        "w3": ("gate_up_proj", 1)}.get(part, ("down_proj", None))  # fmt: skip
        rows = whole.setdefault(f"{before}.experts.{target}", {})
        rows[expert, half] = tensor
    for key, rows in whole.items():
        if isinstance(rows, dict):
            experts = sorted({expert for expert, _ in rows})
            whole[key] = torch.stack([
                rows[i, None] if (i, None) in rows else torch.cat([rows[i, 0], rows[i, 1]]) for i in experts
            ])  # fmt: skip
    out.mkdir()
    (out / "config.json").write_text((folder / "config.json").read_text())
    save_file(whole, out / WEIGHTS, metadata={"format": "pt"})
    return out


@every_mixture
def test_both_layouts_are_one_model_and_are_written_as_they_were_read(tmp_path, apart, model_type, name):
    folders = [apart, fused(apart, tmp_path / "fused")]
    one, other = map(Checkpoint.open, folders)
    assert one.spec == other.spec
    assert all(torch.equal(one[leaf], other[leaf]) for leaf in one)
    for folder, model in zip(folders, (one, other), strict=True):
        form = canonicalize(model).checkpoint
        alignment = Alignment.random(form.spec, 1)
        transport(form, alignment).save(tmp_path / f"{folder.name}-moved", dtype="F64")
        again = Checkpoint.open(tmp_path / f"{folder.name}-moved")
        assert {*again.store.headers} - {"lm_head.weight"} == {*model.store.headers} - {"lm_head.weight"}
        assert drift(model, again, alignment) < EXACT
    assert len(one.store.headers) > len(other.store.headers)


@every_mixture
@pytest.mark.skipif(before_5(), reason="transformers 4 reads experts one by one alone")
def test_transformers_reads_what_is_written_in_one_piece(tmp_path, apart, model_type, name):
    Checkpoint.open(fused(apart, tmp_path / "fused")).save(tmp_path / "out")
    kind = getattr(transformers, name)
    models = [kind.from_pretrained(folder).state_dict() for folder in (apart, tmp_path / "out")]
    assert all(torch.equal(tensor, models[1][key]) for key, tensor in models[0].items())


@every_mixture
@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda own, key: {k: v for k, v in own.items() if k != key}, UnclaimedTensor, "lacks a tensor"),
        (lambda own, key: {**own, key.replace("experts.0.", "experts.99."): own[key].clone()}, UnclaimedTensor,
         "holds a tensor"),
        (lambda own, key: {**own, key: own[key].T.contiguous()}, LayoutMismatch, "disagree about a shape"),
    ],
)  # fmt: skip
def test_a_missing_a_foreign_and_a_misshapen_expert_are_named(apart, model_type, name, change, error, says):
    stored = load_file(apart / WEIGHTS)
    key = next(key for key in stored if "experts.0." in key)
    save_file(change(stored, key), apart / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(error, match=says) as caught:
        Checkpoint.open(apart)
    assert "experts." in caught.value.tensor

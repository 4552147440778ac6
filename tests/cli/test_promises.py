"""Models at the edge of what can be exact: the promise is kept, or the command ends with exit code 1 and no output."""

from __future__ import annotations

import json
import math

import pytest
import torch

from helpers.folders import certificate, edit_weights, llama
from helpers.random_models import byte_llama, config_of, random_model
from onebasin import Alignment
from onebasin.maps import Invertible
from onebasin.match import pages
from onebasin.verification import certificate as certificates
from onebasin.verification import verify as verification


def conditions(folder) -> torch.Tensor:
    maps = Alignment.load(folder).maps.values()
    return torch.cat([torch.linalg.cond(g.matrix).flatten() for g in maps if isinstance(g, Invertible)])


@pytest.fixture
def deficient(tmp_path):
    """A has heads that use half of their width; of those of B half of the values are zero."""

    def narrow(tensors) -> None:
        for name, tensor in tensors.items():
            if "v_proj" in name:
                tensor[1::2] = 0
            elif "o_proj" in name:
                tensor[:, 1::2] = 0

    def silence(tensors) -> None:
        for name, tensor in tensors.items():
            if "v_proj" in name:
                tensor[1::2] = 0

    a, b = llama(tmp_path / "a"), llama(tmp_path / "b", weights=1)
    for folder, change in ((a, narrow), (b, silence)):
        edit_weights(folder, change)
        edit_weights(folder, lambda tensors: tensors.update({x: y.bfloat16() for x, y in tensors.items()}))
    return a, b


def test_heads_of_deficient_rank_get_maps_that_the_dtype_carries(cli, deficient, tmp_path, monkeypatch):
    arguments = ("align", *deficient, "--method", "weight", "-o")
    assert cli(*arguments, tmp_path / "out")[0] == 0
    assert certificate(tmp_path / "out")["output_drift"]["float64"] < 1e-9
    assert conditions(tmp_path / "out").max() <= 128 * (1 + 1e-6)  # 1 / eps of bfloat16
    monkeypatch.setattr(pages, "largest_condition", lambda *models: math.inf)  # the control
    cli(*arguments, tmp_path / "free")
    assert conditions(tmp_path / "free").max() > 1e4


@pytest.mark.parametrize("verb", ["align", "merge"])
def test_a_broken_promise_is_not_written(cli, pristine, tmp_path, monkeypatch, verb):
    monkeypatch.setattr(verification, "PROMISE", 0.0)
    code, _, err = cli(verb, pristine / "a", pristine / "b", "--method", "weight", "-o", tmp_path / "out")
    assert code == 1
    assert "does not compute what the original does" in err
    assert list(tmp_path.iterdir()) == []


def test_the_promise_of_every_model_counts():
    good, bad = ({"output_drift": {"float64": x}, "largest_output": 1.0} for x in (1e-12, 1e-6))
    certificates.check_exact({"aligned": [good, good], "reference": good})
    for report in (bad, {"aligned": [good, bad]}, {**good, "reference": bad}):
        with pytest.raises(certificates.BrokenPromise):
            certificates.check_exact(report)


def test_numbers_that_are_not_finite_are_null_in_json(cli, pristine, monkeypatch):
    monkeypatch.setattr(verification, "output_drift", lambda *_: math.inf)
    code, out, _ = cli("verify", pristine / "a", "--json")
    report = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert (code, report["holds"], report["drift"]["float64"]) == (1, False, None)


@pytest.mark.parametrize("share", ["nan", "inf", "-inf"])
def test_a_share_is_a_number(cli, pristine, tmp_path, share):
    for flag in (("--share", share), ("--shares", f"{share},1")):
        code, _, err = cli("merge", pristine / "a", pristine / "b", *flag, "--method", "weight", "-o", tmp_path / "out")
        assert code == 2, flag
        assert "next step:" in err


def zero_gains(tensors) -> None:
    for name, tensor in tensors.items():
        if "norm" in name:
            tensor.zero_()


def zero_weights(tensors) -> None:
    for tensor in tensors.values():
        tensor.zero_()


@pytest.mark.parametrize("change", [zero_gains, zero_weights])
def test_models_of_zeros_are_aligned(cli, tmp_path, change):
    a, b = (llama(tmp_path / name, weights=i) for i, name in enumerate("ab"))
    for folder in (a, b):
        edit_weights(folder, change)
    code, _, err = cli("align", a, b, "--method", "weight", "-o", tmp_path / "out")
    assert code == 0, err
    assert certificate(tmp_path / "out")["output_drift"]["float64"] == 0


def test_models_one_wide_are_aligned(cli, tmp_path):
    narrow = {"hidden_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2}
    a, b = (byte_llama(tmp_path / name, i, **narrow, intermediate_size=1) for i, name in enumerate("ab"))
    code, _, err = cli("align", a, b, "--method", "weight", "-o", tmp_path / "out")
    assert code == 0, err


@pytest.mark.parametrize(("model_type", "name"), [("bert", "BertModel"), ("vit", "ViTModel")])
def test_models_without_a_pooler(cli, tmp_path, model_type, name):
    folders = [tmp_path / "a", tmp_path / "b"]
    for i, folder in enumerate(folders):
        random_model(name, config_of(model_type, 3), i).save_pretrained(folder)
        edit_weights(folder, lambda tensors: [tensors.pop(x) for x in list(tensors) if x.startswith("pooler")])
    code, _, err = cli("align", *folders, "--method", "weight", "-o", tmp_path / "out")
    assert code == 0, err
    assert certificate(tmp_path / "out")["output_drift"]["float64"] < 1e-9
    code, out, _ = cli("verify", folders[0])
    assert code == 0
    assert "promise holds" in out

"""Files measured as they are written: rounding is said, warned of, and refused where it destroys the model."""

from __future__ import annotations

import json
import math

import pytest

from helpers.folders import certificate, edit_weights, llama
from onebasin import Checkpoint
from onebasin.errors import BrokenPromise
from onebasin.verification.written import check_written, measure_written


@pytest.fixture
def faint(tmp_path):
    """A and B, whose streams are in other units, which their norms take out again: too small for float16."""

    def shrink(tensors) -> None:
        for name, tensor in tensors.items():
            if any(writer in name for writer in ("embed_tokens", "o_proj", "down_proj")):
                tensor.mul_(1e-8)

    folders = [llama(tmp_path / name, weights=i, rms_norm_eps=1e-30) for i, name in enumerate("ab")]
    for folder in folders:
        edit_weights(folder, shrink)
    return folders


def test_the_certificate_measures_the_file(cli, pristine, tmp_path):
    figures = {}
    for dtype in ("float32", "bfloat16"):
        out = tmp_path / dtype
        flags = ("-o", out, "--method", "weight", "--dtype", dtype)
        code, text, _ = cli("align", pristine / "a", pristine / "b", *flags)
        assert code == 0
        found = certificate(out)["written"]["."]
        assert f"rounding to {dtype} moves outputs by up to {found['drift']:.1e}" in text
        assert f"{found['drift']:.1e}" in (out / "report.html").read_text()
        assert found["dtype"] == dtype
        figures[dtype] = found["drift"]
    assert figures["float32"] < 1e-4 < 1e-2 < figures["bfloat16"]


def test_a_merge_is_measured_as_well(cli, pristine, tmp_path):
    flags = ("--method", "weight", "--dtype", "bfloat16", "-o", tmp_path / "out", "--json")
    report = json.loads(cli("merge", pristine / "a", pristine / "b", *flags)[1])
    exact = measure_written(Checkpoint.open(tmp_path / "out"))
    assert exact["drift"] == 0  # it is in bfloat16 already
    assert report["written"]["."]["drift"] > 1e-3


def test_underflow_ends_with_exit_code_1_and_writes_nothing(cli, faint, tmp_path):
    arguments = ("align", *faint, "--method", "weight", "-o", tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    code, _, err = cli(*arguments, "--dtype", "float16")
    assert code == 1
    assert "rounding to float16 moves outputs by up to" in err
    assert "next step: write in float32" in err
    assert sorted(tmp_path.rglob("*")) == before
    assert cli(*arguments)[0] == 0  # in float32, as they are stored


@pytest.mark.parametrize(("drift", "warned"), [(0.04, False), (0.06, True), (0.49, True)])
def test_rounding_that_is_large_beside_the_outputs_is_warned_of(recwarn, drift, warned):
    check_written({"dtype": "bfloat16", "drift": 10 * drift, "largest_output": 10.0})
    assert bool(recwarn) == warned


def test_rounding_that_is_as_large_as_the_outputs_is_refused():
    with pytest.raises(BrokenPromise, match="would not hold the model"):
        check_written({"dtype": "float16", "drift": 2.4, "largest_output": 4.6})
    check_written({"dtype": "float16", "drift": math.inf, "largest_output": 4.6})  # the writer names the tensor

"""`verify`: the promise that holds, the one that is broken, and a wrong map."""

from __future__ import annotations

import json

import torch

from helpers.random_models import config_of, random_model
from onebasin.alignment import Alignment
from onebasin.maps import Orthogonal
from onebasin.verification import verify as verification


def test_verify_holds(cli, pristine):
    code, out, err = cli("verify", pristine / "a", "--seed", "3")
    assert (code, err) == (0, "")
    assert "promise holds" in out
    assert "layers.*.qk" in out
    code, out, _ = cli("verify", pristine / "a", "--seed", "3", "--json", "--quiet")
    report = json.loads(out)
    assert (code, report["holds"]) == (0, True)
    assert set(report["drift"]) == {"float64", "float32"}
    assert report["drift"]["float64"] < 1e-9 < report["drift"]["float32"]
    silent, zero = (cli("verify", pristine / "a", *seed, "--json")[1] for seed in ((), ("--seed", "0")))
    assert silent == zero != out


def test_a_broken_promise_is_exit_code_1(cli, pristine, monkeypatch):
    monkeypatch.setattr(verification, "PROMISE", 0.0)
    code, out, _ = cli("verify", pristine / "a")
    assert code == 1
    assert "promise IS BROKEN" in out


def test_a_wrong_map_is_found(cli, pristine, monkeypatch):
    """A residual map that is off by a percent: the command must notice, and tell the space."""
    monkeypatch.setattr(Orthogonal, "_draw", classmethod(lambda cls, n, m, draw: cls(1.01 * draw.isometry(m, n))))
    code, out, _ = cli("verify", pristine / "gpt2", "--json")
    assert code == 0  # this one has no orthogonal space
    code, out, _ = cli("verify", pristine / "a", "--json")
    report = json.loads(out)
    assert (code, report["holds"]) == (1, False)
    assert {space for space, drift in report["per_space"].items() if drift > 1e-9} == {"residual"}


def test_the_layer_that_drifts_is_named(cli, tmp_path, monkeypatch):
    """One map of one layer is off: its kind drifts, and of its spaces that one alone."""
    config = config_of("llama", 0)
    config.num_hidden_layers = 2
    random_model("LlamaForCausalLM", config, 0).save_pretrained(tmp_path)
    draw = Alignment.random

    def wrong(spec, seed):
        found = draw(spec, seed)
        eye = torch.eye(spec.spaces["layers.1.ov"].size, dtype=torch.float64)
        stretched = Orthogonal(1.01 * eye.expand(spec.fibres("layers.1.ov"), -1, -1))
        return Alignment({**found.maps, "layers.1.ov": stretched}, found.bases)

    monkeypatch.setattr(verification.Alignment, "random", wrong)
    code, out, _ = cli("verify", tmp_path, "--json")
    report = json.loads(out)
    assert code == 1
    assert {space for space, drift in report["per_space"].items() if drift > 1e-9} == {"layers.*.ov", "layers.1.ov"}
    assert "layers.0.ov" in report["per_space"]
    assert set(report["displacement"]) == set(report["per_space"])
    assert report["displacement"]["layers.*.ov"] == max(report["displacement"][f"layers.{i}.ov"] for i in (0, 1))

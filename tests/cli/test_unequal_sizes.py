"""Models of unequal size on the command line."""

from __future__ import annotations

import json

from helpers.random_models import byte_llama
from helpers.short import FEW, QUICK
from onebasin import Checkpoint
from onebasin.ensemble.inspection import describe


def test_three_sizes_become_one(cli, tmp_path):
    """B has the largest stream, C the largest FFN, so that no two of them have the size of all three."""
    sizes: tuple[dict[str, int], ...] = ({}, {"hidden_size": 36}, {"intermediate_size": 77})
    models = [byte_llama(tmp_path / str(i), i, **size) for i, size in enumerate(sizes)]
    code, out, err = cli("merge", *models, "-o", tmp_path / "out", *QUICK, "--dtype", "float64", "--json")
    assert code == 0
    assert "widened first, exactly" in err
    found = json.loads(out)
    assert all(own["output_drift"]["float64"] < 1e-9 for own in (found["reference"], *found["aligned"]))
    config = Checkpoint.open(tmp_path / "out").config
    assert (config["hidden_size"], config["intermediate_size"]) == (36, 77)
    assert cli("merge", *models[::-1], "-o", tmp_path / "turned", *QUICK)[0] == 0
    plan = json.loads(cli("merge", *models, "-o", tmp_path / "plan", *QUICK, "--dry-run", "--json")[1])
    one = describe(Checkpoint.open(tmp_path / "out"))["memory"]["align"]
    assert plan["memory"] == one > max(describe(Checkpoint.open(x))["memory"]["align"] for x in models)
    code, text, err = cli("barrier", *models, *FEW, "--points", "2", "--json", "--quiet")
    assert code == 0, err
    assert len(json.loads(text)["shares"]) == 7
    larger = byte_llama(tmp_path / "larger", 3, intermediate_size=99)
    flags = ("--universe", tmp_path / "out", "-o", tmp_path / "more")
    code, _, err = cli("merge", *models, byte_llama(tmp_path / "small", 4), *flags)
    assert code == 0, err
    code, _, err = cli("merge", *models, larger, "--universe", tmp_path / "out", "-o", tmp_path / "none")
    assert code == 2
    assert "The universe is too small" in err
    assert "space: layers.0.ffn\n  expected: 77\n  found: 99\n" in err

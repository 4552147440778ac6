"""The surface over the simplex."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from helpers.short import FEW


def test_a_surface_with_its_picture(cli, models, tmp_path):
    code, out, err = cli("barrier", *models[:3], *FEW, "--points", "3", "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    found = json.loads((tmp_path / "out" / "barrier.json").read_text())
    assert found["models"] == ["w", "x", "y"]
    assert len(found["shares"]) == 7
    assert found["barrier"]["loss"] == 0
    assert "no barrier (end points" in out
    assert ElementTree.parse(tmp_path / "out" / "barrier.svg").getroot().tag.endswith("svg")
    code, again, _ = cli("run", tmp_path / "out" / "recipe.yaml", "--json")
    assert (code, json.loads(again)["points"]) == (0, found["points"])


def test_a_default_triangle_has_seven_points_on_a_side(cli, models):
    code, out, _ = cli("barrier", *models[:3], *FEW, "--dry-run", "--json")
    assert (code, json.loads(out)["points"]) == (0, 7)


def test_four_models_have_no_picture(cli, models, tmp_path):
    code, out, _ = cli("barrier", *models, *FEW, "--json", "-o", tmp_path / "out")
    assert code == 0
    assert len(json.loads(out)["shares"]) == 11
    assert sorted(x.name for x in (tmp_path / "out").iterdir()) == ["barrier.json", "recipe.yaml", "report.html"]

"""Curves and surfaces for research: rows, data frames, HTML and pictures say what was measured."""

from __future__ import annotations

import re
import sys

import matplotlib
import pytest
import torch

import onebasin
from onebasin.errors import OnebasinError
from onebasin.landscape import Curve, Evaluation, Surface
from onebasin.landscape.views import rows

LOSSES = (1.0, 2.5, 2.0)


def measured(points: tuple[tuple[float, ...], ...], name: str = "made up") -> Surface:
    each = [Evaluation(loss, {"accuracy": 1 / loss}, 0.1, 2, torch.tensor([loss - 0.1, loss + 0.1])) for loss in LOSSES]
    kind = Curve if len(points[0]) == 2 else Surface
    return kind(points, tuple(each), "factor", {"name": name})


@pytest.fixture
def curve() -> Curve:
    return measured(((1, 0), (0.5, 0.5), (0, 1)))


def test_rows_hold_shares_losses_and_metrics(curve):
    middle = {"share_a": 0.5, "share_b": 0.5, "loss": 2.5, "standard_error": 0.1, "excess": 1.0, "accuracy": 0.4}
    assert rows(curve)[1] == middle
    corners = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    assert [row["share_c"] for row in rows(measured(corners))] == [0, 0, 1]


def test_a_model_that_lost_itself_is_no_barrier_at_the_others():
    """Its share there is nothing, and nothing times infinity is no number."""
    lost = Evaluation(float("inf"), {}, 0.1, 2, torch.ones(2))
    good = Evaluation(1.0, {}, 0.1, 2, torch.ones(2))
    curve = Curve(((1, 0), (0, 1)), (good, lost), "factor", {"name": "made up"})
    assert [curve.excess(i) for i in range(2)] == [0, 0]


def test_a_data_frame_is_made_of_the_rows(curve):
    pytest.importorskip("pandas")
    assert curve.to_dataframe().to_dict("records") == rows(curve)


def test_without_pandas_there_is_another_way(curve, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OnebasinError, match="needs the library pandas") as caught:
        curve.to_dataframe()
    assert "as_dict" in caught.value.next_step


def test_the_picture_holds_the_points_and_the_chord(curve):
    matplotlib.use("Agg")
    axes = curve.plot(label="as trained")
    line, chord = axes.get_lines()
    assert line.get_xydata().tolist() == [[0, 1], [0.5, 2.5], [1, 2]]
    assert chord.get_xydata().tolist() == [[0, 1], [1, 2]]
    assert axes.get_legend().get_texts()[0].get_text() == "as trained"
    assert curve.plot(axes, metric="accuracy") is axes
    assert axes.get_lines()[2].get_ydata().tolist() == [1, 0.4, 0.5]
    with pytest.raises(OnebasinError, match="no metric f1") as caught:
        curve.plot(axes, metric="f1")
    assert "accuracy" in caught.value.next_step
    matplotlib.pyplot.close("all")


def test_notebooks_show_a_table_and_names_are_escaped():
    shown = measured(((1, 0), (0.5, 0.5), (0, 1)), "<script>")._repr_html_()
    assert re.findall(r"<th>(\w+)</th>", shown)[:3] == ["share_a", "share_b", "loss"]
    assert shown.count("<tr>") == 4
    assert "<td>2.5</td>" in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_dir_lists_the_public_names():
    assert set(onebasin.__all__) <= set(dir(onebasin))
    assert {"transport", "__version__"} <= set(dir(onebasin))
    assert "importlib" not in dir(onebasin)  # what the module itself uses

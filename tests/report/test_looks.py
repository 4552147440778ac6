"""What a reader sees: nothing squashed, no words under a line, no odd figures, every colour in the dark as well."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from onebasin.report.html.alignments import of_alignment
from onebasin.report.html.bars import bar_chart, paired_bars, permutation_matrix
from onebasin.report.html.charts import Rise, across, line_chart
from onebasin.report.html.facts import Facts
from onebasin.report.html.markup import picture, prose, tag
from onebasin.report.html.page import page
from onebasin.report.html.words import summary
from onebasin.report.pictures import INK, PAPER, squashed, ternary

SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]
STYLE = Path(__file__).parents[2] / "src/onebasin/report/html/style.css"


def curve(*losses: float, error: float = 0.01) -> dict:
    points = [{"loss": x, "standard_error": error, "samples": 9, "metrics": {"accuracy": 0.5}} for x in losses]
    excess = [x - (1 - t) * losses[0] - t * losses[-1] for x, t in zip(losses, SHARES, strict=True)]
    at = max(range(len(excess)), key=excess.__getitem__)
    barrier = {"loss": excess[at], "standard_error": error if excess[at] else 0.0, "share": SHARES[at]}
    ends = {"a": points[0], "b": points[-1]}
    return {"a": "x", "b": "y", "path": "factor", "task": {"name": "t"}, "shares": SHARES, "points": points,
            "ends": ends, "barrier": barrier}  # fmt: skip


HIGH, LOW, FLAT = curve(1, 2, 4, 2.5, 1), curve(1, 1.1, 1.2, 1.1, 1), curve(1, 1, 1, 1, 1)


def shown(**curves: dict) -> str:
    return page(Facts("barrier", ["x", "y"], curves, recipe="onebasin: 2\n"))


# ---- before and after in one picture


def test_low_curves_are_drawn_again_in_their_colour():
    text = shown(before=HIGH, after=LOW)
    close = text[text.index("close up") : text.index("Accuracy")]
    assert 'class="s1"' in close
    assert 'class="s0"' not in close
    assert "close up" not in shown(before=HIGH, after=HIGH)
    assert "close up" not in shown(before=HIGH)


def test_the_barrier_that_is_marked_is_the_highest():
    marked = [re.findall(r">barrier ([\d.]+)", shown(**curves)) for curves in ({"a": HIGH, "b": LOW}, {"b": LOW})]
    assert [float(x) for x in marked[0]] == [pytest.approx(HIGH["barrier"]["loss"], abs=0.01)]
    assert [float(x) for x in marked[1]] == [pytest.approx(LOW["barrier"]["loss"], abs=0.01)]


def test_squashed_are_the_curves_at_the_bottom():
    assert squashed({"high": [0, 10, 0], "low": [0, 2, 0], "middle": [0, 5, 0]}) == ["low"]
    assert squashed({"one": [1, 1], "two": [1, 1]}) == []


def heights(text: str) -> list[float]:
    """Of the bands, in pixels."""
    edges = [re.findall(r"[\d.]+ ([\d.]+)", d) for d in re.findall(r'd="([^"]+)" class="band"', text)]
    return [float(edge[0]) - float(edge[-1]) for edge in edges]  # the lower edge at A, and the upper


def test_bands_are_as_high_as_the_errors():
    small, large = (heights(shown(before=HIGH, after=curve(1, 1, 3, 1, 1, error=e))) for e in (0.1, 0.2))
    assert len(small) == len(large) == 2
    assert large[1] == pytest.approx(2 * small[1], rel=0.1)
    assert max(heights(shown(before=curve(1, 2, 4, 2, 1, error=0.0)))) == 0


# ---- words and lines


def crossed(svg: str) -> list[str]:
    """The bold words of a picture that a line runs through."""
    root = ElementTree.fromstring(svg)
    lines = [e for e in root.iter("line") if e.get("class") != "rule"]
    segments = [tuple(float(e.get(key)) for key in ("x1", "y1", "x2", "y2")) for e in lines]
    for path in (e for e in root.iter("path") if e.get("class") == "line"):
        places = [tuple(map(float, p.split())) for p in path.get("d")[1:].split("L")]
        segments += [(*p, *q) for p, q in pairwise(places)]
    found = []
    for text in (e for e in root.iter("text") if e.get("class") == "value"):
        width, x, y = 7.5 * len(text.text), float(text.get("x")), float(text.get("y"))
        left = x - width * {None: 0, "start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
        steps = [i / 200 for i in range(201)]
        points = [(a + t * (c - a), b + t * (d - b)) for a, b, c, d in segments for t in steps]
        if any(left < u < left + width and y - 10 < v < y + 2 for u, v in points):
            found.append(text.text)
    return found


@pytest.mark.parametrize("at", [0, 0.25, 0.5, 0.75, 1])
def test_no_line_runs_through_the_barrier(at):
    series = {"high": [(0, 1), (at or 0.1, 4), (1, 2)], "other": [(0, 3.5), (0.5, 3.9), (1, 3.8)]}
    chart = line_chart(series, "x", "y", chords=True, rise=Rise(at, 1.5, 4, "barrier 2.5"))
    assert "barrier 2.5" in chart
    assert crossed(chart) == []


def test_no_line_runs_through_a_value_beside_a_bar():
    values = {"a": 0.5, "b": 0.68, "c": 0.7}
    assert crossed(bar_chart(values, {n: f"{v:.1%}" for n, v in values.items()}, "bars", (0.69, "ends"))) == []


def test_a_crossing_would_be_seen():
    line = tag("line", x1=50.0, x2=50.0, y1=0.0, y2=99.0, class_="chord")
    assert crossed(picture(100, 100, "p", line, tag("text", "words", x=40, y=50, class_="value"))) == ["words"]


# ---- words


def test_code_is_code_and_names_stay():
    assert prose("use `x <y>` now") == "use <code>x &lt;y&gt;</code> now"
    assert prose("a`b") == "a`b"


def test_no_backtick_is_left_on_a_page():
    text = shown(before=HIGH)
    assert "`" not in text
    assert "<code>onebasin align</code>" in text


def test_no_barrier_is_said_in_words():
    none, some = shown(before=FLAT), shown(before=HIGH)
    assert "there is no barrier" in none
    assert "before: no barrier" in none
    assert "± 0 " not in none
    assert "at λ = 0" not in none
    assert "rises by up to 3.00 ± 0.01" in some  # as many places as its error
    assert "at λ = 0.5" in some
    assert "no barrier" not in some


@pytest.mark.parametrize(
    ("height", "error", "verdict"),
    [(0.02, 0.01, "beyond the error"), (0.021, 0.01, "small beside"), (0.1, 0.01, "lie in different basins"),
     (0.099, 0.01, "small beside"), (0.0, 0.01, "The models lie in one basin")],
)  # fmt: skip
def test_a_barrier_is_judged_by_its_error_and_beside_the_losses(height, error, verdict):
    """Of models whose losses are one."""
    found = {**FLAT, "barrier": {"loss": height, "standard_error": error, "share": 0.5}}
    assert verdict in " ".join(summary(Facts("barrier", ["x", "y"], {"one": found})))


# ---- learning


def learned(*history: tuple[int, float, float | None]) -> str:
    points = [{"step": s, "midpoint": m, "train_loss": t} for s, m, t in history]
    report = {"method": "m", "learning": {"history": points, "best_step": 0}, "heads": {}, "angles": {}, "layers": {},
              "output_drift": {"float64": 0.0}, "rounding_alone": {"float64": 0.0}, "largest_output": 1.0, "gauge": "g",
              "distance_before": 1.0, "distance_after": 0.5, "orthogonality_error": 0.0}  # fmt: skip
    return "".join(f"{name} {content}" for name, _, content in of_alignment(report))


def test_one_point_is_no_curve():
    assert "Loss while learning" not in learned((0, 1.0, None))
    once = learned((0, 1.0, None), (9, 0.5, 0.4))
    assert "Loss while learning" in once
    assert "training" not in once
    assert "training" in learned((0, 1.0, None), (9, 0.5, 0.4), (18, 0.4, 0.3))


# ---- layers, heads, triangles, the dark


@pytest.mark.parametrize("count", [1, 4, 12])
def test_bars_stand_in_the_middle(count):
    """However few layers there are; and they are not wide."""
    series = {"before": [0.0] * count, "aligned": [0.5] * count}
    bars = ElementTree.fromstring(paired_bars([str(i) for i in range(count)], series, "layer", "cosine")).iter("rect")
    places = [(float(bar.get("x")), float(bar.get("width"))) for bar in bars]
    left, right = min(x for x, _ in places), max(x + width for x, width in places)
    axis = across(0, 1)
    assert (left + right) / 2 == pytest.approx((axis.start + axis.end) / 2, abs=0.1)
    assert max(width for _, width in places) < 30


def test_heads_are_shaded_by_their_scores():
    plain, shaded = permutation_matrix([1, 0], "heads"), permutation_matrix([1, 0], "heads", [[0.1, 0.4], [0.2, -0.1]])
    assert re.findall(r'fill-opacity="([^"]+)"', shaded) == ["0.25", "1", "0.5", "0"]
    assert shaded.count('class="chosen"') == 2
    assert "heads 0.30" in shaded
    assert "fill-opacity" not in plain


def surface(barrier: float) -> dict:
    shares = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5], [1 / 3] * 3]
    points = [{"loss": 1 + 0.1 * i, "metrics": {"accuracy": 0.9 - 0.1 * i}} for i in range(7)]
    return {"models": list("xyz"), "shares": shares, "points": points, "vertices": points[:3],
            "midpoints": [{"between": [0, 1], **points[3]}], "centre": points[6],
            "barrier": {"loss": barrier, "standard_error": 0.01, "shares": shares[6]}}  # fmt: skip


def test_triangles_of_loss_and_accuracy():
    words = " ".join(ElementTree.fromstring(ternary(surface(0.5)).encode()).itertext())
    assert all(word in words for word in ("loss (nats)", "accuracy", "0.9", "barrier 0.50 ± 0.01"))
    without = deepcopy(surface(0.0))
    for point in without["points"]:
        point["metrics"] = {}
    words = " ".join(ElementTree.fromstring(ternary(without).encode()).itertext())
    assert "accuracy" not in words
    assert "no barrier" in words
    assert "±" not in words


def test_triangles_take_the_colours_of_the_page():
    drawn, shown = ternary(surface(0.5)), page(Facts("barrier", list("xyz"), surface=surface(0.5), recipe=""))
    body = shown[shown.index("<body") :]
    assert INK in drawn
    assert PAPER in drawn
    assert INK not in body
    assert PAPER not in body
    assert "currentColor" in body


def test_every_colour_has_one_for_the_dark():
    light, dark = STYLE.read_text().split("@media (prefers-color-scheme: dark)")
    dark, rest = dark.split("\n}\n", 1)
    names = [set(re.findall(r"(--\w+): #", part)) for part in (light, dark)]
    assert names[0] == names[1] != set()
    rules = rest[: rest.index("@media print")]
    assert re.findall(r"#[0-9a-f]{3,6}\b(?![^{]*\{)", rules) == []
    assert "#" not in re.sub(r"&#\w+;", "", shown(before=HIGH, after=LOW).split("<body")[1])


def test_every_style_is_used_and_every_class_has_one():
    """But for marks by number and what only tests draw."""
    sheet = re.sub(r"\{[^}]*\}", "", STYLE.read_text())
    code = "".join(file.read_text(encoding="utf-8") for file in STYLE.parent.glob("*.py"))
    styled = set(re.findall(r"\.([a-z][\w-]*)", sheet)) - {f"s{i}" for i in range(6)}
    used = {name for found in re.findall(r'class_="([\w ]+)"', code) for name in found.split()}
    assert styled - {"dot"} == used - {"recipe"}


def test_the_page_is_made_of_plain_data():
    """As it comes back from a file."""
    assert shown(before=json.loads(json.dumps(HIGH))) == shown(before=HIGH)

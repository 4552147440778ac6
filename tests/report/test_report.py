"""report.html: well formed, complete, self-contained, safe with any name, and a browser shows it without complaint."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from PIL import Image

from helpers.demos import tiny
from helpers.random_models import byte_llama, random_folder
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.demo import demonstrate
from onebasin.maps import Orthogonal
from onebasin.report.html import write_report
from onebasin.report.html.charts import Axis
from onebasin.report.html.facts import read_facts
from onebasin.report.html.markup import tag
from onebasin.report.html.page import page
from onebasin.verification.certificate import head_places, turning_angles

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<b onload=alert(1)>&\"'"
VOID = {"meta", "br"}
OF_A_DEMO = [
    "summary",
    "methods",
    "scores",
    "curves",
    "learning",
    "layers",
    "heads",
    "rotations",
    "certificate",
    "again",
]


class Page(HTMLParser):
    """Tags that balance, ids, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.ids, self.tags, self.attributes, self.words = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes
        self.ids += [value for key, value in attributes if key == "id"]
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def check(file: Path) -> Page:
    """What every page promises."""
    text = file.read_text(encoding="utf-8")
    found = Page(text)
    assert text.startswith("<!doctype html>")
    assert len(set(found.ids)) == len(found.ids)
    assert {"script", "link", "img", "iframe", "object"} & set(found.tags) == set()
    assert not re.search(r"https?:|url\(|@import", text)
    assert [key for key, _ in found.attributes if key in ("src", "href") or key.startswith("on")] == []
    return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return byte_llama(root / "a", 0), byte_llama(root / "b", 1)


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> Path:
    """The folder of a small demo."""
    out = tmp_path_factory.mktemp("demo") / "out"
    demonstrate(tiny("text"), out)
    return out


FEW = ("--task", "builtin:python", "--samples", "4", "--points", "3")


def test_a_barrier_has_curves_and_its_recipe(cli, pair, tmp_path):
    assert cli("barrier", *pair, *FEW, "-o", tmp_path / "out")[0] == 0
    found, measured = check(tmp_path / "out" / "report.html"), json.loads((tmp_path / "out/barrier.json").read_text())
    assert found.ids == ["summary", "curves", "again"]
    assert measured["barrier"]["loss"] == 0  # random models: their average is better than they are
    assert "factor path: no barrier" in found.text
    assert f"{measured['points'][1]['loss']:.4f}" in found.text
    assert (tmp_path / "out/recipe.yaml").read_text() in found.text
    assert f"torch {measured['versions']['torch']}" in found.text
    assert sum(attribute == ("class", "end") for attribute in found.attributes) == 4  # both ends, loss and metric


def test_an_aligned_model_has_heads_angles_and_a_certificate(cli, pair, tmp_path):
    assert cli("align", *pair, "-o", tmp_path / "out", "--method", "weight")[0] == 0
    found, certificate = (
        check(tmp_path / "out/report.html"),
        json.loads((tmp_path / "out/certificate.json").read_text()),
    )
    assert found.ids == ["summary", "layers", "heads", "rotations", "certificate", "again"]
    assert f"{certificate['output_drift']['float64']:.1e}" in found.text
    assert "computes what it did before" in found.text
    assert all(space in found.text for space in certificate["heads"])


def test_a_merged_model_says_its_shares(cli, pair, tmp_path):
    assert cli("merge", *pair, "--share", "0.25", "-o", tmp_path / "out", "--method", "weight")[0] == 0
    assert "0.75 of a and 0.25 of b" in check(tmp_path / "out/report.html").text


def test_a_demo_shows_everything(shown):
    found, demo = check(shown / "report.html"), json.loads((shown / "demo.json").read_text())
    assert found.ids == OF_A_DEMO
    assert demo["conclusion"] in found.text
    assert demo["verdict"] in found.text
    assert [row["name"] for row in demo["scores"]["rows"]] == ["a", "b", "plain average", "merged", "ensemble"]
    assert all(f"{row['loss']:.4f}" in found.text for row in demo["scores"]["rows"])
    for row in demo["rows"]:
        assert f"{row['barrier']:.3f}" in found.text
        assert (shown / row["method"] / "report.html").is_file() or row["method"] == "plain average"


def test_several_aligned_models_are_shown_in_turn(cli, pair, tmp_path):
    """As the certificate of more than two models has them."""
    assert cli("align", *pair, "-o", tmp_path / "out", "--method", "weight")[0] == 0
    file = tmp_path / "out" / "certificate.json"
    one = json.loads(file.read_text())
    many = {key: one[key] for key in ("verb", "method", "gauge", "warnings", "versions", "written")}
    file.write_text(json.dumps({**many, "models": ["x", "y", "z"], "aligned": [{"model": m, **one} for m in "yz"]}))
    write_report(tmp_path / "out")
    found = check(tmp_path / "out" / "report.html")
    assert "y and z in the basis of x" in found.text
    assert found.ids == ["summary", "layers", "heads", "rotations", "certificate", "again"]
    assert found.tags.count("h3") == 8


def surface_of(names: str) -> dict[str, object]:
    """What `barrier` leaves of three models: corners, middles of two, centre."""
    sides = [(0, 1), (0, 2), (1, 2)]
    corners = [[float(i == j) for j in range(3)] for i in range(3)]
    shares = [*corners, *([0.5 if i in side else 0.0 for i in range(3)] for side in sides), [1 / 3] * 3]
    points = [
        {"loss": 1.0 + 0.1 * i, "standard_error": 0.01, "samples": 9, "metrics": {"accuracy": 0.5}} for i in range(7)
    ]
    return {
        "models": list(names), "path": "factor", "task": {"name": "t"}, "shares": shares, "points": points,
        "vertices": points[:3], "midpoints": [{"between": s, **p} for s, p in zip(sides, points[3:6], strict=True)],
        "centre": points[6], "barrier": {"loss": 0.5, "standard_error": 0.01, "shares": [1 / 3] * 3},
        "warnings": [], "versions": {"onebasin": "0"},
    }  # fmt: skip


def test_three_models_have_a_triangle(tmp_path):
    pytest.importorskip("onebasin.report.pictures")
    (tmp_path / "barrier.json").write_text(json.dumps(surface_of("xyz")))
    (tmp_path / "recipe.yaml").write_text("onebasin: 2\n")
    write_report(tmp_path)
    found = Page((tmp_path / "report.html").read_text())
    assert [name for name in found.ids if name in ("summary", "simplex", "again")] == ["summary", "simplex", "again"]
    assert len(set(found.ids)) == len(found.ids)
    assert "x and z" in found.text
    assert "svg" in found.tags


def test_numbers_come_from_the_files(shown, tmp_path):
    """Another number in the file, another number on the page."""
    copy = Path(shutil.copytree(shown, tmp_path / "copy"))
    demo = json.loads((copy / "demo.json").read_text())
    demo["rows"][1]["barrier"] = 123.456
    (copy / "demo.json").write_text(json.dumps(demo))
    write_report(copy)
    assert "123.456" in check(copy / "report.html").text
    assert "123.456" not in check(shown / "report.html").text


def test_a_broken_promise_is_not_called_kept(cli, pair, tmp_path):
    assert cli("align", *pair, "-o", tmp_path / "out", "--method", "weight")[0] == 0
    file = tmp_path / "out" / "certificate.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "output_drift": {"float64": 0.5}}))
    write_report(tmp_path / "out")
    text = check(tmp_path / "out" / "report.html").text
    assert "more than 1e-09" in text
    assert "computes what it did before" not in text


def test_hostile_names_stay_text(cli, pair, tmp_path):
    a = shutil.copytree(pair[0], tmp_path / HOSTILE)
    assert cli("barrier", a, pair[1], *FEW, "-o", tmp_path / "out")[0] == 0
    assert HOSTILE in check(tmp_path / "out" / "report.html").text
    assert cli("align", a, pair[1], "-o", tmp_path / "out2", "--method", "weight")[0] == 0
    assert HOSTILE in check(tmp_path / "out2" / "report.html").text


def test_hostile_strings_anywhere_in_the_files(shown, tmp_path):
    """Every string becomes an attack, but for the words that the page looks at; names of spaces too."""
    close = f"</style></title></svg><script>alert(1)</script>{HOSTILE}"

    def poisoned(value):
        if isinstance(value, dict):
            return {key: v if key in ("method", "metric") else poisoned(v) for key, v in value.items()}
        if isinstance(value, list):
            return [poisoned(v) for v in value]
        return f"{value}{close}" if isinstance(value, str) else value

    copy = Path(shutil.copytree(shown, tmp_path / "copy"))
    for file in (copy / "demo.json", copy / "learned" / "certificate.json"):
        file.write_text(json.dumps(poisoned(json.loads(file.read_text()))))
    certificate = json.loads((copy / "learned" / "certificate.json").read_text())
    for key in ("heads", "head_scores", "layers"):
        certificate[key] = {f"{close}{name}": found for name, found in certificate[key].items()}
    (copy / "learned" / "certificate.json").write_text(json.dumps(certificate))
    write_report(copy)
    assert check(copy / "report.html").tags == check(shown / "report.html").tags


def test_escaping_is_the_rule_and_markup_the_exception():
    assert tag("p", "<i>", title='"&') == '<p title="&quot;&amp;">&lt;i&gt;</p>'
    assert tag("p", tag("i", "x")) == "<p><i>x</i></p>"
    assert tag("circle", r=1.0, class_="dot") == '<circle r="1" class="dot"/>'


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.13, 0.17), (-2, 371), (1e-9, 3e-9), (5, 5.0001)])
def test_ticks_are_round_and_inside(low, high):
    ticks = Axis(low, high, 0, 1).ticks()
    step = ticks[1] - ticks[0]
    assert 2 <= len(ticks) <= 7
    assert low <= ticks[0] * (1 + 1e-12) + 1e-12
    assert ticks[-1] <= high * (1 + 1e-12)
    assert round(step / 10 ** math.floor(math.log10(step * 1.0001)), 6) in (1, 2, 5)


def test_a_flat_curve_can_be_drawn(shown):
    """Equal values everywhere: no barrier, no division by an empty range."""
    facts = read_facts(shown)
    for curve in facts.curves.values():
        for point in (*curve["points"], *curve["ends"].values()):
            point.update(loss=1.0, metrics=dict.fromkeys(point["metrics"], 0.5))
        curve["barrier"] = {"loss": 0.0, "standard_error": 0.0, "share": 0.0}
    assert "nan" not in page(facts)


# ---- what the pictures of an alignment stand on


@pytest.mark.parametrize("seed", [3, 5])
def test_head_places_say_where_heads_go(tmp_path, seed):
    """Grouped heads: the rows of the query weights, moved by the permutations alone, are the old ones in that order."""
    folder = byte_llama(tmp_path / "m", seed, num_attention_heads=6, num_key_value_heads=3, hidden_size=24, head_dim=4)
    form = canonicalize(Checkpoint.open(folder)).checkpoint
    drawn, still = Alignment.random(form.spec, seed), Alignment.identity(form.spec)
    places = head_places(form.spec, drawn)
    moved = transport(form, Alignment({**still.maps, **{name: drawn[name] for name in places}}, still.bases))
    assert {name.rpartition(".")[2] for name in places} == {"kv_heads", "queries"}
    for layer in range(form.config["num_hidden_layers"]):
        for projection, space in (("q_proj", "queries"), ("k_proj", "kv_heads")):
            key = f"model.layers.{layer}.self_attn.{projection}.weight"
            before, after = (c.tensor(key).view(-1, 4, 24) for c in (form, moved))
            assert torch.equal(after, before[places[f"layers.{layer}.{space}"]])


def test_units_are_not_heads(tmp_path):
    folder = random_folder(tmp_path / "m", "gpt2", "GPT2LMHeadModel", 3)
    form = canonicalize(Checkpoint.open(folder)).checkpoint
    assert all(name.endswith(".heads") for name in head_places(form.spec, Alignment.random(form.spec, 0)))


def test_angles_are_those_of_the_planes():
    """Planes that turn by 25, 95 and 175 degrees in a random basis; a direction that stays and one that flips."""
    blocks = []
    for degrees in (25, 95, 175):
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        blocks.append(torch.tensor([[c, -s], [s, c]], dtype=torch.float64))
    turned = torch.block_diag(*blocks, torch.tensor([[1.0]]), torch.tensor([[-1.0]])).double()
    basis, _ = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    counts = turning_angles(Alignment({"residual": Orthogonal(basis @ turned @ basis.mT)}, {"residual": None}))
    expected = [0] * 18
    expected[0], expected[2], expected[9], expected[17] = 1, 2, 2, 3
    assert counts["residual"] == expected


# ---- in a browser


def browse(file: Path, profile: Path, *options: str, show: str = "--dump-dom") -> tuple[str, str]:
    """(the document as the browser has it, what it logged)"""
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --v=0"
    )
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={profile}", *options, show, file.as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(profile)})
    return ran.stdout, ran.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to look at the page with")
def test_a_browser_shows_it_without_complaint(shown, tmp_path):
    document, log = browse(shown / "report.html", tmp_path)
    found = Page(document)
    assert found.ids == OF_A_DEMO
    assert found.tags.count("svg") >= 7
    assert "CONSOLE" not in log
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><title>x</title><script>console.error('seen')</script>")
    assert "seen" in browse(bad, tmp_path)[1]  # the log would show it


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to look at the page with")
@pytest.mark.parametrize(("scheme", "paper"), [("light", "#fcfcfb"), ("dark", "#15181b")])
def test_a_browser_shows_it_in_the_light_and_in_the_dark(shown, tmp_path, scheme, paper):
    preferred = f"--blink-settings=preferredColorScheme={('dark', 'light').index(scheme)}"
    picture = tmp_path / "page.png"
    _, log = browse(shown / "report.html", tmp_path, preferred, show=f"--screenshot={picture}")
    assert "CONSOLE" not in log
    with Image.open(picture) as seen:
        assert "#{:02x}{:02x}{:02x}".format(*seen.convert("RGB").getpixel((1, 1))) == paper

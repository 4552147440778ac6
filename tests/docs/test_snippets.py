"""Every page of the documentation works as written: its Python and its commands run, its figures were measured."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
import yaml

import onebasin
from helpers.demos import tiny
from helpers.pages import DOCS, README, ROOT, blocks
from helpers.random_models import byte_llama
from onebasin import Checkpoint

PAGES = [README, *sorted(DOCS.rglob("*.md"))]
IN_A_TREE = {"architecture"}  # its Python is a new file of the package: test_guide.py
RUNNABLE = [p for p in PAGES if (blocks(p, "python") or blocks(p, "sh")) and p.stem not in IN_A_TREE]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """What the pages speak of: models that read bytes, of two sizes, and texts."""
    root = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("A", "B", "C", "D", "SMALL", "BIG")):
        byte_llama(root / name, seed, max_position_embeddings=32, intermediate_size=28 if name == "BIG" else 20)
    (root / "train.txt").write_text("the cat sat on the mat, and the dog did not. " * 90)
    (root / "wiki.txt").write_text("a sentence of prose, and another one after it. " * 90)
    (root / "python.txt").write_text("for i in range(10):\n    print(i * i)\n" * 100)
    (root / "valid.txt").write_text("a bird sang in the tree, and nobody heard it. " * 30)
    return root


def shorter(text: str) -> str:
    """The same with two steps of learning in place of thousands, and windows of 16 tokens in place of hundreds."""
    text = re.sub(r"(length=|--length )\d+", r"\g<1>16", text)
    return re.sub(r'(steps=|"steps": |--steps |--heal )\d+', r"\g<1>2", text)


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_every_snippet_runs(page, models, tmp_path, monkeypatch, cli):
    """In the order of the page, in one folder; the Python of a page shares its names."""
    tmp_path.mkdir(exist_ok=True)
    for item in models.iterdir():
        (tmp_path / item.name).symlink_to(item)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for language, text in re.findall(r"^```(python|sh)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(shorter(text), str(page.name), "exec"), names)
            continue
        for line in shorter(text).replace("\\\n", " ").splitlines():  # a backslash goes on with the line
            words = shlex.split(line, comments=True)
            assert words[:1] in ([], ["onebasin"]), line
            assert not words or cli(*words[1:])[0] == 0, line


def test_most_pages_have_something_to_run():
    assert {page.stem for page in RUNNABLE} >= {
        "README", "index", "merge", "certificate", "api", "many", "sizes", "learning", "learning-options",
        "learning-measured", "matching", "papers",
    }  # fmt: skip


def test_the_examples_of_the_verbs_run(models, tmp_path, monkeypatch):
    for item in models.iterdir():
        (tmp_path / item.name).symlink_to(item)
    monkeypatch.chdir(tmp_path)
    names = {"onebasin": onebasin}
    for verb in (onebasin.align, onebasin.barrier, onebasin.evaluate, onebasin.inspect, onebasin.verify):
        examples = doctest.DocTestParser().get_examples(verb.__doc__)
        assert examples, verb
        for example in examples:
            exec(example.source, names)
    for verb, made in ((onebasin.merge, "merged-of-three"), (onebasin.widen, "larger")):
        (example,) = doctest.DocTestParser().get_examples(verb.__doc__)
        exec(example.source.replace('"merged"', '"merged-of-three"'), names)
        assert Checkpoint.open(made)


def test_a_snippet_that_fails_is_noticed(models, tmp_path, monkeypatch, cli):
    page = tmp_path / "page.md"
    for text in ("```python\nraise RuntimeError\n```\n", "```sh\nonebasin inspect MISSING/\n```\n"):
        page.write_text(text)
        with pytest.raises((RuntimeError, AssertionError)):
            test_every_snippet_runs(page, models, tmp_path / str(len(text)), monkeypatch, cli)


def test_the_notebook_runs(monkeypatch, capsys, tmp_path):
    """Its cells in order, on a demo so small that nothing is learned well."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # the notebook goes elsewhere itself; this brings the tests back
    notebook = json.loads((DOCS / "demo.ipynb").read_text())
    monkeypatch.setattr("onebasin.demo.VARIANTS", {("image", True): tiny("image")})
    names: dict[str, object] = {"__name__": "notebook"}
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        exec(compile(cell, "demo.ipynb", "exec"), names)
    assert re.search(r"barrier: .* as trained, .* by the weights, .* learned", capsys.readouterr().out)
    matplotlib.pyplot.close("all")


def test_the_notebook_shows_what_it_found():
    """Every cell has run, in order; there is a picture, and nothing of the machine that it ran on."""
    text = (DOCS / "demo.ipynb").read_text()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    shown = [out for cell in cells for out in cell["outputs"]]
    assert {out["output_type"] for out in shown} <= {"execute_result", "display_data", "stream"}  # no error
    assert any("image/png" in out.get("data", {}) for out in shown)
    assert any("Aligned: 2 ×" in "".join(out.get("data", {}).get("text/html", "")) for out in shown)
    assert len(text) < 300_000
    assert not re.search(r"(?<![\w/])/(tmp|home|root|work)/", text)


# ---- what was printed


@pytest.mark.parametrize("model", ["llama-wikitext2-0"])
def test_what_the_tour_shows_of_inspect_is_what_it_says(zoo, tmp_path, monkeypatch, cli, model):
    (tmp_path / "zoo").symlink_to(zoo)
    monkeypatch.chdir(tmp_path)
    command = f"inspect zoo/{model}"
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    _, _, shown = page.partition(f"```\n$ onebasin {command}\n")
    code, out, _ = cli(*command.split())
    assert code == 0
    here, there = ([line.rstrip() for line in x.splitlines()] for x in (out, shown.partition("\n```\n")[0]))
    taken = [i for i, line in enumerate(there) if line.startswith("time on this CPU: ")]
    assert len(taken) == 1
    for lines in (here, there):  # that of another machine
        lines[taken[0]] = re.sub(r"(under )?[\d.]+ (s|min|h)\b", "", lines[taken[0]])
    assert here == there


# ---- the site


def test_every_page_is_on_the_site():
    listed = re.findall(r"[\w-]+\.md", yaml.dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    pages = [page.name for page in DOCS.glob("*.md")]
    assert sorted(listed) == sorted([*pages, *(page.rpartition("/")[2] for page in from_outside())])


def from_outside() -> tuple[str, ...]:
    """The pages that docs/hooks.py takes from outside of docs/."""
    (pages,) = re.findall(r"^PAGES = (\(.*\))$", (DOCS / "hooks.py").read_text(), re.MULTILINE)
    found: tuple[str, ...] = ast.literal_eval(pages)
    return found


def test_links_that_leave_the_folder_lead_to_what_the_site_takes():
    taken = {*(ROOT / page for page in from_outside()), *(ROOT / "benchmarks" / "results").glob("*.json")}
    taken |= set((ROOT / "benchmarks" / "results").glob("*.svg"))
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text()):
            file = (page.parent / target).resolve()
            assert file.is_relative_to(DOCS) or file in taken, f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """What the site calls the parts of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_a_part_of_a_page_lead_to_a_heading(page):
    for target, part in re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert part in anchors((page.parent / target) if target else page), f"{target}#{part}"


def test_a_missing_part_is_noticed(tmp_path):
    (tmp_path / "page.md").write_text("# One `two`, three\n\n[there](#one-two-three) [nowhere](#four)\n")
    assert anchors(tmp_path / "page.md") == {"one-two-three"}
    with pytest.raises(AssertionError, match="four"):
        test_links_to_a_part_of_a_page_lead_to_a_heading(tmp_path / "page.md")


def test_every_name_that_the_page_on_python_documents_exists():
    documented = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert len(documented) > 10
    for name in documented:
        where, _, last = name.rpartition(".")
        whole = importlib.util.find_spec(where) and hasattr(importlib.import_module(where), last)
        assert whole or importlib.util.find_spec(name), name


BUILD = [sys.executable, "-m", "mkdocs", "build", "--strict"]
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="the extra 'docs' is not installed: `make docs` installs it and builds the site",
)


@needs_mkdocs
def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run([*BUILD, "-d", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api.html").read_text()
    assert "Align all models with the first" in page
    assert '<code><span class="gp">&gt;&gt;&gt; </span>' in page  # examples are code
    check_offline(tmp_path / "site")


def check_offline(site: Path) -> None:
    """Opened from a disk, it shows formulas and finds words; nothing is fetched from elsewhere."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert pages["mathematics.html"].count("<math ") == (DOCS / "mathematics.md").read_text().count("$$") / 2 > 0
    assert not [name for name, text in pages.items() if 'class="arithmatex"' in text]
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = {")
    fetched = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")
    assert not [name for name, text in pages.items() if fetched.search(text)]
    assert fetched.search('<script src="https://example.org/x.js">')
    assert all("iframe-worker.js" in text for text in pages.values() if "data-md-component" in text)


@needs_mkdocs
@pytest.mark.parametrize(
    ("broken", "told"),
    [("[nowhere](nowhere.md), [no part](merge.md#nowhere)", ["'nowhere.md'", "'merge.md#nowhere'"]),
     ("::: onebasin.api.nothing", ["onebasin.api.nothing"])],
    ids=["links", "name"],
)  # fmt: skip
def test_a_broken_link_or_name_fails(tmp_path, broken, told):
    for item in ("docs", "src", "benchmarks"):
        (tmp_path / item).mkdir()
        for child in (ROOT / item).iterdir():
            (tmp_path / item / child.name).symlink_to(child)
    for item in ("mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md"):
        (tmp_path / item).symlink_to(ROOT / item)
    (tmp_path / "docs" / "limits.md").unlink()
    (tmp_path / "docs" / "limits.md").write_text((DOCS / "limits.md").read_text() + f"\n\n{broken}\n")
    done = subprocess.run(BUILD, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert all(words in done.stderr + done.stdout for words in ["limits.md", *told])

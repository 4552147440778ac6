"""The wheel and the sdist: whole, installable, and at work where the source tree is not."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import onebasin
from helpers.random_models import byte_llama

pytest.importorskip("build", reason="the package `build` is absent: it comes with onebasin[dev]")
pytest.importorskip("hatchling", reason="the package `hatchling` is absent: it comes with onebasin[dev]")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELEASE = runpy.run_path(str(ROOT / "scripts" / "release.py"))

# `onebasin demo --quick` as it is, but with the models and steps of the tests; first `onebasin inspect a`.
TINY_DEMO = """
import onebasin
from helpers.demos import tiny
from onebasin.cli import main
from onebasin.demo import VARIANTS

print(onebasin.__file__)
try:
    main(["inspect", "a"])
except SystemExit as end:
    assert not end.code
VARIANTS["image", True] = tiny("image")
main(["demo", "--quick"])
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of the source tree, and the wheel that was built from this sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (file,) = dist.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that holds the wheel.  What it depends on is read from that of the tests.

    A folder named in a .pth file comes last, and the .pth files inside it are not read: no editable install reaches us.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    theirs = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "dependencies.pth").write_text("\n".join(theirs) + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    return python


def elsewhere(folder: Path, *command: object) -> str:
    """What a command prints that runs in a folder with no way back to the source tree."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_release_passes_its_own_checks(dist, wheel):
    (sdist,) = dist.glob("*.tar.gz")
    RELEASE["check_sdist"](sdist)
    RELEASE["check_wheel"](wheel)
    assert {"onebasin/py.typed", "onebasin/report/html/style.css"} <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"constraints-transformers4.txt", "scripts/release.py", ".ci/run", ".github/workflows/ci.yml"} <= names


def rewrite(wheel: Path, out: Path, **changes: bytes | None) -> Path:
    """The wheel with other contents of some files, by the end of their names; None takes one out."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            text = next((text for end, text in changes.items() if name.endswith(end)), old.read(name))
            if text is not None:
                new.writestr(name, text)
    return out


def test_a_release_that_lacks_something_is_refused(dist, wheel, tmp_path):
    check, refused = RELEASE["check_wheel"], RELEASE["NotReady"]
    check(rewrite(wheel, tmp_path / "same.whl"))
    with pytest.raises(refused, match="files of the wheel"):
        check(rewrite(wheel, tmp_path / "less.whl", **{"onebasin/py.typed": None}))
    with zipfile.ZipFile(rewrite(wheel, tmp_path / "more.whl"), "a") as archive:
        archive.writestr("onebasin/secret.txt", "x")
    with pytest.raises(refused, match="files of the wheel"):
        check(tmp_path / "more.whl")
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA")]
    stale = zipfile.ZipFile(wheel).read(name).replace(f"\nVersion: {PROJECT['version']}".encode(), b"\nVersion: 9.9.9")
    with pytest.raises(refused, match="Version"):
        check(rewrite(wheel, tmp_path / "stale.whl", METADATA=stale))
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as whole, tarfile.open(tmp_path / "less.tar.gz", "w:gz") as less:
        for member in whole.getmembers():
            if not member.name.endswith("/CITATION.cff"):
                less.addfile(member, whole.extractfile(member))
    with pytest.raises(refused, match=r"the sdist lacks.*CITATION\.cff"):
        RELEASE["check_sdist"](tmp_path / "less.tar.gz")


def test_the_workflow_runs_what_continuous_integration_runs():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert f">={job['strategy']['matrix']['python'][0]}" == PROJECT["requires-python"]


def test_the_installed_command_works_in_another_folder(python, tmp_path):
    said = elsewhere(tmp_path, python.with_name("onebasin"), "--version")
    assert said.startswith(f"onebasin {PROJECT['version']}, torch ")


def test_the_installed_package_works_in_another_folder(python, tmp_path):
    byte_llama(tmp_path / "a")
    shutil.copytree(ROOT / "tests" / "helpers", tmp_path / "helpers")
    (tmp_path / "tiny_demo.py").write_text(TINY_DEMO, encoding="utf-8")
    where, _, printed = elsewhere(tmp_path, python, "tiny_demo.py").partition("\n")
    assert Path(where).is_relative_to(python.parents[1])  # the wheel's, not that of the tests
    assert "LlamaForCausalLM" in printed
    assert re.search(r"^learned +\d", printed, re.MULTILINE)
    assert "Two models trained from different seeds reach" in printed
    style = (ROOT / "src" / "onebasin" / "report" / "html" / "style.css").read_text(encoding="utf-8")
    assert style.split("{")[0].strip() in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")


def test_one_version_everywhere():
    source = (ROOT / "src" / "onebasin" / "__init__.py").read_text(encoding="utf-8")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f'__version__ = "{PROJECT["version"]}"' in source
    assert cited["version"] == PROJECT["version"] == onebasin.__version__
    assert cited["license"] == PROJECT["license"]


def test_the_citation_names_the_papers_of_the_page_on_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    assert "docs/papers.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    listed, _, _ = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").partition("\n## ")
    listed = " ".join(listed.split())
    assert len(cited) == len(re.findall(r"arXiv \d+\.\d+", listed))
    for paper in cited:
        assert f"*{paper['title']}*" in listed
        assert f"arXiv {paper['url'].rpartition('/')[2]}" in listed
        assert all(author.keys() == {"given-names", "family-names"} for author in paper["authors"])


def test_the_pins_of_transformers_4_replace_others():
    pinned, old = (
        dict(line.split("==") for line in (ROOT / name).read_text().splitlines() if not line.startswith("#"))
        for name in ("constraints.txt", "constraints-transformers4.txt")
    )
    assert old.keys() <= pinned.keys()
    assert old["transformers"].startswith("4.")
    assert pinned["transformers"].startswith("5.")

"""The wheel and the sdist: whole, installable, and at work where the source tree is not."""

from __future__ import annotations

import email
import os
import re
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

# `onebasin demo --quick` as it is, but with the models and steps of the tests.
TINY_DEMO = """
from helpers.demos import tiny
from onebasin.cli import main
from onebasin.demo import VARIANTS

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


def package_files(root: Path) -> set[str]:
    files = (file.relative_to(root) for file in (root / "onebasin").rglob("*") if file.is_file())
    return {file.as_posix() for file in files if "__pycache__" not in file.parts}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == package_files(ROOT / "src")
    assert {"onebasin/py.typed", "onebasin/report/html/style.css"} <= names


def test_the_wheel_says_what_the_project_says(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert (metadata["Name"], metadata["Version"]) == ("onebasin", PROJECT["version"])
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"]) >= {"hub", "bench", "dev"}
    required = {line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line}
    assert len(required) == len(PROJECT["dependencies"])


def test_the_sdist_holds_what_the_tests_need(dist):
    (file,) = dist.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package_files(ROOT / "src")} <= names
    assert {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*.py")} <= names
    assert {"CITATION.cff", "CONTRIBUTING.md", "Makefile", "constraints.txt", "constraints-transformers4.txt"} <= names


def test_the_installed_command_works_in_another_folder(python, tmp_path):
    command = python.with_name("onebasin")
    assert elsewhere(tmp_path, command, "--version").startswith(f"onebasin {PROJECT['version']}, torch ")
    where = Path(elsewhere(tmp_path, python, "-c", "import onebasin; print(onebasin.__file__)").strip())
    assert where.is_relative_to(python.parents[1])  # the wheel's, not that of the tests
    byte_llama(tmp_path / "a")
    assert "LlamaForCausalLM" in elsewhere(tmp_path, command, "inspect", "a")


def test_the_installed_demo_works_in_another_folder(python, tmp_path):
    shutil.copytree(ROOT / "tests" / "helpers", tmp_path / "helpers")
    (tmp_path / "tiny_demo.py").write_text(TINY_DEMO, encoding="utf-8")
    printed = elsewhere(tmp_path, python, "tiny_demo.py")
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

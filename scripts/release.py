"""Build a release in dist/ and check it: `make dist`.  Publishes nothing.

The sdist is made from the source tree and the wheel from the sdist.  Then their files and metadata are compared with
the source tree, and the wheel is installed, without what it depends on, into a fresh environment and imported there.
"""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BESIDE = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "Makefile", "constraints.txt"}


class NotReady(Exception):
    """The archives are not what the source tree says."""


def main(out: Path = ROOT / "dist") -> None:
    """Build, check, and say what was made."""
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    check_sdist(sdist)
    check_wheel(wheel)
    version = check_install(wheel)
    for file in (sdist, wheel):
        print(f"{file.name}  {file.stat().st_size:,} bytes")
    print(f"checked: files, metadata, and `import onebasin` of {version} in a fresh environment")


def package_files() -> set[str]:
    """The files of the package, as the wheel should hold them."""
    files = (file.relative_to(ROOT / "src") for file in (ROOT / "src" / "onebasin").rglob("*") if file.is_file())
    return {file.as_posix() for file in files if "__pycache__" not in file.parts}


def check_sdist(sdist: Path) -> None:
    """All of the package, its tests and what lies beside them; nothing made by a run."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tests = {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*.py")}
    same("the sdist lacks", ({f"src/{name}" for name in package_files()} | tests | BESIDE) - names, set())
    same(
        "the sdist should not hold", {x for x in names if "__pycache__" in x or x.startswith((".venv", "site/"))}, set()
    )


def check_wheel(wheel: Path) -> None:
    """The package and nothing else, and what pyproject.toml says of it."""
    archive = zipfile.ZipFile(wheel)
    names = {name for name in archive.namelist() if ".dist-info/" not in name}
    same("files of the wheel", names, package_files())
    (info,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    check_metadata(email.message_from_bytes(archive.read(info)))


def check_metadata(found: Message) -> None:
    """Name, version, licence, Python, extras, and as many requirements as the project lists."""
    for field, key in (("Name", "name"), ("Version", "version"), ("License-Expression", "license"),
                       ("Requires-Python", "requires-python"), ("Summary", "description")):  # fmt: skip
        same(field, found[field], PROJECT[key])
    same("extras", set(found.get_all("Provides-Extra", [])), set(PROJECT["optional-dependencies"]))
    required = [line for line in found.get_all("Requires-Dist", []) if "extra ==" not in line]
    same("number of requirements", len(required), len(PROJECT["dependencies"]))
    readme = found.get_payload(decode=True).decode("utf-8")  # a message from bytes names no charset, though it is UTF-8
    same("description", readme.strip(), (ROOT / "README.md").read_text(encoding="utf-8").strip())


def check_install(wheel: Path) -> str:
    """The version that `import onebasin` gives in a fresh environment with the wheel alone."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, symlinks=True)
        python = Path(folder) / "bin" / "python"
        install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
        subprocess.run([*install, wheel], check=True)
        code = "import onebasin; print(onebasin.__version__, onebasin.__file__)"
        done = subprocess.run([python, "-I", "-c", code], cwd=folder, check=True, capture_output=True, text=True)
        version, _, file = done.stdout.strip().partition(" ")
        same("imported from the wheel", Path(file).is_relative_to(folder), True)
    same("version", version, PROJECT["version"])
    return version


def same(what: str, found: object, expected: object) -> None:
    """Nothing, if both are equal."""
    if found != expected:
        raise NotReady(f"{what}: expected {expected}, found {found}")


if __name__ == "__main__":
    main()

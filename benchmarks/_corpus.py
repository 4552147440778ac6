"""Python source as bytes: the modules of the packages that are installed where this runs, the same for everybody there.

Files are taken in the order of a hash of their path, so that every part of the corpus has all packages in it; a file
that was seen before (copies are common) is left out.  Every twentieth file validates, the next one tests.
"""

import hashlib
import sysconfig
from pathlib import Path

SPLITS = {"valid": 0, "test": 1}  # the file's number modulo PART
PART = 20
SMALLEST, LARGEST = 1_000, 200_000  # bytes of a file: no stubs, no tables of data


def python_source(most: int) -> dict[str, bytes]:
    """`train`, `valid` and `test`; at most so many bytes in all."""
    parts: dict[str, list[bytes]] = {"train": [], "valid": [], "test": []}
    seen: set[bytes] = set()
    left = most
    for number, text in enumerate(texts(seen)):
        if left <= 0:
            break
        split = next((name for name, rest in SPLITS.items() if number % PART == rest), "train")
        parts[split].append(text[:left])
        left -= len(text)
    return {name: b"\n".join(each) for name, each in parts.items()}


def texts(seen: set[bytes]):
    for file in sorted(files(), key=lambda file: hashlib.sha256(str(file[1]).encode()).digest()):
        text = file[0].read_bytes()
        digest = hashlib.sha256(text).digest()
        if SMALLEST <= len(text) <= LARGEST and digest not in seen:
            seen.add(digest)
            yield text


def files() -> list[tuple[Path, Path]]:
    """Modules of the library and of all packages, with their place below the folder they were found in."""
    roots = dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
    return [(file, file.relative_to(root)) for root in roots for file in root.rglob("*.py") if file.is_file()]

"""What a result was made with."""

from __future__ import annotations

import platform
from importlib.metadata import version

from onebasin import __version__


def versions() -> dict[str, str]:
    """Release numbers of the package, of Python and of what the numbers depend on."""
    others = {name: version(name) for name in ("torch", "transformers")}
    return {"onebasin": __version__, "python": platform.python_version(), **others}

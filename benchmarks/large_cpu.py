"""Weight matching of 0.13 billion parameters without a GPU: the command, the pairs and the figures of `large.py`."""

import os
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

from large import device, measure_size

NEEDS: tuple[Path, ...] = ()


def measure() -> dict[str, Any]:
    found = {key: x for new in measure_size("0.13B", ["random", "planted"]) for key, x in new.items()}
    return {"device": device(), "sweeps": 5, "0.13B": found}

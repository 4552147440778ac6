"""A run that has a time to end at: training that is half done then is kept, and goes on in the next run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from onebasin.checkpoint import json_text

if TYPE_CHECKING:
    from onebasin.reproduce.training import Best, SideBySide


class OutOfTime(Exception):
    """The time is up: whatever is going on ends here, and what is done is kept."""


class Clock:
    """Counts from the moment it is made; without a limit it never ends."""

    def __init__(self, minutes: float | None) -> None:
        self.end = None if minutes is None else time.monotonic() + 60 * minutes

    def left(self) -> float | None:
        """Seconds; none means without end."""
        return None if self.end is None else max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        """Raise `OutOfTime` once the time is up."""
        if self.left() == 0.0:
            raise OutOfTime


class Progress:
    """What a training has reached: weights, optimiser, the best so far, and the generator that drops units.

    `file` holds it while the training waits; `settings` are all that it depends on, so that another one is not
    mistaken for it.  Batches follow from seeds and the number of steps.
    """

    def __init__(self, file: Path, settings: Any) -> None:
        self.file, self.settings = file, json_text(settings)

    def save(self, step: int, side: SideBySide, optimizer: torch.optim.Optimizer, best: Best | None) -> None:
        """Keep what there is after so many steps; the file is the old one or the new one whenever the run ends."""
        tensors = {f"flat/{kind}": x.detach() for kind, x in side.flat.items()}
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{i}/{name}": torch.as_tensor(x) for name, x in state.items()}
        if best is not None:
            tensors |= {f"best/{kind}": x for kind, x in best.kept.items()}
            tensors |= {"best_loss": best.loss, "best_stale": best.stale}
        tensors["random"] = _generator(side.device).get_state()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        whole = {name: x.cpu().contiguous().clone() for name, x in tensors.items()}
        save_file(whole, partial, {"settings": self.settings, "step": str(step)})
        partial.replace(self.file)

    def load(self, side: SideBySide, optimizer: torch.optim.Optimizer, best: Best | None) -> int:
        """Put back what was kept; returns how many steps were done, 0 where nothing was."""
        try:
            with safe_open(self.file, "pt") as file:
                about = file.metadata() or {}
                if about.get("settings") != self.settings:
                    return 0
                kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return 0
        with torch.no_grad():
            for kind, x in side.flat.items():
                x.copy_(kept[f"flat/{kind}"])
        optimizer.load_state_dict({**optimizer.state_dict(), "state": _by_place(kept)})
        if best is not None:
            best.kept = {kind: kept[f"best/{kind}"].to(side.device) for kind in best.kept}
            best.loss, best.stale = (kept[name].to(side.device) for name in ("best_loss", "best_stale"))
        _generator(side.device).set_state(kept["random"])
        return int(about["step"])

    def done(self) -> None:
        """Nothing waits any more."""
        self.file.unlink(missing_ok=True)


def _by_place(kept: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    found: dict[int, dict[str, Tensor]] = {}
    for name, x in kept.items():
        if name.startswith("optimizer/"):
            _, place, part = name.split("/")
            found.setdefault(int(place), {})[part] = x
    return found


def _generator(device: torch.device) -> torch.Generator:
    """The one that dropout draws from."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator

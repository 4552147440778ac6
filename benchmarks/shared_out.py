"""Learning shared out among processes (FSDP2 over gloo, CPU): the same latents, and a part of the frozen models each.

    python benchmarks/run.py shared_out          a minute or two

A random pair of Llamas, texts of unequal length (so that the parts of a batch have unequal numbers of labels), 20 steps
in float64, block by block.  "apart" is the largest difference of an entry of a map from that of one process.  At the
end one of the processes is killed with -9 in the middle of a run, and the run goes on from its saved state.
"""

import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

from large import LLAMA, TINY, write_random

NEEDS: tuple[Path, ...] = ()
COUNTS = (1, 2, 4)
SHAPE = {**LLAMA, "hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 160, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 97}  # fmt: skip
SAMPLES, LENGTH, STEPS = 64, 16, 6 if TINY else 20
HALF = STEPS // 2  # the state is saved there, and one is killed


def measure() -> dict[str, Any]:
    import torch
    import transformers  # noqa: F401  before the processes part

    import onebasin.learn.learning
    import onebasin.methods.learned  # noqa: F401

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="onebasin-shared-") as name:
        folder = Path(name)
        for seed, side in enumerate("ab"):
            parameters = write_random(folder / side, SHAPE, seed=seed)
        found: dict[str, Any] = {"parameters": parameters, "steps": STEPS}
        (alone, whole), *_ = together(1, folder)
        for count in COUNTS:
            ranks = together(count, folder)
            found[f"{count} processes"] = {
                "apart": max(far(maps, alone) for maps, _ in ranks),
                "frozen bytes": [kept for _, kept in ranks],
                "share of one": [round(kept / whole, 3) for _, kept in ranks],
            }
        for count in COUNTS[1:]:
            first = together(count, folder, state=folder / f"state-{count}", kill=True)
            again = together(count, folder, state=folder / f"state-{count}")
            found[f"{count} processes, one killed"] = {
                "all ended": all(x is None or isinstance(x, str) for x in first),
                "said": next(x for x in first if isinstance(x, str)).splitlines()[0],
                "apart after going on": max(far(maps, alone) for maps, _ in again),
            }
        return found


def far(x: dict[str, Any], y: dict[str, Any]) -> float:
    return max(float(abs(x[name] - y[name]).max()) for name in x)


def together(count: int, folder: Path, state: Path | None = None, kill: bool = False) -> list[Any]:
    """What every process found: (maps, bytes kept), what it said at its end, or nothing of the one that was killed."""
    fork, meeting = multiprocessing.get_context("fork"), tempfile.mktemp(dir=folder)
    pipes = [fork.Pipe(duplex=False) for _ in range(count)]
    work = [fork.Process(target=one, args=(rank, count, meeting, folder, state, kill, pipes[rank][1]))
            for rank in range(count)]  # fmt: skip
    for process, (_, end) in zip(work, pipes, strict=True):
        process.start()
        end.close()
    found = []
    for pipe, _ in pipes:
        try:
            found.append(pipe.recv())
        except EOFError:
            found.append(None)
    for process in work:
        process.join()
    return found


# ---- in each process


def one(rank: int, count: int, meeting: str, folder: Path, state: Path | None, kill: bool, pipe: Any) -> None:
    from torch import distributed

    from onebasin.errors import OnebasinError

    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    try:
        found: Any = learned(folder, state, kill and rank == 1)
    except OnebasinError as error:
        found = str(error)
    pipe.send(found)
    pipe.close()
    os._exit(0)  # without the farewell of the group: one of it may be gone


def learned(folder: Path, state: Path | None, kill: bool) -> tuple[dict[str, Any], int]:
    from onebasin import Checkpoint
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.events import Callback
    from onebasin.learn import learning
    from onebasin.learn.options import LearnedMatching
    from onebasin.match.many import as_they_are

    kept: list[int] = []

    class Watched(learning.Run):
        def train(self, told: Any = None) -> None:
            running = self.steps.objective.running
            tensors = [p for block in running.blocks for p in block.parameters()]
            kept.append(sum((p.to_local() if hasattr(p, "to_local") else p).nbytes for p in tensors))
            super().train(Killed() if kill else told)

    class Killed(Callback):
        def on_step(self, step: Any) -> None:
            if step.step > HALF:
                os.kill(os.getpid(), 9)

    learning.Run = Watched  # type: ignore[misc]
    options = LearnedMatching(
        steps=STEPS, batch=4, eval_every=STEPS, save_every=HALF, log_every=1, dtype="float64", checkpointing=True,
        loss="task", lr=1e-2, learn=("residual", "qk", "ov", "gains"),
    )  # fmt: skip
    start = as_they_are(Ensemble.of([Checkpoint.open(folder / side) for side in "ab"]))
    found = learning.learn(start, padded(), 8, options, folder=state)
    maps = found.alignments[1].maps
    return {f"{x}/{part}": t.numpy() for x, g in maps.items() for part, t in g.tensors().items()}, kept[0]


def padded() -> Any:
    """Texts of unequal length, random words."""
    import torch

    from onebasin.tasks import LANGUAGE, Task

    dice = torch.Generator().manual_seed(3)
    ids, labels = torch.randint(SHAPE["vocab_size"], (2, SAMPLES, LENGTH), generator=dice)
    mask = (torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (SAMPLES, 1), generator=dice)).long()
    inputs = {"input_ids": ids, "attention_mask": mask}
    return Task("padded", LANGUAGE, inputs, labels.masked_fill(mask == 0, -100), {})

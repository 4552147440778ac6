"""How long a run is said to take, and how long it takes: models of three sizes, stage by stage.

`onebasin align --method weight --dry-run` counts what a run will compute and looks how fast this machine is.  Here that
stands beside the run itself, both on one thread and in seconds of the CPU: what others do meanwhile does not count.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from large import LLAMA, TINY, write_random

NEEDS: tuple[Path, ...] = ()
SWEEPS = 3
SIZES: dict[str, dict[str, Any]] = {
    "1M": {"hidden_size": 128, "num_hidden_layers": 3, "intermediate_size": 352, "num_attention_heads": 2,
           "num_key_value_heads": 2, "vocab_size": 2000},
    "5M": {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 704, "num_attention_heads": 4,
           "num_key_value_heads": 4, "vocab_size": 4000},
    "26M": {"hidden_size": 512, "num_hidden_layers": 6, "intermediate_size": 1408, "num_attention_heads": 8,
            "num_key_value_heads": 8, "vocab_size": 8000},
}  # fmt: skip
STAGES = {"checking": "reading", "what": "reading", "looking": "matching", "sweep": "matching",
          "certificate": "certificate", "writing": "writing"}  # fmt: skip


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {"threads": 1, "sweeps": SWEEPS}
    for name, sizes in list(SIZES.items())[: 1 if TINY else None]:
        with tempfile.TemporaryDirectory(prefix="onebasin-foretold-") as folder:
            for seed, side in enumerate("ab"):
                parameters = write_random(Path(folder, side), {**LLAMA, **sizes}, seed=seed)
            command = [sys.executable, __file__, folder]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[name] = {"parameters": parameters, **json.loads(done.stdout.splitlines()[-1])}
            print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    return found


# ---- in the child


def compared(folder: Path) -> dict[str, Any]:
    """Seconds of every stage, foretold and taken, and the ratio of all of them."""
    import torch

    from onebasin.cli.recipe import from_flags
    from onebasin.recipes.plan import prepare
    from onebasin.recipes.running import run

    torch.set_num_threads(1)
    settings = [f"weight.sweeps={SWEEPS}", "weight.tol=0"]

    def recipe(out: str) -> Any:
        models = [str(folder / side) for side in "ab"]
        return from_flags("align", models, settings, method="weight", device="cpu", write__out=folder / out)

    run(recipe("first"))  # what is imported or made where it is first used
    foretold = prepare(recipe("plan")).seconds(time.process_time)
    taken, now = dict.fromkeys(foretold, 0.0), ["reading", time.process_time()]

    def tick(step: str, done: float = 0, total: float = 0) -> None:
        stage, since = now
        now[:] = STAGES[step.split()[0]], time.process_time()
        taken[stage] += now[1] - since

    run(recipe("second"), tick)
    tick("writing")
    rows = {stage: [round(x, 3) for x in (foretold[stage], taken[stage])] for stage in foretold}
    total = sum(foretold.values()), sum(taken.values())
    return {"foretold, taken": rows, "in all": [round(x, 2) for x in total], "ratio": round(total[0] / total[1], 2)}


if __name__ == "__main__":
    print(json.dumps(compared(Path(sys.argv[1]))))

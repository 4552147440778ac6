"""How alike the streams of two models are, layer by layer, before and after learned matching.

Activation matching makes the stream of B as much like that of A as a rotation can.  Learned matching then lowers the
loss between them, and nothing asks it to keep the streams alike.  Measured at every layer over all tokens of the test
samples, both models in canonical form and B moved:

    corr(x_A, x_B) = Σ ⟨x_A − mean, x_B − mean⟩ / (‖x_A − mean‖ ‖x_B − mean‖)

beside the largest value that any rotation of that layer alone could give, ‖X_Aᵀ X_B‖_* / (‖X_A‖ ‖X_B‖).  The last layer
of a language model is what its head reads.  One seed; budgets are those of a CPU, heights are on samples held back.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from learned import ADAMW, HELD, SMALL, TINY, opened, prepare, start_of
from matching import NEEDS as NEEDS

WINDOWS = {"batch": 16, "optimizer": "muon", "lr": 3e-2, "recentre_every": 25}
OPTIONS: dict[str, dict[str, Any]] = {
    ADAMW: {"batch": 64, "augment": True, "lr": 3e-3},
    "gpt2-wikitext2": WINDOWS,
    "llama-wikitext2": WINDOWS,
}
STEPS, SAMPLES = 300, 100


def measure() -> dict[str, Any]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: dict[str, Any] = {"steps": STEPS, "samples": SAMPLES, "device": device}
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), [(pair, "activation", "") for pair in OPTIONS])
        for pair in OPTIONS:
            rows[pair] = measure_pair(Path(scratch), device, pair)
            print(pair, json.dumps(rows[pair]), file=sys.stderr, flush=True)
    return rows


def measure_pair(folder: Path, device: str, name: str) -> dict[str, Any]:
    from onebasin import Alignment
    from onebasin.ensemble.ensemble import Ensemble
    from onebasin.learn.learning import learn
    from onebasin.learn.options import LearnedMatching
    from onebasin.match.many import aligned_by
    from onebasin.tasks import training

    a, b, train, test = opened(folder, name)
    ensemble = Ensemble.of((a, b))
    base = [Alignment.identity(ensemble.spec), Alignment.load(start_of(folder, name, "activation"))]
    start = aligned_by(ensemble, base, {})
    options = LearnedMatching(**{"steps": STEPS, "eval_every": STEPS, **OPTIONS[name], **SMALL})
    data, held = training(train).split(20 if TINY else HELD[name.split("-")[0]])
    learned = learn(start, data, held, options, device=device)
    course = learned.course["learning"]
    inputs = [x for x, _ in test.first(4 if TINY else SAMPLES).batches(50)]
    own, matched, moved = (streams(form, inputs) for form in (*start.forms, learned.forms[1]))
    return {
        "options": OPTIONS[name],
        "height at 1/2, matched": round(course["history"][0]["midpoint"] - sum(course["ends"]) / 2, 4),
        "height at 1/2, learned": round(course["barrier"], 4),
        "correlation by layer, matched": [round(correlation(*pair), 3) for pair in zip(own, matched, strict=True)],
        "correlation by layer, learned": [round(correlation(*pair), 3) for pair in zip(own, moved, strict=True)],
        "of the best rotation": [round(reachable(*pair), 3) for pair in zip(own, matched, strict=True)],
    }


def streams(form: Any, inputs: list[Any]) -> list[Any]:
    """The stream (tokens, d) before, between and after the layers, centred."""
    import torch

    from onebasin.checkpoint.stock import stock_model

    model = stock_model(form, torch.float32).eval()
    with torch.no_grad():
        states = [model(**batch, output_hidden_states=True).hidden_states for batch in inputs]
    layers = (torch.cat([x.flatten(0, -2) for x in layer]).double() for layer in zip(*states, strict=True))
    return [x - x.mean(0) for x in layers]


def correlation(x: Any, y: Any) -> float:
    return float((x * y).sum() / (x.norm() * y.norm()))


def reachable(x: Any, y: Any) -> float:
    """The largest correlation with any rotation of y."""
    import torch

    return float(torch.linalg.matrix_norm(x.T @ y, "nuc") / (x.norm() * y.norm()))

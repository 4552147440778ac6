"""Real pretrained models: the promise on their own files, moved copies that come back, and independent pairs averaged.

    python benchmarks/run.py real

Models come from ../shared/real.  Every step is the command a user types, in a process of its own; seconds are those
above importing torch and transformers.  A moved copy is the canonical form (untied head) under a random symmetry in
every space, inside heads of condition at most 4, all in float32; its perplexity is on WikiText-2.  Of the embedders
pooled sentences of AG News are classified by the nearest mean of their class; of the proteins' models every residue is
masked in turn.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from matching import SHARED

NEEDS = (SHARED / "real", SHARED / "data")
ONLY = os.environ.get("ONEBASIN_METHODS", "")  # a pattern of entries, to try some
MOVED = {"smollm2-135m-instruct": "SmolLM2-135M", "gemma3-270m": "Gemma 3 270M"}
PAIRS = {"embedders": ("bge-small-en-v1.5", "arctic-embed-s"), "proteins": ("sapiens-vh-128", "sapiens-vl")}
TEXTS = 400  # of AG News, for the means and again for the test
CHAINS = {  # variable domains of a human antibody, heavy and light
    "heavy": "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDG"
    "FYAMDYWGQGTLVTVSS",
    "light": "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTK"
    "VEIK",
}


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="onebasin-real-") as folder:
        here = Path(folder)
        names = [*MOVED, *(name for pair in PAIRS.values() for name in pair)]
        wanted = [name for name in names if re.search(ONLY, name)]
        subprocess.run([sys.executable, SHARED / "real" / "fetch", here, *wanted], check=True, capture_output=True)
        found: dict[str, Any] = {"importing torch and transformers": seconds([sys.executable, "-c", IMPORTS])}
        for name in (name for name in MOVED if name in wanted):
            found[MOVED[name]] = moved_copy(here, name)
            print(MOVED[name], json.dumps(found[MOVED[name]]), file=sys.stderr, flush=True)
        for kind, pair in PAIRS.items():
            if set(pair) <= set(wanted):
                found[" / ".join(pair)] = averaged(here, kind, *pair)
                print(pair, json.dumps(found[" / ".join(pair)]), file=sys.stderr, flush=True)
        return found


IMPORTS = "import torch, transformers, scipy.optimize"


def seconds(command: list[Any]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return round(time.perf_counter() - began, 1)


def command(*words: Any) -> tuple[dict[str, Any], float]:
    """What `onebasin ... --json` says, and the seconds above the imports."""
    began = time.perf_counter()
    line = [sys.executable, "-m", "onebasin", *map(str, words), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    spent = time.perf_counter() - began
    return json.loads(done.stdout), round(spent - seconds([sys.executable, "-c", IMPORTS]), 1)


def moved_copy(here: Path, name: str) -> dict[str, Any]:
    """`inspect`, `verify`, and the way back from a random symmetry."""
    from onebasin import Alignment, Checkpoint, canonicalize, transport

    _, inspected = command("inspect", here / name)
    promise, verified = command("verify", here / name)
    form = canonicalize(Checkpoint.open(here / name)).checkpoint
    a, b, back = (here / f"{name}-{which}" for which in ("canonical", "moved", "back"))
    form.save(a, dtype="float32")
    transport(form, Alignment.random(form.spec, 7, condition=4.0)).save(b, dtype="float32")
    said, aligned = command("align", a, b, "-o", back, "--method", "weight")
    text = here / "wikitext.txt"
    sys.path.insert(0, str(SHARED / "data"))
    import load

    text.write_text(load.wikitext2("valid"), encoding="utf-8")
    scores, _ = command("eval", a, back, "--task", f"text:{text}", "--samples", 32, "--length", 256, "--device", "cpu")
    losses = [row["loss"] for row in scores["rows"]]
    return {
        "seconds of inspect": inspected,
        "verify": {"seconds": verified, **{x: promise[x] for x in ("holds", "drift", "scale")}},
        "moved copy": {
            "seconds of align --method weight": aligned,
            **{x: said[x] for x in ("distance_before", "distance_after", "output_drift") if x in said},
            "losses of the model and of its copy": losses,
        },
    }


def averaged(here: Path, kind: str, a: str, b: str) -> dict[str, Any]:
    """Both models, their plain average and the average of what weight matching wrote."""
    said, spent = command("align", here / a, here / b, "-o", here / f"{b}-aligned", "--method", "weight")
    command("merge", here / a, here / b, "-o", here / f"{b}-merged", "--method", "weight")
    models = {a: here / a, b: here / b, "aligned B": here / f"{b}-aligned", "merged": here / f"{b}-merged"}
    measure_one = {"embedders": nearest_mean, "proteins": masked_residues}[kind]
    found = {name: measure_one(folder) for name, folder in models.items()}
    return {
        "seconds of align --method weight": spent,
        **{x: said[x] for x in ("distance_before", "distance_after", "output_drift") if x in said},
        "measured": found,
        "plain average": measure_one(plain_average(here, a, b)),
    }


def plain_average(here: Path, a: str, b: str) -> Path:
    """Tensors averaged by name."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    out = Path(shutil.copytree(here / a, here / f"{a}-{b}-plain"))
    one, two = (load_file(here / x / "model.safetensors") for x in (a, b))
    mean = {key: torch.lerp(one[key].float(), two[key].float(), 0.5) for key in one}
    save_file(mean, out / "model.safetensors", {"format": "pt"})
    return out


def nearest_mean(folder: Path) -> dict[str, float]:
    """AG News by the nearest mean of pooled sentences (means from training texts), and |cosine| of two paraphrases."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    sys.path.insert(0, str(SHARED / "data"))
    import load

    model, tokenizer = (
        AutoModel.from_pretrained(folder, add_pooling_layer=False).eval(),
        AutoTokenizer.from_pretrained(folder),
    )

    @torch.no_grad()
    def pooled(texts: list[str]) -> torch.Tensor:
        parts = []
        for first in range(0, len(texts), 50):
            given = tokenizer(
                texts[first : first + 50], padding=True, truncation=True, max_length=64, return_tensors="pt"
            )
            hidden, mask = model(**given).last_hidden_state, given["attention_mask"].unsqueeze(-1)
            parts.append((hidden * mask).sum(1) / mask.sum(1))
        return torch.nn.functional.normalize(torch.cat(parts), dim=-1)

    def some(split: str) -> tuple[torch.Tensor, torch.Tensor]:
        rows = load.ag_news(split)[:TEXTS]
        return pooled([text for _, text in rows]), torch.tensor([int(label) for label, _ in rows])

    (known, classes), (asked, truth) = some("train"), some("test")
    kinds = classes.unique()
    means = torch.stack([known[classes == kind].mean(0) for kind in kinds])
    right = (kinds[(asked @ means.T).argmax(1)] == truth).double().mean()
    alike = pooled(["A man is playing a guitar on stage.", "Someone performs music with a guitar.",
                    "The stock market fell sharply today."])  # fmt: skip
    return {"accuracy": round(float(right), 4), "paraphrases": round(float(alike[0] @ alike[1]), 3),
            "strangers": round(float(alike[0] @ alike[2]), 3)}  # fmt: skip


def masked_residues(folder: Path) -> dict[str, float]:
    """The share of residues of a chain that are guessed right, each masked in turn."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    found = {}
    for name, chain in CHAINS.items():
        ids = tokenizer(chain, return_tensors="pt")["input_ids"]
        inside = range(1, ids.shape[1] - 1)
        masked = ids.repeat(len(inside), 1)
        for row, place in enumerate(inside):
            masked[row, place] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(input_ids=masked).logits
        guessed = torch.stack([logits[row, place].argmax() for row, place in enumerate(inside)])
        found[name] = round(float((guessed == ids[0, 1:-1]).double().mean()), 3)
    return found

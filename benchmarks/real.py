"""Real pretrained models: the promise on their own files, moved copies that come back, and independent pairs averaged.

    python benchmarks/run.py real
    ONEBASIN_METHODS=smollm2 python benchmarks/run.py real    only these models; the others keep what the file holds
    ONEBASIN_REAL=FOLDER python benchmarks/run.py real        models that ../shared/real/fetch put there before

Every step is the command a user types, in a process of its own.  Seconds are those of the processor, imports included:
they do not depend on what the machine does beside ("load average", before each entry).  A moved copy is the
canonical form (untied head) under a random symmetry in every space, inside heads of condition at most 4, all in
float32; its perplexity is on WikiText-2.  Of the embedders pooled sentences of AG News are classified by the nearest
mean of their class; of the proteins' models every residue is masked in turn.  These two have 144 and 128 positions:
both are cut to 128.
"""

import datetime
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _compact import RESULTS, write
from matching import SHARED

NEEDS = (SHARED / "real", SHARED / "data")
ONLY = os.environ.get("ONEBASIN_METHODS", "")  # a pattern of models
FETCHED = os.environ.get("ONEBASIN_REAL")
KEPT = RESULTS / "real.json"
MOVED = {"smollm2-135m-instruct": "SmolLM2-135M", "gemma3-270m": "Gemma 3 270M"}
PAIRS = {"embedders": ("bge-small-en-v1.5", "arctic-embed-s"), "proteins": ("sapiens-vh", "sapiens-vl")}
TEXTS = 400  # of AG News, for the means and again for the test
CHAINS = {  # variable domains of a human antibody, heavy and light
    "heavy": "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDG"
    "FYAMDYWGQGTLVTVSS",
    "light": "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTK"
    "VEIK",
}


def measure() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text())["results"] if ONLY and KEPT.is_file() else {}
    with tempfile.TemporaryDirectory(prefix="onebasin-real-") as folder:
        here, models = Path(folder), Path(FETCHED or folder)
        names = [*MOVED, *(name for pair in PAIRS.values() for name in pair)]
        wanted = [name for name in names if re.search(ONLY, name)]
        subprocess.run([sys.executable, SHARED / "real" / "fetch", models, *wanted], check=True, capture_output=True)
        for name in (name for name in MOVED if name in wanted):
            keep(found, MOVED[name], lambda name=name: moved_copy(models, here, name))
        for kind, pair in PAIRS.items():
            if set(pair) <= set(wanted):
                keep(found, " / ".join(pair), lambda kind=kind, pair=pair: averaged(models, here, kind, *pair))
    return found


def keep(found: dict[str, Any], label: str, entry: Callable[[], dict[str, Any]]) -> None:
    """Measure an entry; what is measured is not lost: the file holds it at once, with what its seconds depend on."""
    from run import surroundings

    about = {
        "load average": round(os.getloadavg()[0], 2),
        "date": datetime.datetime.now(datetime.UTC).isoformat("T", "minutes"),
    }
    found[label] = {**about, **entry()}
    print(label, json.dumps(found[label]), file=sys.stderr, flush=True)
    write(KEPT, {**surroundings("real"), "results": found})


def command(*words: Any) -> tuple[dict[str, Any], float]:
    """What `onebasin ... --json` says, and the seconds of the processor that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-m", "onebasin", *map(str, words), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), round(spent, 1)


def moved_copy(models: Path, here: Path, name: str) -> dict[str, Any]:
    """`inspect`, `verify`, and the way back from a random symmetry."""
    from onebasin import Alignment, Checkpoint, canonicalize, transport

    _, inspected = command("inspect", models / name)
    promise, verified = command("verify", models / name)
    form = canonicalize(Checkpoint.open(models / name)).checkpoint
    a, b, back = (here / f"{name}-{which}" for which in ("canonical", "moved", "back"))
    form.save(a, dtype="float32")
    transport(form, Alignment.random(form.spec, 7, condition=4.0)).save(b, dtype="float32")
    said, aligned = command("align", a, b, "-o", back, "--method", "weight")
    text = here / "wikitext.txt"
    sys.path.insert(0, str(SHARED / "data"))
    import load

    text.write_text(load.wikitext2("valid"), encoding="utf-8")
    some = ("--samples", 32, "--length", 256, "--batch-size", 4, "--device", "cpu")
    scores, _ = command("eval", a, back, "--task", f"text:{text}", *some)
    losses = [row["loss"] for row in scores["rows"]]
    return {
        "processor seconds of inspect": inspected,
        "verify": {"processor seconds": verified, **{x: promise[x] for x in ("holds", "drift", "scale")}},
        "moved copy": {
            "processor seconds of align --method weight": aligned,
            **{x: said[x] for x in ("distance_before", "distance_after", "output_drift") if x in said},
            "losses of the model and of its copy": losses,
        },
    }


def averaged(models: Path, here: Path, kind: str, a: str, b: str) -> dict[str, Any]:
    """Both models, their plain average, and the average of what weight matching wrote."""
    out = here / f"{b}-aligned"
    said, spent = command("align", models / a, models / b, "-o", out, "--method", "weight")
    _, merging = command("merge", models / a, models / b, "-o", here / f"{b}-merged", "--method", "weight")
    aligned = out if (out / "config.json").is_file() else out / "b"
    folders = {
        a: models / a, b: models / b, "aligned B": aligned, "plain average": plain_average(models, here, a, b),
        "merged": here / f"{b}-merged",
    }  # fmt: skip
    measure_one = {"embedders": nearest_mean, "proteins": masked_residues}[kind]
    return {
        "processor seconds of align --method weight": spent,
        "processor seconds of merge --method weight": merging,
        **{x: said[x] for x in ("distance_before", "distance_after", "output_drift", "gauge", "warnings")},
        "measured": {name: measure_one(folder) for name, folder in folders.items()},
    }


def plain_average(models: Path, here: Path, a: str, b: str) -> Path:
    """Tensors averaged by name, the longer table of positions as long as the other."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    out = Path(shutil.copytree(models / a, here / f"{a}-{b}-plain"))
    configs = [json.loads((models / x / "config.json").read_text()) for x in (a, b)]
    shorter = min(configs, key=lambda config: config["max_position_embeddings"])
    (out / "config.json").write_text(json.dumps(shorter))
    one, two = (load_file(models / x / "model.safetensors") for x in (a, b))
    rows = {key: min(len(one[key]), len(two[key])) for key in one}
    mean = {key: torch.lerp(one[key][:n].float(), two[key][:n].float(), 0.5) for key, n in rows.items()}
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

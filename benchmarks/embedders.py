"""Two embedding models made one: bge-small-en-v1.5 and arctic-embed-s, which share nothing but their shape.

Both are BERTs with the norm behind each block, so the stream admits permutations only.  Every row is one model: those
that were merged with share 1/2, then, for three of them, ordinary training that follows both teachers ("healed").
Nothing sees a label: sentences of the training split of AG News, and as the target how alike A and B find them (the
mean of both matrices of cosines).  Measured on the test split:

    accuracy    the topic by the nearest mean of the class (means from other training sentences), of pooled vectors
    error       root mean square difference to the teachers' mean cosines, in batches of BATCH sentences

"streams" is what an explicit matrix on every skip connection could give (not a stock model): the mean correlation of
A's and B's coordinates behind every norm, where B is as stored, in one order for all layers, in an order or a rotation
of its own for each layer; fitted and measured on different sentences.

On a CPU; ONEBASIN_TINY=1 takes a few steps.  Rows that stand in the result are kept: delete them to measure again.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _compact import RESULTS
from matching import SHARED

NEEDS = (SHARED / "real", SHARED / "data")
TINY = bool(os.environ.get("ONEBASIN_TINY"))
A, B = "bge-small-en-v1.5", "arctic-embed-s"
KEPT = RESULTS / "embedders.json"
STEPS, BATCH, LENGTH = (2, 4, 16) if TINY else (150, 16, 32)
LEARNED, MEANS, TESTED = (20, 8, 8) if TINY else (2400, 400, 800)  # sentences
HEALED = {"steps": STEPS, "batch": BATCH, "lr": 3e-5}
RESIDUAL = {"permutations": "straight-through", "residual": "permutation"}
EVERYTHING = ["residual", "qk", "ov", "heads", "units"]
WAYS: dict[str, dict[str, Any]] = {
    "weight": {"method": "weight"},
    "activation": {"method": "activation"},
    "learned": {"method": "learned", "learned": {"learn": ["qk", "ov"]}},
    "learned, orders too": {"method": "learned", "learned": {"learn": EVERYTHING, "paper": RESIDUAL}},
    "soft": {"method": "learned", "learned": {"learn": EVERYTHING, "paper": {**RESIDUAL, "permutations": "soft"}}},
}  # fmt: skip
PLAIN = "plain average"
HEALING = ("learned", PLAIN, A)  # and what is trained for as long


def measure() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(KEPT.read_text())["results"] if KEPT.is_file() and not TINY else {}
    with tempfile.TemporaryDirectory(prefix="onebasin-embedders-") as folder:
        here = Path(folder)
        subprocess.run([sys.executable, SHARED / "real" / "fetch", here, A, B], check=True, capture_output=True)
        texts = sentences()
        rows: dict[str, Any] = kept.get("rows", {})
        for name in (A, B, PLAIN, *WAYS):
            if name not in rows or name in HEALING:
                began = time.perf_counter()
                made = here / name if name in (A, B) else merged(here, name, texts)
                spent = time.perf_counter() - began
                if name not in rows:
                    rows[name] = {"seconds": round(spent, 1), **quality(here, made, texts)}
                    keep(kept | {"rows": rows}, name)
        for name in HEALING:
            label = f"{name}, healed"
            if label not in rows:
                began = time.perf_counter()
                healed = heal(here, here / name, texts)
                rows[label] = {"seconds": round(time.perf_counter() - began, 1), **quality(here, healed, texts)}
                keep(kept | {"rows": rows}, label)
        streams = kept.get("streams") or skips(here, texts)
    how = {"sentences": {"learned from": LEARNED, "means": MEANS, "tested": TESTED}, "learned": {
        "steps": STEPS, "batch": BATCH, "tokens": LENGTH}, "healed": HEALED}  # fmt: skip
    return {"how": how, "rows": rows, "streams": streams}


def keep(results: dict[str, Any], name: str) -> None:
    """What is measured is not lost: the file holds it at once."""
    print(name, json.dumps(results["rows"][name]), file=sys.stderr, flush=True)
    from run import keep as write_so_far

    write_so_far("embedders", results)


def sentences() -> dict[str, list[tuple[int, str]]]:
    """(class, text) pairs: to learn from, for the means of classes, to test on."""
    sys.path.insert(0, str(SHARED / "data"))
    import load

    train = load.ag_news("train")
    return {"learn": train[MEANS : MEANS + LEARNED], "means": train[:MEANS], "test": load.ag_news("test")[:TESTED]}


def batches(here: Path, rows: list[tuple[int, str]], size: int, length: int = LENGTH) -> Iterator[dict[str, Any]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(here / A)
    for first in range(0, len(rows), size):
        some = [text for _, text in rows[first : first + size]]
        given = tokenizer(some, padding="max_length", truncation=True, max_length=length, return_tensors="pt")
        yield {name: given[name] for name in ("input_ids", "attention_mask")}


def merged(here: Path, name: str, texts: dict[str, Any]) -> Path:
    """The average with share 1/2, in a folder of its own."""
    if name == PLAIN:
        from onebasin import Checkpoint
        from onebasin.paths import FactorPath

        FactorPath(Checkpoint.open(here / A), Checkpoint.open(here / B)).at([0.5, 0.5]).save(here / name)
        return here / name
    import onebasin

    way = dict(WAYS[name])
    if way["method"] != "weight":
        way["task"] = list(batches(here, texts["learn"], BATCH))
    if "learned" in way:
        fixed = {"start": "activation", "steps": STEPS, "batch": BATCH, "eval_every": max(STEPS // 5, 1)}
        way["learned"] = {**fixed, **way["learned"]}
    onebasin.merge([here / A, here / B], **way, device="cpu").save(here / name)
    return here / name


def opened(folder: Path) -> Any:
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, add_pooling_layer=False)


def pooled(model: Any, batch: dict[str, Any]) -> Any:
    """The mean of the last states of every sentence, of length one."""
    import torch

    states, mask = model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)


def cosines(model: Any, batch: dict[str, Any]) -> Any:
    """Of all pairs of a batch, without those of a sentence with itself."""
    import torch

    x = pooled(model, batch)
    return (x @ x.T)[~torch.eye(len(x), dtype=torch.bool)]


def quality(here: Path, folder: Path, texts: dict[str, Any]) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        model, a, b = (opened(x).eval() for x in (folder, here / A, here / B))
        vectors = {
            split: torch.cat([pooled(model, batch) for batch in batches(here, texts[split], 50, 48)])
            for split in ("means", "test")
        }
        classes = {split: torch.tensor([int(label) for label, _ in texts[split]]) for split in vectors}
        kinds = classes["means"].unique()
        means = torch.stack([vectors["means"][classes["means"] == kind].mean(0) for kind in kinds])
        right = (kinds[(vectors["test"] @ means.T).argmax(1)] == classes["test"]).double()
        errors = [
            (cosines(model, batch) - (cosines(a, batch) + cosines(b, batch)) / 2).square().mean()
            for batch in batches(here, texts["test"], BATCH)
        ]
    accuracy, count = float(right.mean()), len(right)
    return {
        "accuracy": round(accuracy, 4),
        "standard_error": round((accuracy * (1 - accuracy) / count) ** 0.5, 4),
        "error": round(float(torch.stack(errors).mean().sqrt()), 4),
    }


def heal(here: Path, folder: Path, texts: dict[str, Any]) -> Path:
    """All weights trained towards both teachers' mean cosines: warm-up, then a half cosine."""
    import torch
    from _train import rate_of

    torch.manual_seed(0)
    model, a, b = opened(folder).train(), opened(here / A).eval(), opened(here / B).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=HEALED["lr"], weight_decay=0.01)
    given = list(batches(here, texts["learn"], BATCH))
    for step in range(STEPS):
        batch = given[step % len(given)]
        with torch.no_grad():
            target = (cosines(a, batch) + cosines(b, batch)) / 2
        loss = (cosines(model, batch) - target).square().mean()
        optimizer.param_groups[0]["lr"] = HEALED["lr"] * rate_of(step, STEPS)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    out = here / f"{folder.name}-healed"
    model.save_pretrained(out)
    return out


def skips(here: Path, texts: dict[str, Any]) -> dict[str, list[float]]:
    """Mean correlation of coordinates behind every norm, by what the skip connections are allowed."""
    import torch
    from scipy.optimize import linear_sum_assignment

    half = len(texts["test"]) // 2
    fit, seen = ([states(here, name, rows) for name in (A, B)] for rows in (texts["test"][:half], texts["test"][half:]))
    crosses = [x.T @ y / len(x) for x, y in zip(*fit, strict=True)]
    shared = linear_sum_assignment(-torch.stack(crosses).sum(0))[1]
    found: dict[str, list[float]] = {"as stored": [], "one order": [], "an order each": [], "a rotation each": []}
    for cross, x, y in zip(crosses, *seen, strict=True):
        own = linear_sum_assignment(-cross)[1]
        u, _, v = torch.linalg.svd(cross)
        orders = {"as stored": y, "one order": y[:, shared], "an order each": y[:, own]}
        moved = {**orders, "a rotation each": y @ (u @ v).T}
        for name, z in moved.items():
            found[name].append(round(float((x * z).sum() / (x.norm() * z.norm())), 3))
    return found


def states(here: Path, name: str, rows: list[tuple[int, str]]) -> list[Any]:
    """What every layer hands on, (tokens, width), each coordinate of mean 0 and deviation 1."""
    import torch

    model, parts = opened(here / name).eval(), []
    with torch.no_grad():
        for batch in batches(here, rows, 50, 48):
            mask = batch["attention_mask"].bool()
            parts.append([x[mask].double() for x in model(**batch, output_hidden_states=True).hidden_states])
    layers = [torch.cat(layer) for layer in zip(*parts, strict=True)]
    return [(x - x.mean(0)) / x.std(0) for x in layers]

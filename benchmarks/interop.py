"""Other tools: mergekit's average of A and aligned B beside our midpoint, and what transformers makes of our folders.

mergekit is installed into an environment of its own.  For both language-model pairs, `onebasin align --mergekit` writes
its recipe, mergekit runs it, and the loss of its result on 1,000 windows stands beside that of `onebasin merge` and of
mergekit's average of the two models as they are.  All five pairs: the aligned and the merged folder are loaded by
transformers, and generate or classify, in float32.
"""

import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from matching import NEEDS, PAIRS, SHARED, TEST, task_of, write_data

__all__ = ["NEEDS", "measure"]

MERGEKIT = "mergekit==0.1.5"
TORCH = "torch==2.13.0"  # a build without CUDA where one is offered
PROMPT = b" = The history of the city = \n \n The city was"
CLASSIFIED = 500


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        zoo, data = Path(scratch) / "zoo", Path(scratch)
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", zoo], check=True, stdout=subprocess.DEVNULL)
        write_data(data)
        for pair in PAIRS:
            for verb, more in (("align", ["--mergekit"]), ("merge", [])):
                out = data / f"{verb}-{pair}"
                onebasin(
                    verb,
                    zoo / f"{pair}-0",
                    zoo / f"{pair}-1",
                    "-o",
                    out,
                    "--dtype",
                    "float32",
                    "--method",
                    "weight",
                    *more,
                )
        tool = install(data / "mergekit")
        return {
            "mergekit": MERGEKIT,
            "linear merge": {p: averages(tool, zoo, data, p) for p in PAIRS if p.startswith(("gpt2", "llama"))},
            "transformers": {pair: loads(zoo, data, pair) for pair in PAIRS},
        }


def onebasin(*arguments: object) -> None:
    command = [sys.executable, "-m", "onebasin", *map(str, arguments), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def install(folder: Path) -> Path:
    """mergekit in a fresh environment; returns its command."""
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "pip", "install", "--quiet", MERGEKIT, TORCH]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return folder / "bin" / "mergekit-yaml"


def averages(tool: Path, zoo: Path, data: Path, pair: str) -> dict[str, Any]:
    """Losses of mergekit's result and of ours, and how far their tensors are apart."""
    from safetensors.torch import load_file

    a, b, aligned, ours = zoo / f"{pair}-0", zoo / f"{pair}-1", data / f"align-{pair}", data / f"merge-{pair}"
    recipe = (aligned / "mergekit.yaml").read_text()
    (data / "plain.yaml").write_text(recipe.replace(str(aligned), str(b)))
    folders = {"aligned": data / f"mergekit-{pair}", "as stored": data / f"mergekit-plain-{pair}"}
    start = time.perf_counter()
    for file, out in zip((aligned / "mergekit.yaml", data / "plain.yaml"), folders.values(), strict=True):
        subprocess.run([tool, file, out, "--quiet"], check=True, capture_output=True)
    seconds = (time.perf_counter() - start) / 2
    theirs, own = (load_file(folder / "model.safetensors") for folder in (merged(folders["aligned"]), ours))
    row = {
        "loss of A": loss(a, a, data),
        "loss of B": loss(b, a, data),
        "loss, mergekit's average of A and B": loss(folders["as stored"], a, data),
        "loss, mergekit's average of A and aligned B": loss(folders["aligned"], a, data),
        "loss, onebasin merge": loss(ours, a, data),
        "windows": TEST[pair.split("-")[0]][0],
        "largest difference of the tensors": max(float((theirs[name] - own[name]).abs().max()) for name in own),
        "same tensors": sorted(theirs) == sorted(own),
        "mergekit, seconds": round(seconds, 1),
    }
    print(pair, json.dumps(row), file=sys.stderr, flush=True)
    return row


def merged(folder: Path) -> Path:
    """mergekit writes shards with an index even where one file is enough; put them into one."""
    from safetensors.torch import load_file, save_file

    shards = sorted(folder.glob("model-*.safetensors"))
    if shards:
        tensors = {name: x for shard in shards for name, x in load_file(shard).items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        for file in (*shards, folder / "model.safetensors.index.json"):
            file.unlink()
    return folder


def loss(folder: Path, reader: Path, data: Path) -> float:
    """Mean cross entropy of the model as transformers loads it, in float32, on text as `reader` reads it.

    (mergekit adds an empty tokenizer to models that have none and read bytes.)
    """
    import torch
    from transformers import AutoModelForCausalLM

    from onebasin import Checkpoint
    from onebasin.landscape import evaluate
    from onebasin.tasks import load_task

    samples, length = TEST[reader.name.split("-")[0]]
    task = load_task(task_of(reader.name, data, test=True), Checkpoint.open(reader), samples=samples, length=length)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device)
    return evaluate(model, task, device=device).loss


def loads(zoo: Path, data: Path, pair: str) -> dict[str, Any]:
    """Class, missing and unexpected keys, and what the model says, for the aligned and the merged folder."""
    import transformers

    out, rows = data / f"align-{pair}", {}
    aligned = out if (out / "config.json").is_file() else out / "b"  # both canonical, in out/a and out/b
    for name, folder in {"B": zoo / f"{pair}-1", "aligned": aligned, "merged": data / f"merge-{pair}"}.items():
        cls = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
        model, report = cls.from_pretrained(folder, output_loading_info=True)
        rows[name] = {
            "class": type(model).__name__,
            "loaded in": str(model.dtype).removeprefix("torch."),
            "missing": sorted(report["missing_keys"]),
            "unexpected": sorted(report["unexpected_keys"]),
            **(generated(model.float()) if hasattr(model, "lm_head") else classified(model, folder, data, pair)),
        }
    print(pair, json.dumps(rows), file=sys.stderr, flush=True)
    return {"gauge": json.loads((out / "certificate.json").read_text())["gauge"], **rows}


def generated(model: Any) -> dict[str, str]:
    """32 bytes after a prompt, the likeliest at each step."""
    import torch

    ids = torch.tensor([list(PROMPT)])
    new = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False, pad_token_id=0)
    return {"continues": bytes(new[0, ids.shape[1] :].tolist()).decode(errors="replace")}


def classified(model: Any, folder: Path, data: Path, pair: str) -> dict[str, Any]:
    """Accuracy of a transformers pipeline on the first test samples, with the folder's own tokenizer or processor."""
    import csv

    import numpy as np
    from PIL import Image
    from transformers import pipeline

    if pair.startswith("vit"):
        stored = np.load(data / "cifar10-test.npz")
        samples: list[Any] = [Image.fromarray(image) for image in stored["images"][:CLASSIFIED]]
        labels, kind = [int(label) for label in stored["labels"][:CLASSIFIED]], "image-classification"
    else:
        with (data / "agnews-test.csv").open(newline="", encoding="utf-8") as file:
            table = [row for _, row in zip(range(CLASSIFIED), csv.DictReader(file), strict=False)]
        samples, labels = [row["text"] for row in table], [int(row["label"]) for row in table]
        kind = "text-classification"
    classify = pipeline(kind, model=str(folder), dtype="float32")
    more = {"truncation": True, "max_length": 64} if kind.startswith("text") else {}
    answers = [answer[0] if isinstance(answer, list) else answer for answer in classify(samples, **more)]
    found = [int(model.config.label2id[answer["label"]]) for answer in answers]
    right = sum(x == y for x, y in zip(found, labels, strict=True))
    return {"pipeline": kind, "samples": len(labels), "accuracy": right / len(labels)}

"""What `onebasin inspect A B --weights` says of pairs whose history is known, in what time and memory of a CPU.

Pairs of the zoo, pretrained models of ../shared/real, and three that are made here: a fine-tuned model of the zoo, a
pretrained model with noise, and one of its shape that was never trained.  Every row is the command's own, from --json;
time is that of the processor, with the start of Python and torch.
"""

import json
import lzma
import os
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from matching import PAIRS, SHARED, TINY

NEEDS = (SHARED / "zoo", SHARED / "data", SHARED / "real")
STEPS, BATCH, RATE, LENGTH = 3 if TINY else 30, 16, 1e-3, 256  # of fine-tuning; the rate is that of its training
NOISE = 0.2
SMALL, LARGEST = "gpt2-wikitext2-0", "smollm2-135m-instruct"
MADE = {(SMALL, "tuned"): f"{STEPS} steps on Shakespeare later"}
REAL = {
    ("mathformer-add", "mathformer-sub"): "one model, trained on two tasks",
    ("mathformer-mul", "mathformer-sub"): "one model, trained on two tasks",
    ("bge-small-en-v1.5", "arctic-embed-s"): "two embedders of one shape",
    ("minilm-l6-all", "bge-small-en-v1.5"): "6 and 12 layers",
    ("minilm-l6-all", "arctic-embed-s"): "6 and 12 layers",
    ("sapiens-vh-128", "sapiens-vl"): "trained on two kinds of protein chains",
}
LARGE = {(LARGEST, "noisy"): f"noise of {NOISE:g} times the size", (LARGEST, "untrained"): "never trained"}


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="onebasin-inspected-") as scratch:
        here = Path(scratch)
        names = [LARGEST, *sorted({name for pair in REAL for name in pair})]
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", here], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, SHARED / "real" / "fetch", here, *names], check=True, capture_output=True)
        making = get_context("spawn").Process(target=make, args=(here,))  # what it takes is none of inspect's
        making.start()
        making.join()
        assert making.exitcode == 0
        pairs = {(f"{pair}-0", f"{pair}-1"): "other seeds" for pair in PAIRS} | MADE | REAL | LARGE
        return {f"{a}, {b}": inspected(here, a, b, what) for (a, b), what in pairs.items()}


def inspected(here: Path, a: str, b: str, what: str) -> dict[str, Any]:
    """The command in a process of its own: its exit code says whether an alignment is possible, too."""
    command = [sys.executable, "-m", "onebasin", "inspect", str(here / a), str(here / b), "--weights", "--json"]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) in (0, 1)
        said.seek(0)
        found = json.load(said)["weights"]
    row = {"what": what, "verdict": found["verdict"], "cosine": round(found["cosine"], 4)}
    for key in ("stored", "matched"):
        values = [layer[key] for layer in found["layers"] if layer[key] is not None]
        row[key] = [round(min(values), 4), round(max(values), 4)]
    row["seconds"], row["gigabytes"] = round(used.ru_utime + used.ru_stime, 1), round(used.ru_maxrss / 2**20, 2)
    print(a, b, json.dumps(row), file=sys.stderr, flush=True)
    return row


def make(here: Path) -> None:
    """The models that are no one's: written beside the others."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    small = AutoModelForCausalLM.from_pretrained(here / SMALL)
    fine_tune(small)
    small.save_pretrained(here / "tuned")
    large = AutoModelForCausalLM.from_pretrained(here / LARGEST, dtype="auto")
    type(large)(large.config).to(large.dtype).save_pretrained(here / "untrained")
    with torch.no_grad():
        for tensor in large.parameters():
            tensor += NOISE * tensor.float().std() * torch.randn(tensor.shape).to(tensor.dtype)
    large.save_pretrained(here / "noisy")


def fine_tune(model: Any) -> None:
    """Some steps on Shakespeare, with a rate that falls to nothing."""
    import torch
    from _train import fit

    text = lzma.decompress((SHARED / "data" / "tiny_shakespeare.txt.xz").read_bytes())
    ids, generator = torch.frombuffer(bytearray(text), dtype=torch.uint8), torch.Generator().manual_seed(0)

    def batch() -> tuple[dict[str, Any], Any]:
        starts = torch.randint(len(ids) - LENGTH, (BATCH, 1), generator=generator)
        rows = ids[starts + torch.arange(LENGTH + 1)].long()
        return {"input_ids": rows[:, :-1], "use_cache": False}, rows[:, 1:].contiguous()

    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
    fit(model, iter(batch, None), STEPS, optimizer)

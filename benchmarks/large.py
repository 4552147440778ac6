"""Weight matching at size: time and memory of `onebasin align --method weight`, on random and on planted pairs.

    python benchmarks/run.py large                            all of it; on a machine that is lent for ten minutes at a
                                                              time in parts, each kept beside those before:
    ONEBASIN_SIZES=0.13B,1.4B python benchmarks/run.py large
    ONEBASIN_SIZES=7B ONEBASIN_PAIRS=random python benchmarks/run.py large
    ONEBASIN_SIZES=7B ONEBASIN_PAIRS=planted python benchmarks/run.py large
    ONEBASIN_SIZES=7B ONEBASIN_PAIRS=16GB python benchmarks/run.py large     with gpu=16GB,host=16GB;
                                                              behind `planted,` on that pair
    ONEBASIN_SIZES=70B python benchmarks/run.py large         one layer, and two: what a page takes, and all 80 would
    ONEBASIN_TINY=1 ONEBASIN_PAIRS=random,planted,16GB python benchmarks/run.py large        to try it on any machine

Models are random, of the shapes of real ones, stored in bfloat16.  A planted B is A moved by a random symmetry in every
space (inside heads of condition at most 4): what comes back is compared with what the known inverse gives on the same
files.  Every alignment is the command itself in a process of its own, five sweeps, with reading, certificate and
writing; seconds begin after the imports and a pair of tiny models, which loads what a GPU needs.  Host memory is that
of the process and of those that solve its assignments, less mapped files.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NEEDS: tuple[Path, ...] = ()
TINY = bool(os.environ.get("ONEBASIN_TINY"))
RESULTS = Path(__file__).parent / "results"
LLAMA = {"model_type": "llama", "vocab_size": 32000, "max_position_embeddings": 2048, "tie_word_embeddings": False}
NEOX = {"model_type": "gpt_neox", "vocab_size": 50304, "max_position_embeddings": 2048, "tie_word_embeddings": False}
SIZES: dict[str, dict[str, Any]] = {
    "0.13B": {**LLAMA, "hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 2048,
              "num_attention_heads": 12, "num_key_value_heads": 12},
    "1.4B": {**NEOX, "hidden_size": 2048, "num_hidden_layers": 24, "intermediate_size": 8192,
             "num_attention_heads": 16},
    "7B": {**LLAMA, "hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336,
           "num_attention_heads": 32, "num_key_value_heads": 8},
    "70B": {**LLAMA, "hidden_size": 8192, "num_hidden_layers": 80, "intermediate_size": 28672,
            "num_attention_heads": 64, "num_key_value_heads": 8},
}  # fmt: skip
PAGES = "70B"  # too large for a disk: its pages are timed
SMALL = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 160,
         "num_attention_heads": 4}  # fmt: skip
OPTIONS = ["--method", "weight", "--set", "weight.sweeps=5", "--set", "weight.tol=0"]

CHILD = """
import contextlib, io, json, multiprocessing, os, sys, threading, time
import torch, transformers, scipy.optimize
from onebasin.cli import main
peak, done = [0], threading.Event()
def taken(pid):
    with contextlib.suppress(OSError):  # one that has just ended
        return int(open(f"/proc/{pid}/status").read().split("RssAnon:")[1].split()[0]) * 1024
    return 0
def watch():
    while not done.wait(0.05):
        peak[0] = max(peak[0], sum(taken(x) for x in ("self", *(p.pid for p in multiprocessing.active_children()))))
threading.Thread(target=watch, daemon=True).start()
gpu = torch.cuda.is_available()
def run(*given):
    try:
        main(given)
    except SystemExit as end:
        return end.code
tiny, *given = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()):  # small models first: what is imported or loaded where it is used
    run(*given[:1], f"{tiny}/a", f"{tiny}/b", "-o", f"{tiny}/out-{os.getpid()}", *given[5:])
peak[0] = 0
if gpu:
    torch.cuda.reset_peak_memory_stats()
began, before = time.perf_counter(), sum(os.times()[:4])
code = run(*given)
seconds = time.perf_counter() - began
done.set()
print(json.dumps({"exit": code, "seconds": round(seconds, 1), "host GB": round(peak[0] / 1e9, 2),
                  "CPU seconds": round(sum(os.times()[:4]) - before, 1),
                  "GPU GB": round(torch.cuda.max_memory_reserved() / 1e9, 2) if gpu else None}))
"""


def measure() -> dict[str, Any]:
    """One size after the other; what this run leaves out is kept from the one before, and written at once."""
    from run import keep

    wanted = os.environ.get("ONEBASIN_SIZES", ",".join(SIZES)).split(",")
    pairs = os.environ.get("ONEBASIN_PAIRS", "random,planted").split(",")
    found: dict[str, Any] = {"device": device(), "sweeps": 5, **kept("large")}
    for name in wanted:
        for new in measure_pages(name) if name == PAGES else measure_size(name, pairs):
            found[name] = {**found.get(name, {}), **new}
            print(json.dumps({name: new}), file=sys.stderr, flush=True)
            keep("large", found)
    return found


def kept(name: str) -> dict[str, Any]:
    """The results that a benchmark has had on this kind of device, for runs in parts."""
    file = RESULTS / f"{name}.json"
    earlier = json.loads(file.read_text())["results"] if file.exists() and not TINY else {}
    return earlier if earlier.get("device") == device() else {}


def device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"


def measure_size(name: str, pairs: list[str]) -> Iterator[dict[str, Any]]:
    """The number of parameters, then the pairs."""
    config = small(SIZES[name]) if TINY else SIZES[name]
    with tempfile.TemporaryDirectory(prefix="onebasin-large-") as folder:
        a, b, out = (Path(folder, x) for x in ("a", "b", "out"))
        Path(folder, "tiny").mkdir()
        for seed, side in enumerate("ab"):
            write_random(Path(folder, "tiny", side), small(SIZES[name]), seed=seed)
        yield {"parameters": write_random(a, config, seed=0)}
        kind = "random"
        for pair in pairs:
            shutil.rmtree(out, ignore_errors=True)
            if pair == "planted":
                shutil.rmtree(b, ignore_errors=True)
                kind = pair
                yield {pair: planted(a, b, out)}
            else:
                if not b.exists():
                    write_random(b, config, seed=1)
                label, more = (pair, ()) if pair == "random" else (f"{kind}, {pair}", memory(pair))
                yield {label: align(a, b, out, *more)}


def memory(most: str) -> tuple[str, ...]:
    return "--memory", f"gpu={most},host={most}"


def measure_pages(name: str) -> Iterator[dict[str, Any]]:
    """What one layer more takes, and what all of them would."""
    layers, seconds = SIZES[name]["num_hidden_layers"], []
    for few in (1, 2):
        config = {**(small(SIZES[name]) if TINY else SIZES[name]), "num_hidden_layers": few}
        with tempfile.TemporaryDirectory(prefix="onebasin-large-") as folder:
            a, b, out = (Path(folder, x) for x in ("a", "b", "out"))
            Path(folder, "tiny").mkdir()
            for seed, (side, model) in enumerate((("a", a), ("b", b))):
                write_random(Path(folder, "tiny", side), small(SIZES[name]), seed=seed)
                parameters = write_random(model, config, seed=seed)
            found = align(a, b, out)
            seconds.append(found["seconds"])
            yield {f"{few} layers": {"parameters": parameters, **found}}
    one, two = seconds
    whole = (one + (layers - 1) * (two - one)) / 60
    yield {"a page, seconds": round(two - one, 1), f"{layers} layers, minutes foretold": round(whole, 1)}


def small(config: dict[str, Any]) -> dict[str, Any]:
    """The same with small sizes."""
    return {**config, **SMALL, **({"num_key_value_heads": 2} if "num_key_value_heads" in config else {})}


def write_random(folder: Path, config: dict[str, Any], seed: int) -> int:
    """A stock checkpoint with random weights, random gains and biases included; the number of parameters."""
    import torch
    from safetensors.torch import save_file
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    given = CONFIG_MAPPING[config["model_type"]](**{k: x for k, x in config.items() if k != "model_type"})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(given)
    place = "cuda" if torch.cuda.is_available() else "cpu"
    dice = torch.Generator(place).manual_seed(seed)

    def draw(name: str, shape: torch.Size) -> torch.Tensor:
        drawn = 0.02 * torch.randn(shape, generator=dice, device=place)
        gain = "norm" in name and name.endswith("weight")
        return (1 + 5 * drawn if gain else drawn).to(torch.bfloat16).cpu()

    shapes = {name: x.shape for name, x in model.named_parameters()}
    folder.mkdir()
    save_file(
        {name: draw(name, shape) for name, shape in shapes.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    given.architectures, given.dtype = [type(model).__name__], torch.bfloat16
    given.save_pretrained(folder)
    return sum(shape.numel() for shape in shapes.values())


def align(a: Path, b: Path, out: Path, *more: str) -> dict[str, Any]:
    """The command in a process of its own: seconds, memory, and what its certificate says."""
    given = [str(a.parent / "tiny"), "align", str(a), str(b), "-o", str(out), *OPTIONS, "--quiet", *more]
    command = [sys.executable, "-c", CHILD, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr[-2000:]}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if not (out / "certificate.json").exists():
        return {**found, "failed": (done.stdout + done.stderr)[-2000:]}
    report = json.loads((out / "certificate.json").read_text())
    kept = ("distance_before", "distance_after", "output_drift", "rounding_alone", "orthogonality_error")
    return {**found, **{key: report[key] for key in kept if key in report}}


def planted(a: Path, b: Path, out: Path) -> dict[str, Any]:
    """B is the canonical form of A under a random symmetry: what comes back, and what the known inverse gives."""
    import torch

    from onebasin import Alignment, Checkpoint, transport
    from onebasin.canonical.form import canonicalize

    place = "cuda" if torch.cuda.is_available() else "cpu"
    original = Checkpoint.open(a)
    form = canonicalize(original).checkpoint
    known = Alignment.random(form.spec, 3, condition=4.0)
    with original.store.resting(place):
        transport(form, known).save(b)
    found: dict[str, Any] = {"aligned": align(a, b, out)}
    began = time.perf_counter()
    back = Checkpoint.open(b)
    with original.store.resting(place), back.store.resting(place):
        inverse = transport(canonicalize(back).checkpoint, known.inverse())
        ours = transport(canonicalize(back).checkpoint, Alignment.load(out))
        expected = logits_of(form)
        found["known inverse"] = compare(form, inverse, expected)
        found["found"] = compare(form, ours, expected)
    found["seconds to compare"] = round(time.perf_counter() - began, 1)
    return found


def compare(form: Any, other: Any, expected: Any) -> dict[str, float]:
    """Relative distance of all weights, and relative root mean square of the logits, run in float64."""
    apart = sum(float((form[x] - other[x]).square().sum()) for x in form)
    size = sum(float(form[x].square().sum()) for x in form)
    error = float((logits_of(other) - expected).square().mean().sqrt() / expected.square().mean().sqrt())
    return {"distance": (apart / size) ** 0.5, "logits": error}


def logits_of(form: Any) -> Any:
    from onebasin.checkpoint.stock import outputs, probe_inputs
    from onebasin.checkpoint.streamed import streamed_model

    return outputs(streamed_model(form), form.spec, probe_inputs(form.spec), form.store.device)["logits"]

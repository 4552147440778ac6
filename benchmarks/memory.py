"""Memory of `onebasin align`: peak of the whole process, and the largest tensor that matching heads forms.

Two random models of one shape (16 heads, 2 layers) are aligned by weights in a process of their own, two sweeps; a
third would need no more.  The peak stands beside what `onebasin inspect` foretells and beside the two models in
float64.  The largest tensor is given in units of D·D numbers in float64: a D×D circuit for each head would be h = 16.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NEEDS = ()
HEADS, LAYERS, VOCABULARY, SWEEPS = 16, 2, 4096, 2
WIDTHS = (512, 1024)


def measure() -> dict[str, Any]:
    rows: dict[str, Any] = {"heads": HEADS, "layers": LAYERS, "vocabulary": VOCABULARY, "sweeps": SWEEPS}
    for kind in ("gpt2", "llama"):
        for width in WIDTHS:
            with tempfile.TemporaryDirectory() as scratch:
                for seed in (0, 1):
                    child("write", kind, width, seed, Path(scratch) / str(seed))
                rows[f"{kind}, D = {width}"] = row = align(Path(scratch), width)
            print(kind, width, json.dumps(row), file=sys.stderr, flush=True)
    return rows


def child(*arguments: object) -> str:
    """One step in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def align(folder: Path, width: int) -> dict[str, Any]:
    described = subprocess.run(
        [sys.executable, "-m", "onebasin", "inspect", folder / "0", "--json"], check=True, capture_output=True
    )
    report = json.loads(described.stdout)
    start = time.perf_counter()
    found = json.loads(child("align", folder, width).splitlines()[-1])
    models = 2 * 8 * report["parameters"]
    return {
        "parameters": report["parameters"],
        "two models in float64, MB": round(models / 1e6),
        "peak of align, MB": round(found["peak"] / 1e6),
        "foretold by inspect, MB": round(report["memory"]["align"] / 1e6),
        "peak over foretold": round(found["peak"] / report["memory"]["align"], 2),
        "largest tensor in head matching, D·D": round(found["heads"], 2),
        "seconds": round(time.perf_counter() - start, 1),
    }


# ---- in the child


def write(kind: str, width: int, seed: int, folder: Path) -> None:
    """A random model, written in float32."""
    import torch
    import transformers

    torch.manual_seed(seed)
    if kind == "gpt2":
        config: Any = transformers.GPT2Config(
            n_embd=width, n_layer=LAYERS, n_head=HEADS, vocab_size=VOCABULARY, n_positions=64, tie_word_embeddings=False
        )
        model: Any = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            hidden_size=width, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=4,
            intermediate_size=8 * width // 3, vocab_size=VOCABULARY, max_position_embeddings=64,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)


def watched_align(folder: Path, width: int) -> dict[str, float]:
    """Run the command, watching every tensor that matching heads makes."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    from onebasin.cli import main
    from onebasin.match import ascent

    largest = 0.0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for made in tree_leaves(out):
                if isinstance(made, torch.Tensor):
                    size = made.untyped_storage().nbytes() / (8 * width * width)
                    largest = max(largest, size)
            return out

    def watching(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with Watch():
                return function(*args, **kwargs)

        return call

    ascent.match_heads = watching(ascent.match_heads)
    try:
        main(["align", str(folder / "0"), str(folder / "1"), "-o", str(folder / "out"), "--device", "cpu", "--quiet",
              "--method", "weight", "--set", f"weight.sweeps={SWEEPS}"])  # fmt: skip
    except SystemExit as done:
        if done.code:
            raise
    return {"peak": peak(), "heads": largest}


def peak() -> int:
    """Bytes; the high-water mark of this program alone, which getrusage mixes with that of its parent before exec."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", kind, width, seed, folder]:
            write(kind, int(width), int(seed), Path(folder))
        case ["align", folder, width]:
            print(json.dumps(watched_align(Path(folder), int(width))))

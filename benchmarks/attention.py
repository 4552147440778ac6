"""Attention alone (P2) on planted pairs: what the second stage is worth, whether stage one finds the order of heads.

B is A with noise on its attention weights (Gaussian, `LEVELS` times the root mean square of each tensor) and then a
random symmetry of attention: heads reordered, maps of condition 10 inside them.  Everything else is A's.  Matching sees
attention only; barriers are those of the factor path at 25 points, as in P2.
"""

import csv
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"
NEEDS = (SHARED / "zoo", SHARED / "data")
MODELS = {  # name -> (positions, tokens a sample, samples of the stage table, samples of the table of orders)
    "bert-agnews-0": ("absolute", 64, 250, 60),
    "small-gpt2": ("absolute", 64, 200, 100),
    "gpt2-wikitext2-0": ("absolute", 128, 16, 0),
    "small-llama": ("rotary", 64, 200, 100),
    "llama-wikitext2-0": ("rotary", 128, 16, 0),
}
POINTS, CONDITION = 25, 10.0
LEVELS = (0.05, 0.2)  # of the stage table; the orders are those of the last one
METRIC_LEVELS, DRAWS = (2.0, 4.0, 8.0, 16.0), 8
STAGES = {"no second stage": "none", "orthogonal": "orthogonal", "full": "invertible"}


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        zoo, data = Path(scratch) / "zoo", Path(scratch)
        subprocess.run([sys.executable, SHARED / "zoo" / "unpack", zoo], check=True, stdout=subprocess.DEVNULL)
        write_data(data)
        for name in ("small-gpt2", "small-llama"):
            train_small(name, data, zoo / name)
        return {
            "grid": POINTS,
            "condition": CONDITION,
            "stages": {name: stages(zoo / name, data) for name in MODELS},
            "orders": {name: orders(zoo / name, data) for name, (*_, few) in MODELS.items() if few},
            "metrics": metrics(zoo),
        }


def write_data(folder: Path) -> None:
    sys.path.insert(0, str(SHARED / "data"))
    import load

    for split in ("train", "valid"):
        (folder / f"{split}.txt").write_text(load.wikitext2(split), encoding="utf-8")
    with (folder / "test.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows((text, label) for label, text in load.ag_news("test"))


def small(name: str) -> Any:
    """Two layers with four heads of 16, for windows of 64 bytes."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    if name == "small-gpt2":
        shape = {"n_embd": 64, "n_inner": 256, "n_layer": 2, "n_head": 4, "n_positions": 64}
        tokens = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None}
        return GPT2LMHeadModel(GPT2Config(**tokens, **shape, tie_word_embeddings=False))
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=256, max_position_embeddings=64, **shape))


def train_small(name: str, data: Path, folder: Path, steps: int = 600) -> None:
    import torch

    torch.manual_seed(0)
    text = torch.frombuffer(bytearray((data / "train.txt").read_bytes()), dtype=torch.uint8).long()
    model = small(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for _ in range(steps):
        start = torch.randint(len(text) - 64, (32, 1))
        batch = text[start + torch.arange(64)]
        optimizer.zero_grad()
        model(batch, labels=batch).loss.backward()
        optimizer.step()
        schedule.step()
    model.save_pretrained(folder)


def task_for(name: str, data: Path, checkpoint: Any, samples: int) -> Any:
    from onebasin.tasks import load_task

    where = f"labelled:{data}/test.csv" if name.startswith("bert") else f"text:{data}/valid.txt"
    return load_task(where, checkpoint, samples=samples, length=MODELS[name][1])


def attention_spaces(spec: Any) -> list[str]:
    from onebasin.match.options import group_of

    return [space for space in spec.spaces if group_of(spec, space) == "attention"]


def plant(form: Any, level: float, seed: int) -> tuple[Any, Any]:
    """(B, the symmetry that hides it): attention with noise, then scrambled."""
    import torch

    from onebasin import Alignment, transport

    inside = set(attention_spaces(form.spec))
    generator = torch.Generator().manual_seed(seed)
    noisy = {}
    for name, leaf in form.spec.leaves.items():
        if any(axis.space in inside for _, axis in leaf.spaces()):
            x = form[name]
            noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            noisy[name] = x + level * x.square().mean().sqrt() * noise
    disturbed = form.derive({name: (lambda x=x: x) for name, x in noisy.items()})
    hidden = Alignment.random(form.spec, seed, condition=CONDITION).only(*inside)
    return transport(disturbed, hidden).in_memory(), hidden


def opened(folder: Path) -> Any:
    from onebasin import Checkpoint, canonicalize

    return canonicalize(Checkpoint.open(folder)).checkpoint.in_memory()


def curve(a: Any, b: Any, task: Any) -> Any:
    from onebasin.landscape import measure as along
    from onebasin.paths import FactorPath

    return along(FactorPath(a, b), task, POINTS, batch_size=100)


def stages(folder: Path, data: Path) -> dict[str, Any]:
    """Barriers without matching, and after each kind of second stage."""
    from onebasin import transport
    from onebasin.match.options import WeightMatching
    from onebasin.match.pages import Pages
    from onebasin.match.weights import match_weights

    form = opened(folder)
    positions, _, samples, _ = MODELS[folder.name]
    task = task_for(folder.name, data, form, samples)
    result: dict[str, Any] = {"positions": positions, "task": dict(task.about), "levels": {}}
    for level in LEVELS:
        b, _ = plant(form, level, seed=1)
        naive = curve(form, b, task)
        row = {"loss of A": naive.vertices[0].loss, "loss of B": naive.vertices[1].loss, "naive": naive.barrier}
        for stage, inside in STAGES.items():
            matched = match_weights(Pages.of(form, b), WeightMatching(spaces=("attention",), inside=inside))
            row[stage] = curve(form, transport(b, matched.alignment).in_memory(), task).barrier
            row[f"{stage}, % of naive"] = round(100 * row[stage] / naive.barrier, 1)
        result["levels"][level] = row
        print(folder.name, level, row, file=sys.stderr, flush=True)
    return result


def orders(folder: Path, data: Path) -> dict[str, Any]:
    """The barrier of every order of the first layer's heads, each with its own full second stage."""
    from onebasin import transport
    from onebasin.match.options import WeightMatching
    from onebasin.match.pages import Pages
    from onebasin.match.pair import Pair
    from onebasin.match.weights import match_weights
    from onebasin.papers.orders import head_spaces, reordered

    form = opened(folder)
    task = task_for(folder.name, data, form, MODELS[folder.name][3])
    b, _ = plant(form, LEVELS[-1], seed=1)
    pair = Pair.of(form, b)
    found = match_weights(Pages.whole(pair), WeightMatching(spaces=("attention",))).alignment
    heads = head_spaces(form.spec)[0]
    index = found[heads].tensors()["index"].tolist()
    chosen = tuple(index)
    barriers = {
        tuple(index[i] for i in order): curve(
            form, transport(b, reordered(pair, found, heads, order)).in_memory(), task
        ).barrier
        for order in itertools.permutations(range(len(index)))
    }
    ranked = sorted(barriers, key=barriers.__getitem__)
    summary = {"ours": chosen, "best": ranked[0], "second": ranked[1], "median": ranked[12], "worst": ranked[-1]}
    result = {
        "level": LEVELS[-1], "task": dict(task.about), "orders": len(barriers),
        "rank of ours": 1 + sum(x < barriers[chosen] for x in barriers.values()),
        "as good as ours": sum(x == barriers[chosen] for x in barriers.values()),
        **{name: barriers[order] for name, order in summary.items()},
        "all": {" ".join(map(str, order)): barriers[order] for order in ranked},
    }  # fmt: skip
    print(folder.name, {k: x for k, x in result.items() if k != "all"}, file=sys.stderr, flush=True)
    return result


def metrics(zoo: Path) -> dict[str, Any]:
    """How often each metric picks the planted order of heads (and of queries in them), over layers and draws."""
    from onebasin.match.heads import match_heads
    from onebasin.match.pair import Pair
    from onebasin.papers.matching import METRICS
    from onebasin.papers.orders import head_spaces

    result: dict[str, Any] = {"draws": DRAWS}
    for name in MODELS:
        form = opened(zoo / name)
        heads = head_spaces(form.spec)
        right = {metric: dict.fromkeys(METRIC_LEVELS, 0.0) for metric in METRICS}
        for level, seed in itertools.product(METRIC_LEVELS, range(DRAWS)):
            b, hidden = plant(form, level, seed)
            pair, planted = Pair.of(form, b), hidden.inverse()
            for metric, distance in METRICS.items():
                found = [match_heads(pair, {}, x, distance) for x in heads]
                hits = [all(g.index.equal(planted[x].index) for x, g in layer.items()) for layer in found]
                right[metric][level] += sum(hits) / len(heads) / DRAWS
        result[name] = {"layers": len(heads), "heads": form.spec.spaces[heads[0]].size, "right": right}
        print(name, right, file=sys.stderr, flush=True)
    return result

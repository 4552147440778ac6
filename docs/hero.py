"""Draw docs/hero.svg, the first picture of the README, from benchmarks/results/matching.json."""

import hashlib
import json
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parent
PAIRS = {
    "vit-cifar10-l2": "ViT, CIFAR-10",
    "vit-cifar10-adamw": "ViT, CIFAR-10, AdamW",
    "gpt2-wikitext2": "GPT-2, WikiText-2",
    "llama-wikitext2": "Llama, WikiText-2",
    "bert-agnews": "BERT, AG News",
}
LINES = {"none": ("as stored", "#c2410c"), "weight": ("weight", "#94a3b8"), "auto": ("auto", "#4338ca")}


def curves() -> dict:
    """Pair -> method -> (share of B, loss), as measured."""
    found = json.loads((DOCS.parent / "benchmarks/results/matching.json").read_text(encoding="utf-8"))["results"]
    paths = {pair: {line: found[pair]["methods"][line]["factor"] for line in LINES} for pair in PAIRS}
    return {pair: {k: (path["shares"], path["loss"]) for k, path in own.items()} for pair, own in paths.items()}


def digest(measured: dict) -> str:
    """A mark of what is drawn; the picture carries it, and a test compares it."""
    return hashlib.sha256(json.dumps([PAIRS, LINES, measured]).encode()).hexdigest()[:16]


def draw(measured: dict, out: Path) -> None:
    """One panel for each pair; light, so that it is readable on a dark page, too."""
    style = {"svg.hashsalt": "onebasin", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
             "axes.spines.right": False}  # fmt: skip
    with rc_context(style):
        figure = Figure(figsize=(12, 2.7), layout="constrained", facecolor="white")
        for axes, (pair, lines) in zip(figure.subplots(1, len(PAIRS)), measured.items(), strict=True):
            for name, (shares, loss) in lines.items():
                label, colour = LINES[name]
                axes.plot(shares, loss, color=colour, label=label, linewidth=2)
            axes.set(title=PAIRS[pair], xticks=[0, 0.5, 1], xticklabels=["A", "average", "B"], ylim=(0, None))
        figure.axes[0].set_ylabel("test loss")
        figure.axes[0].legend(frameon=False)
        figure.savefig(out, metadata={"Date": None, "Description": digest(measured)})


if __name__ == "__main__":
    draw(curves(), DOCS / "hero.svg")

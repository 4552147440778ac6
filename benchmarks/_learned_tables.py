"""The results of learned matching as tables and as a picture."""

from pathlib import Path
from typing import Any


def draw(results: dict[str, Any], file: Path) -> None:
    """The barrier at the midpoint, on samples held back, against the tokens seen; one line per seed."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "onebasin"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4.6), layout="constrained")
    for colour, name in enumerate(name for name in ("gpt2", "llama") if name in results):
        for style, (row, found) in zip(("-", ":", "--", "-."), results[name].items(), strict=False):
            for i, one in enumerate(found["runs"]):
                seen = [tokens / 1e6 for tokens in one["history"]["seen"]]
                height = [loss - one["ends on held-back samples"] for loss in one["history"]["midpoint"]]
                label = f"{name}, {row}" if i == 0 else None
                axes.plot(seen, height, style, color=f"C{colour}", label=label, linewidth=1)
    axes.set(xlabel="million tokens seen", ylabel="midpoint less ends, nats per byte", ylim=(0, 0.8))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center")
    figure.savefig(file, metadata={"Date": None})


SAMPLES = {"vit": "10,000 test images", "gpt2": "1,000 validation windows of 256 bytes", "bert": "7,600 test texts"}
SAMPLES["llama"] = SAMPLES["gpt2"]


def table(results: dict[str, Any]) -> str:
    """The figures as Markdown: mean and standard deviation over seeds."""
    lines = [
        "# Learned matching",
        "",
        "Mean and standard deviation over seeds of the data order; factor path, 11 points, unless said. Made by",
        "`python benchmarks/run.py learned`; seeds, options, curves and courses are in `learned.json`.",
        "",
    ]
    header = ("", "start", "steps", "barrier", "midpoint loss", "midpoint accuracy", "less that of the ends", "seconds")
    for name, rows in results.items():
        lines += [f"## {name}", "", about(rows), "", f"|{' | '.join(header)} |", "|---" * len(header) + "|"]
        for row, found in rows.items():
            keys = ("barrier", "midpoint loss", "metric", "excess over the ends")
            cells = [row, found["start"], f"{found['options']['steps']:,}", *(_cell(found, key, 4) for key in keys)]
            lines.append(f"| {' | '.join(cells)} | {_cell(found, 'seconds', 0)} |")
            if "circuit barrier" in found:
                cells = [f"{row}, measured on the circuit path", "", "", _cell(found, "circuit barrier", 4)]
                lines.append(f"| {' | '.join(cells)} | | | | |")
        lines.append("")
    return "\n".join(lines)


def about(rows: dict[str, Any]) -> str:
    """Pair, samples, and the end points."""
    row = next(iter(rows.values()))
    pair, first = row["pair"], row["runs"][0]
    a, b = first["factor curve"][0], first["loss of B"]
    ends = f"loss of A {a:.4f}, of B {b:.4f}, mean accuracy {first['metric of the ends']:.4f}"
    return f"`{pair}`, {SAMPLES[pair.split('-')[0]]}; {ends}."


def _cell(found: dict[str, Any], key: str, digits: int) -> str:
    value = found[key]
    spread = f" ± {value['spread']:.{digits}f}" if len(found["runs"]) > 1 else ""
    return f"{value['mean']:.{digits}f}{spread}"

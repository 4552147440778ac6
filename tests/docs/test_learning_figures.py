"""What pages quote of learning, of many models and of unequal sizes is what was measured."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import pi
from typing import Any

import pytest

from helpers.pages import DOCS, prose, results, rows

MEASURED = DOCS / "learning-measured.md"


def in_words(row: str) -> str:
    """What a row of a benchmark is called on the pages: λ is the share."""
    return row.replace("λ", "share")


def shown(x: float) -> str:
    """Two digits, and no minus before zero."""
    return f"{round(x, 2) + 0.0:.2f}"


def test_many_models():
    ways = results("many")["ways"]
    expected = []
    for way, found in ways.items():
        middles = " / ".join(map(shown, found["surface"]["excess"][3:6]))
        cells = [shown(found["centre excess"]), f"{found['centre accuracy']:.1%}", middles, shown(found["barrier"])]
        expected.append([way, *cells, f"{found['flat']:.0%}"])
    lines = rows(DOCS / "many.md", "way | centre | its accuracy | middles of A–B / A–C / B–C | barrier | flat")
    assert lines == expected
    learned = min(found["flat"] for way, found in ways.items() if way.startswith("refined"))
    assert learned > max(found["flat"] for way, found in ways.items() if not way.startswith("refined"))


def test_unequal_sizes():
    found = results("sizes")
    expected = [
        [f"`{pair.replace(' and ', '` and `')}`", way, f"{shown(x['barrier'])} at {x['barrier at']:.1f}",
         shown(x["excess at 0.1"]), shown(x["excess at 0.9"]), f"{x['midpoint accuracy']:.1%}"]
        for pair, ways in found["pairs"].items() for way, x in ways.items()
    ]  # fmt: skip
    assert rows(DOCS / "sizes.md", "pair | method | barrier | at share 0.1 | at share 0.9 | midpoint") == expected
    assert max(found["drift of widening alone"].values()) < 1e-9
    for ways in found["pairs"].values():
        steps = [ways[way]["barrier"] for way in ("as they are", "activation", "learned")]
        assert all(after < before for before, after in pairwise(steps))


@pytest.mark.parametrize(("name", "page"), [("many", "many.md"), ("sizes", "sizes.md")])
def test_the_page_names_file_and_command(name, page):
    text = prose(DOCS / page)
    assert f"benchmarks/results/{name}.json" in text
    assert f"python benchmarks/run.py {name}" in text


def spread(found: dict[str, Any], key: str, digits: int = 3) -> str:
    return f"{found[key]['mean']:.{digits}f} ± {found[key]['spread']:.{digits}f}"


PAIRS = ("vit-l2", "vit-adamw", "gpt2", "llama", "bert")


def learned_pairs() -> list[list[str]]:
    expected = []
    for name, group in results("learned").items():
        for row, x in group.items() if name in PAIRS else ():
            first = x["runs"][0]
            losses = f"{first['factor curve'][0]:.3f}, {first['loss of B']:.3f}, {x['midpoint loss']['mean']:.3f}"
            accuracy = f"{x['metric']['mean']:.1%}, {100 * x['excess over the ends']['mean']:+.1f}"
            start, steps = x["start"], f"{x['options']['steps']:,}"
            expected.append([f"`{x['pair']}`", in_words(row), start, steps, spread(x, "barrier"), losses, accuracy])
    return expected


def learned_choices() -> list[list[str]]:
    return [
        [name, in_words(row), spread(x, "barrier"), f"{x['midpoint loss']['mean']:.3f}", f"{x['metric']['mean']:.1%}"]
        for name, group in results("learned").items() if name not in PAIRS
        for row, x in group.items()
    ]  # fmt: skip


def step_costs() -> list[list[str]]:
    return [
        [model, how, f"{x['learned step, ms']:.1f}", f"{x['plain step, ms']:.1f}", f"{x['ratio']:.2f}"]
        for model, ways in results("step_cost").items() if "wide" in model
        for how, x in ways.items()
    ]  # fmt: skip


def streams() -> list[list[str]]:
    def numbers(values: list[float]) -> str:
        return ", ".join(f"{x:.2f}" for x in values)

    rows = {pair: x for pair, x in results("streams").items() if isinstance(x, dict)}
    return [
        [f"`{pair}`", f"{x['height at 1/2, matched']:.2f} → {x['height at 1/2, learned']:.2f}",
         numbers(x["correlation by layer, matched"]), numbers(x["correlation by layer, learned"]),
         numbers(x["of the best rotation"])]
        for pair, x in rows.items()
    ]  # fmt: skip


def test_learning():
    found = results("learned")
    numbers = "barrier | loss of A, B, midpoint | midpoint accuracy, less that of the ends"
    assert rows(MEASURED, f"pair | learned on | start | steps | {numbers}") == learned_pairs()
    assert rows(MEASURED, "what | | barrier | midpoint loss | midpoint accuracy") == learned_choices()
    assert rows(MEASURED, "model and batch | | learned | plain training | ratio") == step_costs()
    correlation = "correlation, matched | learned | of the best rotation of each layer alone"
    assert rows(MEASURED, f"pair | height, matched → learned | {correlation}") == streams()
    text = prose(MEASURED)
    assert f"has a barrier of {spread(found['vit-l2']['circuit path'], 'circuit barrier')}." in text
    assert f"The Llama pair stays at {min(x['barrier']['mean'] for x in found['llama'].values()):.2f}." in text


def test_gains_in_a_learned_basis():
    text, learned = prose(MEASURED), results("learned")
    gpt2 = {row: x["barrier"]["mean"] for row, x in learned["gpt2"].items()}
    rowed = ("λ where the path is highest, gains", "λ where the path is highest")
    assert "the GPT-2 pair {1:.3f} without gains and {0:.3f} with".format(*(gpt2[row] for row in rowed)) in text
    decision = prose(DOCS / "decisions" / "0012-what-learning-lowers.md")
    middles = [learned["gpt2"][row]["midpoint loss"]["mean"] for row in rowed]
    assert "GPT-2 pair {:.3f} instead of {:.3f}, both by the law".format(*middles) in decision
    moved = [
        x["runs"][0]["what moved"] for name in ("gpt2", "llama") for row, x in learned[name].items() if "gains" in row
    ]
    spreads = [
        about["log_scale_spread"] for run in moved for name, about in run.items() if "norm" in name or "ln_" in name
    ]
    assert f"spread by {min(spreads):.1f} to {max(spreads):.1f} (" in text


def test_planes_turn_far():
    turned = [
        run["what moved"]["residual"]["eigen_angles"]
        for name in ("gpt2", "llama") for x in results("learned")[name].values() for run in x["runs"]
    ]  # fmt: skip
    medians = [angles["median"] for angles in turned]
    assert f"the median plane by {min(medians):.1f} to {max(medians):.1f} radians" in prose(MEASURED)
    assert all(2.7 < angles["largest"] <= pi for angles in turned)


def from_b_itself(run: dict[str, Any]) -> float:
    """The barrier of a run above the line to the loss of B, where the moved B is another model."""
    curve = run["factor curve"]
    shares = [i / (len(curve) - 1) for i in range(len(curve))]
    line = [(1 - share) * curve[0] + share * run["loss of B"] for share in shares]
    return max(x - y for x, y in zip(curve[1:-1], line[1:-1], strict=True))


def test_soft_permutations_are_another_model():
    text, found = prose(MEASURED), results("learned")["soft"]
    hard, *soft = found.values()

    def mean(row: dict[str, Any], value: Callable[[dict[str, Any]], float]) -> float:
        return sum(map(value, row["runs"])) / len(row["runs"])

    assert mean(hard, from_b_itself) == pytest.approx(hard["barrier"]["mean"], abs=1e-4)  # the control: B is B
    losses = [mean(row, lambda run: run["loss of moved B"]) for row in soft]
    own = mean(hard, lambda run: run["loss of B"])
    assert f"from {own:.3f} to {losses[0]:.3f} (with shares on [0, 1]: to {losses[1]:.3f})" in text
    drifts = [max(run["output drift of aligned B"]["float64"] for run in row["runs"]) for row in soft]
    assert "differ by up to {:.1f} ({:.1f})".format(*drifts) in text
    assert "they are {:.3f} and {:.3f}".format(*(mean(row, from_b_itself) for row in soft)) in text
    assert all(row["metric"]["mean"] < hard["metric"]["mean"] for row in soft)


def test_what_the_tables_do_not_say():
    """Two sides were compared where there is no barrier to lower."""
    sides = results("learned")["sides"]
    assert all(row["barrier"]["mean"] == 0 for row in sides.values())
    assert "this table does not say whether they help" in prose(MEASURED)
    only = results("learned")["permutations"]["permutations only"]["options"]
    assert (sorted(only["learn"]), only["permutations"]) == (["heads", "units"], "straight-through")
    assert "It is *not* the comparison of that name in the first paper." in prose(MEASURED)


def test_cost_and_accuracy():
    text = prose(MEASURED)
    ratios = [x["compiled, default"]["ratio"] for name, x in results("step_cost").items() if "wide" in name]
    assert f"costs {min(ratios):.1f} to {max(ratios):.1f} training steps" in text
    pair = results("learned")["vit-adamw"]["factor path"]
    ends = pair["metric"]["mean"] - pair["excess over the ends"]["mean"]
    assert f"({100 * pair['metric']['mean']:.1f} % against {100 * ends:.1f} %)" in text


@pytest.mark.parametrize("name", ["data_free", "learned", "step_cost", "streams"])
def test_learning_names_files_and_commands(name):
    text = prose(MEASURED)
    assert f"benchmarks/results/{name}.json" in text
    assert f"python benchmarks/run.py {name}" in text

"""What pages quote of learning, of many models and of unequal sizes is what was measured."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean
from typing import Any

import pytest
from pages import DOCS, README, prose, results, rows

LEARNING = DOCS / "learning.md"


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
    assert rows(DOCS / "sizes.md", "pair | method | barrier | at λ = 0.1 | at λ = 0.9 | midpoint") == expected
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
            expected.append([f"`{x['pair']}`", row, start, steps, spread(x, "barrier"), losses, accuracy])
    return expected


def learned_choices() -> list[list[str]]:
    return [
        [name, row, spread(x, "barrier"), f"{x['midpoint loss']['mean']:.3f}", f"{x['metric']['mean']:.1%}"]
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
    assert rows(LEARNING, f"pair | learned on | start | steps | {numbers}") == learned_pairs()
    assert rows(LEARNING, "what | | barrier | midpoint loss | midpoint accuracy") == learned_choices()
    assert rows(LEARNING, "model and batch | | learned | plain training | ratio") == step_costs()
    correlation = "correlation, matched | learned | of the best rotation of each layer alone"
    assert rows(LEARNING, f"pair | height, matched → learned | {correlation}") == streams()
    text = prose(LEARNING)
    assert f"has a barrier of {spread(found['vit-l2']['circuit path'], 'circuit barrier')}." in text
    shared = results("explored")["correlation of matched hidden units, llama-wikitext2"]["by layer"]
    assert "correlate by {:.2f}, {:.2f}, {:.2f} and {:.2f} in".format(*shared) in text
    assert f"The Llama pair stays at {min(x['barrier']['mean'] for x in found['llama'].values()):.2f}." in text


def test_what_was_explored_of_learning():
    explored, text = results("explored"), prose(LEARNING)
    joined = explored["llama-wikitext2 with blocks joined instead of averaged"]["rows"]
    highest = [f"{max(row['heights at 0.1, ..., 0.9']):.2f}" for row in joined]
    highest[2] += f" ({joined[2]['heights at 0.1, ..., 0.9'][4]:.2f} at ½)"
    assert rows(LEARNING, " | ".join(row["what"] for row in joined)) == [highest]
    often = results("learned")["gpt2"]["λ where the path is highest"]["barrier"]["mean"]
    seldom = mean(explored["highest, at 3e-2 and validated every 250 steps"]["rows"][0]["barriers"])
    assert f"every 250 steps left {seldom:.3f}, at 1e-2 with one every 100 steps {often:.3f}" in text
    lately = {
        (x["pair"], x["what"], x["rate"], x["steps"]): x["barrier"]
        for x in explored["charts, gains, bases and targets"]["rows"]
    }
    before = {x["pair"]: mean(x["barriers"]) for x in explored["gains at a tenth of the rate"]["rows"]}
    for pair, without in before.items():
        assert f"{lately[pair, 'recentred', 0.015, 5000]:.3f} instead of {without:.3f}" in text
    labels, agreement = (x["barrier"] for x in explored["agreement in place of labels"]["rows"][:2])
    long = [lately["llama-wikitext2", what, 0.015, 5000] for what in ("agreement, recentred", "recentred")]
    assert f"({agreement:.3f} instead of {labels:.3f}, though" in text
    assert "({:.3f} and {:.3f})".format(*long) in text
    none, one, two, *_, alone, based = (row["height"] for row in explored["a basis for gains"]["rows"])
    assert f"{none:.3f} without gains, {one:.3f} with, {two:.3f} in a basis of their own" in text
    assert f"{based:.3f} in a basis of their own instead of {alone:.3f}" in text
    layers = explored["llama-wikitext2 with units matched by the averaged layer"]
    before, after = (layers[f"relative error by layer, {when}"][1:3] for when in ("before", "after"))
    falls = [f"from {old:.2f} to {new:.2f}" for old, new in zip(before, after, strict=True)]
    assert f"{' and '.join(falls)} in the two middle layers" in text


def test_gains_in_a_learned_basis():
    text = prose(LEARNING)
    learned, rows = results("learned"), results("explored")["gains in a learned basis"]["rows"]
    llama = {
        (x.get("what differs", ""), x["rate"], x["rate of gains"], x["validated every"]): x["barrier"]
        for x in rows if x["pair"] == "llama-wikitext2"
    }  # fmt: skip
    alone, based = llama["one-sided", 0.015, 0.015, 100], llama["", 0.0075, 0.015, 100]
    assert f"left the Llama pair {alone:.3f} in A's basis and {based:.3f} in a learned one" in text
    assert f"has {based:.4f} with it and {llama['not recentred', 0.0075, 0.015, 100]:.4f} without" in text
    gpt2 = {row: x["barrier"]["mean"] for row, x in learned["gpt2"].items()}
    without, gained = gpt2["λ where the path is highest"], gpt2["λ where the path is highest, gains"]
    assert f"the GPT-2 pair {without:.3f} without gains and {gained:.3f} with" in text
    slow = next(x["barrier"] for x in rows if x["pair"] == "gpt2-wikitext2" and x["rate of gains"] == 0.015)
    assert f"{slow:.3f} at 7.5e-3 every 100 steps" in text
    decision = prose(DOCS / "decisions" / "0012-what-learning-lowers.md")
    rowed = ("λ where the path is highest, gains", "λ where the path is highest")
    middles = [learned["gpt2"][row]["midpoint loss"]["mean"] for row in rowed]
    assert "GPT-2 pair {:.3f} instead of {:.3f}, both by the law".format(*middles) in decision
    muon = [x["highest place"] for x in results("explored")["gains on images"]["rows"] if x["optimizer"] == "Muon"]
    assert "highest place {1:.3f} with gains and {0:.3f} without".format(*muon) in text
    often = [llama["", 0.015, 0.015, every] for every in (100, 50, 25)]
    assert "every 100 steps {:.3f}, every 50 steps {:.3f}, every 25 steps {:.3f}".format(*often) in text
    scaled = next(x for (what, *_), x in llama.items() if "scale of the streams" in what)
    assert f"a scale of the streams ({scaled:.3f})" in text
    two_sided = [x for (what, *_), x in llama.items() if what != "one-sided" and x != scaled]
    assert f"{len(two_sided)} variants of rates, validations and starts left" in text
    assert f"Llama pair {min(two_sided):.3f} to {max(two_sided):.3f}." in text
    moved = [
        x["runs"][0]["what moved"] for name in ("gpt2", "llama") for row, x in learned[name].items() if "gains" in row
    ]
    spreads = [
        about["log_scale_spread"] for run in moved for name, about in run.items() if "norm" in name or "ln_" in name
    ]
    assert f"spread by {min(spreads):.1f} to {max(spreads):.1f} (" in text


def test_learning_in_the_readme():
    text = prose(README)
    best = [min(x["barrier"]["mean"] for x in results("learned")[name].values()) for name in PAIRS]
    assert "leaves {:.3f}, {:.3f}, {:.3f}, {:.3f} and {:.3f} in".format(*best) in text
    assert f"keeps a barrier of {best[3]:.2f}" in text
    ratios = [x["compiled, default"]["ratio"] for name, x in results("step_cost").items() if "wide" in name]
    assert f"costs {min(ratios):.1f} to {max(ratios):.1f} training steps" in text
    pair = results("learned")["vit-adamw"]["factor path"]
    ends = pair["metric"]["mean"] - pair["excess over the ends"]["mean"]
    assert f"({100 * pair['metric']['mean']:.1f} % against {100 * ends:.1f} %)" in text


@pytest.mark.parametrize("name", ["learned", "step_cost", "streams"])
def test_learning_names_files_and_commands(name):
    text = prose(LEARNING)
    assert f"benchmarks/results/{name}.json" in text
    assert f"python benchmarks/run.py {name}" in text

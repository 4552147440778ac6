"""README and pages quote what benchmarks have measured."""

from __future__ import annotations

import re
from typing import Any

from helpers.pages import DOCS, README, prose, results, rows


def test_the_page_on_merging_quotes_what_other_tools_made_of_our_folders():
    measured = results("interop")
    text = prose(DOCS / "merge.md")
    merges = measured["linear merge"]
    for row in merges.values():
        theirs, ours = row["loss, mergekit's average of A and aligned B"], row["loss, onebasin merge"]
        assert abs(theirs - ours) < 1e-6  # float32 rounding
        assert row["loss, mergekit's average of A and B"] > ours + 0.1
        assert row["windows"] == 1000
    for key in ("loss, onebasin merge", "loss, mergekit's average of A and B"):
        assert " and ".join(f"{row[key]:.4f}" for row in merges.values()) in text
    for row in measured["transformers"].values():
        for folder in (row["aligned"], row["merged"]):
            assert (folder["class"], folder["missing"], folder["unexpected"]) == (row["B"]["class"], [], [])
            assert folder["loaded in"] == "float32"
        says = "accuracy" if "accuracy" in row["B"] else "continues"
        assert row["aligned"][says] == row["B"][says]  # the same function


def test_the_page_on_merging_quotes_what_merges_said_of_themselves():
    measured = results("merged")
    expected = []
    for pairs in measured.values():
        for pair, found in pairs.items():
            losses = [f"{row['loss']:.3f} ± {row['standard_error']:.3f}" for row in found["scores"]["rows"]]
            count = found["scores"]["rows"][0]["samples"]
            expected.append([f"`{pair}`", f"`{found['method']}`", f"{count:,}", *losses, found["verdict"]])
    assert set(measured["by weight"]) == set(results("matching")) - {"device"}
    header = "pair | method | samples | A | B | plain average | merged | ensemble | merged is"
    assert rows(DOCS / "merge.md", header) == expected
    worse = [row[:2] for row in expected if "not recommended" in row[-1]]
    assert [row[:2] for row in expected if row[:2] not in worse] == [
        ["`bert-agnews`", "`weight`"], ["`vit-cifar10-adamw`", "`auto`"],
    ]  # fmt: skip
    for found in (found for pairs in measured.values() for found in pairs.values()):
        assert min(found["scores"]["rows"], key=lambda row: row["loss"])["name"] == "ensemble"


def test_the_estimate_of_memory_is_near_what_was_measured():
    measured = results("memory")
    models = [row for row in measured.values() if isinstance(row, dict)]
    assert len(models) == 4
    for row in models:
        assert 0.75 < row["peak over foretold"] < 1.25
        assert row["largest tensor in head matching, D·D"] <= 2 < measured["heads"]


def test_the_page_on_certificates_quotes_what_was_measured():
    verified = results("core")["verify"]
    assert all(result["holds"] for result in verified.values())
    expected = []
    for pair in sorted({name.rpartition("-")[0] for name in verified}):
        both = [verified[f"{pair}-{i}"] for i in (0, 1)]
        worst = {
            (kind, dtype): f"{max(model[kind][dtype] for model in both):.1e}"
            for kind in ("drift", "rounding alone")
            for dtype in ("float64", "float32", "bfloat16")
        }
        rounded = [f"{worst['drift', d]} ({worst['rounding alone', d]})" for d in ("float32", "bfloat16")]
        expected.append([f"`{pair}`", worst["drift", "float64"], *rounded])
    assert rows(DOCS / "certificate.md", "pair | float64 | float32 | bfloat16, as stored") == expected


def barriers(row: dict[str, Any]) -> str:
    return f"{row['factor']['barrier']['loss']:.2f} ({row['circuit']['barrier']['loss']:.2f})"


def test_the_readme_quotes_the_barriers_that_were_measured():
    pairs = {name: found for name, found in results("matching").items() if isinstance(found, dict)}
    learned = {}
    for group in results("learned").values():
        for x in group.values():
            learned[x["pair"]] = min(x["barrier"]["mean"], learned.get(x["pair"], 9.0))
    expected = []
    for pair, found in pairs.items():
        losses = found["methods"]["none"]["factor"]["loss"]
        heights = (found["methods"][method]["factor"]["barrier"]["loss"] for method in ("none", "weight", "auto"))
        cells = [f"{losses[0]:.3f} / {losses[-1]:.3f}", *(f"{x:.2f}" for x in heights), f"{learned[pair]:.3f}"]
        expected.append([f"`{pair}`", *cells])
    assert rows(README, "pair | end points | as stored | `weight` | `auto` | learned with labels") == expected
    copies = [copy for found in pairs.values() for copy in found["scrambled"].values()]
    assert len(copies) == 10
    assert max(abs(copy["excess, after weight matching"]) for copy in copies) < 1e-7


def test_the_page_on_learning_quotes_what_was_measured_without_data():
    measured = results("data_free")
    expected = []
    for pair, found in measured.items():
        if not isinstance(found, dict):
            continue
        auto = [found["methods"][f"auto, seed {seed}"] for seed in measured["seeds"]]
        spread = [f"{x['mean']:.2f} ± {x['deviation']:.2f}" for x in found["auto, all seeds"].values()]
        weight, curves = found["methods"]["weight"], found["learned with labels from"]
        reached = curves["weight"]["midpoint loss"][-1]
        steps = next(step for step, loss in zip(*curves["auto"].values(), strict=True) if loss <= reached)
        seconds = sum(row["seconds"] for row in auto) / len(auto)
        cells = [f"{weight['factor']['barrier']['loss']:.2f}", *spread, f"{weight['seconds']:.0f}", f"{seconds:.0f}"]
        expected.append([f"`{pair}`", *cells, str(steps)])
    header = ("pair | `weight` | `auto` | `auto`, circuit path | seconds, `weight` | seconds, `auto` | "
              "steps to reach 300 steps from `weight`")  # fmt: skip
    assert rows(DOCS / "learning-measured.md", header) == expected


def test_the_page_on_attention_quotes_what_was_measured():
    measured = results("attention")
    page = DOCS / "attention.md"
    stages = ("no second stage", "orthogonal", "full")
    header = f"model | positions | noise | loss of A / B | naive | {' | '.join(stages)}"
    assert rows(page, header) == [
        [f"`{name}`", model["positions"], level, f"{row['loss of A']:.2f} / {row['loss of B']:.2f}",
         f"{row['naive']:.3f}", *(f"{row[f'{stage}, % of naive']:.0f} %" for stage in stages)]
        for name, model in measured["stages"].items() for level, row in model["levels"].items()
    ]  # fmt: skip
    columns = ("ours", "best", "second", "median", "worst")
    assert rows(page, "model | rank of ours | as good as ours | ours | best | second | median | worst") == [
        [f"`{name}`", f"{x['rank of ours']} of {x['orders']}", str(x["as good as ours"]),
         *(f"{x[column]:.3f}" for column in columns)]
        for name, x in measured["orders"].items()
    ]  # fmt: skip
    models = [model for name, model in measured["metrics"].items() if name != "draws"]
    layers, right = sum(model["layers"] for model in models), models[0]["right"]
    header = " | ".join(["metric", *(f"noise {float(level):g}" for level in right["cosine"])])
    assert rows(page, header) == [
        [f"`{metric}`", *(
            f"{100 * sum(x['layers'] * x['right'][metric][level] for x in models) / layers:.0f} %" for level in levels
        )]
        for metric, levels in right.items()
    ]  # fmt: skip


def test_the_page_on_the_papers_quotes_the_presets_that_were_measured():
    pairs = {name: found["methods"] for name, found in results("matching").items() if isinstance(found, dict)}
    ways = ("weight", "weight, p1-paper", "weight, p1-code", "weight, permutations only")
    expected = [[f"`{name}`", *(barriers(found[way]) for way in ways)] for name, found in pairs.items()]
    assert rows(DOCS / "papers.md", "pair | default | `p1-paper` | `p1-code` | `permutation`") == expected


def test_the_page_on_methods_quotes_what_was_measured():
    pairs = {name: found["methods"] for name, found in results("matching").items() if isinstance(found, dict)}
    methods = ("weight", "activation", "auto", "auto, unlabelled inputs")

    def height(row) -> float:
        return row["factor"]["barrier"]["loss"]

    expected = [
        [f"`{name}`", f"{height(found['none']):.2f}",
         *(f"{height(found[method]):.2f} ({found[method]['seconds']:.0f} s)" for method in methods)]
        for name, found in pairs.items()
    ]  # fmt: skip
    header = "pair | as stored | `weight` | `activation` | `auto` | `auto` with inputs"
    page = DOCS / "which-method.md"
    assert rows(page, header) == expected
    text = prose(page)
    assert "python benchmarks/run.py matching" in text
    with_inputs = {name: (height(found[methods[3]]), height(found[methods[2]])) for name, found in pairs.items()}
    images = [with_inputs[name] for name in ("vit-cifar10-l2", "vit-cifar10-adamw")]
    texts = [with_inputs[name] for name in ("gpt2-wikitext2", "llama-wikitext2")]
    assert all(real < made_up for real, made_up in images)
    assert all(made_up < real for real, made_up in texts)
    said = "real inputs: {:.2f} against {:.2f}, and {:.2f} against {:.2f}".format(*images[0], *images[1])
    assert said in text
    said = "GPT-2 {1:.2f} against {0:.2f}, Llama {3:.2f} against {2:.2f}".format(*texts[0], *texts[1])
    assert said in text
    gained = [round(height(found["weight"]) - height(found["activation"]), 2) for found in pairs.values()]
    assert (sum(x > 0 for x in gained), sum(x < 0 for x in gained)) == (3, 1)
    assert "better than `weight` on three of the five pairs measured, worse on one" in text
    best = [min(height(found[method]) for method in methods) for found in pairs.values()]
    said = re.search(r"lies between (\d\.\d\d) and (\d\.\d\d)", prose(DOCS / "limits.md"))
    assert said is not None
    assert said.groups() == (f"{min(best):.2f}", f"{max(best):.2f}")


def test_the_decision_on_circuits_quotes_what_was_measured():
    pairs = {name: found for name, found in results("circuits").items() if isinstance(found, dict)}
    ways = [way for way in next(iter(pairs.values())) if way != "samples"]
    page = DOCS / "decisions" / "0013-weight-matching-by-circuits.md"
    header = " | ".join(["stream fitted to, blocks weighed", *(f"`{name}`" for name in pairs)])
    expected = [[way, *(f"{found[way]['barrier']:.2f}" for found in pairs.values())] for way in ways]
    assert rows(page, header) == expected
    stored = {name: results("matching")[name]["methods"]["none"]["factor"]["barrier"]["loss"] for name in pairs}
    assert all(found["circuits, balanced"]["barrier"] <= stored[name] for name, found in pairs.items())
    below = [way for way in ways if pairs["vit-cifar10-adamw"][way]["barrier"] < stored["vit-cifar10-adamw"]]
    assert min(below, key=lambda way: pairs["vit-cifar10-l2"][way]["barrier"]) == "circuits, balanced"


def test_the_page_on_needing_it_quotes_what_inspect_said():
    measured = results("inspected")
    expected = []
    for pair, found in measured.items():
        names = ", ".join(f"`{name}`" for name in pair.split(", "))
        stored, matched = (" to ".join(f"{x:.{n}f}" for x in found[key]) for key, n in (("stored", 3), ("matched", 2)))
        cost = f"{found['seconds']:.0f} s, {found['gigabytes']:.1f} GB"
        expected.append(
            [names, found["what"], found["verdict"], *(x.replace("-", "−") for x in (stored, matched)), cost]
        )
    page = DOCS / "do-i-need-this.md"
    header = (
        "A, B | what they are | verdict | cosine of layers, as stored | after a quick match | time of the CPU, memory"
    )
    assert rows(page, header) == expected
    by_verdict = {verdict: [x for x in measured.values() if x["verdict"] == verdict] for verdict in VERDICTS}
    assert sum(map(len, by_verdict.values())) == len(measured)
    for verdict, (low, high) in VERDICTS.items():
        assert all(low < cosine < high for x in by_verdict[verdict] for cosine in x["stored"]), verdict
    first, last = max(by_verdict["common ancestor"][0]["stored"]), min(by_verdict["common ancestor"][0]["stored"])
    assert f"cosine {first:.2f} in the first layer, {last:.2f} in the last" in prose(page)


VERDICTS = {"independent": (-0.01, 0.01), "common ancestor": (0.1, 0.9), "one basin": (0.97, 1.0)}  # as the page says

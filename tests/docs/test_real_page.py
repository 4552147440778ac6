"""docs/real.md says what benchmarks/results/real.json holds."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.pages import DOCS, check_part, results

PAIRS = {"embedders": "bge-small-en-v1.5", "proteins": "sapiens-vh"}
KINDS = ("float64", "float32", "bfloat16")


def table(header: str, rows: list[list[Any]]) -> None:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    rule = "|---" * (header.count("|") + 1) + "|"
    check_part(DOCS / "real.md", f"| {header} |\n{rule}\n", "\n\n", "\n".join(lines))


def pair_of(first: str) -> dict[str, Any]:
    return next(found for name, found in results("real").items() if name.startswith(f"{first} /"))


@pytest.mark.page
def test_the_tables_of_models_that_are_verified_and_come_back():
    measured = results("real")
    verified, back = [], []
    for name in (name for name in measured if "verify" in measured[name]):
        found, moved = measured[name]["verify"], measured[name]["moved copy"]
        drift = [f"{found['drift'][kind]:.1e}" for kind in KINDS]
        verified.append([name, *drift, f"{found['scale']:.1f}", "yes" if found["holds"] else "no"])
        distances = [f"{moved['distance_before']:.3f}", f"{moved['distance_after']:.1e}"]
        losses = [f"{loss:.5f}" for loss in moved["losses of the model and of its copy"]]
        back.append([name, *distances, f"{moved['output_drift']['float64']:.1e}", *losses])
        assert found["holds"]
        assert moved["distance_after"] < 1e-5
        assert losses[0] == losses[1]
    assert [row[0] for row in verified] == ["SmolLM2-135M", "Gemma 3 270M"]
    table("model | float64 | float32 | bfloat16 | largest output | holds", verified)
    header = "model | distance before | distance after | output drift, float64 | loss of the model | loss of the copy"
    table(header, back)


@pytest.mark.page
def test_the_tables_of_independent_pairs():
    measured = results("real")
    pairs = {name: found for name, found in measured.items() if " / " in name}
    rows = [
        [name, f"{found['distance_before']:.3f}", f"{found['distance_after']:.3f}",
         f"{found['output_drift']['float64']:.1e}"]
        for name, found in pairs.items()
    ]  # fmt: skip
    table("pair | distance before | distance after | output drift, float64", rows)
    for kind, header in (
        ("embedders", "embedder | accuracy | paraphrases | strangers"),
        ("proteins", "protein model | heavy chain | light chain"),
    ):
        found = pair_of(PAIRS[kind])["measured"]
        table(header, [[name, *(f"{value:.3f}" for value in values.values())] for name, values in found.items()])
        first, second, aligned = list(found.values())[:3]
        assert aligned == pytest.approx(second, abs=0.01)  # what B computes stays
        assert first != second


def test_the_pair_of_unequal_positions_was_cut():
    found = pair_of("sapiens-vh")
    assert "the reference has lost positions" in found["gauge"]
    assert any("144 in A, 128 in B" in warning for warning in found["warnings"])

"""docs/sizes.md says what was measured of the three ways to fill a smaller model."""

from __future__ import annotations

from statistics import fmean

from helpers.pages import DOCS, results

FOUND = results("semi_permutations")["found"]


def barrier(one) -> str:
    return f"{one['barrier']:.3f} ± {one['standard error']:.3f}"


def test_the_table_is_what_was_measured():
    text = (DOCS / "sizes.md").read_text()
    for pair, ways in FOUND.items():
        distances = [one["distances"] for one in ways["shares"]["pairs"]]
        assert f"| {pair} | as they are | {barrier(ways['as they are'])} | |" in text
        for way in ("zero", "split", "shares"):
            distance = fmean(one[way] for one in distances)
            assert f"| {pair} | `{way}` | {barrier(ways[way])} | {distance:.1f} |" in text


def test_what_is_said_of_it_holds():
    for ways in FOUND.values():
        for one in ways["shares"]["pairs"]:
            assert one["distances"]["shares"] < min(one["distances"]["zero"], one["distances"]["split"])
    *_, gpt2 = FOUND.values()
    decision = (DOCS / "decisions" / "0017-what-of-the-papers-holds.md").read_text()
    for way in ("zero", "split", "shares"):
        assert barrier(gpt2[way]) in decision

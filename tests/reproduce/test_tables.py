"""What becomes of results: means, standard errors, and rates chosen by data held back."""

from __future__ import annotations

import pytest

from onebasin.reproduce.p2_orders import FOUND, ranked
from onebasin.reproduce.p3_dual import best_rates
from onebasin.reproduce.tables import spread


def test_mean_and_standard_error():
    found = spread([1.0, 2.0, 3.0])
    assert (found["mean"], found["standard_error"]) == (2.0, pytest.approx(1 / 3**0.5))
    assert spread([1.0])["standard_error"] is None


def line(label, validated, barrier):
    return {"group": "g", "label": label, "validated": {"mean": validated}, "barrier": barrier}


def test_a_rate_is_chosen_by_validation_and_not_by_the_test_data():
    table = [line("one @ 0.1", 0.3, 0.1), line("one @ 0.2", 0.2, 0.9), line("two @ 0.1", 0.5, 0.4)]
    found = best_rates([*table, {"group": "g", "label": "weight"}])
    assert [(x["label"], x["rate"]) for x in found] == [("one", "0.2"), ("two", "0.1"), ("weight", None)]
    assert found[0]["barrier"] == 0.9


def test_orders_of_heads_are_ranked_by_their_barrier():
    heights = {FOUND: 0.2, "1 0 2 3": 0.1, "0 2 1 3": 0.4, "3 2 1 0": 0.3}
    table = [
        {"group": "g", "label": label, "paths": {"factor": {"barrier": {"mean": mean}}}}
        for label, mean in heights.items()
    ]
    found = [(line["label"], line["paths"]["factor"]["barrier"]["mean"]) for line in ranked(table)]
    assert found == [
        (f"{FOUND}: 2 of 4", 0.2), ("best of the others", 0.1), ("middle of the others", 0.3),
        ("worst of the others", 0.4),
    ]  # fmt: skip
    table[2] = {"group": "g", "label": "0 2 1 3"}  # not measured yet
    assert [line["label"] for line in ranked(table)] == [FOUND]

"""The trained models of ../shared/zoo: the promise holds on each, and each pair can be aligned."""

from __future__ import annotations

import pytest

from onebasin import Checkpoint, describe_pair, verify

PAIRS = ("bert-agnews", "gpt2-wikitext2", "llama-wikitext2", "vit-cifar10-adamw", "vit-cifar10-l2")


def test_the_zoo_holds_these_ten(zoo):
    assert sorted(folder.name for folder in zoo.iterdir()) == [f"{pair}-{seed}" for pair in PAIRS for seed in (0, 1)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_symmetries_do_not_move_the_outputs(zoo, pair, seed):
    checkpoint = Checkpoint.open(zoo / f"{pair}-{seed}")
    checkpoint.check_values()
    result = verify(checkpoint)
    assert result.holds
    assert result.drift["float64"] < 1e-9 * max(1.0, result.scale)
    assert {
        space: drift for space, drift in result.per_space.items() if not drift < 1e-9 * max(1.0, result.scale)
    } == {}
    assert min(result.displacement.values()) > 0  # every space was moved


@pytest.mark.parametrize("pair", PAIRS)
def test_each_pair_can_be_aligned(zoo, pair):
    a, b = (Checkpoint.open(zoo / f"{pair}-{seed}") for seed in (0, 1))
    report = describe_pair(a, b)
    assert report["obstacles"] == []
    assert report["alignable"]

"""Experts are matched with their units, however many there are; a copy moved by a symmetry comes back."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from helpers.matching import match
from helpers.pairs import apart, average, open_random, scrambled
from onebasin import Checkpoint, canonicalize, transport
from onebasin.cli import main
from onebasin.maps import Permutation
from onebasin.match.experts import match_experts
from onebasin.match.options import Families, WeightMatching, group_of
from onebasin.match.pair import Pair
from onebasin.match.units import solve_fibres

SPARSE = {"mlp_only_layers": [], "decoder_sparse_step": 1, "num_hidden_layers": 1, "layer_types": ["full_attention"]}


@pytest.fixture
def forms(tmp_path):
    def build(**changes) -> list[Checkpoint]:
        folders = [(tmp_path / str(i), i) for i in (0, 1)]
        models = [open_random(folder, "qwen3_moe", 1, i, **{**SPARSE, **changes}) for folder, i in folders]
        return [canonicalize(model).checkpoint.in_memory() for model in models]

    return build


def distance(pair: Pair, maps: dict, experts: str) -> float:
    return sum(pair.distance(maps, leaf) for leaf in pair.spec.touching[experts])


def test_no_other_order_of_experts_is_nearer(forms):
    a, b = forms(num_experts=4)
    pair, experts, units = Pair.of(a, b), "layers.0.experts", "layers.0.expert_ffn"
    family = {units: Families().family(a.spec, units)}
    even = dict.fromkeys(a, 1.0)
    found = distance(pair, match_experts(pair, {}, experts, family, even), experts)
    others = []
    for order in permutations(range(4)):
        index = torch.tensor(order)
        placed = {experts: Permutation(index, torch.ones(4, dtype=torch.float64))}
        inside = solve_fibres(pair, placed, units, family[units], even).take(index.argsort())
        others.append(distance(pair, {**placed, units: inside}, experts))
    assert found == pytest.approx(min(others), rel=1e-12)
    assert max(others) > 1.01 * found


def test_many_experts_come_back_though_few_pairs_are_compared(forms):
    form, _ = forms(num_experts=24, num_experts_per_tok=3)
    copy = scrambled(form, 3)
    found = match(Pair.of(form, copy)).alignment
    assert apart(form, average(form, transport(copy, found))) < 1e-6 < 1e-2 < apart(form, average(form, copy))


def test_experts_stay_where_units_are_not_matched(forms):
    form, _ = forms()
    found = match(Pair.of(form, scrambled(form, 3)), WeightMatching(spaces=("residual", "attention"))).alignment
    assert found["layers.0.experts"].distance() == found["layers.0.expert_ffn"].distance() == 0
    assert group_of(form.spec, "layers.0.experts") == group_of(form.spec, "layers.0.expert_ffn") == "units"


def test_a_moved_mixture_is_aligned_from_the_command_line(tmp_path, forms):
    form, _ = forms()
    scrambled(form, 5).save(tmp_path / "b")
    arguments = ["align", str(tmp_path / "0"), str(tmp_path / "b"), "-o", str(tmp_path / "out"), "--method", "weight"]
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--quiet"])
    ours, moved, theirs = (Checkpoint.open(tmp_path / name) for name in ("0", "b", "out"))
    assert apart(ours, average(ours, theirs)) < 1e-4 < 1e-2 < apart(ours, average(ours, moved))

"""The options of weight matching: each finds what lies in its family and not what lies outside; presets; errors."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise, permutations
from typing import get_args

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.classes import HEADS, one_of_each_kind
from helpers.matching import align, match, paper, preset
from helpers.pairs import apart, average, open_random, scrambled
from onebasin import Alignment, Checkpoint, OnebasinError, canonicalize, transport
from onebasin import families as fam
from onebasin.families import Rep
from onebasin.maps import map_of
from onebasin.match.circuits import circuit_distance, circuits_of, inner_spaces
from onebasin.match.heads import head_costs, match_heads
from onebasin.match.moments import Moment, Moments, Overlap
from onebasin.match.options import Group, WeightMatching, group_of
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.sizes import Sizes
from onebasin.match.stream import circuit_cross
from onebasin.match.units import match_units
from onebasin.methods.weight import Weight
from onebasin.options import hints_of
from onebasin.papers.matching import METRICS, circuit_emphasis, p1_code_cross
from onebasin.papers.options import PaperMatching
from onebasin.papers.unit_rows import match_rows


@pytest.fixture
def form(tmp_path):
    def make(model_type: str, seed: int = 2, weights: int = 0, **changes) -> Checkpoint:
        opened = open_random(tmp_path / f"{model_type}-{seed}-{weights}", model_type, seed, weights, **changes)
        return canonicalize(opened).checkpoint.in_memory()

    return make


def planted(spec, options: WeightMatching, seed: int) -> Alignment:
    """A random element of every space, in the families that the options leave."""
    generator, maps = torch.Generator().manual_seed(seed), {}
    for name, space in spec.spaces.items():
        kind = map_of(options.family(spec, name))
        maps[name] = kind.sample(space.size, generator=generator, fibres=spec.fibres(name), condition=10.0)
    return Alignment(maps, {name: space.base for name, space in spec.spaces.items()})


def recovered(form: Checkpoint, hidden: Alignment, options: WeightMatching) -> float:
    """How far the average of a model with its hidden, then matched copy is from the model."""
    copy = transport(form, hidden).in_memory()
    matched = match(Pair.of(form, copy), options)
    return apart(form, average(form, transport(copy, matched.alignment)))


SMALLER = {
    "residual permutation": WeightMatching(residual="permutation"),
    "inside orthogonal": WeightMatching(inside="orthogonal"),
    "inside permutation": WeightMatching(inside="permutation"),
    "inside none": WeightMatching(inside="none"),
    "permutation": preset("permutation"),
}


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gpt_neox"])
@pytest.mark.parametrize("options", SMALLER.values(), ids=SMALLER)
def test_what_lies_in_the_family_comes_back_and_what_lies_outside_does_not(form, model_type, options):
    model = form(model_type)
    assert recovered(model, planted(model.spec, options, 3), options) < 1e-6
    assert recovered(model, planted(model.spec, WeightMatching(), 3), options) > 1e-2


def test_units_without_scaling_find_reordered_units_and_no_scales(form):
    model, options = form("llama"), WeightMatching(units="permutation")
    assert recovered(model, planted(model.spec, options, 4), options) < 1e-6
    scaled = planted(model.spec, WeightMatching(), 4)
    assert recovered(model, scaled, options) > 1e-2
    assert recovered(model, scaled, WeightMatching()) < 1e-6


@pytest.mark.parametrize(
    ("model_type", "options", "expected"),
    [
        ("gpt2", {}, {"residual": fam.ORTHOGONAL_ONES, "qk": fam.INVERTIBLE, "ffn": fam.SCALED_PERMUTATION}),
        ("gpt2", {"residual": "permutation", "inside": "orthogonal"},
         {"residual": fam.PERMUTATION, "qk": fam.ORTHOGONAL, "ov": fam.ORTHOGONAL, "heads": fam.PERMUTATION}),
        ("llama", {"inside": "orthogonal"}, {"qk": fam.PAIR_ROTATION, "ov": fam.ORTHOGONAL, "ffn": fam.MONOMIAL}),
        ("llama", {"inside": "permutation", "units": "permutation"},
         {"residual": fam.ORTHOGONAL, "qk": fam.TRIVIAL, "ov": fam.PERMUTATION, "ffn": fam.PERMUTATION}),
        ("llama", {"inside": "none"}, {"qk": fam.TRIVIAL, "ov": fam.TRIVIAL, "queries": fam.PERMUTATION}),
        ("qwen3", {"inside": "orthogonal", "units": "permutation"},
         {"qk": fam.PAIR_SIGNS, "qk_gain": fam.TRIVIAL}),
        ("bert", {"residual": "permutation"}, {"residual": fam.PERMUTATION}),
    ],
)  # fmt: skip
def test_the_family_that_is_solved_is_the_meet(form, model_type, options, expected):
    spec = form(model_type).spec
    found = {name.rpartition(".")[2]: WeightMatching(**options).family(spec, name) for name in spec.spaces}
    assert {name: found[name] for name in expected} == expected


@one_of_each_kind(HEADS, paper=["p1-paper", "p1-code"])
def test_the_presets_of_the_first_paper_put_a_scrambled_copy_back(form, model_type, name, paper):
    model = form(model_type, name=name)
    copy = scrambled(model, 5)
    matched = match(Pair.of(model, copy), preset(paper))
    assert len(matched.distances) == 16  # no early stop
    assert apart(model, average(model, transport(copy, matched.alignment))) < 1e-6


@pytest.mark.parametrize("cost", get_args(hints_of(PaperMatching)["unit_cost"]))
@pytest.mark.parametrize("model_type", ["llama", "bert", "vit"])
def test_every_unit_cost_puts_a_scrambled_copy_back(form, model_type, cost):
    options = paper(unit_cost=cost)
    extra = {"name": "BertForSequenceClassification"} if model_type == "bert" else {}  # tanh: free signs
    model = form(model_type, **extra, **({"hidden_act": "relu"} if model_type == "vit" else {}))
    assert recovered(model, planted(model.spec, options, 6), options) < 1e-6


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert"])
def test_with_circuits_the_distance_never_rises(form, model_type):
    pair = Pair.of(form(model_type), form(model_type, weights=1))
    distances = match(pair, Weight(tol=0, paper={"moments": "circuits"})).distances
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(distances[1:]))
    assert distances[-1] < distances[0]


@pytest.mark.parametrize("groups", [("attention",), ("residual",), ("units",), ("attention", "units")])
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert", "qwen3"])
def test_spaces_outside_the_groups_stay_as_they_are(form, model_type, groups):
    pair = Pair.of(form(model_type), form(model_type, weights=1))
    found = match(pair, WeightMatching(spaces=groups)).alignment
    moved = {group_of(pair.spec, space) for space, far in found.displacement().items() if far > 0}
    assert moved == set(groups)


def test_attention_alone_finds_heads_and_their_insides(form):
    for model_type in ("gpt2", "llama", "gpt_neox"):
        model, options = form(model_type, seed=1), WeightMatching(spaces=("attention",))
        inside = [name for name in model.spec.spaces if group_of(model.spec, name) == "attention"]
        assert recovered(model, Alignment.random(model.spec, 3, condition=10.0).only(*inside), options) < 1e-6


CHOICES = {
    (kind, name): get_args(hint)
    for kind, names in ((WeightMatching, ("residual", "inside", "units")), (PaperMatching, None))
    for name, hint in hints_of(kind).items()
    if get_args(hint) and (names is None or name in names)
}


@pytest.mark.parametrize(("kind", "option"), CHOICES)
def test_a_wrong_choice_is_named_with_the_right_ones(kind, option):
    with pytest.raises(OnebasinError, match=option) as refused:
        kind(**{option: "magic"})
    assert all(choice in str(refused.value) for choice in CHOICES[kind, option])
    assert "magic" in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [("spaces", ()), ("spaces", "attention"), ("spaces", ("attention", "head")), ("spaces", ("units", "units")),
     ("sweeps", 0), ("sweeps", 2.5), ("tol", -1.0), ("tol", float("nan")), ("sweeps", True)],
)  # fmt: skip
def test_a_wrong_value_is_named(option, value):
    with pytest.raises(OnebasinError, match=option):
        WeightMatching(**{option: value})
    with pytest.raises(OnebasinError, match="guard"):
        PaperMatching(guard="yes")


def test_every_option_is_documented_plain_and_known():
    for kind in (WeightMatching, PaperMatching):
        text = "".join(str(base.__doc__) for base in kind.__mro__)
        for field in fields(kind):
            assert f"    {field.name}: " in text
            assert isinstance(field.default, str | int | float | bool | tuple)
            assert all(f'"{choice}"' in text or choice in METRICS for choice in CHOICES.get((kind, field.name), ()))
    assert CHOICES[PaperMatching, "head_metric"] == tuple(METRICS)
    assert WeightMatching().spaces == get_args(Group)


def test_align_hands_the_options_on(tmp_path):
    a, b = (open_random(tmp_path / f"{w}", "gpt2", 2, w) for w in (0, 1))
    aligned = align(a, b, method=Weight(sweeps=1, spaces=("attention",)))
    assert aligned.course["sweeps"] == 1
    assert aligned.alignment.displacement()["residual"] == 0


# Circuits: metrics and moments against the products themselves.


def dense_circuits(pair: Pair, maps, inner: str, *, of_b: bool) -> torch.Tensor:
    """E of every query head as a matrix, (h, g, F, F'); with rotary positions one for every pair, (h, g, j, F, F')."""
    c = circuits_of(pair, maps, inner, of_b=of_b)
    groups = max(c.left.shape[1], c.right.shape[1])
    left, right = (x.expand(-1, groups, -1, -1) for x in (c.left, c.right))
    if c.rotary:
        return torch.einsum("hgjx,hgjy->hgjxy", left.conj(), right)
    return torch.einsum("hgkx,hgky->hgxy", left, right)


def moved_pair(form, model_type: str) -> tuple[Pair, dict]:
    pair = Pair.of(form(model_type), form(model_type, weights=1))
    return pair, dict(Alignment.random(pair.spec, 7).maps)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gpt_neox"])
def test_the_spectral_metric_is_the_largest_singular_value(form, model_type):
    pair, maps = moved_pair(form, model_type)
    heads = next(name for name in pair.spec.spaces if name.endswith("heads"))
    still = {name: g for name, g in maps.items() if group_of(pair.spec, name) != "attention"}
    total = 0
    for inner in inner_spaces(pair.spec, heads):
        a, b = (dense_circuits(pair, still, inner, of_b=of_b) for of_b in (False, True))
        largest = torch.linalg.svdvals(a[:, :, None, None] - b)[..., 0]
        total = total + (largest.amax(-1) if largest.ndim == 5 else largest)
    found = head_costs(pair, maps, heads, METRICS["spectral"])
    assert torch.allclose(found, total, rtol=1e-9)
    assert not torch.allclose(found, head_costs(pair, maps, heads, METRICS["frobenius"]), rtol=1e-2)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gpt_neox"])
def test_circuit_moments_are_those_of_the_products(form, model_type):
    """With B in the basis found so far, C is Σ E_A E_Bᵀ + E_Aᵀ E_B; a bias is a row or column that does not turn."""
    pair, maps = moved_pair(form, model_type)
    weight = {inner: 1.0 + i for i, inner in enumerate(inner_spaces(pair.spec))}
    width, total = pair.spec.spaces["residual"].size, 0
    for inner, w in weight.items():
        a, b = (dense_circuits(pair, maps, inner, of_b=of_b) for of_b in (False, True))
        products = ((a.conj() @ b.mT)[..., :width, :width] + (a.mH @ b)[..., :width, :width]).real
        total = total + w * products.flatten(0, -3).sum(0)
        assert circuit_distance(pair, maps, inner) == pytest.approx(float((a - b).abs().square().sum()))
    found = circuit_cross(pair, maps, "residual", weight)
    assert torch.allclose(found, total)


def test_the_moments_of_p1_code_are_those_of_its_blocks(form):
    """R of P1's code: [√(F/d) QK, I, I] and OV, each divided by the root of its columns; B in the basis so far."""
    pair, maps = moved_pair(form, "gpt2")
    width, total = pair.spec.spaces["residual"].size, 0
    for layer in {name.rpartition(".")[0] for name in inner_spaces(pair.spec)}:
        blocks = []
        for of_b in (False, True):
            qk, ov = (dense_circuits(pair, maps, f"{layer}.{x}", of_b=of_b)[:, 0] for x in ("qk", "ov"))
            heads, features = len(qk), qk.shape[-1]
            eye = torch.eye(width, features, dtype=torch.float64)
            root = (features / pair.spec.spaces[f"{layer}.qk"].size) ** 0.5
            queries = [root * e[:width] for e in qk]
            blocks.append((torch.cat([*queries, *[eye] * (2 * heads)], 1), torch.cat([e[:, :width].mT for e in ov], 1)))
        for ours, theirs in zip(*blocks, strict=True):
            total = total + ours @ theirs.mT / ours.shape[1]
    found = p1_code_cross(pair, maps, "residual", circuit_emphasis("columns")(Sizes.of(Pages.whole(pair))))
    assert torch.allclose(found, total)


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor made by any operation holds, and how many tensors are `wide` or larger."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.wide, self.largest, self.count = wide, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
                self.count += tensor.numel() >= self.wide
        return result


SLIM = {
    "gpt2": {"n_embd": 192, "n_head": 24, "n_layer": 1, "n_inner": 4},
    "llama": {"hidden_size": 192, "num_attention_heads": 24, "num_key_value_heads": 12, "head_dim": 8,
              "num_hidden_layers": 1, "intermediate_size": 4},
}  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("model_type", SLIM)
def test_head_matching_forms_no_product_of_a_head(form, model_type, metric):
    """D = 192 and 24 heads of 8: one D×D matrix has as many numbers as all heads' queries, one per head 24 times that.

    The spectral metric holds the 2d×2d Grams of one head of A with all of B at a time.
    """
    pair = Pair.of(form(model_type, **SLIM[model_type]), form(model_type, weights=1, **SLIM[model_type]))
    heads = next(name for name in pair.spec.spaces if name.endswith("heads"))
    width = pair.spec.spaces["residual"].size
    with Largest(width**2) as seen:
        match_heads(pair, {}, heads, METRICS[metric])
    assert 0 < seen.largest <= 1.1 * width**2
    with Largest(width**2) as control:
        dense_circuits(pair, {}, inner_spaces(pair.spec, heads)[0], of_b=True)
    assert control.largest >= 24 * width**2


def test_circuit_moments_form_one_matrix_for_all_heads(form):
    counts = []
    for heads in (4, 12):
        slim = {"n_embd": 96, "n_head": heads, "n_layer": 1, "n_inner": 4, "vocab_size": 5, "n_positions": 3}
        pair = Pair.of(form("gpt2", seed=heads, **slim), form("gpt2", seed=heads, weights=1, **slim))
        with Largest(96**2) as seen:
            circuit_cross(pair, {}, "residual", dict.fromkeys(inner_spaces(pair.spec), 1.0))
        counts.append(seen.count)
        assert seen.largest <= 1.1 * 96**2
    assert counts[0] == counts[1]


# Hidden units.


def rows_of(parts: dict[Rep, tuple], weight: float = 1.0) -> Moments:
    return Moments({rep: Moment.of(a, b, weight) for rep, (a, b) in parts.items()})


def overlaps_of(parts: dict[Rep, tuple]) -> dict[Rep, Overlap]:
    return {rep: Overlap.of(a, b) for rep, (a, b) in parts.items()}


def test_the_l1_cost_is_that_of_normalised_rows():
    """Against the definition, by brute force over all orders."""
    torch.manual_seed(0)
    for family, signs in ((fam.PERMUTATION, (1,)), (fam.SIGNED_PERMUTATION, (1, -1)), (fam.MONOMIAL, (1, -1))):
        parts = {rep: tuple(torch.randn(2, 5, 7, dtype=torch.float64)) for rep in Rep}
        found = match_rows(family, parts, rows_of(parts)).tensors()["index"].tolist()

        def unit(side: int, i: int, parts=parts, family=family) -> dict[Rep, torch.Tensor]:
            rows = {rep: both[side][i] for rep, both in parts.items()}
            whole = torch.cat(list(rows.values())).norm()
            return {rep: row / (row.norm() if family == fam.MONOMIAL else whole) for rep, row in rows.items()}

        def cost(i: int, j: int, unit=unit, signs=signs) -> float:
            a, b = unit(0, i), unit(1, j)
            return min(
                sum(float((a[rep] - (1 if rep is Rep.PERM else sign) * b[rep]).abs().sum()) for rep in Rep)
                for sign in signs
            )

        best = min(permutations(range(5)), key=lambda order, cost=cost: sum(cost(i, j) for i, j in enumerate(order)))
        assert tuple(found) == best


@pytest.mark.parametrize("cost", ["l1", "cosine"])
@pytest.mark.parametrize(
    "family", [fam.PERMUTATION, fam.SIGNED_PERMUTATION, fam.SCALED_PERMUTATION, fam.MONOMIAL], ids=str
)
def test_units_come_back_through_noise_and_dead_units_do_no_harm(cost, family):
    torch.manual_seed(1)
    hidden = map_of(family).sample(12, generator=torch.Generator().manual_seed(2), condition=10.0)
    clean = {rep: torch.randn(12, 30, dtype=torch.float64) for rep in Rep}
    for rows in clean.values():
        rows[3:5] = 0  # two dead units
    parts = {rep: (hidden.act(b, 0, rep) * (1 + 0.01 * torch.randn(12, 30)), b) for rep, b in clean.items()}
    found = match_rows(family, parts, rows_of(parts)) if cost == "l1" else match_units(family, overlaps_of(parts))
    assert found.scale.isfinite().all()
    alive = ~torch.isin(hidden.index, torch.tensor([3, 4]))
    assert torch.equal(found.index[alive], hidden.index[alive])
    assert torch.allclose(found.scale[alive], hidden.scale[alive], rtol=0.02)

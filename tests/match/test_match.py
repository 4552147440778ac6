"""Matching: planted symmetries come back, the objective never falls, and every solver beats its rivals."""

from __future__ import annotations

import json
import math
from itertools import pairwise, permutations

import pytest
import torch
from transformers import AutoModelForCausalLM

from helpers.classes import HEADS, one_of_each_kind, one_of_each_type
from helpers.matching import align, match, preset
from helpers.pairs import apart, average, open_random, scrambled
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin import families as fam
from onebasin.checkpoint.model import constant
from onebasin.checkpoint.stock import probe_inputs, stock_model
from onebasin.checkpoint.streamed import streamed_model
from onebasin.cli import main
from onebasin.errors import Incompatible, NotInFamily, OnebasinError
from onebasin.families import Rep
from onebasin.linalg import complex_scale, positive_scale, scales, signed_scale, two_sided, two_sided_distance
from onebasin.linalg.workers import Workers
from onebasin.maps import Permutation, map_of
from onebasin.match.activations import in_parts, match_activations, unit_readers
from onebasin.match.ascent import Ascent
from onebasin.match.heads import head_costs
from onebasin.match.moments import Moment, Moments
from onebasin.match.options import ActivationMatching, WeightMatching
from onebasin.match.pages import Pages
from onebasin.match.pair import Pair
from onebasin.match.solve import solve
from onebasin.match.strategy import Strategy
from onebasin.papers.matching import METRICS
from onebasin.papers.options import PRESETS


@pytest.fixture
def make(tmp_path):
    return lambda model_type, seed=1, weights=0, **changes: open_random(
        tmp_path / f"{model_type}-{weights}", model_type, seed, weights, **changes
    )


@one_of_each_type(HEADS, seed=[1, 2])
def test_a_scrambled_copy_comes_back_by_weights_alone(make, model_type, name, seed):
    if (model_type, name) not in HEADS:
        pytest.skip("no class of this type says logits")
    form = canonicalize(make(model_type, seed, name=name)).checkpoint.in_memory()
    copy = scrambled(form, seed)
    matched = match(Pair.of(form, copy))
    assert apart(form, average(form, transport(copy, matched.alignment))) < 1e-6
    assert apart(form, average(form, copy)) > 1e-2  # the control: plain averaging breaks it
    assert matched.distances[-1] < 1e-9 * matched.distances[0]


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert", "vit"])
def test_a_scrambled_copy_comes_back_by_activations(make, model_type):
    form = canonicalize(make(model_type)).checkpoint.in_memory()
    copy = scrambled(form, 4)
    assert apart(form, average(form, transport(copy, by_activations(form, copy, ActivationMatching())))) < 1e-3


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_little_room_changes_nothing_but_the_number_of_runs(make, model_type):
    """Units are looked at in parts, and a model that is streamed says what it says in memory."""
    forms = [canonicalize(make(model_type, weights=w)).checkpoint.in_memory() for w in (0, 1)]
    options, whole = ActivationMatching(), in_parts(forms[0].spec, unit_readers(forms[0].spec), math.inf)
    parts = in_parts(forms[0].spec, unit_readers(forms[0].spec), 0)
    assert [list(part) for part in parts] == [[space] for space in whole[0]]
    assert len(parts) > 1 == len(whole)
    at_once, in_turn = (by_activations(*forms, options, room=room) for room in (math.inf, 0))
    streamed = by_activations(*forms, options, model=streamed_model)
    for found in (in_turn, streamed):
        assert all(torch.equal(at_once[space].dense(), found[space].dense()) for space in at_once.maps)
    size = forms[0].spec.spaces[next(iter(parts[0]))].size
    pairs = in_parts(forms[0].spec, whole[0], 2 * 8 * size**2)
    assert max(map(len, pairs)) == 2
    assert {space: name for part in pairs for space, name in part.items()} == whole[0]


def by_activations(
    a, b, options, batches: int = 4, size: int = 32, room=math.inf, model=stock_model, **shape: int
) -> Alignment:
    inputs = [probe_inputs(a.spec, batch=size, seed=s, **shape) for s in range(batches)]
    inputs = [{k: x.float() if x.is_floating_point() else x for k, x in batch.items()} for batch in inputs]
    models = [model(c, torch.float32) for c in (a, b)]
    return match_activations(Pages.of(a, b), *models, lambda: inputs, options, room=room).alignment


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "vit"])
def test_permutations_by_activations_find_permutations_and_nothing_else(make, model_type):
    """The first paper's baseline: it puts back a copy whose stream, heads and units are reordered, not a turned one."""
    form = canonicalize(make(model_type)).checkpoint.in_memory()
    only = ActivationMatching(residual="permutation", inside="permutation", units="permutation")
    spaces = [name for name, space in form.spec.spaces.items() if space.base is None]
    drawn = Alignment.random(form.spec, 3)
    reordered = {
        name: Permutation.sample(drawn[name].source, generator=torch.Generator().manual_seed(1)) for name in spaces
    }
    copy = transport(form, Alignment(reordered, dict.fromkeys(spaces))).in_memory()
    found = by_activations(form, copy, only)
    assert apart(form, average(form, transport(copy, found))) < 1e-6
    turned = transport(form, drawn.only("residual")).in_memory()
    assert apart(form, average(form, transport(turned, by_activations(form, turned, only)))) > 1e-2
    assert found["residual"].family == fam.PERMUTATION


def test_too_few_samples_are_warned_of(make):
    """Five tokens do not determine a stream."""
    form = canonicalize(make("gpt2")).checkpoint.in_memory()
    with pytest.warns(UserWarning, match="cannot determine the basis"):
        by_activations(form, scrambled(form, 4), ActivationMatching(), batches=1, size=1, length=5)


@pytest.mark.parametrize("wrong", [{"units": "magic"}, {"residual": "diagonal"}, {"inside": "out"}])
def test_options_of_activation_matching_are_checked(wrong):
    with pytest.raises(OnebasinError, match=next(iter(wrong))):
        ActivationMatching(**wrong)


@one_of_each_kind()
def test_the_distance_never_rises_and_a_model_matches_itself(make, model_type, name):
    a, b = (canonicalize(make(model_type, weights=w, name=name)).checkpoint.in_memory() for w in (0, 1))
    distances = match(Pair.of(a, b)).distances
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(distances[1:]))
    assert distances[-1] < distances[0]
    itself = match(Pair.of(a, a)).alignment
    assert all(torch.allclose(transport(a, itself)[leaf], a[leaf], atol=1e-8) for leaf in a)


def test_rounding_decides_nothing_where_anchors_are_few(make):
    """Five positions, twelve pixels and three classes do not determine a stream of 36: the rest stays where it is."""
    few = {"image_size": 8, "patch_size": 4, "num_channels": 1}
    a, b = (canonicalize(make("vit", 1, weights=w, **few)).checkpoint.in_memory() for w in (0, 1))
    torch.manual_seed(0)
    rounded = b.derive({x: constant(b[x] * (1 + 1e-16 * torch.randn_like(b[x]))) for x in b})
    first, second = (match(Pair.of(a, x)).alignment["residual"].dense() for x in (b, rounded))
    assert len(first) > 5 + 16 + 3
    assert (first - second).abs().max() < 1e-8


@pytest.mark.parametrize("name", PRESETS)
def test_what_was_there_before_is_kept_unless_something_nearer_is_found(make, name, monkeypatch):
    form = canonicalize(make("gpt2")).checkpoint.in_memory()
    itself = match(Pair.of(form, form), preset(name, sweeps=2))
    assert itself.distances[-1] == 0
    assert itself.alignment["residual"].distance() == 0
    close = form.derive({x: constant(form[x] + 0.01 * torch.randn_like(form[x])) for x in form})
    worse = Alignment.random(form.spec, 4).only("residual").maps
    monkeypatch.setattr(Ascent, "start_streams", lambda ascent, fresh: ascent.maps.update(worse))
    kept = match(Pair.of(form, close), preset(name, sweeps=1, spaces=("residual",)))
    assert kept.distances[1] > kept.distances[0] == kept.distances[-1]
    assert kept.alignment["residual"].distance() == 0


def test_the_guard_refuses_what_raises_the_distance(make):
    forms = [canonicalize(make("gpt2", weights=w)).checkpoint.in_memory() for w in (0, 1)]
    ascent = Ascent(Pages.of(*forms), WeightMatching(), Strategy(), Workers())
    ascent.start_streams(fresh=True)
    ascent.sweep(start=True)
    before, units = ascent.total(), ascent.units[0]
    page = next(names for names in ascent.pages.names if units in ascent.spec.spaces_of(names))
    worse = dict(Alignment.random(forms[0].spec, 3).only(units).maps)
    ascent.attempt(page, worse, guard=True)
    assert ascent.total() == before
    same = dict(Alignment(ascent.maps, ascent.bases).only(units).maps)  # no nearer, and no further
    same = {name: type(g).from_tensors(g.tensors()) for name, g in same.items()}
    ascent.attempt(page, same, guard=True)
    assert all(ascent.maps[name] is g for name, g in same.items())
    ascent.attempt(page, worse, guard=False)  # the control: this map would have been worse
    assert ascent.total() > before


def test_a_step_of_the_stream_that_raises_the_distance_is_taken_back(make, monkeypatch):
    forms = [canonicalize(make("gpt2", weights=w)).checkpoint.in_memory() for w in (0, 1)]
    worse = Alignment.random(forms[0].spec, 3).only("residual").maps
    monkeypatch.setattr(Ascent, "step_streams", lambda ascent: ascent.maps.update(worse))
    monkeypatch.setattr(Ascent, "start_streams", lambda ascent, fresh: None)
    kept = match(Pair.of(*forms), WeightMatching(tol=0))
    assert kept.converged
    assert kept.distances[-1] == kept.distances[-2] == kept.distances[1]
    assert kept.alignment["residual"].distance() == 0
    moved = match(Pair.of(*forms), preset("p1-code", tol=0.0, sweeps=3))  # the control: without the guard it stays
    assert not moved.converged
    assert moved.alignment["residual"].distance() > 0


def moments_of(vectors: int, n: int, seed: int, fibres: int | None = None) -> tuple[Moments, dict[Rep, tuple]]:
    torch.manual_seed(seed)
    shape = (n, vectors) if fibres is None else (fibres, n, vectors)
    sides = {rep: (torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)) for rep in Rep}
    return Moments({rep: Moment.of(*pair) for rep, pair in sides.items()}), sides


@pytest.mark.parametrize("family", fam.GROUPS, ids=str)
def test_the_solution_beats_random_members(family):
    """Σ |a − g b|² over vectors and covectors, at the solution and at many members, and after small changes of it."""
    moments, sides = moments_of(20, 6, seed=0)
    only = {rep: sides[rep] for rep in (Rep.VEC, Rep.COV)}
    moments = Moments({rep: moments.of[rep] for rep in only})

    def distance(g):
        return sum(float((a - g.act(b, 0, rep)).square().sum()) for rep, (a, b) in only.items())

    best = solve(family, moments)
    if family == fam.INVERTIBLE:  # unrelated vectors: the slowest case, so let it finish
        v, c = moments.get(Rep.VEC), moments.get(Rep.COV)
        parts = (x[None] for x in (v.cross, v.gram_b, c.cross, c.gram_b))
        best = type(best)(two_sided(*parts, steps=3000, tol=1e-16)[0])
    generator = torch.Generator().manual_seed(1)
    kind = map_of(family)
    rivals = [kind.sample(6, generator=generator, condition=c) for c in (1.1, 2.0, 4.0) for _ in range(60)]
    rivals += [kind.project(best.dense() + 1e-3 * torch.randn(6, 6, dtype=torch.float64)) for _ in range(60)]
    assert distance(best) <= min(map(distance, rivals)) + 1e-9


PERMUTING = [f for f in fam.GROUPS if f <= fam.MONOMIAL]
UNFIBRED = (fam.MONOMIAL, fam.SCALED_PERMUTATION)  # hidden units are not inside heads


@pytest.mark.parametrize("fibres", [None, 3])
@pytest.mark.parametrize("family", fam.GROUPS, ids=str)
def test_a_planted_map_comes_back_in_every_family(family, fibres):
    """Also beside an axis that only permutes, a gate, where the family has one."""
    if fibres and family in UNFIBRED:
        pytest.skip("never fibred")
    planted = map_of(family).sample(6, generator=torch.Generator().manual_seed(3), fibres=fibres)
    _, sides = moments_of(20, 6, seed=1, fibres=fibres)
    reps = Rep if family in PERMUTING else (Rep.VEC, Rep.COV)
    dims = (0, None) if fibres is None else (1, 0)
    moved = {rep: (planted.act(sides[rep][1], dims[0], rep, dims[1]), sides[rep][1]) for rep in reps}
    found = solve(family, Moments({rep: Moment.of(*both) for rep, both in moved.items()}))
    assert torch.allclose(found.dense(), planted.dense(), atol=1e-8)


def test_planted_scales_come_back():
    wanted = torch.tensor([2.0, -0.5, 3.0, -1.0], dtype=torch.float64)
    _, sides = moments_of(30, 4, seed=0)
    b_v, b_c = sides[Rep.VEC][1], sides[Rep.COV][1]
    moments = Moments({
        Rep.VEC: Moment.of(wanted[:, None] * b_v, b_v), Rep.COV: Moment.of(b_c / wanted[:, None], b_c),
    })  # fmt: skip
    assert torch.allclose(solve(fam.SIGNED_SCALING, moments).dense(), wanted.diag())
    assert (solve(fam.POSITIVE_SCALING, moments).dense().diagonal() > 0).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", [f for f in PERMUTING if f >= fam.PERMUTATION], ids=str)
def test_gated_units_take_the_best_of_all_orders(family, seed):
    """Σ |a − g b|² over vectors, covectors and gates against all 24 orders, each at its best scales."""
    moments, sides = moments_of(3, 4, seed)

    def distance(g):
        return sum(float((a - g.act(b, 0, rep)).square().sum()) for rep, (a, b) in sides.items())

    alone = {fam.MONOMIAL: fam.SIGNED_SCALING, fam.SCALED_PERMUTATION: fam.POSITIVE_SCALING,
             fam.SIGNED_PERMUTATION: fam.SIGNS, fam.PERMUTATION_SIGN: fam.GLOBAL_SIGN}  # fmt: skip
    distances = []
    for order in permutations(range(4)):
        moved = {rep: (a, b[list(order)]) for rep, (a, b) in sides.items()}
        scaled = solve(alone.get(family, fam.TRIVIAL), Moments({rep: Moment.of(*x) for rep, x in moved.items()}))
        distances.append(distance(map_of(family)(torch.tensor(order), scaled.scale)))
    assert distance(solve(family, moments)) <= min(distances) + 1e-9


def test_a_family_that_cannot_be_solved_is_refused():
    moments, _ = moments_of(20, 6, seed=0)
    with pytest.raises(NotInFamily, match="doubly stochastic") as refused:
        solve(fam.DOUBLY_STOCHASTIC, moments)
    assert refused.value.next_step


def test_inside_a_head_planted_maps_and_dead_directions():
    torch.manual_seed(0)
    b_v, b_c = torch.randn(2, 5, 8, 40, dtype=torch.float64)
    planted = map_of(fam.INVERTIBLE).sample(8, generator=torch.Generator().manual_seed(2), fibres=5, condition=50.0)
    a_v, a_c = planted.act(b_v, 1, Rep.VEC, 0), planted.act(b_c, 1, Rep.COV, 0)
    moments = (a_v @ b_v.mT, b_v @ b_v.mT, a_c @ b_c.mT, b_c @ b_c.mT)
    assert torch.allclose(two_sided(*moments), planted.dense(), atol=1e-8)
    dead = [torch.zeros(5, 8, 8, dtype=torch.float64) for _ in range(4)]
    assert two_sided(*dead).isfinite().all()
    b_v = b_v[:, :, :2] @ torch.randn(5, 2, 40, dtype=torch.float64)  # rank two of eight, and no covectors
    found = two_sided(a_v @ b_v.mT, b_v @ b_v.mT, dead[0], dead[0])
    assert found.isfinite().all()
    assert float(torch.linalg.cond(found).max()) <= 1.01e4


def test_a_map_that_is_drawn_in_keeps_what_can_be_seen():
    """Half of the directions are only in B's covectors, which A lacks: the others are mapped as without a bound."""
    made = torch.Generator().manual_seed(0)
    planted = torch.linalg.qr(torch.randn(1, 6, 6, dtype=torch.float64, generator=made))[0]
    b_v, b_c = torch.randn(2, 1, 6, 20, dtype=torch.float64, generator=made)
    b_v[:, 3:] = 0
    a_v, a_c = planted @ b_v, planted @ torch.cat((b_c[:, :3], torch.zeros_like(b_c[:, 3:])), 1)
    moments = a_v @ b_v.mT, b_v @ b_v.mT, a_c @ b_c.mT, b_c @ b_c.mT
    free, bounded = two_sided(*moments), two_sided(*moments, condition=100.0)
    assert torch.linalg.cond(free) > 200
    assert torch.linalg.cond(bounded) < 100 * (1 + 1e-9)
    assert (bounded @ b_v - a_v).norm() < 0.05 * a_v.norm()


def test_inside_a_head_the_gradient_vanishes_at_the_solution():
    torch.manual_seed(1)
    a_v, b_v, a_c, b_c = torch.randn(4, 3, 6, 30, dtype=torch.float64)
    moments = (a_v @ b_v.mT, b_v @ b_v.mT, a_c @ b_c.mT, b_c @ b_c.mT)
    g = two_sided(*moments, steps=3000, tol=1e-16).requires_grad_()
    (gradient,) = torch.autograd.grad(two_sided_distance(g, *moments).sum(), g)
    assert float(gradient.abs().max()) < 1e-4 * float(moments[1].abs().max())


@pytest.mark.parametrize("kind", ["positive", "signed", "complex"])
def test_free_scales_agree_with_brute_force(kind):
    torch.manual_seed(0)
    dtype = torch.complex128 if kind == "complex" else torch.float64
    a_v, b_v, a_c, b_c = (torch.randn(500, 5, dtype=dtype) * torch.randn(500, 1).exp() for _ in range(4))
    c_v, c_c = (a_v * b_v.conj()).sum(1), (a_c * b_c.conj()).sum(1)
    g_v, g_c = b_v.abs().square().sum(1), b_c.abs().square().sum(1)
    r = torch.linspace(-6, 6, 4001, dtype=torch.float64)[:, None].exp()
    gain = r * c_v + c_c / r
    brute = (r.square() * g_v + g_c / r.square() - 2 * (gain if kind == "positive" else gain.abs())).amin(0)
    if kind == "complex":
        z = complex_scale(c_v, g_v, c_c, g_c)
        found = z.abs().square() * g_v + g_c / z.abs().square() - 2 * (z.conj() * c_v + c_c / z).real
    else:
        _, found = (positive_scale if kind == "positive" else signed_scale)(c_v, g_v, c_c, g_c)
    assert float(((found - brute) / (g_v + g_c)).max()) < 1e-9


def test_a_scale_that_is_found_is_not_looked_for_again(monkeypatch):
    """Newton's method ends soon after the last scale stands, and then looks at those alone that still move."""
    looked, real = [], scales._descend

    def descend(height, *moments, steps):
        return real(lambda t, *given: looked.append(len(t)) or height(t, *given), *moments, steps=steps)

    monkeypatch.setattr(scales, "_descend", descend)
    a, b = torch.rand(2, 100, dtype=torch.float64) + 0.5
    still = torch.full((100,), 1e-9, dtype=torch.float64)
    still[:9] = 1.0
    r, _ = positive_scale(a.sqrt() * b.sqrt() * still, a, a.sqrt() * b.sqrt() * still, b)
    assert len(looked) < scales.STEPS / 2
    assert looked[0] == looked[-1] == 100  # at last the heights of all
    assert min(looked) <= 9
    torch.testing.assert_close(r[9:], (b / a)[9:] ** 0.25)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gpt_neox"])
def test_circuit_distances_do_not_see_the_basis_inside_heads(make, model_type):
    a, b = (canonicalize(make(model_type, weights=w)).checkpoint.in_memory() for w in (0, 1))
    inside = [n for n in a.spec.spaces if ".qk" in n or ".ov" in n]
    turned = transport(b, Alignment.random(b.spec, 5).only(*inside)).in_memory()
    for metric in METRICS.values():
        plain, moved = (head_costs(Pair.of(a, x), {}, _heads(a), metric) for x in (b, turned))
        assert torch.allclose(plain, moved, atol=1e-8 * float(plain.abs().max()))
    own = head_costs(Pair.of(a, a), {}, _heads(a), METRICS["frobenius-squared"])
    assert float(own.diagonal(dim1=0, dim2=2).diagonal(dim1=0, dim2=1).abs().max()) < 1e-8 * float(own.max())


def _heads(form: Checkpoint) -> str:
    return next(n for n in form.spec.spaces if n.endswith("heads"))


def test_circuit_distances_are_those_of_the_products(make):
    a, b = (canonicalize(make("gpt2", weights=w)).checkpoint.in_memory() for w in (0, 1))
    layer = "transformer.h.0.attn"
    total = 0
    for left, right in (("query", "key"), ("value", None)):
        products = []
        for form in (a, b):
            x = torch.cat([form[f"{layer}.c_attn.weight:{left}"], form[f"{layer}.c_attn.bias:{left}"][..., None]], -1)
            if right:
                y = torch.cat(
                    [form[f"{layer}.c_attn.weight:{right}"], form[f"{layer}.c_attn.bias:{right}"][..., None]], -1
                )
            else:
                y = form[f"{layer}.c_proj.weight"].permute(1, 2, 0)
            products.append(torch.einsum("hkx,hky->hxy", x, y))
        total = total + (products[0][:, None] - products[1][None]).square().sum((-2, -1))
    found = head_costs(Pair.of(a, b), {}, "layers.0.heads", METRICS["frobenius-squared"])[:, 0, :, 0]
    assert torch.allclose(found, total)


def test_align_refuses_strangers_and_says_what_to_do(make):
    with pytest.raises(Incompatible, match="number of layers differs"):
        align(make("gpt2", 1), make("gpt2", 3, weights=1))


def test_cli_align_writes_a_model_that_averages_with_the_reference(make, tmp_path, capsys):
    a, b = make("gpt2"), make("gpt2", weights=1)
    names = [str(c.store.folder) for c in (a, b)]
    for verb, out in (("align", "aligned"), ("merge", "merged")):
        with pytest.raises(SystemExit) as done:
            main(
                [
                    verb,
                    *names,
                    "-o",
                    str(tmp_path / out),
                    "--dtype",
                    "float64",
                    "--quiet",
                    "--json",
                    "--method",
                    "weight",
                ]
            )
        assert not done.value.code
    report = json.loads((tmp_path / "aligned" / "certificate.json").read_text())
    assert report["output_drift"]["float64"] < 1e-9
    assert report["orthogonality_error"] < 1e-9
    aligned, merged = Checkpoint.open(tmp_path / "aligned"), Checkpoint.open(tmp_path / "merged")
    assert apart(b, aligned) < 1e-9
    assert apart(average(a, aligned), merged) < 1e-9
    Alignment.load(tmp_path / "aligned").check(canonicalize(b).checkpoint.spec)
    assert "base_model_relation: merge" in (tmp_path / "merged" / "README.md").read_text()
    _, loading = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]


def test_cli_align_writes_both_models_where_the_reference_is_tied(make, tmp_path):
    a, b = make("gpt2", tie_word_embeddings=True), make("gpt2", weights=1, tie_word_embeddings=True)
    with pytest.raises(SystemExit) as done:
        main(["align", str(a.store.folder), str(b.store.folder), "-o", str(tmp_path / "out"), "--dtype", "float64",
              "--method", "weight"])  # fmt: skip
    assert not done.value.code
    assert apart(a, Checkpoint.open(tmp_path / "out" / "a")) < 1e-9
    assert apart(b, Checkpoint.open(tmp_path / "out" / "b")) < 1e-9
    assert "canonical" in json.loads((tmp_path / "out" / "certificate.json").read_text())["gauge"]


def test_cli_bad_options_write_nothing(make, tmp_path, capsys):
    names = [str(make("gpt2", weights=w).store.folder) for w in (0, 1)]
    out = tmp_path / "out"
    for options in (["--method", "magic"], ["--method", "activation"], ["--dtype", "int3"]):
        with pytest.raises(SystemExit) as done:
            main(["align", *names, "-o", str(out), *options])
        assert done.value.code == 2
        assert "next step" in capsys.readouterr().err
        assert not out.exists()

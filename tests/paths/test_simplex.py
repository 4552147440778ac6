"""The simplex between models, the surface over it and its picture, against brute force and with controls."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
import torch

from helpers.pairs import scrambled
from helpers.random_models import byte_llama, random_folder
from onebasin import Checkpoint, canonicalize
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import Incompatible, OnebasinError
from onebasin.landscape import evaluate, measure
from onebasin.paths import FactorPath
from onebasin.paths.points import grid
from onebasin.report.pictures import place, ternary
from onebasin.tasks import load_task


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Checkpoint]:
    """One function in four bases, more and more sure of itself."""
    form = canonicalize(Checkpoint.open(byte_llama(tmp_path_factory.mktemp("model")))).checkpoint
    found = []
    for i in range(4):
        model = scrambled(form, i)
        head = (1 + 0.5 * i) * model["lm_head.weight"]
        found.append(model.derive({"lm_head.weight": lambda head=head: head}))
    return found


@pytest.fixture(scope="module")
def task(models):
    """What the models say themselves is the truth, so that they are good and their averages are not."""
    task = load_task("builtin:python", models[0], samples=6, length=8)
    labels = stock_model(models[0])(**task.inputs).logits.argmax(-1)
    return replace(task, labels=labels)


@pytest.fixture(scope="module")
def surface(models, task):
    return measure(FactorPath(*models[:3]), task, 4)


def gap(x: Checkpoint, y: Checkpoint) -> float:
    return max(float((x[name] - y[name]).abs().max()) for name in x)


# ---- points


def test_points_are_averages_by_their_shares(models):
    simplex = FactorPath(*models)
    assert gap(simplex.at([0, 0, 1, 0]), models[2]) == 0
    shares = [0.1, 0.2, 0.3, 0.4]
    point = simplex.at(shares)
    for name in point:
        expected = sum(w * model[name] for w, model in zip(shares, models, strict=True))
        assert point[name].equal(expected)
    assert gap(FactorPath(*models[:2]).at([0.3, 0.7]), FactorPath(*models[:2]).at(0.7)) < 1e-15


def test_the_model_of_a_point_is_that_of_its_checkpoint(models):
    simplex = FactorPath(*models[:3])
    for shares in ([0.5, 0.25, 0.25], [0, 0, 1]):
        found = dict(simplex.model(shares, torch.float64).named_parameters())
        expected = dict(stock_model(simplex.at(shares)).named_parameters())
        for parameter in expected:
            torch.testing.assert_close(found[parameter], expected[parameter], rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("stored", [True, False])
def test_every_entry_may_go_at_a_pace_of_its_own(models, tmp_path, stored):
    """λ_m exp(s_m) over their sum, s_m from rows and columns; where no model has paces it is the plain average."""
    if stored:  # tensors that are in files as they are may be averaged there
        models = [Checkpoint.open(byte_llama(tmp_path / str(i), i)) for i in range(3)]
    generator = torch.Generator().manual_seed(0)
    shares, own = [0.2, 0.3, 0.5], {"lm_head.weight": (0, 1, 2), "model.embed_tokens.weight": (1,)}
    paces: list[dict[str, tuple[torch.Tensor, ...]]] = [{}, {}, {}]
    for key, which in own.items():
        for m in which:
            paces[m][key] = tuple(torch.randn(n, generator=generator).double() for n in models[0].spec.keys[key])
    path, plain = FactorPath(*models[:3], paces=paces), FactorPath(*models[:3]).at(shares)
    point = path.at(shares)
    for name in point:
        key = models[0].spec.leaves[name].key
        if key not in own:
            assert point[name].equal(plain[name])
            continue
        odds = [share * (p[key][0][:, None] + p[key][1]).exp() if key in p else torch.full_like(plain[name], share)
                for share, p in zip(shares, paces, strict=True)]  # fmt: skip
        expected = sum(w * model[name] for w, model in zip(odds, models, strict=False)) / sum(odds)
        torch.testing.assert_close(point[name], expected, rtol=1e-12, atol=1e-14)
        assert (point[name] - plain[name]).abs().max() > 1e-3
    found, expected = (dict(x.named_parameters()) for x in (path.model(shares, torch.float64), stock_model(point)))
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, rtol=1e-12, atol=1e-14)
    for m in range(3):
        assert gap(path.at([float(i == m) for i in range(3)]), models[m]) < 1e-15


def test_models_are_untied_together(tmp_path):
    ties = [byte_llama(tmp_path / str(i), i, tie_word_embeddings=not i) for i in range(3)]
    point = FactorPath(*[Checkpoint.open(folder) for folder in ties]).at([0.2, 0.3, 0.5])
    assert not point.spec.tied


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.5, 0.6, -0.1], [0.5, 0.5, 0.5], [0.2, 0.2, 0.2]])
def test_what_is_no_point_is_refused(models, shares):
    with pytest.raises(OnebasinError, match="one share for each"):
        FactorPath(*models[:3]).at(shares)


def test_models_of_other_shapes_are_refused(models, tmp_path):
    other = Checkpoint.open(random_folder(tmp_path, "llama", "LlamaForCausalLM", 3))
    with pytest.raises(Incompatible):
        FactorPath(*models[:2], other)


@pytest.mark.parametrize(("count", "side", "points"), [(3, None, 28), (3, 4, 10 + 3), (4, None, 11), (5, None, 16)])
def test_the_grid_holds_vertices_middles_and_the_centre(count, side, points):
    found = grid(count, side)
    assert len(found) == len(set(found)) == points
    assert all(sum(point) == pytest.approx(1) for point in found)
    assert all(min(point) >= 0 for point in found)
    assert [point.index(1) for point in found[:count]] == list(range(count))
    middles = {tuple(0.5 * (i in pair) for i in range(count)) for pair in combinations(range(count), 2)}
    assert middles | {(1 / count,) * count} <= set(found)


@pytest.mark.parametrize(("count", "side"), [(3, 1), (4, 5)])
def test_there_is_no_such_grid(count, side):
    with pytest.raises(OnebasinError, match="no such grid"):
        grid(count, side)


# ---- surfaces


def test_the_barrier_is_the_largest_rise_above_the_average_of_the_losses(models, task, surface):
    ends = [evaluate(stock_model(model, torch.float32), task).loss for model in models[:3]]
    rises = {}
    for point in surface.points:
        mixed = {name: sum(w * m[name] for w, m in zip(point, models[:3], strict=True)) for name in models[0]}
        model = models[0].derive({name: lambda x=x: x for name, x in mixed.items()})
        chord = sum(w * loss for w, loss in zip(point, ends, strict=True))
        rises[point] = evaluate(stock_model(model, torch.float32), task).loss - chord
    assert surface.barrier == pytest.approx(max(rises.values()), abs=1e-6)
    assert surface.barrier > 0.01
    found = surface.as_dict()
    assert rises[tuple(found["barrier"]["shares"])] == pytest.approx(surface.barrier, abs=1e-6)
    assert found["centre"]["excess"] == pytest.approx(rises[1 / 3, 1 / 3, 1 / 3], abs=1e-6)
    assert [entry["between"] for entry in found["midpoints"]] == [[0, 1], [0, 2], [1, 2]]
    assert found["midpoints"][1]["excess"] == pytest.approx(rises[0.5, 0, 0.5], abs=1e-6)
    assert [corner["loss"] for corner in found["vertices"]] == pytest.approx(ends, abs=1e-6)
    assert [corner["excess"] for corner in found["vertices"]] == [0, 0, 0]


def test_a_side_of_the_triangle_is_a_path(models, task, surface):
    side = measure(FactorPath(*models[:2]), task, 4)
    for share, point in zip(side.shares, side.evaluations, strict=True):
        (i,) = (i for i, w in enumerate(surface.points) if w == pytest.approx((1 - share, share, 0)))
        assert surface.evaluations[i].loss == pytest.approx(point.loss, abs=1e-6)
    assert surface.barrier >= side.barrier - 1e-6


def test_one_model_three_times_has_no_barrier(models, task):
    flat = measure(FactorPath(*[models[0]] * 3), task, 3)
    assert 0 <= flat.barrier < 1e-6
    assert flat.barrier_error < 1e-6


def test_the_error_is_that_of_the_differences(surface):
    top, shares = surface.evaluations[surface.highest], surface.points[surface.highest]
    chords = [sum(w * float(end.losses[i]) for w, end in zip(shares, surface.vertices, strict=True)) for i in range(6)]
    differences = torch.tensor([float(x) - chord for x, chord in zip(top.losses, chords, strict=True)])
    assert surface.barrier_error == pytest.approx(float(differences.std()) / 6**0.5, rel=1e-4)


def test_of_four_models_vertices_middles_and_centre_are_measured(models, task):
    found = measure(FactorPath(*models), task).as_dict()
    assert len(found["points"]) == 11
    assert len(found["midpoints"]) == 6
    assert found["centre"]["loss"] == found["points"][-1]["loss"]


# ---- the picture


def test_the_picture_is_an_svg_with_names_and_losses(surface):
    report = {"models": ["one", "two", "three"], **surface.as_dict()}
    drawn = ternary(report)
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    words = [*report["models"], *(f"{corner['loss']:.3f}" for corner in report["vertices"]), "barrier"]
    assert [word for word in words if word not in drawn] == []
    assert ternary(report) == drawn
    higher = {**report, "points": [{**point, "loss": 2 * point["loss"]} for point in report["points"]]}
    assert ternary(higher) != drawn


def test_a_flat_surface_can_be_drawn(surface):
    report = surface.as_dict()
    flat = {**report, "points": [{**point, "loss": 1.0} for point in report["points"]]}
    assert ElementTree.fromstring(ternary(flat)).tag.endswith("svg")


def test_a_triangle_has_three_corners(models, task):
    with pytest.raises(OnebasinError, match=r"three corners(.|\n)*expected: 3(.|\n)*found: +4"):
        ternary(measure(FactorPath(*models), task.first(1)).as_dict())
    assert place([1, 0, 0]) == (0, 0)
    assert place([1 / 3, 1 / 3, 1 / 3]) == pytest.approx((0.5, 3**0.5 / 6))

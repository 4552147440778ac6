"""What learning finds on tiny models, and what it hands back."""

from __future__ import annotations

import pytest
import torch

from helpers.classes import in_turn
from helpers.learning import (
    EVERYTHING,
    F64,
    NAMES,
    TINY,
    inputs_of,
    objective,
    run,
    share,
    taught_by,
    variation,
)
from helpers.random_models import needs_circuits
from onebasin import Checkpoint, transport
from onebasin.checkpoint.stock import outputs, stock_model
from onebasin.ensemble.ensemble import Ensemble
from onebasin.landscape import measure
from onebasin.learn.learning import learn
from onebasin.learn.options import LearnedMatching
from onebasin.match.many import as_they_are
from onebasin.paths import path_between
from onebasin.tasks import training
from onebasin.verification.certificate import certificate


def planted(root, name, size=0.2, **options):
    """(A, a copy of A moved a little by every space that learns)."""
    made, a, _ = objective(root, name, **options)
    with torch.no_grad():
        for p in made.learned():
            p.mul_(size / 0.3)
    return a, transport(a, made.sides[-1].alignment(a.spec))


@NAMES
def test_a_planted_symmetry_is_found_back(root, name, tmp_path):
    """The copy computes what A does; only in A's own basis does their average do so, too."""
    a, b = planted(root, name, 0.2 if "LM" in name else 0.8)
    b.save(tmp_path / "b", dtype="F64")
    b = Checkpoint.open(tmp_path / "b")
    options = LearnedMatching(steps=80, batch=32, lr=2e-2, eval_every=40, dtype="float64")
    samples, held = (512, 256) if "LM" in name else (5000, 1000)
    start = as_they_are(Ensemble.of([a, b]))
    learned = learn(start, taught_by(a, samples), held, options, variation({"law": "half"}))
    inputs = inputs_of(a, 64, seed=9)

    def error(found):
        ends = [outputs(stock_model(x), a.spec, inputs)["logits"] for x in (a, found.merged())]
        return float((ends[0] - ends[1]).square().mean())

    before, after = error(start), error(learned)
    assert before > 1e-3
    assert after < 0.4 * before
    assert learned.course["learning"]["best_step"] > 0


def test_by_the_law_of_the_highest_place_the_state_with_the_lowest_one_is_kept(root):
    """Heights are those of the path that a user measures, and the batches after a validation are drawn by them."""
    name = "GPT2LMHeadModel"
    learned = run(root, name, None, law="highest", eval_every=10)
    course = learned.course["learning"]
    highest = {point["step"]: max(point["heights"]) for point in course["history"]}
    assert course["best_step"] == min(highest, key=highest.get)
    assert highest[course["best_step"]] < highest[0]
    middles = [point["midpoint"] - sum(course["ends"]) / 2 for point in course["history"]]
    assert [point["heights"][4] for point in course["history"]] == pytest.approx(middles, abs=1e-12)
    _, held = training(taught_by(learned.ensemble.models[0])).split(32)
    curve = measure(path_between("factor", *learned.models), held, 11, dtype=torch.float64)
    losses = torch.tensor([e.loss for e in curve.evaluations], dtype=torch.float64)
    heights = losses - torch.lerp(losses[0], losses[-1], torch.tensor(curve.shares, dtype=torch.float64))
    best = next(point for point in course["history"] if point["step"] == course["best_step"])
    assert best["heights"] == pytest.approx(heights[1:-1].tolist(), abs=1e-6)
    others = run(root, name, None).course["learning"]["history"]
    assert len(others[0]["heights"]) == 0  # by other laws only the midpoint is measured


HEADS = {"path": "circuit", "learn": ("residual", "heads"), "paper": {"permutations": "straight-through"}}


@in_turn(
    name=list(TINY),
    options={"everything": EVERYTHING, "two": {"two_sided": True}, "circuit": HEADS, "one": {}},
)
def test_the_aligned_model_is_b_exactly(root, name, options):
    if options.get("path") == "circuit":
        needs_circuits(name)
    if "paper" in options:
        options = {**options, "paper": {**options["paper"], "assign_every": 2}}
    learned = run(root, name, None, **{"steps": 6, "eval_every": 3, "lr": 0.05, **options})
    course = learned.course["learning"]
    assert course["function_kept"]
    assert certificate(learned)["output_drift"]["float64"] < 1e-9
    learned.alignment.check(learned.ensemble.spec)
    assert course["best_step"] == min(course["history"], key=lambda point: point["midpoint"])["step"]


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_two_sides_reduce_to_one_alignment_with_the_same_path(root, name):
    made, a, b = objective(root, name, two_sided=True)
    one_sided = made.sides[0].alignment(a.spec).inverse().compose(made.sides[1].alignment(a.spec))
    inputs = inputs_of(a, 3)
    path = path_between("factor", a, transport(b, one_sided))
    for of_b in (0.3, 0.5):
        expected = path.model(of_b, F64)(**inputs).logits
        torch.testing.assert_close(made.at(share(of_b))(inputs), expected, rtol=1e-9, atol=1e-9)

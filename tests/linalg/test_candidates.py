"""Large assignments over candidates: as good as the dense solver's, certified, and in other processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from onebasin.linalg import assign, assignment, candidates, workers
from onebasin.linalg.assignment import assign_by_candidates
from onebasin.linalg.candidates import ENOUGH, Candidates, solve_sparse


def scores_of(n: int, seed: int = 0, rank: int = 32) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(n, rank, dtype=torch.float64) @ torch.randn(rank, n, dtype=torch.float64)


def dense(scores: torch.Tensor) -> torch.Tensor:
    return assignment._dense(scores)


def gain(scores: torch.Tensor, index: torch.Tensor) -> float:
    return float(scores[torch.arange(len(scores)), index].sum())


@pytest.fixture
def small(monkeypatch):
    """Problems of a few hundred count as large, with few candidates."""
    monkeypatch.setattr(assignment, "LARGE", 50)
    monkeypatch.setattr(candidates, "FEW", 12)


@pytest.mark.parametrize("seed", range(4))
def test_the_assignment_is_the_best_one(small, seed):
    scores = scores_of(150, seed)
    found = assign(scores)
    assert sorted(found.tolist()) == list(range(150))
    assert gain(scores, found) == pytest.approx(gain(scores, dense(scores)), rel=ENOUGH)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("few", [2, 6, 20, 60])
def test_the_gap_is_never_smaller_than_the_truth(monkeypatch, seed, few):
    monkeypatch.setattr(candidates, "FEW", few)
    scores = scores_of(120, seed)
    known, best = Candidates.of(scores), gain(scores, dense(scores))
    for index in (torch.from_numpy(solve_sparse(known.matrix())).long(), torch.arange(120)):
        size = float(scores[torch.arange(120), index].abs().sum())
        assert known.gap(index) >= (best - gain(scores, index)) / size - 1e-12
    assert known.gap(torch.arange(120)) > 0.01  # the control: the diagonal is far from the best


def test_with_enough_candidates_the_gap_closes():
    scores = scores_of(120)
    known = Candidates.of(scores)
    assert known.gap(torch.from_numpy(solve_sparse(known.matrix())).long()) <= ENOUGH


def test_too_few_candidates_are_noticed_and_all_entries_looked_at(monkeypatch):
    """Scores whose best assignment needs entries that are among the worst of their row and column."""
    monkeypatch.setattr(candidates, "FEW", 1)
    torch.manual_seed(1)
    scores = torch.rand(60, 60, dtype=torch.float64)
    scores[:, :30] += 10  # every row wants the same half of the columns
    first = torch.from_numpy(solve_sparse(Candidates.of(scores).matrix())).long()
    assert gain(scores, first) < gain(scores, dense(scores)) - 1e-3
    assert gain(scores, assign_by_candidates(scores)) == pytest.approx(gain(scores, dense(scores)))


def test_the_largest_are_not_solved_densely_but_say_how_far_they_may_be(monkeypatch):
    monkeypatch.setattr(candidates, "FEW", 1)
    monkeypatch.setattr(assignment, "DENSE", 10)
    scores = torch.rand(60, 60, dtype=torch.float64)
    scores[:, :30] += 10
    with pytest.warns(UserWarning, match="may be .* short of the best"):
        assign_by_candidates(scores, (1,))


def test_other_processes_solve_the_same_and_ask_again(monkeypatch):
    monkeypatch.setattr(workers, "HUGE", 100)
    scores = scores_of(150)
    with workers.workers() as pool:
        index = pool.begin(scores)(pytest.fail)
        monkeypatch.setattr(candidates, "FEW", 1)
        asked = []
        torch.manual_seed(1)
        hard = torch.rand(150, 150, dtype=torch.float64)
        hard[:, :75] += 10
        again = pool.begin(hard)(lambda: asked.append(True) or hard)
    assert gain(scores, index) == pytest.approx(gain(scores, dense(scores)))
    assert asked == [True]
    assert gain(hard, again) == pytest.approx(gain(hard, dense(hard)))


SCRIPT = """
import torch
from onebasin.linalg import workers
workers.HUGE = 100
print("once")
torch.manual_seed(0)
with workers.workers() as pool:
    print(len(pool.begin(torch.randn(150, 150, dtype=torch.float64))(None)))
"""


def test_a_script_without_a_guard_does_not_run_again_in_every_process(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["once", "150"], done.stderr

"""Large assignments over candidates: as good as the dense solver's, certified, and in other processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from onebasin.linalg import assign, assignment, candidates, workers
from onebasin.linalg.assignment import ENOUGH, assign_by_candidates
from onebasin.linalg.candidates import Candidates, relative_gap, solve_sparse


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
    found = torch.from_numpy(solve_sparse(known.matrix())).long()
    for index, prices in ((found, known.prices(found)), (torch.arange(120), torch.rand(120, dtype=torch.float64))):
        size = float(scores[torch.arange(120), index].abs().sum())
        assert relative_gap(scores, index, prices) >= (best - gain(scores, index)) / size - 1e-12
    assert relative_gap(scores, torch.arange(120), known.prices(found)) > 0.01  # the diagonal is far from the best


def test_prices_cover_the_candidates_tightly():
    scores = scores_of(120)
    known = Candidates.of(scores)
    found = torch.from_numpy(solve_sparse(known.matrix())).long()
    prices = known.prices(found)
    assert (prices >= 0).all()
    assert prices.max() > 0
    chosen = scores[torch.arange(120), found] - prices[found]
    assert (known.scores - prices[known.columns] <= chosen[known.rows] + 1e-9).all()
    assert abs(relative_gap(scores, found, prices)) <= ENOUGH


def test_candidates_are_the_best_of_rows_and_columns_and_the_diagonal(monkeypatch):
    monkeypatch.setattr(candidates, "FEW", 3)
    scores = scores_of(40)
    known, here = Candidates.of(scores), torch.arange(40)
    inside = torch.zeros(40, 40, dtype=torch.bool)
    inside[known.rows, known.columns] = True
    wanted = scores >= torch.minimum(scores.topk(3, 1).values[:, -1:], scores.topk(3, 0).values[-1])
    wanted[here, here] = True
    assert torch.equal(inside, wanted)
    assert torch.equal(known.scores, scores[known.rows, known.columns])
    prices = torch.rand(40, dtype=torch.float64) * 50
    more = Candidates.of(scores, prices, known.places)
    expected = {*known.places.tolist(), *Candidates.of(scores - prices).places.tolist()}
    assert set(more.places.tolist()) == expected > set(known.places.tolist())
    assert torch.equal(more.scores, scores[more.rows, more.columns])  # the entries, not what prices leave of them


def test_too_few_candidates_are_noticed_and_others_join_in(monkeypatch):
    """Scores whose best assignment needs entries that are among the worst of their row and column."""
    monkeypatch.setattr(candidates, "FEW", 1)
    monkeypatch.setattr(assignment, "DENSE", 10)  # no way out
    torch.manual_seed(1)
    scores = torch.rand(60, 60, dtype=torch.float64)
    scores[:, :30] += 10  # every row wants the same half of the columns
    first = torch.from_numpy(solve_sparse(Candidates.of(scores).matrix())).long()
    assert gain(scores, first) < gain(scores, dense(scores)) - 1e-3
    assert gain(scores, assign_by_candidates(scores)) == pytest.approx(gain(scores, dense(scores)), rel=ENOUGH)


def test_where_no_round_is_left_all_entries_are_looked_at_or_the_gap_is_said(monkeypatch):
    monkeypatch.setattr(candidates, "FEW", 1)
    monkeypatch.setattr(assignment, "ROUNDS", 1)
    torch.manual_seed(1)
    scores = torch.rand(60, 60, dtype=torch.float64)
    scores[:, :30] += 10
    assert gain(scores, assign_by_candidates(scores)) == pytest.approx(gain(scores, dense(scores)))
    monkeypatch.setattr(assignment, "DENSE", 10)
    with pytest.warns(UserWarning, match=r"60 units may be \d.* short of the best"):
        found = assign_by_candidates(scores)
    assert sorted(found.tolist()) == list(range(60))


def test_other_processes_solve_the_same_and_ask_again(monkeypatch):
    monkeypatch.setattr(workers.Workers, "takes", lambda self, size, device: size >= 100)
    scores = scores_of(150)
    with workers.workers() as pool:
        index = pool.begin(scores)(lambda: scores)
        monkeypatch.setattr(candidates, "FEW", 1)
        asked = []
        torch.manual_seed(1)
        hard = torch.rand(150, 150, dtype=torch.float64)
        hard[:, :75] += 10
        again = pool.begin(hard)(lambda: asked.append(True) or hard)
    assert gain(scores, index) == pytest.approx(gain(scores, dense(scores)))
    assert asked == [True]
    assert gain(hard, again) == pytest.approx(gain(hard, dense(hard)))


def test_a_cpu_that_is_at_work_solves_by_itself():
    with workers.workers() as pool:
        assert pool.takes(workers.HUGE, "cuda")
        assert not pool.takes(workers.HUGE - 1, "cuda")
        assert not pool.takes(workers.HUGE, "cpu")


SCRIPT = """
import torch
from onebasin.linalg import workers
workers.Workers.takes = lambda self, size, device: True
print("once")
torch.manual_seed(0)
with workers.workers() as pool:
    scores = torch.randn(150, 150, dtype=torch.float64)
    print(len(pool.begin(scores)(lambda: scores)))
"""


def test_a_script_without_a_guard_does_not_run_again_in_every_process(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["once", "150"], done.stderr


def test_prices_are_done_when_nothing_rises_any_more(monkeypatch):
    scores = scores_of(60)
    known, rounds, real = Candidates.of(scores), [], torch.Tensor.scatter_reduce
    monkeypatch.setattr(torch.Tensor, "scatter_reduce", lambda *given: rounds.append(1) or real(*given))
    known.prices(dense(scores))
    assert 1 < len(rounds) < candidates.ROUNDS

"""Runs that end early, are taken up again, or share the work: the result is the same, and nothing good is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import multiprocessing
from torch.optim.optimizer import register_optimizer_step_pre_hook

from helpers.learning import EVERYTHING, RUN, run, tensors
from onebasin.ensemble.aligned import Aligned
from onebasin.errors import BadCheckpoint, BadOutput, Diverged, Stopped
from onebasin.learn.state import FILE, FORMAT, load_state

NAME = "GPT2LMHeadModel"
PERMUTING = {**EVERYTHING, "paper": {**EVERYTHING["paper"], "assign_every": 3}}

LOWEST = {
    "learn": ("residual", "qk", "ov", "gains"), "two_sided": True, "law": "highest", "optimizer": "muon",
    "recentre_every": 3,
}  # fmt: skip


def numbers(x: Aligned) -> dict[str, torch.Tensor]:
    """All that was learned."""
    first, move = x.moves
    frame = {f"frame/{name}": matrix for name, matrix in tensors(first.alignment).items()}
    return {**tensors(move.alignment), **move.gains, **({} if first.stays else frame)}


def same(x: Aligned, y: Aligned) -> bool:
    """Bit for bit, all but the seconds."""
    left, right = numbers(x), numbers(y)
    points = [[{**p, "seconds": 0} for p in z.course["learning"]["history"]] for z in (x, y)]
    return left.keys() == right.keys() and all(left[n].equal(right[n]) for n in left) and points[0] == points[1]


def stop_at(step: int, how: signal.Signals, progress) -> None:
    if progress.step >= step:
        os.kill(os.getpid(), how)


def test_seconds_are_those_since_the_run_began_with_those_before(root, tmp_path):
    """Of a run that goes on, those of its first part count, too."""
    began = time.perf_counter()
    with pytest.raises(Stopped):
        run(root, NAME, tmp_path, partial(stop_at, 5, signal.SIGTERM), steps=8, eval_every=2)
    before = load_state(tmp_path)[1]["seconds"]
    whole = run(root, NAME, tmp_path, steps=8, eval_every=2).course["learning"]["history"]
    taken = [point["seconds"] for point in whole]
    assert 0 < before < time.perf_counter() - began
    assert taken == sorted(taken)
    assert before < taken[-1] < time.perf_counter() - began


# ---- taken up again


@pytest.mark.parametrize(
    ("how", "options"),
    [
        (signal.SIGTERM, PERMUTING),
        (signal.SIGINT, {"two_sided": True, "dropout": True, "accumulate": 2}),
        (signal.SIGTERM, {"optimizer": "muon", "learn": ("residual", "qk"), "paper": {"scale": True}}),
        (signal.SIGTERM, {"law": "highest", "learn": ("residual", "gains")}),
        (signal.SIGTERM, {"recentre_every": 3, "learn": ("residual", "qk", "ov")}),
        (signal.SIGTERM, LOWEST),
    ],
    ids=["permutations", "two sides, dropout", "muon", "where the path is highest", "charts that move along", "lowest"],
)
def test_a_signal_stops_between_steps_and_the_run_goes_on_to_the_same_result(root, tmp_path, how, options):
    options = {"steps": 24, "eval_every": 8, **options}
    torch.manual_seed(5)
    whole = run(root, NAME, None, **options)
    torch.manual_seed(5)
    with pytest.raises(Stopped, match=f"stopped by {how.name} after step 1"):
        run(root, NAME, tmp_path, partial(stop_at, 11, how), **options)
    assert 10 < load_state(tmp_path)[1]["step"] < options["steps"]
    torch.manual_seed(99)  # whatever happened in between
    assert same(run(root, NAME, tmp_path, **options), whole)


def test_another_seed_gives_another_result(root):
    plain, again, other = (run(root, NAME, None, steps=4, eval_every=2, seed=seed) for seed in (0, 0, 1))
    assert same(plain, again)
    assert not same(plain, other)


def test_a_kill_at_any_moment_loses_only_the_steps_since_the_last_state(root, tmp_path):
    """The program is killed while it works; this process goes on with what it left."""
    killed, fresh = tmp_path / "killed", tmp_path / "fresh"
    command = [sys.executable, "-m", "helpers.learning", str(root), NAME, str(killed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        for line in program.stdout:
            if int(line) >= 33:  # it has gone on meanwhile, so this is somewhere, often in the middle of things
                program.send_signal(signal.SIGKILL)
                break
    assert program.wait() == -signal.SIGKILL
    left = load_state(killed)[1]["step"]
    assert left >= 28
    taken_up, whole = (run_until(root, folder, left + 10) for folder in (killed, fresh))
    assert {n: x for n, x in taken_up.items() if not x.equal(whole[n])} == {}


def run_until(root: Path, folder: Path, step: int) -> dict[str, torch.Tensor]:
    """The latents after `step` of 10,000 steps."""
    with pytest.raises(Stopped):
        run(root, NAME, folder, partial(stop_at, step, signal.SIGTERM), steps=10_000)
    stored = load_state(folder)
    assert stored[1]["step"] == -(-step // RUN["log_every"]) * RUN["log_every"]
    return {name: x for name, x in stored[0].items() if name.startswith(("latents/", "optimizer/"))}


def test_a_finished_run_is_not_run_again(root, tmp_path):
    steps = []
    first = run(root, NAME, tmp_path, lambda p: steps.append(p.step))
    taken = len(steps)
    assert same(run(root, NAME, tmp_path, lambda p: steps.append(p.step)), first)
    assert len(steps) == taken


def test_a_run_goes_on_only_as_it_began(root, tmp_path):
    run(root, NAME, tmp_path, steps=3)
    with pytest.raises(BadCheckpoint, match="begun with another value of 'lr'"):
        run(root, NAME, tmp_path, steps=3, lr=0.5)


def test_the_state_holds_no_weights(root, tmp_path):
    run(root, NAME, tmp_path, steps=3)
    latents = sum(x.numel() for n, x in load_state(tmp_path)[0].items() if n.startswith("latents/"))
    everything = sum(x.numel() for n, x in load_state(tmp_path)[0].items() if not n.startswith("random/"))
    assert everything < 4 * latents + 20  # latents, best, two moments
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base", FILE]


@pytest.mark.parametrize("content", [b"", b"not a state", b"\x10\x00\x00\x00\x00\x00\x00\x00{}              "])
def test_a_damaged_state_is_refused(root, tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(BadCheckpoint, match="is not the state of a run") as raised:
        run(root, NAME, tmp_path, steps=3)
    assert raised.value.expected == FORMAT


# ---- what goes wrong


def test_a_loss_that_is_not_finite_is_reported_and_the_last_good_state_kept(root, tmp_path):
    with pytest.raises(Diverged, match="not finite") as raised:
        run(root, NAME, tmp_path, steps=400, lr=1e30, warmup=0.2, save_every=1, clip=0.0)
    assert "the last good state is kept in" in str(raised.value)
    assert all(x.isfinite().all() for x in load_state(tmp_path)[0].values() if x.is_floating_point())


def test_a_full_disk_is_reported_and_the_last_good_state_kept(root, tmp_path, monkeypatch):
    run_until(root, tmp_path, 12)
    before = (tmp_path / FILE).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onebasin.learn.state.save_file", full)
    with pytest.raises(BadOutput, match="the state before is kept") as raised:
        run(root, NAME, tmp_path, steps=10_000)
    assert "No space left" in str(raised.value)
    assert (tmp_path / FILE).read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base", FILE]


def test_handlers_of_signals_are_put_back(root):
    before = [signal.getsignal(x) for x in (signal.SIGTERM, signal.SIGINT)]
    run(root, NAME, None, steps=2)
    assert [signal.getsignal(x) for x in (signal.SIGTERM, signal.SIGINT)] == before


# ---- several processes


SHARED = {"steps": 8, "eval_every": 4, "batch": 16}
ALONE_AND_TOGETHER = {"plain": {}, "lowest": LOWEST}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def share_of_runs(rank: int, root: Path, out: Path, port: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    learned = [run(root, NAME, None, **SHARED, **options) for options in ALONE_AND_TOGETHER.values()]
    if not rank:
        torch.save([numbers(x) for x in learned], out)


@pytest.fixture(scope="module")
def shared_runs(root, tmp_path_factory) -> dict[str, dict[str, torch.Tensor]]:
    """What two processes learn: both runs one after the other, for starting processes takes longest."""
    out = tmp_path_factory.mktemp("shared") / "maps.pt"
    multiprocessing.spawn(share_of_runs, (root, out, free_port()), nprocs=2)
    return dict(zip(ALONE_AND_TOGETHER, torch.load(out), strict=True))


@pytest.mark.parametrize("kind", ALONE_AND_TOGETHER)
def test_two_processes_do_what_one_does(root, shared_runs, kind):
    together, options = shared_runs[kind], ALONE_AND_TOGETHER[kind]
    alone = numbers(run(root, NAME, None, **SHARED, **options))
    other = numbers(run(root, NAME, None, **{**SHARED, "batch": 8}, **options))
    assert together.keys() == alone.keys()
    for name, x in alone.items():
        torch.testing.assert_close(together[name], x, rtol=0, atol=1e-9)
    assert (together["residual/matrix"] - other["residual/matrix"]).abs().max() > 1e-6  # the control


def gradients(root: Path, **options: Any) -> list[torch.Tensor]:
    """What the optimiser is given in the first step of a run."""
    seen: list[torch.Tensor] = []

    def look(optimizer: torch.optim.Optimizer, *_: object) -> None:
        seen.extend(p.grad.clone() for group in optimizer.param_groups for p in group["params"])

    hook = register_optimizer_step_pre_hook(look)
    try:
        run(root, NAME, None, steps=1, clip=0.0, paper={"law": "half"}, **options)
    finally:
        hook.remove()
    return seen


def test_accumulated_batches_are_one_large_batch(root):
    """Also in size: Adam would hide a sum in place of a mean, but clipping would not."""
    one, two, small = (gradients(root, batch=b, accumulate=n) for b, n in ((16, 1), (8, 2), (8, 1)))
    assert len(one) == len(two) > 0
    for x, y in zip(two, one, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-12)
    assert any((x - y).abs().max() > 1e-6 for x, y in zip(small, one, strict=True))  # the control

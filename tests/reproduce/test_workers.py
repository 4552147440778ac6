"""Rows in processes of their own: what fails is a reason, and no process outlives its parent."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import torch

from onebasin.errors import OnebasinError, Stopped
from onebasin.reproduce import workers
from onebasin.reproduce.folder import write_json
from onebasin.reproduce.plan import Row

ROW, CPU = Row("g", "l", ("a", "b"), "shapes", {}), torch.device("cpu")


@pytest.mark.parametrize("error", [OnebasinError("it is full"), RuntimeError("it is\nfull")])
def test_a_row_that_fails_says_why(monkeypatch, error):
    monkeypatch.setattr(workers, "measure_row", Mock(side_effect=error))
    assert workers.attempt(ROW, Path(), CPU) in ("OnebasinError: it is full", "RuntimeError: it is; full")


@pytest.mark.parametrize("error", [Stopped("by a signal"), ValueError("a bug")])
def test_a_signal_and_a_bug_end_all_rows(monkeypatch, error):
    monkeypatch.setattr(workers, "measure_row", Mock(side_effect=error))
    with pytest.raises(type(error)):
        workers.attempt(ROW, Path(), CPU)


def test_a_process_that_was_killed_is_a_reason_too():
    done, killed = Future(), Future()
    done.set_result({"paths": {}})
    killed.set_exception(BrokenProcessPool())
    assert workers.result_of(done) == {"paths": {}}
    assert workers.result_of(killed) == "its process was killed"


def test_one_at_a_time_needs_no_process():
    with workers.processes(1) as pool:
        assert pool is None


def test_processes_share_the_processors_and_are_gone_afterwards():
    with workers.processes(2) as pool:
        assert pool.submit(torch.get_num_threads).result() == max(1, (os.cpu_count() or 1) // 2)
        begun = {child.pid for child in multiprocessing.active_children()}
        assert begun
    assert not begun & {child.pid for child in multiprocessing.active_children()}


@pytest.mark.parametrize(("there", "threads"), [(8, 2), (3, 1), (None, 1)])
def test_each_has_its_share_of_the_processors(monkeypatch, there, threads):
    told, thread = [], Mock()
    monkeypatch.setattr(os, "cpu_count", lambda: there)
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(workers, "Thread", thread)
    workers._begin(4)
    assert told == [threads]
    assert thread.mock_calls == [call(target=workers._end_with_parent, daemon=True), call().start()]


def test_a_process_ends_with_its_parent(monkeypatch):
    order, parent = Mock(), Mock()
    order.attach_mock(parent.join, "join")
    monkeypatch.setattr(os, "_exit", order.exit)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    workers._end_with_parent()
    assert order.mock_calls == []
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    workers._end_with_parent()
    assert order.mock_calls == [call.join(), call.exit(1)]


def test_an_interrupted_run_waits_for_nobody():
    def interrupted() -> None:
        with workers.processes(2) as pool:
            pool.submit(int).result()
            waiting.extend(pool.submit(time.sleep, 60) for _ in range(9))
            raise KeyboardInterrupt

    begin, waiting, before = time.monotonic(), [], multiprocessing.active_children()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - begin < 50
    assert waiting[-1].cancelled() or waiting[-1].exception() is not None
    assert {*multiprocessing.active_children()} <= {*before}


def test_a_file_is_written_whole_where_no_folder_is_yet(tmp_path):
    for value in ({"a": 1}, {"a": 2}):
        write_json(tmp_path / "one" / "two" / "file.json", value)
        assert json.loads((tmp_path / "one" / "two" / "file.json").read_text()) == value
    assert len(list((tmp_path / "one" / "two").iterdir())) == 1

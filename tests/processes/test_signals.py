"""Signals inside and outside of the blocks that look after them."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from onebasin.processes.signals import Signals, interruptible

ENDING = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def as_before():
    before = {x: signal.getsignal(x) for x in (*ENDING, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("how", ENDING)
def test_a_deadly_signal_becomes_an_interrupt_and_more_of_them_change_nothing(how):
    cleaned = []

    def work() -> None:
        with interruptible():
            try:
                os.kill(os.getpid(), how)
            finally:
                for again in ENDING:
                    os.kill(os.getpid(), again)
                cleaned.append(True)

    with pytest.raises(KeyboardInterrupt, match=how.name):
        work()
    assert cleaned == [True]
    assert [signal.getsignal(x) for x in ENDING] == [signal.SIG_DFL] * 2


def test_what_a_program_does_with_signals_stays():
    got = []
    signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    with interruptible(), Signals() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received is None
    with interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    assert got == [signal.SIGTERM]


def test_hanging_up_is_noted_between_steps():
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals.received == "SIGHUP"


def test_only_the_main_thread_has_signals():
    ran = []

    def work() -> None:
        with interruptible(), Signals():
            ran.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran == [True]

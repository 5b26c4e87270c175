"""What a signal sets, whatever the main thread is about to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from mayfly.cli.signals import stop_event
from tests.cli.conftest import ROOT
from tests.facts import PATIENCE_SECONDS

#: The main thread is interrupted where it holds the lock of the event it is about to wait for.
PROGRAM = """
import signal
from mayfly.cli.signals import stop_event

with stop_event() as stopped:
    with stopped._cond:
        signal.raise_signal(signal.{name})
    stopped.wait()
print("ended")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_amid_the_beginning_of_a_wait_ends_it(name: str) -> None:
    """A handler that sets the event would wait for that lock for ever; only kill -9 would help."""
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "ended\n", "")


def test_afterwards_signals_mean_what_they_did_and_no_thread_is_left() -> None:
    before, threads = signal.getsignal(signal.SIGTERM), set(threading.enumerate())
    heard: list[int] = []
    try:
        signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
        with stop_event() as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopped.wait(PATIENCE_SECONDS)
        assert heard == []
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.set_wakeup_fd(-1) == -1
    assert set(threading.enumerate()) <= threads

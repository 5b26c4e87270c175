"""Loops: threads that survive what a turn raises, and are missed when they are gone."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import pytest

from mayfly.client.connection.periodic_checks import PeriodicChecks
from mayfly.runtime import Loop, Runtime, SystemClock
from tests.facts import PATIENCE_SECONDS, wait_until


class Turns:
    """A turn that raises what it is given, one a turn, and ends behind the last."""

    def __init__(self, *raised: BaseException) -> None:
        self._raised = list(raised)
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        if self._raised:
            raise self._raised.pop(0)
        return False


def ended(runtime: Runtime, turn: Callable[[], bool], *, survives_errors: bool = True) -> Loop:
    """Return a loop whose thread has ended."""
    loop = Loop(runtime, turn, "mayfly-test", survives_errors=survives_errors)
    loop.start()
    wait_until(lambda: not loop.is_alive())
    return loop


@pytest.mark.parametrize("error", [ValueError("one"), SystemExit(1), KeyboardInterrupt()])
def test_a_loop_survives_whatever_a_turn_raises(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, turns = Runtime(), Turns(error)
    ended(runtime, turns)
    assert turns.count == 2
    assert runtime.dead_loops() == []
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "mayfly-test" in record.getMessage()
    assert repr(error) in record.getMessage()


def test_an_error_that_stays_the_same_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns(*[ValueError("same")] * 4, ValueError("other"))
    ended(Runtime(), turns)
    assert turns.count == 6
    assert ["'same'" in record.getMessage() for record in caplog.records] == [True, False]


def test_a_loop_that_cannot_go_on_is_gone_until_its_owner_has_ended_it() -> None:
    runtime = Runtime()
    loop = ended(runtime, Turns(ValueError("x")), survives_errors=False)
    assert runtime.dead_loops() == ["mayfly-test"]
    loop.join()
    assert runtime.dead_loops() == []


def test_a_loop_without_a_thread_is_not_missed() -> None:
    class Exhausted(Runtime):
        def thread(self, work: Callable[[], None], name: str) -> threading.Thread:
            class Refused(threading.Thread):
                def start(self) -> None:
                    raise RuntimeError("can't start new thread")

            return Refused(target=work, name=name)

    runtime = Exhausted()
    with pytest.raises(RuntimeError):
        Loop(runtime, Turns(), "mayfly-test").start()
    assert runtime.dead_loops() == []


class Failing:
    """Due work of which the first runs fail."""

    def __init__(self, *errors: BaseException) -> None:
        self._errors = list(errors)
        self.has_run = threading.Event()

    def next_due_ms(self) -> int | None:
        return 0

    def run_due(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.has_run.set()


def test_due_work_that_has_failed_is_run_again() -> None:
    clock, driven = SystemClock(), Failing(ValueError("x"), SystemExit(1))
    clock.attach(driven)
    try:
        assert driven.has_run.wait(PATIENCE_SECONDS)
    finally:
        clock.detach(driven)
    assert clock.runtime.dead_loops() == []


def test_a_connection_that_cannot_be_looked_after_takes_no_other_with_it() -> None:
    class Checked:
        tick_ms, is_over = 1, False

        def __init__(self, error: Exception | None) -> None:
            self._error, self.ticks = error, 0

        def tick(self) -> None:
            self.ticks += 1
            if self._error is not None:
                raise self._error

    checks = PeriodicChecks("mayfly-test")
    wrong, right = Checked(ValueError("x")), Checked(None)
    for checked in (wrong, right):
        checks.add(checked)
    wait_until(lambda: wrong.ticks >= 2 and right.ticks >= 2)
    for checked in (wrong, right):
        checks.remove(checked)


def test_a_callback_that_ends_the_interpreter_ends_no_thread_of_a_client() -> None:
    from mayfly.client.connection.remote_link import CallbackThread

    callbacks, called = CallbackThread(Runtime()), threading.Event()
    callbacks.add(sys.exit)
    callbacks.add(called.set)
    assert called.wait(PATIENCE_SECONDS)
    callbacks.end()

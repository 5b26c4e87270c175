"""The background thread waits for those who have shared its last sync, as long as that pays."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mayfly.engine import callbacks
from mayfly.engine.callbacks import Background, Callbacks, Gathering
from mayfly.runtime import Runtime
from tests.spec.scene import JOIN_SECONDS


def test_nobody_is_waited_for_until_some_have_shared_a_sync() -> None:
    gathering = Gathering()
    assert not gathering.is_due(1)
    gathering.expected = 3
    assert [gathering.is_due(count) for count in (1, 2, 3, 4)] == [True, True, False, False]


def test_a_wait_that_brought_nobody_is_repeated_after_ever_longer_pauses() -> None:
    gathering = Gathering()
    gathering.expected = 2
    skipped = []
    for _ in range(8):
        gathering.note_wait(has_gained=False)
        count = 0
        while not gathering.is_due(1):
            count += 1
        skipped.append(count)
    assert skipped == [1, 3, 7, 15, 31, 63, 63, 63]
    gathering.note_wait(has_gained=True)
    assert gathering.is_due(1)
    assert gathering.is_due(1)


def test_a_sync_that_has_enough_does_not_shorten_a_pause() -> None:
    gathering = Gathering()
    gathering.expected = 2
    gathering.note_wait(has_gained=False)
    assert not gathering.is_due(2)
    assert [gathering.is_due(1) for _ in range(3)] == [False, True, True]


class Jobs:
    """Jobs of a background thread, told by name when they are done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._changed = threading.Condition()
        self.background = Background(Callbacks(threading.RLock()), self._refuse, Runtime())

    def do(self, *names: str) -> None:
        """Hand jobs over."""
        for name in names:
            self.background.do(lambda name=name: self._note(name))  # type: ignore[misc]  # bound here

    def wait_for(self, *names: str) -> None:
        """Wait until these are done, and nothing else is."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.done == list(names), JOIN_SECONDS)

    def share(self, *names: str) -> None:
        """Let jobs share a turn of the thread: they come while it is at work."""
        has_begun, may_end = threading.Event(), threading.Event()

        def work() -> None:
            has_begun.set()
            assert may_end.wait(JOIN_SECONDS)

        self.background.do(work)
        assert has_begun.wait(JOIN_SECONDS)
        self.do(*names)
        may_end.set()

    def _note(self, name: str) -> None:
        with self._changed:
            self.done.append(name)
            self._changed.notify_all()

    def _refuse(self, *_transactions: object) -> None:
        raise AssertionError


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        threading.Event().wait(0.001)


def test_who_shared_the_last_turn_is_waited_for_and_who_is_late_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = Jobs()
    monkeypatch.setattr(callbacks, "GATHER_SECONDS", 10 * JOIN_SECONDS)
    jobs.share("a", "b")
    # The job that they came beside is one of three.
    until(lambda: jobs.background._gathering.expected == 3)
    jobs.do("c")
    jobs.wait_for("a", "b", "c")
    jobs.do("d")
    # It has looked at d, and waits for two more.
    until(lambda: jobs.background._wanted_count == 3)
    assert jobs.done == ["a", "b", "c"]
    jobs.do("e", "f")
    jobs.wait_for("a", "b", "c", "d", "e", "f")
    monkeypatch.setattr(callbacks, "GATHER_SECONDS", 0.001)
    jobs.do("g")
    jobs.wait_for("a", "b", "c", "d", "e", "f", "g")
    # Nobody came beside g, so nobody is expected beside h.
    until(lambda: jobs.background._gathering.expected == 1)
    monkeypatch.setattr(callbacks, "GATHER_SECONDS", 10 * JOIN_SECONDS)
    jobs.do("h")
    jobs.wait_for("a", "b", "c", "d", "e", "f", "g", "h")

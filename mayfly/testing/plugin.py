"""The pytest plugin: fixtures ``clock`` and ``queue_manager``, in memory and in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly.queue_manager import QueueManager
from mayfly.runtime.virtual_clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still until ``clock.advance(ms)``."""
    return VirtualClock()


@pytest.fixture
def queue_manager(clock: VirtualClock) -> Iterator[QueueManager]:
    """An empty queue manager ``QM1``; fails the test when its books do not balance at the end."""
    manager = QueueManager("QM1", clock=clock)
    yield manager
    report = manager.verify()
    manager.close()
    assert report.ok, report.problems

"""The pytest plugin: fixtures with a queue manager in memory under a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mayfly.queue_manager import QueueManager
from mayfly.runtime.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from mayfly.testing.served import ServedQueueManager


@pytest.fixture
def clock() -> VirtualClock:
    """Return a new virtual clock that moves only by ``clock.advance(ms)``."""
    return VirtualClock()


@pytest.fixture
def queue_manager(clock: VirtualClock) -> Iterator[QueueManager]:
    """Yield an empty in-memory queue manager ``QM1`` under ``clock``, closed after the test.

    The test fails if ``verify`` then finds wrong message counts.
    """
    manager = QueueManager("QM1", clock=clock)
    yield manager
    report = manager.verify()
    manager.close()
    assert report.ok, report.problems


@pytest.fixture
def served_queue_manager(queue_manager: QueueManager) -> Iterator[ServedQueueManager]:
    """Yield the fixture ``queue_manager``, served on a port of 127.0.0.1 for client programs.

    It needs the extra ``serve``, and is a ``mayfly.testing.served.ServedQueueManager``. The server
    stops after the test.
    """
    # Every pytest on this machine loads the plugin; a server takes half a second to import.
    from mayfly.testing.served import served

    with served(queue_manager) as it:
        yield it

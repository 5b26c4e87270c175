"""The pytest plugin: a queue manager in memory and in virtual time, in process or served."""

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
    """A virtual clock that moves only by ``clock.advance(ms)``."""
    return VirtualClock()


@pytest.fixture
def queue_manager(clock: VirtualClock) -> Iterator[QueueManager]:
    """An empty queue manager ``QM1`` under ``clock``; the test fails if ``verify`` does."""
    manager = QueueManager("QM1", clock=clock)
    yield manager
    report = manager.verify()
    manager.close()
    assert report.ok, report.problems


@pytest.fixture
def served_queue_manager(queue_manager: QueueManager) -> Iterator[ServedQueueManager]:
    """The fixture ``queue_manager``, served on a port of 127.0.0.1 for client programs.

    It needs the extra ``serve``, and is a ``mayfly.testing.served.ServedQueueManager``.
    """
    # Every pytest on this machine loads the plugin; a server takes half a second to import.
    from mayfly.testing.served import served

    with served(queue_manager) as it:
        yield it

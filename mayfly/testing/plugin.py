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


@pytest.fixture
def served_queue_manager(queue_manager: QueueManager) -> Iterator[ServedQueueManager]:
    """``queue_manager`` on a port of 127.0.0.1, for programs that are clients.

    Needs the extra ``serve``. See ``mayfly.testing.served.ServedQueueManager``.
    """
    # Every pytest on this machine loads the plugin; a server takes half a second to import.
    from mayfly.testing.served import served

    with served(queue_manager) as it:
        yield it

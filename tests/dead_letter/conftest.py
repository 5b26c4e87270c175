"""Fixtures of the tests of the dead-letter handler: a queue manager with a dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.spec.scene import DEAD, REPLIES, START_MS, alter_manager, local


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still."""
    return VirtualClock(START_MS)


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[QueueManager]:
    """QM1 with Q1, Q2 and REPLIES, proved to balance at the end."""
    with QueueManager("QM1", clock=clock, user="opener") as manager:
        for name in ("Q1", "Q2", REPLIES):
            local(manager, name)
        alter_manager(manager, DEADQ=DEAD)
        yield manager
        found = manager.verify()
        assert found.ok, found.problems

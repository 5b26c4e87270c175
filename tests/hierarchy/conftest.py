"""A parent with two children, all of one process and one clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.hierarchy.scene import connect, run

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still."""
    return VirtualClock(START_MS)


@pytest.fixture
def tree(clock: VirtualClock) -> Iterator[tuple[QueueManager, QueueManager, QueueManager]]:
    """TOP, and LEFT and RIGHT below it."""
    with ExitStack() as stack:
        top, left, right = (
            stack.enter_context(QueueManager(name, clock=clock))
            for name in ("TOP", "LEFT", "RIGHT")
        )
        for child in (left, right):
            connect(top, child)
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        for child in (left, right):
            run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        clock.advance(0)
        yield top, left, right

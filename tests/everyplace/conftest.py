"""One clock, and two queue managers that stand by it and are connected."""

from __future__ import annotations

import pytest

from mayfly.everyplace import EveryplaceQueueManager, Link
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still."""
    return VirtualClock(START_MS)


@pytest.fixture
def a(clock: VirtualClock) -> EveryplaceQueueManager:
    """The queue manager where things begin."""
    return EveryplaceQueueManager("A", clock=clock)


@pytest.fixture
def b(clock: VirtualClock) -> EveryplaceQueueManager:
    """Another one."""
    return EveryplaceQueueManager("B", clock=clock)


@pytest.fixture
def link(a: EveryplaceQueueManager, b: EveryplaceQueueManager) -> Link:
    """The link between the two."""
    return a.connect(b)


@pytest.fixture
def rule() -> Remembering:
    """A rule that remembers what expired."""
    return Remembering()

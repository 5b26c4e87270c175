"""Two queue managers in memory on one virtual clock."""

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.channel.network_scene import Served, served
from tests.channel.scene import START_MS, receiving, sending


@pytest.fixture
def clock() -> VirtualClock:
    """The time of both."""
    return VirtualClock(START_MS)


@pytest.fixture
def two(clock: VirtualClock) -> Iterator[QueueManager]:
    """QM2, which receives."""
    with receiving(clock) as manager:
        yield manager
        if not manager.is_stopped:
            found = manager.verify()
            assert found.ok, found.problems


@pytest.fixture
def one(clock: VirtualClock, two: QueueManager) -> Iterator[QueueManager]:
    """QM1, which sends; the channel is not started."""
    with sending(clock) as manager:
        yield manager
        found = manager.verify()
        assert found.ok, found.problems


@pytest.fixture
def server(two: QueueManager) -> Iterator[Served]:
    """The server of QM2, for channels over a network."""
    with served(two) as server:
        yield server

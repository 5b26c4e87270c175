"""A queue manager in memory for each MQSC test."""

from collections.abc import Iterator

import pytest

import mayfly
from mayfly.testing import VirtualClock


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1", clock=clock) as manager:
        yield manager

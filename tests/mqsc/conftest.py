"""A queue manager in memory for each MQSC test."""

from collections.abc import Iterator

import pytest

import mayfly


@pytest.fixture
def qm() -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1") as manager:
        yield manager

"""A connection to a queue manager in memory, in virtual time, with one queue open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.verbs import requests as ask
from tests.conftest import Connect
from tests.connection.cut import Cut
from tests.connection.scene import BOTH_WAYS


@pytest.fixture
def connection(connect: Connect, queue_manager: QueueManager) -> Iterator[Connection]:
    """A connection of ``anna`` to ``QM1``, which has the queues ``Q1`` and ``DEAD``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)").ok
    connected: Connection = connect(queue_manager, "anna")
    yield connected
    connected.close(commit=False)


@pytest.fixture
def queue(connection: Connection) -> int:
    """``Q1``, open for input, output and browse."""
    return connection.call(ask.Open("Q1", BOTH_WAYS)).handle


@pytest.fixture
def cut(queue_manager: QueueManager) -> Iterator[Cut]:
    """``QM1`` with the queues ``Q1`` and ``Q2``, served by one server after the other."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
    it = Cut(queue_manager)
    yield it
    it.stop()

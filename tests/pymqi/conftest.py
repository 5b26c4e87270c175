"""A connection to a queue manager in memory, in virtual time, with one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC

Verb = Callable[..., object]

BOTH_WAYS = CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_OUTPUT | CMQC.MQOO_BROWSE


@pytest.fixture
def connection(queue_manager: QueueManager) -> Iterator[pymqi.QueueManager]:
    """Connected to ``QM1``, which has the queue ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    connected = pymqi.connect("QM1")
    yield connected
    if connected.is_connected:
        connected.disconnect()


@pytest.fixture
def queue(connection: pymqi.QueueManager) -> pymqi.Queue:
    """``Q1``, open for input, output and browse."""
    return pymqi.Queue(connection, "Q1", BOTH_WAYS)


@pytest.fixture
def fails() -> Callable[..., pymqi.MQMIError]:
    """Call something that must raise MQMIError and return the error."""

    def call(verb: Verb, *arguments: object) -> pymqi.MQMIError:
        with pytest.raises(pymqi.MQMIError) as caught:
            verb(*arguments)
        return caught.value

    return call

"""A connection to a queue manager in memory, in virtual time, with one queue.

A sample of the tests runs a second time, over a socket (tests/over.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from tests.over import names_over

Verb = Callable[..., object]
Fails = Callable[..., pymqi.MQMIError]

BOTH_WAYS = CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_OUTPUT | CMQC.MQOO_BROWSE


@pytest.fixture(autouse=True)
def _over(over: str) -> Iterator[None]:
    """How ``pymqi.connect("QM1")`` reaches its queue manager."""
    with names_over(over):
        yield


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

"""A drain: waits end, idle connections end, a unit of work has its time, nobody comes in."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection.remote import RemoteConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from tests.connection.serving import Served, serving
from tests.facts import PATIENCE_SECONDS, wait_until

PATIENCE_MS = PATIENCE_SECONDS * 1_000
BOTH = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with serving(queue_manager) as it:
        yield it


def connected(served: Served) -> RemoteConnection:
    """Connect over a socket of its own: the server ends sockets."""
    return served.connect("operator", share_conversations=1)


def reason_of(connection: RemoteConnection) -> int:
    with pytest.raises(MQError) as caught:
        connection.call(ask.Open("Q1", BOTH))
    return caught.value.reason


def test_a_unit_of_work_is_ended_by_its_client_while_the_others_go(
    served: Served, queue_manager: QueueManager
) -> None:
    idle, busy, waiting = connected(served), connected(served), connected(served)
    handle, queue = (
        busy.call(ask.Open("Q1", BOTH)).handle,
        waiting.call(ask.Open("Q1", BOTH)).handle,
    )
    busy.put(handle, b"in time", Descriptor(), c.MQPMO_SYNCPOINT)
    outcomes: list[int] = []

    def wait() -> None:
        try:
            waiting.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
        except MQError as error:
            outcomes.append(error.reason)

    getter = threading.Thread(target=wait)
    getter.start()
    wait_until(lambda: any(each.is_running for each in served.server.connections()))
    drained: list[bool] = []
    drain = threading.Thread(target=lambda: drained.append(served.server.drain(PATIENCE_MS)))
    drain.start()
    getter.join(PATIENCE_SECONDS)
    assert outcomes == [rc.MQRC_Q_MGR_QUIESCING]
    wait_until(lambda: len(served.server.connections()) == 1)
    assert reason_of(idle) == rc.MQRC_Q_MGR_QUIESCING
    with pytest.raises(MQError) as caught:
        connected(served)
    ended = (rc.MQRC_Q_MGR_QUIESCING, rc.MQRC_Q_MGR_NOT_AVAILABLE, rc.MQRC_HOST_NOT_AVAILABLE)
    assert caught.value.reason in ended
    assert not drained
    busy.call(ask.Commit())
    drain.join(PATIENCE_SECONDS)
    assert drained == [True]
    assert queue_manager.curdepth("Q1") == 1


def test_a_unit_of_work_that_is_not_ended_in_time_is_backed_out(
    served: Served, queue_manager: QueueManager
) -> None:
    busy = connected(served)
    busy.put(busy.call(ask.Open("Q1", BOTH)).handle, b"late", Descriptor(), c.MQPMO_SYNCPOINT)
    assert not served.server.drain(100)
    served.server.close()
    assert queue_manager.curdepth("Q1") == 0
    assert reason_of(busy) in (rc.MQRC_Q_MGR_STOPPING, rc.MQRC_CONNECTION_BROKEN)

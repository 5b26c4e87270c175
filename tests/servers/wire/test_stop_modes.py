"""STOP CHANNEL for clients: MODE says how those who are there end, STATUS what follows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from mayfly import QueueManager
from mayfly.channel import clients_known
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.remote import RemoteConnection
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from tests.connection.cut import SHORT
from tests.connection.serving import Served, serving
from tests.facts import PATIENCE_SECONDS, wait_until

BOTH = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` with ``Q1`` and the channel ``CH``, whose clients its administration knows."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE CHANNEL(CH) CHLTYPE(SVRCONN)").ok
    with (
        serving(queue_manager) as it,
        clients_known(queue_manager.engine, it.server),
    ):
        yield it


def connected(served: Served) -> Connection:
    return served.connect("operator", share_conversations=1)


def reason_of(call: Callable[[], object]) -> int:
    with pytest.raises(MQError) as raised:
        call()
    return raised.value.reason


def stop(manager: QueueManager, how: str) -> None:
    result = manager.mqsc(f"STOP CHANNEL(CH) {how}")
    assert result.ok, result.text


def status(manager: QueueManager) -> list[object]:
    return [row["STATUS"] for row in manager.mqsc("DISPLAY CHSTATUS(CH)").rows]


def gone(served: Served, count: int = 0) -> None:
    wait_until(lambda: len(served.server.connections()) == count)


def test_a_get_has_its_own_reason_though_the_connection_has_ended_behind_it(
    served: Served, queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In virtual time a client asks for the time behind its get; by then it may be cut off."""
    waiting = connected(served)
    assert isinstance(waiting, RemoteConnection)
    queue, conversation = waiting.call(ask.Open("Q1", BOTH)).handle, waiting.conversation
    ask_for_time = conversation.wait_for_earlier_requests

    def ask_late() -> None:
        wait_until(lambda: any(each.is_running for each in served.server.connections()))
        stop(queue_manager, "")
        gone(served)
        ask_for_time()

    monkeypatch.setattr(conversation, "wait_for_earlier_requests", ask_late)
    reason = reason_of(lambda: waiting.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED))
    assert reason == rc.MQRC_CONNECTION_QUIESCING


@pytest.mark.parametrize("how", ["", "MODE(QUIESCE)"])
def test_quiesce_lets_units_of_work_end(
    served: Served, queue_manager: QueueManager, how: str
) -> None:
    idle, busy, waiting = connected(served), connected(served), connected(served)
    queue, own = busy.call(ask.Open("Q1", BOTH)).handle, waiting.call(ask.Open("Q1", BOTH)).handle
    busy.put(queue, b"before", Descriptor(), c.MQPMO_SYNCPOINT)
    reasons: list[int] = []
    thread = threading.Thread(
        target=lambda: reasons.append(
            reason_of(lambda: waiting.get(own, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED))
        )
    )
    thread.start()
    wait_until(lambda: any(each.is_running for each in served.server.connections()))
    stop(queue_manager, how)
    thread.join(PATIENCE_SECONDS)
    assert reasons == [rc.MQRC_CONNECTION_QUIESCING]
    gone(served, 1)
    assert reason_of(idle.now_ms) == rc.MQRC_CONNECTION_BROKEN
    fails = c.MQPMO_SYNCPOINT | c.MQPMO_FAIL_IF_QUIESCING
    for call in (
        lambda: busy.put(queue, b"refused", Descriptor(), fails),
        lambda: busy.get(queue, c.MQGMO_SYNCPOINT | c.MQGMO_FAIL_IF_QUIESCING),
        lambda: busy.call(ask.Open("Q1", BOTH | c.MQOO_FAIL_IF_QUIESCING)),
    ):
        assert reason_of(call) == rc.MQRC_CONNECTION_QUIESCING
    busy.put(queue, b"behind", Descriptor(), c.MQPMO_SYNCPOINT)
    busy.call(ask.Commit())
    gone(served)
    assert reason_of(busy.now_ms) == rc.MQRC_CONNECTION_BROKEN
    with queue_manager.session() as session:
        assert [message.body for message in session.browse("Q1")] == [b"before", b"behind"]
    assert status(queue_manager) == ["STOPPED"]


@pytest.mark.parametrize("mode", ["FORCE", "TERMINATE"])
def test_force_ends_at_once_and_backs_out(
    served: Served, queue_manager: QueueManager, mode: str
) -> None:
    busy = connected(served)
    busy.put(busy.call(ask.Open("Q1", BOTH)).handle, b"lost", Descriptor(), c.MQPMO_SYNCPOINT)
    stop(queue_manager, f"MODE({mode})")
    gone(served)
    assert reason_of(lambda: busy.call(ask.Commit())) == rc.MQRC_CONNECTION_BROKEN
    wait_until(lambda: queue_manager.curdepth("Q1") == 0)
    assert status(queue_manager) == ["STOPPED"]


def test_an_inactive_channel_lets_others_in(served: Served, queue_manager: QueueManager) -> None:
    before = connected(served)
    stop(queue_manager, "MODE(FORCE) STATUS(INACTIVE)")
    gone(served)
    assert reason_of(before.now_ms) == rc.MQRC_CONNECTION_BROKEN
    assert status(queue_manager) == []
    after = connected(served)
    assert after.now_ms()
    stop(queue_manager, "STATUS(INACTIVE)")
    gone(served)
    connected(served).close()


def test_a_connection_that_is_about_to_end_is_shared_no_more(
    served: Served, queue_manager: QueueManager
) -> None:
    busy = served.connect("operator")
    busy.put(busy.call(ask.Open("Q1", BOTH)).handle, b"x", Descriptor(), c.MQPMO_SYNCPOINT)
    stop(queue_manager, "STATUS(INACTIVE)")
    other = served.connect("operator")
    busy.call(ask.Commit())
    gone(served, 1)
    assert other.now_ms()
    other.close()


def test_a_client_that_reconnects_goes_on_when_the_channel_lets_it_in(
    served: Served, queue_manager: QueueManager
) -> None:
    made = ReconnectingConnection(lambda: connected(served), Reconnect.YES, SHORT)
    queue = made.call(ask.Open("Q1", BOTH)).handle
    got: list[bytes] = []
    thread = threading.Thread(
        target=lambda: got.append(
            made.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED).message.body
        )
    )
    thread.start()
    wait_until(lambda: any(each.is_running for each in served.server.connections()))
    stop(queue_manager, "STATUS(INACTIVE)")
    wait_until(lambda: [each.is_running for each in served.server.connections()] == [True])
    with queue_manager.session() as session:
        session.put("Q1", b"x")
    thread.join(PATIENCE_SECONDS)
    assert got == [b"x"]
    made.close()


def test_clients_from_one_address_are_ended_and_may_come_back(
    served: Served, queue_manager: QueueManager
) -> None:
    before = connected(served)
    [row] = queue_manager.mqsc("DISPLAY CHSTATUS(CH) CONNAME").rows
    for how in ("CONNAME('192.0.2.1')", "QMNAME(QM2)", f"CONNAME('{row['CONNAME']}') QMNAME(QM2)"):
        [message] = queue_manager.mqsc(f"STOP CHANNEL(CH) MODE(FORCE) {how}").messages
        assert (message.code, message.reason) == ("AMQ9533W", k.MQRCCF_CHANNEL_NOT_ACTIVE)
    assert before.now_ms()
    stop(queue_manager, f"MODE(FORCE) CONNAME('{row['CONNAME']}')")
    gone(served)
    assert reason_of(before.now_ms) == rc.MQRC_CONNECTION_BROKEN
    connected(served).close()


@pytest.mark.parametrize(
    "how", ["STATUS(SOON)", "CONNAME('192.0.2.1') STATUS(STOPPED)", "QMNAME('a b')"]
)
def test_a_wrong_stop_changes_nothing(queue_manager: QueueManager, how: str) -> None:
    assert queue_manager.mqsc("DEFINE CHANNEL(IN) CHLTYPE(RCVR)").ok
    assert queue_manager.mqsc(f"STOP CHANNEL(IN) {how}").codes == ["AMQ8405E"]
    assert queue_manager.mqsc("DISPLAY CHSTATUS(IN)").codes == ["AMQ8420I"]

"""The bridge on a connection to a queue manager that a server has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.engine import Session
from mayfly.ims_bridge import ImsBridge, Request
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.pymqi import IIH
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.wire import packed_descriptor
from mayfly.verbs.requests import Reply
from tests.connection.serving import serving
from tests.ims_bridge.scene import (
    DEAD,
    IMS,
    PASS_EXPIRATION,
    REPLIES,
    Calls,
    HeldBridges,
    ask,
    dead_header,
    got,
)
from tests.spec.scene import refused


@pytest.fixture
def connection(manager: QueueManager) -> Iterator[Connection]:
    """A connection of an operator to ``QM1``, over TCP."""
    with serving(manager) as served:
        connected = served.connect("operator")
        yield connected
        connected.close(commit=False)


def upper(request: Request, _iih: IIH | None) -> bytes:
    """Answer in capitals."""
    return request.upper()


def test_E30_a_pass_far_away_passes_the_life_that_was_left(
    connection: Connection, session: Session, clock: VirtualClock
) -> None:
    asked = ask(session, PASS_EXPIRATION, b"hello", life_ms=20_000)
    ask(session, reply_to_q="NOWHERE")
    clock.advance(12_345)
    assert ImsBridge(connection, queue=IMS, transaction=upper).run_once() == 2
    reply = got(session)
    assert (reply.body[84:], reply.remaining_ms, reply.correl_id) == (b"HELLO", 7_655, asked)
    assert (reply.descriptor.put_appl_name.rstrip(), reply.descriptor.format) == (IMS, "MQIMS")
    letter = got(session, DEAD)
    assert dead_header(letter) == (rc.MQRC_UNKNOWN_OBJECT_NAME, "NOWHERE")
    # The bridge leaves the connection open, with nothing in its unit of work.
    assert (connection.is_open, session.get(IMS)) == (True, None)


def test_a_running_bridge_far_away_is_held_and_goes_on_when_a_definition_changes(
    manager: QueueManager, connection: Connection, session: Session, held: HeldBridges
) -> None:
    calls = Calls(fail_count=1)

    def fail_first(request: Request, _iih: IIH | None) -> bytes:
        calls()
        return request.upper()

    bridge = ImsBridge(connection, queue=IMS, transaction=fail_first)
    bridge.start()
    ask(session, data=b"hello")
    held.wait()
    assert (calls.count, manager.counts(REPLIES).live) == (1, 0)
    assert manager.mqsc(f"ALTER QLOCAL({DEAD}) DESCR('changed')").ok
    reply = session.get(REPLIES, wait_ms=1)
    assert reply is not None
    assert (reply.body[84:], calls.count) == (b"HELLO", 2)
    bridge.stop()
    assert not bridge.is_running
    ask(session)
    assert manager.counts(IMS).live == 1


def test_it_ends_with_its_connection(
    manager: QueueManager, session: Session, held: HeldBridges
) -> None:
    """While it waits for a request, and while it is held."""

    def fail(_request: Request, _iih: IIH | None) -> bytes:
        raise OSError("no disk")

    for is_held in (False, True):
        with serving(manager) as served:
            bridge = ImsBridge(served.connect("operator"), queue=IMS, transaction=fail)
            bridge.start()
            if is_held:
                ask(session)
                held.wait()
        bridge._join()
        assert not bridge.is_running
    assert manager.counts(IMS).live == 1


def test_a_user_of_limited_authority_cannot_put_replies_for_others(
    manager: QueueManager, session: Session
) -> None:
    assert manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)").ok
    with serving(manager) as served:
        connection = served.connect("anna")
        with refused(rc.MQRC_NOT_AUTHORIZED):
            connection.call(
                Reply(REPLIES, "", b"x", packed_descriptor(Descriptor()), putter="root")
            )
        connection.close(commit=False)
    assert session.get(REPLIES) is None

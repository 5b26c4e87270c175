"""A connection over a socket: its verbs, what ends it, and how failures to connect are told."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Administration
from mayfly.client.connection import remote as remote_connections
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import HEADER, MAGIC, PREAMBLE
from mayfly.verbs.messages import Settlement
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, PERSISTENT, VOLATILE, Told, got, put
from tests.connection.serving import HOST, Served, serving
from tests.facts import wait_until


@pytest.fixture(params=["tcp", "unix"])
def served(
    request: pytest.FixtureRequest, queue_manager: QueueManager, tmp_path: Path
) -> Iterator[Served]:
    """``QM1`` served, with the queues ``Q1`` and ``DEAD``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)").ok
    grants = "\n".join(
        f"SET AUTHREC PROFILE({name}) OBJTYPE({kind}) PRINCIPAL('anna') AUTHADD(ALL)"
        for name, kind in (("QM1", "QMGR"), ("Q1", "QUEUE"), ("DEAD", "QUEUE"))
    )
    assert queue_manager.mqsc(grants).ok
    with serving(queue_manager, socket=tmp_path / "s" if request.param == "unix" else None) as it:
        yield it


@pytest.fixture
def remote(served: Served) -> Iterator[RemoteConnection]:
    """A connection of ``anna`` over a socket."""
    connected = served.connect()
    yield connected
    connected.close(commit=False)


@pytest.fixture
def queue(remote: RemoteConnection) -> int:
    """``Q1``, open for input, output and browse."""
    return remote.call(ask.Open("Q1", BOTH_WAYS)).handle


def test_a_message_comes_as_it_was_put_with_its_life(
    remote: RemoteConnection, queue: int, clock: VirtualClock
) -> None:
    descriptor = Descriptor(format="MQSTR", reply_to_q="ANSWERS", priority=7, persistence=1)
    result = remote.put(
        queue, b"\x00two\xff", descriptor, correl_id=b"c" * 24, expiry_tenths=600, delay_ms=0
    )
    assert result is not None
    clock.advance(1_000)
    message = remote.get(queue).message
    assert (message.body, message.msg_id, message.correl_id) == (
        b"\x00two\xff",
        result.msg_id,
        b"c" * 24,
    )
    assert (message.remaining_tenths, message.backout_count) == (590, 0)
    assert message.descriptor == result.descriptor
    assert (result.descriptor.user_identifier, result.descriptor.put_appl_name) == ("anna", "tests")
    assert remote.now_ms() == clock.now_ms()


def test_a_unit_of_work_is_committed_and_backed_out(
    queue_manager: QueueManager, remote: RemoteConnection, queue: int
) -> None:
    put(remote, queue, b"1", options=c.MQPMO_SYNCPOINT, descriptor=PERSISTENT)
    assert queue_manager.counts("Q1").live == 0
    remote.call(ask.Commit())
    assert remote.get(queue, c.MQGMO_SYNCPOINT).message.body == b"1"
    remote.call(ask.Backout())
    assert remote.get(queue).message.backout_count == 1
    with pytest.raises(MQError) as none_left:
        remote.get(queue)
    assert none_left.value.reason == rc.MQRC_NO_MSG_AVAILABLE


def test_a_get_that_waits_is_told_by_the_put_of_another_connection(
    served: Served, remote: RemoteConnection, queue: int
) -> None:
    brought: list[bytes] = []
    getter = threading.Thread(
        target=lambda: brought.append(
            remote.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED).message.body
        )
    )
    getter.start()
    other = served.connect()
    put(other, other.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle, b"here")
    getter.join(JOIN_SECONDS)
    assert brought == [b"here"]
    other.close()


@pytest.mark.parametrize("options", [c.MQGMO_NONE, c.MQGMO_BROWSE_NEXT])
def test_G4_a_wait_ends_at_its_moment_of_the_queue_managers_time(
    remote: RemoteConnection, queue: int, clock: VirtualClock, served: Served, options: int
) -> None:
    told: list[int] = []

    def get() -> None:
        with pytest.raises(MQError) as over:
            remote.get(queue, options | c.MQGMO_WAIT, wait_ms=5_000)
        told.append(over.value.reason)

    getter = threading.Thread(target=get)
    getter.start()
    wait_until(lambda: any(status.is_running for status in served.server.connections()))
    clock.advance(4_999)
    assert getter.is_alive()
    clock.advance(1)
    getter.join(JOIN_SECONDS)
    assert told == [rc.MQRC_NO_MSG_AVAILABLE]


def test_attributes_are_inquired_and_errors_keep_class_reason_and_detail(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    handle = remote.call(ask.Open("Q1", c.MQOO_INQUIRE)).handle
    inquiry = remote.call(ask.Inquire(handle, [c.MQIA_MAX_Q_DEPTH, c.MQCA_Q_NAME]))
    assert (inquiry.values[0], str(inquiry.values[1]).strip()) == (5_000, "Q1")
    with queue_manager.session() as session, pytest.raises(MQError) as local:
        session.open("NO.QUEUE", c.MQOO_OUTPUT)
    with pytest.raises(type(local.value)) as far:
        remote.call(ask.Open("NO.QUEUE", c.MQOO_OUTPUT))
    assert (far.value.reason, far.value.detail) == (local.value.reason, local.value.detail)


def test_deliveries_are_told_settled_and_cancelled(
    queue_manager: QueueManager, remote: RemoteConnection, queue: int
) -> None:
    told = Told()
    standing = remote.begin(ask.GetAny([queue], c.MQGMO_WAIT), told)
    put(remote, queue, b"1", descriptor=VOLATILE)
    told.wait()
    assert (told.bodies, standing.cancel()) == ([b"1"], False)
    remote.call(ask.Settle([told.deliveries[0].number], Settlement.BACKED_OUT))
    again = got(remote, queue)
    assert again.result.message.backout_count == 1
    remote.call(ask.Settle([again.number], Settlement.TAKEN))
    cancelled = Told()
    standing = remote.begin(ask.GetAny([queue], c.MQGMO_WAIT), cancelled)
    assert (standing.cancel(), standing.cancel()) == (True, False)
    put(remote, queue, b"2")
    assert (cancelled.outcomes, queue_manager.curdepth("Q1")) == ([], 1)


def test_an_operator_administers_and_a_user_of_limited_authority_does_not(served: Served) -> None:
    operator = served.connect("operator")
    assert (
        Administration(operator.call).mqsc("DISPLAY QLOCAL(Q1) MAXDEPTH").rows[0]["MAXDEPTH"]
        == 5_000
    )
    assert Administration(operator.call).verify().ok
    operator.close()
    anna = served.connect("anna")
    with pytest.raises(MQError) as refused:
        Administration(anna.call).mqsc("DISPLAY QMGR")
    assert refused.value.reason == rc.MQRC_NOT_AUTHORIZED
    anna.close()


def test_a_broken_connection_backs_out_gives_back_and_closes(
    queue_manager: QueueManager, served: Served
) -> None:
    doomed = served.connect()
    queue = doomed.call(ask.Open("Q1", BOTH_WAYS)).handle
    put(doomed, queue, b"got", descriptor=PERSISTENT)
    put(doomed, queue, b"held", descriptor=PERSISTENT)
    put(doomed, queue, b"uncommitted", options=c.MQPMO_SYNCPOINT)
    assert doomed.get(queue, c.MQGMO_SYNCPOINT).message.body == b"got"
    assert got(doomed, queue).result.message.body == b"held"
    [status] = served.server.connections()
    assert (status.user, status.open_handles, status.application) == ("anna", 1, "tests")
    assert served.server.end(status.number)
    with pytest.raises(ConnectionBroken) as broken:
        doomed.get(queue)
    assert broken.value.reason == rc.MQRC_CONNECTION_BROKEN
    assert doomed.is_broken
    wait_until(lambda: not served.server.connections() and queue_manager.counts("Q1").live >= 2)
    with queue_manager.session() as session:
        left = [(message.body, message.backout_count) for message in session.browse("Q1")]
    assert left == [(b"got", 1), (b"held", 1)]
    assert queue_manager.verify().ok


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"queue_manager": "QM9"}, rc.MQRC_Q_MGR_NAME_ERROR),
        ({"channel": "NONE"}, rc.MQRC_UNKNOWN_CHANNEL_NAME),
        ({"addresses": (Address(HOST, 1),)}, rc.MQRC_HOST_NOT_AVAILABLE),
        ({"addresses": (Address("no.such.host.invalid", 1),)}, rc.MQRC_HOST_NOT_AVAILABLE),
        ({"addresses": (Path("/nowhere/mq.sock"),)}, rc.MQRC_Q_MGR_NOT_AVAILABLE),
    ],
)
def test_what_refuses_a_connection_has_its_reason_code(
    served: Served, fields: dict[str, Any], reason: int
) -> None:
    with pytest.raises(MQError) as refused:
        served.connect(**fields)
    assert refused.value.reason == reason


def test_a_wrong_password_is_2035_and_the_next_address_is_not_asked(served: Served) -> None:
    endpoint = served.endpoint(addresses=(served.address, served.address))
    with pytest.raises(MQError) as refused:
        connect(endpoint, "anna", "wrong")
    assert refused.value.reason == rc.MQRC_NOT_AUTHORIZED
    assert len(served.admission.applicants) == 1


def test_the_addresses_are_tried_in_order(served: Served) -> None:
    endpoint = served.endpoint(addresses=(Address(HOST, 1), served.address))
    connection = connect(endpoint, "anna", "secret")
    assert connection.name == "QM1"
    connection.close()


@pytest.mark.interpreted
def test_an_address_that_takes_a_connection_and_answers_nothing_is_passed_over(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_connections, "CONNECT_SECONDS_OF_SEVERAL", 2.0)
    # As a server that is stopped: the system takes connections for it.
    with socket.create_server((HOST, 0)) as silent:
        address = Address(*silent.getsockname())
        endpoint = served.endpoint(addresses=(address, served.address))
        connection = connect(endpoint, "anna", "secret")
        assert connection.name == "QM1"
        connection.close()


def test_a_server_of_another_version_or_protocol_is_told(queue_manager: QueueManager) -> None:
    for first, said in (
        (PREAMBLE.pack(MAGIC, 7, 9), "speaks versions 7 to 9 of the protocol, this client version"),
        (b"HTTP/1.1 400 Bad", "is no server of Mayfly"),
    ):
        with socket.create_server((HOST, 0)) as listener:
            port = listener.getsockname()[1]
            thread = threading.Thread(target=_answer_once, args=(listener, first))
            thread.start()
            with pytest.raises(MQError) as refused:
                connect(Endpoint((Address(HOST, port),), "CH", "QM1"), "anna", "secret")
            thread.join(JOIN_SECONDS)
        assert refused.value.reason == rc.MQRC_Q_MGR_NOT_AVAILABLE
        assert said in refused.value.detail


def _answer_once(listener: socket.socket, first: bytes) -> None:
    accepted, _ = listener.accept()
    with accepted:
        accepted.sendall(first)
        while accepted.recv(4_096):
            pass


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"TSH \x00\x00\x01\x0c\x01\x01\x31\x00", "an IBM MQ client"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS, which is not configured"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"POST /rest HTTP/1.1\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 or gRPC"),
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
        (b"MFLY\x00\x07\x00\x09", "versions 7 to 9 of the protocol, this server version 4"),
        (b"\xde\xad\xbe\xef\x00\x00\x00\x00", "an unknown protocol"),
        (b"MFLY\x00\x04\x00\x04" + HEADER.pack(70_000, 1, 1), "a frame of 70000 bytes"),
        (b"MFLY\x00\x04\x00\x04" + HEADER.pack(2, 1, 1) + b"\xc1\xc1", "no msgpack array"),
    ],
)
def test_what_is_no_client_gets_a_line_in_the_log_and_is_closed(
    queue_manager: QueueManager, first: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(queue_manager) as served, caplog.at_level(logging.WARNING, "mayfly.wire"):
        assert isinstance(served.address, Address)
        with socket.create_connection(served.address) as stranger:
            stranger.settimeout(JOIN_SECONDS)
            stranger.sendall(first)
            with contextlib.suppress(ConnectionResetError):
                while stranger.recv(4_096):
                    pass
        lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert said in lines[0]


def test_P13_puts_that_do_not_wait_keep_their_order_and_ids_and_are_told_by_mqstat(
    queue_manager: QueueManager, remote: RemoteConnection, queue: int
) -> None:
    options = c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNCPOINT
    ids = [
        put(remote, queue, b"%d" % number, descriptor=PERSISTENT, options=options)
        for number in range(600)
    ]
    assert len(set(ids)) == 600
    remote.call(ask.Commit())
    with queue_manager.session() as session:
        there = [(message.body, message.msg_id) for message in session.browse("Q1")]
    assert there == [(b"%d" % number, ids[number]) for number in range(600)]
    assert remote.call(ask.AskStatus()).success_count == 600
    queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    put(remote, queue, b"refused", descriptor=VOLATILE, options=c.MQPMO_ASYNC_RESPONSE)
    status = remote.call(ask.AskStatus())
    assert (status.reason, status.failure_count) == (rc.MQRC_PUT_INHIBITED, 1)


def test_a_wrong_call_among_puts_that_do_not_wait_fails_the_commit(
    queue_manager: QueueManager, remote: RemoteConnection, queue: int
) -> None:
    options = c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNCPOINT
    put(remote, queue, b"good", descriptor=PERSISTENT, options=options)
    put(remote, queue, b"bad", descriptor=Descriptor(priority=99, persistence=1), options=options)
    put(remote, queue, b"worse", descriptor=PERSISTENT, options=options, expiry_tenths=0)
    with pytest.raises(MQError) as failed:
        remote.call(ask.Commit())
    assert failed.value.reason == rc.MQRC_BACKED_OUT
    assert "MQRC_EXPIRY_ERROR" in failed.value.detail
    assert queue_manager.curdepth("Q1") == 0
    remote.call(ask.Commit())
    put(remote, queue, b"x", options=c.MQPMO_ASYNC_RESPONSE | 1 << 30, descriptor=VOLATILE)
    with pytest.raises(MQError) as wrong:
        remote.call(ask.AskStatus())
    assert wrong.value.reason == rc.MQRC_OPTIONS_ERROR
    assert remote.call(ask.AskStatus()).failure_count == 0


def test_a_message_that_is_longer_than_the_channel_takes_is_not_sent(
    remote: RemoteConnection, queue: int
) -> None:
    with pytest.raises(MQError) as refused:
        put(remote, queue, bytes(4_194_305))
    assert refused.value.reason == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
    put(remote, queue, bytes(4_194_304))
    assert len(remote.get(queue).message.body) == 4_194_304


def test_a_take_over_a_network_holds_what_is_there_as_far_as_there_is_room(
    remote: RemoteConnection, queue: int
) -> None:
    for body in (b"1", b"2", b"3", b"4", b"5"):
        put(remote, queue, body)
    for most, max_bytes, bodies in (
        (1, 99, [b"1"]),
        (9, 2, [b"2", b"3"]),
        (9, 99, [b"4", b"5"]),
        (9, 99, []),
    ):
        found = remote.call(ask.TakeHeld(queue, c.MQGMO_NONE, most, max_bytes))
        assert [delivery.result.message.body for delivery in found] == bodies
        remote.call(ask.Settle([each.number for each in found], Settlement.TAKEN))
    assert remote.call(ask.TakeHeld(queue, c.MQGMO_NONE, 0, 99)) == []
    with pytest.raises(MQError) as caught:
        remote.call(ask.TakeHeld(queue, c.MQGMO_WAIT, 9, 99))
    assert caught.value.reason == rc.MQRC_OPTIONS_ERROR

"""What an operator sees of clients and does to them, and what a listener does by itself."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import self_signed_certificate
from mayfly.channel import ChannelState
from mayfly.cli.hosting import next_signal
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.listeners import Host, MqListener
from mayfly.servers.settings import ClientLimits, TlsFiles
from mayfly.testing import VirtualClock
from mayfly.testing.served import ServedQueueManager
from mayfly.verbs import requests as ask
from tests.facts import wait_until

TOKEN = "t" * 43
ANY_PORT = ListenAddress("127.0.0.1", 0)
DAY_MS = 86_400_000
NO_TLS, NO_LIMITS = TlsFiles(), ClientLimits()


@contextlib.contextmanager
def listening(
    manager: QueueManager, tls: TlsFiles = NO_TLS, limits: ClientLimits = NO_LIMITS
) -> Iterator[tuple[MqListener, int]]:
    admission = Admission([manager.engine], token=TOKEN)
    listener = MqListener([manager], admission, ANY_PORT, tls=tls, limits=limits)
    try:
        yield listener, int(listener.start().rpartition(":")[2])
    finally:
        listener.stop()
        admission.close()


def operator(port: int) -> RemoteConnection:
    """Connect over a socket of its own: the server ends sockets."""
    endpoint = Endpoint((Address("127.0.0.1", port),), "", "QM1", share_conversations=1)
    return connect(endpoint, "root", TOKEN)


def reason_of(program: Client) -> int:
    with pytest.raises(MQError) as caught:
        program.put("DEV.QUEUE.1", b"x")
    return caught.value.reason


def test_an_operator_sees_a_client_and_ends_it(served_queue_manager: ServedQueueManager) -> None:
    served = served_queue_manager
    qm = served.queue_manager
    # Each has a socket of its own: with it the server ends all that share it.
    assert qm.mqsc("ALTER CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) SHARECNV(1)").ok
    program, other = served.connect(transacted=True), served.connect()
    program.put("DEV.QUEUE.1", b"not committed")
    rows = qm.mqsc("DISPLAY CONN(*) WHERE(CHANNEL EQ DEV.APP.SVRCONN)").rows
    assert [(row["USERID"], row["APPLTAG"], row["CONNAME"]) for row in rows] == [
        ("app", "pytest", "127.0.0.1")
    ] * 2
    [busy] = [row for row in rows if row["UOWSTATE"] == "ACTIVE"]
    [held] = qm.mqsc(f"DISPLAY CONN({busy['CONN']}) TYPE(HANDLE)").rows
    assert held["OBJNAME"] == "DEV.QUEUE.1"
    shown = qm.mqsc("DISPLAY CHSTATUS(DEV.APP.SVRCONN)").rows
    assert [(row["STATUS"], row["MCAUSER"], row["CURSHCNV"]) for row in shown] == [
        ("RUNNING", "app", 1)
    ] * 2
    assert qm.mqsc(f"STOP CONN({busy['CONN']})").ok
    assert reason_of(program) == rc.MQRC_CONNECTION_BROKEN
    wait_until(lambda: qm.curdepth("DEV.QUEUE.1") == 0)
    other.put("DEV.QUEUE.1", b"the other goes on")
    # By the other channel: the administrator is not ended by his own command.
    assert served.mqsc("STOP CHANNEL(DEV.APP.SVRCONN)").ok
    assert reason_of(other) == rc.MQRC_CONNECTION_BROKEN
    with pytest.raises(MQError) as caught:
        served.connect()
    assert caught.value.reason == rc.MQRC_CHANNEL_NOT_AVAILABLE
    assert served.mqsc("START CHANNEL(DEV.APP.SVRCONN)").ok
    with served.connect() as program:
        assert program.get("DEV.QUEUE.1") is not None


def test_a_connection_without_requests_ends_after_idle_seconds(
    queue_manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    """A look is a second: the first notes the requests, the third finds as many again."""
    caplog.set_level(logging.INFO, "mayfly")
    with listening(queue_manager, limits=ClientLimits(idle_seconds=2)) as (listener, port):
        idle, busy = operator(port), operator(port)
        for _ in range(2):
            listener.look()
            busy.now_ms()
        assert not idle.is_broken
        listener.look()
        wait_until(lambda: idle.is_broken)
        assert f"connection {idle.number} of root has asked for nothing for 2 s" in caplog.text
        busy.now_ms()
        busy.close()


def test_CHSTATUS_shows_the_interval_and_the_bytes_of_a_client(
    served_queue_manager: ServedQueueManager,
) -> None:
    qm = served_queue_manager.queue_manager
    assert qm.mqsc("ALTER CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) HBINT(20)").ok
    with served_queue_manager.connect() as program:
        [before] = qm.mqsc("DISPLAY CHSTATUS(DEV.APP.SVRCONN)").rows
        program.put("DEV.QUEUE.1", bytes(10_000))
        assert program.get("DEV.QUEUE.1") is not None
        [after] = qm.mqsc("DISPLAY CHSTATUS(DEV.APP.SVRCONN)").rows
    assert (before["HBINT"], after["HBINT"]) == (20, 20)
    for keyword in ("BYTSRCVD", "BYTSSENT"):
        assert 0 < int(before[keyword]) < 10_000 < int(after[keyword]) < 20_000


def test_a_message_channel_without_messages_is_not_ended_after_idle_seconds(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by DISCINT; ended from here it would come again and again."""
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    assert queue_manager.mqsc("DEFINE CHANNEL(IN) CHLTYPE(RCVR)").ok
    with (
        listening(queue_manager, limits=ClientLimits(idle_seconds=1)) as (listener, port),
        QueueManager("OTHER", clock=VirtualClock(0)) as sender,
    ):
        assert sender.mqsc(
            f"""
            DEFINE QLOCAL(X) USAGE(XMITQ)
            DEFINE CHANNEL(IN) CHLTYPE(SDR) TRPTYPE(TCP) CONNAME('127.0.0.1({port})') XMITQ(X)
            START CHANNEL(IN)
            """
        ).ok
        witness = operator(port)
        for _ in range(4):
            listener.look()
        # It has come later, and its end is seen here.
        wait_until(lambda: witness.is_broken)
        [receiver] = queue_manager.channels.status("IN")
        assert receiver.status is ChannelState.RUNNING
        sender.channels.ping("IN")


def test_reload_takes_a_new_certificate_and_keeps_the_old_one_when_it_is_wrong(
    queue_manager: QueueManager, tmp_path: Path
) -> None:
    files = TlsFiles(*self_signed_certificate(tmp_path, ["localhost"], 0))
    assert files.certificate is not None

    def shown(port: int) -> bytes | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            return encrypted.getpeercert(binary_form=True)

    with listening(queue_manager, files) as (listener, port):
        first = shown(port)
        files.certificate.write_text("damaged")
        with pytest.raises(OSError, match=r"developer-cert\.pem"):
            listener.reload()
        assert shown(port) == first
        self_signed_certificate(tmp_path, ["localhost"], 400 * DAY_MS)
        listener.reload()
        assert shown(port) not in (first, None)


def test_a_server_ends_when_no_queue_manager_is_left_running(
    queue_manager: QueueManager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueManager("QM2", tmp_path) as left:
        admission = Admission([left.engine])
        host = Host([queue_manager, left], [], admission)
        left.crash()
        assert host.stopped_managers() == host.stopped_managers() == ["QM2"]
        assert caplog.text.count("QM2 has stopped") == 1
        alone = Host([left], [], admission)
        with pytest.raises(CommandFailed, match="QM2: stopped by an error of the disk") as caught:
            next_signal(alone, queue.SimpleQueue(), [])
        assert caught.value.code is ExitCode.FILE
        admission.close()


def test_other_limits_count_from_a_reload_on(queue_manager: QueueManager) -> None:
    with listening(queue_manager, limits=ClientLimits(connections=1)) as (listener, port):
        first = operator(port)
        with pytest.raises(MQError) as refused:
            operator(port)
        assert refused.value.reason == rc.MQRC_CONNECTION_BROKEN
        listener.limit(ClientLimits(connections=2, heartbeat_seconds=7))
        second = operator(port)
        assert first.now_ms() == second.now_ms()
        assert second.conversation.link.tick_ms == 3_500
        first.close()
        second.close()


def test_another_memory_counts_from_a_reload_on(queue_manager: QueueManager) -> None:
    """The longest message that a client may put is told at its connect."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    long = bytes(1_500_000)
    with listening(queue_manager) as (listener, port):
        for memory_bytes in (2_000_000, 1_048_576):
            listener.limit(ClientLimits(memory_bytes=memory_bytes))
            client = operator(port)
            if memory_bytes > len(long):
                client.call(ask.Put1.of("Q1", long, Descriptor()))
            else:
                with pytest.raises(MQError) as refused:
                    client.call(ask.Put1.of("Q1", long, Descriptor()))
                assert refused.value.reason == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
            client.close()
    assert queue_manager.curdepth("Q1") == 1

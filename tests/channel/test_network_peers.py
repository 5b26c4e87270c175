"""Partners of a channel that are of another version, silent, hostile, stopped or about to end."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import msgpack

from mayfly import QueueManager
from mayfly.channel import ChannelState
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts import channels
from mayfly.verbs.contracts.channels import REQUESTS, VERSION
from mayfly.verbs.contracts.wire import DONE, FAILED, HEADER, OURS, PREAMBLE, Preamble, verb_of
from tests.channel.network_scene import TOKEN, Served, lead_to
from tests.channel.raw_sender import RawSender, envelope
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    bodies,
    done,
    put,
    receiving,
    sending,
    standing,
)
from tests.facts import wait_until

#: What the machine gives a test at most, and no test needs.
LONG_SECONDS = 60


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)


@pytest.fixture
def two() -> Iterator[QueueManager]:
    with receiving(VirtualClock(START_MS)) as manager:
        yield manager
        assert manager.verify().ok


@pytest.fixture
def one(clock: VirtualClock, server: Served) -> Iterator[QueueManager]:
    with sending(clock) as manager:
        lead_to(manager, server.port)
        yield manager
        assert manager.verify().ok


Answers = Callable[[int, list[Any]], list[Any] | None]


@contextlib.contextmanager
def partner(answers: Answers, preamble: bytes = OURS.packed()) -> Iterator[int]:
    """Listen for one sender after the other; yield the port.

    ``answers`` gives the answer to a request, None to be silent from then on.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError, EOFError):
                client.sendall(preamble)
                _read(client, PREAMBLE.size)
                while True:
                    length, conversation, request = HEADER.unpack(_read(client, HEADER.size))
                    verb, *values = msgpack.decode(_read(client, length))
                    answer = answers(verb, values)
                    if answer is None:
                        ended.wait(LONG_SECONDS)
                        break
                    outcome, *rest = answer
                    value = rest if outcome == FAILED else rest[0]
                    payload = msgpack.encode([outcome, value])
                    frame = HEADER.pack(len(payload), conversation, request) + payload
                    client.sendall(frame)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def failure_towards(port: int, clock: VirtualClock, more: str = "") -> str:
    """Return why a sender that is led to a port retries, its message kept."""
    with sending(clock) as one:
        lead_to(one, port, more=more)
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert (standing(one).status, one.curdepth(XMITQ)) == (ChannelState.RETRYING, 1)
        return standing(one).failure


# Versions


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
def test_a_sender_of_another_version_is_told_both_versions(
    server: Served, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    said = f"message channels of version {version} are not spoken here: {VERSION}"
    with RawSender(server.port) as old:
        old.send(msgpack.encode([verb_of(channels.Introduction), version, ["later"]]))
        assert said in old.end_said()
    assert f"AMQ9503E: 127.0.0.1({server.port})" not in caplog.text
    assert "AMQ9503E" in caplog.text
    assert said in caplog.text


def test_a_receiver_of_another_version_is_named_in_FAILURE(clock: VirtualClock) -> None:
    with partner(lambda _verb, _values: None, Preamble(7, 9).packed()) as port:
        said = f"127.0.0.1({port}) speaks versions 7 to 9 of the protocol, this client version 4"
        assert failure_towards(port, clock) == said


def test_a_server_that_knows_no_channels_is_named_in_FAILURE(clock: VirtualClock) -> None:
    unknown = [FAILED, "ConnectionBroken", rc.MQRC_HCONN_ERROR, "conversation 1 is not open"]
    with partner(lambda _verb, _values: unknown) as port:
        said = f"127.0.0.1({port}) is served by a Mayfly that takes no channels"
        assert failure_towards(port, clock) == said


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"\0\0\x12\x04\0\0\0\0\0" + bytes(18), "HTTP/2 or gRPC, as a port of Arrow Flight does"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an unknown protocol that begins with b'HTTP/1.1 400"),
    ],
)
def test_a_port_of_another_protocol_is_named_in_FAILURE(
    clock: VirtualClock, first: bytes, said: str
) -> None:
    with partner(lambda _verb, _values: None, first) as port:
        assert said in failure_towards(port, clock)


@pytest.mark.slow
def test_a_port_of_Flight_that_a_stored_channel_leads_to_is_named_in_FAILURE(
    two: QueueManager, clock: VirtualClock
) -> None:
    """Where channels went before they spoke this protocol."""
    from mayfly.servers.flight import FlightServer

    with FlightServer(two, port=0, token=TOKEN) as flight:
        assert "as a port of Arrow Flight does" in failure_towards(flight.port, clock)


# Silence


@pytest.mark.slow
def test_a_partner_that_accepts_and_never_answers_is_given_up(clock: VirtualClock) -> None:
    """After twice HBINT of real time, as no clock of messages runs meanwhile."""
    with partner(lambda _verb, _values: None) as port:
        assert "timed out" in failure_towards(port, clock, "HBINT(1)")


@pytest.mark.slow
def test_a_partner_that_falls_silent_in_a_batch_is_given_up_after_two_heartbeats(
    clock: VirtualClock,
) -> None:
    def answers(verb: int, _values: list[Any]) -> list[Any] | None:
        if verb == verb_of(channels.Introduction):
            return [DONE, ["QM2", 200]]
        if verb == verb_of(channels.Negotiation):
            return [DONE, ["QM2", "", 0, 50, 1_000_000]]
        return None

    with partner(answers) as port:
        assert "sent nothing for two heartbeats" in failure_towards(port, clock)


# STOP and drain


def test_STOP_at_a_receiver_ends_the_conversation_and_START_lets_it_begin_again(
    one: QueueManager, two: QueueManager, server: Served, clock: VirtualClock
) -> None:
    one.channels.start(CHANNEL)
    put(one, b"1")
    [status] = server.server.connections()
    assert (status.channel, status.sending_manager, status.address) == (CHANNEL, "QM1", "127.0.0.1")
    done(two, f"STOP CHANNEL({CHANNEL})")
    wait_until(lambda: server.server.connections() == [])
    assert standing(two).status is ChannelState.STOPPED
    put(one, b"2")
    assert standing(one).status is ChannelState.RETRYING
    assert standing(one).failure == f"CHANNEL({CHANNEL}) has ended at QM2"
    done(two, f"START CHANNEL({CHANNEL})")
    clock.advance(60_000)
    assert (standing(one).status, bodies(two)) == (ChannelState.RUNNING, [b"1", b"2"])


def test_STOP_CONN_ends_the_conversation_of_a_channel(
    one: QueueManager, two: QueueManager, server: Served
) -> None:
    from mayfly.channel import clients_known

    one.channels.start(CHANNEL)
    with clients_known(two.engine, server.server):
        [row] = two.mqsc(f"DISPLAY CONN(*) WHERE(CHANNEL EQ {CHANNEL})").rows
        assert row["CONNAME"] == "127.0.0.1"
        done(two, f"STOP CONN({row['CONN']})")
        wait_until(lambda: standing(two).status is ChannelState.INACTIVE)
        assert server.server.connections() == []


def test_CHSTATUS_shows_the_bytes_and_heartbeats_of_both_ends(
    one: QueueManager, two: QueueManager, server: Served
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) HBINT(3333)")
    one.channels.start(CHANNEL)
    [before] = two.mqsc(f"DISPLAY CHSTATUS({CHANNEL})").rows
    put(one, bytes(10_000))
    [sender] = one.mqsc(f"DISPLAY CHSTATUS({CHANNEL})").rows
    [receiver] = two.mqsc(f"DISPLAY CHSTATUS({CHANNEL})").rows
    assert (sender["HBINT"], receiver["HBINT"]) == (3333, 3333)
    assert (receiver["CONNAME"], receiver["RQMNAME"]) == ("127.0.0.1", "QM1")
    assert int(receiver["BYTSRCVD"]) - int(before["BYTSRCVD"]) > 10_000
    assert int(before["BYTSRCVD"]) < 1_000
    # All is answered: what one has sent the other has received.
    assert sender["BYTSSENT"] == receiver["BYTSRCVD"]
    assert sender["BYTSRCVD"] == receiver["BYTSSENT"]
    assert (receiver["MSGS"], receiver["BATCHES"], receiver["CURSEQNO"]) == (1, 1, 1)
    one.channels.stop(CHANNEL)
    [stopped] = one.mqsc(f"DISPLAY CHSTATUS({CHANNEL})").rows
    assert (stopped["HBINT"], stopped["BYTSSENT"]) == (0, 0)


def test_a_drain_lets_a_batch_be_confirmed_and_begins_no_other(
    two: QueueManager, server: Served
) -> None:
    with RawSender(server.port) as busy, RawSender(server.port) as idle:
        idle.introduced()
        busy.begun()
        busy.sent(envelope())
        drained: list[bool] = []
        draining = threading.Thread(
            target=lambda: drained.append(server.server.drain(LONG_SECONDS * 1_000))
        )
        draining.start()
        # It has nothing to finish: the drain has begun.
        assert "the server ends" in idle.end_said()
        # In one go: the next batch comes while the connection is still there.
        frames = [
            msgpack.encode([verb_of(channels.Confirm), "A", 1]),
            msgpack.encode([verb_of(channels.PutBatch), 1, [envelope(body=b"next")]]),
        ]
        requests = (101, 102)
        busy.socket.sendall(
            b"".join(
                HEADER.pack(len(frame), 1, request) + frame
                for frame, request in zip(frames, requests, strict=True)
            )
        )
        assert busy.answer_to(101) == [DONE, None]
        assert busy.answer_to(102)[2] == rc.MQRC_Q_MGR_QUIESCING
        assert "the server ends" in busy.end_said()
        draining.join()
    assert (drained, bodies(two)) == ([True], [b"x"])


# Hostile partners


def test_a_message_longer_than_agreed_is_refused(server: Served, two: QueueManager) -> None:
    done(two, f"ALTER CHANNEL({CHANNEL}) MAXMSGL(1000)")
    with RawSender(server.port) as sender:
        sender.begun()
        refused = sender.sent(envelope(body=bytes(1_001)))
        assert refused[2] == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
        assert refused[3] == "envelope.body: 1001 bytes; 1000 were agreed on"
        assert sender.sent(envelope(body=bytes(1_000))) == [DONE, None]
        sender.socket.sendall(HEADER.pack(1_000 + 65_536 + 1, 1, 99))
        assert "may come" in sender.end_said()


@pytest.mark.slow
def test_random_frames_of_senders_end_connections_and_nothing_else(
    one: QueueManager, two: QueueManager, server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Mutated everywhere; memory stays that of the frames, and a true sender works beside them."""
    chance = random.Random(20261123)
    done(two, "DEFINE CHANNEL(OTHER) CHLTYPE(RCVR) MAXMSGL(2000)")
    one.channels.start(CHANNEL)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(150):
            with contextlib.suppress(EOFError, OSError), RawSender(server.port) as sender:
                if chance.random() < 0.9:
                    sender.introduced(channel="OTHER", sending_manager="QM9")
                if chance.random() < 0.8:
                    sender.negotiated()
                for _ in range(chance.randrange(1, 12)):
                    sender.socket.sendall(mutated(chance))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40_000_000
    put(one, b"alive")
    assert b"alive" in bodies(two)
    wait_until(lambda: len(server.server.connections()) == 1)
    assert [record for record in caplog.records if record.exc_info] == []


def mutated(chance: random.Random) -> bytes:
    """Return a frame of a sender that may be wrong anywhere."""
    verb = int(chance.choice([*REQUESTS, 5, 999]))
    count = chance.randrange(4)
    envelopes = [value_of(chance) for _ in range(count)]
    luw = chance.choice(("A", "", "x" * 90))
    fitting: dict[int, list[Any]] = {
        verb_of(channels.Introduction): [VERSION, "OTHER", "QM2", "QM9", TOKEN, 0],
        verb_of(channels.Negotiation): [
            chance.randrange(3),
            50,
            2_000,
            chance.random() < 0.5,
            300,
            "i",
        ],
        verb_of(channels.Envelopes): [envelopes],
        verb_of(channels.PutBatch): [count, envelopes],
        verb_of(channels.KeepBatch): [count, envelopes],
        verb_of(channels.GoOn): [chance.choice((0, 5, 2**62))],
        verb_of(channels.Confirm): [luw, chance.randrange(-1, 2**31)],
    }
    values = [verb, *fitting.get(verb, [])]
    if chance.random() < 0.3:
        values[chance.randrange(len(values))] = chance.choice((None, -1, "x", b"", [], 2**64 - 1))
    payload = bytearray(msgpack.encode(values))
    for _ in range(chance.choice((0, 0, 0, 1, 4))):
        payload[chance.randrange(len(payload))] = chance.randrange(256)
    length = len(payload) if chance.random() < 0.9 else chance.randrange(2**32)
    header = struct.pack(">III", length, chance.choice((0, 1, 1, 1, 2)), chance.randrange(2**32))
    return header + bytes(payload)


def value_of(chance: random.Random) -> list[Any]:
    """Return a message that travels, perhaps with a field that none has."""
    fields: dict[str, Any] = {
        "queue": "IN",
        "life_ms": chance.choice((None, 0, 5, 2**62)),
        "body": b"fuzz",
    }
    if chance.random() < 0.4:
        name = chance.choice(("queue", "manager", "descriptor", "msg_id", "life_ms", "is_fast"))
        fields[name] = chance.choice((None, 7, "@", b"\xc1", "\xfc" * 60, [], True))
    return envelope(**fields)

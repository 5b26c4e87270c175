"""Clients that send nonsense, too much or nothing, or do not read: nobody else waits for them."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any, Self, get_type_hints

import pytest
from msgspec import MsgspecError, msgpack

from mayfly import QueueManager
from mayfly.admin.security.applicant import Admitted
from mayfly.client.connection import Administration
from mayfly.client.connection.endpoint import Address
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.servers.wire import Limits
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import (
    DONE,
    FAILED,
    HEADER,
    OURS,
    PREAMBLE,
    Preamble,
    decoder,
    packed_descriptor,
    verb_of,
)
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, VOLATILE, put
from tests.connection.serving import Served, serving
from tests.facts import wait_until

SHORT_TERMS = Admitted(user="", heartbeat_s=1)


def answer_in(payload: bytes) -> list[Any]:
    """Return an answer: DONE and the value, or FAILED, class, reason code and detail."""
    outcome, value = msgpack.decode(payload)
    return [outcome, *value] if outcome == FAILED else [outcome, value]


class Raw:
    """A client that sends what it likes."""

    def __init__(
        self, served: Served | Address, conversation: int = 1, versions: Preamble = OURS
    ) -> None:
        address = served if isinstance(served, Address) else served.address
        assert isinstance(address, Address)
        self.socket = socket.create_connection(address)
        self.socket.settimeout(JOIN_SECONDS)
        self.conversation = conversation
        self.last_request = 0
        self.socket.sendall(versions.packed())
        assert self.read(PREAMBLE.size) == OURS.packed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()

    def send(self, payload: bytes) -> int:
        """Send a frame; return the number of the request."""
        self.last_request += 1
        self.socket.sendall(
            HEADER.pack(len(payload), self.conversation, self.last_request) + payload
        )
        return self.last_request

    def ask(self, *values: object) -> Any:
        """Send a request and return its answer."""
        request = self.send(msgpack.encode(values))
        while True:
            length, _conversation, answered = HEADER.unpack(self.read(HEADER.size))
            payload = self.read(length)
            if answered == request:
                return answer_in(payload)

    def connect(self, user: str = "", heartbeat_ms: int = 0) -> None:
        """Be let in."""
        said = ["CH", "QM1", user, "secret", "raw", heartbeat_ms]
        assert self.ask(verb_of(ask.Connect), *said)[0] == DONE

    def opened(self, name: str = "Q1") -> int:
        """Return the handle of a queue."""
        asked = [name, BOTH_WAYS, c.MQOT_Q, "", "", "AMQ.*", None, ""]
        handle: int = self.ask(verb_of(ask.Open), *asked)[1][0]
        return handle

    def is_closed(self) -> bool:
        """Read until the server closes."""
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(65_536):
                pass
        return True

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` served, with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(100000)").ok
    with serving(queue_manager, limits=Limits(outstanding_bytes=262_144)) as it:
        yield it


def _put_fields(queue: int, **other: object) -> list[object]:
    fields: dict[str, object] = {
        "descriptor": packed_descriptor(Descriptor()),
        "options": 0,
        "handle": queue,
        "context": 0,
        "body": b"x",
        "msg_id": b"",
        "correl_id": b"",
        "expiry_tenths": -1,
        "time_to_live_ms": None,
        "delay_ms": 0,
        "properties": [],
    }
    *head, body, msg_id, correl_id, expiry, life, delay, properties = (fields | other).values()
    return [*head, [body, msg_id, correl_id, expiry, life, delay, properties]]


#: Those that the queue manager gives for a wrong value of a field.
REASONS = {
    "handle": rc.MQRC_HOBJ_ERROR,
    "descriptor": rc.MQRC_MD_ERROR,
    "msg_id": rc.MQRC_MD_ERROR,
    "time_to_live_ms": rc.MQRC_EXPIRY_ERROR,
    "properties": rc.MQRC_PROPERTY_TYPE_ERROR,
}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("handle", "1", "put.handle: '1': expected int, got str"),
        ("handle", True, "put.handle: True: expected int, got bool"),
        (
            "handle",
            2**64 - 1,
            "put.handle: 18446744073709551615: expected int <= 9223372036854775807",
        ),
        ("body", "text", "put.message.body: 'text': expected bytes, got str"),
        ("descriptor", b"\xc1", "put.descriptor: the frame is no msgpack array"),
        ("descriptor", bytes(5_000), "expected bytes of length <= 4096"),
        (
            "descriptor",
            msgpack.encode(["high", *Descriptor()[1:]]),
            "put.descriptor.report: 'high': expected int, got str",
        ),
        (
            "msg_id",
            b"x" * 25,
            "put.message.msg_id: b'xxxxxxxxxxxxxxxxxxxxxxxxx': expected bytes of length <= 24",
        ),
        (
            "time_to_live_ms",
            1.5,
            "put.message.time_to_live_ms: 1.5: expected int | null, got float",
        ),
        ("properties", 7, "put.message.properties: 7: expected array, got int"),
        (
            "properties",
            [["a", "i4"]],
            "put.message.properties[0]: an array of 2: expected array of length 6, got 2",
        ),
        (
            "properties",
            [["a", "i4", [], 1, 0, 22]],
            "put.properties: an array or a map is no number, text, flag, bytes or nil",
        ),
    ],
)
def test_a_wrong_field_is_refused_by_its_name_and_the_connection_goes_on(
    served: Served, field: str, value: object, said: str
) -> None:
    with Raw(served) as raw:
        raw.connect()
        handle = raw.opened()
        outcome, _class, reason, detail = raw.ask(
            verb_of(ask.Put), *_put_fields(handle, **{field: value})
        )
        assert (outcome, reason) == (FAILED, REASONS.get(field, rc.MQRC_UNEXPECTED_ERROR))
        assert said in detail
        assert raw.ask(verb_of(ask.Put), *_put_fields(handle))[0] == DONE


def test_an_unknown_verb_and_a_conversation_that_is_not_open_are_refused(served: Served) -> None:
    with Raw(served) as raw:
        assert raw.ask(verb_of(ask.Now))[2] == rc.MQRC_HCONN_ERROR
        raw.connect()
        for verb in (999, "put", -1, 2**63):
            assert raw.ask(verb)[2] == rc.MQRC_FUNCTION_NOT_SUPPORTED


def test_a_request_number_that_is_under_way_ends_the_connection(served: Served) -> None:
    with Raw(served) as raw:
        raw.connect()
        wait = [raw.opened(), c.MQGMO_WAIT, -1, None, b"", b"", b"", None, None, None, False, False]
        payload = msgpack.encode([verb_of(ask.Get), *wait])
        for _ in range(2):
            raw.socket.sendall(HEADER.pack(len(payload), 1, 77) + payload)
        assert raw.is_closed()


#: Arrays of arrays that claim to be long, and a text, bytes and a map that do.
LYING = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdc\xff\xff" * 2_000,
    b"\xdc\x0f\xff" * 2_000,
    b"\x91" * 60_000,
    b"\x91\xc6\xff\xff\xff\xff",
    b"\x91\xdb\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\x91\xc9\xff\xff\xff\xff\x01",
)


@pytest.mark.parametrize("number", range(len(LYING)))
def test_lengths_that_lie_cost_no_memory(served: Served, number: int) -> None:
    with Raw(served) as raw:
        gc.collect()
        tracemalloc.start()
        try:
            raw.send(LYING[number])
            assert raw.is_closed()
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak_bytes < 40_000_000


def test_frames_are_short_until_somebody_is_let_in(served: Served) -> None:
    with Raw(served) as raw:
        raw.socket.sendall(HEADER.pack(65_537, 1, 1))
        assert raw.is_closed()
    with Raw(served) as raw:
        raw.connect()
        longest_bytes = Admitted(user="").max_message_bytes
        raw.socket.sendall(HEADER.pack(longest_bytes + 65_537, 1, 9))
        assert raw.is_closed()


@pytest.mark.parametrize("count", [100, pytest.param(400, marks=pytest.mark.soak)])
def test_random_frames_end_connections_and_nothing_else(
    queue_manager: QueueManager, served: Served, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Frames that are mutated everywhere: header, verb, fields, lengths."""
    chance = random.Random(20261122)
    witness = served.connect("operator")
    queue = witness.call(ask.Open("Q1", BOTH_WAYS)).handle
    for _ in range(count):
        with contextlib.suppress(EOFError, OSError), Raw(served) as raw:
            if chance.random() < 0.8:
                raw.connect(heartbeat_ms=chance.choice((0, 60_000)))
                raw.opened()
            for _ in range(chance.randrange(1, 12)):
                raw.socket.sendall(_mutated(chance))
            if chance.random() < 0.5:
                raw.socket.settimeout(0.02)
                raw.socket.recv(4_096)
    put(witness, queue, b"alive", descriptor=VOLATILE)
    while witness.get(queue).message.body != b"alive":
        pass
    witness.close()
    wait_until(lambda: not served.server.connections())
    assert queue_manager.verify().ok
    assert [record for record in caplog.records if record.exc_info] == []


def _mutated(chance: random.Random) -> bytes:
    verb = chance.choice([*ask.VERBS, 0, 999])
    values = [verb, *(_value(chance, 0) for _ in range(chance.randrange(14)))]
    if verb in ask.VERBS and chance.random() < 0.8:
        hints = get_type_hints(ask.VERBS[verb], include_extras=True)
        fields = ask.VERBS[verb].__struct_fields__
        values = [verb, *(_fitting(chance, hints[field]) for field in fields)]
    payload = bytearray(msgpack.encode(values))
    for _ in range(chance.choice((0, 0, 1, 4))):
        payload[chance.randrange(len(payload))] = chance.randrange(256)
    length = len(payload) if chance.random() < 0.9 else chance.randrange(2**32)
    return struct.pack(">III", length, chance.choice((0, 1, 1, 1, 2)), chance.randrange(2**32)) + (
        bytes(payload)
    )


def _fitting(chance: random.Random, kind: object) -> object:
    """Return a value that passes as a field of a type."""
    for _ in range(60):
        value = _value(chance, 0)
        with contextlib.suppress(MsgspecError):
            decoder(kind).decode(msgpack.encode(value))
            return value
    return None


def _value(chance: random.Random, depth: int) -> object:
    kinds: list[object] = [
        chance.randrange(-(2**63), 2**64),
        chance.randrange(-3, 10),
        None,
        chance.random() < 0.5,
        chance.random(),
        chance.randbytes(chance.randrange(40)),
        "Q1",
        "x" * chance.randrange(60),
        chance.choice(("DISPLAY QMGR", "taken", "AMQ.*", "a = 1", "S/#", "QM1", "")),
        bytes(8 * chance.randrange(3)),
        packed_descriptor(Descriptor()),
    ]
    if depth < 3:
        kinds.append([_value(chance, depth + 1) for _ in range(chance.randrange(4))])
    return chance.choice(kinds)


def test_who_sends_half_a_frame_and_nothing_more_is_closed_and_holds_nobody(
    queue_manager: QueueManager,
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    # Long enough for the third of them to be admitted on a busy machine.
    limits = Limits(admission_ms=2_000)
    with (
        serving(queue_manager, limits=limits, terms=SHORT_TERMS) as served,
        Raw(served) as stranger,
        Raw(served) as half,
    ):
        half.connect()
        half.socket.sendall(HEADER.pack(100, 1, 5) + b"\x93")
        other = served.connect()
        queue = other.call(ask.Open("Q1", BOTH_WAYS)).handle
        for _ in range(20):
            put(other, queue, b"x", descriptor=VOLATILE)
        # One has not said who it is, the other has shown no sign of life for two heartbeats.
        assert stranger.is_closed()
        assert half.is_closed()
        assert other.get(queue).message.body == b"x"
        other.close()


def test_one_who_drips_bytes_is_not_let_wait_for_ever(queue_manager: QueueManager) -> None:
    with serving(queue_manager, limits=Limits(admission_ms=300)) as served, Raw(served) as drip:
        drip.socket.settimeout(0.02)
        is_closed = False
        while not is_closed:
            with contextlib.suppress(TimeoutError):
                try:
                    drip.socket.sendall(b"\x00")
                    is_closed = not drip.socket.recv(1)
                except ConnectionError:
                    is_closed = True


def test_a_client_that_does_not_read_gets_no_more_messages_and_keeps_nobody_waiting(
    queue_manager: QueueManager, served: Served
) -> None:
    body = bytes(50_000)
    with Raw(served) as deaf:
        deaf.connect()
        handle = deaf.opened()
        for _ in range(400):
            deaf.send(
                msgpack.encode(
                    [verb_of(ask.GetAny), [handle], c.MQGMO_WAIT, -1, None, b"", b"", False]
                )
            )
        other = served.connect("operator")
        queue = other.call(ask.Open("Q1", BOTH_WAYS)).handle
        for _ in range(400):
            put(other, queue, body, descriptor=VOLATILE)
        left = Administration(other.call).curdepth("Q1")
        # Buffers of the kernel and of the server are full; the others are still on their queue.
        assert left > 200
        assert other.get(queue).message.body == body
        # Once it reads, it is given the rest.
        deaf.socket.settimeout(JOIN_SECONDS)
        held = 0
        while held < 400 - 1:
            length, _conversation, request = HEADER.unpack(deaf.read(HEADER.size))
            deaf.read(length)
            held += request > 2
        assert Administration(other.call).counts("Q1").live == 0
        other.close()
    wait_until(lambda: queue_manager.counts("Q1").live >= 399)
    assert queue_manager.verify().ok


def test_long_puts_that_the_disk_has_not_taken_are_not_read_without_end(
    queue_manager: QueueManager, served: Served
) -> None:
    """The answers of 200 pipelined puts of 100 KB come, however little is read at a time."""
    with Raw(served) as raw:
        raw.connect()
        fields = _put_fields(raw.opened(), body=bytes(100_000))
        payload = msgpack.encode([verb_of(ask.Put), *fields])
        for _ in range(200):
            raw.send(payload)
        answered = 0
        while answered < 200:
            length, _conversation, request = HEADER.unpack(raw.read(HEADER.size))
            assert msgpack.decode(raw.read(length))[0] == DONE
            answered += request > 2
    assert queue_manager.curdepth("Q1") == 200

"""Messages in memory: connections wait for room, each other's slowness ends, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import msgpack

from mayfly import QueueManager
from mayfly.client.connection.remote import RemoteConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ResourceError
from mayfly.servers.budget import Budget
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import ALIVE, DONE, HEADER, framed, verb_of
from tests.connection.scene import BOTH_WAYS, VOLATILE, put
from tests.connection.serving import Served, serving
from tests.facts import wait_until
from tests.servers.wire.test_hostile import Raw, _put_fields

LIMIT_BYTES = 2_000_000
LONG = bytes(900_000)


@pytest.fixture
def budget() -> Budget:
    return Budget(LIMIT_BYTES)


@pytest.fixture
def served(queue_manager: QueueManager, budget: Budget) -> Iterator[Served]:
    """``QM1`` served, with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(100000)").ok
    with serving(queue_manager, budget=budget) as it:
        yield it
    assert (budget.left_bytes, budget.is_waited_for) == (LIMIT_BYTES, False)


def entered(served: Served) -> Raw:
    """Return a client that has been let in, and needs no sign of life."""
    raw = Raw(served)
    raw.connect()
    return raw


def long_put(raw: Raw) -> bytes:
    """Return the frame of a long put, under a request number of its own."""
    payload: bytes = msgpack.encode([verb_of(ask.Put), *_put_fields(raw.opened(), body=LONG)])
    raw.last_request += 1
    return framed(raw.conversation, raw.last_request, payload)


def begun(raw: Raw, budget: Budget, count: int) -> bytes:
    """Send a long put but for its last bytes, the one of this number; return these."""
    frame = long_put(raw)
    raw.socket.sendall(frame[:-10])
    wait_until(lambda: budget.left_bytes <= LIMIT_BYTES - count * len(LONG))
    return frame[-10:]


def outcome(raw: Raw) -> int:
    """Return whether the last request was done."""
    while True:
        _conversation, request, payload = read_frame(raw)
        if request == raw.last_request:
            found: int = msgpack.decode(payload)[0]
            return found


def read_frame(raw: Raw) -> tuple[int, int, bytes]:
    """Return the conversation, the request and the payload of the next frame."""
    length, conversation, request = HEADER.unpack(raw.read(HEADER.size))
    return conversation, request, raw.read(length)


def test_a_long_message_waits_for_room_and_is_put_then(
    queue_manager: QueueManager, served: Served, budget: Budget
) -> None:
    with entered(served) as one, entered(served) as two, entered(served) as late:
        rests = [begun(one, budget, 1), begun(two, budget, 2)]
        late.socket.sendall(long_put(late))
        wait_until(lambda: budget.is_waited_for)
        # Short messages of others do not wait.
        other = served.connect()
        put(other, other.call(ask.Open("Q1", BOTH_WAYS)).handle, b"short", descriptor=VOLATILE)
        assert queue_manager.curdepth("Q1") == 1
        for raw, rest in zip((one, two), rests, strict=True):
            raw.socket.sendall(rest)
            assert outcome(raw) == DONE
        assert outcome(late) == DONE
        assert queue_manager.curdepth("Q1") == 4
        other.close()


def test_a_client_that_waits_for_room_is_not_taken_for_gone(
    queue_manager: QueueManager, served: Served, budget: Budget
) -> None:
    """It cannot show a sign of life, as nothing is read from it."""
    with entered(served) as one, entered(served) as two, Raw(served) as late:
        late.connect(heartbeat_ms=200)
        rests = [begun(one, budget, 1), begun(two, budget, 2)]
        late.socket.sendall(long_put(late))
        wait_until(lambda: budget.is_waited_for)
        # Signs of life of the server, more than a client that is gone would see.
        signs = [read_frame(late) for _ in range(5)]
        assert [(conversation, request) for conversation, request, _ in signs] == [(0, ALIVE)] * 5
        for raw, rest in zip((one, two), rests, strict=True):
            raw.socket.sendall(rest)
            assert outcome(raw) == DONE
        assert outcome(late) == DONE
    assert queue_manager.curdepth("Q1") == 3


def test_a_slow_client_keeps_no_room_that_others_wait_for(
    queue_manager: QueueManager,
    served: Served,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mayfly.servers.budget.REQUEST_SECONDS", 0.05)
    monkeypatch.setattr("mayfly.servers.budget.BYTES_A_SECOND", 100_000_000)
    with entered(served) as one, entered(served) as two, entered(served) as other:
        begun(one, budget, 1)
        begun(two, budget, 2)
        other.socket.sendall(long_put(other))
        assert outcome(other) == DONE
        assert queue_manager.curdepth("Q1") == 1


def test_a_client_that_does_not_read_is_given_no_more_than_there_is_room_for(
    queue_manager: QueueManager, served: Served, budget: Budget
) -> None:
    """One message is browsed again and again, by all requests of one write."""
    other = served.connect("operator")
    put(other, other.call(ask.Open("Q1", BOTH_WAYS)).handle, LONG, descriptor=VOLATILE)
    with entered(served) as deaf:
        asked = [deaf.opened(), c.MQGMO_BROWSE_FIRST, 0, None, b"", b"", b"", None, None, None]
        payload = msgpack.encode([verb_of(ask.Get), *asked, False, False])
        first = deaf.last_request + 1
        for _ in range(200):
            deaf.send(payload)
        wait_until(lambda: budget.left_bytes < LIMIT_BYTES)
        # The kernel has some, the budget counts the rest.
        assert budget.left_bytes > LIMIT_BYTES - 4 * len(LONG)
        for number in range(first, first + 200):
            _conversation, request, answer = read_frame(deaf)
            assert (request, answer[1]) == (number, DONE)
    other.close()
    assert queue_manager.counts("Q1").live == 1


def test_clients_that_do_not_read_are_given_no_more_than_there_is_room_for_together(
    queue_manager: QueueManager, served: Served, budget: Budget
) -> None:
    """A get waits while nothing is left, and is answered when somebody has read."""
    with queue_manager.session() as session:
        session.put("Q1", bytes(3_500_000))
    deaf: list[Raw] = []
    asked = [c.MQGMO_BROWSE_FIRST, 0, None, b"", b"", b"", None, None, None, False, False]
    try:
        for _ in range(12):
            raw = entered(served)
            deaf.append(raw)
            payload = msgpack.encode([verb_of(ask.Get), raw.opened(), *asked])
            # The kernel takes the first answer, whether the client reads it or not.
            for _ in range(2):
                raw.send(payload)
        wait_until(lambda: budget.is_waited_for)
        assert budget.left_bytes > -2 * 3_600_000
        with ThreadPoolExecutor(len(deaf)) as threads:
            assert list(threads.map(outcome, deaf)) == [DONE] * len(deaf)
    finally:
        for raw in deaf:
            raw.socket.close()


def test_a_message_that_would_never_fit_is_refused_by_its_reason_code(
    queue_manager: QueueManager, served: Served
) -> None:
    """The client is told at its connect how long a message may be."""
    client: RemoteConnection = served.connect()
    queue = client.call(ask.Open("Q1", BOTH_WAYS)).handle
    with pytest.raises(ResourceError) as refused:
        put(client, queue, bytes(LIMIT_BYTES + 1), descriptor=VOLATILE)
    assert refused.value.reason == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
    put(client, queue, bytes(LIMIT_BYTES), descriptor=VOLATILE)
    assert queue_manager.curdepth("Q1") == 1
    client.close()

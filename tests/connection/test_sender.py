"""Frames that a client gathers: all of them, in their order, soon, and before what is sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mayfly import QueueManager
from mayfly.client.connection.remote_link import FrameSender, PlainStream
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError
from mayfly.runtime import Runtime
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import OURS
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, Told
from tests.connection.serving import Served, serving
from tests.facts import wait_until

_PREAMBLE = OURS.packed()
_APART = c.MQPMO_SYNCPOINT | c.MQPMO_ASYNC_RESPONSE


class Wire(NamedTuple):
    """A sender, the other end of its socket, and what it has told of failures."""

    sender: FrameSender
    far: socket.socket
    failures: list[object]
    has_failed: threading.Event


@pytest.fixture
def wire() -> Iterator[Wire]:
    near, far = socket.socketpair()
    far.settimeout(JOIN_SECONDS)
    failures: list[object] = []
    has_failed = threading.Event()

    def fail(error: object) -> None:
        failures.append(error)
        has_failed.set()

    sender = FrameSender(PlainStream(near), Runtime(), fail)
    yield Wire(sender, far, failures, has_failed)
    sender.end()
    near.close()
    far.close()


def gather(wire: Wire, frame: bytes) -> None:
    """Let a frame be sent soon."""
    with wire.sender.lock:
        wire.sender.gather(frame)
    wire.sender.watch()


def read(far: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = far.recv(count - len(data))
        assert more, data
        data += more
    return data


def test_what_is_gathered_goes_out_by_itself_behind_the_preamble(wire: Wire) -> None:
    gather(wire, b"one ")
    assert read(wire.far, 12) == _PREAMBLE + b"one "
    # And again, after a burst has ended.
    gather(wire, b"two ")
    gather(wire, b"more")
    assert read(wire.far, 8) == b"two more"


def test_what_is_gathered_goes_out_before_what_is_sent_and_much_at_once(wire: Wire) -> None:
    wire.sender.send(b"first ")
    for _ in range(5):
        gather(wire, b"g")
    wire.sender.send(b"s")
    assert read(wire.far, 20) == _PREAMBLE + b"first " + b"gggggs"
    for _ in range(3):
        gather(wire, b"g")
    wire.sender.flush()
    wire.sender.flush()
    assert read(wire.far, 3) == b"ggg"


def test_frames_of_many_threads_stay_whole_and_in_the_order_of_each(wire: Wire) -> None:
    def run(name: int) -> None:
        for number in range(300):
            frame = bytes((name, number % 256, 7, 7))
            if number % 5 == 0:
                wire.sender.send(frame)
            else:
                gather(wire, frame)
            if number % 50 == 0:
                wire.sender.flush()

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    data = read(wire.far, 8 + 4 * 300 * 4)
    for thread in threads:
        thread.join(JOIN_SECONDS)
    assert data[:8] == _PREAMBLE
    frames = [data[at : at + 4] for at in range(8, len(data), 4)]
    for name in range(4):
        assert [f[1] for f in frames if f[0] == name] == [n % 256 for n in range(300)]
    assert {f[2:] for f in frames} == {b"\x07\x07"}


def test_a_failure_is_told_when_nobody_waits_and_raised_to_who_sends(wire: Wire) -> None:
    wire.far.close()
    gather(wire, b"lost")
    assert wire.has_failed.wait(JOIN_SECONDS)
    assert isinstance(wire.failures[0], OSError)
    with pytest.raises(OSError, match="Broken pipe"):
        wire.sender.send(b"more")


def test_in_a_forked_child_nothing_of_the_parents_is_sent(wire: Wire) -> None:
    wire.sender.send(b"x")
    gather(wire, b"parent")
    wire.sender.flush()
    wire.sender.leave_to_parent()
    with pytest.raises(OSError, match="not connected"):
        wire.sender.send(b"child")
    assert read(wire.far, 15) == _PREAMBLE + b"xparent"


# Over a server.


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` served, with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(100000)").ok
    with serving(queue_manager) as it:
        yield it


def test_P13_a_put_that_does_not_wait_arrives_though_its_program_calls_nothing_more(
    served: Served,
) -> None:
    connection = served.connect()
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    connection.put(queue, b"x", Descriptor(), _APART)
    wait_until(lambda: [each.unit_of_work_ms for each in served.server.connections()] != [None])
    connection.call(ask.Backout())
    connection.close()


@pytest.mark.parametrize("count", [1, 15, 16, 17, 300])
def test_P13_puts_that_do_not_wait_are_all_there_before_whatever_comes_next(
    queue_manager: QueueManager, served: Served, count: int
) -> None:
    connection = served.connect()
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    for number in range(count):
        connection.put(queue, str(number).encode(), Descriptor(), _APART)
    # A verb without a callback form, one of the loop, and the commit each come behind them.
    seen = connection.call(ask.Open("Q1", c.MQOO_BROWSE)).handle
    assert connection.now_ms() > 0
    assert connection.call(ask.AskStatus()).success_count == count
    with pytest.raises(MQError) as nothing:
        connection.get(seen, c.MQGMO_BROWSE_FIRST)
    assert nothing.value.reason == rc.MQRC_NO_MSG_AVAILABLE
    connection.call(ask.Commit())
    got = [connection.get(queue).message.body for _ in range(count)]
    assert got == [str(number).encode() for number in range(count)]
    assert queue_manager.verify().ok
    connection.close()


def test_P13_puts_that_do_not_wait_before_a_broken_connection_fail_the_commit(
    queue_manager: QueueManager, served: Served
) -> None:
    connection = served.connect()
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    for _ in range(20):
        connection.put(queue, b"x", Descriptor(), _APART)
    assert served.server.end(connection.number)

    def put_and_commit() -> None:
        connection.put(queue, b"x", Descriptor(), _APART)
        connection.call(ask.Commit())

    with pytest.raises(ConnectionBroken):
        put_and_commit()
    connection.close()
    assert queue_manager.counts("Q1").live == 0


def test_P13_threads_that_gather_read_and_wait_at_once_keep_what_is_theirs(
    queue_manager: QueueManager, served: Served
) -> None:
    count, units = 40, 5
    told = Told()
    waiter = served.connect("anna")
    assert queue_manager.mqsc("DEFINE QLOCAL(Q2)").ok
    under_way = waiter.begin(
        ask.GetAny([waiter.call(ask.Open("Q2", BOTH_WAYS)).handle], c.MQGMO_WAIT), told
    )
    connections = [served.connect("anna") for _ in range(4)]

    def run(name: int) -> None:
        connection = connections[name]
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        for unit in range(units):
            for number in range(count):
                body = b"%d %d" % (name, unit * count + number)
                connection.put(queue, body, Descriptor(), _APART, correl_id=b"%024d" % name)
            # Between the puts of the others' threads, and of this one.
            assert connection.now_ms() > 0
            connection.call(ask.Commit())

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive()
    for name, connection in enumerate(connections):
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        got = [
            connection.get(queue, correl_id=b"%024d" % name).message.body
            for _ in range(units * count)
        ]
        assert got == [b"%d %d" % (name, number) for number in range(units * count)]
    assert told.outcomes == []
    connections[0].put(connections[0].call(ask.Open("Q2", BOTH_WAYS)).handle, b"x", Descriptor())
    assert len(told.wait()) == 1
    assert not under_way.cancel()
    for connection in (*connections, waiter):
        connection.close()

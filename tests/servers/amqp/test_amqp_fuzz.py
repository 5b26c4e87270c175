"""Frames that are wrong somewhere: the server goes on, and keeps nothing of their clients."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from proton import Delivery, Endpoint, Message, ulong

from mayfly import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.testing import VirtualClock
from tests.examples import examples
from tests.facts import wait_until
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import BUDGET_BYTES

New = Callable[..., Client]
_SIZES = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x07", b"\x7f\xff\xff\xff")


class Spoilt(Exception):
    """The client has sent what was to be spoilt, and sends no more."""


class Spoiling:
    """A socket that spoils one write, and ends then; with -1 it spoils none and counts."""

    def __init__(self, real: socket.socket, random: Random, write: int) -> None:
        self._real, self._random, self._write = real, random, write
        self.count = 0

    def sendall(self, data: bytes) -> None:
        self.count += 1
        if self.count - 1 != self._write:
            self._real.sendall(data)
            return
        with contextlib.suppress(OSError):
            self._real.sendall(spoilt(self._random, bytes(data)))
            self._real.shutdown(socket.SHUT_WR)
            while self._real.recv(65_536):
                pass
        raise Spoilt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def spoilt(random: Random, whole: bytes) -> bytes:
    """Return bytes with something wrong."""
    stream = bytearray(whole)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(stream))
        match random.randrange(6):
            case 0:
                stream[place] = random.randrange(256)
            case 1:
                stream[place : place + 4] = random.choice(_SIZES)
            case 2:
                del stream[place : place + random.randrange(1, 20)]
            case 3:
                stream[place:place] = random.randbytes(random.randrange(1, 40))
            case 4:
                other = random.randrange(len(stream))
                stream[other:other] = stream[place : place + random.randrange(1, 100)]
            case _:
                del stream[place:]
        stream = stream or bytearray(b"\0")
    return bytes(stream)


def a_little_of_everything(one: Client) -> None:
    """Use links, messages, outcomes, transactions and subscriptions."""
    sender, coordinator = one.sender("Q1"), one.coordinator()
    for body in ("text", b"bytes", {"a": [1, 2.5, None]}, ["x", True]):
        one.send(sender, Message(body=body, ttl=60, properties={"n": 1, "s": "t"}, id=ulong(7)))
    one.send(sender, Message(body="later", annotations={"x-opt-delivery-delay": 60_000}))
    name = one.declare(coordinator)
    one.send(sender, Message(body="in", subject="s", reply_to="Q1"), name)
    receiver = one.receiver("Q1", credit=3, selector="n = 1")
    one.take_within(one.receive(receiver)[1], name)
    one.discharge(coordinator, name, fail=False)
    one.settle(one.receive(receiver)[1], Delivery.MODIFIED, failed=True)
    one.settle(one.receive(receiver)[1], Delivery.REJECTED)
    one.drained(receiver, 5)
    one.end(receiver)
    one.end(one.receiver("prices/#", durable=True, capabilities=("topic",)), detach=True)
    one.close()


def is_as_before(server: AmqpServer) -> bool:
    return not server.open_connections and server.service.budget.left_bytes == BUDGET_BYTES


@pytest.mark.slow
def test_a_server_survives_spoilt_frames_and_keeps_nothing_of_their_clients(
    server: AmqpServer,
    qm: QueueManager,
    clock: VirtualClock,
    port: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def run(random: Random, write: int) -> int:
        made: list[Spoiling] = []

        def spoiling(real: socket.socket) -> Spoiling:
            made.append(Spoiling(real, random, write))
            return made[0]

        with contextlib.suppress(Spoilt, OSError):
            a_little_of_everything(Client(port, wrap=spoiling))
        made[0].close()
        wait_until(lambda: is_as_before(server))
        return made[0].count

    writes = run(Random(0), -1)
    assert writes > 20
    with caplog.at_level(logging.ERROR):
        for seed in range(examples(320)):
            random = Random(seed)
            run(random, random.randrange(writes))
            qm.mqsc("CLEAR QLOCAL(Q1)")
    wait_until(lambda: qm.counts("Q1").locked == 0)
    assert [record.getMessage() for record in caplog.records] == []
    one = Client(port)
    assert one.send(one.sender("BACK"), Message(body="x")).remote_state == Delivery.ACCEPTED
    one.close()
    assert qm.verify().ok


class Replacing:
    """A socket that replaces some bytes in what is sent."""

    def __init__(self, real: socket.socket, old: bytes, new: bytes) -> None:
        self._real, self._old, self._new = real, old, new

    def sendall(self, data: bytes) -> None:
        self._real.sendall(bytes(data).replace(self._old, self._new))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_a_name_that_is_no_UTF_8_ends_its_connection_with_a_condition(
    server: AmqpServer, port: int
) -> None:
    one = Client(port, wrap=lambda real: Replacing(real, b"a-link", b"\xff\xff\xff\xff\xff\xff"))
    one.session.receiver("a-link").open()
    one.until(lambda: one.connection.state & Endpoint.REMOTE_CLOSED)
    condition = one.connection.remote_condition
    assert condition is not None
    assert condition.name == "amqp:decode-error"
    one.cut()
    wait_until(lambda: is_as_before(server))


def test_a_frame_that_is_too_long_ends_its_connection(server: AmqpServer, port: int) -> None:
    one = Client(port)
    one.socket.sendall(b"\x7f\xff\xff\xff\x02\x00\x00\x00" + bytes(100_000))
    with contextlib.suppress(OSError):
        while one.socket.recv(65_536):
            pass
    one.cut()
    wait_until(lambda: is_as_before(server))

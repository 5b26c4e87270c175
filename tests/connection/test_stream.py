"""The plain socket of a client: it looks for an answer before it sleeps."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from mayfly.client.connection.remote_link import PlainStream


@pytest.fixture
def ends() -> Iterator[tuple[PlainStream, socket.socket]]:
    """Return a stream and the server's end of it."""
    own, server = socket.socketpair()
    with own, server:
        yield PlainStream(own), server


def test_bytes_that_are_there_come_at_once(ends: tuple[PlainStream, socket.socket]) -> None:
    stream, server = ends
    for sent in (b"a", b"b" * 1_000):
        server.sendall(sent)
        assert stream.receive() == sent
    server.close()
    assert stream.receive() == b""


def test_bytes_that_come_late_come_whole_however_often(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    """Receives without looks follow looks in vain: nothing is lost or doubled by either."""
    stream, server = ends
    received: list[bytes] = []
    for number in range(12):
        reader = threading.Thread(target=lambda: received.append(stream.receive()))
        reader.start()
        server.sendall(b"%d" % number)
        reader.join(60)
    assert received == [b"%d" % number for number in range(12)]


def test_a_limit_counts_though_a_stream_may_look(ends: tuple[PlainStream, socket.socket]) -> None:
    stream, server = ends
    stream.limit(0.01)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            stream.receive()
    stream.limit(None)
    server.sendall(b"x")
    assert stream.receive() == b"x"


def test_an_abort_ends_a_receive_that_looks_or_sleeps(
    ends: tuple[PlainStream, socket.socket],
) -> None:
    stream, _server = ends
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(stream.receive()))
    reader.start()
    stream.abort()
    reader.join(60)
    assert received == [b""]

"""A port of this machine that nobody else has while the test that holds it does not listen."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Keep a port: connections to it are refused, and only a server that names it can listen there.

    A free port without a listener may be given by the system to the next program that asks for any,
    or a connection to it may meet itself. A bound port is safe from both. With SO_REUSEADDR, which
    servers set as well, a server can be bound beside it.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port

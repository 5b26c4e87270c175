"""A port of this machine that nobody else has while the test that holds it does not listen."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Keep a port: who connects to it is refused, and only who names it can listen there.

    The system gives a port on which nobody listens to the next that asks for any, or has it call
    itself. One that is bound it does not; with SO_REUSEADDR, as servers have it, a server can be
    bound beside it.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port

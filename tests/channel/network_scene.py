"""A sender that reaches QM2 over a real socket: QM2 is served in this process or in another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from tests.channel.scene import CHANNEL, done

TOKEN = "a token"


@contextmanager
def served(manager: QueueManager, port: int = 0) -> Iterator[FlightServer]:
    """Serve a queue manager to senders that show TOKEN."""
    with FlightServer(manager, port=port, token=TOKEN) as server:
        yield server


def lead_to(manager: QueueManager, *ports: int, more: str = "") -> None:
    """Let the sender of a queue manager try these ports of this machine."""
    names = ", ".join(f"127.0.0.1({port})" for port in ports)
    done(manager, f"ALTER CHANNEL({CHANNEL}) TRPTYPE(TCP) CONNAME('{names}') {more}")

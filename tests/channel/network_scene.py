"""A sender that reaches QM2 over a real socket: QM2 is served in this process or in another."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.servers.budget import Budget
from mayfly.servers.wire import WireServer
from tests.channel.scene import CHANNEL, done

TOKEN = "a token"


class Served:
    """Queue managers that take senders who show TOKEN; close it, and they are gone."""

    def __init__(
        self,
        *managers: QueueManager,
        port: int = 0,
        tls_context: ssl.SSLContext | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Listen on a port of this machine."""
        self.admission = Admission([manager.engine for manager in managers], token=TOKEN)
        self.server = WireServer(managers, self.admission, budget=budget)
        self.port = self.server.listen_tcp("127.0.0.1", port, tls_context)

    def close(self) -> None:
        """End all connections."""
        self.server.close()
        self.admission.close()


@contextmanager
def served(
    *managers: QueueManager,
    port: int = 0,
    tls_context: ssl.SSLContext | None = None,
    budget: Budget | None = None,
) -> Iterator[Served]:
    """Serve queue managers to senders that show TOKEN."""
    server = Served(*managers, port=port, tls_context=tls_context, budget=budget)
    try:
        yield server
    finally:
        server.close()


def lead_to(manager: QueueManager, *ports: int, more: str = "") -> None:
    """Let the sender of a queue manager try these ports of this machine."""
    names: Sequence[str] = [f"127.0.0.1({port})" for port in ports]
    done(manager, f"ALTER CHANNEL({CHANNEL}) TRPTYPE(TCP) CONNAME('{', '.join(names)}') {more}")

"""The operator, for tests of clients: it runs MQSC commands, and moves the time on.

A client opens a TCP connection and sends one line, ``mqsc`` and a command or ``advance`` and a
number of ms. The answer comes when it is done: a line with ``ok``, or with what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from threading import Thread

from mayfly import MQError
from mayfly.cli.managers import operating
from mayfly.client.connection import Administration, Connection

HOST = "127.0.0.1"


class Request(StreamRequestHandler):
    """One line of a client."""

    operator: Connection

    def handle(self) -> None:
        """Carry the line out and answer."""
        verb, _, rest = self.rfile.readline().decode().strip().partition(" ")
        try:
            said = self._carried_out(verb, rest)
        except (MQError, ValueError) as error:
            said = str(error)
        self.wfile.write(f"{' '.join(said.split())}\n".encode())

    def _carried_out(self, verb: str, rest: str) -> str:
        if verb == "advance":
            Administration(self.operator.call).advance_clock(int(rest))
            return "ok"
        if verb == "mqsc":
            result = Administration(self.operator.call).mqsc(rest)
            return "ok" if result.ok else result.text
        raise ValueError(f"{verb!r} is neither mqsc nor advance")


class Server(TCPServer):
    """Answers one client after the other."""

    allow_reuse_address = True
    #: Clients that wait for their turn.
    request_queue_size = 64


@contextmanager
def controlled(name: str, folder: Path) -> Iterator[str]:
    """Let clients control a served queue manager for a block; gives host:port."""
    with operating(name, folder) as connection:
        handler = type("RequestOfThis", (Request,), {"operator": connection})
        with Server((HOST, 0), handler) as server:
            thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield f"{HOST}:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join()

"""A server in a process of its own, whose memory a test looks at; ends with its standard input."""

from __future__ import annotations

import sys

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN

if __name__ == "__main__":
    with QueueManager("QM1") as manager, FlightServer(manager, port=0, token=TOKEN) as server:
        print(server.url, flush=True)
        sys.stdin.read()

"""Connections and servers that fail; prints the name of each error. A test looks at stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mayfly import QueueManager
from mayfly.mqi.errors import MQError
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN


def fail(call: Callable[[], object]) -> None:
    """Print how a call fails."""
    try:
        call()
    except (BulkError, MQError, OSError) as error:
        print(type(error).__name__)


def ask(url: str) -> None:
    with LedgerClient(url, token=TOKEN) as client:
        client.info()


def main(folder: Path) -> None:
    pair = ((folder / "cert.pem").read_bytes(), (folder / "key.pem").read_bytes())
    with QueueManager("QM1") as manager:
        with FlightServer(manager, port=0, token=TOKEN, tls_certificate=pair) as server:
            fail(lambda: ask(server.url))
            fail(lambda: ask(server.url.replace("grpc+tls", "grpc")))
        with FlightServer(manager, port=0, token=TOKEN) as server:
            fail(lambda: ask(server.url.replace("grpc", "grpc+tls")))
        fail(FlightServer(manager, port=0, token=TOKEN, tls_certificate=(b"x", b"y")).start)
        with FlightServer(manager, port=0, token=TOKEN) as server:
            fail(FlightServer(manager, port=server.port, token=TOKEN).start)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

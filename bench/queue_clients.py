"""One queue of each make, put and got one by one and durably, as its own guide advises.

A program as well: ``python -m bench.queue_clients ROLE MAKE ADDRESS QUEUE COUNT``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from bench.nats_client import NatsClient
from bench.peer_process import HOST, client_library
from bench.peer_servers import connect_postgres

#: A queue with a consumer, and one that is only filled.
QUEUES = ("Q1", "Q2")
BODY_BYTES = 200
_TABLE = "CREATE TABLE {} (number bigserial PRIMARY KEY, body bytea NOT NULL)"
_TAKE = """
DELETE FROM {0} WHERE number = (
    SELECT number FROM {0} ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING body
"""
_POLL_SECONDS = 0.001


class QueueClient(Protocol):
    """One connection to a queue."""

    def put(self, body: bytes) -> None:
        """Put a message; it is durable on return."""

    def get(self) -> bytes:
        """Wait for a message and take it; its end is durable on return, where that is told."""

    def close(self) -> None:
        """Disconnect."""


class _Redis:
    """A list; a message that was popped is gone, whatever becomes of its consumer."""

    def __init__(self, address: str, queue: str) -> None:
        self._server = client_library("redis").Redis(unix_socket_path=address)
        self._queue = queue

    def put(self, body: bytes) -> None:
        self._server.lpush(self._queue, body)

    def get(self) -> bytes:
        body: bytes = self._server.brpop([self._queue])[1]
        return body

    def close(self) -> None:
        self._server.close()


class _Postgres:
    """A table; its consumer looks every ms, and locks what it takes."""

    def __init__(self, address: str, queue: str) -> None:
        self._connection = connect_postgres(address)()
        self._put = f"INSERT INTO {queue} (body) VALUES (%b)"
        self._take = _TAKE.format(queue)

    def put(self, body: bytes) -> None:
        self._connection.execute(self._put, (body,))

    def get(self) -> bytes:
        while (row := self._connection.execute(self._take, binary=True).fetchone()) is None:
            # A table has no get that waits, so its consumers poll.
            time.sleep(_POLL_SECONDS)
        return bytes(row[0])

    def close(self) -> None:
        self._connection.close()


class _RabbitMq:
    """A durable queue; a put is confirmed, and a message is acknowledged one by one."""

    def __init__(self, address: str, queue: str) -> None:
        pika = client_library("pika")
        parameters = pika.ConnectionParameters(HOST, int(address))
        self._connection: Any = pika.BlockingConnection(parameters)
        self._channel: Any = self._connection.channel()
        self._queue = queue
        self._channel.queue_declare(queue, durable=True)
        self._channel.confirm_delivery()
        self._channel.basic_qos(prefetch_count=1)
        self._properties = pika.BasicProperties(delivery_mode=2)
        self._consumer: Any = None

    def put(self, body: bytes) -> None:
        self._channel.basic_publish("", self._queue, body, self._properties)

    def get(self) -> bytes:
        if self._consumer is None:
            self._consumer = self._channel.consume(self._queue)
        method, _, body = next(self._consumer)
        self._channel.basic_ack(method.delivery_tag)
        return bytes(body)

    def close(self) -> None:
        self._connection.close()


def _mayfly(address: str, queue: str) -> QueueClient:
    # Loaded here, as is proton: a program of another make does without.
    from bench.own_client import OwnClient

    return OwnClient(address, queue)


def _artemis(address: str, queue: str) -> QueueClient:
    from bench.amqp_client import AmqpQueue

    return AmqpQueue(address, queue)


CLIENTS: dict[str, Callable[[str, str], QueueClient]] = {
    "Artemis": _artemis,
    "Mayfly": _mayfly,
    "NATS": NatsClient,
    "PostgreSQL": _Postgres,
    "RabbitMQ": _RabbitMq,
    "Redis": _Redis,
}


def make_queues(make: str, address: str) -> None:
    """Make the queues where a client does not make its own."""
    if make == "PostgreSQL":
        with connect_postgres(address)() as control:
            for queue in QUEUES:
                control.execute(_TABLE.format(queue))
    elif make == "Mayfly":
        from bench.own_client import define

        define(address, QUEUES)


def _wait(client: QueueClient, count: int) -> None:
    """Get messages and print of each how long ago its put began, in ns."""
    print("ready", flush=True)
    for _ in range(count):
        body = client.get()
        print(time.perf_counter_ns() - int.from_bytes(body[:8], "big"), flush=True)


def _put(client: QueueClient, count: int) -> None:
    """Put messages as soon as the standard input says so."""
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(count):
        client.put(bytes(BODY_BYTES))
    print("done", flush=True)


if __name__ == "__main__":
    roles: dict[str, Callable[[QueueClient, int], None]] = {"wait": _wait, "put": _put}
    role, make, address, queue, count = sys.argv[1:]
    one = CLIENTS[make](address, queue)
    roles[role](one, int(count))
    one.close()

"""Ways of peers to put a unit of 100 durable messages, and to get one.

A unit is what a Python program does fastest with one statement a message: PostgreSQL inserts by
``executemany``, which psycopg pipelines, Redis pushes in one MULTI that its pipeline sends, NATS
publishes all before it waits for an answer, and RabbitMQ has a transaction of its channel.
PostgreSQL and Redis have ways with one statement for all 100 as well, which is no queue of single
puts: the arrays of ``unnest``, COPY, and LPUSH of 100 values. Gets are a unit each: PostgreSQL
deletes a batch with SKIP LOCKED, Redis pops, NATS and RabbitMQ acknowledge.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from bench.amqp_peers import start_rabbitmq
from bench.nats_client import NatsClient
from bench.peer_process import HOST, NotHere, client_library
from bench.peer_servers import connect_postgres, postgres_folder, redis_socket, start_nats

PER_UNIT: Final = 100
BODY: Final = os.urandom(200)
_BODIES: Final = [BODY] * PER_UNIT
#: The ways that aims are about.
POSTGRES: Final = "PostgreSQL, executemany; DELETE SKIP LOCKED of 100"
REDIS: Final = "Redis, MULTI of 100 LPUSH; of 100 RPOP"
_INSERT = "INSERT INTO message (body) VALUES (%b)"
_INSERT_ARRAY = "INSERT INTO message (body) SELECT * FROM unnest(%b::bytea[])"
_COPY = "COPY message (body) FROM STDIN (FORMAT BINARY)"
_TAKE = """
DELETE FROM message WHERE number = ANY(ARRAY(
    SELECT number FROM message ORDER BY number LIMIT %b FOR UPDATE SKIP LOCKED)) RETURNING body
"""


class Way(NamedTuple):
    """One way to put a unit and to get one, which returns how many messages it got.

    A slow way is measured with a share of the messages of the others.
    """

    put_unit: Callable[[], object]
    get_unit: Callable[[], int]
    share: float = 1.0


def peer_ways(stack: ExitStack) -> tuple[dict[str, Way], list[str]]:
    """Start what is installed; return its ways by name, and why something is missing."""
    ways: dict[str, Way] = {}
    missing: list[str] = []
    for start in (_postgres_ways, _redis_ways, _nats_ways, _rabbitmq_ways):
        try:
            ways |= start(stack)
        except NotHere as why:
            missing.append(str(why))
    return ways, missing


def _postgres_ways(stack: ExitStack) -> dict[str, Way]:
    connection = connect_postgres(postgres_folder(stack))()
    stack.callback(connection.close)
    connection.execute("CREATE TABLE message (number bigserial PRIMARY KEY, body bytea NOT NULL)")

    def insert() -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(_INSERT, [(body,) for body in _BODIES])

    def insert_array() -> None:
        connection.execute(_INSERT_ARRAY, (_BODIES,))

    def copy() -> None:
        with connection.cursor() as cursor, cursor.copy(_COPY) as rows:
            for body in _BODIES:
                rows.write_row((body,))

    def take() -> int:
        return len(connection.execute(_TAKE, (PER_UNIT,), binary=True).fetchall())

    return {
        POSTGRES: Way(insert, take),
        "PostgreSQL, one INSERT of arrays": Way(insert_array, take),
        "PostgreSQL, COPY": Way(copy, take),
    }


def _redis_ways(stack: ExitStack) -> dict[str, Way]:
    path = redis_socket(stack)
    server: Any = client_library("redis").Redis(unix_socket_path=path)
    stack.callback(server.close)

    def push() -> None:
        with server.pipeline(transaction=True) as pipe:
            for body in _BODIES:
                pipe.lpush("queue", body)
            pipe.execute()

    def pop() -> int:
        with server.pipeline(transaction=True) as pipe:
            for _ in range(PER_UNIT):
                pipe.rpop("queue")
            return sum(body is not None for body in pipe.execute())

    return {
        REDIS: Way(push, pop),
        "Redis, one LPUSH of 100; one RPOP of 100": Way(
            lambda: server.lpush("queue", *_BODIES), lambda: len(server.rpop("queue", PER_UNIT))
        ),
    }


def _nats_ways(stack: ExitStack) -> dict[str, Way]:
    client = NatsClient(start_nats(stack).port, "queue")
    stack.callback(client.close)
    return {
        "NATS, 100 published; 100 acknowledged": Way(
            # It syncs each of them.
            lambda: client.put_all(_BODIES),
            lambda: len(client.get_all(PER_UNIT)),
            0.1,
        )
    }


def _rabbitmq_ways(stack: ExitStack) -> dict[str, Way]:
    pika = client_library("pika")
    peer = start_rabbitmq(stack)
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, peer.port))
    stack.callback(connection.close)
    channel: Any = connection.channel()
    channel.queue_declare("queue", durable=True)
    channel.tx_select()
    properties = pika.BasicProperties(delivery_mode=2)

    def publish() -> None:
        for body in _BODIES:
            channel.basic_publish("", "queue", body, properties)
        channel.tx_commit()

    def take() -> int:
        tags = [channel.basic_get("queue")[0].delivery_tag for _ in _BODIES]
        channel.basic_ack(tags[-1], multiple=True)
        channel.tx_commit()
        return len(tags)

    return {"RabbitMQ, a transaction of 100; of 100 basic.get": Way(publish, take, 0.2)}

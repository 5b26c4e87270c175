"""What messages cost peers: disk and memory each, and a put and a get when so many wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from bench.amqp_peers import start_rabbitmq
from bench.child import resident_mb_of
from bench.figures import seconds_of
from bench.nats_client import NatsClient
from bench.peer_process import HOST, NotHere, client_library
from bench.peer_servers import connect_postgres, postgres_folder, redis_socket, start_nats

_BODY: Final = os.urandom(200)
_BODIES: Final = [_BODY] * 100
_FILL_PER_UNIT, _ROUNDS, _UNITS = 10_000, 5, 10
#: Some take so many minutes for a million that they get this share of the largest size.
_SLOW_SHARE: Final = 0.1
_TAKE = """
DELETE FROM message WHERE number = ANY(ARRAY(
    SELECT number FROM message ORDER BY number LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING body
"""


class _Peer(NamedTuple):
    """One running peer: how to fill it, put 100, get 100; what it holds on disk and in memory."""

    name: str
    fill: Callable[[int], None]
    put_unit: Callable[[], object]
    get_unit: Callable[[], object]
    disk_bytes: Callable[[], int]
    resident_mb: Callable[[], float]
    largest_share: float = 1.0


class Held(NamedTuple):
    """What one make holds at one size, a message each; µs of a put and a get in units of 100."""

    disk_bytes: float
    memory_bytes: float
    put_us: Sequence[float]
    get_us: Sequence[float]


#: By make, and by count.
HeldBy: TypeAlias = dict[str, dict[int, Held]]


def held_by_peers(counts: Sequence[int]) -> tuple[HeldBy, list[str]]:
    """Fill each peer up to the counts, ascending; also return why one is missing."""
    found: HeldBy = {}
    missing: list[str] = []
    # No counts ask for no peers.
    for start in (_postgres, _redis, _nats, _rabbitmq) if counts else ():
        with ExitStack() as stack:
            try:
                peer = start(stack)
            except NotHere as why:
                missing.append(str(why))
                continue
            some = [count for count in counts if count <= counts[-1] * peer.largest_share]
            found[peer.name] = _held(peer, some)
    return found, missing


def _held(peer: _Peer, counts: Sequence[int]) -> dict[int, Held]:
    filled, empty_mb, empty_bytes = 0, peer.resident_mb(), peer.disk_bytes()
    found: dict[int, Held] = {}
    for count in counts:
        peer.fill(count - filled)
        filled = count
        puts, gets = list[float](), list[float]()
        for _ in range(_ROUNDS):
            puts.append(seconds_of(partial(_units, peer.put_unit)) / (_UNITS * 100) * 1e6)
            gets.append(seconds_of(partial(_units, peer.get_unit)) / (_UNITS * 100) * 1e6)
        disk_bytes = (peer.disk_bytes() - empty_bytes) / count
        memory_bytes = (peer.resident_mb() - empty_mb) * 1e6 / count
        found[count] = Held(disk_bytes, memory_bytes, puts, gets)
    return found


def _units(unit: Callable[[], object]) -> None:
    for _ in range(_UNITS):
        unit()


def _size(folder: Path) -> int:
    """Return the bytes of the files below a folder; those that go meanwhile do not count."""
    found = 0
    for file in folder.rglob("*"):
        try:
            found += file.stat().st_blocks * 512 if file.is_file() else 0
        except FileNotFoundError:
            continue
    return found


def _postgres(stack: ExitStack) -> _Peer:
    home = postgres_folder(stack)
    connection = connect_postgres(home)()
    stack.callback(connection.close)
    connection.execute("CREATE TABLE message (number bigserial PRIMARY KEY, body bytea NOT NULL)")

    def fill(count: int) -> None:
        copy = "COPY message (body) FROM STDIN (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(copy) as rows:
            for _ in range(count):
                rows.write_row((_BODY,))

    def put() -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany("INSERT INTO message (body) VALUES (%b)", [(b,) for b in _BODIES])

    def disk_bytes() -> int:
        # The files of the table and its index: its log is written ahead and kept for all tables.
        return int(connection.execute("SELECT pg_total_relation_size('message')").fetchone()[0])

    def take() -> None:
        assert len(connection.execute(_TAKE).fetchall()) == len(_BODIES)

    server = int(Path(home, "data", "postmaster.pid").read_text().split()[0])
    return _Peer("PostgreSQL", fill, put, take, disk_bytes, lambda: resident_mb_of(server))


def _redis(stack: ExitStack) -> _Peer:
    path = redis_socket(stack)
    server: Any = client_library("redis").Redis(unix_socket_path=path)
    stack.callback(server.close)

    def fill(count: int) -> None:
        # Bodies of their own: Redis would compress others when it rewrites its log.
        for first in range(0, count, _FILL_PER_UNIT):
            server.lpush(
                "queue", *(os.urandom(200) for _ in range(min(_FILL_PER_UNIT, count - first)))
            )

    def put() -> None:
        with server.pipeline(transaction=True) as pipe:
            for body in _BODIES:
                pipe.lpush("queue", body)
            pipe.execute()

    def take() -> None:
        with server.pipeline(transaction=True) as pipe:
            for _ in _BODIES:
                pipe.rpop("queue")
            assert None not in pipe.execute()

    pid = int(server.info("server")["process_id"])
    folder = Path(path).parent
    return _Peer("Redis", fill, put, take, partial(_size, folder), lambda: resident_mb_of(pid))


def _nats(stack: ExitStack) -> _Peer:
    server = start_nats(stack)
    client = NatsClient(server.port, "queue")
    stack.callback(client.close)

    def fill(count: int) -> None:
        for _ in range(count // len(_BODIES)):
            client.put_all(_BODIES)

    return _Peer(
        "NATS",
        fill,
        lambda: client.put_all(_BODIES),
        lambda: client.get_all(len(_BODIES)),
        partial(_size, server.folder),
        lambda: resident_mb_of(server.pid),
        _SLOW_SHARE,
    )


def _rabbitmq(stack: ExitStack) -> _Peer:
    pika = client_library("pika")
    peer = start_rabbitmq(stack)
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, peer.port))
    stack.callback(connection.close)
    channel = connection.channel()
    channel.queue_declare("queue", durable=True, arguments={"x-queue-type": "quorum"})
    properties = pika.BasicProperties(delivery_mode=2)
    # Each publish waits for its confirm; a channel without them fills.
    confirmed = connection.channel()
    confirmed.confirm_delivery()
    filled = 0

    def depth() -> int:
        return int(channel.queue_declare("queue", passive=True).method.message_count)

    def fill(count: int) -> None:
        nonlocal filled
        filled += count
        for _ in range(count):
            channel.basic_publish("", "queue", _BODY, properties)
        while depth() < filled:
            # It tells nobody when it has taken them all.
            connection.sleep(0.05)

    def put() -> None:
        for body in _BODIES:
            confirmed.basic_publish("", "queue", body, properties)

    def take() -> None:
        tag = 0
        for _ in _BODIES:
            found, _, _ = channel.basic_get("queue")
            assert found is not None
            tag = found.delivery_tag
        channel.basic_ack(tag, multiple=True)

    return _Peer(
        f"{peer.name}, quorum queue",
        fill,
        put,
        take,
        partial(_size, peer.folder),
        lambda: resident_mb_of(peer.pid),
        _SLOW_SHARE,
    )

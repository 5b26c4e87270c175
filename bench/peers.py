"""PostgreSQL and Redis as delay queues.

They are used as their own guides advise: a table with an index on the time it becomes visible and
a consumer with SKIP LOCKED; a sorted set of due times with the bodies in a hash, popped by a
script. Both sync at each commit. Consumers poll every ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from bench.clients import Client, Taken, body_of, read_body
from bench.peer_process import NotHere, client_library
from bench.peer_servers import connect_postgres, postgres_folder, redis_socket
from mayfly.lifetime.times import Clock

POLL_SECONDS = 0.001
_TABLE = """
CREATE TABLE message (number bigint PRIMARY KEY, visible_at bigint NOT NULL, body bytea NOT NULL);
CREATE INDEX message_by_time ON message (visible_at, number)
"""
_PUT = "INSERT INTO message SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[])"
_TAKE = """
DELETE FROM message WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM message WHERE visible_at <= %b
    ORDER BY visible_at, number LIMIT %b FOR UPDATE SKIP LOCKED)) RETURNING body
"""
_POP = """
local due = redis.call('ZRANGEBYSCORE', 'due', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due == 0 then return {} end
local bodies = redis.call('HMGET', 'body', unpack(due))
redis.call('ZREM', 'due', unpack(due))
redis.call('HDEL', 'body', unpack(due))
return bodies
"""


class Peer(NamedTuple):
    """A running server: its name, and how to connect to it and to empty it."""

    name: str
    connect: Callable[[], Client]
    clear: Callable[[], object]


@contextmanager
def started_peers(clock: Clock, *, has_peers: bool) -> Iterator[tuple[list[Peer], list[str]]]:
    """Start what is installed; also return why something is missing."""
    peers, missing = list[Peer](), list[str]()
    with ExitStack() as stack:
        for start in (_postgres, _redis) if has_peers else ():
            try:
                peers.append(start(stack, clock))
            except NotHere as why:
                missing.append(str(why))
        yield peers, missing


class _PostgresClient:
    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        numbers, due_ms = zip(*rows, strict=True)
        bodies = [body_of(number, due) for number, due in rows]
        self._connection.execute(_PUT, (list(numbers), list(due_ms), bodies))

    def take(self, limit: int) -> list[Taken]:
        found = self._connection.execute(_TAKE, (self._clock.now_ms(), limit), binary=True)
        return _taken((body for (body,) in found.fetchall()), self._clock)

    def close(self) -> None:
        self._connection.close()


class _RedisClient:
    def __init__(self, server: Any, clock: Clock) -> None:
        self._server = server
        self._pop = server.register_script(_POP)
        self._clock = clock

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        # Members of one due time are ordered as text: the number is filled up with zeros.
        names = [f"{number:012d}" for number, _ in rows]
        due_ms = {name: due for name, (_, due) in zip(names, rows, strict=True)}
        bodies = {name: body_of(*row) for name, row in zip(names, rows, strict=True)}
        with self._server.pipeline(transaction=True) as pipe:
            pipe.zadd("due", due_ms)
            pipe.hset("body", mapping=bodies)
            pipe.execute()

    def take(self, limit: int) -> list[Taken]:
        return _taken(self._pop(args=(self._clock.now_ms(), limit)), self._clock)

    def close(self) -> None:
        self._server.close()


def _taken(bodies: Iterator[bytes], clock: Clock) -> list[Taken]:
    arrival_ms = clock.now_ms()
    return [Taken(*read_body(body), arrival_ms) for body in bodies]


def _postgres(stack: ExitStack, clock: Clock) -> Peer:
    connect = connect_postgres(postgres_folder(stack))
    control = connect()
    stack.callback(control.close)
    control.execute(_TABLE)
    return Peer(
        "PostgreSQL",
        lambda: _PostgresClient(connect(), clock),
        lambda: control.execute("TRUNCATE message"),
    )


def _redis(stack: ExitStack, clock: Clock) -> Peer:
    path = redis_socket(stack)
    redis = client_library("redis")

    def connect() -> Any:
        return redis.Redis(unix_socket_path=path)

    control = connect()
    stack.callback(control.close)
    return Peer("Redis", lambda: _RedisClient(connect(), clock), control.flushall)

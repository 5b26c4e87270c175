"""Units of work of 100 durable messages, beside PostgreSQL and Redis, in turn.

A unit is what a Python program does fastest with one statement a message: PostgreSQL inserts by
``executemany``, which psycopg pipelines, and Redis pushes in one MULTI that its pipeline sends.
Both are measured with one statement for all 100 as well, which is no queue of single puts: the
arrays of ``unnest``, COPY, and LPUSH of 100 values. Gets are a unit each: PostgreSQL deletes a
batch with SKIP LOCKED, Redis pops.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.aims import least_rate
from bench.figures import Figure, at_least, median, seconds_of
from bench.peer_servers import (
    NotHere,
    client_library,
    connect_postgres,
    postgres_folder,
    redis_socket,
)
from mayfly import QueueManager

_PER_UNIT: Final = 100
_BODY: Final = os.urandom(200)
_BODIES: Final = [_BODY] * _PER_UNIT
_INSERT = "INSERT INTO message (body) VALUES (%b)"
_INSERT_ARRAY = "INSERT INTO message (body) SELECT * FROM unnest(%b::bytea[])"
_COPY = "COPY message (body) FROM STDIN (FORMAT BINARY)"
_TAKE = """
DELETE FROM message WHERE number = ANY(ARRAY(
    SELECT number FROM message ORDER BY number LIMIT %b FOR UPDATE SKIP LOCKED)) RETURNING body
"""
_OURS = "Mayfly"
_POSTGRES = "PostgreSQL, executemany; DELETE SKIP LOCKED of 100"
_REDIS = "Redis, MULTI of 100 LPUSH; of 100 RPOP"


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    message_count: int = 10_000
    has_peers: bool = True


#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 200, has_peers=False)


class _Way(NamedTuple):
    """One way to put a unit and to get one."""

    put_unit: Callable[[], object]
    get_unit: Callable[[], int]


class _Rates(NamedTuple):
    """Messages a second, round by round."""

    puts: list[float]
    gets: list[float]


def figures(size: Size = Size()) -> Iterator[Figure]:  # noqa: B008  # it cannot be changed
    """Measure everything of this file."""
    found: dict[str, _Rates] = {}
    with ExitStack() as stack:
        ways, missing = _peers(stack) if size.has_peers else ({}, ["no peers were asked for"])
        for _ in range(size.rounds):
            with _own_way() as own:
                for name, way in {_OURS: own, **ways}.items():
                    rates = found.setdefault(name, _Rates([], []))
                    rates.puts.append(_rate(way.put_unit, size.message_count))
                    rates.gets.append(_rate(partial(_full, way.get_unit), size.message_count))
    for peer, put_aim, get_aim in ((_POSTGRES, 1.5, 0.8), (_REDIS, 1.25, 1.0)):
        yield _beside("puts", peer, {n: r.puts for n, r in found.items()}, put_aim, missing)
        yield _beside("gets", peer, {n: r.gets for n, r in found.items()}, get_aim, missing)
    yield _told("puts", {n: r.puts for n, r in found.items()})
    yield _told("gets", {n: r.gets for n, r in found.items()})


def _beside(
    verb: str, peer: str, rates: dict[str, list[float]], aim: float, missing: list[str]
) -> Figure:
    make, _, _ = peer.partition(",")
    name, floor = f"durable {verb}, 100 a unit of work, beside {make}", least_rate(aim)
    if peer not in rates:
        return Figure(name, "-", f">= {floor:g}x", True, "; ".join(missing))
    ratios = [a / b for a, b in zip(rates[_OURS], rates[peer], strict=True)]
    note = f"{median(rates[_OURS]):,.0f}/s against {median(rates[peer]):,.0f}/s ({peer})"
    return at_least(name, median(ratios), floor, "x", note, samples=ratios)


def _told(verb: str, rates: dict[str, list[float]]) -> Figure:
    """Tell all rates, also of the ways with one statement for a whole unit."""
    others = [f"{n}: {median(each):,.0f}/s" for n, each in rates.items() if n != _OURS]
    own = f"{median(rates[_OURS]):,.0f}/s"
    return Figure(f"durable {verb}, 100 a unit of work", own, "-", True, " / ".join(others))


def _rate(unit: Callable[[], object], count: int) -> float:
    def run() -> None:
        for _ in range(count // _PER_UNIT):
            unit()

    return count / seconds_of(run)


def _full(get_unit: Callable[[], int]) -> None:
    found = get_unit()
    assert found == _PER_UNIT, found


@contextmanager
def _own_way() -> Iterator[_Way]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QueueManager("BENCH", Path(folder)) as manager,
        manager.session(transacted=True) as session,
    ):
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")

        def put_unit() -> None:
            for _ in range(_PER_UNIT):
                session.put("Q1", _BODY, persistent=True)
            session.commit()

        def get_unit() -> int:
            found = sum(session.get("Q1") is not None for _ in range(_PER_UNIT))
            session.commit()
            return found

        yield _Way(put_unit, get_unit)


def _peers(stack: ExitStack) -> tuple[dict[str, _Way], list[str]]:
    """Start what is installed; return its ways by name, and why something is missing."""
    ways: dict[str, _Way] = {}
    missing: list[str] = []
    for start in (_postgres_ways, _redis_ways):
        try:
            ways |= start(stack)
        except NotHere as why:
            missing.append(str(why))
    return ways, missing


def _postgres_ways(stack: ExitStack) -> dict[str, _Way]:
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
        return len(connection.execute(_TAKE, (_PER_UNIT,), binary=True).fetchall())

    return {
        _POSTGRES: _Way(insert, take),
        "PostgreSQL, one INSERT of arrays": _Way(insert_array, take),
        "PostgreSQL, COPY": _Way(copy, take),
    }


def _redis_ways(stack: ExitStack) -> dict[str, _Way]:
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
            for _ in range(_PER_UNIT):
                pipe.rpop("queue")
            return sum(body is not None for body in pipe.execute())

    return {
        _REDIS: _Way(push, pop),
        "Redis, one LPUSH of 100; one RPOP of 100": _Way(
            lambda: server.lpush("queue", *_BODIES), lambda: len(server.rpop("queue", _PER_UNIT))
        ),
    }

"""A replica in PostgreSQL: durable puts beside bare commits and beside none, and a follower.

What is compared is measured in turn.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.figures import Figure, at_least, at_most, median, seconds_of
from bench.peer_process import NotHere
from bench.peer_servers import connect_postgres, postgres_folder
from bench.release import percentile
from bench.remote_clients import put_round, putting_programs, served
from mayfly import QueueManager
from mayfly.runtime import Runtime
from mayfly.store.database import DATABASE_FILE
from mayfly.store.replica.follower import Follower

_PER_UNIT: Final = 100
_BODY_BYTES: Final = 200
#: What Mayfly stores of a message beside its body: ids, times, descriptor.
_ROW_BYTES: Final = _BODY_BYTES + 120
_SINGLE: Final = "durable put with a replica, p50, beside a bare commit in PostgreSQL"
_UNITS: Final = "puts of 100 a unit with a replica beside inserting the same bytes"
_PROGRAMS: Final = "{} programs of single durable puts with a replica, beside none"
_FOLLOWED: Final = "a folder of 1 GB followed from nothing"
#: Of random bytes, so that no page is compressed.
_FILLING_BYTES: Final = 100_000
_INSERT: Final = "INSERT INTO bare (content) VALUES (%b)"


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 7
    single_count: int = 300
    unit_count: int = 40
    processes: int = 16
    puts_each: int = 200
    followed_bytes: int = 1_000_000_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file; all ways live through all rounds."""
    with ExitStack() as stack:
        try:
            server = postgres_folder(stack)
        except NotHere as reason:
            yield Figure(_SINGLE, "-", "<= 1.5x", True, str(reason))
            yield Figure(_UNITS, "-", ">= 0.5x", True, str(reason))
            yield Figure(_PROGRAMS.format(size.processes), "-", ">= 0.6x", True, str(reason))
            yield Figure(_FOLLOWED, "-", "<= 60 s", True, str(reason))
            return
        url = f"postgresql://bench@/postgres?host={server}"
        yield from _beside_bare_commits(server, url, size)
        yield from _programs(url, size)
        yield _followed(url, size.followed_bytes)


def _beside_bare_commits(server: str, url: str, size: Size) -> Iterator[Figure]:
    """Single puts, and puts of 100 a unit, beside commits and inserts in PostgreSQL."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with_replica = stack.enter_context(QueueManager("ONE", folder / "ONE", replica=url))
        without = stack.enter_context(QueueManager("TWO", folder / "TWO"))
        bare = stack.enter_context(connect_postgres(server)())
        bare.prepare_threshold = 0
        bare.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, content bytea NOT NULL)")
        single_ms = dict[str, list[float]]()
        unit_rate = dict[str, list[float]]()
        managers = {"replica": with_replica, "without": without}
        for manager in managers.values():
            manager.define_queue("Q", maxdepth=999_999_999)
        for _ in range(size.rounds):
            for name, manager in managers.items():
                single_ms.setdefault(name, []).append(_single(_put(manager), size.single_count))
                unit_rate.setdefault(name, []).append(_rate(_put_unit(manager), size.unit_count))
            single_ms.setdefault("bare", []).append(_single(_insert(bare), size.single_count))
            unit_rate.setdefault("bare", []).append(_rate(_insert_unit(bare), size.unit_count))
    ratios = _ratios(single_ms, "bare")
    note = "; ".join(f"{name} {median(each):.2f} ms" for name, each in single_ms.items())
    yield at_most(_SINGLE, median(ratios), 1.5, "x", note, samples=ratios)
    ratios = _ratios(unit_rate, "bare")
    note = "; ".join(f"{name} {median(each):,.0f}/s" for name, each in unit_rate.items())
    yield at_least(_UNITS, median(ratios), 0.5, "x", note, samples=ratios)


def _programs(url: str, size: Size) -> Iterator[Figure]:
    """Programs over a network whose puts share transactions, at a server of either kind."""
    rates = dict[str, list[float]]()
    with ExitStack() as stack:
        servers = {
            "replica": stack.enter_context(served(url)),
            "without": stack.enter_context(served()),
        }
        programs = {
            name: putting_programs(stack, server.port, size.processes, size.puts_each)
            for name, server in servers.items()
        }
        for _ in range(size.rounds):
            for name, putting in programs.items():
                rate = size.processes * size.puts_each / seconds_of(partial(put_round, putting))
                rates.setdefault(name, []).append(rate)
    ratios = _ratios(rates, "without")
    note = "; ".join(f"{name} {median(each):,.0f}/s" for name, each in rates.items())
    name = _PROGRAMS.format(size.processes)
    yield at_least(name, median(ratios), 0.6, "x", note, samples=ratios)


def _followed(url: str, folder_bytes: int) -> Figure:
    """Let another folder follow the log of a large one, once; its first copy is told as well."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "LARGE"
        with QueueManager("LARGE", folder) as manager:
            manager.define_queue("Q", maxdepth=999_999_999)
            session = manager.session(transacted=True)
            for number in range(folder_bytes // _FILLING_BYTES):
                session.put("Q", os.urandom(_FILLING_BYTES), persistent=True)
                if number % _PER_UNIT == _PER_UNIT - 1:
                    session.commit()
            session.commit()

        def copy() -> None:
            with QueueManager("LARGE", folder, replica=url):
                pass

        copied_seconds = seconds_of(copy)
        with closing(Follower(url, "LARGE", Path(home) / "ELSEWHERE", Runtime())) as follower:
            took_seconds = seconds_of(follower.catch_up)
        size_mb = (Path(home) / "ELSEWHERE" / DATABASE_FILE).stat().st_size / 1e6
    note = f"{size_mb:,.0f} MB; the first copy into the log took {copied_seconds:.0f} s"
    return at_most(_FOLLOWED, took_seconds, 60, " s", note)


def _ratios(rounds: dict[str, list[float]], other: str) -> list[float]:
    """Return the replica's values beside those of another way in the same round."""
    return [a / b for a, b in zip(rounds["replica"], rounds[other], strict=True)]


def _single(put: Callable[[], None], count: int) -> float:
    """Return the median of the times that single puts take, in ms."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        put()
        taken.append(time.perf_counter() - began)
    return percentile(sorted(taken), 50) * 1_000


def _rate(put_unit: Callable[[], None], count: int) -> float:
    """Return messages a second of so many units."""
    began = time.perf_counter()
    for _ in range(count):
        put_unit()
    return count * _PER_UNIT / (time.perf_counter() - began)


def _put(manager: QueueManager) -> Callable[[], None]:
    session = manager.session()
    return lambda: _drop(session.put("Q", os.urandom(_BODY_BYTES), persistent=True))


def _put_unit(manager: QueueManager) -> Callable[[], None]:
    session = manager.session(transacted=True)

    def put() -> None:
        for _ in range(_PER_UNIT):
            session.put("Q", os.urandom(_BODY_BYTES), persistent=True)
        session.commit()

    return put


def _insert(connection: Any) -> Callable[[], None]:
    return lambda: _drop(connection.execute(_INSERT, (os.urandom(_ROW_BYTES),)))


def _insert_unit(connection: Any) -> Callable[[], None]:
    def insert() -> None:
        rows = [(os.urandom(_ROW_BYTES),) for _ in range(_PER_UNIT)]
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(_INSERT, rows)

    return insert


def _drop(_result: object) -> None:
    """Give a call whose result nobody wants the type of a statement."""

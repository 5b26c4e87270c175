"""Ten million delayed messages at rest: memory, index size, listing, counting, opening again."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw

from bench.child import in_child, peak_mb, resident_mb
from bench.clients import SessionClient, bench_manager
from bench.figures import Figure, at_most, median, seconds_of
from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime.clocks import SystemClock
from mayfly.store.database import DATABASE_FILE
from mayfly.verbs.schedule import ScheduleFilter

_PER_UNIT = 10_000
_SEED = 20
_DAY_MS = 86_400_000
#: Due times are uniform over 30 days and follow the puts but for an hour: quite at random each put
#: would touch a database page of its own, and filling would take half an hour instead of minutes.
_FIRST_MS, SPREAD_MS, _JITTER_MS = 30 * _DAY_MS, 30 * _DAY_MS, _DAY_MS // 24
_ROUNDS = 3
_LOOKS = 100
_PAGE = 20
#: Message, descriptor, indexes and the write-ahead log at its longest; plenty.
_DISK_BYTES_EACH = 1_500


class Filled(NamedTuple):
    """Time and memory that the puts took."""

    seconds: float
    resident_mb: float
    peak_mb: float


class Look(NamedTuple):
    """One process that opens the folder and looks: ms ascending, MB at the most."""

    open_seconds: float
    list_ms: list[float]
    middle_ms: list[float]
    count_ms: list[float]
    peak_mb: float


def figures(count: int = 10_000_000) -> Iterator[Figure]:
    """Fill a folder, then look at it in new processes; a smaller count is for trying out."""
    name = f"{count:,} staged, "
    free_gb, needed_gb = shutil.disk_usage(tempfile.gettempdir()).free / 1e9, _needed_gb(count)
    if free_gb < needed_gb:
        note = f"{free_gb:.0f} GB free in the temporary folder, {needed_gb:.0f} GB needed"
        yield Figure(f"{name}everything", "not measured", "", False, note)
        return
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        filled = in_child(fill, text, count)
        looks = [in_child(_look, text, count) for _ in range(_ROUNDS)]
        size_gb = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
        index_bytes, table_bytes = in_child(_bytes_on_disk, text)
    rate = f"put in {filled.seconds:,.0f} s ({count / filled.seconds:,.0f}/s): {size_gb:.1f} GB"
    memory_mb = max(filled.resident_mb, *(look.peak_mb for look in looks))
    note = f"{rate}; peak of the process that put them {filled.peak_mb:,.0f} MB"
    yield at_most(f"{name}resident", memory_mb, 200, " MB", note)
    note = f"beyond the {table_bytes / count:.0f} of the message and its place in the table"
    yield at_most(f"{name}index on disk", index_bytes / count, 64, " bytes each", note)
    yield from _times(name, looks)


def _times(name: str, looks: list[Look]) -> Iterator[Figure]:
    for what, ceiling_ms, samples_ms in (
        (f"listing the next {_PAGE}", 5, [look.list_ms for look in looks]),
        (f"paging by {_PAGE} from the middle", 5, [look.middle_ms for look in looks]),
        ("counted by schedule and by queue", 1, [look.count_ms for look in looks]),
    ):
        every = [ms for sample in samples_ms for ms in sample]
        yield at_most(name + what, median(every), ceiling_ms, " ms", samples=every)
    seconds = [look.open_seconds for look in looks]
    note = "new processes, page cache warm; first list and count included"
    yield at_most(f"{name}opening", median(seconds), 1, " s", note, samples=seconds)


def _needed_gb(count: int) -> float:
    return count * _DISK_BYTES_EACH / 1e9


def fill(folder: str, count: int) -> Filled:
    """Put so many delayed messages into the folder of a queue manager."""
    clock, random = SystemClock(), Random(_SEED)
    with bench_manager(Path(folder), clock) as manager:
        client = SessionClient(manager, clock)
        first_ms = clock.now_ms() + _FIRST_MS

        def due_ms(number: int) -> int:
            return first_ms + number * SPREAD_MS // count + random.randrange(_JITTER_MS)

        def run() -> None:
            for first in range(0, count, _PER_UNIT):
                numbers = range(first, min(first + _PER_UNIT, count))
                client.put([(n, due_ms(n)) for n in numbers])

        seconds = seconds_of(run)
        client.close()
        return Filled(seconds, resident_mb(), peak_mb())


def _look(folder: str, count: int) -> Look:
    clock = SystemClock()
    begin = time.perf_counter()
    with QueueManager("BENCH", folder, clock) as manager, manager.session() as session:
        schedule = session.schedule
        assert schedule.count() == count
        (first, *_rest) = schedule.list(limit=_PAGE)
        open_seconds = time.perf_counter() - begin
        half = ScheduleFilter(due_from_ms=first.deliver_at_ms + SPREAD_MS // 2)
        position = schedule.list(half, limit=1)[0].position

        def turn_page() -> None:
            nonlocal position
            position = schedule.list(limit=_PAGE, after=position)[-1].position

        result = Look(
            open_seconds,
            _ms_of(lambda: schedule.list(limit=_PAGE)),
            _ms_of(turn_page),
            _ms_of(lambda: (schedule.count(), manager.counts("Q1").staged)),
            peak_mb(),
        )
        assert manager.counts("Q1").staged == count
    return result


def _ms_of(action: Callable[[], object]) -> list[float]:
    return [seconds_of(action) * SECOND_MS for _ in range(_LOOKS)]


def _bytes_on_disk(folder: str) -> tuple[int, int]:
    """Return the bytes of all indexes of messages, and those of their table."""
    connection = apsw.Connection(str(Path(folder) / DATABASE_FILE))
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'message'"
    ).fetchall()
    index_bytes = sum(_pages_bytes(connection, str(name)) for (name,) in names)
    table_bytes = _pages_bytes(connection, "message")
    connection.close()
    return index_bytes, table_bytes


def _pages_bytes(connection: apsw.Connection, name: str) -> int:
    """Return the size of the pages of one table or index; 0 when it has none."""
    sql = "SELECT pgsize FROM dbstat WHERE name = ? AND aggregate = TRUE"
    size: Any = connection.execute(sql, (name,)).get
    return 0 if size is None else int(size)

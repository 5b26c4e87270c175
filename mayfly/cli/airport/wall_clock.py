"""The day once more, on the machine's clock: Spark puts the calls, gates get them, the lake fills.

The queue manager is a new one; its own timer releases delayed calls and discards expired ones.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.cli.airport.calls import Compression, put_calls, write_calls
from mayfly.cli.airport.day import REPORTS
from mayfly.cli.airport.flights import LIFE_MS, MINUTE_MS, Flight
from mayfly.cli.airport.gates import Answer, Gates
from mayfly.lifetime.life import State
from mayfly.pipeline.spark.lake import ledger_to_lake, read_lake, read_ledger
from mayfly.pipeline.spark.report import verify_lake
from mayfly.queue_manager import QueueManager
from mayfly.runtime.clocks import SystemClock
from mayfly.servers.flight import FlightServer

#: 60 minutes of the day in a second.
COMPRESSION = 3_600
NAME = "BOARDING.NOW"
#: The shortest EXPRYINT: a call that no gate asks for is discarded, and reported, within this.
_SCAN_SECONDS = 1
_LOOK_SECONDS = 0.2
#: Number of looks, after the day is over, for the last discards and reports.
_LAST_LOOKS = 300
_TOKEN_BYTES = 32


class QueueSeen(NamedTuple):
    """The calls of one queue at one moment; ``calls`` is the number of the whole day."""

    queue: str
    calls: int
    staged: int
    available: int
    got: int
    expired: int

    @property
    def put(self) -> int:
        """The number of calls put so far."""
        return self.staged + self.available + self.got + self.expired


class WallSeen(NamedTuple):
    """The day at one moment (``day_ms`` is its own time): calls, reports, ledger rows in the lake.

    ``done`` is the share of the day that is over, 1 at most.
    """

    day_ms: int
    done: float
    queues: tuple[QueueSeen, ...]
    reported: int
    lake_rows: int


@dataclass(frozen=True)
class WallDay:
    """The outcome of the calls on the machine's clock.

    ``lives`` are their ends by the lake, without the lives on the staging queue; ``seen`` are the
    snapshots of the day. Of the ``lake_rows`` ledger rows, ``rows_during_day`` were in the lake
    before the day was over; ``batch_count`` batches put the calls.
    """

    flights: Sequence[Flight]
    compression: Compression
    answers: list[Answer]
    reported: list[bytes]
    present_count: int
    lives: pa.Table
    seen: list[WallSeen]
    lake_rows: int
    rows_during_day: int
    batch_count: int
    book_problems: list[str]


def live_by_the_wall(
    spark: SparkSession,
    flights: Sequence[Flight],
    folder: Path,
    factor: int = COMPRESSION,
    tell: Callable[[WallSeen], None] = lambda _seen: None,
) -> WallDay:
    """Run a day ``factor`` times as fast as it was and let the books settle.

    ``folder``, an empty one, takes the queue manager, the lake and the checkpoint. ``tell`` is
    called some times a second. Raises an error that ends a stream or a gate before its time.
    """
    token_file = folder / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_urlsafe(_TOKEN_BYTES))
    with (
        _open_queue_manager(flights, folder / "queue-manager") as queue_manager,
        FlightServer(queue_manager, port=0, token=token_file.read_text()) as server,
    ):
        calls = folder / "calls.parquet"
        to_lake = _running(ledger_to_lake(spark, server.url, token_file, folder / "lake"))
        puts = _running(put_calls(spark, calls, server.url, token_file, folder / "checkpoint"))
        first_ms = min(flight.put_ms for flight in flights) // MINUTE_MS * MINUTE_MS - MINUTE_MS
        compression = Compression(first_ms, queue_manager.now_ms(), factor)
        write_calls(flights, compression, REPORTS, calls)
        gates = Gates(queue_manager, flights, compression, REPORTS)
        day = _WallDrive(queue_manager, flights, (gates, puts, to_lake), compression)
        with gates:
            day.drive(tell)
        return day.result(spark, folder / "lake")


def _running(query: StreamingQuery) -> StreamingQuery:
    """Return a query whose first batch, an empty one, is done: the next ones are much faster."""
    query.processAllAvailable()
    return query


def _open_queue_manager(flights: Sequence[Flight], folder: Path) -> QueueManager:
    queue_manager = QueueManager(NAME, folder, SystemClock())
    queues = [*sorted({flight.queue for flight in flights}), REPORTS]
    script = [f"DEFINE QLOCAL({queue}) DEFPSIST(YES) MAXDEPTH(50000)" for queue in queues]
    _command(queue_manager, *script, f"ALTER QMGR EXPRYINT({_SCAN_SECONDS})")
    return queue_manager


def _command(queue_manager: QueueManager, *script: str) -> None:
    result = queue_manager.mqsc("\n".join(script))
    assert result.ok, result.text


class _WallDrive:
    """Takes snapshots while the day goes by, and ends it in order."""

    def __init__(
        self,
        queue_manager: QueueManager,
        flights: Sequence[Flight],
        parts: tuple[Gates, StreamingQuery, StreamingQuery],
        compression: Compression,
    ) -> None:
        self._queue_manager = queue_manager
        self._flights = flights
        self._gates, self._puts, self._to_lake = parts
        self._compression = compression
        self._end_ms = compression.on_the_wall(max(flight.put_ms for flight in flights) + LIFE_MS)
        self._calls = Counter(flight.queue for flight in flights)
        self._queue_of = {flight.correl_id: flight.queue for flight in flights}
        self._seen: list[WallSeen] = []
        self._rows_during_day = self._batch_count = 0
        self._rest = threading.Event()

    def drive(self, tell: Callable[[WallSeen], None]) -> None:
        """Return when every call is got, or expired and reported, or the last look is over."""
        while self._queue_manager.now_ms() < self._end_ms:
            self._look(tell)
        self._rows_during_day = _lake_rows(self._to_lake)
        self._puts.processAllAvailable()
        self._batch_count = sum(p["numInputRows"] > 0 for p in self._puts.recentProgress)
        self._puts.stop()
        for _ in range(_LAST_LOOKS):
            seen = self._look(tell)
            if sum(queue.got for queue in seen.queues) + seen.reported >= len(self._flights):
                break

    def result(self, spark: SparkSession, lake: Path) -> WallDay:
        """Wait until the ledger and the lake have everything; call it with the gates closed."""
        queue_manager = self._queue_manager
        # Without the scan, balance rows are the last work that falls due.
        _command(queue_manager, "ALTER QMGR EXPRYINT(OFF)")
        while queue_manager.engine.due_work.next_due_ms() is not None:
            self._rest.wait(_LOOK_SECONDS)
        self._to_lake.processAllAvailable()
        self._to_lake.stop()
        lake_rows, ledger_rows = (
            read_ledger(spark, lake).count(),
            queue_manager.ledger.last_position(),
        )
        problems = [*queue_manager.verify().problems, *verify_lake(spark, lake)]
        if lake_rows != ledger_rows:
            problems.append(f"the ledger has {ledger_rows} rows, the lake {lake_rows}")
        return WallDay(
            self._flights,
            self._compression,
            self._gates.answers(),
            self._gates.reported(),
            sum(sum(queue_manager.counts(queue)) for queue in self._calls),
            _lives(spark, lake),
            self._seen,
            lake_rows,
            self._rows_during_day,
            self._batch_count,
            problems,
        )

    def _look(self, tell: Callable[[WallSeen], None]) -> WallSeen:
        self._rest.wait(_LOOK_SECONDS)
        self._gates.check()
        for query in (self._puts, self._to_lake):
            failure = query.exception()
            if failure is not None:
                raise failure
        seen = self._seen_now()
        self._seen.append(seen)
        tell(seen)
        return seen

    def _seen_now(self) -> WallSeen:
        # Ends are counted first, then messages present, so that none counts twice. A call that
        # ends in between, and a report on its way, are missing for a moment; the count of ends
        # therefore never goes back.
        before = {queue.queue: queue for queue in self._seen[-1].queues} if self._seen else {}
        got = Counter(a.flight.queue for a in self._gates.answers() if a.got_ms is not None)
        reported = Counter(self._queue_of[correl_id] for correl_id in self._gates.reported())
        now_ms = self._queue_manager.now_ms()
        queues = []
        for queue, calls in sorted(self._calls.items()):
            counts = self._queue_manager.counts(queue)
            expired = reported[queue] + counts.expired_present
            if queue in before:
                expired = max(expired, before[queue].expired)
            queues.append(QueueSeen(queue, calls, counts.staged, counts.live, got[queue], expired))
        compression = self._compression
        done = (now_ms - compression.begin_ms) / (self._end_ms - compression.begin_ms)
        return WallSeen(
            max(compression.in_the_day(now_ms), compression.day_begin_ms),
            min(max(done, 0.0), 1.0),
            tuple(queues),
            reported.total(),
            _lake_rows(self._to_lake),
        )


def _lake_rows(query: StreamingQuery) -> int:
    """Return the number of ledger rows in the lake: positions count from 1."""
    progress = query.lastProgress
    return 0 if progress is None else int(json.loads(progress.sources[0].endOffset)["position"])


def _lives(spark: SparkSession, lake: Path) -> pa.Table:
    lives = read_lake(spark, lake).where(f.col("queue") != REPORTS)
    lives = lives.where(f.col("outcome") != State.RELEASED.value)
    columns = "queue correl_id put_ms deliver_at_ms expire_at_ms ended_ms outcome".split()
    return lives.select(*columns).toArrow()

"""The day on the wall clock: runs the boarding calls of a day in real time, and checks them.

A boarding call is the message about one flight. Spark puts the calls, gates (threads) get them,
and a thread copies the ledger into the lake. The queue manager is a new one; its timer releases
delayed calls and discards expired ones. A call that expires on one clock and is got on the other
left shortly before its deadline: it was put, or asked for, too late. A difference with another
cause is a problem.

The calls are a Spark stream, whose day passes a fixed number of times as fast as the real one.
Delivery time and deadline of a row are moments of the wall clock. So a batch that comes late
shortens the wait of its calls, and shifts nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from mayfly.cli.airport.day import (
    REPORTS,
    LedgerCopy,
    book_problems,
    define_queues,
    ends_in_lake,
    make_token,
    run_mqsc,
)
from mayfly.cli.airport.flights import DELAY_MS, LIFE_MS, MINUTE_MS, Flight, spelled
from mayfly.lifetime.columns import Ints
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION, MQRO_PASS_CORREL_ID
from mayfly.pipeline.spark.lake import read_ledger
from mayfly.pipeline.spark.replay import EXPIRED, GOT
from mayfly.pipeline.spark.source import MayflyDataSource
from mayfly.queue_manager import QueueManager
from mayfly.runtime.clocks import SystemClock
from mayfly.servers.flight import FlightServer

#: Several: while one gate waits for a call that Spark puts late, the others serve the next flights.
_GATES_PER_AIRPORT = 3
#: Wait of the reader of reports; after each it looks for the end of the day.
_REPORT_WAIT_MS = 200
#: 60 minutes of the day in a second.
COMPRESSION = 3_600
NAME = "BOARDING.NOW"
#: The shortest EXPRYINT: a call that no gate asks for is discarded, and reported, within this.
_SCAN_SECONDS = 1
_LOOK_SECONDS = 0.2
#: Number of looks, after the day is over, for the last discards and reports.
_LAST_LOOKS = 300
#: A thread that a busy machine holds up between asking and getting is held up for less than this.
_HELD_UP_MS = SECOND_MS
FORMAT = "boarding-calls"
_MOMENT = "at_ms"
_PATH, _OFFSET = "path", "calls"
#: Columns for the sink.
_COLUMNS = pa.schema(
    [
        pa.field("queue", pa.string()),
        pa.field("correl_id", pa.binary()),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("expire_at_ms", pa.int64()),
        pa.field("report", pa.int32()),
        pa.field("reply_to_q", pa.string()),
        pa.field("payload", pa.binary()),
    ]
)
#: Interval of the batches; one that takes longer delays the next.
_TRIGGER = "250 milliseconds"


class GateAnswer(NamedTuple):
    """The moments (epoch ms) when a gate asked for a flight's message, and when it got this.

    ``got_ms`` is None if the gate did not get it.
    """

    flight: Flight
    asked_ms: int
    got_ms: int | None


class Gates:
    """Threads that get the messages of a day as flights leave, and one that reads reports.

    Use it as a context manager.
    """

    def __init__(
        self,
        queue_manager: QueueManager,
        flights: Sequence[Flight],
        compression: Compression,
        reports: str,
    ) -> None:
        """Sort the flights by departure; no thread is started yet.

        A gate is a thread that gets the message of a flight when the flight leaves; each airport
        has three. No gate gets the message of a cancelled flight. ``compression`` is the time scale
        of the day. ``reports`` is the queue of expiration reports.
        """
        self._queue_manager = queue_manager
        self._compression = compression
        self._reports = reports
        self._departures: dict[str, SimpleQueue[tuple[int, Flight]]] = {}
        left = [
            (flight.departed_ms, flight) for flight in flights if flight.departed_ms is not None
        ]
        for departed_ms, flight in sorted(left):
            line = self._departures.setdefault(flight.queue, SimpleQueue())
            line.put((compression.on_the_wall(departed_ms), flight))
        self._answers: list[GateAnswer] = []
        self._reported: list[bytes] = []
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(_GATES_PER_AIRPORT * len(self._departures) + 1, "gate")
        self._threads: list[Future[None]] = []

    def __enter__(self) -> Self:
        """Start the threads that get the messages, and the reader of reports."""
        for line in self._departures.values():
            self._threads += [
                self._pool.submit(self._serve, line) for _ in range(_GATES_PER_AIRPORT)
            ]
        self._threads.append(self._pool.submit(self._read_reports))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the threads and wait for their end.

        Messages of flights that have not left by now are not got.
        """
        self._is_over.set()
        self._pool.shutdown()

    def check(self) -> None:
        """Raise the error of a thread that has failed; nothing if none has."""
        for thread in self._threads:
            if thread.done():
                thread.result()

    def answers(self) -> list[GateAnswer]:
        """Return the result of each gate's get so far, in the order in which the gets ended.

        The list is a copy.
        """
        return list(self._answers)

    def reported(self) -> list[bytes]:
        """Return the CorrelIds of the messages that were reported as expired so far."""
        return list(self._reported)

    def _serve(self, line: SimpleQueue[tuple[int, Flight]]) -> None:
        """Get the messages of an airport's flights as they leave, until no flight is left.

        Waits for a message that is put late, at most until its deadline. Runs in a thread.
        """
        now_ms = self._queue_manager.now_ms
        with self._queue_manager.session(program="boarding gate") as session:
            while not self._is_over.is_set():
                try:
                    leaves_ms, flight = line.get_nowait()
                except Empty:
                    return
                if self._is_over.wait(max(leaves_ms - now_ms(), 0) / SECOND_MS):
                    return
                asked_ms = now_ms()
                # The wait is for a call that Spark puts late, at most until it would expire.
                wait_ms = max(deadline_ms(flight, self._compression) - asked_ms, 0)
                found = session.get(flight.queue, correl_id=flight.correl_id, wait_ms=wait_ms)
                got_ms = None if found is None else now_ms()
                self._answers.append(GateAnswer(flight, asked_ms, got_ms))

    def _read_reports(self) -> None:
        """Record expiration reports until the gates are closed; runs in a thread."""
        with self._queue_manager.session(program="boarding demo") as session:
            while True:
                report = session.get(self._reports, wait_ms=_REPORT_WAIT_MS)
                if report is not None:
                    assert report.descriptor.feedback == MQFB_EXPIRATION, "no other was asked for"
                    self._reported.append(report.correl_id)
                elif self._is_over.is_set():
                    return


class QueueSeen(NamedTuple):
    """The numbers of messages of one queue in each state; ``calls`` is that of the whole day."""

    queue: str
    calls: int
    staged: int
    available: int
    got: int
    expired: int

    @property
    def put(self) -> int:
        """The number of messages put on the queue so far."""
        return self.staged + self.available + self.got + self.expired


class WallSeen(NamedTuple):
    """A snapshot of the day on the wall clock: messages, reports, ledger rows in the lake.

    ``day_ms`` is the time of the day; ``done`` is the share of the day that is over, at most 1.
    """

    day_ms: int
    done: float
    queues: tuple[QueueSeen, ...]
    reported: int
    lake_rows: int


@dataclass(frozen=True)
class WallDay:
    """The results of the day on the wall clock.

    ``lives`` are the ends of calls according to the lake, without releases; ``seen`` are the
    snapshots of the day. Of the ``lake_rows`` ledger rows, ``rows_during_day`` were in the lake
    before the day was over; ``batch_count`` batches put the calls.
    """

    flights: Sequence[Flight]
    compression: Compression
    answers: list[GateAnswer]
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
    report: Callable[[WallSeen], None] = lambda _seen: None,
) -> WallDay:
    """Run a day on the wall clock, ``factor`` times as fast as it was; return its results.

    ``folder``, which must be empty, gets the queue manager, the lake and a checkpoint. ``report``
    is called five times a second. Raises the error of a stream or gate that fails.
    """
    token_file = make_token(folder)
    with (
        QueueManager(NAME, folder / "queue-manager", SystemClock()) as queue_manager,
        FlightServer(queue_manager, port=0, token=token_file.read_text()) as server,
        LedgerCopy(server.url, token_file, folder / "lake") as copy,
    ):
        define_queues(queue_manager, flights, _SCAN_SECONDS)
        calls = folder / "calls.parquet"
        puts = _running(put_calls(spark, calls, server.url, token_file, folder / "checkpoint"))
        first_ms = min(flight.put_ms for flight in flights) // MINUTE_MS * MINUTE_MS - MINUTE_MS
        compression = Compression(first_ms, queue_manager.now_ms(), factor)
        write_calls(flights, compression, REPORTS, calls)
        gates = Gates(queue_manager, flights, compression, REPORTS)
        day = _WallDrive(queue_manager, flights, gates, puts, copy, compression)
        with gates:
            day.drive(report)
        return day.result(spark, folder / "lake")


def _running(query: StreamingQuery) -> StreamingQuery:
    """Wait until the query's first batch, an empty one, is done; return the query.

    Later batches are much faster.
    """
    query.processAllAvailable()
    return query


class _WallDrive:
    """Takes snapshots while the day passes, and collects the results at its end."""

    def __init__(
        self,
        queue_manager: QueueManager,
        flights: Sequence[Flight],
        gates: Gates,
        puts: StreamingQuery,
        copy: LedgerCopy,
        compression: Compression,
    ) -> None:
        """Keep the gates, the stream ``puts``, which puts the messages, and ``copy``.

        ``copy`` fills the lake from the ledger. ``compression`` is the time scale of the day.
        """
        self._queue_manager = queue_manager
        self._flights = flights
        self._gates, self._puts, self._copy = gates, puts, copy
        self._compression = compression
        self._end_ms = compression.on_the_wall(max(flight.put_ms for flight in flights) + LIFE_MS)
        self._calls = Counter(flight.queue for flight in flights)
        self._queue_of = {flight.correl_id: flight.queue for flight in flights}
        self._seen: list[WallSeen] = []
        self._rows_during_day = self._batch_count = 0
        self._rest = threading.Event()

    def drive(self, report: Callable[[WallSeen], None]) -> None:
        """Take and report snapshots until every message was got, or has expired and was reported.

        At the end of the day the stream that puts the messages is stopped. The call returns a
        minute later at the latest. Raises the error of a gate or stream.
        """
        while self._queue_manager.now_ms() < self._end_ms:
            self._look(report)
        self._rows_during_day = self._copy.row_count
        self._puts.processAllAvailable()
        self._batch_count = sum(p["numInputRows"] > 0 for p in self._puts.recentProgress)
        self._puts.stop()
        for _ in range(_LAST_LOOKS):
            seen = self._look(report)
            if sum(queue.got for queue in seen.queues) + seen.reported >= len(self._flights):
                break

    def result(self, spark: SparkSession, lake: Path) -> WallDay:
        """Wait until the lake has all ledger rows; return the results of the day.

        Call it after the gates are closed. Turns the expiry scan off.
        """
        queue_manager = self._queue_manager
        # Without the scan, balance rows are the last work that falls due.
        run_mqsc(queue_manager, "ALTER QMGR EXPRYINT(OFF)")
        while queue_manager.engine.due_work.next_due_ms() is not None:
            self._rest.wait(_LOOK_SECONDS)
        self._copy.finish()
        lake_rows = read_ledger(spark, lake).count()
        return WallDay(
            self._flights,
            self._compression,
            self._gates.answers(),
            self._gates.reported(),
            sum(sum(queue_manager.counts(queue)) for queue in self._calls),
            ends_in_lake(spark, lake),
            self._seen,
            lake_rows,
            self._rows_during_day,
            self._batch_count,
            book_problems(queue_manager, lake, lake_rows),
        )

    def _look(self, report: Callable[[WallSeen], None]) -> WallSeen:
        """Wait 0.2 s, then keep and report a snapshot; raises the error of a gate or stream."""
        self._rest.wait(_LOOK_SECONDS)
        self._gates.check()
        self._copy.check()
        failure = self._puts.exception()
        if failure is not None:
            raise failure
        seen = self._seen_now()
        self._seen.append(seen)
        report(seen)
        return seen

    def _seen_now(self) -> WallSeen:
        """Return a snapshot of the day; its number of expired messages never decreases."""
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
            self._copy.row_count,
        )


class LateSummary(NamedTuple):
    """How late puts or gets were, in ms of the wall clock: the median and the maximum."""

    half_ms: int
    all_ms: int


class Changed(NamedTuple):
    """A message that was got on the virtual clock and expired on the wall clock.

    The flight left ``spare_ms`` before the deadline. The message was both put and asked for only
    ``late_ms`` after the flight had left.
    """

    flight: Flight
    spare_ms: int
    late_ms: int


def counts_of(day: WallDay) -> dict[str, int]:
    """Return the day's numbers of messages as calls, got, expired and present.

    ``calls`` is the number put, ``expired`` that of the expiration reports, and ``present`` that of
    messages still on queues.
    """
    return {
        "calls": len(day.lives),
        "got": sum(answer.got_ms is not None for answer in day.answers),
        "expired": len(day.reported),
        "present": day.present_count,
    }


def put_lateness(day: WallDay) -> LateSummary:
    """Return the median and maximum lateness of the puts in ms; zeros without messages."""
    moments = {f.correl_id: day.compression.on_the_wall(f.put_ms) for f in day.flights}
    put = zip(*_columns(day, "correl_id", "put_ms"), strict=True)
    return _lateness([put_ms - moments[call] for call, put_ms in put if call in moments])


def get_lateness(day: WallDay) -> LateSummary:
    """Return the median and maximum lateness of gets after departures in ms; zeros if none."""
    return _lateness(
        [
            answer.got_ms - _leaves_ms(day, answer.flight)
            for answer in day.answers
            if answer.got_ms is not None
        ]
    )


def changed(day: WallDay, virtually_got: Collection[bytes]) -> list[Changed]:
    """Return the messages got on the virtual clock only, smallest ``spare_ms`` first.

    ``spare_ms`` is the time from the flight's departure to the deadline of its message.
    ``virtually_got`` are the correlation ids of the messages got on the virtual clock.
    """
    put_ms = dict(zip(*_columns(day, "correl_id", "put_ms"), strict=True))
    asked_ms = {answer.flight.correl_id: answer.asked_ms for answer in day.answers}
    missed = set(virtually_got) - _got(day)
    found = []
    for flight in day.flights:
        correl_id = flight.correl_id
        if correl_id not in missed:
            continue
        leaves_ms, ends_ms = _leaves_ms(day, flight), deadline_ms(flight, day.compression)
        # A call that no gate asked for, since all were busy, counts as asked for at its end.
        there_ms = max(asked_ms.get(correl_id, ends_ms), put_ms.get(correl_id, ends_ms))
        found.append(Changed(flight, ends_ms - leaves_ms, there_ms - leaves_ms))
    return sorted(found, key=lambda miss: (miss.spare_ms, miss.flight))


def as_json(day: WallDay, virtually_got: Collection[bytes]) -> dict[str, Any]:
    """Return the numbers of a day on the wall clock as a dict for JSON.

    The keys are compression, those of :func:`counts_of`, batches, lake, put_late_ms, got_late_ms
    and changed. Lateness is in ms of the wall clock. ``changed`` lists the messages that were got
    on the virtual clock only; ``virtually_got`` has the correlation ids of all that were got there.
    """
    return {
        "compression": day.compression.factor,
        **counts_of(day),
        "batches": day.batch_count,
        "lake": {"rows": day.lake_rows, "rows_during_day": day.rows_during_day},
        "put_late_ms": put_lateness(day)._asdict(),
        "got_late_ms": get_lateness(day)._asdict(),
        "changed": [
            miss._asdict() | {"flight": spelled(miss.flight.correl_id)}
            for miss in changed(day, virtually_got)
        ],
    }


def problems_of(day: WallDay, virtually_got: Collection[bytes]) -> list[str]:
    """Return broken rules, wrong balances, and differences without a cause, as sentences.

    A difference is a message that ended otherwise on the virtual clock; a late put or get is a
    cause. Returns [] if nothing is wrong. ``virtually_got`` are the correlation ids of the messages
    got on the virtual clock.
    """
    found = [*day.book_problems, *_conservation_problems(day), *_window_problems(day)]
    found += [
        f"{spelled(correl_id)} was got after its deadline"
        for correl_id in sorted(_got(day) - set(virtually_got))
    ]
    found += [
        f"{spelled(miss.flight.correl_id)} was there {miss.spare_ms - miss.late_ms} ms before its "
        "deadline, was asked for, and was not got"
        for miss in changed(day, virtually_got)
        if miss.spare_ms - miss.late_ms > _HELD_UP_MS
    ]
    return [f"by the wall: {problem}" for problem in found]


def _conservation_problems(day: WallDay) -> Iterator[str]:
    """Yield differences between flights, gates and reports and the ledger in the lake.

    Each flight's message must be in the lake once.
    """
    correl_ids, outcomes = _columns(day, "correl_id", "outcome")
    ended: dict[str, Counter[bytes]] = {GOT: Counter(), EXPIRED: Counter()}
    for correl_id, outcome in zip(correl_ids, outcomes, strict=True):
        ended.setdefault(outcome, Counter())[correl_id] += 1
    for outcome in ended.keys() - {GOT, EXPIRED}:
        yield f"{ended[outcome].total()} calls ended as {outcome}"
    counts = counts_of(day)
    if len(day.flights) != counts["got"] + counts["expired"] + counts["present"]:
        yield f"{len(day.flights)} flights, but {counts}"
    if Counter(correl_ids) != Counter(flight.correl_id for flight in day.flights):
        yield f"{len(day.flights)} calls are due, the lake has {len(correl_ids)} others"
    got = Counter(a.flight.correl_id for a in day.answers if a.got_ms is not None)
    if got != ended[GOT]:
        yield f"the gates got {got.total()} calls, in the lake are {ended[GOT].total()} others"
    if Counter(day.reported) != ended[EXPIRED]:
        expired_count = ended[EXPIRED].total()
        yield f"{len(day.reported)} reports, in the lake {expired_count} other calls expired"


def _window_problems(day: WallDay) -> Iterator[str]:
    """Yield messages in the lake that were got outside their window or expired inside it.

    The window begins with the delivery time and ends before the deadline.
    """
    due = {flight.correl_id: deadline_ms(flight, day.compression) for flight in day.flights}
    names = ("correl_id", "outcome", "deliver_at_ms", "expire_at_ms", "ended_ms")
    for correl_id, outcome, deliver_ms, expire_ms, ended_ms in zip(
        *_columns(day, *names), strict=True
    ):
        if expire_ms != due.get(correl_id):
            yield f"{spelled(correl_id)} has the deadline {expire_ms}"
        is_inside = deliver_ms <= ended_ms < expire_ms
        if is_inside is not (outcome == GOT):
            yield f"{spelled(correl_id)}: {outcome} at {ended_ms}, {deliver_ms} to {expire_ms}"


def _got(day: WallDay) -> set[bytes]:
    """Return the correlation ids of the messages that gates got."""
    return {answer.flight.correl_id for answer in day.answers if answer.got_ms is not None}


def _leaves_ms(day: WallDay, flight: Flight) -> int:
    """Return the moment (epoch ms) of the wall clock at which a flight leaves.

    The flight must not be cancelled.
    """
    assert flight.departed_ms is not None, "asked for, so it left"
    return day.compression.on_the_wall(flight.departed_ms)


def _columns(day: WallDay, *names: str) -> list[list[Any]]:
    """Return the named columns of the day's messages in the lake, each as a list."""
    return [day.lives[name].to_pylist() for name in names]


def _lateness(late_ms: list[int]) -> LateSummary:
    """Return the median and the maximum of times in ms; zeros for an empty list."""
    if not late_ms:
        return LateSummary(0, 0)
    in_order: Ints = np.sort(np.array(late_ms))
    return LateSummary(int(in_order[(len(in_order) - 1) // 2]), int(in_order[-1]))


class Compression(NamedTuple):
    """The time scale of a day: from ``begin_ms`` of the wall clock on, ``factor`` times as fast."""

    day_begin_ms: int
    begin_ms: int
    factor: int

    def on_the_wall(self, day_ms: int) -> int:
        """Return the wall-clock moment (epoch ms) at which a moment of the replayed day comes.

        ``day_ms`` is in epoch ms of the day that is replayed faster. The result is rounded down.
        """
        return self.begin_ms + (day_ms - self.day_begin_ms) // self.factor

    def in_the_day(self, at_ms: int) -> int:
        """Return the moment of the replayed day (epoch ms) at the wall-clock moment ``at_ms``."""
        return self.day_begin_ms + (at_ms - self.begin_ms) * self.factor

    def minutes(self, duration_ms: int) -> float:
        """Return how many minutes of the replayed day pass in a wall-clock duration in ms."""
        return duration_ms * self.factor / MINUTE_MS


def write_calls(
    flights: Sequence[Flight], compression: Compression, reports: str, path: Path
) -> None:
    """Write the day's messages, in put order, to the file that the stream waits for.

    The file appears atomically at ``path``, and with it the stream begins to put. ``compression``
    is the time scale, which gives each message its moment of the wall clock. ``reports`` names the
    reply-to queue of expiration reports.
    """
    on_the_wall = compression.on_the_wall
    columns = {
        "queue": [flight.queue for flight in flights],
        "correl_id": [flight.correl_id for flight in flights],
        "deliver_at_ms": [on_the_wall(flight.put_ms + DELAY_MS) for flight in flights],
        "expire_at_ms": [deadline_ms(flight, compression) for flight in flights],
        # With MQRO_PASS_CORREL_ID a report has the CorrelId of its call, which names the flight.
        "report": [MQRO_EXPIRATION | MQRO_PASS_CORREL_ID] * len(flights),
        "reply_to_q": [reports] * len(flights),
        "payload": [f"Now boarding: {spelled(flight.correl_id)}".encode() for flight in flights],
    }
    moments = pa.array([on_the_wall(flight.put_ms) for flight in flights], pa.int64())
    written = path.with_suffix(".new")
    pq.write_table(pa.table(columns, _COLUMNS).append_column(_MOMENT, moments), written)
    written.rename(path)


def deadline_ms(flight: Flight, compression: Compression) -> int:
    """Return the wall-clock deadline of a flight's message, in ms since 1970.

    ``compression`` is the time scale of the day.
    """
    return compression.on_the_wall(flight.put_ms + LIFE_MS)


def put_calls(
    spark: SparkSession, calls: Path, url: str, token_file: Path, checkpoint: Path
) -> StreamingQuery:
    """Start the Spark stream that puts each flight's message once, at its moment.

    ``url`` and ``token_file`` are those of the queue manager's Flight server. ``checkpoint`` is the
    folder of the stream's checkpoint. Returns the running query. It puts nothing until
    `write_calls` has written the file ``calls``.
    """
    spark.dataSource.register(CallsSource)
    return (
        spark.readStream.format(FORMAT)
        .option(_PATH, str(calls))
        .load()
        .writeStream.format(MayflyDataSource.name())
        .queryName("boarding calls to queues")
        .options(url=url, tokenFile=str(token_file), checkpointLocation=str(checkpoint))
        .trigger(processingTime=_TRIGGER)
        .start()
    )


class CallsSource(DataSource):
    """Spark data source of the messages about flights; option ``path`` is `write_calls`' file."""

    @classmethod
    def name(cls) -> str:
        """Return the name of this source for Spark's ``format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that the Mayfly sink reads."""
        return from_arrow_schema(_COLUMNS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the reader of the stream; the file need not exist yet."""
        return CallsReader(Path(self.options[_PATH]))


class CallRange(InputPartition):
    """The messages of one batch: numbers ``first`` to below ``after``, in put order."""

    def __init__(self, first: int, after: int) -> None:
        """Keep the number of the first message, and that of the message after the last one."""
        super().__init__((first, after))
        self.first = first
        self.after = after


class CallsReader(DataSourceStreamReader):
    """Reads the messages whose moment has come; the stream's offset is their number."""

    def __init__(self, path: Path) -> None:
        """Keep the path of the file, which is read again for each batch."""
        self._path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Return the offset of a new stream, a dict with one number: 0 messages read."""
        return {_OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Return the offset up to which messages can be read: those whose moment has come.

        The offset is a dict with the number of these messages. ``limit`` is ignored. Returns
        ``start`` if the file does not exist yet.
        """
        if not self._path.exists():
            return start
        moments = pq.read_table(self._path, columns=[_MOMENT])[_MOMENT].to_numpy()
        due_count = int(np.searchsorted(moments, SystemClock().now_ms(), side="right"))
        return {_OFFSET: max(start[_OFFSET], due_count)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the messages of a batch as one partition.

        The empty first batch has one, too: its task starts the Python worker that the stream will
        need. If that started later, hours of the replayed day would pass meanwhile.
        """
        return [CallRange(start[_OFFSET], end[_OFFSET])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a partition; nothing for an empty one."""
        assert isinstance(partition, CallRange)
        if partition.first == partition.after:
            return
        calls = pq.read_table(self._path, columns=_COLUMNS.names)
        yield from calls.slice(partition.first, partition.after - partition.first).to_batches()

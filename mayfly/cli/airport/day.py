"""One day of boarding calls through a real queue manager on a virtual clock, and its lake.

Every put, get, release, discard and report of the day happens at its own moment; only the waits in
between are skipped.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from enum import IntEnum
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mayfly.cli.airport.flights import DELAY_MS, LIFE_MS, MINUTE_MS, Flight, spelled
from mayfly.engine import Session
from mayfly.lifetime.life import State
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.copying import copy_ledger
from mayfly.pipeline.lake.parquet import ParquetLake
from mayfly.pipeline.spark.lake import read_lake
from mayfly.queue_manager import QueueManager
from mayfly.runtime.virtual_clock import VirtualClock

NAME = "BOARDING"
REPORTS = "BOARDING.REPORTS"
#: The scan runs every half minute, and deadlines are half past a whole minute. So a call that no
#: gate asks for is discarded at its deadline to the millisecond.
SCAN_SECONDS = 30
#: Interval of progress reports, in the time of the day.
_REPORT_EVERY_MS = 10 * MINUTE_MS
_TOKEN_BYTES = 32


class DaySnapshot(NamedTuple):
    """The numbers of messages in each state, at one moment of the day (ms since 1970)."""

    now_ms: int
    staged_count: int
    available_count: int
    got_count: int
    expired_count: int


class Waited(NamedTuple):
    """The example call, asked for a millisecond before its delivery time, and again at that time.

    ``found_early`` and ``found_in_time`` say whether it was there. ``got_ms`` is None if it was
    never got; ``remaining_tenths`` is the Expiry that the get returned, in tenths of a second.
    """

    flight: Flight
    msg_id: bytes
    found_early: bool
    found_in_time: bool
    got_ms: int | None
    remaining_tenths: int


class ExpirationReport(NamedTuple):
    """An expiration report: ``about`` is the MsgId of the message that expired.

    ``put_ms`` is the time at which the report was put.
    """

    msg_id: bytes
    about: bytes
    feedback: int
    put_ms: int


class Day(NamedTuple):
    """The results of a day: MsgIds and moments of gets by correlation id, and the reports."""

    flights: Sequence[Flight]
    msg_ids: dict[bytes, bytes]
    got_ms: dict[bytes, int]
    reports: list[ExpirationReport]
    waited: Waited

    @property
    def expired(self) -> list[Flight]:
        """The flights whose message was never got."""
        return [flight for flight in self.flights if flight.correl_id not in self.got_ms]


class _Verb(IntEnum):
    """The actions of a day; those of the same millisecond are done in this order."""

    PUT = 0
    ASK_EARLY = 1
    ASK_IN_TIME = 2
    GET = 3


class _Event(NamedTuple):
    """An action of the day for one flight, with its moment (ms since 1970)."""

    at_ms: int
    verb: _Verb
    flight: Flight


def open_queue_manager(
    flights: Sequence[Flight], folder: Path | None
) -> tuple[QueueManager, VirtualClock]:
    """Make the demo's queue manager, open and with its queues; return (queue manager, its clock).

    The virtual clock stands a minute or two before the day's first put. ``folder`` None keeps the
    queue manager in memory.
    """
    first_put_ms = min(flight.put_ms for flight in flights)
    clock = VirtualClock(first_put_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS)
    queue_manager = QueueManager(NAME, folder, clock)
    define_queues(queue_manager, flights, SCAN_SECONDS)
    return queue_manager, clock


def define_queues(
    queue_manager: QueueManager, flights: Sequence[Flight], scan_seconds: int
) -> None:
    """Define the queues for flights and reports, and set the expiry scan's interval in seconds."""
    queues = [*sorted({flight.queue for flight in flights}), REPORTS]
    script = [f"DEFINE QLOCAL({queue}) DEFPSIST(YES) MAXDEPTH(50000)" for queue in queues]
    run_mqsc(queue_manager, *script, f"ALTER QMGR EXPRYINT({scan_seconds})")


def run_mqsc(queue_manager: QueueManager, *commands: str) -> None:
    """Run MQSC commands; an AssertionError says that one has failed."""
    result = queue_manager.mqsc("\n".join(commands))
    assert result.ok, result.text


def make_token(folder: Path) -> Path:
    """Write a random access token to the private file ``token`` in a folder; return the file."""
    token_file = folder / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_urlsafe(_TOKEN_BYTES))
    return token_file


def drive_day(
    queue_manager: QueueManager,
    clock: VirtualClock,
    flights: Sequence[Flight],
    report: Callable[[DaySnapshot], None] = lambda _snapshot: None,
) -> Day:
    """Run the virtual day until its last message has ended; return the results and reports.

    ``clock`` is the queue manager's and is advanced. ``report`` is called with a snapshot every ten
    minutes of the day; by default nothing is done. At least one flight must leave between its
    message's delivery time and deadline, else StopIteration is raised.
    """
    drive = _Drive(queue_manager, clock, flights, report)
    moments = groupby(_events(flights), key=lambda event: event.at_ms)
    with queue_manager.session(program="boarding demo") as session:
        for at_ms, events in moments:
            drive.pass_time(at_ms)
            for event in events:
                drive.do(session, event)
        drive.pass_time(max(flight.put_ms for flight in flights) + LIFE_MS)
        reports = list(_take_reports(session))
    # Balance rows are written a second after the last change.
    clock.advance(SECOND_MS)
    return drive.result(reports)


class _Drive:
    """Runs the events of a day on a queue manager and records the results."""

    def __init__(
        self,
        queue_manager: QueueManager,
        clock: VirtualClock,
        flights: Sequence[Flight],
        report: Callable[[DaySnapshot], None],
    ) -> None:
        """Keep the parts of the day; nothing is put yet. ``report`` receives each snapshot."""
        self._queue_manager = queue_manager
        self._clock = clock
        self._flights = flights
        self._queues = sorted({flight.queue for flight in flights})
        self._report = report
        self._reported_ms = clock.now_ms()
        self._msg_ids: dict[bytes, bytes] = {}
        self._got_ms: dict[bytes, int] = {}
        self._example = _example(flights)
        self._found: dict[_Verb, bool] = {}
        self._remaining_tenths = 0

    def pass_time(self, until_ms: int) -> None:
        """Advance the clock to a moment, and report a snapshot at each ten minutes of the day."""
        while self._clock.now_ms() < until_ms:
            next_ms = min(until_ms, self._reported_ms + _REPORT_EVERY_MS)
            self._clock.advance(next_ms - self._clock.now_ms())
            if next_ms == self._reported_ms + _REPORT_EVERY_MS:
                self._reported_ms = next_ms
                self._report(self._snapshot())

    def do(self, session: Session, event: _Event) -> None:
        """Do one event of the day at the present time, and record its result."""
        flight = event.flight
        if event.verb is _Verb.PUT:
            self._msg_ids[flight.correl_id] = _put(session, flight)
        elif event.verb is _Verb.ASK_EARLY:
            found = session.get(flight.queue, correl_id=flight.correl_id)
            self._found[event.verb] = found is not None
        elif event.verb is _Verb.ASK_IN_TIME:
            browsed = session.browse(flight.queue, correl_id=flight.correl_id)
            self._found[event.verb] = next(browsed, None) is not None
        else:
            self._get(session, flight)

    def result(self, reports: list[ExpirationReport]) -> Day:
        """Return the results of the day; call it after the last event."""
        example = self._example
        waited = Waited(
            example,
            self._msg_ids[example.correl_id],
            self._found[_Verb.ASK_EARLY],
            self._found[_Verb.ASK_IN_TIME],
            self._got_ms.get(example.correl_id),
            self._remaining_tenths,
        )
        return Day(self._flights, self._msg_ids, self._got_ms, reports, waited)

    def _get(self, session: Session, flight: Flight) -> None:
        """Get the message of a flight and record the time; nothing is recorded if it is gone."""
        message = session.get(flight.queue, correl_id=flight.correl_id)
        if message is None:
            return
        assert message.msg_id == self._msg_ids[flight.correl_id], "another call came"
        self._got_ms[flight.correl_id] = self._clock.now_ms()
        if flight is self._example:
            self._remaining_tenths = message.remaining_tenths

    def _snapshot(self) -> DaySnapshot:
        """Return the numbers of messages in each state at the present time."""
        counts = [self._queue_manager.counts(queue) for queue in self._queues]
        staged_count = sum(count.staged for count in counts)
        available_count = sum(count.live for count in counts)
        gone_count = len(self._msg_ids) - staged_count - available_count
        return DaySnapshot(
            self._clock.now_ms(),
            staged_count,
            available_count,
            len(self._got_ms),
            gone_count - len(self._got_ms),
        )


def _events(flights: Sequence[Flight]) -> list[_Event]:
    """Return all events of the day (puts and gets), sorted by time and kind.

    The example's message is also asked for twice: a millisecond early, and at its delivery time.
    """
    example = _example(flights)
    due_ms = example.put_ms + DELAY_MS
    events = [_Event(flight.put_ms, _Verb.PUT, flight) for flight in flights]
    events += [_Event(due_ms - 1, _Verb.ASK_EARLY, example)]
    events += [_Event(due_ms, _Verb.ASK_IN_TIME, example)]
    events += [
        _Event(flight.departed_ms, _Verb.GET, flight)
        for flight in flights
        if flight.departed_ms is not None
    ]
    return sorted(events, key=lambda event: (event.at_ms, event.verb))


def _example(flights: Sequence[Flight]) -> Flight:
    """Return the first flight that leaves while its message can be got.

    That is between delivery time and deadline. Raises StopIteration if no flight does.
    """
    return next(
        flight
        for flight in flights
        if flight.departed_ms is not None
        and flight.put_ms + DELAY_MS <= flight.departed_ms < flight.put_ms + LIFE_MS
    )


def _put(session: Session, flight: Flight) -> bytes:
    """Put the message of a flight on its queue; return its MsgId."""
    return session.put(
        flight.queue,
        f"Now boarding: {spelled(flight.correl_id)}".encode(),
        time_to_live_ms=LIFE_MS,
        delay_ms=DELAY_MS,
        persistent=True,
        correl_id=flight.correl_id,
        report=MQRO_EXPIRATION,
        reply_to_q=REPORTS,
    )


def _take_reports(session: Session) -> Iterator[ExpirationReport]:
    """Get and yield all expiration reports that are on the report queue."""
    while (message := session.get(REPORTS)) is not None:
        feedback = message.descriptor.feedback
        yield ExpirationReport(message.msg_id, message.correl_id, feedback, message.put_ms)


def problems_of(day: Day) -> list[str]:
    """Return what is wrong with a day as sentences, [] if nothing is.

    Only the example message is checked, and that each expired message has exactly one report.
    """
    problems = []
    if day.waited.found_early:
        problems.append(f"{spelled(day.waited.flight.correl_id)} was got before its delivery time")
    if not day.waited.found_in_time:
        problems.append(f"{spelled(day.waited.flight.correl_id)} was not there at its time")
    if day.waited.got_ms is None:
        problems.append(f"{spelled(day.waited.flight.correl_id)} was not got")
    owed = {day.msg_ids[flight.correl_id] for flight in day.expired}
    reported = [report.about for report in day.reports]
    if owed != set(reported) or len(reported) != len(set(reported)):
        problems.append(f"{len(owed)} calls expired, but {len(reported)} reports tell of others")
    strange = {report.feedback for report in day.reports} - {MQFB_EXPIRATION}
    if strange:
        problems.append(f"reports have feedback {sorted(strange)}")
    return problems


# The lake of a day: the copy of its ledger, the ends of messages in it, and its balance


_LOOK_SECONDS = 0.5


class LedgerCopy:
    """Copies a ledger into a lake in a thread, until finish(); a context manager.

    ``row_count`` is the number of ledger rows in the lake so far, ``batch_count`` that of batches.
    """

    def __init__(self, url: str, token_file: Path, lake: Path) -> None:
        """Keep the server's URL, the file of its token, and the lake's folder."""
        self._url, self._token_file, self._lake = url, token_file, lake
        self.row_count = self.batch_count = 0
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(1, "demo-ledger")
        self._run: Future[None] | None = None

    def __enter__(self) -> Self:
        """Begin to copy."""
        self._run = self._pool.submit(self._copy)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop and wait for the thread."""
        self._is_over.set()
        self._pool.shutdown()

    def check(self) -> None:
        """Raise the error with which the copy has ended; nothing while it goes on."""
        assert self._run is not None
        if self._run.done():
            self._run.result()

    def finish(self) -> None:
        """Wait until the lake has all rows that the ledger has now; raises the copy's error."""
        assert self._run is not None
        self._is_over.set()
        self._run.result()

    def _copy(self) -> None:
        """Copy what is there every half second, and once more at the end; runs in the thread."""
        with (
            LedgerClient(self._url, token_file=self._token_file) as client,
            closing(ParquetLake(self._lake, client.info().instance_id)) as lake,
        ):
            is_last = False
            while not is_last:
                is_last = self._is_over.wait(_LOOK_SECONDS)
                for progress in copy_ledger(client, lake):
                    self.row_count += progress.row_count
                    self.batch_count += 1


def ends_in_lake(spark: SparkSession, lake: Path) -> pa.Table:
    """Return how each flight's message ended: a row for each message, read from the lake by Spark.

    Expiration reports and releases of delayed messages are left out. The columns are queue,
    correl_id, put_ms, deliver_at_ms, expire_at_ms, ended_ms and outcome.
    """
    lives = read_lake(spark, lake).where(f.col("queue") != REPORTS)
    lives = lives.where(f.col("outcome") != State.RELEASED.value)
    columns = "queue correl_id put_ms deliver_at_ms expire_at_ms ended_ms outcome".split()
    return lives.select(*columns).toArrow()


def book_problems(queue_manager: QueueManager, lake: Path, lake_rows: int) -> list[str]:
    """Return what is wrong with the balances of queue manager and lake, as texts; [] if nothing.

    ``lake_rows`` is the number of ledger rows that Spark finds in the lake.
    """
    problems = [*queue_manager.verify().problems, *check_lake(lake).texts]
    last_position = queue_manager.ledger.last_position()
    if lake_rows != last_position:
        problems.append(f"the ledger has {last_position} rows, the lake {lake_rows}")
    return problems

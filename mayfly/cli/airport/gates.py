"""The gates of the airports: threads that get each call when its flight leaves, on a real clock."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

from mayfly.cli.airport.calls import Compression, deadline_ms
from mayfly.cli.airport.flights import Flight
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.constants import MQFB_EXPIRATION
from mayfly.queue_manager import QueueManager

#: Several: while one gate waits for a call that Spark puts late, the others serve the next flights.
_GATES_PER_AIRPORT = 3
#: Wait of the reader of reports; after each it looks for the end of the day.
_REPORT_WAIT_MS = 200


class Answer(NamedTuple):
    """The moments at which a gate asked for the call of a flight and had it; None is never."""

    flight: Flight
    asked_ms: int
    got_ms: int | None


class Gates:
    """Gates for all flights of a day, and the reader of reports; use it in a ``with`` block."""

    def __init__(
        self,
        queue_manager: QueueManager,
        flights: Sequence[Flight],
        compression: Compression,
        reports: str,
    ) -> None:
        """Order the flights by departure; no gate asks for the call of a cancelled one."""
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
        self._answers: list[Answer] = []
        self._reported: list[bytes] = []
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(_GATES_PER_AIRPORT * len(self._departures) + 1, "gate")
        self._threads: list[Future[None]] = []

    def __enter__(self) -> Self:
        """Open the gates."""
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
        """Close them; flights that have not left by now are not asked for."""
        self._is_over.set()
        self._pool.shutdown()

    def check(self) -> None:
        """Raise what ended a thread before its time."""
        for thread in self._threads:
            if thread.done():
                thread.result()

    def answers(self) -> list[Answer]:
        """Return the answers so far, in their order."""
        return list(self._answers)

    def reported(self) -> list[bytes]:
        """Return the CorrelIds of the calls whose expiration was reported so far."""
        return list(self._reported)

    def _serve(self, line: SimpleQueue[tuple[int, Flight]]) -> None:
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
                self._answers.append(Answer(flight, asked_ms, got_ms))

    def _read_reports(self) -> None:
        with self._queue_manager.session(program="boarding demo") as session:
            while True:
                report = session.get(self._reports, wait_ms=_REPORT_WAIT_MS)
                if report is not None:
                    assert report.descriptor.feedback == MQFB_EXPIRATION, "no other was asked for"
                    self._reported.append(report.correl_id)
                elif self._is_over.is_set():
                    return

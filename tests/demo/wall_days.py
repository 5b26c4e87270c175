"""Days on the machine's clock as they come out, made up: nothing late, or one call too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mayfly.cli.airport.flights import DELAY_MS, LIFE_MS, Flight
from mayfly.cli.airport.wall_clock import (
    Compression,
    GateAnswer,
    QueueSeen,
    WallDay,
    WallSeen,
    deadline_ms,
)
from mayfly.pipeline.spark.replay import EXPIRED, GOT

BEGIN_MS = 1_700_000_000_000
#: A minute of the day is 16 or 17 ms.
FACTOR = 3_600


def exact_day(flights: Sequence[Flight]) -> WallDay:
    """Return a day on which everything happened at its very moment."""
    first_ms = min(flight.put_ms for flight in flights)
    compression = Compression(first_ms, BEGIN_MS, FACTOR)
    answers = [_answer(flight, compression) for flight in flights if flight.departed_ms is not None]
    got = {answer.flight.correl_id for answer in answers if answer.got_ms is not None}
    reported = [flight.correl_id for flight in flights if flight.correl_id not in got]
    queues = tuple(QueueSeen(f"BOARDING.{name}", 9, 1, 2, 3, 2) for name in ("EWR", "JFK", "LGA"))
    return WallDay(
        flights=flights,
        compression=compression,
        answers=answers,
        reported=reported,
        present_count=0,
        lives=pa.Table.from_pylist([_life(flight, compression, got) for flight in flights]),
        seen=[WallSeen(first_ms, 0.5, queues, 4, 1_234)],
        lake_rows=9,
        rows_during_day=8,
        batch_count=7,
        book_problems=[],
    )


def late_day(flights: Sequence[Flight], missed: Flight) -> WallDay:
    """Return the same, but for one call that was asked for at its deadline."""
    day = exact_day(flights)
    at_ms = deadline_ms(missed, day.compression)
    others = [answer for answer in day.answers if answer.flight != missed]
    lives = [
        row | {"outcome": EXPIRED, "ended_ms": at_ms}
        if row["correl_id"] == missed.correl_id
        else row
        for row in day.lives.to_pylist()
    ]
    return with_changes(
        day,
        answers=[*others, GateAnswer(missed, at_ms, None)],
        reported=[*day.reported, missed.correl_id],
        lives=pa.Table.from_pylist(lives),
    )


def with_changes(day: WallDay, **changed: Any) -> WallDay:
    """Return a day in which something is otherwise."""
    return WallDay(**(vars(day) | changed))


def _answer(flight: Flight, compression: Compression) -> GateAnswer:
    assert flight.departed_ms is not None
    asked_ms = compression.on_the_wall(flight.departed_ms)
    is_there = flight.departed_ms < flight.put_ms + LIFE_MS
    return GateAnswer(flight, asked_ms, asked_ms if is_there else None)


def _life(flight: Flight, compression: Compression, got: set[bytes]) -> dict[str, Any]:
    on_the_wall = compression.on_the_wall
    expire_at_ms = on_the_wall(flight.put_ms + LIFE_MS)
    is_got = flight.correl_id in got
    assert flight.departed_ms is not None or not is_got
    return {
        "queue": flight.queue,
        "correl_id": flight.correl_id,
        "put_ms": on_the_wall(flight.put_ms),
        "deliver_at_ms": on_the_wall(flight.put_ms + DELAY_MS),
        "expire_at_ms": expire_at_ms,
        "ended_ms": on_the_wall(flight.departed_ms or 0) if is_got else expire_at_ms,
        "outcome": GOT if is_got else EXPIRED,
    }

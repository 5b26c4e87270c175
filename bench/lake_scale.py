"""What report, analysis and proof of a lake cost from a million lives to a hundred million.

The lives are those of the boarding calls of 2013 (``mayfly.cli.airport.flights``), which SQL
repeats within their day: a copy is shifted by less than half a minute, its durations and outcome
are those of the flight. So a lake of any size has the distributions of the real year, on 366 dates
and four queues, with a balance of each queue at the end of each date. It is as a compaction leaves
it: one file for each date, sorted by queue.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from bench.child import in_child, peak_mb
from bench.figures import Curve, Told, at_most
from mayfly.cli.airport.flights import DAY_MS, DELAY_MS, LEAD_MS, LIFE_MS, flights_table
from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE
from mayfly.mqi.constants import MQRO_EXPIRATION, MQRO_PASS_CORREL_ID
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.answers import analyze_lifetimes, ledger_report
from mayfly.pipeline.lake.check import check_lake
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES

_MEMORY_MB_MAX: Final = 4_000
#: Most of what a life may cost at the largest size, as a multiple of the smallest: linear.
_GROWTH_MAX: Final = 1.25
_INSTANCE: Final = "5" * 32
#: A moment of a flight is a whole or half minute, so a copy stays on its date.
_SHIFT_MS: Final = 30_000
_ENDED: Final = ", ".join(
    f"{code} := {code if code in ('got', 'expired', 'released') else 'CAST(0 AS BIGINT)'}"
    for code in (*OUTCOME_CODES, OTHER_OUTCOMES)
)

#: The stays of a flight's message: on the staging queue until its release, then on its own queue.
#: A flight in the order of ``rank`` comes into a lake of more lives sooner.
_STAYS: Final = f"""
CREATE TABLE calls AS SELECT
    row_number() OVER (ORDER BY hash(correl_id)) - 1 AS rank, queue, correl_id,
    sched_ms - {LEAD_MS} AS put_ms, put_ms + {DELAY_MS} AS deliver_at_ms,
    put_ms + {LIFE_MS} AS expire_at_ms,
    coalesce(departed_ms < expire_at_ms, false) AS is_got,
    greatest(if(is_got, departed_ms, expire_at_ms), deliver_at_ms) AS ended_ms
FROM flights;
CREATE TABLE stays AS
SELECT *, ended_ms // {DAY_MS} AS day FROM (
SELECT rank, correl_id, '{STAGING_QUEUE}' AS queue, put_ms, deliver_at_ms, expire_at_ms,
    deliver_at_ms AS ended_ms, 'released' AS outcome, put_ms AS arrived_ms FROM calls
UNION ALL
SELECT rank, correl_id, queue, put_ms, deliver_at_ms, expire_at_ms, ended_ms,
    if(is_got, 'got', 'expired'), deliver_at_ms FROM calls)
ORDER BY day;
"""
#: How often each stay is copied, and how many lives of its date are before its copies.
_COPIES: Final = """
CREATE TABLE copies AS
WITH weighed AS (
    SELECT *, greatest(($calls - rank + flights - 1) // flights, 0) AS copies
    FROM stays, (SELECT count(*) AS flights FROM calls))
SELECT *, sum(copies) OVER (PARTITION BY day ORDER BY ended_ms, rank, queue) - copies AS earlier
FROM weighed;
"""
#: The counts of each queue at the end of each date, by the table ``copies``.
_BALANCES: Final = f"""
CREATE TABLE balances AS
WITH changes AS (
    SELECT queue, arrived_ms // {DAY_MS} AS day, 'put' AS what, copies FROM copies
    UNION ALL SELECT queue, day, outcome, copies FROM copies),
days AS (SELECT DISTINCT day FROM changes), queues AS (SELECT DISTINCT queue FROM changes),
counted AS (
    SELECT queue, day,
        {{sums}}
    FROM days CROSS JOIN queues LEFT JOIN changes USING (queue, day) GROUP BY ALL)
SELECT queue, day, {{totals}} FROM counted;
"""
_WHAT: Final = ("put", "got", "expired", "released")


def _msg_id(queue: str) -> str:
    """Return SQL for the MsgId of a copied call on a queue, as the queue manager makes them."""
    unique = f"unhex(lpad(hex(hash(rank, copy, {queue})), 16, '0'))"
    return f"encode('AMQ BENCH       ') || {unique}"


_DATE: Final = f"""
COPY (
    WITH copied AS (SELECT *, unnest(range(copies)) AS copy FROM copies WHERE day = $day),
    made AS (
        SELECT *, CAST(hash(rank, copy) % {_SHIFT_MS} AS BIGINT) AS shift_ms,
            {_msg_id("queue")} AS msg_id, {_msg_id(f"'{STAGING_QUEUE}'")} AS staged_id
        FROM copied),
    lives AS (
        SELECT CAST($first + earlier + copy AS BIGINT) AS position,
            CAST({KIND_LIFE} AS TINYINT) AS kind, queue, msg_id, correl_id,
            if(outcome = 'released', NULL, staged_id) AS origin_id, put_ms + shift_ms AS put_ms,
            deliver_at_ms + shift_ms AS deliver_at_ms, expire_at_ms + shift_ms AS expire_at_ms,
            ended_ms + shift_ms + if(outcome = 'expired', 0, shift_ms % 20) AS ended_ms, outcome,
            CAST(0 AS INTEGER) AS reason, CAST(4 AS INTEGER) AS priority,
            CAST(1 AS INTEGER) AS persistent, CAST(45 AS BIGINT) AS body_bytes,
            CAST({MQRO_EXPIRATION | MQRO_PASS_CORREL_ID} AS INTEGER) AS report,
            'REPORTS' AS reply_to_q, CAST(0 AS INTEGER) AS backout_count,
            'airport' AS user_identifier, if(outcome = 'expired', 'scan', NULL) AS detected_by,
            if(outcome = 'got', 'gate', NULL) AS ended_by,
            if(outcome = 'got', 'boarding', NULL) AS ended_program
        FROM made),
    counts AS (
        SELECT $first + $lives + row_number() OVER (ORDER BY queue) - 1 AS position,
            CAST({KIND_BALANCE} AS TINYINT) AS kind, queue,
            (day + 1) * {DAY_MS} - 1 AS ended_ms, put AS puts,
            put - got - expired - released AS present,
            struct_pack({_ENDED}) AS ended
        FROM balances WHERE day = $day)
    SELECT 'BENCH' AS manager, '{_INSTANCE}' AS instance_id, *
    FROM (SELECT * FROM lives UNION ALL BY NAME SELECT * FROM counts)
    ORDER BY queue, position
) TO '{{file}}' (FORMAT parquet, COMPRESSION zstd)
"""


class Size(NamedTuple):
    """How many lives the lakes have."""

    counts: Sequence[int] = (1_000_000, 4_000_000, 20_000_000, 100_000_000)

    def up_to(self, most: int) -> Size:
        """Return the same with at most so many lives."""
        return Size([count for count in self.counts if count <= most])


class Cost(NamedTuple):
    """What a question took in a process of its own: time passed, processor time, most memory."""

    seconds: float
    processor_seconds: float
    peak_mb: float


#: What is measured unless something else is asked for.
USUAL: Final = Size()


def figures(size: Size = USUAL) -> Iterator[Told]:
    """Make a lake of each size, ask it all questions, and remove it."""
    costs: dict[str, list[tuple[int, Cost]]] = {question: [] for question in _QUESTIONS}
    for count in size.counts:
        with tempfile.TemporaryDirectory() as name:
            lake = Path(name, "lake")
            made = in_child(_made, lake, count)
            lake_bytes = sum(file.stat().st_size for file in lake.rglob("*.parquet"))
            for question, found in costs.items():
                cost = in_child(asked, question, lake)
                found.append((count, cost))
                note = f"{cost.seconds:.1f} s, {cost.processor_seconds:.1f} s of the processors; "
                note += f"{lake_bytes / 1e9:.2f} GB of files, made in {made:.0f} s"
                figure = f"{question} of {count:,} lives, memory"
                yield at_most(figure, cost.peak_mb, _MEMORY_MB_MAX, " MB", note)
    for question, found in costs.items():
        seconds = [(count, cost.processor_seconds) for count, cost in found]
        yield Curve("scale", question, "lives", "processor time, s", seconds, spans_decades=True)
        each_us = [(count, cost.processor_seconds / count * 1e6) for count, cost in found]
        last, first = each_us[-1], each_us[0]
        note = ", ".join(f"{cost:.2g}" for _, cost in each_us) + " µs a life"
        growth = f"{question}: processor time a life, {last[0]:,} against {first[0]:,}"
        yield at_most(growth, last[1] / first[1], _GROWTH_MAX, "x", note)


def asked(question: str, lake: Path) -> Cost:
    """Ask a lake ``report``, ``analyze`` or ``verify`` in this process."""
    begin, processor_begin = time.perf_counter(), sum(os.times()[:2])
    _QUESTIONS[question](lake)
    return Cost(time.perf_counter() - begin, sum(os.times()[:2]) - processor_begin, peak_mb())


def _prove(lake: Path) -> None:
    problems = check_lake(lake).texts
    assert not problems, problems


_QUESTIONS: Final[dict[str, Callable[[Path], object]]] = {
    "report": ledger_report,
    "analyze": analyze_lifetimes,
    "verify": _prove,
}


def write_lives(lake: Path, count: int) -> None:
    """Write a lake of ``count`` lives, an even number; each message has two, one on each queue."""
    with tempfile.TemporaryDirectory() as spilled, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = '{spilled}'; SET memory_limit = '4GB'")
        connection.register("flights", flights_table())
        connection.execute(_STAYS)
        connection.execute(_COPIES, {"calls": count // 2})
        sums = ", ".join(
            f"coalesce(sum(copies) FILTER (what = '{what}'), 0) AS {what}" for what in _WHAT
        )
        totals = ", ".join(
            f"CAST(sum({what}) OVER (PARTITION BY queue ORDER BY day) AS BIGINT) AS {what}"
            for what in _WHAT
        )
        connection.execute(_BALANCES.format(sums=sums, totals=totals))
        position = 1
        days = connection.execute(
            "SELECT day, CAST(sum(copies) AS BIGINT) FROM copies "
            "GROUP BY ALL HAVING sum(copies) > 0 ORDER BY day"
        ).fetchall()
        [[queue_count]] = connection.execute(
            "SELECT count(DISTINCT queue) FROM balances"
        ).fetchall()
        for number, (day, lives) in enumerate(days):
            values = {"day": day, "first": position, "lives": lives}
            folder = lake / f"date={time.strftime('%Y-%m-%d', time.gmtime(day * DAY_MS // 1000))}"
            folder.mkdir(parents=True)
            file = folder / f"batch-{_INSTANCE[:16]}-{number:012d}.parquet"
            connection.execute(_DATE.format(file=file), values)
            position += lives + queue_count


def _made(lake: Path, count: int) -> float:
    """Write a lake in this process, and return the seconds that it took."""
    begin = time.perf_counter()
    write_lives(lake, count)
    return time.perf_counter() - begin

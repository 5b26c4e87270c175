"""Queries to a lake, answered with DuckDB in this process: without Spark and Java, all exact.

The queries are those of ``queries.py``; Spark runs the same for lakes that are too large for this.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import LakeError, PlotError
from mayfly.pipeline.lake import lifetimes
from mayfly.pipeline.lake.files import (
    Lease,
    Snapshot,
    check_complete,
    existing_lake,
    is_delta,
    local_folder,
    move_into_place,
)
from mayfly.pipeline.lake.lifetimes import LifetimeAnalysis, analysis_from
from mayfly.pipeline.lake.queries import (
    EVERYTHING,
    FORMATS,
    ID_NAMES,
    IS_LIFE,
    LATE_AFTER_MS,
    SPAN,
    STAGED,
    WORST_QUEUES,
    LakePart,
    QueueReport,
    check_export,
    course_of_lives,
    ends_by_step,
    export_condition,
    report_of_queues,
    reports_of,
)
from mayfly.pipeline.lake.timeline import PLOT_RANKS, LakeTimeline, course_from, step_between
from mayfly.verbs.contracts.erasure import ERASED

#: Up to this size of its files a lake is read in this process: some hundred million messages.
ONE_PROCESS_BYTES = 8 * 1024**3
#: DuckDB takes at most this much memory, or half of the machine's, and spills the rest to disk.
#: It does not count all memory; each question of 100 million lives stays below 4 GB in all.
_MEMORY_BYTES_MAX = 2 * 1024**3
#: The name of the rows that a question is about.
VIEW = "ledger"
_COLUMNS = ("manager", "instance_id", "position", *LifeRecord._fields, "date")
#: Spark's CSV has the same for an empty text and for none, so these become null.
_TEXTS = (
    "reply_to_q",
    "user_identifier",
    "outcome",
    "capped_by",
    "detected_by",
    "ended_by",
    "ended_program",
)
#: All rows, with empty columns in those that are to be erased.
_WITH_ERASED = f"""
SELECT rows.* REPLACE ({
    ", ".join(
        f"CASE WHEN erased.position IS NULL THEN rows.{name} ELSE {value} END AS {name}"
        for name, value in ERASED.items()
    )
})
FROM rows LEFT JOIN erased
ON erased.instance_id = rows.instance_id AND erased.position = rows.position"""


def fits_one_process(lake_path: str | Path, part: LakePart = EVERYTHING) -> bool:
    """Return True if the files of a part of a lake have at most ONE_PROCESS_BYTES.

    Raises LakeError without a lake.
    """
    files = part.files(Snapshot.take(existing_lake(lake_path)).files)
    sizes_bytes = (file.path.stat().st_size for file in files if file.path.exists())
    return sum(sizes_bytes) <= ONE_PROCESS_BYTES


def ledger_report(
    lake_path: str | Path, *, part: LakePart = EVERYTHING, late_after_ms: int = LATE_AFTER_MS
) -> list[QueueReport]:
    """Return a report for each queue in a part of a lake, by queue manager and name.

    A message got more than ``late_after_ms`` after its delivery time counts as late. Queues without
    messages are left out; [] if the part has none. All numbers are exact. Raises LakeError without
    a lake, or when a file is missing or damaged.
    """
    with ledger_view(lake_path, part) as ledger:
        if ledger is None:
            return []
        return reports_of(query_rows(ledger, report_of_queues(percentiles, late_after_ms)))


def timeline_of(lake_path: str | Path, *, part: LakePart = EVERYTHING) -> LakeTimeline:
    """Return the timeline of a part of a lake: ended messages and waits by time step.

    Raises PlotError if no messages have ended there. Raises LakeError without a lake, or when a
    file is missing or damaged.
    """
    with ledger_view(lake_path, part) as ledger:
        if ledger is None:
            raise PlotError(f"no lives in {lake_path}")
        step_ms = step_between(lake_path, query_rows(ledger, SPAN)[0])
        by_step = course_of_lives(percentiles, step_ms, tuple(PLOT_RANKS.values()))
        tables = [query_rows(ledger, query) for query in (by_step, WORST_QUEUES, STAGED)]
    return course_from(step_ms, *tables)


def ended_in_steps(
    lake_path: str | Path,
    manager: str,
    queue: str | None,
    from_ms: int,
    step_ms: int,
    step_count: int,
) -> list[tuple[int, int]]:
    """Return how many messages ended, and expired, in each of ``step_count`` steps.

    The steps begin at ``from_ms``. ``queue`` None counts all queues of the queue manager. An
    expired message counts in the step of its deadline, however late its expiry was detected. Raises
    LakeError without a lake, or when a file is missing or damaged.
    """
    steps = [(0, 0)] * step_count
    # An expiry is detected at the deadline or later, so no earlier file has one.
    with ledger_view(lake_path, LakePart(from_ms=from_ms)) as ledger:
        if ledger is not None:
            sql = ends_by_step(from_ms, step_ms).format(ledger=VIEW)
            for step, ended, expired in ledger.execute(sql, [manager, queue]).fetchall():
                if step < step_count:
                    steps[step] = ended, expired
    return steps


def export_lives(
    lake_path: str | Path,
    target: str | Path,
    *,
    part: LakePart = EVERYTHING,
    outcomes: Sequence[str] = (),
    late_after_ms: int | None = None,
) -> int:
    """Write the ended messages that pass all filters to file ``target``; return their number.

    The suffix decides the format: Parquet, CSV or JSON lines, as in ``spark.lake.export_lives``.
    ``outcomes`` () keeps all. ``late_after_ms`` keeps messages got more than this many ms after
    their delivery time; None keeps all. Raises LakeError without a lake, or when a file is missing
    or damaged. Raises ExportError for an unknown suffix or outcome, or a file that exists.
    """
    file = local_folder(target)
    check_export(file, outcomes)
    condition = f"{IS_LIFE} AND {export_condition(part, outcomes, late_after_ms)}"
    unfinished = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
    try:
        with ledger_view(lake_path, part) as ledger:
            if ledger is None:
                unfinished.touch()
                count = 0
            else:
                _write(ledger, condition, unfinished, FORMATS[file.suffix])
                [[count]] = ledger.sql(f"SELECT count(*) FROM {VIEW} WHERE {condition}").fetchall()
        move_into_place(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)
    return int(count)


def write_run(files: Sequence[Path], target: Path, erased: pa.Table | None = None) -> None:
    """Write the rows of some files of one date to one new file, by queue, store and position.

    ``erased`` has columns ``instance_id`` and ``position``. In the rows that it names, ids, users
    and programs become empty; None changes no row. Raises LakeError for a damaged file.
    """
    try:
        with _connected() as (connection, spilled):
            # The dates of the folders are no columns of the files.
            rows = _parquet_rows(connection, files, spilled, has_dates=False)
            if erased is not None:
                connection.register("erased", erased)
                rows = rows.query("rows", _WITH_ERASED)
            rows.order("queue, instance_id, position").write_parquet(
                str(target), compression="zstd"
            )
    except duckdb.Error as error:
        raise LakeError(f"{files[0].parent}: {_first_line(error)}") from error


@contextmanager
def _connected() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Return a context with a connection to DuckDB, and the folder of its temporary files."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit_bytes = min(_MEMORY_BYTES_MAX, machine_bytes // 2)
    # By default DuckDB would spill into the user's current folder.
    with (
        tempfile.TemporaryDirectory(prefix="mayfly-") as spilled,
        duckdb.connect(
            config={"memory_limit": f"{limit_bytes}B", "temp_directory": spilled}
        ) as connection,
    ):
        yield connection, Path(spilled)


@contextmanager
def ledger_view(
    lake_path: str | Path, part: LakePart, *, is_complete: bool = True
) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """Return a context with a DuckDB connection whose view VIEW has the rows of a part.

    The lake is a folder of Parquet files, or of Delta tables, which may be at a URL. Yields None if
    the part has no files. Raises LakeError without a lake, or when a file is missing or damaged.
    Without ``is_complete`` missing files are left out.
    """
    try:
        with (
            _connected() as (connection, spilled),
            _ledger_rows(connection, lake_path, part, spilled, is_complete) as rows,
        ):
            if rows is not None:
                rows.filter(part.condition()).create_view(VIEW)
            yield None if rows is None else connection
    except duckdb.Error as error:
        raise LakeError(f"lake {lake_path} cannot be read: {_first_line(error)}") from error


def missing_files(lake_path: str | Path) -> list[Path]:
    """Return the files that the manifest of a lake of Parquet files names and that do not exist.

    Raises LakeError without a lake.
    """
    if is_delta(lake_path):
        return []
    return list(Snapshot.take(existing_lake(lake_path)).missing)


@contextmanager
def _ledger_rows(
    connection: duckdb.DuckDBPyConnection,
    lake_path: str | Path,
    part: LakePart,
    spilled: Path,
    is_complete: bool,
) -> Iterator[duckdb.DuckDBPyRelation | None]:
    """Return a context with the ledger rows of the files that a part needs; None without files.

    The files stay until the end of the block. ``spilled`` is a folder for temporary files. Raises
    LakeError for a missing file, if ``is_complete``; else missing files are left out.
    """
    if is_delta(lake_path):
        # Only a lake of Delta tables needs this package.
        from mayfly.pipeline.lake.delta import ledger_rows

        yield ledger_rows(connection, lake_path, part)
        return
    lease = Lease(existing_lake(lake_path))
    try:
        if is_complete:
            check_complete(lease.snapshot)
        files = [file.path for file in part.files(lease.snapshot.files)]
        yield _parquet_rows(connection, files, spilled) if files else None
    finally:
        lease.close()


def _parquet_rows(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    spilled: Path,
    *,
    has_dates: bool = True,
) -> duckdb.DuckDBPyRelation:
    """Return the rows of some files with the columns of this version.

    With ``has_dates`` they have the column ``date`` of their folder. A column that an older file
    does not have is null there. ``spilled`` is a folder for a temporary file.
    """
    # The first file decides the columns; older files may have fewer, and fewer outcomes.
    paths = [_empty_file(spilled), *map(str, files)]
    return connection.read_parquet(paths, hive_partitioning=has_dates, union_by_name=True)


def _first_line(error: duckdb.Error) -> str:
    """Return the first line of an error's text."""
    return str(error).partition("\n")[0]


def _empty_file(folder: Path) -> str:
    """Write a Parquet file with the ledger columns of this version and no rows; return its path."""
    file = folder / "date=1970-01-01" / "empty.parquet"
    file.parent.mkdir()
    pq.write_table(LEDGER.empty_table(), file)
    return str(file)


def query_rows(ledger: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query as dicts by column name; ``{ledger}`` in it becomes VIEW."""
    found = ledger.execute(query.format(ledger=VIEW))
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def percentiles(value: str, ranks: Sequence[float]) -> str:
    """Return DuckDB's SQL for exact percentiles of ``value``, interpolated between two values.

    ``ranks`` are from 0 to 1; the SQL is a list in their order.
    """
    return f"quantile_cont({value}, [{', '.join(map(str, ranks))}])"


def _write(ledger: duckdb.DuckDBPyConnection, condition: str, file: Path, kind: str) -> None:
    """Write the rows that fulfil the condition to a file of a kind: parquet, csv or json."""
    spelled = {} if kind == "parquet" else {name: f"lower(hex({name}))" for name in ID_NAMES}
    if kind == "csv":
        texts = {name: spelled.get(name, name) for name in (*ID_NAMES, *_TEXTS)}
        spelled |= {name: f"nullif({text}, '')" for name, text in texts.items()}
    columns = ", ".join(f"{spelled.get(name, name)} AS {name}" for name in _COLUMNS)
    lives = ledger.sql(
        f"SELECT {columns} FROM {VIEW} WHERE {condition} ORDER BY queue, instance_id, position"
    )
    if kind == "parquet":
        lives.write_parquet(str(file), compression="snappy")
    elif kind == "csv":
        lives.write_csv(str(file), header=True)
    else:
        # A merge patch leaves nulls out, as Spark does. JSON has control characters only as
        # escapes, so no text needs quotes.
        text = f"json_merge_patch('{{}}', to_json(struct_pack({', '.join(_COLUMNS)})))"
        lives.select(duckdb.SQLExpression(text)).write_csv(
            str(file), header=False, sep="\x01", quotechar="", escapechar=""
        )


# Ended messages by MsgId or CorrelId


_FIELDS = ", ".join(LifeRecord._fields)
#: One column at a time: DuckDB compares a column as it reads it, but two columns only when it has
#: read both, with all others of their rows. That takes five times as long.
_FOUND = f"""
SELECT manager, instance_id, position, {_FIELDS} FROM {VIEW}
WHERE {IS_LIFE} AND %s = ? {{latest}} LIMIT {{limit}}"""
#: Sorting takes as long as searching, and few ids have more lives than the limit.
_LATEST = "ORDER BY ended_ms DESC, position DESC"
_BY_ID = (_FOUND % "msg_id", _FOUND % "correl_id")
_IDS = (LifeRecord._fields.index("msg_id"), LifeRecord._fields.index("correl_id"))


def lives_with_ids(
    lake_path: str | Path, identifiers: Sequence[bytes], limit: int
) -> list[tuple[str, LifeRecord]]:
    """Return the records of messages whose MsgId or CorrelId is one of the ids, latest first.

    A record is a message's stay on one queue; it comes with the name of its queue manager. At most
    ``limit`` records come for each id and column, [] if none. Ids have 24 bytes. Raises LakeError
    without a lake, or when a file is missing or damaged.
    """
    found: dict[tuple[str, int], tuple[str, LifeRecord]] = {}
    with ledger_view(lake_path, EVERYTHING) as ledger:
        if ledger is None:
            return []
        for identifier in identifiers:
            for sql in _BY_ID:
                for row in _rows(ledger, sql, identifier, limit):
                    manager, instance_id, position, *values = row
                    for place in _IDS:
                        values[place] = values[place] or b""
                    found[instance_id, position] = manager, LifeRecord._make(values)
    lives = sorted(found.items(), key=lambda item: (item[1][1].ended_ms, item[0]), reverse=True)
    return [life for _place, life in lives]


def _rows(
    ledger: duckdb.DuckDBPyConnection, sql: str, identifier: bytes, limit: int
) -> list[tuple[Any, ...]]:
    """Return the rows of a query for an id; the latest ``limit`` rows if there are more.

    ``sql`` has a place for the id as parameter, and fields ``latest`` and ``limit``.
    """
    found = ledger.execute(sql.format(latest="", limit=limit + 1), [identifier]).fetchall()
    if len(found) <= limit:
        return found
    return ledger.execute(sql.format(latest=_LATEST, limit=limit), [identifier]).fetchall()


# Whether lifetimes are right


def analyze_lifetimes(
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    by: lifetimes.By = lifetimes.By.QUEUE,
    cap_ms: int | None = None,
    late_after_ms: int = LATE_AFTER_MS,
) -> LifetimeAnalysis:
    """Return how lifetimes, delays and consumers suited each other in a part of a lake.

    ``by`` is the grouping of the lifetimes. With ``cap_ms`` the answer says what a CAPEXPRY of
    ``cap_ms`` would have changed; None leaves that out. Delayed messages that arrived more than
    ``late_after_ms`` after their delivery time are late. The lists of the answer are empty if no
    message ended in the part. Raises LakeError without a lake, or when a file is missing or
    damaged.
    """
    with ledger_view(lake_path, part) as ledger:

        def rows(query: str) -> list[dict[str, Any]]:
            return [] if ledger is None else query_rows(ledger, query)

        return analysis_from(
            by,
            cap_ms,
            lifetimes=rows(lifetimes.lifetimes(by, cap_ms)),
            delays=rows(lifetimes.delays(late_after_ms)),
            consumers=rows(lifetimes.consumers()),
        )

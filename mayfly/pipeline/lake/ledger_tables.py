"""The three tables of an open lake and their SQL, and how a ledger is added, each row once.

Each table keeps the last ledger position that it contains, and changes it in the commit that adds
the rows. So a process that is killed between two tables leaves each of them exact, and the next run
adds to each what it lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import duckdb
import pyarrow as pa

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE
from mayfly.lifetime.reports import Cause
from mayfly.mqi.reasons import cause_names
from mayfly.pipeline.bulk.schema import LEDGER, rows_after
from mayfly.pipeline.lake.queries import (
    DURATIONS,
    IS_BALANCE,
    IS_LIFE,
    OWED_NAMES,
    conditions,
    ended_in,
)
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES

_ROWS = "ledger"


class LedgerTables(ABC):
    """The three tables, opened to add the ledger of one store of a queue manager."""

    #: The error of ``_append`` if another process has changed the table since it was loaded.
    _conflict: type[Exception]

    def __init__(self) -> None:
        """Open DuckDB, which makes rows of the tables from rows of the ledger."""
        self._sql = duckdb.connect()
        self._sql.execute(DUCKDB_MACROS)

    @property
    def position(self) -> int:
        """Return the last position of the ledger that all tables contain, 0 at first."""
        return self._position_of(LIVES)

    def add(self, rows: pa.Table, until_position: int) -> None:
        """Add rows of the ledger, by position; rows that the tables have are left out.

        The tables then contain the ledger up to ``until_position``. Raises LakeError if another
        process adds this ledger as well, or the tables cannot be written.
        """
        for table in TABLES:
            self.add_to(table, rows, until_position)

    def add_to(self, table: OpenTable, rows: pa.Table, until_position: int) -> None:
        """Add the rows that a table lacks, in one commit, which records ``until_position``.

        A table without such rows gets no commit. LIVES gets one all the same: the position that it
        records is the position of the lake.
        """
        with self._errors():
            has_position = self._position_of(table)
            if has_position >= until_position:
                return
            shaped = self._shaped(table, rows_after(rows, has_position))
            if not shaped.num_rows and table is not LIVES:
                return
            for is_last in (False, True):
                try:
                    self._append(table, shaped, until_position)
                    return
                except self._conflict:
                    self._reload(table)
                    # The same position: an erasure or another program has replaced files, and no
                    # other copy has added rows.
                    if is_last or self._position_of(table) != has_position:
                        raise

    def close(self) -> None:
        """Close DuckDB; the tables need no closing."""
        self._sql.close()

    def _schema(self, table: OpenTable, comment_key: str) -> pa.Schema:
        """Return the schema of a table; its fields have their comments under ``comment_key``."""
        comments = {column.name: column.comment for column in table.columns}
        shaped = self._shaped(table, LEDGER.empty_table()).schema
        return pa.schema(
            [field.with_metadata({comment_key: comments[field.name]}) for field in shaped]
        )

    def _shaped(self, table: OpenTable, rows: pa.Table) -> pa.Table:
        """Return ledger rows in the columns of ``table``, by its query; it may leave rows out."""
        self._sql.register(_ROWS, rows)
        try:
            return self._sql.execute(table.query(_ROWS)).to_arrow_table()
        finally:
            self._sql.unregister(_ROWS)

    @abstractmethod
    def _position_of(self, table: OpenTable) -> int:
        """Return the last position of the ledger that a table contains, 0 for a new one."""

    @abstractmethod
    def _append(self, table: OpenTable, shaped: pa.Table, until_position: int) -> None:
        """Add rows of a table and record its position, in one commit or not at all."""

    @abstractmethod
    def _reload(self, table: OpenTable) -> None:
        """Load a table as it is now."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Return a context that turns errors of the tables' library into LakeError."""


# The tables of an open lake, which people read: lives, balances and reports_owed, with their SQL
#
# Moments are TIMESTAMP columns in UTC, durations whole milliseconds, ids hexadecimal text, and
# outcomes words. Each table is one query over rows of the ledger (bulk/schema.py), in SQL that
# Spark runs as it is, and DuckDB with the macros of :data:`DUCKDB_MACROS`.


class Column(NamedTuple):
    """A column of a table: its name, its SQL over a row of the ledger, and its meaning."""

    name: str
    value: str
    comment: str


@dataclass(frozen=True)
class OpenTable:
    """A table of an open lake, which has one row for each ledger row that meets ``condition``.

    ``from_rows`` is the SQL source of these rows, with ``{ledger}`` for the ledger's own. Rows with
    one value of ``partition`` share a folder.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]
    condition: str
    from_rows: str = "{ledger}"
    partition: str | None = None
    #: Columns that are null in a row that was erased.
    erased: tuple[str, ...] = ()

    def query(self, ledger: str) -> str:
        """Return the SQL that makes this table; ``ledger`` is a table or view of ledger rows."""
        values = ", ".join(f"{column.value} AS {column.name}" for column in self.columns)
        return f"SELECT {values} FROM {self.from_rows.format(ledger=ledger)} WHERE {self.condition}"


#: Functions of Spark that DuckDB does not have.
DUCKDB_MACROS = """
SET TimeZone = 'UTC';
CREATE OR REPLACE MACRO timestamp_millis(ms) AS make_timestamptz(CAST(ms * 1000 AS BIGINT));
CREATE OR REPLACE MACRO date_from_unix_date(days) AS DATE '1970-01-01' + CAST(days AS INTEGER);
"""
_DAY_MS = 86_400_000


def _moment(ms: str) -> str:
    """Return SQL for a column of epoch ms as a timestamp, null for null."""
    return f"timestamp_millis({ms})"


def _hex(identifier: str) -> str:
    """Return SQL for a column of bytes as hexadecimal text in lower case, null for none."""
    return f"nullif(lower(hex({identifier})), '')"


def _text(column: str) -> str:
    """Return SQL for a column of text; an empty text, which says nothing, is null."""
    return f"nullif({column}, '')"


def _reason_words() -> str:
    """Return SQL for the name of a row's reason code, null for code 0."""
    names = " ".join(f"WHEN {code} THEN '{name}'" for code, name in cause_names().items())
    return f"CASE WHEN reason <> 0 THEN CASE reason {names} ELSE CAST(reason AS STRING) END END"


_ROW = (
    Column("queue_manager", "manager", "Name of the queue manager"),
    Column("instance_id", "instance_id", "Its store; a queue manager made anew has another one"),
    Column("position", "position", "Number of the ledger row, unique in its store"),
    Column("queue", "queue", "Local queue on which the message was"),
)
_IDS = (
    Column("msg_id", _hex("msg_id"), "MsgId on this queue, hexadecimal"),
    Column("correl_id", _hex("correl_id"), "CorrelId on this queue, hexadecimal"),
)
_ENDED_DATE = f"date_from_unix_date(CAST(floor(ended_ms / {_DAY_MS}) AS INT))"

LIVES = OpenTable(
    "lives",
    "One row for each message on each queue, written when its stay on that queue has ended",
    (
        *_ROW,
        *_IDS,
        Column("origin_msg_id", _hex("origin_id"), "MsgId on the queue before; null on the first"),
        Column("put_at", _moment("put_ms"), "Time of the put; the lifetime runs from it"),
        Column("deliver_at", _moment("deliver_at_ms"), "First moment at which a get could have it"),
        Column("expire_at", _moment("expire_at_ms"), "First moment of being expired; null: never"),
        Column("ended_at", _moment("ended_ms"), "Time of its end on this queue"),
        Column("ended_date", _ENDED_DATE, "UTC date of ended_at"),
        Column("outcome", "outcome", f"How it ended: {', '.join(OUTCOME_CODES)}"),
        Column("reason_code", "nullif(reason, 0)", "MQRC or MQFB of a dead letter or a discard"),
        Column("reason", _reason_words(), "Name of reason_code"),
        Column("waited_ms", DURATIONS["waited"], "From delivery time to get; null if not got"),
        Column("left_ms", DURATIONS["left"], "Lifetime left at the get; null if not got, or never"),
        Column("released_late_ms", DURATIONS["released_late"], "From delivery time to release"),
        Column("priority", "priority", "MQMD.Priority"),
        Column("is_persistent", "persistent = 1", "Whether it survives a restart"),
        Column("body_bytes", "body_bytes", "Length of its data"),
        Column("backout_count", "backout_count", "Number of gets that were backed out"),
        Column("report_options", "report", "MQMD.Report"),
        Column("reply_to_queue", _text("reply_to_q"), "MQMD.ReplyToQ"),
        Column("user_id", _text("user_identifier"), "MQMD.UserIdentifier: who put it"),
        Column("capped_by", _text("capped_by"), "CAPEXPRY that shortened its lifetime"),
        Column("detected_by", _text("detected_by"), "What found it expired: get, browse, scan, …"),
        Column("terminated_by", _text("ended_by"), "User, or channel, that ended it"),
        Column("terminated_program", _text("ended_program"), "Program of that user"),
    ),
    IS_LIFE,
    partition="ended_date",
    erased=(
        *("msg_id", "correl_id", "origin_msg_id"),
        *("user_id", "terminated_by", "terminated_program"),
    ),
)

BALANCES = OpenTable(
    "balances",
    "Counts of a queue since its definition, at a position of the ledger: puts = ended + present",
    (
        *_ROW,
        Column("counted_at", _moment("ended_ms"), "Time of the count"),
        Column("puts", "puts", "Messages that were put"),
        Column("present", "present", "Messages on the queue, expired ones included"),
        Column("ended", ended_in(), "Messages that have ended, by any outcome"),
        *(
            Column(code, f"coalesce(ended.{code}, 0)", f"Those that ended as {code}")
            for code in (*OUTCOME_CODES, OTHER_OUTCOMES)
        ),
    ),
    IS_BALANCE,
)


def _with_causes() -> str:
    """Return SQL for ledger rows, each once for every report that it owes, with its cause."""
    owed = conditions()
    # Most messages ask for no report: the ledger is read once, and the few that do four times.
    return f"WITH asking AS (SELECT * FROM {{ledger}} WHERE {IS_LIFE} AND report <> 0) " + (
        " UNION ALL ".join(
            f"SELECT *, '{cause.name.lower()}' AS cause FROM asking WHERE {owed[name]}"
            for cause, name in zip(Cause, OWED_NAMES, strict=True)
        )
    )


REPORTS_OWED = OpenTable(
    "reports_owed",
    "One row for each report that a message asked for and whose cause has happened",
    (
        *_ROW,
        *_IDS,
        Column("cause", "cause", "exception, expiration, coa (arrival) or cod (delivery)"),
        Column("owed_at", _moment("ended_ms"), "Time of the end that the report is about"),
        Column("reply_to_queue", _text("reply_to_q"), "Queue to which the report goes"),
    ),
    "true",
    from_rows=f"({_with_causes()}) AS owing",
    erased=("msg_id", "correl_id"),
)

#: LIVES is written last: its position is that of the whole lake.
TABLES = (BALANCES, REPORTS_OWED, LIVES)

#: Ledger rows again, from views of the tables LIVES and BALANCES, in DuckDB's SQL. Columns that a
#: row of its kind does not have are null.
LEDGER_AGAIN = f"""
SELECT queue_manager AS manager, instance_id, position, CAST({KIND_LIFE} AS TINYINT) AS kind, queue,
    unhex(coalesce(msg_id, '')) AS msg_id, unhex(coalesce(correl_id, '')) AS correl_id,
    unhex(origin_msg_id) AS origin_id, epoch_ms(put_at) AS put_ms,
    epoch_ms(deliver_at) AS deliver_at_ms, epoch_ms(expire_at) AS expire_at_ms,
    epoch_ms(ended_at) AS ended_ms, outcome, coalesce(reason_code, 0) AS reason, priority,
    CAST(is_persistent AS INTEGER) AS persistent, body_bytes, report_options AS report,
    coalesce(reply_to_queue, '') AS reply_to_q, backout_count,
    coalesce(user_id, '') AS user_identifier, capped_by, detected_by,
    terminated_by AS ended_by, terminated_program AS ended_program,
    ended_date AS date
FROM {LIVES.name}
UNION ALL BY NAME
SELECT queue_manager AS manager, instance_id, position, CAST({KIND_BALANCE} AS TINYINT) AS kind,
    queue, epoch_ms(counted_at) AS ended_ms, puts, present,
    struct_pack({", ".join(f"{code} := {code}" for code in (*OUTCOME_CODES, OTHER_OUTCOMES))})
        AS ended, CAST(counted_at AS DATE) AS date
FROM {BALANCES.name}"""

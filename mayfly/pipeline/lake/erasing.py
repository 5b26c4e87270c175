"""Erases who and what messages were from a lake; rows, positions, counts and proofs stay.

Removed rows would leave gaps that no proof could tell from a loss, and balances that do not add up.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import duckdb

from mayfly.pipeline.errors import LakeError, PartError
from mayfly.pipeline.lake import compaction, files
from mayfly.pipeline.lake.answers import VIEW, ledger_view
from mayfly.pipeline.lake.files import existing_lake, is_delta
from mayfly.pipeline.lake.part import EVERYTHING
from mayfly.pipeline.lake.queries import IS_LIFE
from mayfly.verbs.contracts.erasure import Erasure, of_id, of_user

#: A row that was erased before has no MsgId any more.
_FOUND = f"""
SELECT DISTINCT instance_id, position, CAST(date AS VARCHAR) AS date
FROM {VIEW} WHERE {IS_LIFE} AND octet_length(msg_id) > 0 AND (%s)"""
_WRONG_CONDITION = (duckdb.BinderException, duckdb.ParserException, duckdb.ConversionException)


class Selection(NamedTuple):
    """The rows to erase: ``selected_by`` is ``id``, ``user`` or ``where``, with its value.

    The value is an id of 24 bytes, the name of a user, or a condition in DuckDB's SQL over the
    columns of the ledger.
    """

    selected_by: str
    value: bytes | str


class LakeErasure(NamedTuple):
    """A finished erasure: its record, and the number of files with the old rows that still exist.

    They go as :func:`erase_lives` says.
    """

    record: Erasure
    old_file_count: int


def erase_lives(
    lake_path: str | Path,
    selection: Selection,
    begun: Erasure,
    *,
    is_vacuumed: bool = False,
) -> LakeErasure:
    """Erase ids, users and programs from the rows of some messages, and record it.

    ``begun`` is the record without a number of rows; it is stored only if there are rows. In a lake
    of Parquet files the files of their dates are written again. The old files go when their last
    reader has ended, with the next compaction. In Delta tables the old files go with the first
    compaction after a week, or with ``is_vacuumed`` at once. After a crash the caller erases again.
    Raises PartError for a wrong condition. Raises LakeError without a lake, for a lake that is not
    complete, and when another process maintains or changes it.
    """
    is_of_delta = is_delta(lake_path)
    if not is_of_delta:
        _finish_batches(existing_lake(lake_path))
    with ledger_view(lake_path, EVERYTHING) as ledger:
        if ledger is None:
            return LakeErasure(begun, 0)
        condition, values = _condition(selection)
        try:
            erased = ledger.execute(_FOUND % condition, values).to_arrow_table()
        except _WRONG_CONDITION as error:
            text = str(error).partition("\n")[0]
            raise PartError(f"{selection.value!r} is no condition: {text}") from error
    record = begun._replace(row_count=erased.num_rows)
    if not is_of_delta:
        old_file_count = 0
        if record.row_count:
            old_file_count = compaction.erase_rows(lake_path, erased, record)
        return LakeErasure(record, old_file_count)
    from mayfly.pipeline.lake import delta

    old_file_count = delta.erase_rows(lake_path, erased, record) if record.row_count else 0
    if is_vacuumed:
        # Also what an erasure before has left.
        delta.vacuum(lake_path)
        old_file_count = 0
    return LakeErasure(record, old_file_count)


def erasures(lake_path: str | Path) -> list[Erasure]:
    """Return the records of erasures from a lake, oldest first; raises LakeError without a lake."""
    if is_delta(lake_path):
        from mayfly.pipeline.lake import delta

        return delta.records_in(lake_path)
    return files.records_in(existing_lake(lake_path))


def copy_records(source: str | Path, target: str | Path) -> None:
    """Add to one lake the records of erasures that only the other has; raises LakeError."""
    known = erasures(target)
    for record in erasures(source):
        if record in known:
            continue
        if is_delta(target):
            from mayfly.pipeline.lake import delta

            delta.add_record(target, record)
        else:
            files.add_record(existing_lake(target), record)


def _condition(selection: Selection) -> tuple[str, list[bytes | str]]:
    """Return the SQL condition of a selection, and the values of its parameters."""
    match selection.selected_by:
        case "id":
            return of_id("$1"), [selection.value]
        case "user":
            return of_user("$1"), [selection.value]
        case _:
            return str(selection.value), []


def _finish_batches(lake: Path) -> None:
    """Move what killed copies have left into the lake; a copy that is at work does so itself."""
    from mayfly.pipeline.lake.parquet import ParquetLake

    for staging in (lake / files.STAGING).glob("*/"):
        if any(staging.glob("*.parquet")):
            with suppress(LakeError):
                ParquetLake(lake, staging.name).close()

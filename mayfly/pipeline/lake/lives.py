"""Finds ended messages in a lake by MsgId or CorrelId, with DuckDB.

Ten million rows take about a second. A row is the record of a message's stay on one queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.lake.answers import VIEW, ledger_view
from mayfly.pipeline.lake.measures import IS_LIFE
from mayfly.pipeline.lake.part import EVERYTHING

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

"""Helpers of the tests of stages: rows as JSON blobs, staged and committed as a pipeline does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from mayfly import QueueManager
from mayfly.engine.api.bulk import StagedRows
from mayfly.store.stage_table import QueryState, StagePlace

Row = dict[str, Any]


def row(body: bytes | None, queue: str | None = "Q1", **values: Any) -> Row:
    """Return a row: its data, its queue, and columns of engine/bulk/stages.py."""
    return {"queue": queue, "payload": None if body is None else body.hex(), **values}


def plain(count: int, first: int = 0, queue: str = "Q1", **values: Any) -> list[Row]:
    """Return rows whose data is their number."""
    return [row(str(n).encode(), queue, **values) for n in range(first, first + count)]


def encode(rows: Sequence[Row]) -> bytes:
    """Return rows as a blob."""
    return json.dumps(
        [{n: v.hex() if isinstance(v, bytes) else v for n, v in r.items()} for r in rows]
    ).encode()


def decode(blob: bytes) -> StagedRows:
    """Return the rows of a blob, columns that are null everywhere left out."""
    rows: list[Row] = json.loads(blob)
    bodies = [bytes.fromhex(r["payload"] or "") for r in rows]
    offsets = [0]
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    names = {name for r in rows for name, value in r.items() if value is not None}
    columns = {name: [_value(name, r.get(name)) for r in rows] for name in names - {"payload"}}
    without_body = frozenset(n for n, r in enumerate(rows) if r["payload"] is None)
    return StagedRows(len(rows), columns, b"".join(bodies), offsets, without_body)


def _value(name: str, value: Any) -> Any:
    return bytes.fromhex(value) if name in ("msg_id", "correl_id") and value else value


def stage(
    qm: QueueManager, place: StagePlace, rows: Sequence[Row], rows_per_blob: int = 100
) -> tuple[int, str]:
    """Fill a stage and return how a commit names it."""
    writer = qm.stages.begin(place)
    assert writer is not None, f"{place} is decided"
    for first in range(0, len(rows), rows_per_blob):
        part = rows[first : first + rows_per_blob]
        writer.append(encode(part), len(part))
    assert writer.finish() == len(rows)
    return place.partition, place.attempt


def commit(
    qm: QueueManager, query: str, batch: int, stages: Iterable[tuple[int, str]], **more: Any
) -> QueryState:
    """Commit a batch to its end."""
    while True:
        state = qm.stages.commit(query, batch, [*stages], decode, **more)
        if state.is_done:
            return state


def write(qm: QueueManager, rows: Sequence[Row], query: str = "q", **more: Any) -> QueryState:
    """Write rows as the next batch of a query."""
    known = qm.stages.state(query)
    batch = 0 if known is None else known.batch + 1
    return commit(qm, query, batch, [stage(qm, StagePlace(query, batch, 0, "a"), rows)], **more)


def staged_rows_left(qm: QueueManager) -> int:
    """Return how many rows stand on stages."""
    with qm.engine.engine_lock:
        sql = "SELECT coalesce(sum(row_count), 0) FROM stage_blob"
        return int(qm.engine.store.persistent.fetch(sql, ())[0][0])


def stages_left(qm: QueueManager) -> int:
    """Return how many stages there are."""
    with qm.engine.engine_lock:
        return int(qm.engine.store.persistent.fetch("SELECT count(*) FROM stage", ())[0][0])

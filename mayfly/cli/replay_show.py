"""The output of ``mayfly replay``: queues before and after, and messages that end otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mayfly.cli.show import aligned, moment
from mayfly.lifetime.times import SECOND_MS

if TYPE_CHECKING:
    import pyarrow as pa

    from mayfly.pipeline.replay.compare import Comparison
    from mayfly.pipeline.replay.settings import Settings

_HEAD = (
    "queue",
    "messages",
    "got",
    "expired",
    "refused",
    "left",
    "late",
    "p50 s",
    "p99 s",
    "depth",
    "empty receives",
)
_COUNTS_BEFORE = ("got", "expired", "refused", "left", "late")
_COUNTS_AFTER = ("depth_max", "receives_empty")


def comparison_lines(compared: Comparison, messages: int) -> Iterator[str]:
    """Yield a line for each queue, what turned into what, and the first of the messages."""
    from mayfly.pipeline.replay.compare import turned

    befores, afters = compared.before.to_pylist(), compared.after.to_pylist()
    rows = [_cells(*pair) for pair in zip(befores, afters, strict=True)]
    yield from aligned([_HEAD, *rows])
    recorded = [row["as_recorded"] for row in befores]
    if befores and None not in recorded:
        count = sum(row["messages"] for row in befores)
        yield f"as it was, {sum(recorded):,} of {count:,} messages end as recorded"
    yield ""
    yield f"{len(compared.changed):,} messages end otherwise"
    for (outcome, new_outcome), count in turned(compared.changed).items():
        is_other = outcome != new_outcome
        what = f"{outcome} -> {new_outcome}" if is_other else f"{outcome}, at another time"
        yield f"  {what}: {count:,}"
    yield from _message_lines(foremost(compared.changed, messages))


def as_json(compared: Comparison, settings: Settings, messages: int) -> dict[str, Any]:
    """Return the same for JSON, and the settings as they were understood."""
    from mayfly.pipeline.replay.compare import turned
    from mayfly.pipeline.replay.settings import WhatIf

    by_queue = {"*": settings} if isinstance(settings, WhatIf) else settings
    befores, afters = compared.before.to_pylist(), compared.after.to_pylist()
    return {
        "settings": {queue: what_if._asdict() for queue, what_if in by_queue.items()},
        "queues": [
            {"queue": before.pop("queue"), "before": before, "after": _without_queue(after)}
            for before, after in zip(befores, afters, strict=True)
        ],
        "changed": {
            "count": len(compared.changed),
            "turned": [
                {"outcome": outcome, "new_outcome": new_outcome, "count": count}
                for (outcome, new_outcome), count in turned(compared.changed).items()
            ],
            "messages": [
                row | {"correl_id": row["correl_id"].hex()}
                for row in foremost(compared.changed, messages)
            ],
        },
    }


def foremost(changed: pa.Table, count: int) -> list[dict[str, Any]]:
    """Return the first messages, those with another outcome before those with another time."""
    import pyarrow.compute as pc

    is_other = pc.not_equal(changed["outcome"], changed["new_outcome"])
    rows: list[dict[str, Any]] = changed.filter(is_other).slice(0, count).to_pylist()
    rest = changed.filter(pc.invert(is_other)).slice(0, count - len(rows))
    return [*rows, *rest.to_pylist()]


def write_changed(changed: pa.Table, out: Path) -> None:
    """Write all messages that end otherwise; raises ValueError for a suffix that is none of ours.

    In a CSV file the correlation id is in hexadecimal.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    suffix = out.suffix.lower()
    if suffix == ".parquet":
        pq.write_table(changed, out)
    elif suffix == ".arrow":
        with pa.OSFile(str(out), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as writer:
            writer.write_table(changed)
    elif suffix == ".csv":
        digits = pa.array([value.hex() for value in changed["correl_id"].to_pylist()], pa.string())
        place = changed.column_names.index("correl_id")
        pyarrow.csv.write_csv(changed.set_column(place, "correl_id", digits), out)
    else:
        raise ValueError(f"--out {out}: the suffix is not .csv, .parquet or .arrow")


def _cells(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    cells = [before["queue"], f"{before['messages']:,}"]
    cells += [_both(before[name], after[name]) for name in _COUNTS_BEFORE]
    cells += [_waits(before[name], after[name]) for name in ("waited_p50_ms", "waited_p99_ms")]
    cells += [_both(before[name], after[name]) for name in _COUNTS_AFTER]
    return tuple(cells)


def _both(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _waits(before_ms: float | None, after_ms: float | None) -> str:
    cells = [
        "-" if waited_ms is None else f"{waited_ms / SECOND_MS:,.1f}"
        for waited_ms in (before_ms, after_ms)
    ]
    return cells[0] if cells[0] == cells[1] else " -> ".join(cells)


def _message_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    cells = [("queue", "seq", "put (UTC)", "was", "at s", "would be", "at s")]
    for row in rows:
        ends = []
        for name in ("", "new_"):
            ended_ms = row[f"{name}ended_ms"]
            # Counted from the put: that is what delays, lifetimes and caps are compared with.
            after = "-" if ended_ms is None else f"{(ended_ms - row['put_ms']) / SECOND_MS:,.3f}"
            ends += [row[f"{name}outcome"], after]
        cells.append((row["queue"], str(row["seq"]), moment(row["put_ms"]), *ends))
    yield from aligned(cells)


def _without_queue(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "queue"}

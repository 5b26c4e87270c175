"""Makes a trace of the ended messages in a ledger: the messages put, and the moments of gets.

A ledger row (a life) is the record of a message's stay on one queue. It contains when its message
was put, delivered and got, and its deadline. Gets that found no message leave no row; a message
that is still on its queue has none yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from mayfly.lifetime.life import KIND_LIFE, State
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.errors import NoLives, ReplayError
from mayfly.pipeline.replay.trace import FULL_TRACE_SCHEMA

#: Columns of a life that a replay needs.
LIFE_COLUMNS = (
    "manager",
    "position",
    "queue",
    "correl_id",
    "put_ms",
    "deliver_at_ms",
    "expire_at_ms",
    "ended_ms",
    "outcome",
    "priority",
)
#: The lives that can be replayed: ended by a get or by their deadline. A message that was
#: transmitted was got, by a channel. A staged message lives on in its life on the target. All other
#: lives were ended by an operator or a failure, not by a rule about time.
REPLAYED = (State.GOT.value, State.TRANSMITTED.value, State.EXPIRED.value)


def is_lake(folder: Path) -> bool:
    """Return True if the folder is a lake: Parquet files with the ledger of a queue manager.

    False if it does not exist.
    """
    return folder.is_dir() and ((folder / "_mayfly").is_dir() or any(folder.glob("date=*")))


def read_lives(files: Sequence[Path], lake: str | Path, manager: str | None = None) -> pa.Table:
    """Return the records of ended messages in Parquet files, with the columns LIFE_COLUMNS.

    ``files`` are read; ``lake`` is only the name that errors give. Only messages that were got,
    transmitted or expired are included. Raises NoLives when there are none, ReplayError when they
    are of several queue managers and ``manager`` names none of them.
    """
    schema = pa.schema([LEDGER.field(name) for name in (*LIFE_COLUMNS, "kind")])
    paths = [str(file) for file in files]
    if not paths:
        raise NoLives(f"no lives in {lake}")
    rows = ds.dataset(paths, schema=schema, format="parquet")
    is_life = (ds.field("kind") == KIND_LIFE) & ds.field("outcome").isin(REPLAYED)
    lives = rows.to_table(columns=list(LIFE_COLUMNS), filter=is_life)
    return lives.filter(pc.equal(lives["manager"], chosen_manager(_managers(lives), manager, lake)))


def chosen_manager(managers: list[str], manager: str | None, lake: str | Path) -> str:
    """Return the queue manager to replay: ``manager``, or for None the only one in the lake.

    Raises NoLives if there is none, and ReplayError if ``manager`` is None and there are several,
    or if ``manager`` is not in the lake.
    """
    if not managers:
        raise NoLives(f"no lives in {lake}")
    if manager is None and len(managers) > 1:
        raise ReplayError(
            f"{lake} has lives of queue managers {', '.join(managers)}: name one of them"
        )
    if manager is not None and manager not in managers:
        raise ReplayError(
            f"no lives of queue manager {manager!r} in {lake}; it has those of "
            f"{', '.join(managers)}"
        )
    return managers[0] if manager is None else manager


def trace_of_lives(lives: pa.Table, *, is_by_correl_id: bool = False) -> pa.Table:
    """Return records of ended messages as a trace: the table that a replay takes.

    Each message has a get at the moment it was got. Seq is the ledger position. A get takes the
    first message; with ``is_by_correl_id`` only the one with the same correlation id. The lifetime
    is the time from the put to the deadline, so an expiry cap has shortened it already.
    """
    is_got = pc.not_equal(lives["outcome"], State.EXPIRED.value)
    count = len(lives)
    nobody = pa.nulls(count, pa.int64())
    any_id = pa.repeat(pa.scalar(b"", pa.binary()), count)
    columns = {
        "queue": lives["queue"],
        "seq": lives["position"],
        "put_ms": lives["put_ms"],
        "delay_ms": pc.subtract(lives["deliver_at_ms"], lives["put_ms"]),
        "life_ms": pc.subtract(lives["expire_at_ms"], lives["put_ms"]),
        "correl_id": lives["correl_id"] if is_by_correl_id else any_id,
        "get_ms": pc.if_else(is_got, lives["ended_ms"], nobody),
        "priority": lives["priority"],
        "recorded": pc.if_else(is_got, State.GOT.value, State.EXPIRED.value),
    }
    return pa.table(columns).cast(FULL_TRACE_SCHEMA)


def _managers(lives: pa.Table) -> list[str]:
    """Return the names of the queue managers in the records, sorted and each once."""
    return sorted(pc.unique(lives["manager"]).to_pylist())

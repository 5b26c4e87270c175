"""Where ``mayfly advise`` finds arrivals: a trace, a lake, or the ledger of a queue manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly.cli.managers import connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.store.database import DATABASE_FILE
from mayfly.verbs.contracts.ledger import PositionTrimmed

if TYPE_CHECKING:
    import pyarrow as pa

    from mayfly.client.connection.operating import Ledger
    from mayfly.pipeline.advise.arrivals import Arrivals

_PAGE_COUNT = 50_000


class Recorded(NamedTuple):
    """The arrivals on a queue, and its BOTHRESH where a queue manager has it."""

    arrivals: Arrivals
    bothresh: int | None


def recorded(
    source: Path | None, qmgr: str | None, queue: str | None, url: str | None
) -> Recorded | None:
    """Return what was recorded, None when nothing is named to look in.

    Raises CommandFailed when it is not there or empty, ValueError when it is not clear which.
    """
    if url is not None and (qmgr is None or source is not None):
        raise ValueError(f"--url {url} is the server of a queue manager: name that by --qmgr alone")
    if source is None and qmgr is None:
        if queue is not None:
            raise ValueError(f"--queue {queue} of what? Name a trace, a lake or --qmgr")
        return None
    if source is not None and not source.exists():
        raise CommandFailed(ExitCode.FILE, f"there is no trace, lake or queue manager at {source}")
    if source is None or (source / DATABASE_FILE).exists():
        folder = None if source is None else str(source)
        return _of_manager(qmgr or Path(str(source)).resolve().name, url or folder, queue)
    return Recorded(_arrivals(_trace(source, qmgr), queue, str(source)), None)


def _trace(source: Path, qmgr: str | None) -> pa.Table:
    from mayfly.pipeline.replay.lives import is_lake, trace_of_lives
    from mayfly.pipeline.replay.read import read_trace

    if not is_lake(source):
        if qmgr is not None:
            raise ValueError(f"--qmgr is for a lake or its own folder; {source} is neither")
        return read_trace(source)
    from mayfly.cli.ledger_spark import pipeline_errors
    from mayfly.pipeline.replay.errors import NoLives
    from mayfly.pipeline.spark.replay import lives_in_lake

    with pipeline_errors():
        try:
            return trace_of_lives(lives_in_lake(source, qmgr))
        except NoLives as error:
            raise CommandFailed(ExitCode.NOTHING, str(error)) from error


def _of_manager(name: str, place: str | None, queue: str | None) -> Recorded:
    """Read the ledger of a queue manager: of its folder, or of the server that has it open."""
    from mayfly.pipeline.replay.lives import trace_of_lives

    with connected(name, place, program="mayfly advise") as connection:
        admin = connection.admin
        lives = _lives(admin.ledger, name)
        arrivals = _arrivals(trace_of_lives(lives), queue, f"the ledger of {name}")
        rows = admin.mqsc(f"DISPLAY QLOCAL('{arrivals.queue}') BOTHRESH").rows
    # The queue may be gone; its lives are still there.
    return Recorded(arrivals, int(rows[0]["BOTHRESH"]) if rows else None)


def _lives(ledger: Ledger, name: str) -> pa.Table:
    """Return the lives in a ledger that `mayfly.pipeline.replay.lives` replays."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from mayfly.lifetime.life import KIND_LIFE
    from mayfly.pipeline.bulk.schema import LEDGER, ledger_batch
    from mayfly.pipeline.replay.lives import LIFE_COLUMNS, REPLAYED

    batches = [ledger_batch(rows, name, "") for rows in _pages(ledger)]
    table = pa.Table.from_batches(batches, schema=LEDGER)
    is_life = (pc.field("kind") == KIND_LIFE) & pc.field("outcome").isin(REPLAYED)
    return table.filter(is_life).select(list(LIFE_COLUMNS))


def _pages(ledger: Ledger) -> Iterator[list[tuple[Any, ...]]]:
    """Yield what the ledger holds; a server may remove the oldest rows meanwhile."""
    position = ledger.first_position() - 1
    while True:
        try:
            rows = ledger.page(position, _PAGE_COUNT)
        except PositionTrimmed as trimmed:
            position = trimmed.first_position - 1
            continue
        if not rows:
            return
        yield rows
        position = rows[-1][0]


def _arrivals(trace: pa.Table, queue: str | None, name: str) -> Arrivals:
    from mayfly.pipeline.advise.arrivals import arrivals_of

    if not len(trace):
        raise CommandFailed(ExitCode.NOTHING, f"no message in {name}")
    try:
        return arrivals_of(trace, queue)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error

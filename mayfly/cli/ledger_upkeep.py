"""``mayfly ledger compact`` and ``export``: fewer files in a lake, and lives out of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.ledger_spark import (
    FromOption,
    Lake,
    LateOption,
    QueueOption,
    ToOption,
    check_lake,
    is_small,
    lake_errors,
    lake_part,
    spark_session,
)
from mayfly.cli.managers import JsonOption
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.progress import seconds_told
from mayfly.cli.show import print_json
from mayfly.cli.values import local_path

if TYPE_CHECKING:
    from mayfly.pipeline.lake.part import LakePart

Target = Annotated[
    Path,
    typer.Argument(
        parser=local_path, metavar="FILE", help="A new file: .parquet, .csv, .jsonl or .json."
    ),
]
OutcomeOption = Annotated[
    list[str] | None,
    typer.Option("--outcome", metavar="OUTCOME", help="Only lives that ended so; several."),
]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only lives for which this holds."),
]
RebuildOption = Annotated[
    bool, typer.Option("--rebuild-sketches", help="Make all sketches anew from the lives.")
]


def compact(lake: Lake, *, rebuild: RebuildOption = False, as_json: JsonOption = False) -> None:
    """Turn the many files of a lake into one for each date, sorted by queue; update its sketches.

    May run while a stream writes and others read, and may be killed: no reader ever sees a row
    twice or misses one. The next run removes files that readers still need now.

    \b
    Example:
      mayfly ledger compact lake
    """
    check_lake(lake)
    with spark_session() as spark:
        from mayfly.pipeline.spark.compaction import compact_lake
        from mayfly.pipeline.spark.sketches import rebuild_sketches

        if rebuild:
            rebuild_sketches(spark, lake)
        done = compact_lake(spark, lake)
    if as_json:
        print_json(done._asdict())
    elif done.dates:
        print(f"{done.dates:,} dates: {done.files_before:,} files are now {done.files_after:,}")
    else:
        print(f"{lake} has nothing to compact")


def export(
    lake: Lake,
    target: Target,
    *,
    first: FromOption = None,
    last: ToOption = None,
    queue: QueueOption = None,
    outcome: OutcomeOption = None,
    late_after_ms: LateOption = None,
    where: WhereOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write lives of a lake to one file for other programs, by queue and position.

    Without a filter it is all of them; --late-after keeps those that were got later than that.
    Small lakes are read without Spark; --where is a condition in Spark's SQL.

    \b
    Examples:
      mayfly ledger export lake expired.csv --outcome expired --from 2026-11-20
      mayfly ledger export lake large.parquet --where 'body_bytes > 1000000'
    """
    check_lake(lake)
    part = lake_part(first, last, queue)
    from mayfly.pipeline.lake.export import check_export

    outcomes = outcome or ()
    with wrong_values():
        check_export(target, outcomes)
    count = _exported(
        lake, target, part, outcomes=outcomes, late_after_ms=late_after_ms, where=where
    )
    if as_json:
        print_json({"file": str(target), "lives": count})
    else:
        print(f"{count:,} {'life' if count == 1 else 'lives'} written to {target}")
    if not count:
        raise CommandFailed(ExitCode.NOTHING, f"no lives in {lake} fit")


def _exported(
    lake: Path,
    target: Path,
    part: LakePart,
    *,
    outcomes: Sequence[str],
    late_after_ms: int | None,
    where: str | None,
) -> int:
    """Write the lives and return how many; ``where`` is Spark's SQL."""
    # A user's condition is Spark's whatever the size: its meaning must not change with that.
    if where is None and is_small(lake, part):
        with lake_errors(), seconds_told(sys.stderr, "the lake is read"):
            from mayfly.pipeline.lake import small

            return small.export_lives(
                lake, target, part=part, outcomes=outcomes, late_after_ms=late_after_ms
            )
    with spark_session() as spark:
        from mayfly.pipeline.spark.export import export_lives

        return export_lives(
            spark,
            lake,
            target,
            part=part,
            outcomes=outcomes,
            late_after_ms=late_after_ms,
            where=where,
        )

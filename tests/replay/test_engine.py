"""The engine of a replay is chosen by the number of messages and the memory, and says why."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mayfly.pipeline.replay.settings import (
    BYTES_PER_MESSAGE,
    EngineChoice,
    ReplayEngine,
    choose_engine,
    usable_bytes,
)
from mayfly.pipeline.replay.trace import checked, trace_row_count, write_split
from mayfly.pipeline.spark.replay import lives_row_count
from tests.replay import lakes

GIB = 2**30
FITS = GIB // BYTES_PER_MESSAGE


@pytest.mark.parametrize(
    ("count", "has_spark", "asked", "choice"),
    [
        (FITS, True, None, (ReplayEngine.PROCESS, "1,342,177 messages need 1.0 GiB of 1.0 GiB")),
        (
            10 * FITS,
            True,
            None,
            (ReplayEngine.SPARK, "13,421,770 messages need 10.0 GiB of 1.0 GiB"),
        ),
        (
            10 * FITS,
            False,
            None,
            (
                ReplayEngine.PROCESS,
                "13,421,770 messages need 10.0 GiB of 1.0 GiB, but Spark is not installed",
            ),
        ),
        (None, True, None, (ReplayEngine.PROCESS, "a file of this kind is read in one process")),
        (1, True, ReplayEngine.SPARK, (ReplayEngine.SPARK, "as --engine says")),
        (10 * FITS, True, ReplayEngine.PROCESS, (ReplayEngine.PROCESS, "as --engine says")),
    ],
)
def test_one_process_until_the_messages_do_not_fit(
    count: int | None, has_spark: bool, asked: ReplayEngine | None, choice: EngineChoice
) -> None:
    """The user's word wins over both."""
    assert choose_engine(count, GIB, has_spark=has_spark, asked=asked) == choice


def test_the_memory_is_at_most_half_of_the_machines() -> None:
    """A container has less."""
    with Path("/proc/meminfo").open() as lines:
        total_kib = int(next(lines).split()[1])
    assert 0 < usable_bytes() <= total_kib * 1024


def test_messages_are_counted_without_reading_them(tmp_path: Path) -> None:
    """By the footers of Parquet files; a CSV file has none."""
    rows = pa.table({"queue": ["Q1", "Q2", "Q1"], "put_ms": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "trace.parquet")
    pyarrow.csv.write_csv(rows, tmp_path / "trace.csv")
    write_split(checked(rows, "trace"), tmp_path / "split")
    assert trace_row_count(tmp_path / "trace.parquet") == 3
    assert trace_row_count(tmp_path / "split") == 3
    assert trace_row_count(tmp_path / "trace.csv") is None
    assert lives_row_count(lakes.live(tmp_path)) >= lakes.LIFE_COUNT

"""A lake that is written and compacted is read by DuckDB: every row once, and no file is gone."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import duckdb
import pytest

from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.lake.files import Snapshot, move_into_place, reading
from tests.bulk.books import life
from tests.spark.lakes import write_lake

pytestmark = pytest.mark.slow
FILES, ROWS = 12, 5


class Reader(Thread):
    """Counts the rows of a lake again and again; what has gone wrong is in ``problems``."""

    def __init__(self, lake: Path) -> None:
        super().__init__(daemon=True)
        self.lake = lake
        self.written = 0
        self.reads = 0
        self.problems: list[object] = []
        self._stopped = Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            least = self.written
            try:
                with reading(self.lake) as files, duckdb.connect() as connection:
                    rows = connection.read_parquet(files, union_by_name=True)
                    [(count, different)] = rows.aggregate(
                        "count(*), count(DISTINCT position)"
                    ).fetchall()
            except Exception as error:  # noqa: BLE001  # whatever a reader meets is told
                self.problems.append(error)
                continue
            self.reads += 1
            if not least <= count == different:
                self.problems.append((least, count, different))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def add(lake: Path, reader: Reader) -> None:
    beside = lake.with_name("beside")
    for _ in range(FILES):
        first = reader.written + 1
        written = write_lake(beside, [life(first + n) for n in range(ROWS)], first)
        move_into_place(written, lake / written.parent.name / written.name)
        reader.written += ROWS


def test_readers_beside_a_stream_and_compactions_have_every_row_once(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    reader = Reader(lake)
    add(lake, reader)
    (lake / "_mayfly").mkdir()
    reader.start()
    try:
        for _ in range(4):
            add(lake, reader)
            compact_lake(lake)
    finally:
        reader.stop()
    assert (reader.problems, reader.reads > 0) == ([], True)
    # Files that a reader held have been removed when nobody needs them any more.
    compact_lake(lake)
    assert len(Snapshot.take(lake).files) == len([*lake.glob("date=*/*.parquet")]) == 1

"""A process that compacts a lake again and again, as files come in, until somebody kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.pipeline.lake.compaction import compact_lake
from tests.bulk.books import life
from tests.spark.lakes import INSTANCE, write_lake


def main(lake: str, first: str) -> None:
    position = int(first)
    while True:
        for date in ("2023-11-14", "2023-11-15"):
            for _ in range(2):
                written = [life(position + n, f"Q{n % 3}") for n in range(30)]
                # As a stream does it: beside the lake, then under its name.
                beside = write_lake(Path(lake, "_beside"), written, position, INSTANCE, date=date)
                folder = Path(lake, f"date={date}")
                folder.mkdir(exist_ok=True)
                beside.replace(folder / beside.name)
                position += 30
        compact_lake(lake)


if __name__ == "__main__":
    main(*sys.argv[1:])

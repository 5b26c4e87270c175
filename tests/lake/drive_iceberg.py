"""A process that copies a lake into Iceberg tables until somebody kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.pipeline.lake.iceberg import IcebergPlace, export_to_iceberg


def main(source: str, folder: str) -> None:
    place = IcebergPlace(Path(folder), None, "mayfly")
    for progress in export_to_iceberg(source, place, batch_rows_max=25):
        print(progress.position, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A process that converts a lake until somebody kills it."""

from __future__ import annotations

import sys

from mayfly.pipeline.lake.copying import convert_lake


def main(source: str, target: str) -> None:
    for progress in convert_lake(source, target, batch_rows_max=25):
        print(progress.position, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

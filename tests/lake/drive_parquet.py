"""A process that copies a ledger into a lake of Parquet files until somebody kills it."""

from __future__ import annotations

import sys
from contextlib import closing

from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.lake.copying import copy_ledger
from mayfly.pipeline.lake.parquet import ParquetLake


def main(url: str, token_file: str, lake: str) -> None:
    with (
        LedgerClient(url, token_file=token_file) as client,
        closing(ParquetLake(lake, client.info().instance_id)) as parquet_lake,
    ):
        for progress in copy_ledger(client, parquet_lake, batch_rows_max=50):
            print(progress.position, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A driver of its own that streams a ledger into a lake until somebody kills it."""

from __future__ import annotations

import sys

from mayfly.pipeline.spark.lake import ledger_to_lake
from mayfly.spark import create_session


def main(url: str, token_file: str, lake: str, warehouse: str) -> None:
    spark = create_session("local[2]", conf={"spark.sql.warehouse.dir": warehouse}, fast=True)
    ledger_to_lake(
        spark, url, token_file, lake, trigger="0 seconds", batch_rows_max=400
    ).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

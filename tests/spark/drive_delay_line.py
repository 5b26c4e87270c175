"""A driver of its own that runs a delay line over files until somebody kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.spark import create_session
from tests.spark.delay_line_input import delay_line
from tests.spark.drive_transfer import CONF


def main(folder: str, warehouse: str, master: str = "local[2]") -> None:
    spark = create_session(master, conf={**CONF, "spark.sql.warehouse.dir": warehouse}, fast=True)
    delay_line(spark, Path(folder)).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

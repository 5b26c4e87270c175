"""A Spark with Delta's own JARs: it writes the tables of a lake as Parquet, as it has read them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

from mayfly.spark import create_session


def main(jars: str, lake: str, folder: str, names: str, questions: str) -> None:
    """Write table NAME to FOLDER/NAME.parquet, and the answer to question N to FOLDER/N.parquet.

    ``names`` and ``questions`` are JSON lists.
    """
    conf = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Tasks that read the log of a table; 50 without it.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    spark = create_session("local[2]", "a witness", conf, fast=True)
    for name in json.loads(names):
        rows = spark.read.format("delta").load(f"{lake}/{name}")
        rows.createOrReplaceTempView(name)
        pq.write_table(rows.toArrow(), Path(folder, f"{name}.parquet"))
    for number, question in enumerate(json.loads(questions)):
        pq.write_table(spark.sql(question).toArrow(), Path(folder, f"{number}.parquet"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A driver of its own that streams files into a queue until somebody kills it."""

from __future__ import annotations

import sys

from pyspark.sql import functions as f

from mayfly.spark import create_session

#: The columns of an input line: the number of the message, and its deadline.
INPUT = "n long, expire_at_ms long"


def main(url: str, token_file: str, folder: str, available_now: str) -> None:
    spark = create_session(
        "local[1]", conf={"spark.sql.warehouse.dir": f"{folder}/warehouse"}, fast=True
    )
    rows = (
        spark.readStream.schema(INPUT)
        .option("maxFilesPerTrigger", "1")
        .json(f"{folder}/in")
        .select(
            f.col("n").cast("string").cast("binary").alias("payload"),
            "expire_at_ms",
        )
    )
    writer = (
        rows.writeStream.format("mayfly")
        .options(url=url, tokenFile=token_file, queue="Q1")
        .option("checkpointLocation", f"{folder}/checkpoint")
    )
    if available_now == "true":
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

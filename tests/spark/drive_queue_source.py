"""Processes that a test kills: a queue manager that is put to and served, and a Spark driver."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from mayfly.spark import create_session
from tests.bulk.books import TOKEN

#: Messages of one commit; the first half of each is persistent.
COMMIT_MESSAGES = 20
#: So many wait at most, so that a reader keeps up.
DEPTH = 4_000


def serve(folder: str, journal: str, first: str) -> None:
    """Serve a queue manager and put numbered messages, noting each commit before and after."""
    # A server loads pandas beside its first calls, which takes the time of a whole round.
    pa.array([None])
    with QueueManager("QM1", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) REPLACE")
        with FlightServer(manager, port=0, token=TOKEN) as server, Path(journal).open("a") as notes:
            print(server.url, flush=True)
            put_on_and_on(manager, notes, int(first))


def put_on_and_on(manager: QueueManager, notes: TextIO, number: int) -> None:
    """Put until killed: ``- N`` stands before the commit of N and those after it, ``+ N`` after."""
    with manager.session(transacted=True) as session:
        while True:
            if manager.curdepth("Q1") >= DEPTH:
                manager.run_due()
                continue
            for offset in range(COMMIT_MESSAGES):
                session.put(
                    "Q1", b"%d" % (number + offset), persistent=offset < COMMIT_MESSAGES // 2
                )
            print("-", number, file=notes, flush=True)
            session.commit()
            print("+", number, file=notes, flush=True)
            number += COMMIT_MESSAGES


def drive(url: str, token_file: str, out: str, warehouse: str) -> None:
    """Stream Q1 into Parquet until killed."""
    spark = create_session("local[1]", conf={"spark.sql.warehouse.dir": warehouse}, fast=True)
    stream = spark.readStream.format("mayfly").options(
        url=url, tokenFile=token_file, queue="Q1", consumer="billing", maxRowsPerBatch="300"
    )
    (
        stream.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{out}/checkpoint")
        .option("path", f"{out}/rows")
        .trigger(processingTime="0 seconds")
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "serve":
        serve(*arguments)
    else:
        drive(*arguments)

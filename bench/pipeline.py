"""How fast the ledger streams through Flight and Spark into the lake."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from bench.figures import Figure, at_least, seconds_of
from bench.messaging import BODY
from mayfly import QueueManager
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.spark.lake import ledger_to_lake
from mayfly.pipeline.spark.session import create_session
from mayfly.servers.flight import FlightServer

_WARM_UP, _COUNT, _PER_UNIT = 200_000, 600_000, 1_000


def figures() -> Iterator[Figure]:
    """Stream a prepared ledger, after a smaller one that warms Spark up."""
    spark = create_session("local[2]", "bench")
    try:
        _streamed(spark, _WARM_UP)
        seconds, rows = _streamed(spark, _COUNT)
    finally:
        spark.stop()
    note = f"{rows:,} rows in {seconds:.1f} s, start of the query included; lake verified"
    yield at_least("ledger stream into the lake", rows / seconds, 50_000, " lives/s", note)


def _streamed(spark: SparkSession, count: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token_file = folder / "token"
        token_file.write_text(secrets.token_hex(16))
        token_file.chmod(0o600)
        with QueueManager("BENCH", folder / "BENCH") as manager:
            _live_and_die(manager, count)
            with FlightServer(manager, port=0, token=token_file.read_text()) as server:
                seconds = seconds_of(
                    lambda: ledger_to_lake(
                        spark, server.url, token_file, folder / "lake", available_now=True
                    ).awaitTermination()
                )
                rows = manager.ledger.last_position()
        problems = check_lake(folder / "lake").texts
        assert not problems, problems
    return seconds, rows


def _live_and_die(manager: QueueManager, count: int) -> None:
    manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
    with manager.session(transacted=True) as session:
        for _ in range(count // _PER_UNIT):
            for _ in range(_PER_UNIT):
                session.put("Q1", BODY, persistent=True)
            session.commit()
            for _ in range(_PER_UNIT):
                session.get("Q1")
            session.commit()

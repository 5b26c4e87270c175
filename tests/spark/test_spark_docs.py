"""The programs of docs/PIPELINE.md run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.pages import part
from tests.spark.delay_line_input import INPUT_TYPE, write_file
from tests.spec.scene import bodies

pytestmark = [pytest.mark.spark, pytest.mark.soak]
#: Rows of which the stream of the delay line releases eight, one expires and one is refused.
ROW_COUNT = 10


def programs(title: str) -> list[str]:
    """Return the programs of a part of the page."""
    return re.findall(r"```python\n(.*?)```", part("PIPELINE.md", title), re.DOTALL)


def run(program: str, replaced: Mapping[str, str], **given: Any) -> dict[str, Any]:
    """Run a program of the page, with paths and addresses of the test; return its names."""
    for text, ours in replaced.items():
        assert text in program
        program = program.replace(text, ours)
    exec(compile(program, "docs/PIPELINE.md", "exec"), given)
    return given


def test_the_stream_of_the_page_moves_a_queue_to_another_queue_manager(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    manager.mqsc("DEFINE QLOCAL(CALLS)")
    with manager.session() as session:
        session.put("CALLS", b"to gate 5", persistent=True)
    with (
        closing(QueueManager("QM2", tmp_path / "QM2")) as other,
        FlightServer(other, port=0, token=TOKEN) as server,
    ):
        other.mqsc("DEFINE QLOCAL(IN)\nDEFINE QLOCAL(REFUSED)")
        replaced = {
            "grpc://127.0.0.1:9414": manager_server.url,
            "grpc://127.0.0.1:9415": server.url,
            '"token"': f'"{tmp_path}/token"',
            '"token2"': f'"{tmp_path}/token"',
            "/data/checkpoint": str(tmp_path / "checkpoint"),
        }
        query = run(programs("Queues in Spark")[0], replaced)["query"]
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        with other.session() as session:
            assert bodies(session, "IN") == [b"to gate 5"]


def test_the_function_for_batches_writes_each_batch_once(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    manager.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(URGENT)")
    options = {"url": manager_server.url, "tokenFile": str(token_file)}
    [program] = [each for each in programs("Queues in Spark") if "def write(" in each]
    write = run(program, {}, options=options)["write"]
    number = f.col("id").cast("int")
    batch = spark.range(10).select(
        number.alias("priority"), number.cast("string").cast("binary").alias("payload")
    )
    for _ in range(2):
        write(batch, 0)
    assert (manager.curdepth("ORDERS"), manager.curdepth("URGENT")) == (5, 5)


def test_the_delay_line_of_the_page_ends_every_row(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, ROW_COUNT, delay_ms=0)
    session = spark.newSession()
    messages = (
        session.readStream.schema(INPUT_TYPE)
        .parquet(str(tmp_path / "in"))
        .withColumn("put_ms", f.unix_millis(f.current_timestamp()))
    )
    outcomes: list[str] = []

    def write_by_batch_id(batch: DataFrame, _batch_id: int) -> None:
        outcomes.extend(row.outcome for row in batch.select("outcome").collect())

    replaced = {
        'create_session("local[2]")': "session",
        "/data/checkpoint": str(tmp_path / "checkpoint"),
    }
    given = {
        "session": session,
        "messages": messages,
        "write_by_batch_id": write_by_batch_id,
    }
    [program] = programs("The delay line")
    query = run(program, replaced, **given)["query"]
    try:
        while len(outcomes) < ROW_COUNT:
            assert not query.awaitTermination(0.1)
    finally:
        query.stop()
    assert sorted(set(outcomes)) == ["dead_lettered", "expired", "released"]


def test_the_cluster_of_the_page_takes_a_session(tmp_path: Path) -> None:
    """In a process of its own: this one has a session with another master."""
    [program] = programs("On a cluster")
    program = program.replace("/tmp/cluster", str(tmp_path / "cluster"))
    program += "    print(spark.range(1_000).count())\n    spark.stop()\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr

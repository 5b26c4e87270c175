"""Spark finds ``format("mayfly")`` by its name: nothing is registered with these sessions."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.servers.flight import FlightServer
from tests.pages import part
from tests.spec.scene import bodies

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def options(manager_server: FlightServer, token_file: Path) -> dict[str, str]:
    """The options of the served queue manager."""
    return {"url": manager_server.url, "tokenFile": str(token_file)}


def put(manager: QueueManager, *texts: str) -> None:
    """Put persistent messages on Q0."""
    with manager.session() as session:
        for text in texts:
            session.put("Q0", text.encode(), persistent=True)


def on_queue(manager: QueueManager, name: str) -> list[bytes]:
    """Get the messages of a queue; return their bodies."""
    with manager.session() as session:
        return bodies(session, name)


@pytest.mark.long
def test_a_table_is_read_and_written_in_a_new_session(
    spark: SparkSession, manager: QueueManager, options: dict[str, str]
) -> None:
    put(manager, "a", "b")
    session = spark.newSession()
    read = session.read.format("mayfly").options(**options, queue="Q0").load()
    assert sorted(bytes(row.payload) for row in read.collect()) == [b"a", b"b"]
    writer = read.drop("queue", "manager").write.format("mayfly").options(**options, queue="Q1")
    writer.mode("append").save()
    assert sorted(on_queue(manager, "Q1")) == [b"a", b"b"]


@pytest.mark.long
def test_a_stream_goes_from_queue_to_queue_in_a_new_session(
    spark: SparkSession, manager: QueueManager, options: dict[str, str], tmp_path: Path
) -> None:
    put(manager, "a", "b")
    stream = spark.newSession().readStream.format("mayfly")
    calls = stream.options(**options, queue="Q0", consumer="billing").load()
    writer = calls.drop("queue").writeStream.format("mayfly").options(**options, queue="Q1")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert (on_queue(manager, "Q0"), sorted(on_queue(manager, "Q1"))) == ([], [b"a", b"b"])


def test_sql_makes_a_view_of_a_queue_in_a_new_session(
    spark: SparkSession, manager: QueueManager, options: dict[str, str]
) -> None:
    put(manager, "a", "b", "b")
    session = spark.newSession()
    given = ", ".join(f"{name} '{value}'" for name, value in {**options, "queue": "Q0"}.items())
    session.sql(f"CREATE TEMPORARY VIEW calls USING mayfly OPTIONS ({given})")
    counted = session.sql(
        "SELECT CAST(payload AS STRING) text, COUNT(*) number FROM calls GROUP BY text ORDER BY 1"
    )
    assert [tuple(row) for row in counted.collect()] == [("a", 1), ("b", 2)]


def test_the_page_shows_the_program_of_the_example() -> None:
    programs = re.findall(r"```python\n(.*?)```", part("PIPELINE.md", "Queues in Spark"), re.DOTALL)
    example = (ROOT / "examples" / "spark_pipelines" / "billing.py").read_text("utf-8")
    assert example.partition("\n\n")[2] in programs


def test_the_wheel_has_the_module_by_which_spark_finds_the_format(tmp_path: Path) -> None:
    build = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert wheel.read("pyspark_mayfly.py") == (ROOT / "pyspark_mayfly.py").read_bytes()

"""Spark Connect: clients that have no mayfly read and write queues through a server that has it.

And Spark's declarative pipelines, whose program is such a client: examples/spark_pipelines.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pyspark
import pytest

from mayfly import QueueManager
from mayfly.pipeline.spark.jvm import ensure_java
from mayfly.servers.flight import FlightServer
from tests.pages import part
from tests.ports import held_port
from tests.spec.scene import bodies

pytestmark = [
    pytest.mark.spark,
    pytest.mark.interop,
    pytest.mark.skipif(
        None in map(find_spec, ("grpc", "grpc_status", "zstandard")),
        reason="extra connect is not installed",
    ),
]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "spark_pipelines"
SPARK_HOME = Path(pyspark.__file__).parent
LIMIT_SECONDS = 300
#: A client: a batch, a view and a stream, from Q0 into Q1, Q2 and BILLS.
CLIENT = """
import json, sys
from pyspark.sql import SparkSession

remote, url, token_file, folder = sys.argv[1:]
given = {"url": url, "tokenFile": token_file}
spark = SparkSession.builder.remote(remote).getOrCreate()
calls = spark.read.format("mayfly").options(**given, queue="Q0").load().drop("queue")
calls.write.format("mayfly").options(**given, queue="Q1").mode("append").save()
spark.sql(
    f"CREATE TEMPORARY VIEW calls USING mayfly OPTIONS (url '{url}', tokenFile '{token_file}',"
    " queue 'Q0')"
)
counted = spark.sql("SELECT COUNT(*), SUM(CAST(CAST(payload AS STRING) AS INT)) FROM calls")
stream = spark.readStream.format("mayfly").options(**given, queue="Q0", consumer="remote").load()
writer = stream.drop("queue").writeStream.format("mayfly").options(**given, queue="BILLS")
writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
print(json.dumps([*counted.first()]))
assert writer.trigger(availableNow=True).start().awaitTermination() is None
assert not any(name.startswith("mayfly") for name in sys.modules)
"""


@pytest.fixture
def calls(manager: QueueManager) -> QueueManager:
    """The queue manager with queues CALLS and BILLS."""
    manager.mqsc("DEFINE QLOCAL(CALLS)\nDEFINE QLOCAL(BILLS)")
    return manager


def put(manager: QueueManager, queue: str, *texts: str) -> None:
    """Put persistent messages."""
    with manager.session() as session:
        for text in texts:
            session.put(queue, text.encode(), persistent=True)


def on_queue(manager: QueueManager, name: str) -> list[bytes]:
    """Get the messages of a queue; return their bodies in order."""
    with manager.session() as session:
        return sorted(bodies(session, name))


def environment() -> dict[str, str]:
    """Return the variables with which Spark's own programs start."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("SPARK")}
    variables.pop("PYSPARK_SUBMIT_ARGS", None)
    return {
        **variables,
        "JAVA_HOME": str(ensure_java().path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server in which mayfly is installed.

    It may still be starting: a client asks again until it answers.
    """
    folder = tmp_path_factory.mktemp("server")
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with held_port() as port, (folder / "server.log").open("wb") as log:
        settings = (
            f"spark.connect.grpc.binding.port={port}",
            "spark.ui.enabled=false",
            f"spark.sql.warehouse.dir={folder}/warehouse",
        )
        command = ("spark-submit", *confs(settings), "--class", server, "spark-internal")
        with program(command, folder, log):
            yield f"sc://127.0.0.1:{port}"


@contextmanager
def program(
    command: Sequence[str | Path], folder: Path, output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a folder; it is killed afterwards with all that it has started.

    ``command`` begins with the name of one of Spark's programs, or the path of another.
    """
    process = subprocess.Popen(
        [SPARK_HOME / "bin" / command[0], *command[1:]],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def confs(settings: Iterable[str]) -> list[str]:
    """Return settings as arguments of Spark's programs."""
    return [text for setting in settings for text in ("--conf", setting)]


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a program in a folder to its end, which must be good; return what it has printed."""
    log = folder / "program.log"
    with log.open("wb") as output, program(command, folder, output) as process:
        status = process.wait(LIMIT_SECONDS)
    assert status == 0, log.read_text()
    return log.read_text()


def test_a_client_without_mayfly_reads_and_writes_queues(
    remote: str,
    calls: QueueManager,
    manager_server: FlightServer,
    token_file: Path,
    tmp_path: Path,
) -> None:
    put(calls, "Q0", "1", "2", "4")
    (tmp_path / "client.py").write_text(CLIENT)
    page = part("PIPELINE.md", "Queues in Spark")
    [shown] = re.findall(r"```python\n([^`]*sc://[^`]*)```", page)
    for old, new in {
        "sc://spark.example.com": remote,
        "grpc://127.0.0.1:9414": manager_server.url,
        "/etc/mayfly/token": str(token_file),
        "CALLS": "Q0",
    }.items():
        assert old in shown
        shown = shown.replace(old, new)
    counted = shown.replace("spark.read.", "count = spark.read.") + "assert count == 3\n"
    (tmp_path / "page.py").write_text(counted)
    run([sys.executable, "page.py"], tmp_path)
    arguments = (remote, manager_server.url, str(token_file), str(tmp_path))
    printed = run([sys.executable, "client.py", *arguments], tmp_path)
    assert printed.splitlines()[-1] == "[3, 7]"
    assert on_queue(calls, "Q1") == on_queue(calls, "BILLS") == [b"1", b"2", b"4"]
    assert on_queue(calls, "Q0") == []


def test_a_declarative_pipeline_bills_each_call_once_though_its_batch_is_repeated(
    remote: str,
    calls: QueueManager,
    manager_server: FlightServer,
    token_file: Path,
    tmp_path: Path,
) -> None:
    replaced = {
        "grpc://127.0.0.1:9414": manager_server.url,
        "/etc/mayfly/token": str(token_file),
        "/var/lib/mayfly/billing": str(tmp_path / "storage"),
    }
    for file in EXAMPLE.iterdir():
        text = file.read_text("utf-8")
        for old, new in replaced.items():
            text = text.replace(old, new)
        (tmp_path / file.name).write_text(text, "utf-8")

    put(calls, "CALLS", "61", "30")
    run(("spark-pipelines", "run", "--remote", remote), tmp_path)
    assert on_queue(calls, "BILLS") == [b"25 cents", b"50 cents"]
    # As after a kill between the commit of the sink and Spark's own: the batch is repeated.
    commits = next((tmp_path / "storage").rglob("commits"))
    for file in commits.iterdir():
        file.unlink()
    put(calls, "CALLS", "121")
    run(("spark-pipelines", "run", "--remote", remote), tmp_path)
    assert on_queue(calls, "BILLS") == [b"75 cents"]
    assert on_queue(calls, "CALLS") == []
    assert calls.verify().ok

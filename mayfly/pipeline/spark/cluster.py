"""Runs a Spark standalone cluster on this machine: a master and workers that end with the caller.

It is for trying out and testing a pipeline with more than one executor. A keeper (keeper.py)
watches each process, so that none outlives the caller, even a killed one. All ports are on
127.0.0.1 only.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mayfly.pipeline.errors import PipelineError
from mayfly.pipeline.spark import keeper
from mayfly.pipeline.spark.jvm import ensure_java, spark_home
from mayfly.verbs.contracts.config_files import local_path

HOST = "127.0.0.1"
#: The default port of a Spark master.
MASTER_PORT = 7077
#: Two Javas start one after the other; a busy machine takes ten times as long as an idle one.
START_LIMIT_SECONDS = 120
_TICK_SECONDS = 0.1
#: Looks between two starts of a worker at most, and what it must last for to count as well.
_LOOKS_MAX = 60
_PACKAGE = "org.apache.spark.deploy"
#: How much of a log an error shows.
_SHOWN_LOG_CHARS = 1_000
#: Daemons do little, so these options make them start quickly. Port retries are off: Spark would
#: move on to the next port when one is taken, where its clients do not look. Submitting over HTTP
#: is off: it would take one port more.
_DAEMON_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    " -Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false"
)


class ClusterFailed(PipelineError):
    """A cluster cannot be started; the message names the port or the log to look at."""


@dataclass(frozen=True)
class Daemon:
    """A running Spark master or worker: the keeper process that watches it, and its log file."""

    name: str
    keeper: subprocess.Popen[bytes]
    log: Path


class Worker:
    """A Spark worker process that is started again after it has ended."""

    def __init__(self, start: Callable[[], Daemon]) -> None:
        """Start the worker; ``start`` is called now and for each restart."""
        self._start = start
        self.daemon = start()
        self._restarts_in_a_row = 0
        self._looks = 0

    def mend(self) -> bool:
        """Restart the worker if it has ended; return True if it was restarted.

        A worker that ends soon after each start is restarted less often: the number of calls before
        the next restart doubles.
        """
        self._looks += 1
        if self.daemon.keeper.poll() is None:
            if self._looks > _LOOKS_MAX:
                self._restarts_in_a_row = 0
            return False
        if self._looks < min(2**self._restarts_in_a_row, _LOOKS_MAX):
            return False
        self._restarts_in_a_row += 1
        self._looks = 0
        self.daemon = self._start()
        return True


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the URLs of its master and its web console, and its processes."""

    master_url: str
    console_url: str
    master: Daemon
    workers: list[Worker]

    def check(self) -> None:
        """Raise ClusterFailed, with the end of the log, if a master or worker has ended."""
        _check([self.master, *(worker.daemon for worker in self.workers)])

    def mend(self) -> list[Daemon]:
        """Restart the workers that have ended, and return them; call it about every second.

        Returns [] if none was restarted. Raises ClusterFailed if the master has ended, because its
        list of applications is lost.
        """
        _check([self.master])
        return [worker.daemon for worker in self.workers if worker.mend()]


@contextmanager
def cluster(
    folder: str | Path,
    *,
    worker_count: int = 2,
    master_port: int = MASTER_PORT,
    worker_cores: int = 1,
    worker_memory: str = "2g",
) -> Iterator[Cluster]:
    """Start a cluster, yield it when every worker is registered, and end it afterwards.

    Each of ``worker_count`` workers offers ``worker_cores`` cores and ``worker_memory``, a size in
    Spark's notation. ``folder`` gets the logs, and a subfolder for each worker with the logs of its
    executors. ``master_port`` 0 means any free port. Executors run this Python and find this
    package. Raises JavaNotFound, and ClusterFailed when a port is taken, a process ends or the
    cluster is not ready in time.
    """
    folder = local_path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    port, console_port = _free_port(master_port), _free_port(0)
    environment = _environment()
    master_url, console_url = f"spark://{HOST}:{port}", f"http://{HOST}:{console_port}"
    master_command = ("master.Master", "--port", str(port), "--webui-port", str(console_port))
    worker_size = ("--cores", str(worker_cores), "--memory", worker_memory)
    with ExitStack() as stack:

        def start(work: Path, *command: str) -> Daemon:
            """Start a Spark process that ends with the ``with`` block; return it."""
            return stack.enter_context(_daemon(work, command, environment))

        master = start(folder / "master", *master_command)
        _wait_for(console_url, [master], 0)
        workers = []
        for number in range(1, worker_count + 1):
            work = folder / f"worker-{number}"
            place = ("--webui-port", "0", "--work-dir", str(work), master_url)
            workers.append(Worker(partial(start, work, "worker.Worker", *worker_size, *place)))
        daemons = [master, *(worker.daemon for worker in workers)]
        _wait_for(console_url, daemons, worker_count)
        yield Cluster(master_url, console_url, master, workers)


def _free_port(port: int) -> int:
    """Return ``port``, or a free port for 0; raises ClusterFailed if it is taken."""
    with socket.socket() as probe:
        # As Spark's own sockets: a port that was closed a moment ago counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ClusterFailed(
                f"port {port} of {HOST} cannot be had ({error.strerror}): choose another one, or 0"
            ) from error
        found: int = probe.getsockname()[1]
        return found


@contextmanager
def _daemon(work: Path, command: tuple[str, ...], environment: dict[str, str]) -> Iterator[Daemon]:
    """Return a context with a running master or worker, which is ended afterwards.

    A keeper process starts it, and ends it also if this process is killed. ``command`` is the Spark
    class and its arguments. The log is ``work`` with the suffix ``.log``.
    """
    kind, *arguments = command
    spark_class = f"{environment['SPARK_HOME']}/bin/spark-class"
    log = work.with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", keeper.__file__, spark_class),
                *(f"{_PACKAGE}.{kind}", "--host", HOST, *arguments),
            ],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, "SPARK_LOCAL_DIRS": str(work)},
            # An interrupt from the terminal goes to the caller alone, which ends the daemon then.
            start_new_session=True,
        )
    try:
        yield Daemon(work.name, process, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _environment() -> dict[str, str]:
    """Return the environment variables of master and workers.

    Raises JavaNotFound if no Java can run Spark.
    """
    root = str(Path(__file__).parents[3])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "JAVA_HOME": str(ensure_java().path),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON_JAVA_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
    }


def _wait_for(console_url: str, daemons: list[Daemon], worker_count: int) -> None:
    """Wait until the master answers and has ``worker_count`` workers.

    ``console_url`` is the master's web page, ``daemons`` are the processes. Raises ClusterFailed
    after START_LIMIT_SECONDS, or as soon as a process has ended.
    """
    for _ in range(round(START_LIMIT_SECONDS / _TICK_SECONDS)):
        if _workers_alive(console_url) == worker_count:
            return
        _check(daemons)
        with suppress(subprocess.TimeoutExpired):
            daemons[0].keeper.wait(_TICK_SECONDS)
    logs = ", ".join(str(daemon.log) for daemon in daemons)
    raise ClusterFailed(f"the cluster is not ready after {START_LIMIT_SECONDS} s; see {logs}")


def _check(daemons: list[Daemon]) -> None:
    """Raise ClusterFailed, with the end of the log, if one of the processes has ended."""
    for daemon in daemons:
        if daemon.keeper.poll() is not None:
            end = daemon.log.read_text(errors="replace")[-_SHOWN_LOG_CHARS:]
            raise ClusterFailed(f"{daemon.name} has ended; {daemon.log} ends with:\n{end}")


def _workers_alive(console_url: str) -> int | None:
    """Return the number of registered workers, None while the master does not answer.

    ``console_url`` is the master's web page.
    """
    # Nothing on this machine is behind a proxy, whatever the environment says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{console_url}/json/", timeout=START_LIMIT_SECONDS) as answer:
            state: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
        # The master listens before it can answer.
        return None
    return int(state["aliveworkers"])

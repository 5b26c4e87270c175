"""RabbitMQ with its AMQP 1.0 plugin, and Artemis, each started in a folder of its own.

RabbitMQ is Debian's. Artemis is looked for in the local Maven repository, where
``mvn dependency:get -Dartifact=org.apache.activemq:apache-artemis:2.31.2:tar.gz:bin`` puts it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peer_servers import NotHere

_RABBITMQ = Path("/usr/lib/rabbitmq")
_ARTEMIS = "repository/org/apache/activemq/apache-artemis/*/apache-artemis-*-bin.tar.gz"
_START_SECONDS, _POLL_SECONDS = 180.0, 0.2
HOST = "127.0.0.1"


class AmqpPeer(NamedTuple):
    """A running server: name and version, how a client comes in, and the process that serves."""

    name: str
    port: int
    user: str
    password: str
    address: str
    pid: int
    #: Where it keeps everything.
    folder: Path


@contextmanager
def started_amqp_peers() -> Iterator[tuple[list[AmqpPeer], list[str]]]:
    """Start what is installed; also return why something is missing."""
    peers, missing = [], []
    with ExitStack() as stack:
        for start in (start_rabbitmq, _artemis):
            try:
                peers.append(start(stack))
            except NotHere as why:
                missing.append(str(why))
        yield peers, missing


def start_rabbitmq(stack: ExitStack) -> AmqpPeer:
    """Start RabbitMQ, which speaks AMQP 0-9-1 on the same port; raises NotHere."""
    found = sorted(_RABBITMQ.glob("lib/rabbitmq_server-*"))
    if not found:
        raise NotHere("no rabbitmq-server found on this machine")
    version = found[-1].name.removeprefix("rabbitmq_server-")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    port, distribution, names = _free_port(), _free_port(), _free_port()
    (folder / "plugins").write_text("[rabbitmq_amqp1_0].\n", "utf-8")
    settings = f"listeners.tcp.1 = {HOST}:{port}\nlog.console = false\n"
    (folder / "rabbitmq.conf").write_text(settings, "utf-8")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    # The names of Erlang's nodes are kept by a process that outlives them.
    stack.callback(subprocess.run, ["epmd", "-port", str(names), "-kill"], capture_output=True)
    process = _run(stack, [str(_RABBITMQ / "bin" / "rabbitmq-server")], environment)
    _wait_for(f"RabbitMQ {version}", process, port)
    pid = int((folder / "pid").read_text("utf-8"))
    return AmqpPeer(f"RabbitMQ {version}", port, "guest", "guest", "/queue/bench", pid, folder)


def _artemis(stack: ExitStack) -> AmqpPeer:
    archives = sorted((Path.home() / ".m2").glob(_ARTEMIS))
    if not archives:
        raise NotHere("no Artemis found in the local Maven repository")
    if shutil.which("java") is None:
        raise NotHere("Artemis needs a Java, and there is none")
    version = archives[-1].parent.name
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(folder, filter="data")
    (program,) = folder.glob("apache-artemis-*/bin/artemis")
    port, instance = _free_port(), folder / "instance"
    options = ["--user", "bench", "--password", "bench", "--require-login", "--silent", "--no-web"]
    options += ["--host", HOST, "--default-port", str(port), "--no-amqp-acceptor"]
    options += ["--no-hornetq-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor"]
    made = subprocess.run(
        [str(program), "create", *options, str(instance)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise NotHere(f"Artemis: create failed: {' '.join((made.stdout + made.stderr).split())}")
    process = _run(stack, [str(instance / "bin" / "artemis"), "run"], os.environ)
    _wait_for(f"Artemis {version}", process, port)
    # The script becomes the Java.
    return AmqpPeer(f"Artemis {version}", port, "bench", "bench", "bench", process.pid, folder)


def _free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind((HOST, 0))
        port: int = any_port.getsockname()[1]
        return port


def _run(
    stack: ExitStack, command: list[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def stop() -> None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    stack.callback(stop)
    return process


def _wait_for(name: str, process: subprocess.Popen[bytes], port: int) -> None:
    deadline_seconds = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline_seconds:
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            # A server of another make tells nobody that it is up.
            time.sleep(_POLL_SECONDS)
        else:
            return
    raise NotHere(f"{name} did not start")

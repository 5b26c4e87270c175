"""RabbitMQ with its AMQP 1.0 plugin, and Artemis, each started in a folder of its own.

RabbitMQ is Debian's. Artemis is looked for in the local Maven repository, where
``mvn dependency:get -Dartifact=org.apache.activemq:apache-artemis:2.31.2:tar.gz:bin`` puts it.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.peer_process import (
    HOST,
    NotHere,
    free_port,
    own_folder,
    program,
    started,
    wait_for_port,
)

_RABBITMQ: Final = Path("/usr/lib/rabbitmq")
_ARTEMIS: Final = "repository/org/apache/activemq/apache-artemis/*/apache-artemis-*-bin.tar.gz"


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
def started_amqp_peers(*, has_peers: bool) -> Iterator[tuple[list[AmqpPeer], list[str]]]:
    """Start what is installed; also return why something is missing."""
    peers, missing = list[AmqpPeer](), list[str]()
    with ExitStack() as stack:
        for start in (start_rabbitmq, start_artemis) if has_peers else ():
            try:
                peers.append(start(stack))
            except NotHere as why:
                missing.append(str(why))
        yield peers, missing


def rabbitmq_version() -> str:
    """Return the version of RabbitMQ; raises NotHere."""
    found = sorted(_RABBITMQ.glob("lib/rabbitmq_server-*"))
    if not found:
        raise NotHere("no rabbitmq-server found on this machine")
    return found[-1].name.removeprefix("rabbitmq_server-")


def artemis_version() -> str:
    """Return the version of Artemis; raises NotHere."""
    program("java")
    return _artemis_archive().parent.name


def start_rabbitmq(stack: ExitStack) -> AmqpPeer:
    """Start RabbitMQ, which speaks AMQP 0-9-1 on the same port; raises NotHere."""
    version, folder = rabbitmq_version(), own_folder(stack)
    port, distribution, names = free_port(), free_port(), free_port()
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
    command = [str(_RABBITMQ / "bin" / "rabbitmq-server")]
    process = started(stack, command, environment=environment)
    wait_for_port(f"RabbitMQ {version}", process, port)
    pid = int((folder / "pid").read_text("utf-8"))
    return AmqpPeer(f"RabbitMQ {version}", port, "guest", "guest", "/queue/bench", pid, folder)


def start_artemis(stack: ExitStack) -> AmqpPeer:
    """Start Artemis; raises NotHere."""
    version, folder = artemis_version(), own_folder(stack)
    with tarfile.open(_artemis_archive()) as archive:
        archive.extractall(folder, filter="data")
    (script,) = folder.glob("apache-artemis-*/bin/artemis")
    port, instance = free_port(), folder / "instance"
    options = ["--user", "bench", "--password", "bench", "--require-login", "--silent", "--no-web"]
    options += ["--host", HOST, "--default-port", str(port), "--no-amqp-acceptor"]
    options += ["--no-hornetq-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor"]
    made = subprocess.run(
        [str(script), "create", *options, str(instance)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise NotHere(f"Artemis: create failed: {' '.join((made.stdout + made.stderr).split())}")
    process = started(stack, [str(instance / "bin" / "artemis"), "run"])
    wait_for_port(f"Artemis {version}", process, port)
    # The script becomes the Java.
    return AmqpPeer(f"Artemis {version}", port, "bench", "bench", "bench", process.pid, folder)


def _artemis_archive() -> Path:
    archives = sorted((Path.home() / ".m2").glob(_ARTEMIS))
    if not archives:
        raise NotHere("no Artemis found in the local Maven repository")
    return archives[-1]

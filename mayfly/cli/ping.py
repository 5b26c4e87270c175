"""``mayfly ping``: whether a server of this machine lives, and is ready for programs."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from mayfly.cli.managers import FolderOption, Name, folder_of, operating
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.served import IMPAIRED, SERVED_FILE, Served, is_served, read_served
from mayfly.cli.show import JsonOption, print_json
from mayfly.client.connection import Administration
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.status import ServingState
from mayfly.store.replica.standing import STANDBY
from mayfly.verbs.contracts.access import FolderSocket
from mayfly.verbs.contracts.wire import OURS, PREAMBLE

#: A server that lives answers the first bytes at once; a busy machine may need a while.
ANSWER_SECONDS = 5.0
LiveOption = Annotated[
    bool, typer.Option("--live", help="End with 0 if it lives, though it is not ready.")
]


class ProbeResult(NamedTuple):
    """The result of a probe: the state, and the number of connections (0 if it is not known)."""

    state: ServingState
    connection_count: int = 0

    @property
    def is_live(self) -> bool:
        """Whether the process works, so that a restart would not help."""
        return self.state.is_live

    @property
    def is_ready(self) -> bool:
        """Whether programs can connect and put."""
        return self.state is ServingState.READY


def ping(
    name: Name,
    *,
    live: LiveOption = False,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether the server of a queue manager on this machine lives, and is ready.

    Exit code 0 when it is ready, else 1.

    \b
    Example:
      mayfly ping QM1 --json
    """
    health = health_of(name, folder_of(name, path))
    if as_json:
        print_json(
            {
                "queue_manager": name,
                "live": health.is_live,
                "ready": health.is_ready,
                "state": health.state,
                "connections": health.connection_count,
            }
        )
    else:
        print(f"{name}: {health.state}")
    is_good = health.is_live if live else health.is_ready
    raise typer.Exit(ExitCode.DONE if is_good else ExitCode.NOTHING)


def health_of(name: str, folder: Path) -> ProbeResult:
    """Return the state of the server that has a folder open; takes a few seconds at most.

    STOPPED if no server has it open. Raises nothing for a server that does not answer.
    """
    if not is_served(folder):
        return ProbeResult(ServingState.STOPPED)
    served = _served_or_none(folder)
    if served is None or not served.is_ready:
        return ProbeResult(ServingState.STARTING)
    if served.role == STANDBY:
        return ProbeResult(ServingState.STANDBY)
    try:
        if not _answers(folder):
            return ProbeResult(ServingState.SILENT)
    except OSError:
        # The socket is there from the start to the drain.
        return ProbeResult(ServingState.DRAINING)
    try:
        with operating(name, folder, waits=False) as connection:
            [status] = Administration(connection.call).mqsc("DISPLAY QMSTATUS CONNS DISK").rows
    except (CommandFailed, ValueError):
        return ProbeResult(ServingState.DRAINING if is_served(folder) else ServingState.STOPPED)
    except MQError as error:
        is_ending = error.reason in (rc.MQRC_Q_MGR_QUIESCING, rc.MQRC_Q_MGR_STOPPING)
        return ProbeResult(ServingState.DRAINING if is_ending else ServingState.FAILED)
    state = ServingState.READY if status["DISK"] == "OK" else ServingState.DISK_FULL
    if state is ServingState.READY and served.is_ready == IMPAIRED:
        state = ServingState.IMPAIRED
    return ProbeResult(state, int(status["CONNS"]))


def _served_or_none(folder: Path) -> Served | None:
    """Return the content of ``served.json``, None if it is missing, empty or damaged."""
    try:
        return read_served(folder / SERVED_FILE)
    except CommandFailed:
        return None


def _answers(folder: Path) -> bool:
    """Return True if the server answers the first bytes of a connection within 5 seconds.

    Raises OSError if it accepts no connection.
    """
    folder_socket = FolderSocket(folder)
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(ANSWER_SECONDS)
            probe.connect(str(folder_socket.path))
            probe.sendall(OURS.packed())
            try:
                return len(probe.recv(PREAMBLE.size)) == PREAMBLE.size
            except TimeoutError:
                return False
    finally:
        folder_socket.close()

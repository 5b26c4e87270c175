"""The additions of ``mayfly serve --dev``: definitions, users and a certificate."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from mayfly.admin.security.developer import (
    DEFINITIONS,
    Credentials,
    developer_users,
    self_signed_certificate,
)
from mayfly.admin.security.users import users_of
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.queue_manager import QueueManager
from mayfly.runtime import SystemClock
from mayfly.servers.settings import Listen, TlsFiles


def developed(managers: Sequence[QueueManager], folders: Mapping[str, Path]) -> Credentials:
    """Define what a developer begins with; return the credentials of the first queue manager."""
    found: list[Credentials] = []
    for manager in managers:
        with wrong_values():
            found.append(
                developer_users(users_of(manager.engine), folders[manager.name], os.environ)
            )
        run_script(manager, DEFINITIONS, "--dev")
    return found[0]


def own_certificate(folder: Path, listen: Listen) -> TlsFiles:
    """Return a certificate, and its key, for the names and addresses of this machine."""
    hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    hosts += [address.host for address in listen if address is not None]
    now_ms = SystemClock().now_ms()
    return TlsFiles(*self_signed_certificate(folder, list(dict.fromkeys(hosts)), now_ms))


def run_script(manager: QueueManager, text: str, said_by: str) -> None:
    """Run MQSC; CommandFailed names the first command that was not carried out."""
    result = manager.mqsc(text)
    wrong = next((command for command in result.commands if not command.ok), None)
    if wrong is not None:
        said = "; ".join(map(str, wrong.messages))
        raise CommandFailed(ExitCode.MQ, f"{said_by}: {wrong.command}: {said}")

"""The programs of peers: found, started in folders of their own, waited for, and stopped again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

HOST: Final = "127.0.0.1"
_START_SECONDS, _POLL_SECONDS = 180.0, 0.05
#: Where programs are that are not in PATH: Debian's of PostgreSQL, and what ``go install`` makes.
_HOMES: Final = ("/usr/lib/postgresql/*/bin", f"{Path.home()}/go/bin")


class NotHere(Exception):
    """A peer cannot be measured; the text says why, in one line."""


def client_library(name: str) -> ModuleType:
    """Import the client of a peer; raises NotHere."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise NotHere(f"Python package {name} not installed: pip install -e '.[bench]'") from None


def program(name: str) -> str:
    """Return the path of a program; one of the last folder named wins. Raises NotHere."""
    homes = [str(path) for home in _HOMES for path in sorted(Path("/").glob(home.lstrip("/")))]
    places = [*reversed(homes), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise NotHere(f"no {name} found on this machine")
    return found


def own_folder(stack: ExitStack) -> Path:
    """Return a new folder, removed with the stack."""
    # A server that was killed may write on for a moment.
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    return Path(stack.enter_context(folder))


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.socket() as any_port:
        any_port.bind((HOST, 0))
        port: int = any_port.getsockname()[1]
        return port


def started(
    stack: ExitStack,
    command: list[str],
    end: signal.Signals = signal.SIGTERM,
    environment: Mapping[str, str] = os.environ,
    account: Mapping[str, Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that ends with the stack, by the signal named, and all that it started."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **(account or {}),
    )

    def stop() -> None:
        if process.poll() is None:
            os.killpg(process.pid, end)
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    stack.callback(stop)
    return process


def wait_for(
    name: str, process: subprocess.Popen[bytes], connect: Callable[[], Any], refused: Any
) -> Any:
    """Return what ``connect`` returns as soon as it is not refused; raises NotHere."""
    deadline_seconds = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline_seconds:
        try:
            return connect()
        except refused:
            # A server of another make tells nobody that it is up.
            time.sleep(_POLL_SECONDS)
    raise NotHere(f"{name} did not start")


def wait_for_port(name: str, process: subprocess.Popen[bytes], port: int) -> None:
    """Return when a port of the loopback is open; raises NotHere."""
    wait_for(name, process, lambda: socket.create_connection((HOST, port), 1), OSError).close()


def told_by(command: list[str]) -> str:
    """Return the first line that a program prints, as for its version."""
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return (told.stdout or told.stderr).strip().partition("\n")[0]

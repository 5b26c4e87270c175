"""PostgreSQL and Redis, each started in a folder of its own and stopped again.

They listen on sockets in their folders, and sync what they have acknowledged.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

_START_SECONDS = 30
#: PostgreSQL refuses to run as root; the first of these accounts that exists runs it then.
_ACCOUNTS = ("postgres", "nobody")
_SETTINGS = (
    "fsync=on",
    "synchronous_commit=on",
    "listen_addresses=",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
)


class NotHere(Exception):
    """A peer cannot be measured; the text says why."""


def postgres_folder(stack: ExitStack) -> str:
    """Start PostgreSQL; return the folder of its socket. Raises NotHere."""
    initdb, server = _program("initdb"), _program("postgres")
    psycopg = client_library("psycopg")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    data, account = folder / "data", _account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    made = subprocess.run(
        [initdb, "-D", data, "-A", "trust", "-U", "bench", "--no-locale", "-E", "UTF8"],
        **_as_user(account),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise NotHere(f"PostgreSQL: initdb failed: {' '.join(made.stderr.split()) or 'no reason'}")
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = [server, "-D", str(data), "-k", str(folder), *settings]
    process = _run(stack, command, _as_user(account), signal.SIGINT)
    connect = connect_postgres(str(folder))
    _wait_for("PostgreSQL", process, connect, psycopg.OperationalError).close()
    return str(folder)


def connect_postgres(folder: str) -> Callable[[], Any]:
    """Return what connects to PostgreSQL, a transaction a statement."""
    psycopg = client_library("psycopg")
    return lambda: psycopg.connect(host=folder, user="bench", dbname="postgres", autocommit=True)


def redis_socket(stack: ExitStack) -> str:
    """Start Redis, which syncs each change; return its socket. Raises NotHere."""
    server = _program("redis-server")
    redis = client_library("redis")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    path = str(folder / "socket")
    options = {"port": "0", "unixsocket": path, "dir": str(folder), "save": ""}
    options |= {"appendonly": "yes", "appendfsync": "always"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = _run(stack, [server, *words], {}, signal.SIGTERM)

    def ready() -> Any:
        connection = redis.Redis(unix_socket_path=path)
        connection.ping()
        return connection

    _wait_for("Redis", process, ready, redis.exceptions.ConnectionError).close()
    return path


def client_library(name: str) -> ModuleType:
    """Import the client of a peer; raises NotHere."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise NotHere(f"Python package {name} not installed: pip install -e '.[bench]'") from None


def _program(name: str) -> str:
    # Debian keeps PostgreSQL's server programs out of PATH.
    homes = sorted(str(path) for path in Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *homes]))
    if found is None:
        raise NotHere(f"no {name} found on this machine")
    return found


def _account() -> pwd.struct_passwd | None:
    """Return the account to run PostgreSQL under, None for our own."""
    if os.getuid():
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in _ACCOUNTS:
        if name in known:
            return known[name]
    raise NotHere("PostgreSQL does not run as root, and there is no account to run it under")


def _as_user(account: pwd.struct_passwd | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _run(
    stack: ExitStack, command: list[str], how: dict[str, Any], end: signal.Signals
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, **how, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop() -> None:
        process.send_signal(end)
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(stop)
    return process


def _wait_for(
    name: str, process: subprocess.Popen[bytes], connect: Callable[[], Any], refused: Any
) -> Any:
    deadline_seconds = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline_seconds:
        try:
            return connect()
        except refused:
            # A server of another make tells nobody that it is up.
            time.sleep(0.05)
    raise NotHere(f"{name} did not start")

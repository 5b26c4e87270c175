"""PostgreSQL, Redis and NATS, each started in a folder of its own and stopped again.

Each of them syncs what it has acknowledged.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.peer_process import (
    HOST,
    NotHere,
    client_library,
    free_port,
    own_folder,
    program,
    started,
    told_by,
    wait_for,
    wait_for_port,
)

#: PostgreSQL refuses to run as root; the first of these accounts that exists runs it then.
_ACCOUNTS: Final = ("postgres", "nobody")
_SETTINGS: Final = (
    "fsync=on",
    "synchronous_commit=on",
    "listen_addresses=",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
)
#: The first version of NATS that can sync each message.
_NATS_SINCE: Final = (2, 10)


def postgres_version() -> str:
    """Return the version of PostgreSQL; raises NotHere."""
    client_library("psycopg")
    program("initdb")
    return _version([program("postgres"), "--version"])


def redis_version() -> str:
    """Return the version of Redis; raises NotHere."""
    client_library("redis")
    return _version([program("redis-server"), "--version"])


def nats_version() -> str:
    """Return the version of NATS; raises NotHere, for one as well that does not sync in time."""
    client_library("nats")
    version = _version([program("nats-server"), "--version"])
    if tuple(map(int, version.split(".")[:2])) < _NATS_SINCE:
        since = ".".join(map(str, _NATS_SINCE))
        raise NotHere(f"nats-server {version} cannot sync each message, which {since} can")
    return version


def postgres_folder(stack: ExitStack) -> str:
    """Start PostgreSQL; return the folder of its socket. Raises NotHere."""
    postgres_version()
    psycopg, folder = client_library("psycopg"), own_folder(stack)
    data, account = folder / "data", _account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    made = subprocess.run(
        [program("initdb"), "-D", data, "-A", "trust", "-U", "bench", "--no-locale", "-E", "UTF8"],
        **_as_user(account),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise NotHere(f"PostgreSQL: initdb failed: {' '.join(made.stderr.split()) or 'no reason'}")
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = [program("postgres"), "-D", str(data), "-k", str(folder), *settings]
    process = started(stack, command, signal.SIGINT, account=_as_user(account))
    connect = connect_postgres(str(folder))
    wait_for("PostgreSQL", process, connect, psycopg.OperationalError).close()
    return str(folder)


def connect_postgres(folder: str) -> Callable[[], Any]:
    """Return what connects to PostgreSQL, a transaction a statement."""
    psycopg = client_library("psycopg")
    return lambda: psycopg.connect(host=folder, user="bench", dbname="postgres", autocommit=True)


def redis_socket(stack: ExitStack) -> str:
    """Start Redis, which syncs each change; return its socket. Raises NotHere."""
    redis_version()
    redis, folder = client_library("redis"), own_folder(stack)
    path = str(folder / "socket")
    options = {"port": "0", "unixsocket": path, "dir": str(folder), "save": ""}
    options |= {"appendonly": "yes", "appendfsync": "always"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = started(stack, [program("redis-server"), *words])

    def ready() -> Any:
        connection = redis.Redis(unix_socket_path=path)
        connection.ping()
        return connection

    wait_for("Redis", process, ready, redis.exceptions.ConnectionError).close()
    return path


class NatsServer(NamedTuple):
    """A running NATS: its port, its process, and where it keeps everything."""

    port: str
    pid: int
    folder: Path


def start_nats(stack: ExitStack) -> NatsServer:
    """Start NATS with JetStream, which syncs each message; raises NotHere."""
    version = nats_version()
    folder, port = own_folder(stack), free_port()
    settings = f'listen: "{HOST}:{port}"\n'
    settings += f'jetstream {{ store_dir: "{folder}", sync_interval: always }}\n'
    (folder / "nats.conf").write_text(settings, "utf-8")
    process = started(stack, [program("nats-server"), "-c", str(folder / "nats.conf")])
    wait_for_port(f"NATS {version}", process, port)
    return NatsServer(str(port), process.pid, folder)


def _version(command: list[str]) -> str:
    told = told_by(command)
    found = re.search(r"\d+(?:\.\d+)+", told)
    if found is None:
        raise NotHere(f"{command[0]} tells no version, but {told!r}")
    return found[0]


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

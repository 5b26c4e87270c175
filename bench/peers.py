"""PostgreSQL and Redis as delay queues, each started in a folder of its own and stopped again.

They are used as their own guides advise: a table with an index on the time it becomes visible and
a consumer with SKIP LOCKED; a sorted set of due times with the bodies in a hash, popped by a
script. Both sync at each commit. Consumers poll every ms.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bench.clients import Client, Taken, body_of, read_body
from mayfly.lifetime.times import Clock

POLL_SECONDS = 0.001
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
_TABLE = """
CREATE TABLE message (number bigint PRIMARY KEY, visible_at bigint NOT NULL, body bytea NOT NULL);
CREATE INDEX message_by_time ON message (visible_at, number)
"""
_PUT = "INSERT INTO message SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[])"
_TAKE = """
DELETE FROM message WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM message WHERE visible_at <= %b
    ORDER BY visible_at, number LIMIT %b FOR UPDATE SKIP LOCKED)) RETURNING body
"""
_POP = """
local due = redis.call('ZRANGEBYSCORE', 'due', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due == 0 then return {} end
local bodies = redis.call('HMGET', 'body', unpack(due))
redis.call('ZREM', 'due', unpack(due))
redis.call('HDEL', 'body', unpack(due))
return bodies
"""


class NotHere(Exception):
    """A peer cannot be measured; the text says why."""


class Peer(NamedTuple):
    """A running server: its name, and how to connect to it and to empty it."""

    name: str
    connect: Callable[[], Client]
    clear: Callable[[], object]


@contextmanager
def started_peers(clock: Clock) -> Iterator[tuple[list[Peer], list[str]]]:
    """Start what is installed; also return why something is missing."""
    peers, missing = [], []
    with ExitStack() as stack:
        for start in (_postgres, _redis):
            try:
                peers.append(start(stack, clock))
            except NotHere as why:
                missing.append(str(why))
        yield peers, missing


class _PostgresClient:
    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        numbers, due_ms = zip(*rows, strict=True)
        bodies = [body_of(number, due) for number, due in rows]
        self._connection.execute(_PUT, (list(numbers), list(due_ms), bodies))

    def take(self, limit: int) -> list[Taken]:
        found = self._connection.execute(_TAKE, (self._clock.now_ms(), limit), binary=True)
        return _taken((body for (body,) in found.fetchall()), self._clock)

    def close(self) -> None:
        self._connection.close()


class _RedisClient:
    def __init__(self, server: Any, clock: Clock) -> None:
        self._server = server
        self._pop = server.register_script(_POP)
        self._clock = clock

    def put(self, rows: Sequence[tuple[int, int]]) -> None:
        # Members of one due time are ordered as text: the number is filled up with zeros.
        names = [f"{number:012d}" for number, _ in rows]
        due_ms = {name: due for name, (_, due) in zip(names, rows, strict=True)}
        bodies = {name: body_of(*row) for name, row in zip(names, rows, strict=True)}
        with self._server.pipeline(transaction=True) as pipe:
            pipe.zadd("due", due_ms)
            pipe.hset("body", mapping=bodies)
            pipe.execute()

    def take(self, limit: int) -> list[Taken]:
        return _taken(self._pop(args=(self._clock.now_ms(), limit)), self._clock)

    def close(self) -> None:
        self._server.close()


def _taken(bodies: Iterator[bytes], clock: Clock) -> list[Taken]:
    arrival_ms = clock.now_ms()
    return [Taken(*read_body(body), arrival_ms) for body in bodies]


def _postgres(stack: ExitStack, clock: Clock) -> Peer:
    initdb, server = _program("initdb"), _program("postgres")
    psycopg = _client_library("psycopg")
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

    def connect() -> Any:
        return psycopg.connect(host=str(folder), user="bench", dbname="postgres", autocommit=True)

    control = _wait_for("PostgreSQL", process, connect, psycopg.OperationalError)
    stack.callback(control.close)
    control.execute(_TABLE)
    return Peer(
        "PostgreSQL",
        lambda: _PostgresClient(connect(), clock),
        lambda: control.execute("TRUNCATE message"),
    )


def _redis(stack: ExitStack, clock: Clock) -> Peer:
    server = _program("redis-server")
    redis = _client_library("redis")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    socket = str(folder / "socket")
    options = {"port": "0", "unixsocket": socket, "dir": str(folder), "save": ""}
    options |= {"appendonly": "yes", "appendfsync": "always"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = _run(stack, [server, *words], {}, signal.SIGTERM)

    def connect() -> Any:
        return redis.Redis(unix_socket_path=socket)

    def ready() -> Any:
        connection = connect()
        connection.ping()
        return connection

    control = _wait_for("Redis", process, ready, redis.exceptions.ConnectionError)
    stack.callback(control.close)
    return Peer("Redis", lambda: _RedisClient(connect(), clock), control.flushall)


def _program(name: str) -> str:
    # Debian keeps PostgreSQL's server programs out of PATH.
    homes = sorted(str(path) for path in Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *homes]))
    if found is None:
        raise NotHere(f"no {name} found on this machine")
    return found


def _client_library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise NotHere(f"Python package {name} not installed: pip install -e '.[bench]'") from None


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
    stack: ExitStack, command: list[str], user: dict[str, Any], end: signal.Signals
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, **user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

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

"""The servers that the clients are tried against: one in virtual time, one by the wall clock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.control import controlled
from mayfly.cli.managers import operating
from mayfly.client.connection import Administration

#: A file system in memory, where a sync costs nothing, and how much room it must have.
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 2**30
_SERVE = (
    "-m",
    "mayfly",
    "serve",
    "--dev",
    "--json",
    "--mq",
    "127.0.0.1:0",
    "--amqp",
    "127.0.0.1:0",
)
_VIRTUAL = ("--virtual-clock", "--expiry-interval", "0")
#: The answer to a wrong password comes at once.
_AT_ONCE = (
    "ALTER AUTHINFO('DEV.AUTHINFO') AUTHTYPE(IDPWOS) FAILDLAY(0)",
    "REFRESH SECURITY TYPE(CONNAUTH)",
)


class NotStarted(Exception):
    """A server has not started; the text is what it has said."""


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Serve for a block; gives the environment of the clients.

    ``AMQP_URL`` is the server in virtual time, which ``MAYFLY_CONTROL`` moves on; ``AMQP_WALL_URL``
    is the other one, whose operator is at ``MAYFLY_WALL_CONTROL``. Raises NotStarted.
    """
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_place())))
        environment = {**os.environ, "MAYFLY_HOME": str(home)}
        virtual = stack.enter_context(_started("VIRTUAL", _VIRTUAL, environment))
        wall = stack.enter_context(_started("WALL", (), environment))
        here, by_wall = _ready(virtual), _ready(wall)
        for name in ("VIRTUAL", "WALL"):
            with operating(name, home / name) as operator:
                assert Administration(operator.call).mqsc("\n".join(_AT_ONCE)).ok
        controls = {
            name: stack.enter_context(controlled(name, home / name)) for name in ("VIRTUAL", "WALL")
        }
        yield environment | {
            "AMQP_URL": f"amqp://{here['amqp']}",
            "AMQP_USER": here["user"],
            "AMQP_PASSWORD": here["password"],
            "AMQP_WALL_URL": f"amqp://{by_wall['amqp']}",
            "AMQP_WALL_PASSWORD": by_wall["password"],
            "MAYFLY_CONTROL": controls["VIRTUAL"],
            "MAYFLY_WALL_CONTROL": controls["WALL"],
        }


def _place() -> Path | None:
    """Return the folder in memory where there is room in it, else None."""
    has_capacity = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
    return _MEMORY if has_capacity else None


@contextmanager
def _started(
    name: str, options: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [sys.executable, *_SERVE, *options, name],
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        try:
            yield server
        finally:
            server.terminate()
            server.wait(60)
            log.seek(0)
            if server.returncode:
                print(f"interop: {name} has ended with {server.returncode}\n{log.read()}")


def _ready(server: subprocess.Popen[str]) -> dict[str, str]:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise NotStarted
    ready: dict[str, str] = json.loads(line)
    return ready

"""C programs over the library, compiled here, and the queue manager that they connect to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.pymqi.libmqm.library import (
    SOURCE,
    CannotBuild,
    compiler,
    install,
    python_library,
    variables,
)
from mayfly.servers.wire import WireServer
from tests.connection.serving import HOST, AdmitEverybody

PROGRAMS = Path(__file__).with_name("programs")
#: A program that runs longer hangs.
PROGRAM_SECONDS = 120


class Programs:
    """Compiles programs against an installed library, and runs them with its environment."""

    def __init__(self, folder: Path) -> None:
        self.installed = install(folder / "installed")
        self._folder = folder
        self.environment = {**os.environ, **variables(self.installed)}

    def compiled(self, name: str, *flags: str) -> Path:
        """Return the path of the program that is made of the source file of a name."""
        program = self._folder / name
        if not program.exists():
            words = [compiler(), "-Wall", "-Wextra", "-Werror", "-g", *flags]
            words += [str(PROGRAMS / f"{name}.c"), "-o", str(program), "-lmqm_r", "-lpthread"]
            done = subprocess.run(
                words, env=self.environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        return program

    def sanitized(self, name: str, folder: Path) -> Path:
        """Return the path of a program that is one with the library, under the sanitizers."""
        program = folder / name
        words = [compiler(), "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
        words += [str(PROGRAMS / f"{name}.c"), str(SOURCE), "-o", str(program), "-lpthread", "-ldl"]
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no sanitizers: {done.stderr.strip()[-200:]}")
        return program

    def started(
        self, port: int, *words: str | Path, stdin: int | None = None
    ) -> subprocess.Popen[str]:
        """Start a program that connects to a port."""
        return subprocess.Popen(
            [str(word) for word in words],
            env={
                **self.environment,
                "MQSERVER": f"APP.SVRCONN/TCP/{HOST}({port})",
                # Python frees little when a process ends.
                "ASAN_OPTIONS": "detect_leaks=0",
            },
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, served: Served, name: str, *arguments: str) -> None:
        """Run a program that ends well and says so."""
        started = self.started(served.port, self.compiled(name), *arguments)
        output, errors = started.communicate(timeout=PROGRAM_SECONDS)
        assert (started.returncode, output) == (0, "ok\n"), errors


class Served:
    """``QM1`` with its queues, on a port."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager
        assert manager.mqsc(
            "DEFINE QLOCAL(Q1) MAXDEPTH(77) DESCR('of a test')\n"
            "DEFINE QLOCAL(Q2)\n"
            "DEFINE QLOCAL(FULL) MAXDEPTH(1)\n"
            "DEFINE TOPIC(NEWS) TOPICSTR('news')\n"
            "DEFINE CHANNEL(APP.SVRCONN) CHLTYPE(SVRCONN)\n"
        ).ok
        self.server = WireServer([manager], AdmitEverybody())
        self.port = self.server.listen_tcp(HOST, 0)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The library, compiled; without a compiler or a libpython the test is skipped."""
    if python_library() is None:
        pytest.skip("this Python has no shared library that a C program can start")
    try:
        return Programs(tmp_path_factory.mktemp("libmqm"))
    except CannotBuild as reason:
        pytest.skip(str(reason))


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """A queue manager of this process, in virtual time, on a port."""
    it = Served(queue_manager)
    yield it
    it.server.close()

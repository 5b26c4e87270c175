"""How C programs connect: MQCD, TLS, a channel table; and again, when their server was killed."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly.mqi import reasons as rc
from tests.connection.serving import HOST
from tests.libmqm.conftest import PROGRAM_SECONDS, Programs, Served
from tests.readme import ROOT
from tests.servers.certificates import certificate

pytestmark = [pytest.mark.in_process, pytest.mark.slow]
CIPHER = "ANY_TLS12_OR_HIGHER"


@pytest.fixture
def connects(programs: Programs, served: Served) -> Iterator[Connects]:
    it = Connects(programs, served)
    yield it
    session = served.manager.session()
    bodies = [message.body for message in session.browse("Q1")]
    assert bodies == [b"hello"] * it.success_count


class Connects:
    """Runs the program that connects as it is told, and puts a message."""

    def __init__(self, programs: Programs, served: Served) -> None:
        self._programs, self.served = programs, served
        self.success_count = 0

    def __call__(
        self,
        reason: int = rc.MQRC_NONE,
        *,
        channel: str = "-",
        port: int = 0,
        cipher: str = "-",
        repository: Path | None = None,
        url: str = "-",
        **variables: str,
    ) -> None:
        """Run the program; without a channel it looks into ``variables`` of its environment."""
        host, keys = f"{HOST}({port or self.served.port})", str(repository or "-")
        program = self._programs.compiled("connects")
        done = subprocess.run(
            [program, str(reason), channel, host, cipher, keys, url],
            env=self._programs.environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_SECONDS,
        )
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
        self.success_count += reason == rc.MQRC_NONE


def test_a_channel_of_the_program_or_of_a_table_leads_to_the_queue_manager(
    connects: Connects, tmp_path: Path
) -> None:
    connects(channel="APP.SVRCONN")
    connects(rc.MQRC_UNKNOWN_CHANNEL_NAME, channel="NONE")
    connects(rc.MQRC_HOST_NOT_AVAILABLE, channel="APP.SVRCONN", port=1)
    table = tmp_path / "ccdt.json"
    connection = {"host": HOST, "port": connects.served.port}
    row = {
        "name": "APP.SVRCONN",
        "type": "clientConnection",
        "clientConnection": {"connection": [connection], "queueManager": "QM1"},
    }
    table.write_text(json.dumps({"channel": [row]}))
    connects(url=table.as_uri())
    connects(MQCCDTURL=table.as_uri())
    connects(MQCHLLIB=str(tmp_path), MQCHLTAB=table.name)
    connects(rc.MQRC_CCDT_URL_ERROR, url=(tmp_path / "none.json").as_uri())


def test_over_TLS_the_program_says_whom_it_trusts(connects: Connects, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    port = connects.served.server.listen_tcp(HOST, 0, context)
    # A repository is named without its ending.
    trusting, other = tmp_path / "cert", tmp_path / "none"
    connects(channel="APP.SVRCONN", port=port, cipher=CIPHER, repository=trusting)
    connects(channel="APP.SVRCONN", port=port, cipher=CIPHER, MQSSLKEYR=str(trusting))
    untrusting = rc.MQRC_SSL_INITIALIZATION_ERROR
    connects(untrusting, channel="APP.SVRCONN", port=port, cipher=CIPHER)
    connects(untrusting, channel="APP.SVRCONN", port=port)
    missing = rc.MQRC_KEY_REPOSITORY_ERROR
    connects(missing, channel="APP.SVRCONN", port=port, cipher=CIPHER, repository=other)


@contextmanager
def served_by_a_process(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve the queue manager of a folder in a process, which is killed at the end; on a port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.libmqm.server", str(folder), str(port)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def test_a_program_goes_on_when_its_killed_server_is_back(
    programs: Programs, tmp_path: Path
) -> None:
    with served_by_a_process(tmp_path / "QM1") as (server, port):
        program = programs.started(port, programs.compiled("reconnects"), stdin=subprocess.PIPE)
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        server.kill()
        server.wait()
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "reconnecting\n"
    with served_by_a_process(tmp_path / "QM1", port):
        output, errors = program.communicate(timeout=PROGRAM_SECONDS)
    assert (program.returncode, output) == (0, "ok\n"), errors

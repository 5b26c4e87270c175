"""``served.json``: what a command believes of it, and whom it waits for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mayfly import QueueManager, connect
from mayfly.cli import served
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.ping import ProbeResult, health_of
from mayfly.cli.served import SERVED_FILE, Served, ServedFile
from mayfly.client.connection.by_name import connect_to_server_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import FolderInUse, MQError, StoreError
from mayfly.servers.status import ServingState
from mayfly.store.folder_lock import holder_of
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE
from tests.cli.conftest import COMMAND, Invoke, environment
from tests.cli.folders import listening, listening_server
from tests.facts import wait_until

TOKEN = "secret"
PATIENCE_SECONDS = 60
STALE = json.dumps(
    {"url": "grpc://127.0.0.1:PORT", "token_file": "TOKEN_FILE", "is_ready": 1}
).encode()
#: A pyarrow whose import takes until the test says so.
SLOW_PYARROW = """
print("imported", flush=True)
input()
raise ImportError("it is enough")
"""
DAMAGED = [
    (b"\xff", "'utf-8' codec can't decode"),
    (b"{", "Expecting property name"),
    (b"[]", "it is no JSON object"),
    (b"{}", "is_ready cannot be None"),
    (b'{"is_ready": "no", "token_file": null}', "is_ready cannot be 'no'"),
    (b'{"is_ready": 1, "token_file": []}', "token_file cannot be []"),
    (b"[" * 100_000, "maximum recursion depth exceeded"),
]


@pytest.fixture
def folder(home: Path) -> Path:
    """The folder of QM1, with a queue Q1 and a token."""
    folder = home / "QM1"
    with QueueManager("QM1", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
    (folder / "token").write_text(TOKEN)
    return folder


@pytest.mark.parametrize("text", [STALE, b"", *(text for text, _ in DAMAGED)], ids=range(9))
def test_a_served_json_that_a_kill_has_left_sends_the_token_to_nobody(
    mayfly: Invoke, folder: Path, text: bytes
) -> None:
    """Whoever listens on that port now: a command takes the folder, or says who has it."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        port = str(trap.getsockname()[1]).encode()
        token_file = str(folder / "token").encode()
        left = text.replace(b"PORT", port).replace(b"TOKEN_FILE", token_file)
        (folder / SERVED_FILE).write_bytes(left)
        with QueueManager("QM1", folder):
            held = mayfly("put", "QM1", "Q1", "x")
            streamed = mayfly("ledger", "run", str(folder / "lake"), "--qmgr", "QM1")
        assert (held.exit_code, held.stderr.count("\n")) == (ExitCode.FILE, 1)
        assert "in use by another" in held.stderr
        assert streamed.exit_code == ExitCode.PIPELINE
        assert streamed.stderr == "mayfly: QM1 is not served; start it: mayfly serve QM1\n"
        assert mayfly("put", "QM1", "Q1", "x").exit_code == 0
        with pytest.raises(BlockingIOError):
            trap.accept()


@pytest.mark.parametrize(("text", "said"), DAMAGED, ids=range(7))
def test_a_served_json_that_is_damaged_while_it_is_served_is_named(
    mayfly: Invoke, folder: Path, text: bytes, said: str
) -> None:
    with closing(ServedFile(folder)), QueueManager("QM1", folder):
        (folder / SERVED_FILE).write_bytes(text)
        answer = mayfly("put", "QM1", "Q1", "x")
    assert (answer.exit_code, answer.stderr.count("\n")) == (ExitCode.FILE, 1)
    assert f"mayfly: {folder / SERVED_FILE} is damaged: " in answer.stderr
    assert said in answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("is_served", [True, False])
def test_a_command_waits_while_a_server_starts_and_says_so(folder: Path, is_served: bool) -> None:
    """Or ends: then the command opens the folder itself."""
    with ExitStack() as kept, ExitStack() as stack:
        serving = stack.enter_context(closing(ServedFile(folder)))
        manager = stack.enter_context(QueueManager("QM1", folder))
        command = subprocess.Popen(
            [*COMMAND, "put", "QM1", "Q1", "x", "--json"],
            env=environment(folder.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        kept.callback(command.kill)
        assert command.stderr is not None
        line = command.stderr.readline()
        assert line == f"mayfly: the server of {folder} is starting or ending; wait\n"
        if is_served:
            stack.enter_context(listening(manager, folder, TOKEN))
            stack.enter_context(serving.announced(Served(str(folder / "token"))))
        else:
            stack.close()
        stdout, stderr = command.communicate(timeout=60)
        assert (command.returncode, stderr) == (0, "")
        assert json.loads(stdout)["queue"] == "Q1"


@pytest.mark.slow
@pytest.mark.parametrize("words", [["put", "QM1", "Q1", "x"], ["mqsc", "QM1", "-c", "DIS QMGR"]])
def test_a_command_waits_while_a_server_drains_and_says_so(folder: Path, words: list[str]) -> None:
    """Its queue manager is open, and the socket takes nobody; then the command opens the folder."""
    with ExitStack() as kept, ExitStack() as stack:
        serving = stack.enter_context(closing(ServedFile(folder)))
        manager = stack.enter_context(QueueManager("QM1", folder))
        server = stack.enter_context(closing(listening_server(manager, folder, TOKEN)))
        stack.enter_context(serving.announced(Served(str(folder / "token"), is_ready=1)))
        assert server.drain(1_000)
        command = subprocess.Popen(
            [*COMMAND, *words],
            env=environment(folder.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        kept.callback(command.kill)
        assert command.stderr is not None
        line = command.stderr.readline()
        assert line == f"mayfly: the server of {folder} is starting or ending; wait\n"
        assert health_of("QM1", folder).state is ServingState.DRAINING
        stack.close()
        _stdout, stderr = command.communicate(timeout=60)
        assert (command.returncode, stderr) == (0, "")


@pytest.mark.slow
def test_a_program_of_this_machine_comes_in_while_flight_starts(
    mayfly: Invoke, folder: Path, tmp_path: Path
) -> None:
    """A connection by name, and a command; for probes the server starts as long as that takes."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pyarrow.py").write_text(SLOW_PYARROW)
    server = subprocess.Popen(
        [*COMMAND, "serve", "QM1", "--flight", "127.0.0.1:0"],
        env=environment(folder.parent) | {"PYTHONPATH": str(tmp_path / "modules")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "imported\n"
            with connect("QM1") as client:
                client.put("Q1", b"early", time_to_live_ms=60_000)
                message = client.get("Q1")
            assert message is not None
            assert message.body == b"early"
            assert mayfly("put", "QM1", "Q1", "x").exit_code == 0
            assert health_of("QM1", folder) == ProbeResult(ServingState.STARTING)
            # The start fails now, and takes the socket away again.
            server.communicate("go on\n", PATIENCE_SECONDS)
        finally:
            server.kill()
    assert server.returncode > 0
    assert not (folder / MQ_SOCKET_FILE).exists()
    with pytest.raises(MQError) as raised:
        connect("QM1")
    assert raised.value.reason == rc.MQRC_Q_MGR_NOT_AVAILABLE
    # A command opens the folder.
    assert mayfly("get", "QM1", "Q1").exit_code == 0


def test_a_server_that_is_not_told_of_yet_is_none(folder: Path) -> None:
    """So a connection finds nobody who has it open: 2059 as while strmqm runs, not 2035."""
    with (
        closing(ServedFile(folder)) as serving,
        QueueManager("QM1", folder) as manager,
        listening(manager, folder, TOKEN),
    ):
        assert connect_to_server_of(folder, "QM1", "anna", "tests") is None
        with serving.announced(Served(str(folder / "token"))):
            connection = connect_to_server_of(folder, "QM1", "anna", "tests")
            assert connection is not None
            connection.close()
        assert connect_to_server_of(folder, "QM1", "anna", "tests") is None


def test_a_folder_has_one_server(mayfly: Invoke, folder: Path) -> None:
    with closing(ServedFile(folder)):
        with pytest.raises(FolderInUse, match=f"{folder} is in use by another mayfly serve"):
            ServedFile(folder)
        answer = mayfly("serve", "QM1", "--flight", "127.0.0.1:0")
        assert (answer.exit_code, answer.stderr.count("\n")) == (ExitCode.FILE, 1)
    assert not (folder / SERVED_FILE).exists()
    ServedFile(folder).close()
    (folder / SERVED_FILE).mkdir()
    with pytest.raises(StoreError, match=r"served\.json cannot be made: Is a directory"):
        ServedFile(folder)


@pytest.mark.parametrize("is_told", [False, True])
def test_serve_beyond_loopback_wants_to_be_told_which_clients_may_connect(
    mayfly: Invoke, home: Path, is_told: bool
) -> None:
    """A certificate of the server alone does not keep anybody out."""
    told = ("--without-client-certificates", "--tls-client-roots", __file__) if is_told else ()
    answer = mayfly("serve", "QM1", "--flight", "0.0.0.0:0", *told)
    assert (answer.exit_code, answer.stderr.count("\n")) == (ExitCode.USAGE, 1)
    said = "over TLS alone" if is_told else "host '0.0.0.0' is open to other machines"
    assert said in answer.stderr
    assert "client_roots" in answer.stderr or "--tls-certificate" in answer.stderr
    # Not even made: the next command would find a queue manager that nobody asked for.
    assert not (home / "QM1").exists()


#: A command that has a folder open until it is told to end.
HOLDING = """
import sys
from mayfly import QueueManager
with QueueManager("QM1", sys.argv[-1]):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_server_waits_for_a_command_that_has_its_folder_open_and_says_for_whom(
    folder: Path,
) -> None:
    """A get that waits is such a command; the server starts when it has ended."""
    waiting = subprocess.Popen(
        [*COMMAND, "get", "QM1", "Q1", "--wait", "60s"],
        env=environment(folder.parent),
        stdout=subprocess.PIPE,
        text=True,
    )
    with waiting:
        wait_until(lambda: holder_of(folder) == waiting.pid)
        server = subprocess.Popen(
            [*COMMAND, "serve", "QM1", "--mq", "127.0.0.1:0", "--json"],
            env=environment(folder.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with server:
            try:
                assert server.stderr is not None
                assert server.stdout is not None
                assert server.stderr.readline() == (
                    f"mayfly: {folder} is in use by `mayfly get QM1` (process {waiting.pid}): "
                    "waits until it ends\n"
                )
                waiting.kill()
                assert json.loads(server.stdout.readline())["ready"]
            finally:
                waiting.kill()
                server.kill()


@pytest.mark.slow
def test_a_server_waits_for_a_command_that_is_ending(folder: Path) -> None:
    """A process that ends has no command line any more while it still has its files open."""
    descriptor = os.open(folder, os.O_RDONLY)
    # The lock is the child's, and lasts as long as the open file that it shares with this process.
    lock = "import fcntl, sys; fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX)"
    child = subprocess.Popen([sys.executable, "-c", lock, str(descriptor)], pass_fds=[descriptor])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert holder_of(folder) == child.pid
    looks: list[float] = []

    def end(seconds: float) -> None:
        looks.append(seconds)
        os.close(descriptor)

    served.opened_when_free(lambda: QueueManager("QM1", folder), folder, end).close()
    assert len(looks) == 1
    assert child.wait() == 0


@pytest.mark.slow
def test_a_server_does_not_wait_for_a_program_that_is_no_command(
    mayfly: Invoke, folder: Path, tmp_path: Path
) -> None:
    """Nobody knows when such a program ends."""
    program = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "open\n"
        assert holder_of(folder) == program.pid
        answer = mayfly("serve", "QM1", "--mq", "127.0.0.1:0")
        program.communicate("", PATIENCE_SECONDS)
    assert (answer.exit_code, answer.stderr.count("\n")) == (ExitCode.FILE, 1)
    assert "in use by another queue manager" in answer.stderr
    assert holder_of(folder) is None


def test_a_server_gives_a_command_up_after_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(served, "_command_of", lambda process: f"`mayfly get` ({process})")
    with (
        QueueManager("QM1", folder),
        pytest.raises(FolderInUse, match=r"in use by `mayfly get` \(\d+\) for 30 seconds"),
    ):
        served.opened_when_free(lambda: QueueManager("QM1", folder), folder, pauses.append)
    assert round(sum(pauses)) == 30

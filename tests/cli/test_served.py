"""Commands about a queue manager that ``mayfly serve`` has open: answered as with its folder."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.served import SERVED_FILE
from mayfly.pipeline.bulk.client import SOCKET_FILE
from tests.cli.conftest import COMMAND, Invoke, environment, run_here
from tests.cli.test_processes import WITH_FLIGHT, serving

pytestmark = pytest.mark.slow

WAIT_SECONDS = 60
QUEUES = ("-c", "DEFINE QLOCAL(Q1)", "-c", "DEFINE QLOCAL(DEAD)")
CHANNEL = "CHANNEL(QM1.TO.QM2)"


class Server(NamedTuple):
    """A server of QM1 and QM2."""

    home: Path
    url: str
    token: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("served")
    with serving(home, "QM1", "QM2") as (_process, served):
        url = "mq://" + served["mq"]
        yield Server(home, url, Path(served["token_file"]).read_text().strip())


@pytest.fixture
def mayfly(server: Server, mayfly: Invoke, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command in this process where the server is, with its queues Q1 and DEAD empty."""
    monkeypatch.setenv("MAYFLY_HOME", str(server.home))
    mayfly("mqsc", "QM1", *QUEUES)
    for name in ("Q1", "DEAD"):
        mayfly("mqsc", "QM1", "-c", f"CLEAR QLOCAL({name})", "-c", "ALTER QMGR DEADQ(' ')")
    mayfly("schedule", "cancel", "QM1", "--all", "--yes")
    return mayfly


def put(mayfly: Invoke, *arguments: str) -> str:
    """Put a message and return its id."""
    answer = mayfly("put", "QM1", *arguments)
    assert answer.exit_code == 0, answer.output
    return str(answer.stdout.strip())


SAME = [
    ["mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q*) CAPEXPRY CURDEPTH"],
    ["mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q*)", "--json"],
    ["mqsc", "QM1", "-c", "DEFINE QLOCAL(Q1)", "-c", "FOO", "-c", "START CHANNEL(NONE)"],
    ["mqsc", "QM1", "-c", "ALTER QLOCAL(Q1) MAXDEPTH(-1)", "--json"],
    ["mqsc", "QM!", "-c", "DISPLAY QMGR"],
    ["put", "QM1", "NONE", "x"],
    ["put", "QM1", "Q1", "x", "--expiry", "1s", "--delay", "2s"],
    ["get", "QM1", "Q1"],
    ["get", "QM1", "NONE", "--wait", "1s"],
    ["browse", "QM1", "Q1"],
    ["browse", "QM1", "NONE", "--json"],
    ["schedule", "list", "QM1"],
    ["schedule", "show", "QM1", "00"],
    ["schedule", "count", "QM1", "--queue", "Q1"],
    ["schedule", "count", "QM1", "--queue", "NONE"],
    ["schedule", "cancel", "QM1", "00", "01", "--json"],
    ["schedule", "release", "QM1", "--all"],
    ["schedule", "reschedule", "QM1", "--queue", "Q1", "--all", "--by", "1h"],
    ["dlq", "list", "QM1"],
    ["dlq", "list", "QM1", "--queue", "DEAD"],
    ["dlq", "redrive", "QM1", "--where", "FOO(1)"],
    ["dlq", "redrive", "QM1", "--where", "DESTQ(Q1)\n"],
    ["dlq", "redrive", "QM1", "--queue", "DEAD"],
    ["why", "QM1", "00"],
    ["why", "QM1", "xyz"],
    ["claims", "list", "QM1"],
    ["claims", "release", "QM1", "nobody"],
]


def test_commands_answer_as_with_the_folder(
    mayfly: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output, exit code and what stderr says are the same, whoever has the folder."""
    served = [mayfly(*command) for command in SAME]
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    mayfly("mqsc", "QM1", *QUEUES)
    for command, found in zip(SAME, served, strict=True):
        expected = mayfly(*command)
        # Only a server says whose words these are.
        stderr = found.stderr.partition(" (server")[0].rstrip("\n")
        assert (found.exit_code, found.stdout) == (expected.exit_code, expected.stdout), command
        assert stderr == expected.stderr.rstrip("\n"), command


def test_a_script_of_the_standard_input_is_run(mayfly: Invoke) -> None:
    answer = mayfly("mqsc", "QM1", input="DEFINE QLOCAL(NEW)\nDELETE QLOCAL(NEW)\n")
    assert (answer.exit_code, answer.stdout.count("AMQ8")) == (0, 2)


def test_a_message_is_put_browsed_and_got(mayfly: Invoke, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\x00\xff\n")
    first = put(mayfly, "Q1", "--file", str(body), "--expiry", "1h", "--correl-id", "aa")
    second = put(mayfly, "Q1", "text", "--priority", "0")
    lines = mayfly("browse", "QM1", "Q1", "--json").stdout.splitlines()
    assert [json.loads(line)["msg_id"] for line in lines] == [first, second]
    assert mayfly("why", "QM1", second).stdout.startswith("It is on Q1 and can be got; it never")
    got = json.loads(mayfly("get", "QM1", "Q1", "--correl-id", "aa", "--json").stdout)
    assert (got["body_hex"], got["backout_count"]) == ("00ff0a", 0)
    assert 3_500_000 < got["remaining_ms"] <= 3_600_000
    assert mayfly("get", "QM1", "Q1", "--all").stdout == "text\n"
    assert mayfly("verify", "QM1").exit_code == 0


def test_what_is_released_can_be_got_at_once(mayfly: Invoke) -> None:
    ids = [put(mayfly, "Q1", f"m{n}", "--delay", f"{n + 1}h") for n in range(3)]
    shown = mayfly("schedule", "list", "QM1", "--limit", "2")
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:]] == ids[:2]
    assert "there are more: --after -" in shown.stderr
    assert mayfly("schedule", "release", "QM1", ids[1]).stdout == f"{ids[1]}  released\n"
    assert mayfly("get", "QM1", "Q1").stdout == "m1\n"
    moved = mayfly("schedule", "reschedule", "QM1", ids[2], "--delay", "0s")
    assert moved.stdout == f"{ids[2]}  rescheduled\n"
    assert mayfly("get", "QM1", "Q1").stdout == "m2\n"
    assert mayfly("schedule", "cancel", "QM1", "--queue", "Q1", "--all").stdout == "1 cancelled\n"
    audit = mayfly("schedule", "audit", "QM1", "--limit", "1", "--json").stdout
    assert json.loads(audit)["action"] == "cancel"


@pytest.fixture
def letters(mayfly: Invoke) -> Invoke:
    """A message that came to the dead-letter queue because Q1 was full."""
    mayfly("mqsc", "QM1", "-c", "ALTER QMGR DEADQ(DEAD)", "-c", "ALTER QLOCAL(Q1) MAXDEPTH(1)")
    put(mayfly, "Q1", "late", "--delay", "1h")
    put(mayfly, "Q1", "first")
    mayfly("schedule", "release", "QM1", "--all", "--yes")
    mayfly("mqsc", "QM1", "-c", "CLEAR QLOCAL(Q1)", "-c", "ALTER QLOCAL(Q1) MAXDEPTH(5000)")
    return mayfly


def test_a_dead_letter_is_listed_and_redriven(letters: Invoke) -> None:
    [letter] = letters("dlq", "list", "QM1", "--json").stdout.splitlines()
    found = json.loads(letter)
    assert (found["reason_name"], found["queue"]) == ("MQRC_Q_FULL", "Q1")
    redriven = letters("dlq", "redrive", "QM1", "--where", "REASON(MQRC_Q_FULL)")
    assert (redriven.exit_code, redriven.stdout) == (0, "1 redriven\n")
    assert letters("get", "QM1", "Q1").stdout == "late\n"


def test_an_interrupt_ends_a_handler_of_letters(
    letters: Invoke, server: Server, tmp_path: Path
) -> None:
    rules = tmp_path / "rules"
    rules.write_text("WAIT(YES)\nACTION(RETRY)\n")
    with subprocess.Popen(
        [*COMMAND, "dlq", "run", str(rules), "QM1"],
        env=environment(server.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert "waits for letters on DEAD" in process.stderr.readline()
            # It answers the signal from here on; the letter is redriven before or after that.
            assert letters("get", "QM1", "Q1", "--wait", "60s").stdout == "late\n"
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=WAIT_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, stdout, stderr) == (0, "1 redriven\n", "")


def test_a_get_that_is_killed_loses_nothing(mayfly: Invoke, server: Server) -> None:
    """kill -9 while it prints: nobody reads on, so that what is larger than a pipe cannot end."""
    msg_id = put(mayfly, "Q1", "x" * 1_000_000)
    with subprocess.Popen(
        [*COMMAND, "get", "QM1", "Q1"], env=environment(server.home), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(10) == b"x" * 10
        assert mayfly("browse", "QM1", "Q1").exit_code == ExitCode.NOTHING
        process.kill()
    again = mayfly("get", "QM1", "Q1", "--wait", "60s", "--json")
    got = json.loads(again.stdout)
    assert (got["msg_id"], got["backout_count"]) == (msg_id, 1)
    assert mayfly("get", "QM1", "Q1").exit_code == ExitCode.NOTHING


def test_a_channel_is_defined_started_and_stopped_while_it_is_served(mayfly: Invoke) -> None:
    assert mayfly("mqsc", "QM2", "-c", f"DEFINE {CHANNEL} CHLTYPE(RCVR)").exit_code == 0
    assert mayfly("mqsc", "QM2", "-c", "DEFINE QLOCAL(IN)").exit_code == 0
    sender = (
        "DEFINE QLOCAL(QM2) USAGE(XMITQ)",
        f"DEFINE {CHANNEL} CHLTYPE(SDR) CONNAME(QM2) XMITQ(QM2)",
        f"START {CHANNEL}",
    )
    started = mayfly("mqsc", "QM1", input="\n".join(sender))
    assert started.exit_code == 0, started.output
    put(mayfly, "IN@QM2", "over there", "--expiry", "1h")
    assert mayfly("get", "QM2", "IN", "--wait", "60s").stdout == "over there\n"
    assert mayfly("mqsc", "QM1", "-c", f"STOP {CHANNEL}").exit_code == 0
    shown = mayfly("mqsc", "QM1", "-c", "DISPLAY CHSTATUS(QM1.TO.QM2)", "--json")
    assert json.loads(shown.stdout)["rows"][0]["STATUS"] in ("STOPPING", "STOPPED")


def test_a_server_is_reached_by_its_url_from_anywhere(
    mayfly: Invoke, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    command = ("mqsc", "QM2", "-c", "DISPLAY QMGR QMNAME", "--url")
    for url, token, code, said in (
        (server.url, server.token, 0, ""),
        (f"{server.url}/QM2", server.token, 0, ""),
        (f"{server.url}/QM1", server.token, ExitCode.USAGE, "--url names the queue manager QM1"),
        (server.url, "guessed", ExitCode.PIPELINE, "MQRC_NOT_AUTHORIZED (2035)"),
        (server.url, "", ExitCode.PIPELINE, "MQRC_"),
        ("mq://127.0.0.1:1", "x", ExitCode.PIPELINE, "MQRC_HOST_NOT_AVAILABLE (2538)"),
        ("grpc://127.0.0.1", "x", ExitCode.USAGE, "grpc:// is neither mq:// nor mqs://"),
    ):
        monkeypatch.setenv("MAYFLY_TOKEN", token)
        answer = mayfly(*command, url)
        assert (answer.exit_code, answer.stderr.count("\n")) == (code, 1 if code else 0), url
        assert said in answer.stderr
        assert ("QMNAME(QM2)" in answer.stdout) is (code == 0)
    monkeypatch.setenv("MAYFLY_TOKEN", server.token)
    unknown = mayfly("put", "QM9", "Q1", "x", "--url", server.url)
    assert (unknown.exit_code, unknown.stdout) == (ExitCode.PIPELINE, "")
    assert "MQRC_Q_MGR_NAME_ERROR (2058)" in unknown.stderr
    assert not list(tmp_path.iterdir())


def test_a_user_comes_in_by_a_channel_with_a_password(
    tmp_path: Path, mayfly: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user of limited authority puts and gets; what an operator does is refused."""
    with serving(tmp_path, "QM1", "--dev") as (_process, served):
        monkeypatch.setenv("MAYFLY_HOME", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("MAYFLY_USER", served["user"])
        monkeypatch.setenv("MAYFLY_PASSWORD", served["password"])
        url = ("--url", f"mq://{served['mq']}/QM1?channel=DEV.APP.SVRCONN")
        assert mayfly("put", "QM1", "DEV.QUEUE.1", "hello", *url).exit_code == 0
        [shown] = mayfly("browse", "QM1", "DEV.QUEUE.1", "--json", *url).stdout.splitlines()
        assert json.loads(shown)["user_identifier"] == served["user"]
        assert mayfly("get", "QM1", "DEV.QUEUE.1", *url).stdout == "hello\n"
        for command in (("mqsc", "QM1", "-c", "DISPLAY QMGR"), ("verify", "QM1")):
            refused = mayfly(*command, *url)
            assert (refused.exit_code, refused.stdout) == (ExitCode.MQ, "")
            assert "MQRC_NOT_AUTHORIZED (2035)" in refused.stderr
        for variable, value in (("MAYFLY_PASSWORD", "guessed"), ("MAYFLY_USER", "nobody")):
            monkeypatch.setenv(variable, value)
            stranger = mayfly("get", "QM1", "DEV.QUEUE.1", *url)
            assert (stranger.exit_code, stranger.stderr.count("\n")) == (ExitCode.PIPELINE, 1)
            assert "MQRC_NOT_AUTHORIZED (2035)" in stranger.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_a_server_that_is_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    """served.json and the socket stay: a command opens the folder, and so does the next server."""
    assert run_here(tmp_path, "mqsc", "QM1", *QUEUES).exit_code == 0
    for number in range(2):
        with serving(tmp_path, "QM1", *WITH_FLIGHT) as (server, _served):
            assert run_here(tmp_path, "put", "QM1", "Q1", f"m{number}").exit_code == 0
            server.kill()
            server.wait()
        folder = tmp_path / "QM1"
        assert (folder / SERVED_FILE).exists()
        assert (folder / SOCKET_FILE).is_socket()
        got = run_here(tmp_path, "get", "QM1", "Q1")
        assert (got.exit_code, got.stdout, got.stderr) == (0, f"m{number}\n", "")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)]
)
def test_serve_ends_though_a_session_is_silent(tmp_path: Path, number: signal.Signals) -> None:
    """A client whose printing is stuck holds a message: it is on its queue again afterwards."""
    config = tmp_path / "config.toml"
    config.write_text('drain_seconds = 1\n[[queue_manager]]\nname = "QM1"\n')
    with serving(tmp_path, str(config)) as (server, _served):
        assert run_here(tmp_path, "mqsc", "QM1", *QUEUES).exit_code == 0
        assert run_here(tmp_path, "put", "QM1", "Q1", "x" * 100_000).exit_code == 0
        with subprocess.Popen(
            [*COMMAND, "get", "QM1", "Q1"],
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as client:
            assert client.stdout is not None
            assert client.stdout.read(1) == b"x"
            server.send_signal(number)
            assert server.wait(WAIT_SECONDS) == 0
            assert server.communicate()[1].count("Traceback") == 0
            _, stderr = client.communicate(timeout=WAIT_SECONDS)
            assert client.returncode == ExitCode.PIPELINE
            # Its commit was not sent any more: it is known to have had no effect.
            assert b"MQRC_CONNECTION_BROKEN (2009)" in stderr
    got = json.loads(run_here(tmp_path, "get", "QM1", "Q1", "--json").stdout)
    assert got["backout_count"] == 1


def test_K_a_served_queue_manager_is_configured_by_mayfly_serve(
    mayfly: Invoke, tmp_path: Path
) -> None:
    for command in (["mqsc", "QM1", "-c", "DISPLAY QMGR"], ["put", "QM1", "Q1", "x"]):
        answer = mayfly(*command, "--command-level", "800")
        assert answer.exit_code == ExitCode.USAGE
        options = "--platform, --command-level and --setting"
        assert answer.stderr == f"mayfly: QM1 is served: give {options} to mayfly serve\n"
    with serving(tmp_path, "QMZ", "--platform", "zos") as (_process, _served):
        pass
    with QueueManager("QMZ", tmp_path / "QMZ") as qm:
        assert qm.engine.platform == "zos"

"""The command as a process: serve and its end, output refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.hosting import set_scan
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.served import SERVED_FILE
from mayfly.client import Client
from mayfly.client.connection.endpoint import Endpoint
from mayfly.client.connection.remote import connect
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.errors import ServerNotReachable, WrongToken
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE
from tests.cli.conftest import COMMAND, Invoke, environment, run_here, run_process
from tests.examples import first_of
from tests.facts import wait_until
from tests.servers.certificates import certificate

ANY_PORT = "127.0.0.1:0"
WITH_FLIGHT = ("--flight", ANY_PORT)


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Serve in a process and yield it with the line it prints when it is ready."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *arguments, "--mq", ANY_PORT, "--json"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def outcomes(client: LedgerClient) -> list[str]:
    """Return how the lives in a ledger ended."""
    batches = client.read(0, client.info().last_position)
    return [outcome for batch in batches for outcome in batch.column("outcome").to_pylist()]


@pytest.mark.slow
def test_serve_with_tls_is_trusted_by_the_commands_of_this_machine(
    queue: Invoke, home: Path, tmp_path: Path
) -> None:
    """A client that knows nothing of the certificate does not send its token."""
    roots, key = certificate(tmp_path)
    refused = queue("serve", "QM1", "--tls-key", str(key))
    assert (refused.exit_code, "go together" in refused.stderr) == (2, True)
    missing = queue("serve", "QM1", "--tls-key", str(key), "--tls-certificate", "nowhere.pem")
    assert (missing.exit_code, "nowhere.pem: No such file" in missing.stderr) == (4, True)
    given = ("--tls-certificate", str(roots), "--tls-key", str(key))
    with serving(home, "QM1", *WITH_FLIGHT, *given) as (_process, served):
        assert served["flight"].startswith("grpc+tls://127.0.0.1:")
        with (
            LedgerClient(served["flight"], token_file=served["token_file"]) as client,
            pytest.raises(ServerNotReachable, match="certificate"),
        ):
            client.info()
        listed = run_process(home, "claims", "list", "QM1")
        assert (listed.returncode, listed.stderr) == (1, "mayfly: QM1 has no consumers\n")
        assert queue("put", "QM1", "NONE", "x").exit_code == ExitCode.MQ


@pytest.mark.slow
@pytest.mark.parametrize("number", first_of(1, signal.SIGTERM, signal.SIGINT))
def test_serve_answers_and_ends_in_good_order(queue: Invoke, home: Path, number: int) -> None:
    queue("put", "QM1", "Q1", "x")
    queue("get", "QM1", "Q1")
    with serving(home, "QM1", *WITH_FLIGHT) as (process, served):
        told = json.loads((home / "QM1" / SERVED_FILE).read_text())
        assert (told["is_ready"], told["token_file"]) == (1, served["token_file"])
        for name in (SERVED_FILE, Path(served["token_file"]).name):
            assert (home / "QM1" / name).stat().st_mode & 0o777 == 0o600
        with LedgerClient(served["flight"], token_file=served["token_file"]) as client:
            assert client.info().manager == "QM1"
            assert client.info().last_position > 0
        with LedgerClient(served["flight"], token="guessed") as client, pytest.raises(WrongToken):
            client.info()
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.communicate()[1] == ""
    assert not (home / "QM1" / SERVED_FILE).exists()
    assert queue("verify", "QM1").exit_code == 0


@pytest.mark.slow
def test_serve_says_how_many_messages_end_with_it(queue: Invoke, home: Path) -> None:
    """Those on the staging queue too; persistent ones are there at the next start."""
    with serving(home, "QM1") as (process, served):
        there = Endpoint((home / "QM1" / MQ_SOCKET_FILE,), "", "QM1")
        token = Path(served["token_file"]).read_text().strip()
        with Client(connect(there, "anna", token)) as session:
            session.put("Q1", b"1")
            session.put("Q1", b"2", persistent=True)
            session.put("Q1", b"3", delay_ms=60_000)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert said == (
        "mayfly: QM1: 2 messages are not persistent and end now; "
        "DEFPSIST(YES) on their queue, or a put that says so, keeps them\n"
    )
    assert process.returncode == ExitCode.DONE
    lines = queue("browse", "QM1", "Q1", "--json").stdout.splitlines()
    assert [json.loads(line)["body"] for line in lines] == ["2"]


@pytest.mark.slow
def test_two_served_queue_managers_have_a_channel(queue: Invoke, home: Path) -> None:
    """What was put while nobody served it travels as soon as both are there."""
    receives = "DEFINE QLOCAL(IN)\nDEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(RCVR)"
    assert queue("mqsc", "QM2", "-c", receives).exit_code == 0
    with serving(home, "QM2") as (receiver, there):
        sends = f"""
            DEFINE QLOCAL(QM2) USAGE(XMITQ)
            DEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(SDR) XMITQ(QM2) TRPTYPE(TCP) +
                CONNAME('127.0.0.1({there["mq"].rpartition(":")[2]})') +
                TOKENFILE('{there["token_file"]}')
            START CHANNEL(QM1.TO.QM2)
        """
        assert queue("mqsc", "QM1", "-c", sends).exit_code == 0
        assert queue("put", "QM1", "IN@QM2", "over there", "--expiry", "1h").exit_code == 0
        with serving(home, "QM1", *WITH_FLIGHT) as (sender, here):
            with LedgerClient(here["flight"], token_file=here["token_file"]) as client:
                wait_until(lambda: sender.poll() or "transmitted" in outcomes(client))
                assert sender.poll() is None
            for process in (sender, receiver):
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
                assert process.communicate()[1] == ""
    got = json.loads(queue("get", "QM2", "IN", "--json").stdout)
    assert (got["body"], 3_400_000 < got["remaining_ms"] < 3_600_000) == ("over there", True)


@pytest.mark.slow
def test_X9_serve_discards_what_nobody_asks_for_and_leaves_the_definition(
    queue: Invoke, home: Path
) -> None:
    """The scan of ``serve`` is not stored: the queue manager opened in process has it OFF."""
    queue("put", "QM1", "Q1", "x", "--expiry", "1ms")
    with serving(home, "QM1", *WITH_FLIGHT, "--expiry-interval", "1") as (process, served):
        with LedgerClient(served["flight"], token_file=served["token_file"]) as client:
            wait_until(lambda: process.poll() or "expired" in outcomes(client))
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with QueueManager("QM1", home / "QM1") as manager:
        assert manager.curdepth("Q1") == 0
        assert manager.mqsc("DISPLAY QMGR EXPRYINT").rows[0]["EXPRYINT"] == "OFF"


@pytest.mark.slow
def test_X9_serve_scans_every_5_seconds_unless_configured(queue: Invoke, home: Path) -> None:
    for configured, option, seconds in (("OFF", None, 5), ("77", None, 77), ("77", 0, 0)):
        queue("mqsc", "QM1", "-c", f"ALTER QMGR EXPRYINT({configured})")
        with QueueManager("QM1", home / "QM1") as manager:
            set_scan(manager, option)
            assert manager.engine.registry.queue_manager.expryint == seconds


@pytest.mark.slow
@pytest.mark.long
def test_two_queue_managers_on_one_server_and_a_port_that_is_taken(
    queue: Invoke, home: Path
) -> None:
    with serving(home, "QM1", "QM2", *WITH_FLIGHT) as (_process, served):
        for name in ("QM1", "QM2"):
            with LedgerClient(
                served["flight"], token_file=served["token_file"], manager=name
            ) as client:
                assert client.info().manager == name
        port = served["flight"].rpartition(":")[2]
        second = run_process(home, "serve", "QM3", "--flight", f"127.0.0.1:{port}")
        assert second.returncode == ExitCode.PIPELINE
        assert f"127.0.0.1:{port}" in second.stderr
        assert "Traceback" not in second.stderr
        taken = run_here(home, "serve", "QM1", *WITH_FLIGHT)
        assert (taken.exit_code, len(taken.stderr.splitlines())) == (ExitCode.FILE, 1)


@pytest.mark.slow
def test_a_message_that_cannot_be_printed_stays_on_its_queue(queue: Invoke, home: Path) -> None:
    """/dev/full refuses every write: the get is backed out."""
    queue("put", "QM1", "Q1", "kept")
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [*COMMAND, "get", "QM1", "Q1"],
            env=environment(home),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert answer.returncode == ExitCode.FILE
    assert "No space left" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert queue("get", "QM1", "Q1").stdout == "kept\n"


@pytest.mark.slow
def test_without_rich_and_typer_it_says_what_to_install(tmp_path: Path) -> None:
    """An environment without the extra: the packages cannot be imported."""
    code = (
        "import sys; sys.modules['typer'] = None; import mayfly.cli as cli\n"
        "try: cli.main()\n"
        "except SystemExit as end: sys.exit(end.code)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == ExitCode.USAGE
    assert answer.stderr == ("mayfly: the package typer is missing: pip install 'mayfly-mq[cli]'\n")


@pytest.mark.slow
def test_without_its_package_a_command_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['duckdb'] = None; from mayfly.cli import main\n"
        f"sys.argv = ['mayfly', 'ledger', 'verify', {str(tmp_path)!r}]; main()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == ExitCode.USAGE
    assert answer.stderr == (
        "mayfly: the package duckdb is missing: pip install 'mayfly-mq[lake]'\n"
    )


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_named_at_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", "token")
    lake = home / "lake"
    silent = run_here(home, "ledger", "run", str(lake), "--url", "grpc://127.0.0.1:1")
    assert (silent.exit_code, len(silent.stderr.splitlines())) == (ExitCode.PIPELINE, 1)
    assert "grpc://127.0.0.1:1" in silent.stderr
    wrong = run_here(home, "ledger", "run", str(lake), "--url", "http://127.0.0.1")
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (ExitCode.USAGE, 1)
    assert not lake.exists()

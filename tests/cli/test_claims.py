"""claims: what consumers hold is listed and given back, with the folder closed and while served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.served import SERVED_FILE
from mayfly.engine.bulk.claim_holding import Limit
from mayfly.servers.flight import FlightServer
from tests.cli.conftest import Invoke

TOKEN = "correct horse"


@pytest.fixture
def claimed(queue: Invoke, home: Path) -> Invoke:
    """QM1 with two messages claimed by ``billing`` and one on its queue."""
    with QueueManager("QM1", home / "QM1") as manager:
        with manager.session() as session:
            for _ in range(3):
                session.put("Q1", b"x", persistent=True)
        epoch = manager.claims.attach("billing", "Q1").epoch
        manager.claims.claim("billing", epoch, 0, Limit(2, 100))
    return queue


@pytest.mark.parametrize("command", ["list", "release"])
def test_every_command_has_help_with_an_example(mayfly: Invoke, command: str) -> None:
    answer = mayfly("claims", command, "--help")
    assert answer.exit_code == 0
    assert f"  mayfly claims {command} QM1" in answer.output.partition("Example")[2]


def test_consumers_are_listed_with_what_they_hold(claimed: Invoke) -> None:
    [row] = json.loads(claimed("claims", "list", "QM1", "--json").stdout)
    held = [row[name] for name in ("consumer", "queue", "epoch", "closed", "last", "message_count")]
    assert held == ["billing", "Q1", 1, 0, 1, 2]
    head, line = claimed("claims", "list", "QM1").stdout.splitlines()
    assert head.split()[:4] == ["consumer", "queue", "claims", "messages"]
    assert line.split()[:4] == ["billing", "Q1", "1", "2"]


def test_without_consumers_the_exit_code_says_so(queue: Invoke) -> None:
    answer = queue("claims", "list", "QM1")
    assert (answer.exit_code, answer.stdout) == (ExitCode.NOTHING, "")
    assert answer.stderr == "mayfly: QM1 has no consumers\n"


def test_released_messages_can_be_got_again(claimed: Invoke) -> None:
    answer = claimed("claims", "release", "QM1", "billing")
    assert (answer.exit_code, answer.stdout) == (0, "2 messages of billing given back\n")
    lines = claimed("browse", "QM1", "Q1", "--json").stdout.splitlines()
    assert [json.loads(line)["backout_count"] for line in lines] == [1, 1, 0]
    assert claimed("verify", "QM1").exit_code == 0
    again = claimed("claims", "release", "QM1", "billing", "--json")
    assert json.loads(again.stdout) == {"consumer": "billing", "released": 0}


def test_an_unknown_consumer_is_named(claimed: Invoke) -> None:
    answer = claimed("claims", "release", "QM1", "nobody")
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr == "mayfly: there is no consumer 'nobody'\n"


def test_a_served_queue_manager_is_asked_by_its_server(claimed: Invoke, home: Path) -> None:
    folder = home / "QM1"
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    with (
        QueueManager("QM1", folder) as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        refused = claimed("claims", "list", "QM1")
        assert refused.exit_code == ExitCode.FILE
        assert "is in use by another queue manager" in refused.stderr
        served = {"url": server.url, "token_file": str(token_file)}
        (folder / SERVED_FILE).write_text(json.dumps(served))
        assert "billing" in claimed("claims", "list", "QM1").stdout
        assert claimed("claims", "release", "QM1", "nobody").exit_code == ExitCode.PIPELINE
        released = claimed("claims", "release", "QM1", "billing", "--json")
        assert json.loads(released.stdout)["released"] == 2
        assert manager.curdepth("Q1") == 3

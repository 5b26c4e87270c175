"""claims: what consumers hold is listed and given back, with the folder closed and while served."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.served import Served, ServedFile
from mayfly.engine.api.bulk import ClaimLimit as Limit
from tests.cli.conftest import Invoke
from tests.cli.folders import listening
from tests.spec.scene import lives

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
    answer = claimed("claims", "release", "QM1", "billing", "--even-if-written")
    assert (answer.exit_code, answer.stdout) == (0, "2 messages of billing given back\n")
    lines = claimed("browse", "QM1", "Q1", "--json").stdout.splitlines()
    assert [json.loads(line)["backout_count"] for line in lines] == [1, 1, 0]
    assert claimed("verify", "QM1").exit_code == 0
    again = claimed("claims", "release", "QM1", "billing", "--json")
    assert json.loads(again.stdout) == {"consumer": "billing", "ended": 0, "released": 0}


def checkpoint(folder: Path, instance_id: str, *claims: int, committed: int) -> Path:
    """Write what Spark keeps of batches that end at these claims, so many of them committed."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for batch, claim in enumerate(claims):
        offset = {"version": 1, "claim": claim, "consumer": "billing", "queue": "Q1"}
        lines = ["v1", '{"batchWatermarkMs":0}', '{"logOffset":7}']
        lines.append(json.dumps({**offset, "instance": instance_id}))
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
        if batch < committed:
            (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


@pytest.fixture
def instance_id(claimed: Invoke, home: Path) -> str:
    """The store of QM1, where ``billing`` has claimed one message more by a second claim."""
    with QueueManager("QM1", home / "QM1") as manager:
        epoch = manager.claims.attach("billing", "Q1").epoch
        manager.claims.claim("billing", epoch, 1, Limit(2, 100))
        return manager.ledger.instance_id


def test_what_may_be_written_is_given_back_only_when_told(claimed: Invoke) -> None:
    answer = claimed("claims", "release", "QM1", "billing")
    assert (answer.exit_code, answer.stdout) == (ExitCode.USAGE, "")
    assert answer.stderr.startswith("mayfly: the 2 messages that billing has claimed may be")
    assert "--checkpoint DIR" in answer.stderr
    assert "--even-if-written" in answer.stderr
    assert '"message_count": 2' in claimed("claims", "list", "QM1", "--json").stdout


def test_what_a_checkpoint_has_committed_is_ended_and_the_rest_given_back(
    claimed: Invoke, instance_id: str, home: Path, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "calls", instance_id, 1, committed=1)
    answer = claimed("claims", "release", "QM1", "billing", "--checkpoint", str(folder))
    assert (
        answer.stdout == "2 messages were written and are ended, 1 messages of billing given back\n"
    )
    with QueueManager("QM1", home / "QM1") as manager:
        assert (manager.curdepth("Q1"), manager.counts("Q1").locked) == (1, 0)
        assert [life.outcome for life in lives(manager, "Q1")] == ["got", "got"]
        assert manager.verify().ok


def test_an_unfinished_batch_is_given_back_only_when_told(
    claimed: Invoke, instance_id: str, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "calls", instance_id, 1, 2, committed=1)
    release = ("claims", "release", "QM1", "billing", "--checkpoint", str(folder))
    answer = claimed(*release)
    assert (answer.exit_code, answer.stdout) == (ExitCode.PIPELINE, "")
    assert "batch 1 of" in answer.stderr
    assert '"message_count": 3' in claimed("claims", "list", "QM1", "--json").stdout
    answer = claimed(*release, "--even-if-written", "--json")
    assert json.loads(answer.stdout) == {"consumer": "billing", "ended": 2, "released": 1}


def test_a_batch_that_was_never_committed_ends_nothing(
    claimed: Invoke, instance_id: str, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "calls", instance_id, 1, committed=0)
    release = ("claims", "release", "QM1", "billing", "--checkpoint", str(folder))
    assert claimed(*release).exit_code == ExitCode.PIPELINE
    answer = claimed(*release, "--even-if-written", "--json")
    assert json.loads(answer.stdout) == {"consumer": "billing", "ended": 0, "released": 3}


def test_a_checkpoint_that_says_nothing_of_the_consumer_is_refused(
    claimed: Invoke, instance_id: str, tmp_path: Path
) -> None:
    def refused(folder: Path, code: ExitCode) -> str:
        answer = claimed("claims", "release", "QM1", "billing", "--checkpoint", str(folder))
        assert (answer.exit_code, answer.stdout) == (code, "")
        return answer.stderr

    assert "nowhere is no folder here" in refused(tmp_path / "nowhere", ExitCode.USAGE)
    (tmp_path / "empty").mkdir()
    assert "has no batch of consumer billing\n" in refused(tmp_path / "empty", ExitCode.PIPELINE)
    other = checkpoint(tmp_path / "other", "f" * 32, 1, committed=1)
    assert "only of another queue manager" in refused(other, ExitCode.PIPELINE)
    assert '"message_count": 3' in claimed("claims", "list", "QM1", "--json").stdout


def test_an_unknown_consumer_is_named(claimed: Invoke) -> None:
    answer = claimed("claims", "release", "QM1", "nobody")
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr == "mayfly: there is no consumer 'nobody'\n"


def test_a_served_queue_manager_is_asked_by_its_server(claimed: Invoke, home: Path) -> None:
    folder = home / "QM1"
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    with QueueManager("QM1", folder) as manager, listening(manager, folder, TOKEN):
        refused = claimed("claims", "list", "QM1")
        assert refused.exit_code == ExitCode.FILE
        assert "is in use by another queue manager" in refused.stderr
        with (
            closing(ServedFile(folder)) as serving,
            serving.announced(Served(str(token_file))),
        ):
            assert "billing" in claimed("claims", "list", "QM1").stdout
            assert claimed("claims", "release", "QM1", "nobody").exit_code == ExitCode.PIPELINE
            written = checkpoint(home / "calls", manager.ledger.instance_id, 0, committed=1)
            released = claimed(
                *("claims", "release", "QM1", "billing", "--json", "--checkpoint", str(written))
            )
        assert json.loads(released.stdout)["released"] == 2
        assert manager.curdepth("Q1") == 3

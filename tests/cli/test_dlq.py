"""dlq: dead letters are listed, redriven, and follow a table of rules."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from tests.cli.conftest import COMMAND, Invoke, environment
from tests.dead_letter.scene import PLAIN, put_dead_letter
from tests.examples import first_of
from tests.spec.scene import DEAD, STAGING, put_md

WAIT_SECONDS = 60


@pytest.fixture
def letters(queue: Invoke, home: Path) -> Invoke:
    """QM1 with a letter for Q1, one for no queue there is, and one without a header, of one time.

    They are of this moment, which stands still: a header and its message tell the same.
    """
    queue("mqsc", "QM1", "-c", f"ALTER QMGR DEADQ({DEAD})")
    moment = VirtualClock(SystemClock().now_ms())
    with QueueManager("QM1", home / "QM1", clock=moment) as manager:
        put_dead_letter(manager, body=b"hello", life_ms=3_600_000)
        put_dead_letter(manager, target="NOWHERE", reason=c.MQFB_APPL_CANNOT_BE_STARTED)
        with manager.session() as session:
            put_md(session, DEAD, b"bare", PLAIN)
    return queue


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A table that ends when nothing is left to do."""
    file = tmp_path / "rules.dlq"
    file.write_text("INPUTQM(QM1) WAIT(NO)\nREASON(MQRC_Q_FULL) ACTION(RETRY)\n")
    return file


def depths(mayfly: Invoke, *queues: str) -> list[int]:
    answers = [mayfly("browse", "QM1", name, "--json") for name in queues]
    return [len(answer.stdout.splitlines()) for answer in answers]


@pytest.mark.parametrize("command", ["run", "list", "redrive"])
def test_every_command_has_help_with_an_example(mayfly: Invoke, command: str) -> None:
    answer = mayfly("dlq", command, "--help")
    assert answer.exit_code == 0
    assert f"  mayfly dlq {command} " in answer.output.partition("Example")[2]


def test_list_tells_reason_queue_age_and_what_is_left(letters: Invoke) -> None:
    head, full, started, bare = letters("dlq", "list", "QM1").stdout.splitlines()
    assert head.split()[:4] == ["MsgId", "reason", "for", "queue"]
    assert full.split()[1:3] == ["MQRC_Q_FULL", "Q1"]
    assert full.split()[-1] == "5"
    assert started.split()[1:3] == ["MQFB_APPL_CANNOT_BE_STARTED", "NOWHERE"]
    assert "never" in started
    assert bare.split()[1:3] == ["(no", "header)"]
    assert depths(letters, DEAD) == [3]


def test_list_as_json_is_exact(letters: Invoke) -> None:
    full, started, bare = map(
        json.loads, letters("dlq", "list", "QM1", "--json").stdout.splitlines()
    )
    assert (full["reason"], full["reason_name"]) == (rc.MQRC_Q_FULL, "MQRC_Q_FULL")
    assert (full["queue"], full["queue_manager"], full["format"]) == ("Q1", "QM1", "MQSTR")
    assert full["expire_at_ms"] == full["put_ms"] + 3_600_000
    assert full["since_ms"] == full["put_ms"] // 10 * 10
    assert (full["body_bytes"], full["persistent"]) == (5, True)
    assert (started["expire_at_ms"], started["remaining_ms"]) == (None, None)
    assert (bare["reason"], bare["queue"], bare["since_ms"], bare["body_bytes"]) == (
        None,
        None,
        None,
        4,
    )


def test_run_follows_the_table_and_tells_what_was_done(letters: Invoke, rules: Path) -> None:
    answer = letters("dlq", "run", str(rules))
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout == "1 redriven, 1 left, 1 without header\n"
    assert depths(letters, "Q1", DEAD) == [1, 2]
    assert letters("dlq", "run", str(rules), "QM1", "--queue", "Q1").stdout == "1 without header\n"


def test_run_as_json_counts_every_outcome_and_failure(letters: Invoke, rules: Path) -> None:
    rules.write_text("WAIT(NO)\nACTION(RETRY)")
    answer = letters("dlq", "run", str(rules), "QM1", "--json")
    assert (answer.exit_code, json.loads(answer.stdout)) == (
        0,
        {
            "discarded": 0,
            "forwarded": 0,
            "redriven": 1,
            "ignored": 0,
            "left": 1,
            "without_header": 1,
            "gone": 0,
            "failed": 1,
            "failures": {"MQRC_UNKNOWN_OBJECT_NAME": 1},
        },
    )


def test_redrive_puts_once_and_says_what_stays(letters: Invoke) -> None:
    foreseen = letters("dlq", "redrive", "QM1", "--where", "DESTQ(Q1)", "--dry-run")
    assert (foreseen.exit_code, foreseen.stdout) == (0, "1 redriven, 1 left, 1 without header\n")
    answer = letters("dlq", "redrive", "QM1", "--where", "DESTQ(Q1)")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert depths(letters, "Q1", DEAD) == [1, 2]
    answer = letters("dlq", "redrive", "QM1")
    assert answer.exit_code == ExitCode.NOTHING
    assert answer.stdout == "1 left, 1 without header\n"
    assert answer.stderr == "mayfly: 1 failed with MQRC_UNKNOWN_OBJECT_NAME\n"
    nothing = letters("dlq", "redrive", "QM1", "--where", "DESTQ(Q9)")
    assert (nothing.exit_code, nothing.stderr) == (1, "mayfly: nothing was redriven\n")
    assert depths(letters, DEAD) == [2]


def test_list_as_json_is_json_where_nothing_is_dead_lettered(queue: Invoke) -> None:
    answer = queue("dlq", "list", "QM1", "--queue", "Q1", "--json")
    assert (answer.exit_code, json.loads(answer.stdout)) == (ExitCode.NOTHING, [])
    assert answer.stderr == "mayfly: nothing on Q1\n"


def test_redrive_ends_though_a_letter_comes_back_at_once(letters: Invoke, home: Path) -> None:
    with QueueManager("QM1", home / "QM1") as manager:
        put_dead_letter(manager, target=STAGING)
    answer = letters("dlq", "redrive", "QM1", "--where", "DESTQ(SYSTEM*)")
    assert (answer.exit_code, answer.stdout) == (0, "1 redriven, 2 left, 1 without header\n")
    assert depths(letters, DEAD) == [4]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "none.dlq", "QM1"], ExitCode.FILE, "none.dlq: No such file or directory"),
        (["redrive", "QM1", "--where", "REASON(X)"], ExitCode.USAGE, "column 1: REASON(X) is"),
        (
            ["redrive", "QM1", "--where", "DESTQ(Q1) ACTION(DISCARD)\n"],
            ExitCode.USAGE,
            "--where: line 1, column 11: ACTION(DISCARD) is not a pattern keyword",
        ),
        (["redrive", "QM1", "--where", "RETRY(3)"], ExitCode.USAGE, "RETRY(3) is not a pattern"),
        (["list", "QM1"], ExitCode.MQ, "MQRC_UNKNOWN_OBJECT_NAME (2085): DEADQ of QM1 is blank"),
        (["redrive", "QM1"], ExitCode.MQ, "MQRC_UNKNOWN_OBJECT_NAME (2085): DEADQ of QM1 is blank"),
        (["list", "QM1", "--queue", "Q1"], ExitCode.NOTHING, "nothing on Q1"),
        (["list", "QM1", "--queue", "Q9"], ExitCode.MQ, "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        (["list", "QM2"], ExitCode.MQ, "MQRC_Q_MGR_NAME_ERROR"),
    ],
)
def test_mistakes_end_with_a_code_and_a_line(
    queue: Invoke, arguments: list[str], code: ExitCode, said: str
) -> None:
    answer = queue("dlq", *arguments)
    assert (answer.exit_code, answer.stdout) == (code, "")
    assert said in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_wrong_table_is_refused_with_its_place(queue: Invoke, rules: Path) -> None:
    rules.write_text("WAIT(NO)\nREASON(MQRC_FULL) ACTION(RETRY)\n")
    answer = queue("dlq", "run", str(rules), "QM1")
    assert answer.exit_code == ExitCode.USAGE
    assert "rules.dlq: line 2, column 1: REASON(MQRC_FULL) names no MQRC_*" in answer.stderr


def test_table_of_a_Windows_editor_is_read(letters: Invoke, rules: Path) -> None:
    rules.write_bytes(b"\xef\xbb\xbf" + rules.read_bytes().replace(b"\n", b"\r\n"))
    answer = letters("dlq", "run", str(rules))
    assert (answer.exit_code, answer.stdout) == (0, "1 redriven, 1 left, 1 without header\n")


def test_table_without_a_queue_manager_needs_one_on_the_command_line(
    queue: Invoke, rules: Path
) -> None:
    rules.write_text("ACTION(IGNORE)")
    answer = queue("dlq", "run", str(rules))
    assert (answer.exit_code, answer.stdout) == (ExitCode.USAGE, "")
    assert "has no INPUTQM" in answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", first_of(1, signal.SIGINT, signal.SIGTERM))
def test_signal_ends_a_handler_and_it_tells_what_it_did(
    letters: Invoke, home: Path, rules: Path, number: signal.Signals
) -> None:
    rules.write_text("WAIT(YES)\nREASON(MQRC_Q_FULL) ACTION(RETRY)\nACTION(FWD) FWDQ(REPORTS)")
    with subprocess.Popen(
        [*COMMAND, "dlq", "run", str(rules), "QM1"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(f"mayfly: waits for letters on {DEAD}")
        process.send_signal(number)
        said, complaint = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, complaint) == (0, "")
    done = {word: int(count) for count, word in re.findall(r"([0-9]) (\w+)", said)}
    redriven, forwarded = done.get("redriven", 0), done.get("forwarded", 0)
    found = depths(letters, "Q1", "REPORTS", DEAD)
    assert found == [redriven, forwarded, 3 - redriven - forwarded]

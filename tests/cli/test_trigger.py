"""trigger run: starts the command of a process for what is on a queue, until it is interrupted."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from mayfly.cli.outcomes import ExitCode
from mayfly.mqi import reasons as rc
from tests.cli.conftest import COMMAND, Invoke, environment
from tests.cli.test_processes import serving

WAIT_SECONDS = 60
KILLS = 2
#: Says which queue it serves, and lives until nobody holds its pipe any more.
OUTLIVE = """
import sys
with open(sys.argv[1]) as pipe:
    print("serves", sys.argv[-1][8:56].strip(), flush=True)
    pipe.read()
"""


@pytest.fixture
def triggering(queue: Invoke, tmp_path: Path) -> Invoke:
    """QM1 with Q1, which has a message and triggers a command that says its queue, and Q2."""
    script = tmp_path / "serve.py"
    script.write_text("import sys; print('serves', sys.argv[-1][8:56].strip(), flush=True)")
    line = shlex.join([sys.executable, str(script)]).replace("'", "''")
    commands = [
        "DEFINE QLOCAL(INITQ)",
        f"DEFINE PROCESS(SERVE) APPLICID('{line}')",
        "DEFINE PROCESS(NOBODY) APPLICID('/nowhere/at/all')",
        "ALTER QLOCAL(Q1) TRIGGER INITQ(INITQ) PROCESS(SERVE)",
        "DEFINE QLOCAL(Q2) TRIGGER INITQ(INITQ) PROCESS(NOBODY)",
        "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)",
    ]
    answer = queue("mqsc", "QM1", *(word for command in commands for word in ("-c", command)))
    assert answer.exit_code == 0, answer.output
    for name in ("Q1", "Q2"):
        assert queue("put", "QM1", name, "hello").exit_code == 0
    return queue


def test_help_has_an_example(mayfly: Invoke) -> None:
    answer = mayfly("trigger", "run", "--help")
    assert answer.exit_code == 0
    assert "  mayfly trigger run " in answer.output.partition("Example")[2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("NOWHERE", rc.MQRC_UNKNOWN_OBJECT_NAME), ("no queue", rc.MQRC_UNKNOWN_OBJECT_NAME)],
)
def test_a_wrong_queue_is_refused_by_its_reason(queue: Invoke, name: str, reason: int) -> None:
    answer = queue("trigger", "run", "QM1", name)
    assert answer.exit_code == ExitCode.MQ
    assert f"({reason})" in answer.output
    assert name in answer.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "is_served"),
    [
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.soak),
    ],
)
def test_signal_ends_a_monitor_and_it_tells_what_it_did(
    triggering: Invoke, home: Path, number: signal.Signals, is_served: bool
) -> None:
    as_json = ["--json"] if number == signal.SIGINT else []
    with (
        serving(home, "QM1") if is_served else nullcontext(),
        subprocess.Popen(
            [*COMMAND, "trigger", "run", "QM1", "INITQ", *as_json],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        waits = "mayfly: waits for trigger messages on INITQ; an interrupt ends it\n"
        assert process.stderr.readline() == waits
        assert process.stderr.readline() == "serves Q1\n"
        assert "/nowhere/at/all" in process.stderr.readline()
        process.send_signal(number)
        said, complaint = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, complaint) == (0, "")
    if as_json:
        done = {"started": 1, "failed": 0, "dead_lettered": 1, "lost": 0}
        assert json.loads(said) == done
    else:
        assert said == "1 started, 1 dead lettered\n"
    letters = triggering("dlq", "list", "QM1", "--json")
    # Trigger messages are not persistent.
    assert letters.exit_code == ExitCode.NOTHING


@pytest.mark.slow
def test_T2_a_program_is_started_again_when_its_monitor_was_killed(
    queue: Invoke, home: Path, tmp_path: Path
) -> None:
    """Whatever has become of the trigger message, what it was made for is still there.

    The programs that were started live on, and hold nothing that the next monitor needs.
    """
    script, pipe = tmp_path / "outlive.py", tmp_path / "pipe"
    script.write_text(OUTLIVE)
    os.mkfifo(pipe)
    line = shlex.join([sys.executable, str(script), str(pipe)])
    for command in (
        "DEFINE QLOCAL(INITQ)",
        f"DEFINE PROCESS(SERVE) APPLICID('{line}')",
        "ALTER QLOCAL(Q1) DEFPSIST(YES) TRIGGER INITQ(INITQ) PROCESS(SERVE)",
    ):
        assert queue("mqsc", "QM1", "-c", command).exit_code == 0
    assert queue("put", "QM1", "Q1", "hello").exit_code == 0
    with os.fdopen(os.open(pipe, os.O_RDWR)):
        for _ in range(KILLS):
            with subprocess.Popen(
                [*COMMAND, "trigger", "run", "QM1", "INITQ"],
                env=environment(home),
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                assert process.stderr is not None
                assert "waits for trigger messages" in process.stderr.readline()
                assert process.stderr.readline() == "serves Q1\n"
                process.kill()
            assert process.returncode == -signal.SIGKILL
        assert queue("browse", "QM1", "INITQ").exit_code == ExitCode.NOTHING
        assert queue("verify", "QM1").exit_code == ExitCode.DONE
        assert queue("get", "QM1", "Q1").stdout == "hello\n"

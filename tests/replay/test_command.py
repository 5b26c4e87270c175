"""``mayfly replay``: text, JSON, files, and wrong words named."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from mayfly.cli.app import app
from mayfly.cli.outcomes import ExitCode
from tests.replay import lakes

Replay = Callable[..., Result]

TRACE = """queue,put_ms,life_ms,get_ms
Q1,1700000000000,60000,1700000030000
Q1,1700000001000,60000,1700000062000
Q2,1700000002000,60000,1700000003000
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A trace of three messages: got after 30 s, expired a second before its get, got at once."""
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return str(file)


@pytest.fixture
def replay() -> Replay:
    """Run ``mayfly replay``."""
    return lambda *words: CliRunner().invoke(app, ["replay", *words], prog_name="mayfly")


def test_it_says_what_would_have_changed_by_queue_and_by_message(
    replay: Replay, trace: str
) -> None:
    """A cap of 20 s on Q1 loses what was got after 30 s."""
    answer = replay(trace, "--cap", "Q1=20s")
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert lines[0].split()[:4] == ["queue", "messages", "got", "expired"]
    assert lines[1].split("  ")[0] == "Q1"
    assert "1 -> 0" in lines[1]
    assert "->" not in lines[2]
    assert lines[4:7] == [
        "2 messages end otherwise",
        "  expired, at another time: 1",
        "  got -> expired: 1",
    ]
    assert lines[9].split() == ["Q1", "1", *"2023-11-14 22:13:20 got 30.000 expired 20.000".split()]


def test_json_has_settings_queues_and_messages(replay: Replay, trace: str) -> None:
    """What was understood, both sides of each queue, and the messages."""
    answer = replay(trace, "--life", "Q1=2min", "--receive-timeout", "1s", "--json")
    said = json.loads(answer.stdout)
    assert said["settings"]["Q1"]["life_ms"] == 120_000
    assert said["settings"]["Q1"]["receive_timeout_ms"] == 1_000
    assert said["settings"]["*"]["life_ms"] is None
    first, second = said["queues"]
    assert (first["queue"], first["before"]["got"], first["after"]["got"]) == ("Q1", 1, 2)
    assert second["before"] == second["after"]
    assert said["changed"]["turned"] == [{"outcome": "expired", "new_outcome": "got", "count": 1}]
    [message] = said["changed"]["messages"]
    assert (message["seq"], message["new_ended_ms"]) == (2, 1_700_000_062_000)


def test_consumers_of_one_queue_and_a_service_time_for_all(replay: Replay, trace: str) -> None:
    """The service time is for those that have consumers; Q2 stays as it was."""
    answer = replay(trace, "--consumers", "Q1=1", "--service", "5s", "--json")
    assert answer.exit_code == 0, answer.output
    queues = {row["queue"]: row for row in json.loads(answer.stdout)["queues"]}
    assert (queues["Q1"]["after"]["got"], queues["Q1"]["after"]["waited_max_ms"]) == (2, 4_000)
    assert queues["Q2"]["after"] == queues["Q2"]["before"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_all_that_changed_is_written_to_a_file(
    replay: Replay, trace: str, tmp_path: Path, suffix: str
) -> None:
    """However few are printed."""
    out = tmp_path / f"changed.{suffix}"
    answer = replay(trace, "--cap", "Q1=20s", "--messages", "0", "--out", str(out))
    assert answer.exit_code == 0, answer.output
    assert "22:13:20" not in answer.stdout
    if suffix == "csv":
        assert len(pyarrow.csv.read_csv(out)) == 2
    elif suffix == "parquet":
        assert pq.read_table(out)["seq"].to_pylist() == [1, 2]
    else:
        with pyarrow.OSFile(str(out)) as source:
            assert len(pyarrow.ipc.open_file(source).read_all()) == 2


def test_a_lake_is_replayed_and_says_how_well(replay: Replay, tmp_path: Path) -> None:
    """The lives of a real queue manager; half a minute less for everybody costs messages."""
    lake = str(lakes.live(tmp_path, is_by_correl_id=True))
    answer = replay(lake, "--by-correl-id", "--cap", "15s", "--ttl-from", "release")
    assert answer.exit_code == 0, answer.output
    count = lakes.LIFE_COUNT
    assert f"as it was, {count} of {count} messages end as recorded" in answer.stdout
    assert "got -> expired" in answer.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cap", "Q9=5s"], ExitCode.USAGE, "no message of the trace is on queue 'Q9'; it has Q1"),
        (["--cap", "Q1=-5"], ExitCode.USAGE, "--cap Q1=-5: '-5' is not a duration"),
        (["--cap", "Q1=60"], ExitCode.USAGE, "--cap Q1=60: '60' has no unit"),
        (["--cap", "Q1=0"], ExitCode.USAGE, "cap_ms of queue 'Q1' is 0"),
        (["--consumers", "Q1=two"], ExitCode.USAGE, "--consumers Q1=two: 'two' is not a whole"),
        (["--consumers", "Q1=-2"], ExitCode.USAGE, "consumers of queue 'Q1' is -2"),
        (["--ttl-from", "Q1=put"], ExitCode.USAGE, "'put' is not send or release"),
        (["--sequence", "Q1=lifo"], ExitCode.USAGE, "is 'lifo', not priority or fifo"),
        (["--service", "5s"], ExitCode.USAGE, "needs consumers"),
        (["--cap", "Q1=5s", "--cap", "Q1=6s"], ExitCode.USAGE, "--cap is given twice for Q1"),
        (["--by-correl-id"], ExitCode.USAGE, "--by-correl-id is for a lake"),
        (["--master", "local[1]"], ExitCode.USAGE, "--master is for Spark; this replay is in one"),
        (["--out", "changed.xls"], ExitCode.USAGE, "the suffix is not .csv, .parquet or .arrow"),
    ],
)
def test_wrong_words_are_named(
    replay: Replay, trace: str, words: list[str], code: int, said: str
) -> None:
    """One line with the option and its value."""
    answer = replay(trace, *words)
    assert (answer.exit_code, answer.stdout) == (code, "")
    [line] = answer.stderr.splitlines()
    assert said in line


def test_help_asks_for_the_unit_that_a_time_needs(replay: Replay) -> None:
    """As the refusal of ``--cap Q1=60`` does."""
    said = " ".join(replay("--help").stdout.split())
    assert "Times are durations with a unit, as in 5s." in said
    assert "bare number" not in said


def test_nothing_to_replay_has_codes_of_its_own(replay: Replay, tmp_path: Path) -> None:
    """No such file is 4; a trace or a lake in which nothing is, 1."""
    gone = replay(str(tmp_path / "gone.csv"))
    assert (gone.exit_code, "gone.csv" in gone.stderr) == (ExitCode.FILE, True)
    (tmp_path / "empty.csv").write_text("queue,put_ms\n")
    assert replay(str(tmp_path / "empty.csv")).exit_code == ExitCode.NOTHING
    (tmp_path / "lake" / "date=2023-11-14").mkdir(parents=True)
    empty = replay(str(tmp_path / "lake"))
    assert (empty.exit_code, "no lives" in empty.stderr) == (ExitCode.NOTHING, True)


def test_a_terminal_is_told_the_engine_and_why(trace: str) -> None:
    """On stderr; a pipe is told nothing."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "mayfly", "replay", trace]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=follower, check=True)
    os.close(follower)
    said = os.read(leader, 4096).decode()
    os.close(leader)
    assert said == ("mayfly: replay in one process: a file of this kind is read in one process\r\n")
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""

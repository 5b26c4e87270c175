"""``mayfly advise``: the report, JSON, where arrivals come from, and wrong words named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.cli.app import app
from mayfly.cli.outcomes import ExitCode
from mayfly.servers.wire import WireServer
from mayfly.testing import VirtualClock
from tests.replay import lakes

Advise = Callable[..., Result]
TOKEN = "the operator's token"

#: Two messages on Q1, 110 s apart, and one on Q2.
TRACE = "queue,put_ms\nQ1,1700000000000\nQ1,1700000110000\nQ2,1700000000000\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """The trace as a file."""
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return str(file)


@pytest.fixture
def advise() -> Advise:
    """Run ``mayfly advise``."""
    return lambda *words: CliRunner().invoke(app, ["advise", *words], prog_name="mayfly")


def test_the_example_of_the_documentation_is_not_safe(advise: Advise) -> None:
    """Lifetime 120 s, timeout 110 s, 15 s of work: 125 s, and what to do about it."""
    answer = advise("--receive-timeout", "110s", "--lifetime", "120s", "--longest", "15s")
    assert answer.exit_code == ExitCode.NOTHING
    assert "not safe: 10000 ms are left" in answer.stdout
    assert "110 s + 15 s = 125 s, and at 120 s the transaction is marked" in answer.stdout
    assert "recommended: receive timeout 104 s, transaction lifetime 120 s" in answer.stdout
    assert answer.stderr.splitlines() == ["mayfly: the present setting is not safe"]


def test_a_safe_setting_ends_with_0_and_stays(advise: Advise) -> None:
    """A second is left; a setting that is not said yet is no mistake either."""
    answer = advise("--receive-timeout", "104s", "--longest", "15s")
    assert (answer.exit_code, "it is safe" in answer.stdout) == (0, True)
    fresh = advise("--longest", "15s", "--json")
    assert (fresh.exit_code, json.loads(fresh.stdout)["is_safe"]) == (0, None)
    assert json.loads(fresh.stdout)["recommended"]["receive_timeout_ms"] == 104_000


def test_the_arrivals_of_one_queue_of_a_trace(advise: Advise, trace: str) -> None:
    """Two on Q1; one alone on Q2, which has no gaps."""
    answer = advise(trace, "--queue", "Q1", "--longest", "15s")
    assert answer.exit_code == 0, answer.output
    assert "arrivals on Q1: 2 messages from 2023-11-14 22:13:20" in answer.stdout
    assert "32.7 an hour; gaps in s: mean 110.000, p50 110.000" in answer.stdout
    alone = advise(trace, "--queue", "Q2", "--longest", "15s", "--json")
    assert json.loads(alone.stdout)["arrivals"]["gap_mean_ms"] is None


def test_a_late_message_is_seen_in_the_table(advise: Advise, tmp_path: Path) -> None:
    """110 s after the first was done, 15 s of work: rolled back once, never as recommended."""
    file = tmp_path / "late.csv"
    file.write_text("queue,put_ms\nQ1,1700000000000\nQ1,1700000125000\n")
    answer = advise(str(file), "--receive-timeout", "115s", "--longest", "15s")
    rows = {row[:34].strip(): row[34:].split() for row in answer.stdout.splitlines()}
    assert rows["rolled back needlessly"] == ["1", "0"]
    assert rows["redeliveries"] == ["1", "0"]
    assert rows["idle rollbacks"] == ["0", "1"]


def test_a_configuration_file_and_options_over_it(advise: Advise, tmp_path: Path) -> None:
    """What is said on the command line counts."""
    file = tmp_path / "port.properties"
    file.write_text("NON.ASF.RECEIVE.TIMEOUT=110000\nlongest_on_message_ms=15000\n")
    assert advise("--config", str(file)).exit_code == ExitCode.NOTHING
    assert advise("--config", str(file), "--longest", "9999ms").exit_code == ExitCode.DONE


def test_measured_times_from_a_file(advise: Advise, tmp_path: Path) -> None:
    """The longest of them decides."""
    file = tmp_path / "times.csv"
    file.write_text("on_message_ms\n200\n9999\n")
    words = ("--receive-timeout", "110s", "--on-message", str(file))
    assert advise(*words).exit_code == ExitCode.DONE
    file.write_text("on_message_ms\n200\n10000\n")
    assert advise(*words).exit_code == ExitCode.NOTHING
    file.write_text("ms\n200\n")
    wrong = advise(*words)
    assert (wrong.exit_code, "no column 'on_message_ms'; it has ms" in wrong.stderr) == (2, True)
    for times, said in (("", "there is no time"), ("-5\n", "longest_on_message_ms is -5")):
        file.write_text(f"on_message_ms\n{times}")
        wrong = advise(*words)
        assert wrong.exit_code == ExitCode.USAGE
        assert f"times.csv: column 'on_message_ms': {said}" in " ".join(wrong.stderr.split())


def test_the_lake_of_a_queue_manager(advise: Advise, tmp_path: Path) -> None:
    """Half an hour lived by a real one: what expired on the staging queue never came to its own."""
    lake = str(lakes.live(tmp_path))
    counts = []
    for queue in ("Q1", "Q2", "SYSTEM.DDELAY.LOCAL.QUEUE"):
        answer = advise(lake, "--queue", queue, "--longest", "2s", "--json")
        assert answer.exit_code == 0, answer.output
        said = json.loads(answer.stdout)
        counts.append(said["arrivals"]["messages"])
        assert said["after"]["simulated"]["needless"] == 0
    assert sum(counts) == lakes.LIFE_COUNT
    assert min(counts) > 0


def test_the_ledger_of_a_queue_manager_and_its_bothresh(
    advise: Advise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name, and by its folder."""
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager, manager.session() as s:
        manager.mqsc("DEFINE QLOCAL(Q1) BOTHRESH(7)")
        for _ in range(3):
            s.put("Q1", b"x", persistent=True)
            clock.advance(60_000)
            assert s.get("Q1") is not None
    for words in (("--qmgr", "QM1"), (str(tmp_path / "QM1"),)):
        answer = advise(*words, "--longest", "2s", "--json")
        assert answer.exit_code == 0, answer.output
        said = json.loads(answer.stdout)
        assert said["present"]["bothresh"] == 7
        assert said["arrivals"]["gap_mean_ms"] == 60_000


def test_the_ledger_of_a_queue_manager_that_is_served(
    advise: Advise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another machine by its server, in two pages: the advice is that of the folder."""
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    clock = VirtualClock()
    words = ("--queue", "Q1", "--longest", "2s", "--json")
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager, manager.session() as s:
        manager.mqsc("DEFINE QLOCAL(Q1) BOTHRESH(7)")
        for _ in range(1_100):
            s.put("Q1", b"x", persistent=True)
            clock.advance(100)
            assert s.get("Q1") is not None
        admission = Admission([manager.engine], token=TOKEN)
        server = WireServer([manager], admission)
        port = server.listen_tcp("127.0.0.1", 0)
        monkeypatch.setenv("MAYFLY_HOME", str(tmp_path / "elsewhere"))
        there = advise("--qmgr", "QM1", "--url", f"mq://127.0.0.1:{port}", *words)
        refused = advise("--qmgr", "QM2", "--url", f"mq://127.0.0.1:{port}", *words)
        server.close()
        admission.close()
    assert there.exit_code == 0, there.output
    said = json.loads(there.stdout)
    assert (said["present"]["bothresh"], said["arrivals"]["messages"]) == (7, 1_100)
    here = advise(str(tmp_path / "QM1"), *words)
    assert json.loads(here.stdout) == said
    is_named = "MQRC_Q_MGR_NAME_ERROR" in refused.stderr
    assert (refused.exit_code, is_named) == (ExitCode.PIPELINE, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["--url", "mq://x", "--longest", "1s"],
            ExitCode.USAGE,
            "--url mq://x is the server of a queue manager: name that by --qmgr alone",
        ),
        ([], ExitCode.USAGE, "how long does the longest on_message take? Say it with --longest"),
        (["--receive-timeout", "0", "--longest", "1s"], ExitCode.USAGE, "0 is ASF mode"),
        (["--lifetime", "1500ms", "--longest", "1s"], ExitCode.USAGE, "whole number of seconds"),
        (["--on-message", "p50=1s"], ExitCode.USAGE, "--on-message: 'p50=1s' has no max"),
        (["--on-message", "p50=x,max=1s"], ExitCode.USAGE, "--on-message: 'x' is not a duration"),
        (["--sessions", "0", "--longest", "1s"], ExitCode.USAGE, "max_sessions is 0"),
        (["--margin", "0", "--longest", "1s"], ExitCode.USAGE, "margin_ms is 0"),
        (["--idle-per-hour", "0", "--longest", "1s"], ExitCode.USAGE, "idle_per_hour is 0"),
        (["--queue", "Q1", "--longest", "1s"], ExitCode.USAGE, "--queue Q1 of what?"),
        (["TRACE", "--longest", "1s"], ExitCode.USAGE, "there are 2 queues: name one of Q1, Q2"),
        (["TRACE", "--queue", "Q3", "--longest", "1s"], ExitCode.USAGE, "on queue 'Q3'; it has"),
        (["TRACE", "--qmgr", "QM1", "--longest", "1s"], ExitCode.USAGE, "--qmgr is for a lake"),
        (["gone.csv", "--longest", "1s"], ExitCode.FILE, "at gone.csv"),
        (["--config", "gone.toml", "--longest", "1s"], ExitCode.FILE, "gone.toml"),
        (["--qmgr", "NONE", "--longest", "1s"], ExitCode.MQ, "there is no queue manager in"),
    ],
)
def test_wrong_words_are_named(
    advise: Advise, trace: str, words: list[str], code: int, said: str
) -> None:
    """With the option or field and its value, and nothing on stdout."""
    answer = advise(*(trace if word == "TRACE" else word for word in words))
    assert (answer.exit_code, answer.stdout) == (code, "")
    assert said in " ".join(answer.stderr.split())


def test_an_empty_trace_has_a_code_of_its_own(advise: Advise, tmp_path: Path) -> None:
    """1, as everywhere where nothing is there."""
    (tmp_path / "empty.csv").write_text("queue,put_ms\n")
    empty = advise(str(tmp_path / "empty.csv"), "--longest", "1s")
    assert (empty.exit_code, "no message in" in empty.stderr) == (ExitCode.NOTHING, True)
    (tmp_path / "lake" / "date=2023-11-14").mkdir(parents=True)
    assert advise(str(tmp_path / "lake"), "--longest", "1s").exit_code == ExitCode.NOTHING

"""``mayfly ledger`` on a lake: what is printed, and what is refused before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mayfly.cli.ledger import _print_books
from mayfly.cli.outcomes import ExitCode
from mayfly.lifetime.life import OUTCOMES, State
from mayfly.spark.report import QueueBalance, QueueReport
from tests.bulk.books import START_MS, life
from tests.cli.conftest import Invoke, environment
from tests.spark.lakes import balance, write_lake


def report_of(queue: str, balance: QueueBalance | None) -> QueueReport:
    owed = {"exception": 1, "expiration": 2, "coa": 3, "cod": 4_000}
    counts = {outcome.value: 0 for outcome in OUTCOMES}
    return QueueReport(
        "QM1", queue, 5, counts, 0.0, None, None, None, 0, owed=owed, balance=balance
    )


def test_books_say_whether_they_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    _print_books(
        [
            report_of("GOOD", QueueBalance(START_MS, 1_500, 1_000, 500)),
            report_of("BAD", QueueBalance(START_MS, 2, 1, 0)),
            report_of("NEW", None),
        ]
    )
    empty, head, *lines = capsys.readouterr().out.splitlines()
    assert (empty, head.split()[0]) == ("", "queue")
    assert [line.split() for line in lines] == [
        "GOOD 1,500 1,000 500 yes 1 2 3 4,000".split(),
        "BAD 2 1 0 NO 1 2 3 4,000".split(),
        "NEW - - - - 1 2 3 4,000".split(),
    ]
    assert len({len(line) for line in (head, *lines)}) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "LAKE", "--from", "yesterday"], "'yesterday' is not a moment"),
        (["report", "LAKE", "--from", "2026-01-02", "--to", "2026-01-01"], "is before"),
        (["report", "LAKE", "--from", "2026-01-02T10:30"], "or add --rescan"),
        (["report", "LAKE", "--plot", "a.gif"], "a.gif ends in none of .html, .png"),
        (["export", "LAKE", "a.xls"], "a.xls ends in none of .parquet, .csv"),
        (["export", "LAKE", "a.csv", "--outcome", "eaten"], "'eaten' is not one of got"),
        (["verify", "LAKE", "--until", "0"], "--until"),
    ],
)
def test_wrong_words_are_told_before_anything_starts(
    mayfly: Invoke, tmp_path: Path, words: list[str], said: str
) -> None:
    answer = mayfly("ledger", *[str(tmp_path) if word == "LAKE" else word for word in words])
    assert answer.exit_code == ExitCode.USAGE
    assert said in answer.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["compact", "export"])
def test_a_lake_that_is_not_there_is_named(mayfly: Invoke, verb: str) -> None:
    answer = mayfly("ledger", verb, "/nowhere", *(["a.csv"] if verb == "export" else []))
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr == "mayfly: there is no lake at /nowhere\n"


@pytest.mark.slow
@pytest.mark.spark
def test_report_compact_export_and_verify_of_one_lake(home: Path) -> None:
    lake = home / "lake"
    write_lake(lake, [life(1), life(2, outcome=State.EXPIRED), balance("Q1", 3, 1, got=1)])
    write_lake(lake, [life(3), balance("Q1", 3, 0, got=2, expired=1)], 4)
    text = str(lake)
    picture, lives = home / "report.png", home / "expired.csv"
    plotted, compacted, exported, verified = several(
        home,
        ["ledger", "report", text, "--json", "--plot", str(picture), "--from", "2023-11-14"],
        ["ledger", "compact", text, "--json"],
        ["ledger", "export", text, str(lives), "--outcome", "expired", "--json"],
        ["ledger", "verify", text, "--json"],
    )
    [row] = plotted["answer"]
    assert (row["lives"], row["outcomes"]["expired"]) == (3, 1)
    books = {"at_ms": START_MS, "put": 3, "ended": 3, "present": 0, "is_balanced": True}
    assert row["balance"] == books
    assert picture.stat().st_size > 10_000
    assert compacted["answer"] == {"dates": 1, "files_before": 2, "files_after": 1}
    assert exported["answer"] == {"file": str(lives), "lives": 1}
    assert len(lives.read_text().splitlines()) == 2
    # The balance at position 3 counts one life that ended; two are listed up to there.
    assert (verified["code"], verified["answer"]["ok"]) == (ExitCode.NOTHING, False)
    assert verified["answer"]["first"]["position"] == 3


def several(home: Path, *commands: list[str]) -> list[dict[str, Any]]:
    """Run commands one after the other in one process, so that Java starts once."""
    script = Path(__file__).with_name("several.py")
    answer = subprocess.run(
        [sys.executable, str(script), json.dumps(commands)],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]

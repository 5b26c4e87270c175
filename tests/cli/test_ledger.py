"""``mayfly ledger`` on a lake: what is printed, and what is refused before Spark starts."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from mayfly.cli.ledger import print_books
from mayfly.cli.outcomes import ExitCode
from mayfly.lifetime.life import OUTCOMES
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.queries import QueueBalance, QueueReport
from tests.bulk.books import START_MS
from tests.cli.conftest import Invoke
from tests.lake.made import small_lake
from tests.pages import part


def report_of(queue: str, balance: QueueBalance | None) -> QueueReport:
    owed = {"exception": 1, "expiration": 2, "coa": 3, "cod": 4_000}
    counts = {outcome.value: 0 for outcome in OUTCOMES}
    return QueueReport(
        "QM1", queue, 5, counts, 0.0, None, None, None, 0, owed=owed, balance=balance
    )


def test_books_say_whether_they_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_books(
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


def test_the_report_of_a_small_lake_is_printed(mayfly: Invoke, tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    answer = mayfly("ledger", "report", str(lake), "--json")
    assert answer.exit_code == 0, answer.output
    assert {row["queue"]: row["lives"] for row in json.loads(answer.stdout)} == {
        "Q1": 3,
        "Q2": 2,
        STAGING_QUEUE: 1,
    }
    answer = mayfly("ledger", "report", str(lake), "--queue", "NONE")
    assert (answer.exit_code, answer.stderr) == (ExitCode.NOTHING, f"mayfly: no lives in {lake}\n")
    answer = mayfly("ledger", "report", str(lake), "--queue", "A'B")
    assert answer.exit_code == ExitCode.USAGE


def test_a_damaged_lake_ends_with_one_line(mayfly: Invoke, tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    for file in lake.glob("date=*/*.parquet"):
        file.write_bytes(b"damaged")
    answer = mayfly("ledger", "report", str(lake))
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr.startswith(f"mayfly: lake {lake} cannot be read: ")
    assert len(answer.stderr.splitlines()) == 1


def test_the_documented_commands_print_what_is_shown(
    mayfly: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_lake(tmp_path / "lake")
    monkeypatch.chdir(tmp_path)
    text = part("LAKE.md", "A ledger in a lake")
    _overview, block, *_others = re.findall(
        r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    steps = re.findall(r"^\$ mayfly (.*)\n((?:[^$].*\n|\n)*)", block, re.MULTILINE)
    assert len(steps) == 2
    for command, output in steps:
        answer = mayfly(*shlex.split(command))
        assert (answer.exit_code, answer.stdout) == (0, output), command

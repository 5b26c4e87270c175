"""The commands about a ledger and a lake, from a served queue manager to pictures and proofs."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mayfly.cli.outcomes import ExitCode
from mayfly.lifetime.life import State
from tests.bulk.books import START_MS, life
from tests.cli.conftest import Invoke
from tests.cli.test_processes import WITH_FLIGHT, serving
from tests.spark.lakes import balance, write_lake

pytestmark = pytest.mark.slow


def test_the_ledger_of_a_served_folder_comes_into_a_lake(queue: Invoke, home: Path) -> None:
    """run, report and verify; then verify again when the lake has lost a row."""
    for _ in range(3):
        queue("put", "QM1", "Q1", "x")
        queue("get", "QM1", "Q1")
    lake = str(home / "lake")
    with serving(home, "QM1", *WITH_FLIGHT):
        code, ran = said(queue, "run", lake, "--qmgr", "QM1", "--available-now")
        row_count = ran["rows"]
        assert (code, row_count > 3) == (0, True)
        [status] = json.loads(queue("pipeline", "status", lake, "--json").stdout)
        assert (status["name"], status["state"], status["problems"]) == ("QM1", "done", [])
        assert (status["position"], status["lag_rows"]) == (row_count, 0)
        assert status["progress"]["position"] == row_count
        assert said(queue, "run", lake, "--qmgr", "QM1", "--available-now")[1]["rows"] == 0
        [row] = said(queue, "report", lake)[1]
        assert (row["queue"], row["lives"], row["outcomes"]["got"]) == ("Q1", 3, 3)
        assert said(queue, "verify", lake) == (0, {"ok": True, "rows": row_count, "problems": []})
        lose_a_row(Path(lake))
        code, verified = said(queue, "verify", lake)
        assert (code, verified["ok"]) == (ExitCode.NOTHING, False)
        assert "missing" in verified["problems"][0]


def said(mayfly: Invoke, *words: str) -> tuple[int, Any]:
    """Return exit code and answer of a command of ``mayfly ledger``."""
    answer = mayfly("ledger", *words, "--json")
    assert "Traceback" not in answer.stderr
    return answer.exit_code, json.loads(answer.stdout)


def lose_a_row(lake: Path) -> None:
    """Take the first row out of a file of a lake."""
    file = min(lake.glob("date=*/*.parquet"))
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)


def test_a_lake_is_reported_on_compacted_exported_and_verified(
    mayfly: Invoke, tmp_path: Path
) -> None:
    """Its first balance counts one life too few."""
    lake, picture, lives = tmp_path / "other", tmp_path / "other.png", tmp_path / "other.csv"
    write_lake(lake, [life(1), life(2, outcome=State.EXPIRED), balance("Q1", 3, 1, got=1)])
    write_lake(lake, [life(3), balance("Q1", 3, 0, got=2, expired=1)], 4)
    text = str(lake)
    [row] = said(mayfly, "report", text, "--plot", str(picture), "--from", "2023-11-14")[1]
    assert (row["lives"], row["outcomes"]["expired"]) == (3, 1)
    books = {"at_ms": START_MS, "put": 3, "ended": 3, "present": 0, "is_balanced": True}
    assert row["balance"] == books
    assert picture.stat().st_size > 10_000
    compacted = {"dates": 1, "files_before": 2, "files_after": 1}
    assert said(mayfly, "compact", text) == (0, compacted)
    exported = said(mayfly, "export", text, str(lives), "--outcome", "expired")
    assert exported == (0, {"file": str(lives), "lives": 1})
    assert len(lives.read_text().splitlines()) == 2
    # The balance at position 3 counts one life that ended; two are listed up to there.
    code, verified = said(mayfly, "verify", text)
    assert (code, verified["ok"]) == (ExitCode.NOTHING, False)
    assert verified["first"]["position"] == 3


def test_a_user_is_erased_from_a_served_ledger_and_from_its_lake(queue: Invoke, home: Path) -> None:
    for _ in range(2):
        queue("put", "QM1", "Q1", "x")
        queue("get", "QM1", "Q1")
    lake, me = str(home / "lake"), getpass.getuser()
    with serving(home, "QM1", *WITH_FLIGHT):
        ran = said(queue, "run", lake, "--qmgr", "QM1", "--available-now")[1]
        erasing = ["erase", lake, "--qmgr", "QM1", "--user", me, "--reason", "request 17"]
        code, done = said(queue, *erasing)
        assert (code, [each["row_count"] for each in done]) == (0, [2, 2])
        assert [each["place"] for each in done] == ["QM1", lake]
        assert {(each["by"], each["selected_by"], each["reason"]) for each in done} == {
            (me, "user", "request 17")
        }
        of_ledger = said(queue, "erasures", "--qmgr", "QM1")[1]
        again = queue("ledger", *erasing)
        assert (again.exit_code, again.stdout) == (
            ExitCode.NOTHING,
            f"0 rows erased from QM1\n0 rows erased from {lake}\n",
        )
    [[of_ledger_one], [of_lake]] = of_ledger, said(queue, "erasures", lake)[1]
    assert of_ledger_one["row_count"] == of_lake["row_count"] == 2
    head, line = queue("ledger", "erasures", lake).stdout.splitlines()
    assert head.split() == ["at", "(UTC)", "by", "selected", "by", "rows", "reason"]
    assert line.split()[2:] == [me, "user", "2", "request", "17"]
    assert said(queue, "verify", lake) == (0, {"ok": True, "rows": ran["rows"], "problems": []})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["LAKE"], "give one of --id, --user and --where"),
        (["LAKE", "--user", "a", "--where", "true"], "give one of --id, --user and --where"),
        (["--user", "a"], "give a lake, --qmgr, or both"),
        (["--qmgr", "QM1", "--where", "true"], "--where is for lakes only"),
        (["LAKE", "--user", "a", "--vacuum"], "--vacuum is for lakes of Delta tables"),
        (["LAKE", "--where", "colour = 1"], "'colour = 1' is no condition: "),
    ],
)
def test_a_wrong_erasure_is_refused(
    mayfly: Invoke, tmp_path: Path, words: list[str], text: str
) -> None:
    lake = tmp_path / "lake"
    write_lake(lake, [life(1)])
    given = [str(lake) if word == "LAKE" else word for word in words]
    answer = mayfly("ledger", "erase", *given, "--reason", "x")
    assert answer.exit_code == ExitCode.USAGE
    assert answer.stderr.startswith(f"mayfly: {text}")
    assert "Traceback" not in answer.stderr


def test_a_lake_is_converted_and_the_same_format_refused(mayfly: Invoke, tmp_path: Path) -> None:
    source, target = str(tmp_path / "lake"), str(tmp_path / "tables")
    write_lake(Path(source), [life(1), life(2), balance("Q1", 2, got=2)])
    assert said(mayfly, "convert", source, target) == (0, {"lake": target, "rows": 3})
    assert said(mayfly, "verify", target) == said(mayfly, "verify", source)
    answer = mayfly("ledger", "convert", source, source)
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr == f"mayfly: {source} and {source} are both lakes of Parquet files\n"

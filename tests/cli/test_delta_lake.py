"""``mayfly ledger`` on a lake of Delta tables: no Spark, no Java, from a server to an answer."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

from mayfly.cli.outcomes import ExitCode
from tests.cli.conftest import Invoke, environment
from tests.cli.test_processes import ANY_PORT, serving
from tests.lake.made import small_lake


def answered(mayfly: Invoke, *words: str) -> Any:
    """Return the JSON that a command of ``mayfly ledger`` prints."""
    answer = mayfly("ledger", *words, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture
def lake(queue: Invoke, home: Path) -> Path:
    """The ledger of three messages that were got, in Delta tables."""
    for _ in range(3):
        queue("put", "QM1", "Q1", "x")
        queue("get", "QM1", "Q1")
    folder = home / "lake"
    with serving(home, "QM1", "--flight", ANY_PORT):
        words = ["run", str(folder), "--qmgr", "QM1", "--available-now", "--format", "delta"]
        first = answered(queue, *words)
        assert (first["lake"], first["rows"] > 3) == (str(folder), True)
        # The format of a lake need not be named again; there is nothing new.
        assert answered(queue, *words[:-2])["rows"] == 0
    return folder


def test_a_ledger_is_copied_reported_proved_compacted_and_exported(
    queue: Invoke, lake: Path
) -> None:
    [row] = answered(queue, "report", str(lake))
    assert (row["queue"], row["lives"], row["outcomes"]["got"]) == ("Q1", 3, 3)
    assert row["balance"]["is_balanced"]
    verified = answered(queue, "verify", str(lake))
    assert (verified["ok"], verified["problems"]) == (True, [])
    compacted = answered(queue, "compact", str(lake))
    assert set(compacted) == {"lives", "balances", "reports_owed"}
    assert compacted["lives"]["files_after"] == 1
    exported = lake.parent / "lives.csv"
    assert answered(queue, "export", str(lake), str(exported))["lives"] == 3
    with exported.open() as file:
        [one, *_others] = csv.DictReader(file)
    assert (one["queue"], one["outcome"], len(one["msg_id"])) == ("Q1", "got", 48)
    trace = queue("why", "QM1", one["msg_id"], "--lake", str(lake))
    assert trace.exit_code == 0, trace.output


@pytest.mark.parametrize("lake_format", ["parquet", "delta"])
def test_a_machine_without_spark_needs_none(queue: Invoke, home: Path, lake_format: str) -> None:
    queue("put", "QM1", "Q1", "x")
    queue("get", "QM1", "Q1")
    lake = str(home / "lake")
    commands = [
        ["run", lake, "--qmgr", "QM1", "--available-now", "--format", lake_format],
        *([verb, lake] for verb in ("report", "verify", "compact")),
    ]
    program = (
        "import json, sys; sys.modules['pyspark'] = None; from mayfly.cli.app import app\n"
        "for words in json.loads(sys.argv[1]): app(['ledger', *words], standalone_mode=False)"
    )
    with serving(home, "QM1", "--flight", ANY_PORT):
        answer = subprocess.run(
            [sys.executable, "-c", program, json.dumps(commands)],
            env=environment(home),
            capture_output=True,
            text=True,
            check=False,
        )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "is complete" in answer.stdout


def test_a_lost_row_is_found(queue: Invoke, lake: Path) -> None:
    deltalake.DeltaTable(lake / "lives").delete("position > 0 AND queue = 'Q1' AND body_bytes = 1")
    answer = queue("ledger", "verify", str(lake), "--json")
    assert answer.exit_code == ExitCode.NOTHING
    assert "missing" in json.loads(answer.stdout)["problems"][0]


def test_a_damaged_file_ends_a_question_with_one_line(queue: Invoke, lake: Path) -> None:
    [file] = lake.glob("lives/ended_date=*/*.parquet")
    file.write_bytes(file.read_bytes()[:-8])
    answer = queue("ledger", "report", str(lake))
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr.startswith(f"mayfly: lake {lake} cannot be read: ")
    assert answer.stderr.count("\n") == 1


def test_a_lake_keeps_its_format(queue: Invoke, lake: Path, tmp_path: Path) -> None:
    parquet = small_lake(tmp_path / "parquet")
    for folder, other in ((lake, "parquet"), (parquet, "delta")):
        answer = queue("ledger", "run", str(folder), "--qmgr", "QM1", "--format", other)
        assert answer.exit_code == ExitCode.USAGE
        assert answer.stderr.startswith(f"mayfly: --format {other}: {folder} is a lake of ")


def test_parquet_files_are_refused_at_a_url(mayfly: Invoke) -> None:
    answer = mayfly("ledger", "run", "s3://bucket/lake", "--qmgr", "QM1", "--format", "parquet")
    assert answer.exit_code == ExitCode.USAGE
    assert "s3://bucket/lake is a lake of Delta tables" in answer.stderr

"""``mayfly ledger`` on a lake of Delta tables: no Spark, no Java, from a server to an answer."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest
from typer.testing import Result

from mayfly.cli.outcomes import ExitCode
from tests.cli.conftest import Invoke, environment, run_here
from tests.cli.test_processes import ANY_PORT, serving
from tests.lake.made import small_lake


def answered(mayfly: Invoke, *words: str) -> Any:
    """Return the JSON that a command of ``mayfly ledger`` prints."""
    answer = mayfly("ledger", *words, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def made_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with QM1 and the ledger of three messages that were got, in Delta tables."""
    home = tmp_path_factory.mktemp("made")

    def run(*words: str) -> Result:
        answer = run_here(home, *words)
        assert answer.exit_code == 0, answer.output
        return answer

    run("mqsc", "QM1", "-c", "DEFINE QLOCAL(Q1)")
    for _ in range(3):
        run("put", "QM1", "Q1", "x")
        run("get", "QM1", "Q1")
    lake = str(home / "lake")
    with serving(home, "QM1", "--flight", ANY_PORT):
        words = ["ledger", "run", lake, "--qmgr", "QM1", "--available-now", "--json"]
        first = json.loads(run(*words, "--format", "delta").stdout)
        assert (first["lake"], first["rows"] > 3) == (lake, True)
        # The format of a lake need not be named again; there is nothing new.
        assert json.loads(run(*words).stdout)["rows"] == 0
    return home


@pytest.fixture
def lake(made_home: Path, home: Path) -> Path:
    """A copy of that lake; MAYFLY_HOME has a copy of its queue manager."""
    no_sockets = shutil.ignore_patterns("*.sock")
    shutil.copytree(made_home, home, ignore=no_sockets, dirs_exist_ok=True)
    assert run_here(home, "verify", "QM1", "--accept-restored").exit_code == 0
    return home / "lake"


def test_a_ledger_is_copied_reported_proved_compacted_and_exported(
    mayfly: Invoke, lake: Path
) -> None:
    [row] = answered(mayfly, "report", str(lake))
    assert (row["queue"], row["lives"], row["outcomes"]["got"]) == ("Q1", 3, 3)
    assert row["balance"]["is_balanced"]
    verified = answered(mayfly, "verify", str(lake))
    assert (verified["ok"], verified["problems"]) == (True, [])
    compacted = answered(mayfly, "compact", str(lake))
    assert set(compacted) == {"lives", "balances", "reports_owed"}
    assert compacted["lives"]["files_after"] == 1
    exported = lake.parent / "lives.csv"
    assert answered(mayfly, "export", str(lake), str(exported))["lives"] == 3
    with exported.open() as file:
        [one, *_others] = csv.DictReader(file)
    assert (one["queue"], one["outcome"], len(one["msg_id"])) == ("Q1", "got", 48)
    trace = mayfly("why", "QM1", one["msg_id"], "--lake", str(lake))
    assert trace.exit_code == 0, trace.output


@pytest.mark.long
@pytest.mark.parametrize("lake_format", ["delta", pytest.param("parquet", marks=pytest.mark.soak)])
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


def test_a_lost_row_is_found(mayfly: Invoke, lake: Path) -> None:
    deltalake.DeltaTable(lake / "lives").delete("position > 0 AND queue = 'Q1' AND body_bytes = 1")
    answer = mayfly("ledger", "verify", str(lake), "--json")
    assert answer.exit_code == ExitCode.NOTHING
    assert "missing" in json.loads(answer.stdout)["problems"][0]


def test_a_damaged_file_ends_a_question_with_one_line(mayfly: Invoke, lake: Path) -> None:
    [file] = lake.glob("lives/ended_date=*/*.parquet")
    file.write_bytes(file.read_bytes()[:-8])
    answer = mayfly("ledger", "report", str(lake))
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr.startswith(f"mayfly: lake {lake} cannot be read: ")
    assert answer.stderr.count("\n") == 1


def test_a_lake_keeps_its_format(mayfly: Invoke, lake: Path, tmp_path: Path) -> None:
    parquet = small_lake(tmp_path / "parquet")
    for folder, other in ((lake, "parquet"), (parquet, "delta")):
        answer = mayfly("ledger", "run", str(folder), "--qmgr", "QM1", "--format", other)
        assert answer.exit_code == ExitCode.USAGE
        assert answer.stderr.startswith(f"mayfly: --format {other}: {folder} is a lake of ")


def test_parquet_files_are_refused_at_a_url(mayfly: Invoke) -> None:
    answer = mayfly("ledger", "run", "s3://bucket/lake", "--qmgr", "QM1", "--format", "parquet")
    assert answer.exit_code == ExitCode.USAGE
    assert "s3://bucket/lake is a lake of Delta tables" in answer.stderr

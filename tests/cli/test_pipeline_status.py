"""pipeline status: what a run, its checkpoint, its lake and its queue managers say; no Spark."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly import QueueManager
from mayfly.cli import run_notes
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.pipeline import statuses
from mayfly.cli.run_notes import CopiedLedger, RunKind, RunState, lake_key, noted
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.lake.delta import DeltaLake
from mayfly.pipeline.lake.parquet import ParquetLake
from mayfly.pipeline.progress import LedgerProgress, Progress
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN, life
from tests.bulk.lives import live, queue_manager
from tests.cli.conftest import ROOT, Invoke, environment
from tests.cli.test_claims import checkpoint
from tests.cli.test_pipeline import PIPELINE
from tests.cli.test_processes import ANY_PORT, serving
from tests.facts import wait_until
from tests.ports import held_port
from tests.spark.lakes import INSTANCE, rows_of

STANDING = Progress(
    "calls", batch=1, batch_rows=20, batches=2, rows_in=1_200, held=200, lag_ms=1_700
)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[QueueManager]:
    """QM1 with the queues Q1 and Q2."""
    (tmp_path / "token").write_text(TOKEN)
    with queue_manager(tmp_path / "QM1") as opened:
        yield opened


@pytest.fixture
def url(manager: QueueManager) -> Iterator[str]:
    """The server of QM1."""
    with FlightServer(manager, port=0, token=TOKEN) as server:
        yield server.url


def written(folder: Path, url: str) -> Path:
    """Write a pipeline down that reads Q1 at a server."""
    file = folder / "calls.toml"
    file.write_text(PIPELINE.format(url=url, queue="Q1"))
    return file


def asked(mayfly: Invoke, *places: str | Path) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the JSON of a status."""
    answer = mayfly("pipeline", "status", *map(str, places), "--json")
    return answer.exit_code, json.loads(answer.stdout)


def run_once(file: Path, end: RunState, text: str = "") -> None:
    """Note a run of a pipeline that shows one snapshot and ends."""
    with noted(RunKind.PIPELINE, str(file), print) as note:
        assert note is not None
        note.show(STANDING, is_up=True)
        note.end(end, text)


def test_where_nothing_has_run_there_is_nothing_to_tell(mayfly: Invoke, home: Path) -> None:
    answer = mayfly("pipeline", "status")
    assert (answer.exit_code, answer.stdout) == (ExitCode.NOTHING, "")
    assert answer.stderr == "mayfly: no pipeline and no ledger run is known here\n"
    assert asked(mayfly) == (ExitCode.NOTHING, [])
    assert list(home.iterdir()) == []


def test_a_run_that_works_is_told_with_batch_lag_rows_and_claims(
    mayfly: Invoke, tmp_path: Path, manager: QueueManager, url: str
) -> None:
    file = written(tmp_path, url)
    with manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x", persistent=True)
    epoch = manager.claims.attach("billing", "Q1").epoch
    manager.claims.claim("billing", epoch, 0, ClaimLimit(2, 100))
    folder = checkpoint(tmp_path / "checkpoint", manager.ledger.instance_id, 0, 0, 1, committed=2)
    os.utime(folder / "commits" / "1", (1_700_000_000, 1_700_000_000))
    with noted(RunKind.PIPELINE, str(file), print) as note:
        assert note is not None
        note.show(STANDING, is_up=True)
        code, [told] = asked(mayfly, file)
        text = mayfly("pipeline", "status").stdout.splitlines()
    assert (code, told["state"], told["problems"]) == (0, "running", [])
    assert (told["name"], told["process"], told["place"]) == ("calls", os.getpid(), str(file))
    assert told["progress"] == json.loads(json.dumps(STANDING._asdict()))
    assert told["batches"] == {"committed": 1, "committed_ms": 1_700_000_000_000, "unfinished": 2}
    [claims] = told["claims"]
    age_ms = claims.pop("oldest_age_ms")
    assert 0 <= age_ms < 60_000
    held = {"claim_count": 1, "message_count": 2}
    assert claims == {"url": url, "queue": "Q1", "consumer": "billing", **held}
    head, batch, counts, claim = text
    assert head.startswith("calls: running since ")
    assert head.endswith(f" UTC, process {os.getpid()}  ({file})")
    assert batch.startswith("  last batch 1: 2023-11-14 22:13:20 UTC, ")
    assert batch.endswith(" ago, 20 rows, batch 2 is not finished")
    assert counts.startswith("  calls  in 1,200  held 200  ")
    assert counts.endswith("  lag 1.7 s")
    assert claim.startswith("  billing holds 2 messages of Q1 in 1 claim, the oldest ")
    assert claim.endswith(f"  ({url})")


@pytest.mark.parametrize("end", [RunState.STOPPED, RunState.DONE])
def test_a_run_that_was_ended_in_good_order_needs_no_look(
    mayfly: Invoke, tmp_path: Path, url: str, end: RunState
) -> None:
    file = written(tmp_path, url)
    run_once(file, end)
    code, [told] = asked(mayfly)
    assert (code, told["state"], told["problems"]) == (0, end.value, [])
    head = mayfly("pipeline", "status").stdout.splitlines()[0]
    assert head.startswith(f"calls: {end.value} since ")
    assert "process" not in head


def test_a_run_that_has_failed_says_why(mayfly: Invoke, tmp_path: Path, url: str) -> None:
    file = written(tmp_path, url)
    run_once(file, RunState.FAILED, "Spark: out of memory")
    answer = mayfly("pipeline", "status")
    assert answer.exit_code == ExitCode.NOTHING
    assert answer.stdout.splitlines()[0].startswith("calls: failed since ")
    assert answer.stdout.splitlines()[-1] == "  problem: Spark: out of memory"
    assert answer.stderr == "mayfly: 1 run needs a look\n"


def test_a_run_that_waits_for_a_restart_says_what_has_failed(
    mayfly: Invoke, tmp_path: Path, url: str
) -> None:
    file = written(tmp_path, url)
    with noted(RunKind.PIPELINE, str(file), print) as note:
        assert note is not None
        note.show(STANDING, is_up=True)
        note.show(STANDING, is_up=False, failure="no server answers")
        code, [told] = asked(mayfly)
        assert (code, told["state"]) == (ExitCode.NOTHING, "restarting")
        assert told["problems"] == ["no server answers"]
        note.show(STANDING, is_up=True)
        assert asked(mayfly)[0] == 0


def test_an_error_that_ends_a_run_is_noted(mayfly: Invoke, tmp_path: Path, url: str) -> None:
    file = str(written(tmp_path, url))
    with (
        pytest.raises(CommandFailed, match="no Java"),
        noted(RunKind.PIPELINE, file, print),
    ):
        raise CommandFailed(ExitCode.PIPELINE, "no Java")
    _code, [told] = asked(mayfly)
    assert (told["state"], told["problems"]) == ("failed", ["no Java"])
    with pytest.raises(KeyboardInterrupt), noted(RunKind.PIPELINE, file, print):
        raise KeyboardInterrupt
    _code, [told] = asked(mayfly)
    assert (told["state"], told["problems"]) == ("interrupted", ["it was interrupted"])


def test_a_run_that_has_just_gone_on_does_not_know_the_rows_of_the_last_batch(
    mayfly: Invoke, tmp_path: Path, manager: QueueManager, url: str
) -> None:
    file = written(tmp_path, url)
    checkpoint(tmp_path / "checkpoint", manager.ledger.instance_id, 0, 0, committed=2)
    with noted(RunKind.PIPELINE, str(file), print) as note:
        assert note is not None
        note.show(Progress("calls", batch=1), is_up=True)
        _head, batch, _counts, claims = mayfly("pipeline", "status").stdout.splitlines()
    assert batch.startswith("  last batch 1: ")
    assert batch.endswith(" ago")
    assert claims == f"  billing holds no messages of Q1  ({url})"


@pytest.mark.slow
def test_a_killed_run_is_told_from_one_that_works_and_may_start_again(
    mayfly: Invoke, home: Path, tmp_path: Path, url: str
) -> None:
    """And a second one of the same file is refused while the first lives."""
    file = str(written(tmp_path, url))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.drive_run_note", file],
        cwd=ROOT,
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        code, [told] = asked(mayfly)
        assert (code, told["state"], told["process"]) == (0, "running", process.pid)
        with (
            pytest.raises(CommandFailed, match=f"another process runs {file}"),
            noted(RunKind.PIPELINE, file, print),
        ):
            pass
    finally:
        process.kill()
        process.communicate()
    code, [told] = asked(mayfly)
    assert (code, told["state"]) == (ExitCode.NOTHING, "killed")
    died = f"process {process.pid} has died in the midst of its work: start it again"
    assert told["problems"] == [died]
    head = mayfly("pipeline", "status").stdout.splitlines()[0]
    assert head.startswith("calls: killed; had run since ")
    run_once(Path(file), RunState.STOPPED)
    assert asked(mayfly)[0] == 0


def test_a_server_that_is_away_is_named_and_the_rest_is_told(
    mayfly: Invoke, tmp_path: Path, manager: QueueManager
) -> None:
    with held_port() as port:
        file = written(tmp_path, f"grpc://127.0.0.1:{port}")
        run_once(file, RunState.STOPPED)
        code, [told] = asked(mayfly)
        assert (code, told["state"], told["claims"]) == (ExitCode.NOTHING, "stopped", [])
        [problem] = told["problems"]
        assert problem.startswith(f"no Mayfly server answers at grpc://127.0.0.1:{port}: ")


@pytest.mark.slow
def test_a_server_that_says_nothing_is_waited_for_some_seconds_only(
    mayfly: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.cli.pipeline._ANSWER_SECONDS", 0.2)
    (tmp_path / "token").write_text(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        run_once(written(tmp_path, f"grpc://127.0.0.1:{silent.getsockname()[1]}"), RunState.STOPPED)
        code, [told] = asked(mayfly)
    assert code == ExitCode.NOTHING
    [problem] = told["problems"]
    assert problem.startswith("no Mayfly server answers at ")


def test_a_file_that_has_not_run_here_is_told_by_its_checkpoint(
    mayfly: Invoke, tmp_path: Path, manager: QueueManager, url: str
) -> None:
    file = written(tmp_path, url)
    checkpoint(tmp_path / "checkpoint", manager.ledger.instance_id, 0, committed=1)
    code, [told] = asked(mayfly, file)
    assert (code, told["state"], told["name"]) == (ExitCode.NOTHING, "new", "calls")
    assert (told["batches"]["committed"], told["batches"]["unfinished"]) == (0, None)
    assert told["problems"] == [f"no run of {file} is known on this machine"]


def test_a_file_that_is_no_pipeline_is_a_mistake_and_one_that_is_gone_a_problem(
    mayfly: Invoke, tmp_path: Path, url: str
) -> None:
    file = written(tmp_path, url)
    run_once(file, RunState.STOPPED)
    file.write_text("triger = 1\n" + file.read_text())
    answer = mayfly("pipeline", "status", str(file))
    assert (answer.exit_code, answer.stdout) == (ExitCode.PIPELINE, "")
    assert answer.stderr.startswith(f"mayfly: {file}, line 1: triger: is no key here")
    file.unlink()
    assert mayfly("pipeline", "status", str(file)).exit_code == ExitCode.FILE
    code, [told] = asked(mayfly)
    assert (code, told["name"], told["state"]) == (ExitCode.NOTHING, "calls", "stopped")
    assert told["problems"] == [f"{file}: No such file or directory"]


def test_a_note_that_is_damaged_or_of_a_version_to_come_does_no_harm(
    mayfly: Invoke, home: Path, tmp_path: Path, url: str
) -> None:
    run_once(written(tmp_path, url), RunState.STOPPED)
    [file] = (home / "pipeline-runs").glob("*.json")
    note = json.loads(file.read_text())
    later = {**note, "colour": "red", "progress": {**note["progress"], "smell": 1}}
    file.write_text(json.dumps(later))
    assert asked(mayfly)[1][0]["progress"]["rows_in"] == 1_200
    for damaged in ("", "[]", "{}", '{"kind": "pipeline"}', json.dumps({**note, "state": "odd"})):
        file.write_text(damaged)
        assert asked(mayfly) == (ExitCode.NOTHING, [])


def test_a_home_that_cannot_be_written_does_not_keep_a_run_from_work(
    mayfly: Invoke, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path / "file"))
    said: list[str] = []
    with noted(RunKind.PIPELINE, "/x.toml", said.append) as note:
        assert note is None
    [text] = said
    assert text.startswith("mayfly pipeline status will not know of it: ")


# Ledger runs


def of_ledger(url: str, token_file: Path, instance_id: str, manager: str = "QM1") -> CopiedLedger:
    return CopiedLedger(url, str(token_file), manager, instance_id)


def test_a_ledger_run_is_told_by_the_positions_of_its_delta_tables_and_its_ledger(
    mayfly: Invoke, tmp_path: Path, manager: QueueManager, url: str
) -> None:
    """A killed run may have committed more than it has said."""
    live(manager, 8)
    with LedgerClient(url, token=TOKEN) as client:
        info = client.info()
    lake = tmp_path / "lake"
    with closing(DeltaLake(lake, info.instance_id)) as tables:
        tables.add(rows_of(life(1), life(2), life(3)), 3)
    ledger = of_ledger(url, tmp_path / "token", info.instance_id)
    with noted(RunKind.LEDGER, lake_key(str(lake)), print, ledger) as note:
        assert note is not None
        begun = LedgerProgress("QM1", str(lake), position=1, end_position=1)
        note.show(begun.with_commit(2, 2, 1_700_000_000_000), is_up=True)
        code, [told] = asked(mayfly, lake)
        lines = mayfly("pipeline", "status").stdout.splitlines()
    assert (code, told["name"], told["kind"], told["state"]) == (0, "QM1", "ledger", "running")
    # Balance rows come in their own time.
    end = told["end_position"]
    assert info.last_position <= end <= manager.ledger.last_position()
    assert (told["position"], told["lag_rows"]) == (3, end - 3)
    assert told["batch_ended_ms"] == 1_700_000_000_000
    assert lines[0].startswith("ledger of QM1: running since ")
    assert lines[1].startswith("  last commit: 2023-11-14 22:13:20 UTC, ")
    shown = re.fullmatch(r"  position 3 of (\d+): (\d+) rows behind", lines[2])
    assert shown is not None
    assert int(shown[1]) - 3 == int(shown[2]) >= end - 3


def test_a_ledger_run_into_parquet_is_told_by_the_mark_of_its_lake(
    mayfly: Invoke, tmp_path: Path, manager: QueueManager, url: str
) -> None:
    live(manager, 8)
    lake = tmp_path / "lake"
    with LedgerClient(url, token=TOKEN) as client:
        info = client.info()
        with closing(ParquetLake(lake, info.instance_id)) as target:
            rows = list(client.read(0, 5, instance_id=info.instance_id))
            target.add(pa.Table.from_batches(rows, LEDGER), 5)
    with noted(
        RunKind.LEDGER, str(lake), print, of_ledger(url, tmp_path / "token", info.instance_id)
    ) as note:
        assert note is not None
        note.show(LedgerProgress("QM1", str(lake)), is_up=True)
        code, [told] = asked(mayfly, lake)
    end = told["end_position"]
    assert info.last_position <= end <= manager.ledger.last_position()
    assert (code, told["position"], told["lag_rows"], told["batches"]) == (0, 5, end - 5, None)


def test_two_ledgers_of_one_lake_are_two_runs(mayfly: Invoke, tmp_path: Path) -> None:
    lake = "s3://bucket/lake/"
    with held_port() as port:
        for manager, instance in (("QM1", INSTANCE), ("QM2", "b" * 32)):
            ledger = of_ledger(f"grpc://127.0.0.1:{port}", tmp_path / "token", instance, manager)
            (tmp_path / "token").write_text(TOKEN)
            with noted(RunKind.LEDGER, lake_key(lake), print, ledger) as note:
                assert note is not None
                note.show(LedgerProgress(manager, lake, position=7), is_up=True)
                note.end(RunState.STOPPED)
        code, told = asked(mayfly, "s3://bucket/lake")
    assert code == ExitCode.NOTHING
    # An object store is not asked: this is what the run said last.
    assert [(each["name"], each["position"], each["end_position"]) for each in told] == [
        ("QM1", 7, None),
        ("QM2", 7, None),
    ]


@pytest.mark.parametrize("place", ["file://elsewhere/calls.toml", "file://elsewhere/lake"])
def test_a_place_of_another_machine_is_a_mistake(mayfly: Invoke, place: str) -> None:
    answer = mayfly("pipeline", "status", place)
    assert (answer.exit_code, answer.stdout) == (ExitCode.USAGE, "")
    assert answer.stderr.startswith(f"mayfly: {place} is a file of another machine")


def test_a_lake_that_nothing_is_known_of_is_told_so(mayfly: Invoke, tmp_path: Path) -> None:
    code, [told] = asked(mayfly, tmp_path / "lake")
    assert (code, told["state"], told["position"]) == (ExitCode.NOTHING, "new", None)
    assert told["problems"] == [f"no run of {tmp_path / 'lake'} is known on this machine"]


@pytest.mark.slow
@pytest.mark.long
def test_a_ledger_run_shows_itself_works_is_killed_and_goes_on(queue: Invoke, home: Path) -> None:
    """Real processes: metrics over HTTP and the status, until a kill, and of the next run."""
    from urllib.request import urlopen

    for _ in range(3):
        queue("put", "QM1", "Q1", "x")
        queue("get", "QM1", "Q1")
    lake = str(home / "lake")
    words = ["ledger", "run", lake, "--qmgr", "QM1", "--format", "delta"]
    with serving(home, "QM1", "--flight", ANY_PORT):
        process = subprocess.Popen(
            [sys.executable, "-m", "mayfly", *words, "--metrics-listen", ANY_PORT, "--json"],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            batch = json.loads(process.stdout.readline())
            said, _, metrics_url = process.stderr.readline().rpartition(" ")
            assert said == "mayfly: metrics at"

            def shown(name: str) -> float:
                with urlopen(metrics_url.strip()) as answer:
                    text = answer.read().decode()
                lines = [line for line in text.splitlines() if line.startswith(name + "{")]
                return float(lines[0].rpartition(" ")[2])

            wait_until(lambda: shown("mayfly_ledger_run_lag_rows") == 0)
            assert shown("mayfly_ledger_run_up") == 1
            assert shown("mayfly_ledger_run_rows_total") == batch["rows"]
            assert shown("mayfly_ledger_run_last_commit_timestamp_seconds") > 1_700_000_000
            position = shown("mayfly_ledger_run_position")
            code, [told] = asked(queue)
            assert (code, told["state"], told["process"]) == (0, "running", process.pid)
            assert (told["position"], told["end_position"]) == (position, position)
        finally:
            process.kill()
            process.communicate()
        code, [told] = asked(queue)
        assert (code, told["state"], told["position"]) == (1, "killed", position)
        queue("put", "QM1", "Q1", "y")
        queue("get", "QM1", "Q1")
        assert asked(queue)[1][0]["lag_rows"] > 0

        def has_all() -> bool:
            assert queue(*words, "--available-now").exit_code == 0
            code, [told] = asked(queue)
            assert (code, told["state"]) == (0, "done")
            return bool(told["lag_rows"] == 0)

        # Balance rows come in their own time.
        wait_until(has_all)
    assert queue("ledger", "verify", lake).exit_code == 0


def test_neither_spark_nor_the_engine_is_loaded(home: Path, tmp_path: Path, url: str) -> None:
    """They take seconds, and a status is asked often."""
    run_once(written(tmp_path, url), RunState.STOPPED)
    program = (
        "import sys; from mayfly.cli.app import app\n"
        "app(['pipeline', 'status'], standalone_mode=False)\n"
        "print(*{'pyspark', 'mayfly.engine', 'duckdb', 'deltalake'} & sys.modules.keys())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[-1] == ""


def test_statuses_are_for_programs_too(home: Path, tmp_path: Path, url: str) -> None:
    file = written(tmp_path, url)
    run_once(file, RunState.DONE)
    [status] = statuses([str(file)])
    assert (status.name, status.note.state, status.problems) == ("calls", RunState.DONE, ())
    assert status.note == run_notes.notes_at(RunKind.PIPELINE, str(file))[0]

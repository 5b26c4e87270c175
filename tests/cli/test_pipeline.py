"""pipeline: what is wrong with a file, a server or a port is one line, before Java starts."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest
from rich.console import Console
from rich.spinner import Spinner

from mayfly.cli.outcomes import ExitCode
from mayfly.cli.pipeline import Watcher, end_of_run, progress_line, watching
from mayfly.pipeline.progress import Progress
from mayfly.pipeline.supervise import RunResult, Termination
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.bulk.lives import queue_manager
from tests.cli.conftest import ROOT, Invoke

PIPELINE = """
name = "calls"
checkpoint = "checkpoint"
[[source]]
kind = "queue"
url = "{url}"
token_file = "token"
queue = "{queue}"
consumer = "billing"
[[sink]]
name = "orders"
kind = "queue"
url = "{url}"
token_file = "token"
queue = "Q2"
"""
STANDING = Progress("calls", batch=7, batches=1, rows_in=1_200, held=200, released=1_000)


def one_line(text: str) -> str:
    [line] = text.splitlines()
    assert line.startswith("mayfly: ")
    return line


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A served queue manager with the queues Q1 and Q2."""
    (tmp_path / "token").write_text(TOKEN)
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        yield server.url


def written(folder: Path, url: str, *, queue: str = "Q1", more: str = "") -> str:
    file = folder / "calls.toml"
    file.write_text(more + PIPELINE.format(url=url, queue=queue))
    return str(file)


@pytest.mark.parametrize("command", ["run", "check", "explain", "status"])
def test_every_command_has_help_with_an_example(mayfly: Invoke, command: str) -> None:
    answer = mayfly("pipeline", command, "--help")
    assert answer.exit_code == 0
    assert f"  mayfly pipeline {command} calls.toml" in answer.output.partition("Example")[2]


def test_explain_says_what_goes_where(mayfly: Invoke, tmp_path: Path) -> None:
    answer = mayfly("pipeline", "explain", written(tmp_path, "grpc://127.0.0.1:1"))
    assert answer.exit_code == 0, answer.output
    for word in ("calls", "q1", "billing", "q2", "exactly once"):
        assert word in answer.stdout.lower()


@pytest.mark.slow
def test_a_pipeline_that_fits_its_queues_can_be_run(
    mayfly: Invoke, tmp_path: Path, url: str
) -> None:
    file = written(tmp_path, url)
    answer = mayfly("pipeline", "check", file, "--without-spark")
    assert (answer.exit_code, answer.stdout.splitlines()[-1]) == (0, f"{file} can be run")
    answer = mayfly("pipeline", "check", file, "--without-spark", "--json")
    assert json.loads(answer.stdout)["ok"] is True


@pytest.mark.slow
def test_a_queue_that_is_not_there_is_found_by_check_and_ends_run_at_once(
    mayfly: Invoke, tmp_path: Path, url: str
) -> None:
    file = written(tmp_path, url, queue="NOPE")
    answer = mayfly("pipeline", "check", file)
    assert answer.exit_code == ExitCode.NOTHING
    assert "NOPE" in answer.stdout
    assert one_line(answer.stderr) == f"mayfly: 1 problem in {file}"
    [problem] = json.loads(mayfly("pipeline", "check", file, "--json").stdout)["problems"]
    assert "NOPE" in problem["text"]
    answer = mayfly("pipeline", "run", file)
    assert (answer.exit_code, answer.stdout) == (ExitCode.PIPELINE, "")
    assert "NOPE" in one_line(answer.stderr)


@pytest.mark.slow
def test_a_wrong_token_or_server_ends_run_at_once(mayfly: Invoke, tmp_path: Path, url: str) -> None:
    file = written(tmp_path, url)
    (tmp_path / "token").write_text("guessed")
    answer = mayfly("pipeline", "run", file)
    assert answer.exit_code == ExitCode.PIPELINE
    assert "token" in one_line(answer.stderr)
    answer = mayfly("pipeline", "run", written(tmp_path, "grpc://127.0.0.1:1"))
    assert answer.exit_code == ExitCode.PIPELINE
    assert "grpc://127.0.0.1:1" in one_line(answer.stderr)


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_key_that_is_not_known_is_named(mayfly: Invoke, tmp_path: Path, command: str) -> None:
    file = written(tmp_path, "grpc://127.0.0.1:1", more='triger = "1 second"\n')
    answer = mayfly("pipeline", command, file)
    assert answer.exit_code == ExitCode.PIPELINE
    line = one_line(answer.stderr)
    assert file in line
    assert "triger" in line


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("triger = 1", "triger", "is no key here, did you mean 'trigger'?"),
        ("= = =", "FILE", "is not TOML: Invalid statement (at line 1, column 1)"),
        ("a = " + "[" * 100_000, "FILE", "is not TOML: "),
        ("a = '\ud800'", "FILE", "is not TOML: 'utf-8' codec can't decode"),
    ],
    ids=range(4),
)
def test_a_file_that_is_wrong_is_a_problem_that_check_finds(
    mayfly: Invoke, tmp_path: Path, text: str, where: str, said: str
) -> None:
    """Exit code 1, as for every other problem; --json lists it."""
    file = tmp_path / "calls.toml"
    more = PIPELINE.format(url="grpc://127.0.0.1:1", queue="Q1")
    file.write_bytes(f"{text}\n{more}".encode(errors="surrogatepass"))
    answer = mayfly("pipeline", "check", str(file))
    assert answer.exit_code == ExitCode.NOTHING
    assert one_line(answer.stderr) == f"mayfly: 1 problem in {file}"
    answer = mayfly("pipeline", "check", str(file), "--json")
    [problem] = json.loads(answer.stdout)["problems"]
    assert (answer.exit_code, problem["where"]) == (1, where.replace("FILE", str(file)))
    assert said in problem["text"]


def test_a_file_that_is_not_there_is_named(mayfly: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "nothing.toml"
    answer = mayfly("pipeline", "run", str(file))
    assert answer.exit_code == ExitCode.FILE
    assert one_line(answer.stderr) == f"mayfly: {file}: No such file or directory"


@pytest.mark.slow
def test_metrics_that_cannot_be_shown_are_found_before_java_starts(
    mayfly: Invoke, tmp_path: Path, url: str
) -> None:
    file = written(tmp_path, url)
    nowhere = tmp_path / "nowhere" / "calls.prom"
    answer = mayfly("pipeline", "run", file, "--metrics-file", str(nowhere))
    assert answer.exit_code == ExitCode.FILE
    assert one_line(answer.stderr) == f"mayfly: {nowhere}: No such file or directory"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = mayfly("pipeline", "run", file, "--metrics-listen", address)
    assert answer.exit_code == ExitCode.PIPELINE
    line = one_line(answer.stderr)
    assert line == f"mayfly: --metrics-listen {address}: Address already in use"


def test_an_address_for_metrics_that_is_none_is_a_mistake(mayfly: Invoke, tmp_path: Path) -> None:
    answer = mayfly("pipeline", "run", str(tmp_path / "x.toml"), "--metrics-listen", "9415")
    assert answer.exit_code == ExitCode.USAGE
    assert "'9415' is not HOST:PORT, as in 127.0.0.1:1414" in answer.stderr


def test_the_status_tells_counts_lag_and_what_is_not_known() -> None:
    assert progress_line(STANDING) == (
        "calls  in 1,200  held 200  released 1,000  expired 0  refused 0  reports 0"
    )
    late = progress_line(STANDING._replace(held=None, lag_ms=1_250, restarts=2))
    assert "held ?" in late
    assert late.endswith("lag 1.2 s  restarts 2")


def test_in_a_pipe_only_what_goes_wrong_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = io.StringIO()
    with watching(terminal, "calls", as_json=False) as watcher:
        watcher.started(Progress("calls"))
        watcher.batch(STANDING)
        assert terminal.getvalue() == ""
        watcher.restarting(STANDING, "no [Mayfly] server answers", 1_500)
    said = "mayfly: no [Mayfly] server answers; starting again in 1.5 s\n"
    assert (terminal.getvalue(), capsys.readouterr().out) == (said, "")


def test_json_is_a_line_for_each_batch_that_moved_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watcher = Watcher(Console(file=io.StringIO()), Spinner("dots"), as_json=True)
    watcher.started(Progress("calls", batch=6))
    watcher.batch(STANDING)
    watcher.batch(STANDING._replace(batch=8))
    watcher.batch(STANDING._replace(batch=9, expired=1))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["batch"], line["rows_in"], line["expired"]) for line in lines] == [
        (7, 1_200, 0),
        (9, 1_200, 1),
    ]


def test_on_a_terminal_the_line_changes_with_each_batch() -> None:
    spinner = Spinner("dots")
    watcher = Watcher(Console(file=io.StringIO()), spinner, as_json=False)
    watcher.started(Progress("calls"))
    assert str(spinner.text) == "calls  started, the first batch takes a while"
    watcher.batch(STANDING._replace(rows_per_second=812.5))
    assert str(spinner.text) == f"{progress_line(STANDING)}  batch 7  812 rows/s"


def test_the_systemd_unit_that_ships_signals_the_pipeline_alone(mayfly: Invoke) -> None:
    unit = ConfigParser(interpolation=None)
    unit.read(ROOT / "deploy" / "mayfly-pipeline@.service")
    service = unit["Service"]
    assert service["KillMode"] == "mixed"
    program, *arguments = service["ExecStart"].split()
    assert Path(program).name == "mayfly"
    assert arguments[:3] == ["pipeline", "run", "/etc/mayfly/%i.toml"]
    helped = mayfly("pipeline", "run", "--help").output
    assert all(option in helped for option in arguments[3:] if option.startswith("-"))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (0, ""),
        (200, "200 rows are not due yet: the checkpoint holds them for a later run\n"),
        (None, "the checkpoint may hold rows that are not due yet for a later run\n"),
    ],
)
def test_a_run_that_is_done_says_what_is_still_held(
    capsys: pytest.CaptureFixture[str], held: int | None, told: str
) -> None:
    result = RunResult(Termination.DONE, STANDING._replace(held=held))
    end_of_run(result, as_json=False)
    line, _, rest = capsys.readouterr().out.partition("\n")
    assert (line, rest) == (f"done: {progress_line(result.progress)}", told)
    end_of_run(result, as_json=True)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["held"] for line in lines] == ([] if held == 0 else [held])
    assert all(json.loads(line)["end"] == "done" for line in lines)

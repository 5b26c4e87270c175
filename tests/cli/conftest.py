"""The command line in this process, and as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mayfly.cli.app import app

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "mayfly"]

Invoke = Callable[..., Result]


def environment(home: Path) -> dict[str, str]:
    """Return what a process of ours needs to find its code and queue managers."""
    return {**os.environ, "MAYFLY_HOME": str(home)}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty MAYFLY_HOME."""
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def mayfly(home: Path) -> Invoke:
    """Run a command in this process: ``mayfly("get", "QM1", "Q1")``."""
    runner = CliRunner()
    return lambda *arguments, **options: runner.invoke(
        app, arguments, prog_name="mayfly", **options
    )


@pytest.fixture
def queue(mayfly: Invoke) -> Invoke:
    """The same, with queue manager QM1 and its queues Q1 and REPORTS defined."""
    answer = mayfly("mqsc", "QM1", "-c", "DEFINE QLOCAL(Q1)", "-c", "DEFINE QLOCAL(REPORTS)")
    assert answer.exit_code == 0, answer.output
    return mayfly


def run_here(home: Path, *arguments: str) -> Result:
    """Run a command to its end in this process."""
    environment = {"MAYFLY_HOME": str(home)}
    return CliRunner().invoke(app, arguments, prog_name="mayfly", env=environment)


def run_process(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as a process."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

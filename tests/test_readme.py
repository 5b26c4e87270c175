"""What the README shows is what a newcomer sees: its programs, commands and output are run."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme import commands, demo_excerpt, python_with_output

_COMMAND = [sys.executable, "-m", "mayfly"]


def test_programs_print_what_stands_below_them() -> None:
    programs = python_with_output()
    assert len(programs) == 2
    names: dict[str, object] = {}
    for program, output in programs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program, names)
        assert printed.getvalue() == output


def test_commands_run_one_after_the_other(tmp_path: Path) -> None:
    environment = {**os.environ, "MAYFLY_HOME": str(tmp_path)}
    assert len(commands()) == 6
    for command in commands():
        name, *arguments = shlex.split(command)
        assert name == "mayfly"
        if arguments[0] == "serve":
            _serve_and_end([*arguments, "--flight", "127.0.0.1:0"], environment)
            continue
        done = subprocess.run(
            [*_COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _serve_and_end(arguments: list[str], environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*_COMMAND, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert "grpc://127.0.0.1:" in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_ends_as_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [*_COMMAND, "demo", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert [line for line in demo_excerpt() if line not in printed] == []
    for picture in ("day.png", "year.png", "demo.html"):
        assert (tmp_path / "pictures" / picture).stat().st_size > 10_000

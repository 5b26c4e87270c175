"""What the README shows is what a newcomer sees: its programs, commands and output are run."""

from __future__ import annotations

import contextlib
import io
import json
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
    program, output = python_with_output()[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == output


def test_two_terminals(tmp_path: Path) -> None:
    served, *_ = commands()
    assert served == "mayfly serve QM1 --dev --mq 127.0.0.1:1414"
    [_, (program, output)] = python_with_output()
    arguments = served.replace("1414", "0").split()[1:]
    more = ["--json", "--expiry-interval", "1"]
    environment = {**os.environ, "MAYFLY_HOME": str(tmp_path)}
    with subprocess.Popen(
        [*_COMMAND, *arguments, *more], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        port = ready["mq"].rpartition(":")[2]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program.replace("1414", port), {"password": ready["password"]})
        assert printed.getvalue() == output
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


def test_commands_run_one_after_the_other(tmp_path: Path) -> None:
    environment = {**os.environ, "MAYFLY_HOME": str(tmp_path)}
    _served, *others = commands()
    assert len(others) == 5
    for command in others:
        name, *arguments = shlex.split(command)
        assert name == "mayfly"
        done = subprocess.run(
            [*_COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


# make test runs the demo on fewer flights, and compares its figures with those shown here
# (tests/demo/test_run.py).
@pytest.mark.soak
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

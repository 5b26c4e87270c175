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

from tests.readme import commands, demo_excerpt, first_program

_COMMAND = [sys.executable, "-m", "mayfly"]


def test_the_first_program_prints_what_stands_below_it() -> None:
    program, output = first_program()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == output


def test_commands_run_one_after_the_other(tmp_path: Path) -> None:
    environment = {**os.environ, "MAYFLY_HOME": str(tmp_path)}
    *others, served = commands()
    assert len(others) == 3
    for command in others:
        name, *arguments = shlex.split(command)
        assert name == "mayfly"
        done = subprocess.run(
            [*_COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert served == "mayfly serve QM1 --dev"
    more = ["--json", "--mq", "127.0.0.1:0"]
    with subprocess.Popen(
        [*_COMMAND, *served.split()[1:], *more],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        assert (ready["queue_managers"], ready["user"]) == (["QM1"], "app")
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


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

"""Replay in docs/LAKE.md: its commands and its program run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from mayfly.cli.app import app
from tests.pages import part
from tests.replay import lakes

DOCS = part("LAKE.md", "Replay")
TRACE = "queue,put_ms,get_ms\nORDERS,1700000000000,1700000030000\nORDERS,1700000001000,\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page names, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text(TRACE)
    pyarrow.parquet.write_table(pyarrow.csv.read_csv("trace.csv"), "trace.parquet")
    lakes.live(tmp_path)


def test_the_commands_answer() -> None:
    """The lake has queues Q1 and Q2, the page ORDERS."""
    commands = re.findall(r"^\$ mayfly (.*)$", DOCS, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command.replace("ORDERS=", "Q1="))
        if "trace.parquet" in words:
            words = shlex.split(command)
        answer = CliRunner().invoke(app, words, prog_name="mayfly")
        assert answer.exit_code == 0, answer.output
        assert "queue" in answer.stdout
    assert Path("changed.csv").stat().st_size


def test_the_program_compares_before_and_after() -> None:
    """One of two messages was got; four consumers get both."""
    [program] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "docs/LAKE.md", "exec"), names)
    answer = names["answer"]
    assert [side.column("got").to_pylist() for side in (answer.before, answer.after)] == [[1], [2]]

"""docs/LISTENERS.md says what the command prints, and its program runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mayfly.cli.app import app
from mayfly.cli.outcomes import ExitCode
from tests.pages import part

DOCS = part("LISTENERS.md", "Safe timeouts")


def block(language: str) -> str:
    """Return the one block of a language."""
    (text,) = [rest.split("```")[0] for rest in DOCS.split(f"```{language}\n")[1:]]
    return text


def test_the_command_prints_what_is_written() -> None:
    """Line by line; an ellipsis leaves the rest of its line out."""
    words, *lines = block("console").splitlines()
    answer = CliRunner().invoke(app, shlex.split(words)[2:], prog_name="mayfly")
    assert answer.exit_code == ExitCode.NOTHING
    printed = answer.stdout.splitlines()
    assert len(lines) == len(printed) > 4
    for line, said in zip(lines, printed, strict=True):
        start = line.removesuffix("…")
        assert said.startswith(start) if start != line else said == line


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two messages: the second comes 110 s after a session was done with the first."""
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text("queue,put_ms\nQ1,1700000000000\nQ1,1700000125000\n")
    names: dict[str, Any] = {}
    exec(compile(block("python"), "docs/LISTENERS.md", "exec"), names)
    answer = names["answer"]
    assert len(answer.problems) == 1
    assert (answer.before.simulated.needless, answer.after.simulated.needless) == (1, 0)


def test_every_option_is_in_the_table() -> None:
    """And no option that is not there."""
    shown = CliRunner().invoke(app, ["advise", "--help"], prog_name="mayfly").stdout
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
    assert {option for option in options if option not in DOCS} == set()
    assert set(re.findall(r"`(--[a-z-]+)", DOCS)) <= options

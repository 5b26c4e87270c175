"""docs/PIPELINE.md: its file is a pipeline, its commands are there, its tables name every key."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mayfly.cli.app import app
from mayfly.pipeline.config import load
from mayfly.pipeline.parts import QueueSource

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs/PIPELINE.md").read_text("utf-8")


def test_the_file_is_a_pipeline(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    (tmp_path / "calls.toml").write_text(text)
    config = load(tmp_path / "calls.toml")
    assert (config.name, [type(s) for s in config.sources]) == ("calls", [QueueSource])
    assert [sink.name for sink in config.sinks] == ["orders", "urgent"]


def test_the_command_explains_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    commands = [
        shlex.split(command, comments=True)
        for command in re.findall(r"^\$ mayfly (.*)$", DOCS, re.MULTILINE)
    ]
    explain, check, run = commands
    answer = CliRunner().invoke(app, explain, prog_name="mayfly")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("Pipeline boarding: ")
    checked = CliRunner().invoke(app, [*check, "--without-spark"], prog_name="mayfly")
    assert (checked.exit_code, checked.stdout) == (0, "examples/boarding.toml can be run\n")
    assert CliRunner().invoke(app, [*run, "--help"]).exit_code == 0


def test_every_option_of_run_for_a_watcher_is_in_the_table() -> None:
    shown = CliRunner().invoke(app, ["pipeline", "run", "--help"], prog_name="mayfly").stdout
    for option in ("--json", "--metrics-file", "--metrics-port"):
        assert option in shown
        assert f"| `{option}" in DOCS

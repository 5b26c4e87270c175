"""docs/LISTENERS.md: its program runs, its attributes and outcomes are all there are."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from mayfly import QueueManager
from mayfly.cli.app import app
from mayfly.engine.api.administration import QLOCAL, attributes_of
from mayfly.engine.queues import CONDITIONS
from mayfly.mqi.constants import MQOO_INPUT_SHARED
from mayfly.services.trigger_monitor import TriggerOutcome
from tests.pages import part

DOCS = part("LISTENERS.md", "Triggering")


def test_the_program_runs(queue_manager: QueueManager, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    names = {"qm": queue_manager, "MQOO_INPUT_SHARED": MQOO_INPUT_SHARED}
    exec(compile(code, "docs/LISTENERS.md", "exec"), names)
    ok, one, two, counts = capsys.readouterr().out.splitlines()
    assert (ok, one, two) == ("True", "one the first of the month", "two the first of the month")
    assert "STARTED: 'started'>: 1" in counts


def test_attributes_and_their_defaults_are_as_the_table_says() -> None:
    row = re.compile(r"^\| ((?:TRIG|INITQ|PROCESS)\w*)[^|]*\| ([^|]*?) ?\|", re.MULTILINE)
    rows = dict(row.findall(DOCS))
    words = {a.keyword: dict(a.words) for a in attributes_of(QLOCAL).values()}
    for keyword, text in rows.items():
        default = attributes_of(QLOCAL)[keyword].default
        assert words[keyword].get(text, text) == (default if words[keyword] else str(default))
    assert {*rows, "USAGE"} == CONDITIONS | {"TRIGDATA"}


def test_outcomes_and_the_command() -> None:
    for outcome in TriggerOutcome:
        assert f"| `{outcome.value}` |" in DOCS
    [command] = re.findall(r"^\$ mayfly (trigger run) QM1 INITQ", DOCS, re.MULTILINE)
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0

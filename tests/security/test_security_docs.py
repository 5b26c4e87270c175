"""docs/SECURITY.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.security import admission, applicant
from mayfly.mqi import command_constants as k
from mayfly.mqi import reasons as rc
from tests.pages import part

DOCS = part("SECURITY.md", "Who comes in")


def test_the_program_prints_what_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    [block] = [rest.split("```")[0] for rest in DOCS.split("```python\n")[1:]]
    names: dict[str, object] = {}
    exec(compile(block, "docs/SECURITY.md", "exec"), names)
    said = DOCS.split("```text\n")[1].split("```")[0]
    assert capsys.readouterr().out == said


def test_the_commands_are_right() -> None:
    console = DOCS.split("```console\n")[1].split("```")[0]
    commands = re.findall(r'-c "([^"]+)"', console)
    assert len(commands) == 3
    with mayfly.QueueManager("QM1") as qm:
        for command in (*commands, DOCS.split("```text\n")[2].split("```")[0]):
            result = qm.mqsc(command)
            assert result.ok, result.text


def test_every_refusal_of_admission_is_in_the_table() -> None:
    for module in (admission, applicant):
        source = Path(str(module.__file__)).read_text("utf-8")
        amq_numbers = set(re.findall(r"AMQ\d+E", source))
        assert amq_numbers
        for number in amq_numbers:
            assert number in DOCS, number
        for name in re.findall(r"rc\.(MQRC_\w+)", source):
            assert str(getattr(rc, name)) in DOCS, name


def test_every_type_of_rule_and_check_is_listed() -> None:
    for name in vars(k):
        # MQCAUT_ALL selects rules in an inquiry, and is no type of a rule.
        if name.startswith("MQCAUT_") and name != "MQCAUT_ALL":
            assert f"| {name.removeprefix('MQCAUT_')} |" in DOCS, name
    for word in ("NONE", "OPTIONAL", "REQUIRED", "REQDADM", "RUNCHECK", "REMOVEALL"):
        assert word in DOCS

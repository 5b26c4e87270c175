"""docs/CHANNELS.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import SETTINGS
from tests.pages import part

ROOT = Path(__file__).parents[2]
DOCS = part("CHANNELS.md", "Remote queues")


def test_the_program_prints_what_is_said(
    queue_manager: QueueManager, capsys: pytest.CaptureFixture[str]
) -> None:
    program = DOCS.split("```python\n")[1].split("```")[0]
    exec(compile(program, "docs/CHANNELS.md", "exec"), {"manager": queue_manager})
    printed = capsys.readouterr().out.strip()
    assert f"It prints `{printed}`" in DOCS


def test_every_proof_is_there() -> None:
    files = "spec/test_transmission.py", "channel/test_undeliverable.py"
    tests = "".join((ROOT / "tests" / file).read_text("utf-8") for file in files)
    named = re.findall(r"`(test_\w+)`", DOCS)
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in tests]


def test_every_setting_is_there() -> None:
    names = [setting.name for setting in SETTINGS if setting.name.startswith("xqh.")]
    assert len(names) == 3
    assert not [name for name in names if f"`{name}`" not in DOCS]

"""docs/LEDGER.md: its program prints what stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_program_prints_the_lives_of_a_delayed_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (Path(__file__).parents[2] / "docs/LEDGER.md").read_text("utf-8")
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "docs/LEDGER.md", "exec"), {})
    assert capsys.readouterr().out == said

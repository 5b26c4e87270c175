"""The program in docs/SHARED_QUEUES.md prints what stands below it."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = (Path(__file__).parents[2] / "docs" / "SHARED_QUEUES.md").read_text("utf-8")


def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = DOCS.split("```python\n")[1].split("```")[0]
    said = DOCS.split("```text\n")[1].split("```")[0]
    exec(compile(program, "SHARED_QUEUES.md", "exec"), {})
    assert capsys.readouterr().out == said

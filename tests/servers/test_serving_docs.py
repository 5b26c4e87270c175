"""The program in docs/SERVING.md prints what stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = (Path(__file__).parents[2] / "docs" / "SERVING.md").read_text("utf-8")


def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    exec(compile(program, "SERVING.md", "exec"), {})
    assert capsys.readouterr().out == said

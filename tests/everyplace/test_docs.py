"""The program in docs/EVERYPLACE.md prints what stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = (Path(__file__).parents[2] / "docs" / "EVERYPLACE.md").read_text("utf-8")


PROGRAMS = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)


def test_every_program_in_the_documentation_is_found() -> None:
    assert len(PROGRAMS) == DOCS.count("```python\n") == 3


@pytest.mark.parametrize(("program", "said"), PROGRAMS)
def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], program: str, said: str
) -> None:
    exec(compile(program, "EVERYPLACE.md", "exec"), {})
    assert capsys.readouterr().out == said

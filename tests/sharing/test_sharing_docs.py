"""The program in docs/CHANNELS.md prints what stands below it."""

from __future__ import annotations

import pytest

from tests.pages import part

DOCS = part("CHANNELS.md", "Shared queues")


def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = DOCS.split("```python\n")[1].split("```")[0]
    said = DOCS.split("```text\n")[1].split("```")[0]
    exec(compile(program, "SHARED_QUEUES.md", "exec"), {})
    assert capsys.readouterr().out == said

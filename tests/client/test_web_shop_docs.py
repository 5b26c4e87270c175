"""docs/SESSION.md: its program prints what stands below it."""

from __future__ import annotations

import re

import pytest

from tests.pages import part


def test_the_program_of_the_web_shop_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = part("SESSION.md", "Delayed jobs in a web shop")
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "docs/SESSION.md", "exec"), {})
    assert capsys.readouterr().out == said

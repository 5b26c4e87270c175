"""docs/WEB_SHOP.md: its program prints what stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "WEB_SHOP.md"


def test_the_program_of_the_web_shop_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = PAGE.read_text("utf-8")
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "docs/WEB_SHOP.md", "exec"), {})
    assert capsys.readouterr().out == said

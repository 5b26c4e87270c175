"""docs/CLIENTS.md and docs/AIO.md: examples run, reasons and bounds are those of the source."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from mayfly.client.open_objects import MAX_OPEN
from mayfly.mqi import reasons as rc

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["CLIENTS", "AIO"])
def test_the_example_in_the_docs_runs(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"docs/{page}.md", "exec"), {"__name__": "docs"})
    assert printed.getvalue() == output


def test_reasons_and_bounds_are_those_of_the_source() -> None:
    text = (ROOT / "docs/CLIENTS.md").read_text("utf-8")
    named = re.findall(r"(\d{4}) (MQRC_[A-Z_]+)", text)
    assert len(named) > 8
    assert not [name for number, name in named if getattr(rc, name) != int(number)]
    assert f"the {MAX_OPEN} that were used last" in text

"""docs/CLIENTS.md and docs/SESSION.md: examples run, reasons and bounds are those of the source."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from mayfly.client.open_objects import MAX_OPEN
from mayfly.mqi import reasons as rc
from tests.pages import DOCS, part

CLIENTS = (DOCS / "CLIENTS.md").read_text("utf-8")


@pytest.mark.parametrize(
    "text", [CLIENTS, part("SESSION.md", "Coroutines")], ids=["clients", "aio"]
)
def test_the_example_in_the_docs_runs(text: str) -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    assert printed.getvalue() == output


def test_reasons_and_bounds_are_those_of_the_source() -> None:
    named = re.findall(r"(\d{4}) (MQRC_[A-Z_]+)", CLIENTS)
    assert len(named) > 8
    assert not [name for number, name in named if getattr(rc, name) != int(number)]
    assert f"the {MAX_OPEN} that were used last" in CLIENTS

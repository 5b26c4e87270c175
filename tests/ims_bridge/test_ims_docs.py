"""docs/LISTENERS.md: its example runs and says what stands there."""

from __future__ import annotations

import contextlib
import io
import re

from tests.pages import part

DOCS = part("LISTENERS.md", "The IMS bridge")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/LISTENERS.md", "exec"), {})
    assert printed.getvalue() == output

"""docs/MESSAGES.md: its example runs and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import re

from tests.pages import part

DOCS = part("MESSAGES.md", "Publish/subscribe")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/MESSAGES.md", "exec"), names)
    assert printed.getvalue() == output

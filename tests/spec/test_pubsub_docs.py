"""docs/PUBSUB.md: its example runs and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCS = (Path(__file__).parents[2] / "docs/PUBSUB.md").read_text("utf-8")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/PUBSUB.md", "exec"), names)
    assert printed.getvalue() == output

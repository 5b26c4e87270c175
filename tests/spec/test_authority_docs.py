"""docs/SECURITY.md: its example runs, and its tables say what the source says."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

from mayfly.engine.api.administration import OBJECT_TYPES
from mayfly.engine.api.administration import authorities_of as allowed_words
from mayfly.engine.api.administration import spelled_authorities as spelled
from tests.pages import part

DOCS = part("SECURITY.md", "Authority")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/SECURITY.md", "exec"), names)
    # Channels of later tests would find two queue managers of this name in the process.
    names["qm"].close()
    assert printed.getvalue() == output


def test_the_table_of_authorities_is_that_of_the_source() -> None:
    rows: dict[str, tuple[str, str]] = {}
    for types, programs, administrators in re.findall(
        r"^\| ([A-Z][^|]*) \|([^|]*)\|([^|]*)\|", DOCS, re.MULTILINE
    ):
        for kind in re.findall(r"\b[A-Z]{4,}\b", types.partition("(")[0]):
            rows[kind] = programs.partition(",")[0].strip(), administrators.strip()
    for kind in OBJECT_TYPES:
        words = allowed_words(kind)
        wanted = tuple(
            spelled(words[sum_of]).replace(",", " ").replace("NONE", "")
            for sum_of in ("ALLMQI", "ALLADM")
        )
        assert rows[kind] == wanted, kind

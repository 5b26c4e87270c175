"""docs/MESSAGES.md: its example runs, and it names what the source knows."""

from __future__ import annotations

import contextlib
import io
import re

from mayfly.engine.verb_options import MARKS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import CODECS
from mayfly.pymqi.converting import HEADERS
from tests.pages import part

DOCS = part("MESSAGES.md", "Browsing")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/MESSAGES.md", "exec"), {})
    assert printed.getvalue() == output


def test_every_option_of_marks_is_named() -> None:
    options = {n: v for n, v in vars(c).items() if n.startswith("MQGMO_") and type(v) is int}
    names = [name for name, bit in options.items() if bit and not bit & ~MARKS]
    assert len(names) == 5
    assert not [name for name in names if name.removeprefix("MQGMO_") not in DOCS]


def test_reasons_character_sets_and_headers_are_those_of_the_source() -> None:
    for value, name in re.findall(r"(2\d\d\d) ([A-Z_]{5,})", DOCS):
        assert getattr(rc, f"MQRC_{name}") == int(value)
    listed = DOCS.partition("code_pages.py`, among them ")[2].partition(", whose")[0]
    assert {int(ccsid) for ccsid in re.findall(r"\d{2,}", listed.replace("UTF-16", ""))} <= set(
        CODECS
    )
    assert not [layout.name for layout in HEADERS.values() if layout.name not in DOCS]

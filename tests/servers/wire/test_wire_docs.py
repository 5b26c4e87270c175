"""docs/WIRE.md: its numbers are those of the contracts."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from mayfly.client.connection import local
from mayfly.client.connection.local import CALLS, FOR_EVENT_LOOP
from mayfly.servers.wire import Limits
from mayfly.servers.wire.server import AT_ONCE, BEGUN
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import (
    ALIVE,
    ENDED,
    FIRST_FRAME_BYTES,
    HEAD_BYTES,
    HIGHEST_VERSION,
    MAGIC,
    MAX_ELEMENTS,
    MAX_PUTS_IN_FRAME,
    MAX_REQUESTS,
    MAX_UNANSWERED_PUTS,
    PREAMBLE,
    REFUSED,
)

DOCS = (Path(__file__).parents[3] / "docs/WIRE.md").read_text("utf-8")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "WIRE.md", "exec"), {})
    assert printed.getvalue() == output


def test_the_numbers_of_the_page_are_those_of_the_contracts() -> None:
    said = " ".join(DOCS.split())
    assert (FIRST_FRAME_BYTES, HEAD_BYTES) == (65_536, 65_536)
    assert f"at most {FIRST_FRAME_BYTES:,} bytes" in said
    assert f"at most {MAX_ELEMENTS:,} elements" in said
    assert f"{MAX_REQUESTS:,} may be under way" in said
    assert f"At most {MAX_UNANSWERED_PUTS} are on their way" in said
    assert f"in one frame, PUTS: at most {MAX_PUTS_IN_FRAME} of them" in said
    assert f"there is version {HIGHEST_VERSION}" in said
    assert f"{PREAMBLE.size} bytes: `{MAGIC.decode()}`" in said
    assert Limits().outstanding_bytes == 1_048_576
    assert [f"| {number} | `[{number}" in DOCS for number in (ALIVE, ENDED, REFUSED)] == [True] * 3


def test_every_verb_has_a_form_and_somebody_who_runs_it() -> None:
    special = {ask.Connect, ask.Disconnect, ask.Cancel}
    assert set(ask.VERBS.values()) - special == CALLS.keys() | BEGUN
    assert BEGUN - {ask.Puts} == FOR_EVENT_LOOP.keys() == local.BEGUN.keys()
    assert CALLS.keys() > AT_ONCE

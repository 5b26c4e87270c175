"""docs/CONNECTION.md: its example runs, and its tables name what there is."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path

from mayfly.client.connection import Connection, operating
from mayfly.engine.callbacks import MAX_PUTS_UNDER_WAY
from mayfly.mqi import reasons as rc
from mayfly.verbs.messages import Settlement
from mayfly.verbs.requests import VERBS

DOCS = (Path(__file__).parents[2] / "docs/CONNECTION.md").read_text("utf-8")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/CONNECTION.md", "exec"), {})
    assert printed.getvalue() == output


def cells() -> str:
    return " ".join(row.split("|")[1] for row in DOCS.splitlines() if row.startswith("| `"))


def test_all_that_a_connection_has_is_in_a_table() -> None:
    names = {name for name in vars(Connection) if not name.startswith("_")}
    names |= set(Connection.__annotations__)
    assert not [name for name in names if not re.search(rf"\b{name}\b", cells())]


def test_every_request_of_a_program_is_in_a_table() -> None:
    made_by_classes = set(re.findall(r"\bask\.(\w+)", inspect.getsource(operating)))
    of_connections = {"Connect", "Disconnect", "Cancel", "Now", "NewIds", "Puts"}
    names = {kind.__name__ for kind in VERBS.values()} - made_by_classes - of_connections
    assert names
    assert not [name for name in names if not re.search(rf"\b{name}(\.of)?\(", cells())]


def test_settlements_reasons_and_the_bound_are_those_of_the_source() -> None:
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", DOCS, re.MULTILINE)) == {
        settlement.name for settlement in Settlement
    }
    named = re.findall(r"(MQRC_[A-Z_]+) \((\d+)\)", DOCS)
    assert named
    assert not [name for name, number in named if getattr(rc, name) != int(number)]
    assert f"{MAX_PUTS_UNDER_WAY:,} of a queue manager" in DOCS

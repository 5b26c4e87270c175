"""docs/CONNECTION.md: its example runs, and its tables name what there is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from mayfly.client.connection import Asynchronous, Connection, Held, Objects, Onward, Topics
from mayfly.engine.callbacks import MOST_PUTS_UNDER_WAY
from mayfly.mqi import reasons as rc
from mayfly.verbs.messages import Settlement

DOCS = (Path(__file__).parents[2] / "docs/CONNECTION.md").read_text("utf-8")


def test_the_example_in_the_docs_runs() -> None:
    [(code, output)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/CONNECTION.md", "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("part", [Connection, Held, Objects, Onward, Topics, Asynchronous])
def test_every_verb_is_in_a_table(part: type) -> None:
    beside = {"is_open", "is_broken", "now_ms", "end_dropped", "has_open", "tell"}
    verbs = {name for name in vars(part) if not name.startswith("_")} - beside
    cells = " ".join(row.split("|")[1] for row in DOCS.splitlines() if row.startswith("| `"))
    assert verbs
    assert not [verb for verb in verbs if not re.search(rf"\b{verb}\b", cells)]


def test_settlements_reasons_and_the_bound_are_those_of_the_source() -> None:
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", DOCS, re.MULTILINE)) == {
        settlement.name for settlement in Settlement
    }
    named = re.findall(r"(MQRC_[A-Z_]+) \((\d+)\)", DOCS)
    assert named
    assert not [name for name, number in named if getattr(rc, name) != int(number)]
    assert f"{MOST_PUTS_UNDER_WAY:,} of a queue manager" in DOCS

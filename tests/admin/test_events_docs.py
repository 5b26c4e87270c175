"""docs/EVENTS.md: its example runs, and its table has every event with its switch and queue."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from mayfly.engine.events.catalog import EVENTS

PAGE = (Path(__file__).parents[2] / "docs" / "EVENTS.md").read_text("utf-8")


def test_the_example_prints_what_the_page_says() -> None:
    [(code, printed)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "EVENTS.md", "exec"), {})
    assert out.getvalue() == printed


def test_the_table_has_every_event_with_its_switch_and_its_queue() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| (SYSTEM\.[A-Z.]+) \| (.+) \|$", PAGE, re.MULTILINE)
    told = {(switch, queue): reasons for switch, queue, reasons in rows}
    assert told.keys() == {(event.switch.upper(), event.category.queue) for event in EVENTS}
    for event in EVENTS:
        reasons = told[event.switch.upper(), event.category.queue]
        numbers = {int(each) for each in re.findall(r"\b2\d{3}\b", reasons)} | {2197, 2198}
        assert event.reason in numbers, event.name

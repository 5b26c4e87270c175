"""docs/WHY.md: its table is one, its program runs, its keywords are all there are."""

from __future__ import annotations

import re

from mayfly import QueueManager
from mayfly.services.dead_letter import Outcome, parse_rules
from mayfly.services.dead_letter.rules import NUMBERS, TEXTS, Action
from tests.dead_letter.scene import put_dead_letter
from tests.pages import part

DOCS = part("WHY.md", "Dead letters")


def test_the_table_is_one() -> None:
    [text] = re.findall(r"```\n(\* .*?)```", DOCS, re.DOTALL)
    table = parse_rules(text)
    assert (table.manager, table.wait_ms, len(table.rules)) == ("QM1", 0, 4)


def test_the_program_runs(qm: QueueManager) -> None:
    put_dead_letter(qm)
    [code] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    exec(compile(code, "docs/WHY.md", "exec"), {"qm": qm})
    assert qm.curdepth("Q1") == 1


def test_every_keyword_action_and_outcome_is_named() -> None:
    for keyword in [*TEXTS, *NUMBERS, "INPUTQ", "INPUTQM", "RETRYINT", "WAIT", "PUTAUT", "HEADER"]:
        assert re.search(rf"\b{keyword}\b", DOCS), keyword
    for action in Action:
        assert f"ACTION({action})" in DOCS
    for outcome in Outcome:
        assert f"`{outcome.value}`" in DOCS

"""The program in docs/EVERYPLACE.md prints what stands below it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mayfly import everyplace
from mayfly.everyplace import EveryplaceQueueManager, MessageFields, QueueRule

DOCS = (Path(__file__).parents[2] / "docs" / "EVERYPLACE.md").read_text("utf-8")


PROGRAMS = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)


def test_every_program_in_the_documentation_is_found() -> None:
    assert len(PROGRAMS) == DOCS.count("```python\n") == 4


@pytest.mark.parametrize(("program", "said"), PROGRAMS)
def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], program: str, said: str
) -> None:
    exec(compile(program, "EVERYPLACE.md", "exec"), {})
    assert capsys.readouterr().out == said


def test_the_names_of_MQ_Everyplace_are_mapped_to_names_that_are_there() -> None:
    """Seed 004 says them; whoever comes from there finds ours."""
    table = DOCS[DOCS.index("| MQ Everyplace | here |") : DOCS.index("The example of IBM")]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE))
    theirs = "".join(rows)
    for name in ("MQeMsgObject", "MQe.Msg_ExpireTime", "MQE_MSG_EXPIRETIME", "putMessage("):
        assert name in theirs
    known = {*vars(everyplace), *dir(MessageFields), *dir(EveryplaceQueueManager), *dir(QueueRule)}
    ours = set(re.findall(r"`(\w+)", "".join(rows.values())))
    assert len(ours) > 15
    assert ours - {"None"} <= known
    said = inspect.signature(EveryplaceQueueManager.put_message)
    assert list(said.parameters) == ["self", "queue", "fields", "queue_manager", "confirm_id"]
    assert "`put_message(queue, fields, queue_manager=None, confirm_id=0)`" in table

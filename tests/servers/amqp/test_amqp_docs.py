"""The program in docs/AMQP.md does what it says, and its table of conditions is the code's."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Thread

from mayfly import QueueManager
from mayfly.servers.amqp.codec import CONDITIONS
from mayfly.testing import VirtualClock
from tests.spec.scene import JOIN_SECONDS

PAGE = (Path(__file__).parents[3] / "docs" / "AMQP.md").read_text("utf-8")


def test_the_program_gets_its_message_in_a_minute(
    qm: QueueManager, clock: VirtualClock, port: int
) -> None:
    assert qm.mqsc("DEFINE QLOCAL(DEV.QUEUE.1)").ok
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    program = found[1].replace("5672", str(port)).replace("print(", "printed.append(")
    printed: list[object] = []
    known = {"password": "secret", "printed": printed}
    running = Thread(target=lambda: exec(compile(program, "AMQP.md", "exec"), known))
    running.start()
    while running.is_alive() and not qm.counts("DEV.QUEUE.1").staged:
        running.join(0.01)
    clock.advance(59_999)
    assert (printed, qm.counts("DEV.QUEUE.1").staged) == ([], 1)
    clock.advance(1)
    running.join(JOIN_SECONDS)
    assert printed == ["in a minute"]


def test_the_table_of_conditions_is_complete() -> None:
    rows = re.findall(r"\| `(amqp:[a-z:-]+)` \| ([0-9, ]+)", PAGE)
    shown = {(int(n), name) for name, codes in rows for n in re.findall(r"\d+", codes)}
    told = {(reason, condition) for reason, condition in CONDITIONS.items()}
    ends = {"amqp:resource-deleted", "amqp:connection:forced", "amqp:internal-error"}
    assert shown == {(reason, name) for reason, name in told if name not in ends}

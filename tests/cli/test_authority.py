"""The command line opens a queue manager itself, so that authority records do not concern it."""

from __future__ import annotations

from tests.cli.conftest import Invoke


def test_commands_act_for_who_opened_the_queue_manager(queue: Invoke) -> None:
    record = "SET AUTHREC PROFILE(**) OBJTYPE(QUEUE) GROUP('nobody') AUTHADD(NONE)"
    assert queue("mqsc", "QM1", "-c", record).exit_code == 0
    assert queue("put", "QM1", "Q1", "hello", "--delay", "1h").exit_code == 0
    listed = queue("schedule", "list", "QM1")
    assert listed.exit_code == 0
    assert "Q1" in listed.output
    assert queue("schedule", "release", "QM1", "--all", "--yes").exit_code == 0
    got = queue("get", "QM1", "Q1")
    assert (got.exit_code, got.output.strip()) == (0, "hello")

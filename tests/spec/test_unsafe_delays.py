"""Rule D33: a delay that a restart would lose, or a full queue, is warned of at the put."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.spec.scene import local, refused

MINUTE_MS = 60_000


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about delays since the last call."""
    found = [r.getMessage() for r in caplog.records if r.name == "mayfly.delay"]
    caplog.clear()
    return found


@pytest.fixture
def folder_manager(tmp_path: Path, clock: VirtualClock) -> QueueManager:
    """A queue manager in a folder, with Q1."""
    manager = QueueManager("QM1", tmp_path / "QM1", clock=clock)
    local(manager)
    return manager


@pytest.mark.parametrize(
    ("delay_ms", "persistent", "warns"),
    [
        (MINUTE_MS, False, False),
        (MINUTE_MS + 1, False, True),
        (MINUTE_MS + 1, True, False),
    ],
)
def test_D33_a_long_delay_of_a_message_that_is_not_persistent_is_warned_of(
    folder_manager: QueueManager,
    caplog: pytest.LogCaptureFixture,
    delay_ms: int,
    persistent: bool,
    warns: bool,
) -> None:
    with folder_manager as manager, manager.session(program="shop") as session:
        session.put("Q1", b"x", delay_ms=delay_ms, persistent=persistent)
    text = "a restart would lose a message that is delayed for Q1: not persistent, put by shop"
    assert lines(caplog) == [text] * warns


def test_D33_one_line_a_minute_for_a_queue_and_program(
    folder_manager: QueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with folder_manager as manager:
        for program in ("shop", "desk"):
            with manager.session(program=program) as session:
                for _ in range(3):
                    session.put("Q1", b"x", delay_ms=MINUTE_MS * 60)
        assert [line.rpartition(" ")[2] for line in lines(caplog)] == ["shop", "desk"]
        clock.advance(MINUTE_MS)
        with manager.session(program="shop") as session:
            session.put("Q1", b"x", delay_ms=MINUTE_MS * 60)
        assert [line.rpartition("put by ")[2] for line in lines(caplog)] == ["shop (3 messages)"]


def test_D33_with_refuse_such_a_put_fails_and_with_off_nothing_is_said(
    folder_manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    with folder_manager as manager, manager.session() as session:
        assert manager.mqsc("ALTER SETTING(delay.volatile_check) VALUE(refuse)").ok
        with refused(rc.MQRC_OPTIONS_ERROR):
            session.put("Q1", b"x", delay_ms=MINUTE_MS + 1)
        assert manager.counts("Q1").staged == 0
        session.put("Q1", b"x", delay_ms=MINUTE_MS)
        assert manager.mqsc("ALTER SETTING(delay.volatile_check) VALUE(off)").ok
        session.put("Q1", b"x", delay_ms=MINUTE_MS + 1)
    assert lines(caplog) == []


def test_D33_a_queue_manager_in_memory_loses_all_and_says_nothing_of_it(
    queue_manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    local(queue_manager)
    with queue_manager.session() as session:
        session.put("Q1", b"x", delay_ms=MINUTE_MS * 60)
    assert lines(caplog) == []


def test_D33_more_delayed_messages_than_MAXDEPTH_are_warned_of(
    folder_manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    with folder_manager as manager, manager.session() as session:
        local(manager, "SMALL", MAXDEPTH=2)
        for number in range(4):
            session.put("SMALL", b"x", delay_ms=1_000, persistent=True)
            if number == 1:
                assert lines(caplog) == []
    assert lines(caplog) == ["more messages are delayed for SMALL than MAXDEPTH(2)"]

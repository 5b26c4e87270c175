"""A flood of messages that fail alike writes few lines, which say how many there are."""

from __future__ import annotations

import logging

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.spec.scene import put_md

MANY = 300
REPORTED = Descriptor(report=c.MQRO_EXPIRATION, reply_to_q="NOWHERE")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_700_000_000_000)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings so far, and forget them."""
    found = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_T9_the_first_is_written_at_once_and_the_others_of_a_minute_as_a_number(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each put loses a trigger message."""
    with QueueManager("QM1", None, clock) as qm, qm.session() as session:
        assert qm.mqsc(
            "ALTER QMGR DEADQ(' ')\nDEFINE QLOCAL(INIT) MAXDEPTH(0)\nDEFINE PROCESS(P)\n"
            "DEFINE QLOCAL(Q1) TRIGGER TRIGTYPE(EVERY) INITQ(INIT) PROCESS(P)\n"
        ).ok
        session.open("INIT", c.MQOO_INPUT_SHARED)

        def said_of_put() -> list[str]:
            session.put("Q1", b"x")
            return lines(caplog)

        [first] = said_of_put()
        assert first.startswith("trigger message for Q1 is lost: MQRC_Q_FULL (2053): INIT holds")
        assert first.endswith("there is no dead-letter queue: DEADQ is blank")
        for step_ms in (0, 0, 59_999):
            clock.advance(step_ms)
            assert said_of_put() == []
        clock.advance(1)
        assert said_of_put() == [f"{first} (4 messages)"]
        assert said_of_put() == []
        clock.advance(60_000)
        assert said_of_put() == [f"{first} (2 messages)"]


def test_D21_many_delayed_messages_for_a_full_queue_write_one_line_a_minute(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Also: DEADQ is blank, which is what the line says."""
    with QueueManager("QM1", None, clock) as qm, qm.session() as session:
        assert qm.mqsc("DEFINE QLOCAL(Q1)\nALTER QMGR DEADQ(' ')").ok
        for _ in range(MANY):
            session.put("Q1", b"late", delay_ms=1_000)
        assert qm.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(0)").ok
        clock.advance(1_000)
        full = "MQRC_Q_FULL (2053): Q1 holds MAXDEPTH(0)"
        none = "MQRC_UNKNOWN_OBJECT_NAME (2085): there is no dead-letter queue: DEADQ is blank"
        expected = [
            f"dead-letter queue refuses a delayed message for Q1: {none} ({MANY} messages)",
            f"message for Q1 stays on staging: {full} ({MANY} messages)",
        ]
        assert lines(caplog) == expected
        clock.advance(50_000)
        assert lines(caplog) == []
        clock.advance(10_000)
        assert lines(caplog) == expected
        assert qm.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(5000)").ok
        clock.advance(10_000)
        assert qm.curdepth("Q1") == MANY


def test_R5_many_reports_that_reach_no_queue_write_one_line(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueManager("QM1", None, clock) as qm, qm.session() as session:
        assert qm.mqsc("DEFINE QLOCAL(Q1)\nALTER QMGR DEADQ(' ')").ok
        for _ in range(MANY):
            put_md(session, "Q1", b"x", REPORTED, life_ms=1_000)
        clock.advance(1_000)
        assert session.get("Q1") is None
        [line] = lines(caplog)
        assert line.startswith("EXPIRATION report to 'NOWHERE' dropped: ")
        assert line.endswith(f"DEADQ is blank ({MANY} messages)")


def test_many_expired_messages_that_EXPQ_refuses_write_one_line(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueManager("QM1", None, clock) as qm, qm.session() as session:
        assert qm.mqsc(
            "DEFINE QLOCAL(LATE) MAXDEPTH(0)\nDEFINE QLOCAL(Q1) EXPQ(LATE)\nALTER QMGR DEADQ(' ')"
        ).ok
        for _ in range(MANY):
            session.put("Q1", b"x", time_to_live_ms=1_000)
        clock.advance(1_000)
        assert session.get("Q1") is None
        [line] = lines(caplog)
        assert line.startswith("expired message of Q1 discarded: ")
        assert line.endswith(f"DEADQ is blank ({MANY} messages)")


def test_a_managed_queue_that_ends_a_moment_later_is_nothing_to_tell(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each subscriber in JMS that ends with a message in its unit of work would write a line."""
    with caplog.at_level(logging.DEBUG), QueueManager("QM1", None, clock) as qm:
        factory = jms.ConnectionFactory(qm)
        with factory.create_context(jms.SESSION_TRANSACTED) as context:
            topic = context.create_topic("a/b")
            consumer = context.create_consumer(topic)
            with factory.create_context(jms.AUTO_ACKNOWLEDGE) as other:
                other.create_producer().send(topic, "x")
            assert consumer.receive(1_000) is not None
            consumer.close()
            context.commit()
        told = [each for each in caplog.records if "stays for now" in each.getMessage()]
        assert {each.levelno for each in told} == {logging.DEBUG}

"""MAXUMSGS and MAXHANDS to the last one that is allowed, whatever the operation or the handle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    OUTPUT,
    REPLIES,
    alter_manager,
    body,
    local,
    refused,
    take,
    waiting,
)

LIMIT = 3
MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"


def schedule_some(manager: QueueManager) -> list[bytes]:
    with manager.session() as session:
        return [session.put("Q1", b"later", delay_ms=10_000) for _ in range(LIMIT + 1)]


def puts(unit: Session, delayed: list[bytes]) -> None:
    unit.put("Q1", b"x")


def delayed_puts(unit: Session, delayed: list[bytes]) -> None:
    unit.put("Q1", b"x", delay_ms=1)


def gets(unit: Session, delayed: list[bytes]) -> None:
    assert unit.get("FULL") is not None


def gets_of_own_puts(unit: Session, delayed: list[bytes]) -> None:
    # Two operations at a time: the put counts, and so does the get of it.
    unit.put("Q1", b"x")
    assert body(unit.get("Q1")) == b"x"


def publications(unit: Session, delayed: list[bytes]) -> None:
    # To two subscribers, but one operation.
    unit.publish("news", b"x")


def cancels(unit: Session, delayed: list[bytes]) -> None:
    unit.schedule.cancel(delayed.pop())


def reschedules(unit: Session, delayed: list[bytes]) -> None:
    unit.schedule.reschedule(delayed.pop(), delay_ms=20_000)


def reports(unit: Session, delayed: list[bytes]) -> None:
    # The COA is part of the unit of work, and no operation of the program's.
    unit.put("Q1", b"x", report=c.MQRO_COA, reply_to_q=REPLIES)


ONE_OPERATION = [puts, delayed_puts, gets, publications, cancels, reschedules, reports]


@pytest.mark.in_process
@pytest.mark.parametrize("operation", ONE_OPERATION)
@pytest.mark.parametrize("ends", ["commit", "backout"])
def test_G9_2024_for_what_is_one_more_than_MAXUMSGS(
    queue_manager: QueueManager,
    operation: Callable[[Session, list[bytes]], None],
    ends: str,
    new_session: NewSession,
) -> None:
    """The last that is allowed is; what is refused leaves the rest; the next unit begins at 0."""
    qm = queue_manager
    for name in ("Q1", "Q2", "FULL", REPLIES):
        local(qm, name)
    with new_session(qm) as session:
        for _ in range(2 * LIMIT + 1):
            session.put("FULL", b"x")
        subscriptions = [session.subscribe("news", queue=name) for name in ("Q1", "Q2")]
        alter_manager(qm, MAXUMSGS=LIMIT)
        delayed = schedule_some(qm)
        with new_session(qm, transacted=True) as unit:
            for _ in range(LIMIT):
                operation(unit, delayed)
            with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
                operation(unit, list(delayed))
            getattr(unit, ends)()
            delayed = schedule_some(qm)
            for _ in range(LIMIT):
                operation(unit, delayed)
            with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
                operation(unit, list(delayed))
            unit.backout()
        for subscription in subscriptions:
            subscription.close()
    found = qm.verify()
    assert found.ok, found.problems


def test_G9_2024_counts_puts_that_are_got_again(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, MAXUMSGS=LIMIT)
    with new_session(queue_manager, transacted=True) as unit:
        gets_of_own_puts(unit, [])
        puts(unit, [])
        with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
            unit.get("Q1")
    assert queue_manager.counts("Q1") == (0, 1, 0, 0, 0)


def test_G9_outside_of_syncpoint_nothing_counts(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, MAXUMSGS=1)
    with new_session(queue_manager) as session:
        for _ in range(3):
            session.put("Q1", b"x")
        assert body(session.get("Q1")) == b"x"


@pytest.mark.in_process
@pytest.mark.parametrize("kind", ["queue", "model", "topic", "subscription"])
def test_C1_2017_for_what_is_one_more_than_MAXHANDS(
    queue_manager: QueueManager, session: Session, kind: str, new_session: NewSession
) -> None:
    """Per connection, whatever is open; a refused model queue makes no dynamic one."""
    local(queue_manager)
    alter_manager(queue_manager, MAXHANDS=LIMIT)
    opens: dict[str, Callable[[Session], object]] = {
        "queue": lambda s: s.open("Q1", INPUT),
        "model": lambda s: s.open(MODEL, INPUT),
        "topic": lambda s: s.open_topic("news", OUTPUT),
        "subscription": lambda s: s.subscribe("news"),
    }
    first = session.open("Q1", OUTPUT)
    session.open_topic("news", OUTPUT)
    session.open(MODEL, INPUT)
    before = len(queue_manager.engine.registry.definitions())
    with refused(rc.MQRC_HANDLE_NOT_AVAILABLE):
        opens[kind](session)
    assert len(queue_manager.engine.registry.definitions()) == before
    with new_session(queue_manager) as other:
        opens[kind](other)
    first.close()
    opens[kind](session)


@pytest.mark.in_process
def test_C1_verbs_by_name_need_no_handle(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    alter_manager(queue_manager, MAXHANDS=1)
    session.open("Q1", OUTPUT)
    session.put("Q1", b"x")
    assert body(session.get("Q1")) == b"x"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (c.MQGMO_WAIT, rc.MQRC_Q_MGR_STOPPING),
        (c.MQGMO_WAIT | c.MQGMO_FAIL_IF_QUIESCING, rc.MQRC_Q_MGR_QUIESCING),
    ],
)
@pytest.mark.parametrize("browse", [c.MQGMO_NONE, c.MQGMO_BROWSE_NEXT])
def test_G4_G11_a_wait_that_a_close_ends_is_told_2161_if_it_asked_for_it(
    clock: VirtualClock, options: int, reason: int, browse: int, new_session: NewSession
) -> None:
    qm = QueueManager("QM1", clock=clock)
    local(qm)
    handle = new_session(qm).open("Q1", INPUT | BROWSE)
    call = waiting(qm, "Q1", lambda: take(handle, options | browse, wait_ms=c.MQWI_UNLIMITED))
    qm.close()
    call.finish()
    assert call.error is not None
    assert call.error.reason == reason

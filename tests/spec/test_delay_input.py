"""Delays and lives that are none, rules D7 and E2: the right reason code, and nothing happens."""

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.lifetime.window import LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.spec.scene import (
    STAGING,
    START_MS,
    lives,
    local,
    refused,
)

#: No whole number of milliseconds that could be waited for.
ABSURD: list[Any] = [
    -1,
    -(10**18),
    1.5,
    1.0,
    0.0,
    float("nan"),
    float("inf"),
    True,
    False,
    "5",
    "",
    b"5",
    [],
    10**18,
    2**63,
    2**64 + 1,
    LATEST_DUE_MS - START_MS + 1,
]


def nothing_happened(qm: QueueManager) -> bool:
    """Tell whether no queue, count or ledger knows of a put."""
    counted = qm.counts("Q1")
    return (
        (qm.curdepth(STAGING), qm.curdepth("Q1"), counted.staged, counted.uncommitted) == (0,) * 4
        and lives(qm, STAGING) == lives(qm, "Q1") == []
        and qm.verify().ok
    )


@pytest.mark.parametrize("life_ms", [None, 60_000])
def test_D7_delay_that_is_none_is_an_options_error(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, life_ms: int | None
) -> None:
    local(queue_manager)
    for delay_ms in (*ABSURD, None):
        with refused(rc.MQRC_OPTIONS_ERROR):
            session.put("Q1", b"x", delay_ms=delay_ms, time_to_live_ms=life_ms)
        clock.advance(10)
        assert nothing_happened(queue_manager), delay_ms


@pytest.mark.parametrize("rule", [0, 1], ids=["TTLFROM(SEND)", "TTLFROM(RELEASE)"])
def test_D7_also_where_the_life_begins_later_and_in_a_unit_of_work(
    queue_manager: QueueManager, unit: Session, rule: int
) -> None:
    local(queue_manager, TTLFROM=rule, CAPEXPRY=10)
    for delay_ms in ABSURD:
        with refused(rc.MQRC_OPTIONS_ERROR):
            unit.put("Q1", b"x", delay_ms=delay_ms)
        unit.commit()
        assert nothing_happened(queue_manager), delay_ms


#: Lives that no message can have.
NO_LIVES: list[Any] = [0, -1, -(10**18), 1.5, 2_000.0, True, "5", b"5", float("nan")]
NO_LIVES += [10**18, LONGEST_LIFE_MS + 1]


@pytest.mark.parametrize("rule", [0, 1], ids=["TTLFROM(SEND)", "TTLFROM(RELEASE)"])
@pytest.mark.parametrize("delay_ms", [0, 1_000])
def test_E02_life_that_is_none_is_an_expiry_error(
    queue_manager: QueueManager, session: Session, delay_ms: int, rule: int
) -> None:
    local(queue_manager, TTLFROM=rule)
    for life_ms in NO_LIVES:
        with refused(rc.MQRC_EXPIRY_ERROR):
            session.put("Q1", b"x", time_to_live_ms=life_ms, delay_ms=delay_ms)
        assert nothing_happened(queue_manager), life_ms


def test_D7_latest_delay_and_longest_life_are_taken_and_work(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """The very last millisecond a key can say, in the year 2109."""
    local(queue_manager, TTLFROM=1)
    delay_ms = LATEST_DUE_MS - START_MS
    sent = session.put("Q1", b"x", delay_ms=delay_ms, time_to_live_ms=LONGEST_LIFE_MS)
    (waiting,) = session.schedule.list()
    assert waiting.deliver_at_ms == LATEST_DUE_MS
    assert waiting.expire_at_ms == LATEST_DUE_MS + LONGEST_LIFE_MS
    clock.advance(delay_ms - 1)
    assert session.get("Q1") is None
    clock.advance(1)
    message = session.get("Q1")
    assert message is not None
    assert (message.msg_id, message.remaining_ms) == (sent, LONGEST_LIFE_MS)


def test_D7_delay_beyond_the_life_names_the_expiry_not_the_options(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.put("Q1", b"x", delay_ms=LONGEST_LIFE_MS + 1, time_to_live_ms=LONGEST_LIFE_MS)
    assert nothing_happened(queue_manager)


@pytest.mark.parametrize("delay_ms", [0, 5])
@pytest.mark.parametrize("given", [b"M" * 25, b"M" * 1_000])
def test_D3_id_that_is_too_long_is_refused(
    queue_manager: QueueManager, session: Session, given: bytes, delay_ms: int
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_MD_ERROR):
        session.put("Q1", b"x", delay_ms=delay_ms, msg_id=given)
    with refused(rc.MQRC_MD_ERROR):
        session.put("Q1", b"x", delay_ms=delay_ms, correl_id=given)
    assert nothing_happened(queue_manager)

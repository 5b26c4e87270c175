"""TTLFROM, where the life of a delayed message begins: at the send (D7, D17), or at its release."""

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.delay.delay_processor import RETRY_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DDH
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import Value
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.over import NewSession
from tests.spec.scene import (
    REPLIES,
    STAGING,
    START_MS,
    End,
    alias,
    alter,
    body,
    ends,
    local,
    refused,
)

SEND, RELEASE = 0, 1
DELAY_MS, LIFE_MS = 10_000, 4_000


def holder(qm: QueueManager, rule: int = RELEASE, **attributes: Value) -> None:
    """Define Q1 with a TTLFROM."""
    local(qm, "Q1", TTLFROM=rule, **attributes)


def put(session: Session, persistent: bool, queue: str = "Q1", body: bytes = b"x") -> bytes:
    """Put what lives shorter than its delay."""
    return session.put(
        queue, body, delay_ms=DELAY_MS, time_to_live_ms=LIFE_MS, persistent=persistent
    )


@pytest.mark.parametrize(
    ("at_ms", "tenths"),
    [
        (DELAY_MS - 1, None),
        (DELAY_MS, 40),
        (DELAY_MS + 1, 40),
        (DELAY_MS + LIFE_MS - 1, 1),
        (DELAY_MS + LIFE_MS, None),
        (DELAY_MS + LIFE_MS + 1, None),
    ],
)
def test_TTLFROM_release_gives_the_whole_life_after_the_delay(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    at_ms: int,
    tenths: int | None,
    new_session: NewSession,
) -> None:
    """The window is half-open: at T+delay it is there, at T+delay+life it is gone."""
    holder(any_manager)
    with new_session(any_manager) as session:
        put(session, persistent)
        clock.advance(at_ms)
        message = session.get("Q1")
    assert (None if message is None else message.remaining_tenths) == tenths
    if at_ms >= DELAY_MS:
        assert ends(any_manager, STAGING) == [End("released", DELAY_MS)]
        assert any_manager.curdepth("Q1") == 0
    if at_ms >= DELAY_MS + LIFE_MS:
        assert ends(any_manager, "Q1") == [End("expired", at_ms)]


def test_TTLFROM_is_send_unless_said_and_then_the_short_life_is_refused(
    queue_manager: QueueManager, session: Session, persistent: bool
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_EXPIRY_ERROR):
        put(session, persistent)
    alter(queue_manager, "Q1", TTLFROM=RELEASE)
    put(session, persistent)
    alter(queue_manager, "Q1", TTLFROM=SEND)
    with refused(rc.MQRC_EXPIRY_ERROR):
        put(session, persistent)
    assert queue_manager.curdepth(STAGING) == 1


def test_TTLFROM_is_an_attribute_of_mqsc(queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) TTLFROM(RELEASE)\nDEFINE QLOCAL(Q2)").ok
    rows = queue_manager.mqsc("DISPLAY QLOCAL(Q*) TTLFROM").rows
    assert [(r["QUEUE"], r["TTLFROM"]) for r in rows] == [("Q1", "RELEASE"), ("Q2", "SEND")]
    assert not queue_manager.mqsc("ALTER QLOCAL(Q1) TTLFROM(LATER)").ok


@pytest.mark.parametrize("life_ms", [None, 60_000])
@pytest.mark.parametrize(
    ("at_ms", "is_there"), [(DELAY_MS, True), (DELAY_MS + 1_999, True), (DELAY_MS + 2_000, False)]
)
def test_TTLFROM_release_lets_the_cap_begin_at_the_release_too(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    life_ms: int | None,
    at_ms: int,
    is_there: bool,
) -> None:
    """CAPEXPRY shorter than the delay: no D31 error, and the cap is the life after the delay."""
    holder(queue_manager, CAPEXPRY=20)
    session.put("Q1", b"x", delay_ms=DELAY_MS, time_to_live_ms=life_ms)
    clock.advance(at_ms)
    assert (session.get("Q1") is not None) == is_there


def test_TTLFROM_send_refuses_the_cap_that_is_shorter_than_the_delay(
    queue_manager: QueueManager, session: Session
) -> None:
    holder(queue_manager, SEND, CAPEXPRY=20)
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.put("Q1", b"x", delay_ms=DELAY_MS)


def test_TTLFROM_release_changes_nothing_without_a_delay(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    holder(queue_manager)
    session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
    clock.advance(LIFE_MS - 1)
    assert len(list(session.browse("Q1"))) == 1
    clock.advance(1)
    assert session.get("Q1") is None


def test_TTLFROM_release_without_a_life_never_ends(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    holder(queue_manager)
    session.put("Q1", b"x", delay_ms=DELAY_MS)
    clock.advance(10**9)
    message = session.get("Q1")
    assert message is not None
    assert (message.expire_at_ms, message.remaining_tenths) == (None, -1)


@pytest.mark.parametrize(("at_put", "later"), [(SEND, RELEASE), (RELEASE, SEND)])
def test_TTLFROM_counts_as_it_was_at_the_put(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    at_put: int,
    later: int,
    new_session: NewSession,
) -> None:
    """Altered during the delay it changes nothing, not even for a reschedule."""
    holder(any_manager, at_put)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1", b"x", delay_ms=1_000, time_to_live_ms=LIFE_MS, persistent=persistent
        )
        alter(any_manager, "Q1", TTLFROM=later)
        expire_at_ms = START_MS + LIFE_MS + (1_000 if at_put == RELEASE else 0)
        assert next(session.browse(STAGING)).expire_at_ms == expire_at_ms
        session.schedule.reschedule(sent, delay_ms=3_000)
        expire_at_ms += 2_000 if at_put == RELEASE else 0
        clock.advance(3_000)
        message = session.get("Q1")
    assert message is not None
    assert message.expire_at_ms == expire_at_ms


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("new_delay_ms", [2_000, 10_000, 500_000, 0])
def test_TTLFROM_release_moves_the_expiry_along_with_a_reschedule(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    transacted: bool,
    new_delay_ms: int,
    new_session: NewSession,
) -> None:
    """Also by hours: D7 has nothing to refuse; also twice; also to now."""
    holder(any_manager)
    with (
        new_session(any_manager) as session,
        new_session(any_manager, transacted=transacted) as admin,
    ):
        sent = put(session, persistent)
        clock.advance(1_000)
        assert session.schedule.reschedule(sent, delay_ms=777) is Receipt.RESCHEDULED
        assert admin.schedule.reschedule(sent, delay_ms=new_delay_ms) is Receipt.RESCHEDULED
        if transacted:
            admin.commit()
        due_ms = START_MS + 1_000 + new_delay_ms
        if new_delay_ms:
            shown = session.schedule.show(sent)
            assert shown is not None
            assert (shown.deliver_at_ms, shown.expire_at_ms) == (due_ms, due_ms + LIFE_MS)
        clock.advance(new_delay_ms + LIFE_MS - 1)
        message = session.get("Q1")
    assert message is not None
    assert (message.deliver_at_ms, message.expire_at_ms) == (due_ms, due_ms + LIFE_MS)
    assert message.remaining_ms == 1


def test_TTLFROM_release_by_hand_gives_the_whole_life_too(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    holder(any_manager)
    with new_session(any_manager) as session:
        sent = put(session, persistent)
        clock.advance(3_000)
        assert session.schedule.release(sent) is Receipt.RELEASED
        message = session.get("Q1")
    assert message is not None
    assert message.remaining_ms == LIFE_MS
    assert message.expire_at_ms == START_MS + 3_000 + LIFE_MS


def test_TTLFROM_release_in_bulk_moves_each_expiry_along(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Beside it one whose life runs from the send: its expiry stays."""
    holder(any_manager)
    local(any_manager, "Q2")
    with new_session(any_manager) as session:
        put(session, persistent)
        session.put(
            "Q2", b"y", delay_ms=DELAY_MS, time_to_live_ms=10 * DELAY_MS, persistent=persistent
        )
        assert list(session.schedule.reschedule_all(ScheduleFilter(), by_ms=5_000)) == [2]
        moved = session.schedule.list()
    assert [m.deliver_at_ms - START_MS for m in moved] == [15_000, 15_000]
    assert [m.expire_at_ms for m in moved] == [START_MS + 15_000 + LIFE_MS, START_MS + 100_000]


def test_TTLFROM_is_that_of_the_queue_behind_an_alias(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """And of the first resolution: the second target's rule does not count (D15, D16)."""
    holder(queue_manager)
    local(queue_manager, "Q2")
    alias(queue_manager, "A1", "Q1")
    put(session, True, "A1")
    queue_manager.mqsc("ALTER QALIAS(A1) TARGET(Q2)")
    clock.advance(DELAY_MS + LIFE_MS - 1)
    assert body(session.get("Q2")) == b"x"


def test_TTLFROM_release_survives_a_restart(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """The life begins at the delivery time, also when the release comes late."""
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        holder(qm)
        put(session, True, body=b"first")
        second = put(session, True, body=b"second")
    clock.advance(DELAY_MS + 1_000)
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        message = session.get("Q1", msg_id=second)
        assert message is not None
        assert message.remaining_ms == LIFE_MS - 1_000
        clock.advance(LIFE_MS - 1_000)
        assert session.get("Q1") is None
        assert ends(qm, "Q1")[-1] == End("expired", DELAY_MS + LIFE_MS)
        assert qm.verify().ok


def test_TTLFROM_release_never_loses_a_message_silently(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Stuck on staging beyond its life it expires there, with its report."""
    holder(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"x",
            delay_ms=DELAY_MS,
            time_to_live_ms=LIFE_MS,
            persistent=persistent,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
        )
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(DELAY_MS + LIFE_MS)
        assert any_manager.curdepth(REPLIES) == 0
        assert session.schedule.release(sent) is Receipt.EXPIRED
        clock.advance(RETRY_MS - LIFE_MS)
        report = session.get(REPLIES)
    assert report is not None
    assert report.correl_id == sent
    assert ends(any_manager, STAGING) == [End("expired", DELAY_MS + RETRY_MS)]


@pytest.mark.parametrize(
    ("at_ms", "is_there"), [(DELAY_MS, True), (DELAY_MS + LIFE_MS - 1, True), (14_000, False)]
)
def test_TTLFROM_release_counts_for_what_is_put_on_the_staging_queue_by_name(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    at_ms: int,
    is_there: bool,
    new_session: NewSession,
) -> None:
    holder(any_manager)
    header = DDH.pack({"TargetQName": "Q1", "DueTime": START_MS + DELAY_MS})
    with new_session(any_manager) as session:
        session.put(
            STAGING,
            header + b"x",
            format_name="MQHDDLY",
            time_to_live_ms=LIFE_MS,
            persistent=persistent,
        )
        clock.advance(at_ms)
        assert (session.get("Q1") is not None) == is_there


@pytest.mark.parametrize("late_ms", [0, 5_000])
def test_TTLFROM_release_in_a_unit_of_work_begins_at_the_delivery_time(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    new_session: NewSession,
) -> None:
    """Committed late, it has what is left from the moment it was due (D12)."""
    holder(any_manager)
    with new_session(any_manager, transacted=True) as unit:
        unit.put("Q1", b"x", delay_ms=1_000, time_to_live_ms=8_000, persistent=persistent)
        clock.advance(1_000 + late_ms)
        unit.commit()
        message = unit.get("Q1")
    assert message is not None
    assert message.remaining_ms == 8_000 - late_ms

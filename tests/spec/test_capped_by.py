"""CAPEXPRY: a life that a cap has shortened says which cap it was, and of which object (X1-X4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine import Session, forward, put_dead_letter
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.lifetime.life import Cap, read_cap
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import admin_sub, available_only, topic
from tests.spec.remote_scene import network
from tests.spec.scene import (
    DEAD,
    STAGING,
    START_MS,
    V2,
    alias,
    alter,
    alter_manager,
    lives,
    local,
    put_expiry,
    put_md,
)
from tests.spec.stage_scene import plain, write

#: The caps of the scene, in words.
OF_ALIAS = "CAPEXPRY(600) of QALIAS(A1)"
OF_QUEUE = "CAPEXPRY(700) of QLOCAL(Q1)"
NO_LIMIT = c.MQCEX_NOLIMIT
CAP_MS = 60_000


@pytest.fixture
def qm(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with Q1, and the alias A1 that caps lives at 60 s."""
    local(queue_manager)
    alias(queue_manager, "A1", "Q1", CAPEXPRY=600)
    return queue_manager


@pytest.fixture
def session(qm: QueueManager, new_session: NewSession) -> Iterator[Session]:
    """A session outside of units of work."""
    with new_session(qm, "app") as opened:
        yield opened


def caps(qm: QueueManager, queue: str = "Q1") -> list[str | None]:
    """Return which cap has shortened the lives that ended on a queue."""
    return [life.capped_by for life in lives(qm, queue)]


def drain(session: Session, queue: str = "Q1") -> None:
    while session.get(queue) is not None:
        pass


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("asked_tenths", "capped_by"),
    [(-1, OF_ALIAS), (601, OF_ALIAS), (600, None), (599, None)],
)
def test_X3_only_a_life_that_was_shortened_names_the_cap(
    qm: QueueManager, session: Session, asked_tenths: int, capped_by: str | None
) -> None:
    put_expiry(session, "A1", asked_tenths)
    put_expiry(session, "Q1", asked_tenths)
    drain(session)
    assert caps(qm) == [capped_by, None]


@pytest.mark.parametrize("persistent", [False, True])
def test_X1_a_capped_message_expires_at_the_cap_and_its_record_says_why(
    qm: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    """Gettable a millisecond before; expired at the cap, and a millisecond after it."""
    for late_ms in (-1, 0, 1):
        session.put("A1", b"x", persistent=persistent)
        clock.advance(CAP_MS + late_ms)
        assert (session.get("Q1") is not None) == (late_ms < 0)
    assert [(x.outcome, x.capped_by, x.detected_by) for x in lives(qm, "Q1")] == [
        ("got", OF_ALIAS, None),
        ("expired", OF_ALIAS, "get"),
        ("expired", OF_ALIAS, "get"),
    ]


@pytest.mark.parametrize(
    ("queue_cap", "alias_cap", "capped_by"),
    [
        (700, 600, OF_ALIAS),
        (700, 800, OF_QUEUE),
        (700, NO_LIMIT, OF_QUEUE),
        (NO_LIMIT, 600, OF_ALIAS),
        (NO_LIMIT, NO_LIMIT, None),
    ],
)
def test_X3_the_lowest_cap_on_the_path_is_named(
    queue_manager: QueueManager,
    new_session: NewSession,
    queue_cap: int,
    alias_cap: int,
    capped_by: str | None,
) -> None:
    local(queue_manager, CAPEXPRY=queue_cap)
    alias(queue_manager, "A1", "Q1", CAPEXPRY=alias_cap)
    with new_session(queue_manager) as session:
        session.put("A1", b"x")
        drain(session)
    assert caps(queue_manager) == [capped_by]


def test_X2_the_custom_form_is_named_like_the_attribute(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    local(queue_manager, CUSTOM="CAPEXPRY(700)", CAPEXPRY=5)
    with new_session(queue_manager) as session:
        session.put("Q1", b"x")
        drain(session)
    assert caps(queue_manager) == [OF_QUEUE]


def test_X4_the_cap_at_the_put_stays_named_when_it_changes(
    qm: QueueManager, session: Session
) -> None:
    session.put("A1", b"x")
    qm.mqsc("ALTER QALIAS(A1) CAPEXPRY(300)")
    session.put("A1", b"x")
    qm.mqsc("DELETE QALIAS(A1)")
    drain(session)
    assert caps(qm) == [OF_ALIAS, "CAPEXPRY(300) of QALIAS(A1)"]


def test_E17_units_of_work_and_segments_name_it_too(
    qm: QueueManager, new_session: NewSession
) -> None:
    alter(qm, "Q1", MAXMSGL=20)
    may_be_cut = V2._replace(msg_flags=c.MQMF_SEGMENTATION_ALLOWED)
    with new_session(qm, transacted=True) as unit:
        unit.put("A1", b"x")
        unit.put("Q1", b"x")
        put_md(unit, "A1", b"x" * 30, may_be_cut, options=c.MQPMO_SYNCPOINT)
        unit.commit()
        drain(unit)
    assert caps(qm) == [OF_ALIAS, None, OF_ALIAS, OF_ALIAS]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("has_report", [False, True])
def test_D17_a_delayed_message_takes_it_from_staging_to_its_target(
    qm: QueueManager, session: Session, clock: VirtualClock, persistent: bool, has_report: bool
) -> None:
    """Released in bulk, or alone for its COA report."""
    report = c.MQRO_COA if has_report else c.MQRO_NONE
    for queue in ("A1", "Q1"):
        session.put(
            queue, b"x", delay_ms=5_000, persistent=persistent, report=report, reply_to_q="REPLIES"
        )
    clock.advance(5_000)
    drain(session)
    assert caps(qm, STAGING) == caps(qm) == [OF_ALIAS, None]
    assert [life.expire_at_ms for life in lives(qm, "Q1")] == [START_MS + CAP_MS, None]


def test_D17_a_new_delivery_time_leaves_it(
    qm: QueueManager, session: Session, clock: VirtualClock
) -> None:
    sent = session.put("A1", b"x", delay_ms=5_000)
    session.schedule.reschedule(sent, delay_ms=7_000)
    clock.advance(7_000)
    drain(session)
    assert caps(qm, STAGING) == caps(qm) == [OF_ALIAS]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("topic_cap", "queue_cap", "capped_by"),
    [
        (400, NO_LIMIT, "CAPEXPRY(400) of TOPIC(NEWS)"),
        (400, 700, "CAPEXPRY(400) of TOPIC(NEWS)"),
        (800, 700, OF_QUEUE),
        (NO_LIMIT, 700, OF_QUEUE),
        (NO_LIMIT, NO_LIMIT, None),
    ],
)
@pytest.mark.parametrize("delay_ms", [0, 2_000])
def test_X3_publications_name_the_cap_of_the_topic_or_of_the_queue(
    queue_manager: QueueManager,
    clock: VirtualClock,
    topic_cap: int,
    queue_cap: int,
    capped_by: str | None,
    delay_ms: int,
) -> None:
    local(queue_manager, CAPEXPRY=queue_cap)
    topic(queue_manager, "NEWS", "news", CAPEXPRY=topic_cap)
    available_only(queue_manager)
    admin_sub(queue_manager, "ONE", "news", "Q1")
    with queue_manager.session() as session:
        session.publish("news", b"x", delay_ms=delay_ms)
        clock.advance(delay_ms)
        drain(session)
    assert caps(queue_manager) == [capped_by]


@pytest.mark.in_process
def test_X3_a_retained_publication_hands_its_cap_to_later_subscribers(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    local(queue_manager)
    topic(queue_manager, "NEWS", "news", CAPEXPRY=400)
    with queue_manager.session() as session:
        session.publish("news", b"x", retain=True)
        clock.advance(1_000)
        admin_sub(queue_manager, "ONE", "news", "Q1")
        clock.advance(38_999)
        assert len(list(session.browse("Q1"))) == 1
        clock.advance(1)
        drain(session)
    [life] = lives(queue_manager, "Q1")
    assert (life.capped_by, life.detected_by) == ("CAPEXPRY(400) of TOPIC(NEWS)", "get")


def test_X1_a_remote_definition_and_its_transmission_queue_are_named(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    network(queue_manager, CAPEXPRY="300")
    with new_session(queue_manager) as session:
        session.put("ORDERS", b"x")
        queue_manager.mqsc("ALTER QLOCAL(QM2) CAPEXPRY(200)")
        session.put("ORDERS", b"x")
        drain(session, "QM2")
    assert caps(queue_manager, "QM2") == [
        "CAPEXPRY(300) of QREMOTE(ORDERS)",
        "CAPEXPRY(200) of QLOCAL(QM2)",
    ]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("dead_cap", "capped_by"),
    [(NO_LIMIT, OF_ALIAS), (100, f"CAPEXPRY(100) of QLOCAL({DEAD})")],
)
def test_E21_X3_a_message_that_moves_on_keeps_its_cap_until_a_lower_one(
    qm: QueueManager, clock: VirtualClock, dead_cap: int, capped_by: str
) -> None:
    """Forwarded, put behind a dead-letter header, and dead-lettered when it is due."""
    alter(qm, DEAD, CAPEXPRY=dead_cap)
    alter_manager(qm, DEADQ=DEAD)
    local(qm, "Q2")
    with qm.session(transacted=True) as session:
        for delay_ms in (0, 0, 1_000):
            session.put("A1", b"x", delay_ms=delay_ms)
        session.commit()
        first, second = session.get("Q1"), session.get("Q1")
        assert first is not None
        assert second is not None
        forward(qm.engine, session, "Q2", first)
        put_dead_letter(qm.engine, session, second, rc.MQRC_Q_FULL)
        session.commit()
        qm.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
        clock.advance(1_000)
        drain(session, "Q2")
        drain(session, DEAD)
    assert caps(qm, "Q2") == [OF_ALIAS]
    assert caps(qm, DEAD) == [capped_by] * 2


@pytest.mark.parametrize("persistent", [False, True])
def test_G9_claims_keep_it_given_back_and_ended(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    for queue in ("A1", "Q1"):
        session.put(queue, b"x", persistent=persistent)
    claims = qm.claims
    epoch = claims.attach("reader", "Q1").epoch
    claims.claim("reader", epoch, 0, ClaimLimit(10, 2**20))
    assert claims.release("reader") == 2
    standing = claims.attach("reader", "Q1")
    claimed = claims.claim("reader", standing.epoch, standing.closed, ClaimLimit(10, 2**20))
    assert claimed.messages == 2
    claims.end("reader", standing.epoch, claimed.until)
    assert caps(qm) == [OF_ALIAS, None]


@pytest.mark.in_process
@pytest.mark.parametrize("count", [3, 100])
@pytest.mark.parametrize("is_uniform", [False, True])
def test_X3_rows_of_pipelines_name_it_alone_and_in_bulk(
    qm: QueueManager, clock: VirtualClock, count: int, is_uniform: bool
) -> None:
    """A hundred are put by one statement; of one life, or of several."""
    asked = (None,) if is_uniform else (None, CAP_MS + 1, CAP_MS, 1_000)
    rows = [
        {**each, "time_to_live_ms": asked[n % len(asked)], "persistence": 1}
        for n, each in enumerate(plain(count, queue="A1"))
    ]
    write(qm, rows)
    with qm.session() as session:
        drain(session)
    expected = [
        OF_ALIAS if each["time_to_live_ms"] in (None, CAP_MS + 1) else None for each in rows
    ]
    assert caps(qm) == expected


def test_EXPQ_what_moves_to_an_expiry_queue_has_no_deadline_and_no_cap(
    qm: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(qm, "LATE")
    alter(qm, "Q1", EXPQ="LATE")
    alter_manager(qm, EXPRYINT=1)
    session.put("A1", b"x")
    clock.advance(CAP_MS)
    drain(session, "LATE")
    assert (caps(qm), caps(qm, "LATE")) == ([OF_ALIAS], [None])


def test_the_words_of_a_cap_are_read_back() -> None:
    cap = Cap(600, "QALIAS", "A1")
    assert (cap.text, read_cap(cap.text)) == (OF_ALIAS, cap)
    assert read_cap("CAPEXPRY(600) of a later version") is None

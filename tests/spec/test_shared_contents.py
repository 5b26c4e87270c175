"""Copies of one publication share their content on the disk: no reader and no end tells it.

Each test ends with nothing left of the contents, but for what its last copies need.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import Session
from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import PropertyQuestion
from tests.over import NewSession
from tests.spec.pubsub_scene import admin_sub, drained
from tests.spec.scene import (
    DEAD,
    REPLIES,
    alter,
    bodies,
    body,
    lives,
    local,
)
from tests.spec.test_claims import Reader

QUEUES = ("Q1", "Q2", "Q3", "Q4", "Q5")
BODY = b"the content"


@pytest.fixture
def qm(any_manager: QueueManager) -> Iterator[QueueManager]:
    """A queue manager whose five queues subscribe to all topics; in order at the end."""
    for name in QUEUES:
        local(any_manager, name)
        admin_sub(any_manager, name, "#", name)
    yield any_manager
    found = any_manager.verify()
    assert found.ok, found.problems


@pytest.fixture
def session(qm: QueueManager, new_session: NewSession) -> Iterator[Session]:
    """A session of it whose verbs are final at once."""
    with new_session(qm) as session:
        yield session


def contents(qm: QueueManager, *, persistent: bool) -> list[bytes]:
    store = qm.engine.store
    messages = store.persistent if persistent else store.volatile
    return [body for (body,) in messages.fetch("SELECT body FROM content ORDER BY id", ())]


def drain(session: Session, *queues: str) -> None:
    for queue in queues:
        assert drained(session, queue) == [("a/b", BODY)]


def test_gets_and_browses_show_the_content_until_the_last_copy_is_got(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    result = session.publish("a/b", BODY, persistent=persistent)
    for name in QUEUES:
        correl_id = next(iter(session.browse(name))).correl_id
        assert contents(qm, persistent=persistent) == [BODY]
        for found in (
            [*session.browse(name)],
            [*session.browse(name, msg_id=result.msg_id)],
            [*session.browse(name, correl_id=correl_id)],
            [*session.browse(name, selector="JMSPriority >= 0")],
        ):
            assert [(m.body, m.topic, m.msg_id) for m in found] == [(BODY, "a/b", result.msg_id)]
        message = session.get(name)
        assert message is not None
        assert any(correl_id)
        assert (message.body, message.msg_id, message.correl_id) == (BODY, result.msg_id, correl_id)
        assert (message.topic, message.persistent) == ("a/b", persistent)
        [life] = lives(qm, name)
        assert (life.msg_id, life.correl_id) == (result.msg_id, correl_id)
        assert (life.body_bytes, life.persistent) == (len(BODY), persistent)
    assert contents(qm, persistent=persistent) == []


def test_many_that_end_together_have_the_records_of_their_contents(
    qm: QueueManager, session: Session, persistent: bool, new_session: NewSession
) -> None:
    ids = [session.publish("a", b"x" * n, persistent=persistent).msg_id for n in range(1, 21)]
    with new_session(qm, transacted=True) as unit:
        for name in QUEUES:
            assert [len(m.body) for m in unit.get_many(name, 20)] == [*range(1, 21)]
        unit.commit()
    for name in QUEUES:
        assert [(life.msg_id, life.body_bytes) for life in lives(qm, name)] == [
            (msg_id, n) for n, msg_id in enumerate(ids, 1)
        ]
    assert contents(qm, persistent=persistent) == []


def test_a_backout_leaves_copy_and_content(
    qm: QueueManager, session: Session, persistent: bool, new_session: NewSession
) -> None:
    session.publish("a/b", BODY, persistent=persistent)
    drain(session, *QUEUES[1:])
    with new_session(qm, transacted=True) as unit:
        assert body(unit.get("Q1")) == BODY
        unit.backout()
        assert contents(qm, persistent=persistent) == [BODY]
        message = unit.get("Q1")
        assert message is not None
        assert (message.body, message.backout_count) == (BODY, 1)
        unit.commit()
    assert contents(qm, persistent=persistent) == []


def test_copies_in_a_unit_of_work_share_a_content_once_it_is_committed(
    qm: QueueManager, session: Session, persistent: bool, new_session: NewSession
) -> None:
    with new_session(qm, transacted=True) as unit:
        unit.publish("a/b", BODY, persistent=persistent)
        unit.publish("a/c", b"second", persistent=persistent)
        assert contents(qm, persistent=persistent) == []
        # What the unit itself has got is not among them.
        assert body(unit.get("Q5")) == BODY
        unit.commit()
    assert contents(qm, persistent=persistent) == [BODY, b"second"]
    assert drained(session, "Q5") == [("a/c", b"second")]
    for name in QUEUES[:4]:
        assert drained(session, name) == [("a/b", BODY), ("a/c", b"second")]
    assert contents(qm, persistent=persistent) == []


def test_copies_whose_life_is_shorter_expire_with_reports_of_the_content(
    qm: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    local(qm, REPLIES)
    for name in QUEUES[:2]:
        alter(qm, name, CAPEXPRY=50)
    report = c.MQRO_EXPIRATION_WITH_FULL_DATA
    session.publish("a/b", BODY, persistent=persistent, report=report, reply_to_q=REPLIES)
    clock.advance(5_000)
    assert session.get("Q1") is None
    assert session.get("Q2") is None
    assert bodies(session, REPLIES) == [BODY, BODY]
    assert [life.outcome for name in QUEUES[:2] for life in lives(qm, name)] == ["expired"] * 2
    assert contents(qm, persistent=persistent) == [BODY]
    drain(session, *QUEUES[2:])
    assert contents(qm, persistent=persistent) == []


def test_a_dead_letter_of_a_copy_has_the_content(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    qm.mqsc(f"ALTER QMGR DEADQ({DEAD})")
    alter(qm, "Q1", MAXDEPTH=1)
    session.put("Q1", b"full")
    session.publish("a/b", BODY, persistent=persistent)
    assert contents(qm, persistent=persistent) == [BODY]
    dead = body(session.get(DEAD))
    assert dead is not None
    assert dead[DLH.length(1) :] == BODY
    drain(session, *QUEUES[1:])
    assert contents(qm, persistent=persistent) == []


def test_a_pipeline_reads_and_ends_what_it_has_claimed(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    session.publish("a/b", BODY, persistent=persistent)
    drain(session, *QUEUES[2:])
    reader, other = Reader(qm, "one", "Q1"), Reader(qm, "two", "Q2")
    assert reader.claim().messages == 1
    assert contents(qm, persistent=persistent) == [BODY]
    assert other.claim().messages == 1
    assert contents(qm, persistent=persistent) == []
    assert reader.read(1) == [BODY]
    reader.end(1)
    [life] = lives(qm, "Q1")
    assert (life.body_bytes, life.outcome) == (len(BODY), "got")
    qm.claims.release("two")
    drain(session, "Q2")


def test_the_place_of_each_copy_is_told_by_id_and_by_property(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    result = session.publish("a/b", BODY, persistent=persistent, properties={"order": "17"})
    session.get("Q1")
    entries = qm.why(result.msg_id).entries
    assert sorted((entry.queue, entry.state) for entry in entries) == [
        ("Q1", State.GOT),
        *((name, State.AVAILABLE) for name in QUEUES[1:]),
    ]
    assert {entry.topic for entry in entries if entry.state == State.AVAILABLE} == {"a/b"}
    found = qm.traces.with_property(PropertyQuestion("order", "17"))
    assert len(found.traces) == 1
    for name in QUEUES[1:]:
        session.get(name)
    assert contents(qm, persistent=persistent) == []


def test_clearing_the_queues_removes_the_content(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    session.publish("a/b", BODY, persistent=persistent)
    for name in QUEUES[:4]:
        qm.mqsc(f"CLEAR QLOCAL({name})")
    assert contents(qm, persistent=persistent) == [BODY]
    qm.mqsc(f"DELETE QLOCAL({QUEUES[4]}) PURGE")
    assert contents(qm, persistent=persistent) == []


def test_a_retained_publication_outlives_the_content_of_its_copies(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    session.publish("a/b", BODY, persistent=persistent, retain=True)
    drain(session, *QUEUES)
    assert contents(qm, persistent=persistent) == []
    late = session.subscribe("a/#").get()
    assert late is not None
    assert (late.body, late.topic) == (BODY, "a/b")


def test_each_subscription_has_its_own_priority_and_correl_id(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    """Three priorities are three descriptors, of which one is stored with the content."""
    for n in range(6):
        local(qm, f"P{n}")
        correl_id = (b"%d" % n).ljust(24)
        admin_sub(qm, f"P{n}", "p", f"P{n}", PUBPRTY=n % 2, DESTCORL=correl_id.hex())
    session.publish("p", BODY, persistent=persistent, priority=9)
    assert contents(qm, persistent=persistent) == [BODY]
    for n in range(6):
        message = session.get(f"P{n}")
        assert message is not None
        assert (message.descriptor.priority, message.correl_id) == (n % 2, (b"%d" % n).ljust(24))
        assert message.body == BODY
    for name in QUEUES:
        assert body(session.get(name)) == BODY
    assert contents(qm, persistent=persistent) == []


def test_a_publication_that_reaches_not_all_is_stored_nowhere(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    qm.mqsc("ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALL) NPMSGDLV(ALL)")
    alter(qm, "Q4", PUT=c.MQQA_PUT_INHIBITED)
    with pytest.raises(MQError):
        session.publish("a/b", BODY, persistent=persistent)
    assert contents(qm, persistent=persistent) == []
    assert [qm.curdepth(name) for name in QUEUES] == [0] * 5


def test_a_large_content_is_on_the_disk_once(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    large = bytes(range(256)) * 400
    messages = qm.engine.store.persistent if persistent else qm.engine.store.volatile
    [(before,)] = messages.fetch("PRAGMA page_count", ())
    session.publish("a/b", large, persistent=persistent)
    [(after,)] = messages.fetch("PRAGMA page_count", ())
    assert (after - before) * 4_096 < 1.2 * len(large)
    for name in QUEUES:
        assert body(session.get(name)) == large

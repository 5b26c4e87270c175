"""Publishing: a copy and a lifetime for each subscriber, all of them or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import alter_topic
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.engine.properties import View
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.pymqi.message_handle import HandleContents
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import BASE, admin_sub, deliver, drained, topic
from tests.spec.scene import (
    BROWSE,
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    alter,
    alter_manager,
    bodies,
    body,
    ends,
    local,
    refused,
    take,
)
from tests.spec.test_claims import full_disk


@pytest.mark.in_process
def test_each_subscriber_has_a_copy_with_one_MsgId(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    with new_session(any_manager, "anna") as session:
        for name in ("Q1", "Q2"):
            local(any_manager, name)
            admin_sub(any_manager, name, "a/#", name)
        admin_sub(any_manager, "TWICE", "a/b", "Q1")
        result = session.publish("a/b", b"x", persistent=persistent, report=0)
        assert (result.matched_count, result.delivered_count, result.warning) == (3, 3, 0)
        got = [session.get(name) for name in ("Q1", "Q1", "Q2")]
        for message in got:
            assert message is not None
            assert message.msg_id == result.msg_id
            assert (message.topic, message.persistent) == ("a/b", persistent)
            assert message.descriptor.user_identifier == "anna"
        assert session.get("Q1") is None
        assert [r.outcome for r in ends(any_manager, "Q1")] == ["got", "got"]


@pytest.mark.in_process
def test_copies_side_by_side_have_each_what_their_subscription_says(
    queue_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """Two that are alike come after one another, and after one that is not like them."""
    own, other = b"own".ljust(24, b"\0"), b"other".ljust(24, b"\0")
    capped = {"CAPEXPRY": 50}
    asked: list[tuple[dict[str, int], dict[str, str | int], bytes, int, int | None]] = [
        ({}, {"DESTCORL": own.hex()}, own, 4, None),
        ({}, {"DESTCORL": own.hex()}, own, 4, None),
        (capped, {"DESTCORL": own.hex()}, own, 4, START_MS + 5_000),
        (capped, {"DESTCORL": own.hex(), "PUBPRTY": 9}, own, 9, START_MS + 5_000),
        ({}, {"DESTCORL": own.hex(), "PUBPRTY": 9}, own, 9, None),
        ({}, {"DESTCORL": other.hex()}, other, 4, None),
        ({}, {"DESTCORL": own.hex()}, own, 4, None),
        ({}, {"DESTCORL": own.hex()}, own, 4, None),
    ]
    for n, (queue, attributes, *_) in enumerate(asked):
        local(queue_manager, f"Q{n}", **queue)
        admin_sub(queue_manager, f"S{n}", "a", f"Q{n}", **attributes)
    with new_session(queue_manager) as session:
        msg_id = session.publish("a", b"x", persistent=persistent, priority=4).msg_id
        for n, (_queue, _attributes, correl_id, priority, expire_at_ms) in enumerate(asked):
            message = session.get(f"Q{n}")
            assert message is not None
            assert (message.msg_id, message.body, message.topic) == (msg_id, b"x", "a")
            said = message.correl_id, message.descriptor.priority, message.expire_at_ms
            assert said == (correl_id, priority, expire_at_ms), n
            assert session.get(f"Q{n}") is None


@pytest.mark.in_process
def test_2550_only_when_asked_for(session: Session) -> None:
    assert session.publish("a", b"x").warning == 0
    warned = session.publish("a", b"x", warn_if_no_subscribers=True)
    assert (warned.warning, warned.matched_count) == (rc.MQRC_NO_SUBS_MATCHED, 0)
    session.subscribe("a", selector="JMSPriority = 9")
    assert session.publish("a", b"x", warn_if_no_subscribers=True).warning == warned.warning
    assert session.publish("a", b"x", priority=9, warn_if_no_subscribers=True).warning == 0


def test_P07_priority_and_persistence_are_the_topics(
    queue_manager: QueueManager, session: Session
) -> None:
    topic(queue_manager, "A", "a", DEFPRTY=6, DEFPSIST=1)
    local(queue_manager, DEFPRTY=1)
    admin_sub(queue_manager, "S", "#", "Q1")
    for string, priority, is_persistent in (("a/b", 6, True), ("b", 0, False)):
        session.publish(string, b"x")
        message = session.get("Q1")
        assert message is not None
        assert (message.priority, message.persistent) == (priority, is_persistent)


def test_a_copy_for_a_temporary_queue_is_not_persistent(session: Session) -> None:
    subscription = session.subscribe("a")
    session.publish("a", b"x", persistent=True)
    message = subscription.get()
    assert message is not None
    assert not message.persistent


def test_P09_a_publication_in_a_unit_of_work_is_seen_at_its_commit(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    for name in ("Q1", "Q2"):
        local(any_manager, name)
        admin_sub(any_manager, name, "a", name)
    with new_session(any_manager) as other, new_session(any_manager, transacted=True) as unit:
        unit.publish("a", b"1", persistent=persistent)
        assert [any_manager.counts(q).uncommitted for q in ("Q1", "Q2")] == [1, 1]
        assert other.get("Q1") is None
        # A subscription made since does not get it: subscriptions are matched at the put.
        admin_sub(any_manager, "LATE", "a", "Q2")
        unit.commit()
        assert (bodies(other, "Q1"), bodies(other, "Q2")) == ([b"1"], [b"1"])
        unit.publish("a", b"2", persistent=persistent)
        assert body(unit.get("Q1")) == b"2"
        unit.backout()
        assert [any_manager.curdepth(q) for q in ("Q1", "Q2")] == [0, 0]


def test_a_publication_is_one_operation_of_MAXUMSGS(
    queue_manager: QueueManager, unit: Session
) -> None:
    alter_manager(queue_manager, MAXUMSGS=2)
    local(queue_manager)
    for number in range(5):
        admin_sub(queue_manager, f"S{number}", "a", "Q1")
    unit.publish("a", b"1")
    unit.publish("a", b"2")
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        unit.publish("a", b"3")
    assert queue_manager.curdepth("Q1") == 10
    unit.backout()
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.parametrize("life_ms", [None, 50_000, 5_000])
def test_X03_each_copy_has_its_own_window_and_the_lowest_cap_wins(
    any_manager: QueueManager,
    clock: VirtualClock,
    life_ms: int | None,
    persistent: bool,
    new_session: NewSession,
) -> None:
    topic(any_manager, "A", "a", CAPEXPRY=200)
    for name, cap in (("FREE", c.MQCEX_NOLIMIT), ("LOW", 100), ("HIGH", 300)):
        local(any_manager, name, CAPEXPRY=cap)
        admin_sub(any_manager, name, "a", name)
    with new_session(any_manager) as session:
        session.publish("a", b"x", time_to_live_ms=life_ms, persistent=persistent)
        asked_ms = 10**9 if life_ms is None else life_ms
        for name, cap_ms in (("FREE", 20_000), ("LOW", 10_000), ("HIGH", 20_000)):
            [message] = session.browse(name)
            assert message.expire_at_ms == START_MS + min(asked_ms, cap_ms)
        clock.advance(min(asked_ms, 10_000) - 1)
        assert body(session.get("LOW")) == b"x"
        session.publish("a", b"y", time_to_live_ms=life_ms, persistent=persistent)
        clock.advance(min(asked_ms, 10_000))
        assert session.get("LOW") is None
        assert [e.outcome for e in ends(any_manager, "LOW")] == ["got", "expired"]


def test_X01_a_topic_without_a_cap_limits_nothing(
    queue_manager: QueueManager, session: Session
) -> None:
    topic(queue_manager, "A", "a", CAPEXPRY=200)
    topic(queue_manager, "AB", "a/b", CAPEXPRY=c.MQCEX_NOLIMIT)
    subscription = session.subscribe("a/#")
    for string, life_ms in (("a", 20_000), ("a/c", 20_000), ("a/b", None), ("a/b/c", None)):
        session.publish(string, b"x")
        message = subscription.get()
        assert message is not None
        assert message.remaining_ms == life_ms


PROMISES = (c.MQDLV_ALL, c.MQDLV_ALL_DUR, c.MQDLV_ALL_AVAIL)


@pytest.mark.in_process
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("in_unit", [False, True])
def test_2502_undoes_all_where_a_promised_subscriber_is_not_reached(
    any_manager: QueueManager,
    persistent: bool,
    promise: int,
    is_durable: bool,
    in_unit: bool,
    new_session: NewSession,
) -> None:
    deliver(any_manager, promise)
    local(any_manager, "GOOD")
    local(any_manager, "FULL", MAXDEPTH=1)
    admin_sub(any_manager, "GOOD", "a", "GOOD")
    with new_session(any_manager, transacted=in_unit) as session, new_session(any_manager) as other:
        other.put("FULL", b"there")
        session.subscribe("a", name="FULL", durable=is_durable, queue="FULL")
        admin_sub(any_manager, "LAST", "a", "GOOD")
        if promise == c.MQDLV_ALL or (promise == c.MQDLV_ALL_DUR and is_durable):
            with refused(rc.MQRC_PUBLICATION_FAILURE):
                session.publish("a", b"x", persistent=persistent)
            arrived = []
        else:
            result = session.publish("a", b"x", persistent=persistent)
            assert (result.matched_count, result.delivered_count) == (3, 2)
            arrived = [b"x", b"x"]
        if in_unit:
            session.commit()
        assert bodies(other, "GOOD") == arrived
        assert bodies(other, "FULL") == [b"there"]


@pytest.mark.in_process
@pytest.mark.parametrize("refusal", ["full", "inhibited", "too long", "deleted"])
def test_USEDLQ_a_copy_that_its_queue_refuses_is_dead_lettered(
    queue_manager: QueueManager, session: Session, refusal: str, persistent: bool
) -> None:
    alter_manager(queue_manager, DEADQ=DEAD)
    deliver(queue_manager, c.MQDLV_ALL)
    local(queue_manager)
    admin_sub(queue_manager, "S", "a", "Q1")
    if refusal == "deleted":
        assert queue_manager.mqsc("DELETE QLOCAL(Q1)").ok
    else:
        change = {"full": {"MAXDEPTH": 0}, "inhibited": {"PUT": 1}, "too long": {"MAXMSGL": 0}}
        alter(queue_manager, "Q1", **change[refusal])
    result = session.publish("a", b"x", persistent=persistent)
    assert (result.matched_count, result.delivered_count) == (1, 1)
    message = session.get(DEAD)
    assert message is not None
    assert message.body.endswith(b"x")
    assert message.persistent == persistent
    alter_topic(queue_manager.engine, BASE, {"USEDLQ": 1})
    with refused(rc.MQRC_PUBLICATION_FAILURE):
        session.publish("a", b"x", persistent=persistent)
    assert queue_manager.curdepth(DEAD) == 0


def test_P08_a_publication_longer_than_the_queue_manager_takes(
    queue_manager: QueueManager, session: Session
) -> None:
    alter_manager(queue_manager, MAXMSGL=32_768)
    session.publish("a", bytes(32_768))
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR):
        session.publish("a", bytes(32_769))


def test_P01_a_wrong_publication_reaches_nobody(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    admin_sub(queue_manager, "S", "a", "Q1")
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.publish("a", b"x", time_to_live_ms=0)
    with refused(rc.MQRC_PRIORITY_ERROR):
        session.publish("a", b"x", priority=-3)
    with refused(rc.MQRC_MISSING_REPLY_TO_Q):
        session.publish("a", b"x", report=c.MQRO_COD)
    with pytest.raises(TypeError):
        session.publish("a", "text")  # type: ignore[arg-type]  # wrong on purpose
    assert queue_manager.curdepth("Q1") == 0


def test_COA_one_report_for_each_copy_that_arrives(
    queue_manager: QueueManager, session: Session, unit: Session
) -> None:
    for name in ("Q1", "Q2", REPLIES):
        local(queue_manager, name)
    for name in ("Q1", "Q2"):
        admin_sub(queue_manager, name, "a", name)
    first = session.publish("a", b"x", report=c.MQRO_COA, reply_to_q=REPLIES)
    reports = [session.get(REPLIES) for _ in range(3)]
    assert [m and (m.descriptor.feedback, m.correl_id) for m in reports] == [
        (c.MQFB_COA, first.msg_id),
        (c.MQFB_COA, first.msg_id),
        None,
    ]
    unit.publish("a", b"x", report=c.MQRO_COA, reply_to_q=REPLIES)
    assert session.get(REPLIES) is None
    unit.commit()
    assert len(bodies(session, REPLIES)) == 2


def test_R7_an_expired_copy_is_reported_to_the_publisher(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager, REPLIES)
    subscription = session.subscribe("a")
    sent = session.publish(
        "a", b"x", report=c.MQRO_EXPIRATION, reply_to_q=REPLIES, time_to_live_ms=1_000
    )
    clock.advance(1_000)
    assert subscription.get() is None
    report = session.get(REPLIES)
    assert report is not None
    assert (report.descriptor.feedback, report.correl_id) == (c.MQFB_EXPIRATION, sent.msg_id)


@pytest.mark.in_process
def test_MQTopicString_selects_publications(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    """Of a subscription, at the publication and of what is retained, and of a get."""
    local(queue_manager)
    deliver(queue_manager, c.MQDLV_ALL_AVAIL)
    admin_sub(queue_manager, "ALL", "#", "Q1")
    gates = session.subscribe("#", selector="MQTopicString LIKE 'flight/%/gate'")
    for string in ("flight/1/gate", "flight/1", "gate"):
        session.publish(string, b"x", persistent=persistent, retain=True)
    session.publish("flight/2/gate", b"late", persistent=persistent, delay_ms=1_000)
    session.put("Q1", b"no publication", persistent=persistent)
    assert drained(session, gates.queue) == [("flight/1/gate", b"x")]
    late = session.subscribe("#", selector="MQTopicString = 'gate'")
    assert drained(session, late.queue) == [("gate", b"x")]
    assert body(session.get("Q1", selector="MQTopicString IS NULL")) == b"no publication"
    assert session.get(STAGING, selector="MQTopicString IS NOT NULL") is None
    clock.advance(1_000)
    assert drained(session, gates.queue) == [("flight/2/gate", b"late")]
    assert body(session.get("Q1", selector="MQTopicString = 'flight/2/gate'")) == b"late"


@pytest.mark.in_process
def test_MQTopicString_is_a_property_for_who_takes_properties_in_a_handle(
    queue_manager: QueueManager, session: Session
) -> None:
    """As PSPROP(MSGPROP) and PROPCTL(COMPAT) have it: nobody else sees it in the data."""
    local(queue_manager)
    admin_sub(queue_manager, "S", "#", "Q1")
    session.publish("a/b", b"x")
    session.publish("a/b", b"y", properties={"colour": "red", "mqps.Top": "forged"})
    session.put("Q1", b"z")
    handle, held = session.open("Q1", BROWSE), HandleContents()
    found = []
    for _ in range(3):
        result = take(handle, c.MQGMO_BROWSE_NEXT, view=View.IN_HANDLE)
        assert result.content is not None
        held.fill(result.content.properties, result.content.original, result.message)
        names = [(p.name, p.typed.value) for p in held.properties]
        found.append((result.message.body, names))
    assert found == [
        (b"x", [("mqps.Top", "a/b")]),
        (b"y", [("colour", "red"), ("mqps.Top", "a/b")]),
        (b"z", []),
    ]
    assert [m.body[-1:] for m in session.browse("Q1")] == [b"x", b"y", b"z"]
    assert body(session.get("Q1")) == b"x"


def test_a_claim_that_is_given_back_keeps_the_topic(
    tmp_path: Path, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        local(qm)
        admin_sub(qm, "S", "#", "Q1")
        for string in ("a", "a/b"):
            session.publish(string, b"x", persistent=persistent)
        session.put("Q1", b"no publication", persistent=persistent)
        reader = qm.claims.attach("reader", "Q1")
        assert qm.claims.claim("reader", reader.epoch, 0, Limit(10, 2**20)).messages == 3
    # What is claimed is on the disk, whatever it was before.
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert qm.claims.release("reader") == 3
        again = drained(session, "Q1")
        assert sorted(again, key=repr) == [("a", b"x"), ("a/b", b"x"), (None, b"no publication")]
        assert qm.verify().ok


def test_a_retained_publication_that_was_claimed_stays_the_one_of_its_topic(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        session.publish("a", b"x", persistent=True, retain=True)
        retained = "SYSTEM.RETAINED.PUB.QUEUE"
        reader = qm.claims.attach("reader", retained)
        assert qm.claims.claim("reader", reader.epoch, 0, Limit(10, 2**20)).messages == 1
        assert session.subscribe("a").get() is None
        assert qm.claims.release("reader") == 1
        assert body(session.subscribe("a").get()) == b"x"
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert body(session.subscribe("a").get()) == b"x"


def test_on_a_full_disk_nobody_gets_it_and_what_was_retained_stays(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        for number in range(50):
            local(qm, f"Q{number}")
            admin_sub(qm, f"S{number}", "a", f"Q{number}")
        session.publish("a", b"first", persistent=True, retain=True)
        with full_disk(qm), refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            session.publish("a", bytes(200_000), persistent=True, retain=True)
        assert [qm.curdepth(f"Q{number}") for number in range(50)] == [1] * 50
        assert qm.counts("Q0").uncommitted == 0
        assert body(session.subscribe("a").get()) == b"first"
        assert qm.verify().ok


def test_nobody_publishes_or_subscribes_while_publish_subscribe_is_disabled(
    manager: QueueManager, session: Session
) -> None:
    session.subscribe("a", name="kept", durable=True).close()
    manager.mqsc("ALTER QMGR PSMODE(DISABLED)")
    for call in (
        lambda: session.publish("a", b""),
        lambda: session.open_topic("a", c.MQOO_OUTPUT),
        lambda: session.subscribe("a"),
        lambda: session.resume("kept"),
    ):
        with pytest.raises(MQError) as raised:
            call()
        assert raised.value.reason == rc.MQRC_PUBSUB_INHIBITED
    manager.mqsc("ALTER QMGR PSMODE(COMPAT)")
    assert session.publish("a", b"").matched_count == 1

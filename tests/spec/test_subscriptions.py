"""Subscriptions: their kinds, queues and names, how long they live, and who holds them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.engine.api.administration import alter_subscription, delete_subscription
from mayfly.engine.pubsub.topics import PASSED_ON
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import admin_sub, drained
from tests.spec.scene import START_MS, alter_manager, bodies, body, local, refused

NON_DURABLE, DURABLE = "SYSTEM.MANAGED.NDURABLE.", "SYSTEM.MANAGED.DURABLE."


def managed_queues(qm: QueueManager) -> list[str]:
    """Return the managed queues there are."""
    return [q.name for q in qm.engine.registry.queues() if q.name.startswith("SYSTEM.MANAGED.")]


def matched(session: Session, string: str = "a") -> int:
    """Publish and return how many subscriptions matched."""
    return session.publish(string, b"x").matched_count


@pytest.mark.in_process
def test_a_managed_subscription_has_a_queue_of_its_own(
    any_manager: QueueManager, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        first, second = session.subscribe("a"), session.subscribe("a")
        assert first.queue != second.queue
        assert first.queue.startswith(NON_DURABLE)
        session.publish("a", b"1")
        assert (body(first.get()), body(second.get())) == (b"1", b"1")
        assert any_manager.engine.registry.queue(first.queue).input_count == 1
        first.close()
        assert managed_queues(any_manager) == [second.queue]
        assert matched(session) == 1


@pytest.mark.in_process
def test_a_provided_queue_stays_when_the_subscription_ends(
    any_manager: QueueManager, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        subscription = session.subscribe("a", queue="Q1")
        assert subscription.handle is None
        session.publish("a", b"1")
        subscription.close()
        assert not subscription.is_open
        assert matched(session) == 0
        assert bodies(session, "Q1") == [b"1"]


@pytest.mark.in_process
def test_a_durable_subscription_collects_while_nobody_has_it_open(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        opened = session.subscribe("a/+", name="D", durable=True)
        assert opened.queue.startswith(DURABLE)
    with new_session(any_manager) as session:
        session.publish("a/b", b"1", persistent=persistent)
        again = session.resume("D")
        assert again.topic == "a/+"
        message = again.get()
        assert message is not None
        assert (message.body, message.topic, message.persistent) == (b"1", "a/b", persistent)


@pytest.mark.in_process
def test_a_durable_subscription_survives_a_restart(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    local_queue = "Q1"
    with (
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm,
        new_session(qm, "anna") as session,
    ):
        local(qm, local_queue)
        session.subscribe("a", name="D", durable=True, selector="JMSPriority > 3", user_data="u")
        admin_sub(qm, "S", "#", local_queue, PUBPRTY=6)
        session.subscribe("a")
        session.publish("a", b"1", priority=4, persistent=True)
    with (
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm,
        new_session(qm, "anna") as session,
    ):
        # The one that was not durable is gone with its queue.
        assert session.publish("a", b"2", priority=9).matched_count == 2
        assert session.publish("a", b"3", priority=0).matched_count == 1
        opened = session.resume("D")
        assert managed_queues(qm) == [opened.queue]
        assert drained(session, opened.queue) == [("a", b"2"), ("a", b"1")]
        got = [session.get(local_queue) for _ in range(3)]
        assert [(m.body, m.priority) for m in got if m] == [(b"1", 6), (b"2", 6), (b"3", 6)]
        definition = qm.engine.registry.subscriptions.named("D").definition
        assert definition.subuser == "anna"
        assert definition.userdata == "u"
        assert qm.verify().ok


@pytest.mark.in_process
def test_a_managed_queue_without_its_subscription_goes_at_the_start(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """A crash between the two leaves the queue alone."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        session.open(
            "SYSTEM.DURABLE.MODEL.QUEUE", c.MQOO_OUTPUT, dynamic_name=f"{DURABLE}*"
        ).close()
        kept = session.subscribe("a", name="D", durable=True).queue
        assert len(managed_queues(qm)) == 2
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        assert managed_queues(qm) == [kept]


@pytest.mark.in_process
def test_2432_names_are_unique(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    session.subscribe("a", name="D", durable=True).close()
    with refused(rc.MQRC_SUB_ALREADY_EXISTS):
        session.subscribe("b", name="D", durable=True)
    with refused(rc.MQRC_SUB_ALREADY_EXISTS):
        session.subscribe("b", name="D")
    with refused(rc.MQRC_SUB_ALREADY_EXISTS):
        admin_sub(queue_manager, "D", "b", "Q1")
    assert matched(session, "b") == 0
    assert len(managed_queues(queue_manager)) == 1


def test_2440_a_durable_subscription_needs_a_name(session: Session) -> None:
    for name in ("", "  ", "x" * 10_241):
        with refused(rc.MQRC_SUB_NAME_ERROR):
            session.subscribe("a", name=name, durable=True)
    session.subscribe("a", name="any text: ä/#", durable=True)


@pytest.mark.in_process
def test_2428_and_2429_of_resume_and_unsubscribe(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    for verb in (session.resume, session.unsubscribe):
        with refused(rc.MQRC_NO_SUBSCRIPTION):
            verb("D")
    opened = session.subscribe("a", name="D", durable=True)
    with new_session(queue_manager) as other:
        for verb in (session.resume, session.unsubscribe, other.resume, other.unsubscribe):
            with refused(rc.MQRC_SUBSCRIPTION_IN_USE):
                verb("D")
        opened.close()
        again = other.resume("D")
        with refused(rc.MQRC_SUBSCRIPTION_IN_USE):
            session.resume("D")
        again.close()
    session.unsubscribe("D")
    assert managed_queues(queue_manager) == []
    assert matched(session) == 0
    with refused(rc.MQRC_NO_SUBSCRIPTION):
        session.resume("D")


@pytest.mark.in_process
def test_closing_with_remove_ends_a_durable_subscription(
    queue_manager: QueueManager, session: Session
) -> None:
    session.subscribe("a", name="D", durable=True).close(remove=True)
    assert managed_queues(queue_manager) == []
    with refused(rc.MQRC_NO_SUBSCRIPTION):
        session.resume("D")


@pytest.mark.in_process
def test_closing_twice_does_nothing(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    opened = session.subscribe("a", name="D", durable=True)
    opened.close()
    with new_session(queue_manager) as other:
        taken = other.resume("D")
        opened.close(remove=True)
        assert taken.is_open
        assert matched(session) == 1


@pytest.mark.in_process
@pytest.mark.parametrize("ending", ["close", "exception", "dropped"])
def test_a_non_durable_subscription_ends_with_its_session(
    queue_manager: QueueManager, session: Session, ending: str, new_session: NewSession
) -> None:
    other = new_session(queue_manager)
    subscription = other.subscribe("a")
    durable = other.subscribe("a", name="D", durable=True)
    assert matched(session) == 2
    if ending == "dropped":
        del other, subscription, durable
        gc.collect()
        session.get("SYSTEM.DEFAULT.LOCAL.QUEUE")
    else:
        other.close(commit=ending == "close")
        assert not subscription.is_open
    assert matched(session) == 1
    [left] = managed_queues(queue_manager)
    assert left.startswith(DURABLE)
    assert len(drained(session, session.resume("D").queue)) == 2
    assert queue_manager.verify().ok


@pytest.mark.in_process
def test_a_managed_queue_with_an_uncommitted_copy_goes_after_the_unit_of_work(
    queue_manager: QueueManager, session: Session, unit: Session
) -> None:
    subscription = session.subscribe("a")
    unit.publish("a", b"1")
    subscription.close()
    assert managed_queues(queue_manager) == [subscription.queue]
    unit.commit()
    session.subscribe("b").close()
    assert managed_queues(queue_manager) == []
    assert queue_manager.verify().ok


@pytest.mark.in_process
@pytest.mark.parametrize("durable", [False, True])
def test_SubExpiry_ends_a_subscription_at_its_moment(
    any_manager: QueueManager, clock: VirtualClock, durable: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        opened = session.subscribe("a", name="S", durable=durable, time_to_live_ms=5_000)
        assert opened.expire_at_ms == START_MS + 5_000
        clock.advance(4_999)
        assert matched(session) == 1
        assert any_manager.engine.due_work.next_due_ms() == START_MS + 5_000
        clock.advance(1)
        assert matched(session) == 0
        assert any_manager.engine.registry.subscriptions.find("S") is None
        assert not opened.is_open
        clock.advance(1)
        # What came before can still be got while the queue is open.
        assert body(opened.get()) == b"x"
        opened.close()
        assert managed_queues(any_manager) == []


@pytest.mark.in_process
def test_SubExpiry_passes_while_the_queue_manager_is_closed(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        for name, life_ms in (("short", 5_000), ("long", 5_001), ("ever", None)):
            session.subscribe("a", name=name, durable=True, time_to_live_ms=life_ms)
    clock.advance(5_000)
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert [s.name for s in qm.engine.registry.subscriptions.all()] == ["long", "ever"]
        assert len(managed_queues(qm)) == 2
        clock.advance(1)
        assert [s.name for s in qm.engine.registry.subscriptions.all()] == ["ever"]
        assert len(managed_queues(qm)) == 1


@pytest.mark.in_process
def test_SubExpiry_in_tenths_begins_again_when_altered(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    admin_sub(queue_manager, "S", "a", "Q1", EXPIRY=10)
    clock.advance(900)
    alter_subscription(queue_manager.engine, "S", {"EXPIRY": 10})
    clock.advance(999)
    assert matched(session) == 1
    clock.advance(1)
    assert matched(session) == 0
    admin_sub(queue_manager, "S", "a", "Q1", EXPIRY=10)
    alter_subscription(queue_manager.engine, "S", {"EXPIRY": c.MQEI_UNLIMITED})
    clock.advance(10_000_000)
    assert matched(session) == 1


@pytest.mark.in_process
@pytest.mark.parametrize("life_ms", [0, -1, 1.5, 2**31 * 100])
def test_2013_a_wrong_SubExpiry(session: Session, life_ms: int) -> None:
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.subscribe("a", time_to_live_ms=life_ms)
    assert matched(session) == 0


@pytest.mark.in_process
def test_a_subscription_takes_only_what_its_selector_selects(
    queue_manager: QueueManager, session: Session
) -> None:
    urgent = session.subscribe("a", selector="JMSPriority > 3")
    for priority in (3, 4):
        session.publish("a", bytes([priority]), priority=priority)
    assert drained(session, urgent.queue) == [("a", b"\x04")]
    for selector, reason in (
        ("JMSPriority >", rc.MQRC_SELECTOR_SYNTAX_ERROR),
        ("1 = 2", rc.MQRC_SELECTOR_ALWAYS_FALSE),
    ):
        with refused(reason):
            session.subscribe("a", selector=selector)
    assert managed_queues(queue_manager) == [urgent.queue]


def test_PUBPRTY_and_DESTCORL_are_the_subscriptions(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, DEFPRTY=2)
    own = b"\x07" * 24
    admin_sub(queue_manager, "PUB", "a", "Q1", DESTCORL=PASSED_ON)
    admin_sub(queue_manager, "QUEUE", "a", "Q1", PUBPRTY=-1, DESTCORL="AB" * 24)
    admin_sub(queue_manager, "NINE", "a", "Q1", PUBPRTY=9)
    session.publish("a", b"x", priority=5, correl_id=own)
    got = [session.get("Q1") for _ in range(3)]
    generated = queue_manager.engine.registry.subscriptions.named("NINE").sub_id
    assert [(m.priority, m.correl_id) for m in got if m] == [
        (9, generated),
        (5, own),
        (2, b"\xab" * 24),
    ]


@pytest.mark.in_process
def test_a_session_chooses_the_CorrelId_of_its_copies(session: Session) -> None:
    passed = session.subscribe("a")
    fixed = session.subscribe("a", correl_id=b"me")
    generated = session.subscribe("a", correl_id=b"")
    session.publish("a", b"x", correl_id=b"pub")
    ids = [m.correl_id for m in (passed.get(), fixed.get(), generated.get()) if m]
    assert ids[:2] == [b"pub".ljust(24, b"\0"), b"me".ljust(24, b"\0")]
    assert ids[2] not in (*ids[:2], bytes(24))


@pytest.mark.in_process
def test_wrong_subscriptions_leave_nothing_behind(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    before = {q.name for q in queue_manager.engine.registry.queues()}
    for string in ("", "\0"):
        with refused(rc.MQRC_TOPIC_STRING_ERROR):
            session.subscribe(string)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.subscribe("a", queue="NONE")
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        admin_sub(queue_manager, "S", "a", "NONE")
    for attributes in ({"DESTCLAS": 1}, {"DESTCORL": "AB"}, {"DESTCORL": "Z" * 48}):
        with refused(rc.MQRC_OPTIONS_ERROR):
            admin_sub(queue_manager, "S", "a", "Q1", **attributes)
    assert queue_manager.mqsc("DELETE QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE)").ok
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.subscribe("a")
    assert len(queue_manager.engine.registry.subscriptions) == 0
    assert {q.name for q in queue_manager.engine.registry.queues()} == before


def test_2017_a_subscription_whose_queue_cannot_be_opened_is_not_made(
    any_manager: QueueManager,
    new_session: NewSession,
) -> None:
    alter_manager(any_manager, MAXHANDS=1)
    with new_session(any_manager) as session:
        session.subscribe("a")
        for durable in (False, True):
            with refused(rc.MQRC_HANDLE_NOT_AVAILABLE):
                session.subscribe("a", name="D", durable=durable)
        assert len(any_manager.engine.registry.subscriptions) == 1
        assert len(managed_queues(any_manager)) == 1
        with refused(rc.MQRC_NO_SUBSCRIPTION):
            session.resume("D")


def test_a_closed_session_subscribes_to_nothing(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    session = new_session(queue_manager)
    opened = session.subscribe("a")
    session.close()
    opened.close()
    with refused(rc.MQRC_HCONN_ERROR):
        session.subscribe("a")
    with refused(rc.MQRC_HCONN_ERROR):
        session.publish("a", b"x")
    assert len(queue_manager.engine.registry.subscriptions) == 0


def test_what_ALTER_may_not_change(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    local(queue_manager, "Q2")
    admin_sub(queue_manager, "S", "a", "Q1")
    session.subscribe("a", name="M", durable=True)
    for name, change in (
        ("S", {"TOPICSTR": "b"}),
        ("S", {"SELECTOR": "a = 1"}),
        ("S", {"DESTCLAS": 1}),
        ("S", {"DESTCORL": "x"}),
        ("M", {"DEST": "Q1"}),
    ):
        with refused(rc.MQRC_OPTIONS_ERROR):
            alter_subscription(queue_manager.engine, name, change)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        alter_subscription(queue_manager.engine, "S", {"DEST": "NONE"})
    with refused(rc.MQRC_NO_SUBSCRIPTION):
        alter_subscription(queue_manager.engine, "T", {})
    alter_subscription(queue_manager.engine, "S", {"DEST": "Q2"})
    session.publish("a", b"x")
    assert (bodies(session, "Q1"), bodies(session, "Q2")) == ([], [b"x"])


@pytest.mark.in_process
def test_deleting_by_name_takes_the_managed_queue_along(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        session.subscribe("a", name="M", durable=True).close()
        session.publish("a", b"x", persistent=persistent)
        delete_subscription(any_manager.engine, "M")
        assert managed_queues(any_manager) == []
        with refused(rc.MQRC_NO_SUBSCRIPTION):
            delete_subscription(any_manager.engine, "M")


@pytest.mark.in_process
def test_a_thousand_subscriptions_match_in_the_order_they_were_made(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    for number in range(1_000):
        session.subscribe(("a", "+", "#")[number % 3], queue="Q1", correl_id=b"%03d" % number)
    assert matched(session) == 1_000
    got = [session.get("Q1") for _ in range(1_000)]
    assert [int(m.correl_id[:3]) for m in got if m] == list(range(1_000))


@pytest.mark.in_process
@pytest.mark.parametrize("durable", [False, True])
def test_a_shared_subscription_gives_each_copy_to_one_of_those_who_share_it(
    any_manager: QueueManager, durable: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as one, new_session(any_manager) as two:
        first = one.subscribe("a", name="S", durable=durable, shared=True)
        second = two.subscribe("a", name="S", durable=durable, shared=True)
        third = two.subscribe("a", name="S", durable=durable, shared=True)
        assert first.queue == second.queue == third.queue
        assert matched(one) == 1
        assert [body(s.get()) for s in (second, first, third)] == [b"x", None, None]
        with refused(rc.MQRC_SUBSCRIPTION_IN_USE):
            one.unsubscribe("S")
        if durable:
            with refused(rc.MQRC_SUBSCRIPTION_IN_USE):
                first.close(remove=True)
        first.close()
        two.close()
        assert [s.is_open for s in (second, third)] == [False, False]
        assert matched(one) == int(durable)
        assert len(managed_queues(any_manager)) == int(durable)


@pytest.mark.in_process
def test_who_joins_a_shared_subscription_asks_for_the_same(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    session.subscribe("a", name="S", selector="JMSPriority = 1", shared=True)
    session.subscribe("a", name="OWN", durable=True).close()
    same: dict[str, Any] = {"name": "S", "selector": "JMSPriority = 1", "shared": True}
    for topic_string, change in (
        ("b", {}),
        ("a", {"selector": ""}),
        ("a", {"durable": True}),
        ("a", {"queue": "Q1"}),
        ("a", {"shared": False}),
        ("a", {"name": "OWN", "selector": "", "durable": True}),
    ):
        with refused(rc.MQRC_SUB_ALREADY_EXISTS):
            session.subscribe(topic_string, **{**same, **change})
    with refused(rc.MQRC_SUB_NAME_ERROR):
        session.subscribe("a", shared=True)
    assert session.subscribe("a", **same).is_open


@pytest.mark.in_process
def test_no_local_leaves_out_what_its_own_connection_publishes(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    deaf = session.subscribe("a", no_local=True)
    durable = session.subscribe("a", name="D", durable=True, no_local=True)
    with new_session(queue_manager) as other:
        assert matched(session) == 0
        assert matched(other) == 2
        durable.close()
        assert matched(session) == 1
        again = other.resume("D")
        assert matched(other) == 1
        assert len(drained(session, again.queue)) == 2
        assert len(drained(session, deaf.queue)) == 2


@pytest.mark.in_process
def test_no_local_of_a_named_connection_holds_while_nobody_has_it_open(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    session.belong_to("anna")
    session.subscribe("a", name="D", durable=True, no_local=True).close()
    with new_session(queue_manager) as other, new_session(queue_manager) as same:
        same.belong_to("anna")
        assert [matched(one) for one in (session, same, other)] == [0, 0, 1]


@pytest.mark.in_process
def test_no_local_leaves_out_all_sessions_of_the_connection(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    connection = object()
    with new_session(queue_manager) as same, new_session(queue_manager) as other:
        for one in (session, same):
            one.belong_to(connection)
        session.subscribe("a", no_local=True)
        assert [matched(one) for one in (session, same, other)] == [0, 0, 1]


@pytest.mark.in_process
def test_a_durable_subscription_is_replaced_in_one_step(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as manager, new_session(manager) as session:
        session.subscribe("a", name="D", durable=True).close()
        assert matched(session) == 1
        changed = session.subscribe("b", name="D", durable=True, replace=True)
        assert (changed.topic, changed.is_open) == ("b", True)
        assert (matched(session), matched(session, "b")) == (0, 1)
        with refused(rc.MQRC_SUBSCRIPTION_IN_USE):
            session.subscribe("c", name="D", durable=True, replace=True)
        session.publish("b", b"kept", persistent=True)
    with QueueManager("QM1", tmp_path, clock=clock) as manager, new_session(manager) as session:
        again = session.resume("D")
        assert (again.topic, body(again.get())) == ("b", b"kept")


@pytest.mark.in_process
def test_there_need_be_nothing_to_replace(session: Session) -> None:
    assert session.subscribe("a", name="D", durable=True, replace=True).is_open


@pytest.mark.in_process
def test_publish_as_keeps_the_descriptor_and_obeys_syncpoint(
    queue_manager: QueueManager, session: Session
) -> None:
    subscribed = session.subscribe("a")
    request = PutRequest(Descriptor(format="MINE", priority=3), correl_id=b"C" * 24)
    session.publish_as("a", b"1", request, syncpoint=True)
    assert session.get(subscribed.queue) is None
    session.commit()
    session.publish_as("a", b"2", request, syncpoint=False)
    for sent in (b"1", b"2"):
        copy = session.get(subscribed.queue)
        assert copy is not None
        assert (copy.body, copy.descriptor.format.strip(), copy.priority) == (sent, "MINE", 3)
        assert copy.correl_id == b"C" * 24

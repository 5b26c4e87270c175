"""Delivery delay of publications: matched at send, one staged copy each (D8, D15, D23-D26)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.attributes import DEAD_LETTERS_NO, DEAD_LETTERS_YES
from mayfly.engine.delay.delay_processor import ReleaseBatch
from mayfly.engine.pubsub.topics import PASSED_ON
from mayfly.engine.queues import PERSISTENT
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.store.units import StoredMessage
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.snapshots import on_a_snapshot
from tests.spec.pubsub_scene import admin_sub, available_only, deliver, drained, topic
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    alias,
    alter,
    alter_manager,
    bodies,
    ends,
    lives,
    local,
    put_md,
    refused,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with the embedded processor and with a pipeline in its place."""
    if "clock" in metafunc.fixturenames:
        metafunc.parametrize("clock", ["embedded", "spark"], indirect=True)


@pytest.fixture
def qm(any_manager: QueueManager) -> QueueManager:
    """A queue manager whose topics can be delayed, with a dead-letter queue and a reply queue."""
    available_only(any_manager)
    local(any_manager)
    local(any_manager, REPLIES)
    alter_manager(any_manager, DEADQ=DEAD)
    return any_manager


def outcomes(qm: QueueManager, queue: str) -> list[tuple[str, int]]:
    """Return how the lives on a queue ended, and why."""
    return [(end.outcome, end.reason) for end in ends(qm, queue)]


@pytest.mark.in_process
def test_D25_one_staged_copy_for_each_subscriber_matched_at_send(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "ONE", "a/+", "Q1")
    with new_session(qm) as session:
        managed = session.subscribe("a/b")
        durable = session.subscribe("#", name="D", durable=True)
        session.subscribe("a/b", selector="JMSPriority = 9")
        sent = session.publish("a/b", b"x", delay_ms=5_000, persistent=persistent)
        assert (sent.matched_count, sent.delivered_count) == (3, 3)
        assert qm.counts(STAGING).live == 3
        assert qm.counts("Q1").staged == 1
        late = session.subscribe("a/b")
        clock.advance(4_999)
        for queue in ("Q1", managed.queue, durable.queue):
            assert session.get(queue) is None
        clock.advance(1)
        for queue in ("Q1", managed.queue, durable.queue):
            message = session.get(queue)
            assert message is not None
            assert (message.body, message.topic, message.msg_id) == (b"x", "a/b", sent.msg_id)
            assert message.deliver_at_ms == START_MS + 5_000
            assert message.persistent == (persistent and queue != managed.queue)
        assert late.get() is None
        assert outcomes(qm, STAGING) == [("released", 0)] * 3


@pytest.mark.parametrize("promise", [c.MQDLV_ALL, c.MQDLV_ALL_DUR])
def test_D26_2502_unless_the_topic_says_ALLAVAIL(
    qm: QueueManager, clock: VirtualClock, promise: int, persistent: bool, new_session: NewSession
) -> None:
    deliver(qm, promise)
    topic(qm, "FREE", "free", PMSGDLV=c.MQDLV_ALL_AVAIL, NPMSGDLV=c.MQDLV_ALL_AVAIL)
    admin_sub(qm, "S", "#", "Q1")
    with new_session(qm) as session:
        for string in ("a", "nobody/there"):
            with refused(rc.MQRC_PUBLICATION_FAILURE):
                session.publish(string, b"x", delay_ms=1_000, persistent=persistent)
        assert qm.curdepth(STAGING) == 0
        session.publish("a", b"x", persistent=persistent)
        session.publish("free/a", b"y", delay_ms=1_000, persistent=persistent)
        assert qm.curdepth(STAGING) == 1
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"x", b"y"]


@pytest.mark.in_process
def test_D26_a_default_topic_takes_a_delay_of_non_persistent_publications_only(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        subscription = session.subscribe("a")
        with refused(rc.MQRC_PUBLICATION_FAILURE):
            session.publish("a", b"x", delay_ms=1_000, persistent=True)
        session.publish("a", b"y", delay_ms=1_000, persistent=False)
        clock.advance(1_000)
        assert drained(session, subscription.queue) == [("a", b"y")]


def test_D08_a_retained_publication_has_no_delay(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    admin_sub(qm, "S", "a", "Q1")
    with new_session(qm) as session:
        with refused(rc.MQRC_OPTIONS_ERROR):
            session.publish("a", b"x", delay_ms=1, retain=True)
        clock.advance(1)
        assert (qm.curdepth(STAGING), qm.curdepth("Q1")) == (0, 0)
        assert session.subscribe("a").get() is None


def test_D05_D07_D31_what_else_refuses_a_delay(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    topic(qm, "A", "a", CAPEXPRY=10)
    admin_sub(qm, "S", "#", "Q1")
    with new_session(qm) as session:
        for string, life_ms, delay_ms in (("a", None, 1_001), ("b", 1_000, 1_001)):
            with refused(rc.MQRC_EXPIRY_ERROR):
                session.publish(string, b"x", time_to_live_ms=life_ms, delay_ms=delay_ms)
        for delay_ms in (-1, 2**42):
            with refused(rc.MQRC_OPTIONS_ERROR):
                session.publish("b", b"x", delay_ms=delay_ms)
        assert qm.curdepth(STAGING) == 0
        session.publish("a", b"x", delay_ms=999)
        clock.advance(999)
        assert bodies(session, "Q1") == [b"x"]


def test_D12_in_a_unit_of_work_copies_are_staged_at_the_commit(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "S", "a", "Q1")
    admin_sub(qm, "T", "#", "Q1")
    with new_session(qm, transacted=True) as unit, new_session(qm) as other:
        unit.publish("a", b"backed out", delay_ms=1_000, persistent=persistent)
        assert qm.curdepth(STAGING) == 0
        unit.backout()
        unit.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        unit.publish("a", b"late", delay_ms=400, persistent=persistent)
        clock.advance(500)
        unit.commit()
        assert bodies(other, "Q1") == [b"late", b"late"]
        assert qm.curdepth(STAGING) == 2
        clock.advance(499)
        assert bodies(other, "Q1") == []
        clock.advance(1)
        assert bodies(other, "Q1") == [b"x", b"x"]


@pytest.mark.parametrize("ending", ["session", "close", "unsubscribe", "SubExpiry"])
def test_D23_a_copy_whose_subscriber_is_gone_is_dropped_silently(
    qm: QueueManager, clock: VirtualClock, ending: str, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "STAYS", "a", "Q1")
    session, other = new_session(qm), new_session(qm)
    is_durable = ending == "unsubscribe"
    life_ms = 1_000 if ending == "SubExpiry" else None
    gone = other.subscribe("a", name="GONE", durable=is_durable, time_to_live_ms=life_ms)
    session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
    if ending == "session":
        other.close()
    elif ending == "close":
        gone.close()
    elif ending == "unsubscribe":
        gone.close()
        other.unsubscribe("GONE")
    # Another one of the same name is not the one that it was for.
    if ending != "SubExpiry":
        again = session.subscribe("a", name="GONE", durable=is_durable)
    clock.advance(1_000)
    assert bodies(session, "Q1") == [b"x"]
    if ending != "SubExpiry":
        assert again.get() is None
    assert sorted(outcomes(qm, STAGING)) == [
        ("discarded", rc.MQRC_NO_SUBSCRIPTION),
        ("released", 0),
    ]
    assert qm.curdepth(DEAD) == 0
    other.close()
    session.close()


def test_D23_its_reports_are_made_all_the_same(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(qm) as session:
        gone = session.subscribe("a", name="D", durable=True)
        sent = session.publish(
            "a",
            b"x",
            delay_ms=1_000,
            persistent=persistent,
            report=c.MQRO_EXCEPTION_WITH_FULL_DATA,
            reply_to_q=REPLIES,
        )
        gone.close(remove=True)
        clock.advance(1_000)
        report = session.get(REPLIES)
        assert report is not None
        assert report.descriptor.feedback == rc.MQRC_NO_SUBSCRIPTION
        assert (report.correl_id, report.body) == (sent.msg_id, b"x")
        assert outcomes(qm, STAGING) == [("discarded", rc.MQRC_NO_SUBSCRIPTION)]


def test_D20_a_copy_its_queue_refuses_is_dead_lettered(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "S", "a", "Q1")
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(1_000)
        dead = session.get(DEAD)
        assert dead is not None
        header = DLH.unpack(dead.body)
        assert (header["Reason"], header["DestQName"]) == (rc.MQRC_PUT_INHIBITED, "Q1")
        assert dead.body.endswith(b"x")
        assert outcomes(qm, STAGING) == [("dead_lettered", rc.MQRC_PUT_INHIBITED)]


def test_D24_and_discarded_where_the_dead_letter_queue_refuses_it_too(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """A message to a queue would stay and be tried again (D21)."""
    admin_sub(qm, "S", "a", "Q1")
    with new_session(qm) as session:
        session.publish("a", b"publication", delay_ms=1_000, persistent=persistent)
        session.put("Q1", b"message", delay_ms=1_000, persistent=persistent)
        alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        alter(qm, DEAD, PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(1_000)
        assert outcomes(qm, STAGING) == [("discarded", rc.MQRC_PUT_INHIBITED)]
        assert qm.curdepth(STAGING) == 1
        alter(qm, "Q1", PUT=c.MQQA_PUT_ALLOWED)
        clock.advance(10_000)
        assert bodies(session, "Q1") == [b"message"]


@pytest.mark.parametrize("takes_report", [False, True])
def test_D24_D22_and_discarded_though_its_exception_report_reaches_no_queue(
    qm: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    new_session: NewSession,
    *,
    takes_report: bool,
) -> None:
    """D22 undoes an action that has succeeded; of a publication the one that fails is the last."""
    admin_sub(qm, "S", "a", "Q1")
    report, reply_to = c.MQRO_EXCEPTION, REPLIES
    with new_session(qm) as session:
        session.publish(
            "a", b"x", delay_ms=1_000, persistent=persistent, report=report, reply_to_q=reply_to
        )
        for name in ("Q1", DEAD) if takes_report else ("Q1", DEAD, REPLIES):
            alter(qm, name, PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(1_000)
        assert outcomes(qm, STAGING) == [("discarded", rc.MQRC_PUT_INHIBITED)]
        assert qm.curdepth(STAGING) == 0
        for name in ("Q1", DEAD, REPLIES):
            alter(qm, name, PUT=c.MQQA_PUT_ALLOWED)
        clock.advance(20_000)
        assert [qm.curdepth(name) for name in ("Q1", DEAD, REPLIES)] == [0, 0, int(takes_report)]


def test_D15_the_subscription_says_at_release_where_its_copy_goes(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(qm, "Q2")
    alias(qm, "A1", "Q1")
    admin_sub(qm, "MOVED", "a", "Q1")
    admin_sub(qm, "ALIAS", "a", "A1")
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        assert qm.mqsc("ALTER SUB('MOVED') DEST(Q2)\nALTER QALIAS(A1) TARGET(Q2)").ok
        clock.advance(1_000)
        assert (bodies(session, "Q1"), bodies(session, "Q2")) == ([], [b"x", b"x"])


def release_ahead(qm: QueueManager, *, in_bulk: bool) -> int:
    """Let go what is due within 10 s, all of it one way; return how many there were."""
    staging = qm.engine.registry.staging()
    assert staging is not None
    with qm.engine.engine_lock:
        now_ms = qm.now_ms()
        release = ReleaseBatch(qm.engine, staging, now_ms)
        dues = qm.engine.delay_processor.due(now_ms + 10_000, 1_000)
        for due, side in dues:
            row = qm.engine.messages(side).row(due.k)
            assert row is not None
            assert release.take_in_bulk(due) if in_bulk else release.take((staging, row, side))
        transactions = release.transactions()
    qm.engine.committer.run(*transactions)
    return len(dues)


def rows_on(qm: QueueManager, *queues: str) -> list[StoredMessage]:
    """Return all that is stored of the persistent messages on some queues."""
    found = []
    for name in queues:
        queue = qm.engine.registry.queue(name)
        found += qm.engine.messages(PERSISTENT).in_order(queue.low, queue.high, 1_000)
    return found


def stage_many(qm: QueueManager) -> None:
    """Delay publications of many kinds for four subscriptions, one of which then moves."""
    available_only(qm)
    for name in ("Q1", "Q2", "Q3"):
        local(qm, name)
    local(qm, "CAPPED", CAPEXPRY=100)
    admin_sub(qm, "ALL", "#", "Q1", DESTCORL="")
    admin_sub(qm, "ALSO", "a/#", "Q1", PUBPRTY=9)
    admin_sub(qm, "CAPPED", "a:b/+", "CAPPED", DESTCORL=PASSED_ON)
    admin_sub(qm, "MOVED", "#", "Q2")
    with qm.session() as session:
        for number, string in enumerate(("a", "a:b/c:d", "a/b", ":", "ä/€", "a:b/:")):
            session.publish(
                string,
                b"x" * number,
                delay_ms=5_000 - number % 3,
                time_to_live_ms=None if number % 2 else 60_000,
                persistent=True,
                priority=number,
                correl_id=b"mine" if number == 1 else None,
                msg_id=b"given" if number == 2 else None,
            )
        session.put("Q3", b"no publication", delay_ms=5_000, persistent=True)
    assert qm.mqsc("ALTER SUB('MOVED') DEST(Q3)").ok


def test_copies_released_in_bulk_are_stored_as_those_released_one_by_one(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path / "staged", clock=VirtualClock(START_MS)) as qm:
        stage_many(qm)
    stored, ended = [], []
    for in_bulk in (False, True):
        folder = Path(shutil.copytree(tmp_path / "staged", tmp_path / str(in_bulk)))
        clock, runtime = VirtualClock(START_MS + 1_000), on_a_snapshot()
        with QueueManager("QM1", folder, clock=clock, runtime=runtime) as qm:
            assert release_ahead(qm, in_bulk=in_bulk) == 17
            assert (qm.curdepth(STAGING), qm.counts("Q2").staged) == (0, 0)
            stored.append(rows_on(qm, "Q1", "Q3", "CAPPED"))
            ended.append(lives(qm, STAGING))
            assert qm.verify().ok
    assert stored[0] == stored[1]
    assert [row.topic for row in stored[1]] == [
        *("a/b", "a", "a:b/:", "ä/€", ":", "a/b", "a:b/c:d", "a"),
        *("a:b/:", "ä/€", ":", "a/b", "a:b/c:d", "a", None),
        *("a:b/:", "a:b/c:d"),
    ]
    # Which of those released together is recorded first is nobody's business.
    assert sorted(ended[0], key=repr) == sorted(ended[1], key=repr)
    assert {life.outcome for life in ended[1]} == {"released"}


@pytest.mark.in_process
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("leaving", ["one", "all", "all, and new ones come"])
def test_D23_a_shared_subscription_is_gone_with_the_last_who_shares_it(
    qm: QueueManager,
    clock: VirtualClock,
    durable: bool,
    leaving: str,
    persistent: bool,
    new_session: NewSession,
) -> None:
    """A durable one stays when nobody has it open."""
    one, two = new_session(qm), new_session(qm)
    shared = [s.subscribe("a", name="S", durable=durable, shared=True) for s in (one, two)]
    one.publish("a", b"x", delay_ms=1_000, persistent=persistent)
    assert qm.curdepth(STAGING) == 1
    two.close()
    if leaving != "one":
        shared[0].close()
    if leaving == "all, and new ones come":
        shared[0] = one.subscribe("a", name="S", durable=durable, shared=True)
    clock.advance(1_000)
    is_there = durable or leaving == "one"
    if leaving == "all" and durable:
        shared[0] = one.subscribe("a", name="S", durable=True, shared=True)
    if shared[0].is_open:
        assert drained(one, shared[0].queue) == ([("a", b"x")] if is_there else [])
    else:
        assert not is_there
    expected = ("released", 0) if is_there else ("discarded", rc.MQRC_NO_SUBSCRIPTION)
    assert outcomes(qm, STAGING) == [expected]
    one.close()


@pytest.mark.in_process
def test_D25_no_local_is_decided_at_send(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(qm) as own, new_session(qm) as other:
        durable = own.subscribe("a", name="D", durable=True, no_local=True)
        own.publish("a", b"own", delay_ms=1_000, persistent=persistent)
        other.publish("a", b"other", delay_ms=1_000, persistent=persistent)
        assert qm.curdepth(STAGING) == 1
        durable.close()
        # Whoever has it open at the release does not matter.
        again = other.resume("D")
        clock.advance(1_000)
        assert drained(other, again.queue) == [("a", b"other")]


@pytest.mark.parametrize("ending", ["unsubscribe", "SubExpiry"])
def test_D23_of_many_released_together_only_those_of_who_is_gone_are_dropped(
    qm: QueueManager, clock: VirtualClock, ending: str, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "STAYS", "#", "Q1")
    life_ms = 1_000 if ending == "SubExpiry" else None
    with new_session(qm) as session:
        gone = session.subscribe("a/+", name="GONE", durable=True, time_to_live_ms=life_ms)
        for number in range(5):
            string = f"a/{number}"
            session.publish(string, string.encode(), delay_ms=1_000, persistent=persistent)
        if ending == "unsubscribe":
            gone.close(remove=True)
        clock.advance(1_000)
        assert drained(session, "Q1") == [(f"a/{n}", b"a/%d" % n) for n in range(5)]
        assert (
            sorted(outcomes(qm, STAGING))
            == [("discarded", rc.MQRC_NO_SUBSCRIPTION)] * 5 + [("released", 0)] * 5
        )
        assert qm.curdepth(DEAD) == 0


def test_D16_priority_and_persistence_are_fixed_at_send(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    topic(qm, "A", "a", DEFPRTY=3, DEFPSIST=1)
    admin_sub(qm, "S", "a", "Q1")
    admin_sub(qm, "NINE", "a", "Q1", PUBPRTY=9)
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000)
        assert qm.mqsc("ALTER TOPIC(A) DEFPRTY(7) DEFPSIST(NO)\nALTER SUB('NINE') PUBPRTY(1)").ok
        clock.advance(1_000)
        got = [session.get("Q1") for _ in range(2)]
        assert [(m.priority, m.persistent) for m in got if m] == [(9, True), (3, True)]


def test_D17_the_life_of_a_copy_runs_from_the_publication(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(qm, "CAPPED", CAPEXPRY=100)
    admin_sub(qm, "S", "a", "Q1")
    admin_sub(qm, "C", "a", "CAPPED")
    with new_session(qm) as session:
        session.publish("a", b"x", time_to_live_ms=20_000, delay_ms=5_000, persistent=persistent)
        clock.advance(9_999)
        capped = session.get("CAPPED")
        assert capped is not None
        assert capped.remaining_ms == 1
        clock.advance(5_001)
        message = session.get("Q1")
        assert message is not None
        assert message.remaining_tenths == 50


def test_D18_a_copy_that_expires_on_staging_is_reported_as_the_publication(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "S", "a", "Q1")
    with new_session(qm) as session:
        sent = session.publish(
            "a",
            b"x",
            time_to_live_ms=1_000,
            delay_ms=1_000,
            persistent=persistent,
            report=c.MQRO_EXPIRATION_WITH_FULL_DATA,
            reply_to_q=REPLIES,
        )
        clock.advance(1_000)
        report = session.get(REPLIES)
        assert report is not None
        assert (report.body, report.correl_id) == (b"x", sent.msg_id)
        assert qm.curdepth("Q1") == 0


#: What makes a queue refuse a delayed copy at the send, what lets it in again, and the reason.
REFUSALS: dict[str, tuple[dict[str, int], dict[str, int], int]] = {
    "PUT": ({"PUT": c.MQQA_PUT_INHIBITED}, {"PUT": c.MQQA_PUT_ALLOWED}, rc.MQRC_PUT_INHIBITED),
    "MAXDEPTH": ({"MAXDEPTH": 0}, {"MAXDEPTH": 5}, rc.MQRC_Q_FULL),
    "MAXMSGL": ({"MAXMSGL": 0}, {"MAXMSGL": 1}, rc.MQRC_MSG_TOO_BIG_FOR_Q),
    "CAPEXPRY": ({"CAPEXPRY": 9}, {"CAPEXPRY": c.MQCEX_NOLIMIT}, rc.MQRC_EXPIRY_ERROR),
}
refusing = pytest.mark.parametrize("refusal", list(REFUSALS))


@pytest.mark.in_process
@refusing
@pytest.mark.parametrize("transacted", [False, True])
def test_D19_a_copy_its_queue_refuses_at_the_send_reaches_it_where_it_is_taken_when_due(
    qm: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    refusal: str,
    new_session: NewSession,
    *,
    transacted: bool,
) -> None:
    closes, opens, _reason = REFUSALS[refusal]
    local(qm, "LATER", **closes)
    admin_sub(qm, "S", "a", "Q1")
    admin_sub(qm, "L", "a", "LATER")
    with new_session(qm) as reader, new_session(qm, transacted=transacted) as session:
        sent = session.publish(
            "a", b"x", delay_ms=1_000, time_to_live_ms=5_000, persistent=persistent
        )
        session.commit()
        assert (sent.matched_count, sent.delivered_count) == (2, 2)
        assert (qm.curdepth(STAGING), qm.curdepth(DEAD)) == (2, 0)
        assert qm.counts("LATER").staged == 1
        clock.advance(999)
        alter(qm, "LATER", **opens)
        assert (qm.curdepth("LATER"), qm.curdepth(DEAD)) == (0, 0)
        clock.advance(1)
        for queue in ("Q1", "LATER"):
            message = reader.get(queue)
            assert message is not None
            assert (message.msg_id, message.remaining_ms) == (sent.msg_id, 4_000)
        assert qm.curdepth(DEAD) == 0


@refusing
def test_D19_a_copy_its_queue_still_refuses_is_dead_lettered_when_due_and_not_before(
    qm: QueueManager, clock: VirtualClock, persistent: bool, refusal: str, new_session: NewSession
) -> None:
    """The letter can be got from its put on: the delay is over."""
    closes, _opens, reason = REFUSALS[refusal]
    local(qm, "CLOSED", **closes)
    admin_sub(qm, "C", "a", "CLOSED")
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, time_to_live_ms=5_000, persistent=persistent)
        clock.advance(999)
        assert (qm.curdepth(STAGING), qm.curdepth(DEAD)) == (1, 0)
        clock.advance(1)
        letter = session.get(DEAD)
        assert letter is not None
        header = DLH.unpack(letter.body)
        assert (header["Reason"], header["DestQName"]) == (reason, "CLOSED")
        assert (letter.body[-1:], letter.remaining_ms) == (b"x", 4_000)
        assert (letter.put_ms, letter.deliver_at_ms) == (START_MS, START_MS)
        [life] = lives(qm, DEAD)
        assert (life.put_ms, life.deliver_at_ms) == (START_MS, START_MS)
        assert outcomes(qm, STAGING) == [("dead_lettered", reason)]
        assert qm.counts("CLOSED").staged == 0


@pytest.mark.parametrize(("cap", "left_ms"), [(9, None), (10, 0), (11, 100), (60, 4_000)])
def test_D31_the_cap_that_refuses_a_copy_is_asked_again_when_it_is_due(
    qm: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    cap: int,
    left_ms: int | None,
    new_session: NewSession,
) -> None:
    """As any cap it counts from the put; one that equals the delay leaves no time (D18)."""
    local(qm, "CAPPED", CAPEXPRY=9)
    admin_sub(qm, "C", "a", "CAPPED")
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, time_to_live_ms=5_000, persistent=persistent)
        clock.advance(999)
        alter(qm, "CAPPED", CAPEXPRY=cap)
        clock.advance(1)
        assert qm.curdepth(DEAD) == (left_ms is None)
        message = session.get("CAPPED")
        if left_ms:
            assert message is not None
            assert message.remaining_ms == left_ms
        else:
            assert message is None


def test_X4_a_cap_that_takes_a_copy_at_the_send_is_not_asked_again(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(qm, "CAPPED", CAPEXPRY=30)
    admin_sub(qm, "C", "a", "CAPPED")
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        alter(qm, "CAPPED", CAPEXPRY=9)
        clock.advance(1_000)
        message = session.get("CAPPED")
        assert message is not None
        assert message.remaining_ms == 2_000


def test_D19_a_copy_whose_queue_is_gone_at_the_send_waits_for_another(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(qm, "Q2")
    alias(qm, "WAY", "Q2")
    admin_sub(qm, "S", "a", "WAY")
    admin_sub(qm, "T", "b", "WAY")
    assert qm.mqsc("DELETE QALIAS(WAY)").ok
    with new_session(qm) as session:
        session.publish("a", b"back", delay_ms=1_000, persistent=persistent)
        session.publish("b", b"gone", delay_ms=2_000, persistent=persistent)
        alias(qm, "WAY", "Q2")
        clock.advance(1_000)
        assert drained(session, "Q2") == [("a", b"back")]
        assert qm.mqsc("DELETE QALIAS(WAY)").ok
        clock.advance(1_000)
        assert len(bodies(session, DEAD)) == 1
    assert sorted(outcomes(qm, STAGING)) == [
        ("dead_lettered", rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("released", 0),
    ]


@pytest.mark.parametrize("keeps", [False, True], ids=["USEDLQ(NO)", "USEDLQ(YES)"])
def test_D20_the_topic_says_whether_a_refused_copy_is_kept(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession, *, keeps: bool
) -> None:
    topic(qm, "A", "a", USEDLQ=DEAD_LETTERS_YES if keeps else DEAD_LETTERS_NO)
    local(qm, "CLOSED", PUT=c.MQQA_PUT_INHIBITED)
    admin_sub(qm, "C", "a/#", "CLOSED")
    with new_session(qm) as session:
        session.publish(
            "a/b",
            b"x",
            delay_ms=1_000,
            persistent=persistent,
            report=c.MQRO_EXCEPTION,
            reply_to_q=REPLIES,
        )
        clock.advance(1_000)
        assert qm.curdepth(DEAD) == keeps
        report = session.get(REPLIES)
        assert report is not None
        assert report.descriptor.feedback == rc.MQRC_PUT_INHIBITED
    end = "dead_lettered" if keeps else "discarded"
    assert outcomes(qm, STAGING) == [(end, rc.MQRC_PUT_INHIBITED)]


def test_D24_a_copy_its_queue_refuses_is_dropped_when_due_without_a_dead_letter_queue(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    alter_manager(qm, DEADQ="")
    local(qm, "FULL", MAXDEPTH=0)
    admin_sub(qm, "S", "a", "Q1")
    admin_sub(qm, "F", "a", "FULL")
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        assert qm.curdepth(STAGING) == 2
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"x"]
    assert sorted(outcomes(qm, STAGING)) == [("discarded", rc.MQRC_Q_FULL), ("released", 0)]


def test_TTLFROM_release_gives_a_copy_its_whole_life_after_its_delivery_time(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(qm, "WHOLE", TTLFROM=1)
    local(qm, "CAPPED", TTLFROM=1, CAPEXPRY=9)
    for name in ("Q1", "WHOLE", "CAPPED"):
        admin_sub(qm, f"S.{name}", "a", name)
    with new_session(qm) as session:
        session.publish("a", b"x", delay_ms=1_000, time_to_live_ms=2_000, persistent=persistent)
        clock.advance(1_000)
        for queue, left_ms in (("Q1", 1_000), ("WHOLE", 2_000), ("CAPPED", 900)):
            [message] = session.browse(queue)
            assert message.remaining_ms == left_ms
        clock.advance(1_999)
        assert (bodies(session, "CAPPED"), bodies(session, "Q1")) == ([], [])
        [message] = session.browse("WHOLE")
        assert message.remaining_ms == 1
        clock.advance(1)
        assert bodies(session, "WHOLE") == []


def test_D12_copies_of_an_open_unit_of_work_take_room_on_staging(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """All of them or none, and what is backed out leaves its room."""
    alter(qm, STAGING, MAXDEPTH=3)
    for name in ("S", "T"):
        admin_sub(qm, name, "a", "Q1")
    with new_session(qm, transacted=True) as unit, new_session(qm) as other:
        unit.publish("a", b"1", delay_ms=1_000, persistent=persistent)
        with refused(rc.MQRC_Q_FULL):
            unit.publish("a", b"2", delay_ms=1_000, persistent=persistent)
        assert qm.curdepth(STAGING) == 0
        other.put("Q1", b"3", delay_ms=1_000, persistent=persistent)
        with refused(rc.MQRC_Q_FULL):
            other.put("Q1", b"4", delay_ms=1_000, persistent=persistent)
        unit.backout()
        unit.publish("a", b"5", delay_ms=1_000, persistent=persistent)
        unit.commit()
        assert qm.curdepth(STAGING) == 3
        clock.advance(1_000)
        assert bodies(other, "Q1") == [b"3", b"5", b"5"]


@pytest.mark.parametrize("transacted", [False, True])
def test_D11_D14_what_the_staging_queue_refuses_is_told_to_the_publisher(
    qm: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    new_session: NewSession,
    *,
    transacted: bool,
) -> None:
    """Nobody's copy is staged then, and none is a dead letter before its time."""
    for name in ("S", "T"):
        admin_sub(qm, name, "a", "Q1")
    troubles = {
        "PUT": (c.MQQA_PUT_INHIBITED, c.MQQA_PUT_ALLOWED, rc.MQRC_PUT_INHIBITED),
        "MAXMSGL": (208, 1_000, rc.MQRC_MSG_TOO_BIG_FOR_Q),
    }
    with new_session(qm, transacted=transacted) as session:
        for attribute, (closed, opened, reason) in troubles.items():
            alter(qm, STAGING, **{attribute: closed})
            with refused(reason):
                session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
            session.commit()
            assert (qm.curdepth(STAGING), qm.curdepth(DEAD)) == (0, 0)
            alter(qm, STAGING, **{attribute: opened})
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        session.commit()
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"x", b"x"]


def test_D11_of_copies_that_do_not_all_fit_on_staging_none_is_taken(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    alter(qm, STAGING, MAXDEPTH=1)
    for name in ("S", "T"):
        admin_sub(qm, name, "a", "Q1")
    with new_session(qm) as session:
        with refused(rc.MQRC_Q_FULL):
            session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        assert (qm.curdepth(STAGING), qm.counts(STAGING).uncommitted) == (0, 0)
        alter(qm, STAGING, MAXDEPTH=2)
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"x", b"x"]


def test_D03_an_administrator_sees_copies_and_can_cancel_them(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    pattern = "a/long/topic/string/that/is/no/queue/name/at/all/+"
    admin_sub(qm, "S", pattern, "Q1", DESTCORL=PASSED_ON)
    string = "a/long/topic/string/that/is/no/queue/name/at/all/x"
    with new_session(qm) as session:
        sent = session.publish(
            string, b"x", delay_ms=1_000, persistent=persistent, correl_id=b"mine"
        )
        [shown] = session.browse(STAGING)
        assert shown.correl_id == sent.msg_id
        assert shown.topic is None
        assert b"Q1".ljust(48) in shown.body
        assert session.schedule.cancel(sent.msg_id) == "cancelled"
        session.publish(string, b"y", delay_ms=1_000, persistent=persistent, correl_id=b"mine")
        [again] = session.browse(STAGING)
        taken = session.get(STAGING, correl_id=again.correl_id)
        assert taken is not None
        # Put again with its header, it is a message for the queue.
        put_md(session, STAGING, taken.body, taken.descriptor)
        clock.advance(1_000)
        message = session.get("Q1")
        assert message is not None
        assert (message.body, message.correl_id) == (b"y", b"mine".ljust(24, b"\0"))


@pytest.mark.in_process
def test_schedule_a_publication_is_one_message_to_its_sender(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    admin_sub(qm, "S", "a", "Q1")
    with new_session(qm) as session:
        managed = session.subscribe("a")
        first, second, third = (
            session.publish("a", text, delay_ms=5_000, persistent=persistent).msg_id
            for text in (b"cancelled", b"rescheduled", b"released")
        )
        assert [entry.target for entry in session.schedule.list()] == ["Q1", managed.queue] * 3
        assert session.schedule.cancel(first) == "cancelled"
        assert qm.curdepth(STAGING) == 4
        assert session.schedule.reschedule(second, delay_ms=7_000) == "rescheduled"
        assert session.schedule.release(third) == "released"
        for queue in ("Q1", managed.queue):
            assert drained(session, queue) == [("a", b"released")]
        clock.advance(6_999)
        assert qm.curdepth(STAGING) == 2
        clock.advance(1)
        for queue in ("Q1", managed.queue):
            assert drained(session, queue) == [("a", b"rescheduled")]
        assert session.schedule.cancel(second) == "already-released"


@pytest.mark.parametrize("is_gone", [False, True])
def test_D25_copies_survive_a_restart(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession, *, is_gone: bool
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        available_only(qm)
        session.subscribe("a", name="D", durable=True)
        session.subscribe("a")
        session.publish("a", b"kept", delay_ms=1_000, persistent=True)
        session.publish("a", b"lost", delay_ms=1_000, persistent=False)
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        queue = qm.engine.registry.subscriptions.named("D").destination
        assert qm.counts(queue).staged == 1
        if is_gone:
            session.unsubscribe("D")
        clock.advance(1_000)
        assert qm.curdepth(STAGING) == 0
        if is_gone:
            assert ("discarded", rc.MQRC_NO_SUBSCRIPTION) in outcomes(qm, STAGING)
        else:
            assert drained(session, queue) == [("a", b"kept")]
        assert qm.verify().ok


def test_D22_a_report_that_reaches_no_queue_keeps_a_persistent_copy(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(qm) as session:
        gone = session.subscribe("a", name="D", durable=True)
        session.publish(
            "a",
            b"x",
            delay_ms=1_000,
            persistent=persistent,
            report=c.MQRO_EXCEPTION,
            reply_to_q=REPLIES,
        )
        gone.close(remove=True)
        alter(qm, REPLIES, PUT=c.MQQA_PUT_INHIBITED)
        alter(qm, DEAD, PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(1_000)
        assert qm.curdepth(STAGING) == persistent
        alter(qm, REPLIES, PUT=c.MQQA_PUT_ALLOWED)
        clock.advance(10_000)
        assert qm.curdepth(STAGING) == 0
        assert len(bodies(session, REPLIES)) == persistent


@pytest.mark.in_process
def test_a_thousand_copies_are_released_in_the_order_of_their_subscriptions(
    qm: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(qm) as session:
        for number in range(300):
            session.subscribe("a", queue="Q1", correl_id=b"%03d" % number)
        session.publish("a", b"x", delay_ms=1_000, persistent=persistent)
        clock.advance(1_000)
        got = [session.get("Q1") for _ in range(300)]
        assert [int(m.correl_id[:3]) for m in got if m] == list(range(300))

"""DDELAY(SPARK): a pipeline claims what is due on the staging queue and lets it go in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import QMGR
from mayfly.engine.api.bulk import ClaimError
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.engine.claims.consumer import CLAIM_ROWS_MAX
from mayfly.engine.delay.delay_processor import RETRY_MS
from mayfly.engine.due_work import DueWork
from mayfly.engine.objects import administration
from mayfly.lifetime.moments import CLAIM_LEASE_MS
from mayfly.lifetime.times import Driven
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    alter,
    alter_manager,
    bodies,
    lives,
    local,
    refused,
)
from tests.spec.test_claims import ALL, Reader, full_disk

EMBEDDED, SPARK = 0, 1


@pytest.fixture
def session(any_manager: QueueManager, new_session: NewSession) -> Iterator[Session]:
    """A session with a queue manager that leaves release to a pipeline."""
    local(any_manager)
    alter_manager(any_manager, DDELAY=SPARK)
    with new_session(any_manager, "anna") as opened:
        yield opened


def releaser(qm: QueueManager) -> Reader:
    """Attach as the pipeline that releases."""
    return Reader(qm, "releaser", STAGING)


def test_DDELAY_is_shown_and_altered_by_mqsc(queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("DISPLAY QMGR DDELAY").rows[0]["DDELAY"] == "EMBEDDED"
    assert queue_manager.mqsc("ALTER QMGR DDELAY(SPARK)").ok
    assert queue_manager.mqsc("DISPLAY QMGR DDELAY").rows[0]["DDELAY"] == "SPARK"
    assert queue_manager.delay_processor_status() == "spark"
    assert not queue_manager.mqsc("ALTER QMGR DDELAY(FLINK)").ok


def test_DDELAY_embedded_refuses_a_pipeline_and_says_how_to_let_it(
    queue_manager: QueueManager,
) -> None:
    with pytest.raises(MQError) as error:
        releaser(queue_manager)
    assert error.value.reason == rc.MQRC_NOT_AUTHORIZED
    assert "ALTER QMGR DDELAY(SPARK)" in str(error.value)


def test_D28_a_stopped_staging_queue_gives_a_pipeline_nothing(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"x", delay_ms=10)
    reader = releaser(any_manager)
    alter(any_manager, STAGING, GET=c.MQQA_GET_INHIBITED)
    clock.advance(10)
    with refused(rc.MQRC_GET_INHIBITED):
        reader.claim()
    alter(any_manager, STAGING, GET=c.MQQA_GET_ALLOWED)
    assert reader.claim().messages == 1


@pytest.mark.parametrize(("at_ms", "found"), [(4_999, 0), (5_000, 1), (5_001, 1)])
def test_D1_nothing_is_claimed_before_its_time(
    any_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    persistent: bool,
    at_ms: int,
    found: int,
) -> None:
    """And the queue manager itself releases nothing."""
    session.put("Q1", b"x", delay_ms=5_000, persistent=persistent)
    clock.advance(at_ms)
    assert any_manager.curdepth("Q1") == 0
    assert releaser(any_manager).claim().messages == found


def test_D21_what_is_claimed_goes_to_its_target_in_order_when_the_claim_ends(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(any_manager, "Q2")
    for n, (queue, delay_ms) in enumerate([("Q1", 30), ("Q2", 20), ("Q1", 10), ("Q1", 20)]):
        session.put(queue, b"%d" % n, delay_ms=delay_ms, persistent=bool(n % 2))
    clock.advance(40)
    reader = releaser(any_manager)
    claimed = reader.claim()
    assert claimed.messages == 4
    [(after, until, _bytes)] = any_manager.claims.ranges("releaser", reader.epoch, 0, claimed.until)
    page = any_manager.claims.page(
        "releaser", reader.epoch, after, until, max_bytes=2**20, max_rows=10
    )
    assert page.queue == ["Q1", "Q2", "Q1", "Q1"]
    assert list(page.columns.payload) == [b"2", b"1", b"3", b"0"]
    assert list(page.columns.deliver_at_ms) == [START_MS + n for n in (10, 20, 20, 30)]
    assert (any_manager.curdepth("Q1"), any_manager.curdepth(STAGING)) == (0, 0)
    assert any_manager.counts("Q1").staged == 3
    clock.advance(5)
    assert reader.end(claimed.until) == 4
    assert bodies(session, "Q1") == [b"2", b"3", b"0"]
    assert bodies(session, "Q2") == [b"1"]
    assert any_manager.counts("Q1").staged == 0
    assert {life.outcome for life in lives(any_manager, STAGING)} == {"released"}
    assert {life.ended_ms for life in lives(any_manager, STAGING)} == {START_MS + 45}


def test_D3_what_is_claimed_is_listed_and_counted_and_cannot_be_changed(
    any_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    """Whoever asks is told that it is released; a later message can still be cancelled."""
    first = session.put("Q1", b"first", delay_ms=10, persistent=persistent)
    clock.advance(10)
    reader = releaser(any_manager)
    claimed = reader.claim()
    second = session.put("Q1", b"second", delay_ms=10, persistent=persistent)
    schedule = session.schedule
    assert schedule.cancel(first) == Receipt.ALREADY_RELEASED
    assert schedule.reschedule(first, delay_ms=1_000) == Receipt.ALREADY_RELEASED
    assert [*schedule.cancel_all(ScheduleFilter(due_before_ms=START_MS + 11))] == [0]
    assert [m.msg_id for m in schedule.list()] == [first, second]
    assert (schedule.count(), schedule.count("Q1")) == (2, 2)
    shown = schedule.show(first)
    assert shown is not None
    assert shown.msg_id == first
    assert session.get(STAGING) is not None, "the second one"
    assert session.get(STAGING) is None
    with refused(rc.MQRC_OBJECT_IN_USE):
        administration.clear(any_manager.engine, STAGING)
    reader.end(claimed.until)
    assert bodies(session, "Q1") == [b"first"]
    assert schedule.cancel(first) == Receipt.ALREADY_RELEASED
    assert schedule.list() == []


def test_D3_due_and_not_claimed_can_be_cancelled(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    msg_id = session.put("Q1", b"x", delay_ms=10)
    reader = releaser(any_manager)
    clock.advance(1_000)
    assert session.schedule.cancel(msg_id) == Receipt.CANCELLED
    assert reader.claim().messages == 0


def test_D12_late_commit_of_a_due_message_comes_with_a_later_claim(
    any_manager: QueueManager, session: Session, clock: VirtualClock, new_session: NewSession
) -> None:
    unit = new_session(any_manager, transacted=True)
    unit.put("Q1", b"late", delay_ms=10)
    session.put("Q1", b"soon", delay_ms=20)
    clock.advance(30)
    reader = releaser(any_manager)
    claimed = reader.claim()
    unit.commit()
    assert reader.read(claimed.until) == [b"soon"]
    reader.end(claimed.until)
    assert bodies(session, "Q1") == [b"soon"]
    assert reader.drain() == [b"late"]
    assert bodies(session, "Q1") == [b"late"]


def test_E14_what_has_expired_by_the_claim_is_discarded_with_its_report(
    any_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    local(any_manager, REPLIES)
    lost = session.put(
        "Q1",
        b"x",
        delay_ms=10,
        time_to_live_ms=20,
        persistent=persistent,
        report=c.MQRO_EXPIRATION,
        reply_to_q=REPLIES,
    )
    session.put("Q1", b"y", delay_ms=15, persistent=persistent)
    reader = releaser(any_manager)
    clock.advance(20)
    assert reader.drain() == [b"y"]
    report = session.get(REPLIES)
    assert report is not None
    assert report.correl_id == lost
    assert report.descriptor.feedback == c.MQFB_EXPIRATION
    assert [life.outcome for life in lives(any_manager, STAGING)] == ["expired", "released"]


def test_E15_what_expires_while_it_is_claimed_is_discarded_when_the_claim_ends(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Neither a scan nor anything else takes it before."""
    alter_manager(any_manager, EXPRYINT=1)
    session.put("Q1", b"x", delay_ms=10, time_to_live_ms=20)
    reader = releaser(any_manager)
    clock.advance(10)
    claimed = reader.claim()
    clock.advance(5_000)
    assert reader.read(claimed.until) == [b"x"]
    assert reader.end(claimed.until) == 1
    assert bodies(session, "Q1") == []
    assert [life.outcome for life in lives(any_manager, STAGING)] == ["expired"]


@pytest.mark.in_process
def test_D20_a_target_that_is_gone_makes_a_dead_letter(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    alter_manager(any_manager, DEADQ=DEAD)
    local(any_manager, "GONE")
    session.put("GONE", b"x", delay_ms=10)
    administration.delete(any_manager.engine, "QLOCAL", "GONE")
    clock.advance(10)
    assert releaser(any_manager).drain() == [b"x"]
    assert any_manager.curdepth(DEAD) == 1


def test_D21_what_can_go_nowhere_stays_and_is_claimed_again_later(
    any_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    alter_manager(any_manager, DEADQ="")
    alter(any_manager, "Q1", PUT=c.MQQA_PUT_ALLOWED, MAXDEPTH=1)
    for body in (b"1", b"2"):
        session.put("Q1", body, delay_ms=10, persistent=persistent)
    reader = releaser(any_manager)
    clock.advance(10)
    assert reader.drain() == [b"1", b"2"]
    assert any_manager.counts("Q1").staged == 1
    assert bodies(session, "Q1") == [b"1"]
    clock.advance(RETRY_MS - 1)
    assert reader.drain() == []
    clock.advance(1)
    assert reader.drain() == [b"2"]
    assert bodies(session, "Q1") == [b"2"]


def test_claims_given_back_can_be_changed_and_claimed_again(
    any_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    first, _second = (
        session.put("Q1", body, delay_ms=10, persistent=persistent) for body in (b"1", b"2")
    )
    clock.advance(10)
    reader = releaser(any_manager)
    claimed = reader.claim()
    assert any_manager.claims.release("releaser") == 2
    with pytest.raises(ClaimError) as error:
        reader.end(claimed.until)
    assert error.value.reason == "consumer-fenced"
    assert session.schedule.cancel(first) == Receipt.CANCELLED
    assert releaser(any_manager).drain() == [b"2"]
    assert bodies(session, "Q1") == [b"2"]


def renewed_at(qm: QueueManager, clock: VirtualClock) -> tuple[Reader, int]:
    """Claim what is due, with a renewal 59 s later; return the reader and the moment of lapse."""
    reader = releaser(qm)
    reader.claim()
    clock.advance(CLAIM_LEASE_MS - 1_000)
    qm.claims.renew("releaser", reader.epoch)
    return reader, clock.now_ms() + CLAIM_LEASE_MS


@pytest.mark.parametrize(("early_ms", "found"), [(1, 0), (0, 2), (-1, 2)])
def test_DDELAY_a_claim_that_nobody_renews_lapses_and_another_pipeline_takes_over(
    any_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    persistent: bool,
    early_ms: int,
    found: int,
) -> None:
    for body in (b"1", b"2"):
        session.put("Q1", body, delay_ms=10, persistent=persistent)
    clock.advance(10)
    _gone, lapse_ms = renewed_at(any_manager, clock)
    clock.advance(lapse_ms - clock.now_ms() - early_ms)
    other = Reader(any_manager, "other", STAGING)
    assert other.claim().messages == found
    assert any_manager.claims.consistent_states()[1].message_count == 2 - found
    other.drain()
    assert bodies(session, "Q1") == [b"1", b"2"][:found]
    assert any_manager.verify().ok


@pytest.mark.parametrize("call", ["read", "claim", "end", "attach"])
def test_DDELAY_every_call_of_a_reader_renews_its_claims(
    any_manager: QueueManager, session: Session, clock: VirtualClock, call: str
) -> None:
    session.put("Q1", b"x", delay_ms=10)
    clock.advance(10)
    reader = releaser(any_manager)
    until = reader.claim().until
    clock.advance(CLAIM_LEASE_MS - 1)
    if call == "read":
        reader.read(until)
    elif call == "claim":
        reader.claims.claim("releaser", reader.epoch, until, ALL)
    elif call == "end":
        reader.end(0)
    else:
        releaser(any_manager)
    clock.advance(CLAIM_LEASE_MS - 1)
    assert any_manager.claims.consistent_states()[0].message_count == 1
    clock.advance(1)
    assert any_manager.claims.consistent_states()[0].message_count == 0


def test_DDELAY_a_reader_whose_claims_have_lapsed_goes_on_with_its_checkpoint(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Its batch comes again without rows, and the messages come with a later claim, once."""
    session.put("Q1", b"x", delay_ms=10)
    clock.advance(10)
    reader, lapse_ms = renewed_at(any_manager, clock)
    [(*rows, _bytes)] = any_manager.claims.ranges("releaser", reader.epoch, 0, 1)
    clock.advance(lapse_ms - clock.now_ms())
    with pytest.raises(ClaimError) as error:
        any_manager.claims.page("releaser", reader.epoch, *rows, max_bytes=2**20, max_rows=10)
    assert error.value.reason == "claims-lapsed"
    assert reader.read(1) == []
    assert reader.end(1) == 0
    assert bodies(session, "Q1") == []
    assert reader.drain() == [b"x"]
    assert bodies(session, "Q1") == [b"x"]


def test_DDELAY_claims_are_renewed_by_the_opening_of_their_queue_manager(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        local(qm)
        alter_manager(qm, DDELAY=SPARK)
        with new_session(qm) as session:
            session.put("Q1", b"x", delay_ms=10, persistent=True)
        clock.advance(10)
        releaser(qm).claim()
    clock.advance(10 * CLAIM_LEASE_MS)
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        clock.advance(CLAIM_LEASE_MS - 1)
        assert qm.claims.consistent_states()[0].message_count == 1
        clock.advance(1)
        assert qm.claims.consistent_states()[0].message_count == 0
        assert releaser(qm).drain() == [b"x"]
        with new_session(qm) as session:
            assert bodies(session, "Q1") == [b"x"]


class NotingClock(VirtualClock):
    """Notes at each wake which lapse a clock of the machine would take into account."""

    lapse_ms: int | None = None

    def wake(self, driven: Driven) -> None:
        super().wake(driven)
        assert isinstance(driven, DueWork)
        self.lapse_ms = driven.claims.next_lease_end_ms()


def test_DDELAY_the_clock_is_woken_for_the_lapse_of_a_new_claim(new_session: NewSession) -> None:
    """Nothing else may happen in a queue manager whose pipeline has gone."""
    clock = NotingClock(START_MS)
    with QueueManager("QM1", clock=clock) as qm, new_session(qm) as session:
        local(qm)
        alter_manager(qm, DDELAY=SPARK)
        session.put("Q1", b"x", delay_ms=10)
        clock.advance(10)
        assert releaser(qm).claim().messages == 1
        assert clock.lapse_ms == START_MS + 10 + CLAIM_LEASE_MS


def test_claims_of_an_ordinary_queue_never_lapse(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"x", persistent=True)
    Reader(any_manager).claim()
    clock.advance(100 * CLAIM_LEASE_MS)
    assert any_manager.claims.consistent_states()[0].message_count == 1


def test_DDELAY_embedded_again_leaves_what_is_claimed_to_the_pipeline_until_it_is_given_back(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"claimed", delay_ms=10)
    session.put("Q1", b"free", delay_ms=20)
    clock.advance(10)
    releaser(any_manager).claim()
    clock.advance(10)
    administration.alter(any_manager.engine, QMGR, "", {"DDELAY": EMBEDDED})
    assert bodies(session, "Q1") == [b"free"]
    any_manager.claims.release("releaser")
    assert bodies(session, "Q1") == [b"claimed"]


def test_mark_leaves_out_what_falls_due_later(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"1", delay_ms=10)
    session.put("Q1", b"2", delay_ms=11)
    clock.advance(10)
    mark = any_manager.claims.mark()
    clock.advance(10)
    reader = releaser(any_manager)
    claimed = reader.claim(Limit(10, 2**20, mark))
    assert reader.read(claimed.until) == [b"1"]
    reader.end(claimed.until)
    assert reader.claim(Limit(10, 2**20, mark)).messages == 0
    assert reader.claim().messages == 1


def test_limits_of_rows_and_bytes_hold(
    any_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    for n in range(10):
        session.put("Q1", b"%d" % n * 100, delay_ms=10)
    clock.advance(10)
    reader = releaser(any_manager)
    first = reader.claim(Limit(100, 250))
    assert reader.read(first.until) == [b"%d" % n * 100 for n in range(3)]
    reader.at = first.until
    assert reader.claim(Limit(3, 2**20)).messages == 3


def test_more_than_a_claim_holds_is_released_once_each(
    any_manager: QueueManager, session: Session, clock: VirtualClock, new_session: NewSession
) -> None:
    count = CLAIM_ROWS_MAX * 2 + 10
    alter(any_manager, "Q1", MAXDEPTH=count)
    unit = new_session(any_manager, transacted=True)
    for n in range(count):
        unit.put("Q1", b"%d" % n, delay_ms=10 + n % 7, persistent=n % 3 > 0)
    unit.commit()
    clock.advance(20)
    reader = releaser(any_manager)
    claimed = reader.claim(ALL)
    assert claimed.messages == count
    read = reader.read(claimed.until)
    assert reader.end(claimed.until) == count
    got = bodies(session, "Q1")
    assert len(got) == len(set(got)) == count
    assert got == read


def test_open_claim_survives_a_restart_with_its_messages(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """The rows are read again as they were; memory has forgotten what was not persistent."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder, clock=clock) as qm:
        local(qm)
        alter_manager(qm, DDELAY=SPARK)
        with new_session(qm) as session:
            for n in range(6):
                session.put("Q1", b"%d" % n, delay_ms=10 + n, persistent=n != 1)
            clock.advance(13)
            claimed = releaser(qm).claim()
            assert claimed.messages == 4
    with QueueManager("QM1", folder, clock=clock) as qm, new_session(qm) as session:
        [standing] = qm.claims.consistent_states()
        assert standing.message_count == 3
        reader = releaser(qm)
        assert reader.claim() == (claimed.until, 3)
        assert reader.read(claimed.until) == [b"0", b"2", b"3"]
        clock.advance(10)
        assert bodies(session, "Q1") == []
        assert reader.end(claimed.until) == 3
        assert bodies(session, "Q1") == [b"0", b"2", b"3"]
        assert reader.drain() == [b"4", b"5"]
        assert qm.verify().ok


def test_end_on_a_full_disk_goes_on_where_it_stopped(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """What is not released yet stays claimed."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        local(qm)
        alter_manager(qm, DDELAY=SPARK)
        ids = [session.put("Q1", bytes(4_000), delay_ms=10, persistent=True) for _ in range(20)]
        clock.advance(10)
        reader = releaser(qm)
        claimed = reader.claim()
        with full_disk(qm), refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            reader.end(claimed.until)
        assert session.schedule.cancel(ids[0]) == Receipt.ALREADY_RELEASED
        assert reader.end(claimed.until) == 20
        assert len(bodies(session, "Q1")) == 20
        assert qm.verify().ok

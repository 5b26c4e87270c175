"""Claims: durable delivery in bulk to a named consumer, with the lifetimes and reports of a get."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import Session
from mayfly.engine.api.bulk import ClaimError
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.engine.claims.consumer import CLAIM_ROWS_MAX
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.claims import BackedOut, Claimed, ConsumerState
from mayfly.verbs.facts import Counts
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    INPUT,
    REPLIES,
    START_MS,
    End,
    Running,
    alias,
    alter,
    alter_manager,
    bodies,
    body,
    ends,
    lives,
    local,
    put_md,
    refused,
    waiting,
)

ALL = Limit(1_000_000, 2**40)
LOCKED_3 = Counts(staged=0, live=0, uncommitted=0, locked=3, expired_present=0)
NOTHING = Counts(staged=0, live=0, uncommitted=0, locked=0, expired_present=0)


class Reader:
    """A consumer as a pipeline uses it: attach, claim behind the last end, read, end."""

    def __init__(self, qm: QueueManager, name: str = "billing", queue: str = "Q1") -> None:
        self.claims = qm.claims
        self.name = name
        standing = qm.claims.attach(name, queue)
        self.epoch, self.at = standing.epoch, standing.closed

    def claim(self, limit: Limit = ALL) -> Claimed:
        """Claim behind where it stands, without going there."""
        return self.claims.claim(self.name, self.epoch, self.at, limit)

    def read(self, until: int, max_bytes: int = 2**20, max_rows: int = 1_000) -> list[bytes]:
        """Read the claims from where it stands up to another."""
        found: list[bytes] = []
        for first, last, _bytes in self.claims.ranges(self.name, self.epoch, self.at, until):
            after = first
            while after < last:
                page = self.claims.page(
                    self.name, self.epoch, after, last, max_bytes=max_bytes, max_rows=max_rows
                )
                found += page.columns.payload
                after += page.message_count
        return found

    def end(self, until: int) -> int:
        """End claims and stand behind them."""
        self.at = until
        return self.claims.end(self.name, self.epoch, until)

    def drain(self) -> list[bytes]:
        """Claim, read and end all there is."""
        found: list[bytes] = []
        while (claimed := self.claim()).messages:
            found += self.read(claimed.until)
            self.end(claimed.until)
        return found


def put(session: Session, *numbers: int, queue: str = "Q1") -> None:
    """Put numbered messages: every second one persistent, priorities 4."""
    for number in numbers:
        session.put(queue, b"%d" % number, persistent=number % 2 == 0)


def error_of(call: object) -> str:
    """Return the reason of the ClaimError that a call raises."""
    with pytest.raises(ClaimError) as raised:
        call()  # type: ignore[operator]  # it is a call
    return raised.value.reason


# Taking


def test_a_claim_takes_the_next_messages_in_get_order_of_both_persistences(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1, 2, 3, 4)
    session.put("Q1", b"urgent", priority=9, persistent=False)
    session.put("Q1", b"later", priority=0, persistent=True)
    reader = Reader(manager)
    assert reader.claim(Limit(3, 2**40)) == Claimed(1, 3)
    assert reader.read(1) == [b"urgent", b"1", b"2"]
    assert bodies(session, "Q1") == [b"3", b"4", b"later"]


def test_claimed_messages_are_locked_and_no_part_of_the_depth(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1, 2, 3)
    claimed = Reader(manager).claim()
    assert claimed == Claimed(1, 3)
    assert manager.counts("Q1") == LOCKED_3
    assert manager.curdepth("Q1") == 0
    assert session.get("Q1") is None
    assert list(session.browse("Q1")) == []
    assert manager.mqsc("DISPLAY QSTATUS(Q1)").rows[0]["UNCOM"] == "YES"
    assert manager.verify().ok


def test_a_claim_of_nothing_writes_nothing(any_manager: QueueManager) -> None:
    local(any_manager)
    reader = Reader(any_manager)
    any_manager.engine.store.write_balances()
    before = any_manager.engine.store.group.batch_count
    assert reader.claim() == Claimed(0, 0)
    assert reader.end(0) == 0
    assert any_manager.engine.store.group.batch_count == before
    assert reader.claims.consistent_states() == [ConsumerState("billing", "Q1", 1, 0, 0, 0, None)]


def test_claims_are_numbered_without_gaps_and_bounded_by_rows_and_bytes(
    manager: QueueManager, session: Session
) -> None:
    put(session, *range(7))
    reader = Reader(manager)
    assert reader.claim(Limit(2, 2**40)) == Claimed(1, 2)
    reader.at = 1
    # Each is one byte; the first one counts, however large.
    assert reader.claim(Limit(100, 3)) == Claimed(2, 3)
    reader.at = 2
    assert reader.claim(Limit(100, 0)) == Claimed(3, 1)
    reader.at = 3
    assert reader.claim() == Claimed(4, 1)
    reader.at = 0
    assert reader.read(4) == [b"%d" % n for n in range(7)]


def test_a_large_claim_is_several_of_one_transaction_each(
    manager: QueueManager, session: Session
) -> None:
    put(session, *range(CLAIM_ROWS_MAX + 1))
    reader = Reader(manager)
    assert reader.claim() == Claimed(2, CLAIM_ROWS_MAX + 1)
    assert len(reader.read(2)) == CLAIM_ROWS_MAX + 1
    assert reader.end(2) == CLAIM_ROWS_MAX + 1
    assert manager.verify().ok


def test_claims_that_are_there_come_first_and_once_more_the_same(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1, 2)
    reader = Reader(manager)
    assert reader.claim() == Claimed(1, 2)
    put(session, 3, 4)
    # Another start of the same pipeline: it asks again behind the same claim.
    again = Reader(manager)
    assert again.claim(Limit(2, 2**40)) == Claimed(1, 2)
    assert again.claim() == Claimed(2, 4)
    assert again.read(2) == [b"1", b"2", b"3", b"4"]
    assert again.read(2, max_bytes=1) == again.read(2, max_rows=3) == again.read(2)


def test_what_was_put_after_a_mark_is_left(manager: QueueManager, session: Session) -> None:
    put(session, 1, 2)
    mark = manager.claims.mark()
    session.put("Q1", b"urgent", priority=9)
    put(session, 3)
    reader = Reader(manager)
    reader.claim(ALL._replace(up_to=mark))
    assert reader.read(1) == [b"1", b"2"]
    reader.at = 1
    assert reader.claim(ALL._replace(up_to=mark)) == Claimed(1, 0)
    reader.claim()
    assert reader.read(2) == [b"urgent", b"3"]


def test_two_consumers_of_a_queue_compete(manager: QueueManager, session: Session) -> None:
    put(session, *range(6))
    one, two = Reader(manager, "one"), Reader(manager, "two")
    half = Limit(2, 2**40)
    for reader in (one, two, one):
        reader.at = manager.claims.claim(reader.name, reader.epoch, reader.at, half).until
    one.at = two.at = 0
    assert one.read(2) == [b"0", b"1", b"4", b"5"]
    assert two.read(1) == [b"2", b"3"]
    assert one.end(2) + two.end(1) == 6
    assert manager.counts("Q1") == NOTHING


def test_what_others_have_got_locked_or_not_committed_is_passed_over(
    manager: QueueManager, session: Session, unit: Session
) -> None:
    put(session, 1, 2, 3)
    assert body(unit.get("Q1")) == b"1"
    unit.put("Q1", b"not yet")
    reader = Reader(manager)
    assert reader.claim().messages == 2
    unit.backout()
    assert reader.read(1) == [b"2", b"3"]
    reader.end(1)
    assert reader.drain() == [b"1"]


# Lifetimes


def test_E9_E14_what_has_expired_when_it_is_claimed_is_discarded_and_reported(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    asks = Descriptor(report=c.MQRO_EXPIRATION, reply_to_q=REPLIES, persistence=1)
    put_md(session, "Q1", b"short", asks, life_ms=1_000)
    put_md(session, "Q1", b"long", asks, life_ms=1_001)
    clock.advance(1_000)
    reader = Reader(manager)
    assert reader.claim() == Claimed(1, 1)
    assert reader.read(1) == [b"long"]
    assert ends(manager, "Q1") == [End("expired", 1_000)]
    [report] = session.browse(REPLIES)
    assert report.descriptor.feedback == c.MQFB_EXPIRATION


@pytest.mark.parametrize(("after_ms", "count"), [(999, 1), (1_000, 0), (1_001, 0)])
def test_E8_a_claim_takes_a_message_until_its_deadline(
    manager: QueueManager, session: Session, clock: VirtualClock, after_ms: int, count: int
) -> None:
    session.put("Q1", b"x", time_to_live_ms=1_000)
    clock.advance(after_ms)
    assert Reader(manager).claim().messages == count
    assert manager.counts("Q1") == NOTHING._replace(locked=count)
    assert manager.verify().ok


def test_E15_what_is_claimed_expires_no_more(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"x", time_to_live_ms=1_000)
    reader = Reader(manager)
    reader.claim()
    clock.advance(5_000)
    assert reader.read(1) == [b"x"]
    reader.end(1)
    assert ends(manager, "Q1") == [End("got", 5_000)]


def test_E15_released_after_its_deadline_the_next_get_finds_it_expired(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.put("Q1", b"x", time_to_live_ms=1_000)
    reader = Reader(manager)
    reader.claim()
    clock.advance(1_000)
    assert manager.claims.release("billing") == 1
    assert manager.counts("Q1").expired_present == 1
    assert session.get("Q1") is None
    assert ends(manager, "Q1") == [End("expired", 1_000)]


def test_many_expired_messages_do_not_hide_the_live_one_behind_them(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    for _ in range(2_500):
        session.put("Q1", b"x", time_to_live_ms=10)
    session.put("Q1", b"live")
    clock.advance(10)
    reader = Reader(manager)
    assert reader.claim() == Claimed(1, 1)
    assert manager.counts("Q1") == NOTHING._replace(locked=1)
    assert manager.verify().ok


# Ending


def test_lives_end_as_got_with_all_their_times(
    manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    session.put("Q1", b"body", persistent=persistent, time_to_live_ms=9_000, correl_id=b"c" * 24)
    session.put("Q1", b"plain", persistent=persistent, delay_ms=50)
    clock.advance(100)
    reader = Reader(manager)
    reader.claim()
    clock.advance(7)
    assert reader.end(1) == 2
    first, second = lives(manager, "Q1")
    assert (first.outcome, first.put_ms, first.ended_ms) == ("got", START_MS, START_MS + 107)
    assert (first.deliver_at_ms, first.expire_at_ms) == (START_MS, START_MS + 9_000)
    assert (first.correl_id, first.body_bytes, first.persistent) == (b"c" * 24, 4, persistent)
    assert (first.user_identifier, first.backout_count, first.reason) == ("anna", 0, 0)
    assert (second.deliver_at_ms, second.expire_at_ms) == (START_MS + 50, None)
    assert manager.counts("Q1") == NOTHING
    assert manager.verify().ok


def test_G9_what_asks_for_it_gets_its_COD_report_when_its_claim_ends(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1)
    put_md(session, "Q1", b"a", Descriptor(report=c.MQRO_COD, reply_to_q=REPLIES, persistence=1))
    put_md(session, "Q1", b"b", Descriptor(report=c.MQRO_COD, reply_to_q=REPLIES, persistence=0))
    first, second = (message.msg_id for message in list(session.browse("Q1"))[1:])
    reader = Reader(manager)
    reader.claim()
    assert manager.curdepth(REPLIES) == 0
    reader.end(1)
    reports = list(session.browse(REPLIES))
    assert [report.correl_id for report in reports] == [first, second]
    assert {report.descriptor.feedback for report in reports} == {c.MQFB_COD}
    assert [life.outcome for life in lives(manager, "Q1")] == ["got"] * 3
    assert manager.verify().ok


def test_ending_twice_changes_nothing(manager: QueueManager, session: Session) -> None:
    put(session, 1, 2)
    reader = Reader(manager)
    reader.claim()
    assert [reader.end(1), reader.end(1)] == [2, 0]
    assert len(lives(manager, "Q1")) == 2


def test_messages_of_many_descriptors_end_with_their_own(
    manager: QueueManager, session: Session
) -> None:
    for number in range(50):
        put_md(session, "Q1", b"x", Descriptor(priority=number % 10, reply_to_q=f"R{number}"))
    reader = Reader(manager)
    reader.claim()
    reader.end(1)
    ended = lives(manager, "Q1")
    assert [int(life.reply_to_q[1:]) % 10 for life in ended] == [life.priority for life in ended]
    assert len({life.reply_to_q for life in ended}) == 50


# Giving back


def test_G8_released_messages_are_back_in_their_places_with_their_backout_counts_raised(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1, 2, 3, 4)
    reader = Reader(manager)
    reader.claim(Limit(3, 2**40))
    put(session, 5)
    assert manager.claims.release("billing") == 3
    messages = list(session.browse("Q1"))
    assert [m.body for m in messages] == [b"1", b"2", b"3", b"4", b"5"]
    assert [m.backout_count for m in messages] == [1, 1, 1, 0, 0]
    assert [m.persistent for m in messages] == [False, True, False, True, False]
    assert manager.counts("Q1") == NOTHING._replace(live=5)
    assert manager.verify().ok
    assert manager.claims.release("billing") == 0


def test_a_waiting_get_is_given_what_is_released(manager: QueueManager, session: Session) -> None:
    put(session, 2)
    Reader(manager).claim()
    running = waiting(manager, "Q1", lambda: body(session.get("Q1", wait_ms=1_000)))
    manager.claims.release("billing")
    assert running.finish() == b"2"


def test_after_a_release_the_old_reader_is_refused_and_its_checkpoint_goes_on(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1, 2, 3)
    reader = Reader(manager)
    reader.claim(Limit(1, 2**40))
    reader.end(1)
    reader.claim(Limit(1, 2**40))
    manager.claims.release("billing")
    assert error_of(lambda: reader.read(2)) == "consumer-fenced"
    assert error_of(reader.claim) == "consumer-fenced"
    again = Reader(manager)
    # A batch that had claim 2 in it is repeated without messages, and the next one has them.
    again.at = 1
    assert again.read(2) == []
    again.end(2)
    assert again.claim() == Claimed(4, 2)
    # So it is with one that had read to claim 1.
    again.at = 1
    assert again.claim() == Claimed(4, 2)
    assert again.read(4) == [b"2", b"3"]
    again.end(4)
    for old in (1, 2):
        again.at = old
        assert error_of(again.claim) == "claims-closed"


def test_after_a_release_a_reader_without_a_checkpoint_begins_anew(
    manager: QueueManager, session: Session
) -> None:
    """Also after another release that had nothing to give back."""
    put(session, 1, 2)
    Reader(manager).claim()
    assert manager.claims.release("billing") == 2
    assert manager.claims.release("billing") == 0
    assert Reader(manager).drain() == [b"1", b"2"]


def test_what_a_checkpoint_says_is_written_is_ended_whoever_reads_now(
    manager: QueueManager, session: Session
) -> None:
    """Its query was stopped; the rest is given back, and the checkpoint can be continued."""
    put(session, 1, 2, 3)
    reader = Reader(manager)
    for _ in range(3):
        reader.at = reader.claim(Limit(1, 2**40)).until
    other = Reader(manager)
    instance_id = manager.claims.instance_id
    assert manager.claims.end_written("billing", instance_id, 2) == 2
    assert manager.claims.end_written("billing", instance_id, 2) == 0
    assert [life.outcome for life in lives(manager, "Q1")] == ["got", "got"]
    other.at = 2
    assert other.read(3) == [b"3"]
    assert manager.claims.release("billing") == 1
    assert manager.claims.end_written("billing", instance_id, 3) == 0
    assert manager.curdepth("Q1") == 1
    again = Reader(manager)
    again.at = 2
    assert again.claim().messages == 1
    assert manager.verify().ok


def test_a_checkpoint_of_another_store_or_of_later_claims_ends_nothing(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1)
    Reader(manager).claim()
    end = manager.claims.end_written
    assert error_of(lambda: end("billing", "another", 1)) == "other-instance"
    assert error_of(lambda: end("billing", manager.claims.instance_id, 2)) == "claims-ahead"
    assert error_of(lambda: end("nobody", manager.claims.instance_id, 0)) == "consumer-unknown"
    assert manager.counts("Q1").locked == 1


def test_a_quiesced_reader_is_given_nothing_more_and_reads_what_it_has(
    manager: QueueManager, session: Session
) -> None:
    put(session, 1, 2, 3)
    reader = Reader(manager)
    reader.claim(Limit(1, 2**40))
    reader.claims.claim("billing", reader.epoch, 1, Limit(1, 2**40))
    manager.claims.quiesce("billing", reader.epoch)
    reader.at = 1
    assert reader.claim() == Claimed(1, 0), "neither what is claimed nor what is there"
    assert reader.read(2) == [b"2"]
    assert manager.claims.release("billing", reader.epoch) == 2
    assert error_of(lambda: manager.claims.quiesce("billing", reader.epoch)) == "consumer-fenced"
    assert error_of(lambda: manager.claims.release("billing", reader.epoch)) == "consumer-fenced"
    assert Reader(manager).drain() == [b"1", b"2", b"3"]


# Who may


def test_who_attaches_later_fences_who_came_before(manager: QueueManager, session: Session) -> None:
    put(session, 1)
    zombie = Reader(manager)
    zombie.claim()
    heir = Reader(manager)
    for call in (zombie.claim, lambda: zombie.read(1), lambda: zombie.end(1)):
        assert error_of(call) == "consumer-fenced"
    assert heir.read(1) == [b"1"]
    assert heir.end(1) == 1


def test_a_consumer_belongs_to_one_queue_also_by_an_alias(
    manager: QueueManager, session: Session
) -> None:
    local(manager, "Q2")
    alias(manager, "ALIAS", "Q1")
    assert Reader(manager, queue="ALIAS").epoch == 1
    assert Reader(manager).epoch == 2
    with pytest.raises(ClaimError, match="consumer billing reads queue Q1, not Q2"):
        Reader(manager, queue="Q2")
    assert error_of(lambda: manager.claims.claim("nobody", 1, 0, ALL)) == "consumer-unknown"


def test_a_checkpoint_ahead_of_the_store_is_refused(manager: QueueManager) -> None:
    reader = Reader(manager)
    reader.at = 7
    assert error_of(reader.claim) == "claims-ahead"
    assert error_of(lambda: reader.end(7)) == "claims-ahead"


def test_what_cannot_be_claimed_from_is_refused_by_its_reason(
    manager: QueueManager, session: Session
) -> None:
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        Reader(manager, queue="NOWHERE")
    with refused(rc.MQRC_NOT_AUTHORIZED):
        Reader(manager, queue="SYSTEM.DDELAY.LOCAL.QUEUE")
    with refused(rc.MQRC_OBJECT_NAME_ERROR):
        Reader(manager, name="not a name")
    reader = Reader(manager)
    alter(manager, "Q1", GET=c.MQQA_GET_INHIBITED)
    with refused(rc.MQRC_GET_INHIBITED):
        reader.claim()
    alter(manager, "Q1", GET=c.MQQA_GET_ALLOWED)
    handle = session.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
    with refused(rc.MQRC_OBJECT_IN_USE):
        reader.claim()
    handle.close()
    session.open("Q1", INPUT)
    assert reader.claim() == Claimed(0, 0)


@pytest.mark.in_process
def test_a_queue_with_claimed_messages_is_in_use(manager: QueueManager, session: Session) -> None:
    put(session, 1, 2)
    reader = Reader(manager)
    reader.claim()
    with refused(rc.MQRC_OBJECT_IN_USE):
        administration.delete(manager.engine, "QLOCAL", "Q1", purge=True)
    with refused(rc.MQRC_OBJECT_IN_USE):
        administration.clear(manager.engine, "Q1")
    reader.end(1)
    administration.delete(manager.engine, "QLOCAL", "Q1")
    local(manager)
    put(session, 3)
    assert Reader(manager).at == 1


# Restart


def test_claims_survive_a_restart_and_a_crash_with_their_volatile_messages(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder, clock) as manager:
        local(manager)
        with new_session(manager) as session:
            put(session, 1, 2, 3, 4, 5)
        reader = Reader(manager)
        reader.claim(Limit(2, 2**40))
        reader.end(1)
        reader.claim(Limit(2, 2**40))
    with QueueManager("QM1", folder, clock) as manager:
        assert [s[:-1] for s in manager.claims.consistent_states()] == [
            ("billing", "Q1", 1, 1, 2, 2)
        ]
        assert manager.counts("Q1") == NOTHING._replace(locked=2)
        assert [life.outcome for life in lives(manager, "Q1")] == ["got", "got", "lost_at_restart"]
        assert manager.verify().ok
        reader = Reader(manager)
        assert (reader.epoch, reader.at) == (2, 1)
        assert reader.read(2) == [b"3", b"4"]
        assert manager.claims.release("billing") == 2
        with new_session(manager) as session:
            assert [m.persistent for m in session.browse("Q1")] == [False, True]
        assert manager.verify().ok


# Trouble


def test_on_a_full_disk_a_claim_changes_nothing_and_can_be_repeated(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock) as manager:
        local(manager)
        with new_session(manager) as session:
            for number in range(40):
                session.put("Q1", bytes(20_000), persistent=number % 2 == 0)
            reader = Reader(manager)
            with full_disk(manager), refused(rc.MQRC_STORAGE_MEDIUM_FULL):
                reader.claim()
            assert manager.counts("Q1") == NOTHING._replace(live=40)
            assert manager.verify().ok
            assert reader.claim() == Claimed(1, 40)
            assert len(reader.read(1)) == 40
            assert reader.end(1) == 40
        assert manager.counts("Q1") == NOTHING
        assert manager.verify().ok


@contextmanager
def full_disk(manager: QueueManager | QueueSharingGroup) -> Iterator[None]:
    """Let the database grow no further."""
    writer = manager.engine.store.persistent.writer
    [(pages,)] = writer.execute("PRAGMA page_count").fetchall()
    writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    try:
        yield
    finally:
        writer.execute("PRAGMA max_page_count = 1000000").fetchall()


def test_gets_claims_and_puts_side_by_side_lose_and_double_nothing(
    any_manager: QueueManager,
    new_session: NewSession,
) -> None:
    """Three threads on one queue: what came out is what was put, each once."""
    local(any_manager)
    count = 600
    got: list[bytes] = []

    def put_all() -> None:
        with new_session(any_manager) as session:
            put(session, *range(count))

    def get_some() -> None:
        with new_session(any_manager, transacted=True) as session:
            for number in range(count // 3):
                message = session.get("Q1", wait_ms=-1)
                assert message is not None
                if number % 5 == 0:
                    session.backout()
                else:
                    got.append(message.body)
                    session.commit()

    reader = Reader(any_manager)
    claimed: list[bytes] = []
    getting, putting = Running(get_some), Running(put_all)
    while putting.is_under_way or getting.is_under_way:
        claimed += claim_few(reader)
        if not getting.is_under_way:
            continue
        if not putting.is_under_way and not any_manager.curdepth("Q1"):
            # The getter waits for more than the reader has left it.
            with new_session(any_manager) as session:
                session.put("Q1", b"more")
    getting.finish()
    claimed += reader.drain()
    out = sorted(body for body in (*got, *claimed) if body != b"more")
    assert out == sorted(b"%d" % number for number in range(count))
    assert any_manager.counts("Q1") == NOTHING


def claim_few(reader: Reader) -> list[bytes]:
    """Claim, read and end up to seven messages."""
    claimed = reader.claim(Limit(7, 2**40))
    found = reader.read(claimed.until)
    reader.end(claimed.until)
    return found


# Single messages that a reader cannot use


def backed_out(reader: Reader, *rows: int, reason: int = rc.MQRC_MSG_TOO_BIG_FOR_Q) -> BackedOut:
    """Back out rows of a reader's claims."""
    return reader.claims.back_out(reader.name, reader.epoch, rows, reason)


def test_G8_a_message_backed_out_alone_comes_again_until_BOTHRESH_and_goes_to_BOQNAME(
    manager: QueueManager, session: Session
) -> None:
    local(manager, "BACKED.OUT")
    alter(manager, "Q1", BOTHRESH=2, BOQNAME="BACKED.OUT")
    put(session, 1, 2, 3)
    reader = Reader(manager)
    reader.claim()
    assert backed_out(reader, 2) == BackedOut(1, 0)
    # The others stay in their batch, which has them when it is repeated as well.
    assert reader.read(1) == Reader(manager).read(1) == [b"1", b"3"]
    assert manager.counts("Q1") == Counts(0, live=1, uncommitted=0, locked=2, expired_present=0)
    reader = Reader(manager)
    assert reader.claims.end("billing", reader.epoch, 1) == 2
    reader.at = 1
    assert (reader.claim(), reader.read(2)) == (Claimed(2, 1), [b"2"])
    assert backed_out(reader, 4) == BackedOut(0, 1)
    assert reader.end(2) == 0
    [moved] = session.browse("BACKED.OUT")
    assert (moved.body, manager.curdepth("Q1")) == (b"2", 0)
    assert [end.outcome for end in ends(manager, "Q1")] == ["got"] * 3
    assert manager.verify().problems == ()


def test_Q1_without_BOTHRESH_a_message_backed_out_is_a_dead_letter_with_the_reason(
    manager: QueueManager, session: Session
) -> None:
    asks = Descriptor(report=c.MQRO_EXCEPTION, reply_to_q=REPLIES, persistence=c.MQPER_PERSISTENT)
    put_md(session, "Q1", b"bad", asks)
    put(session, 1)
    reader = Reader(manager)
    reader.claim()
    assert backed_out(reader, 1) == BackedOut(0, 1)
    # A second time, as after a kill, changes nothing.
    assert backed_out(reader, 1) == BackedOut(0, 0)
    assert reader.read(1) == [b"1"]
    letter = session.get(DEAD)
    assert letter is not None
    header = DLH.unpack(letter.body)
    assert (header["Reason"], header["DestQName"], letter.body[-3:]) == (2030, "Q1", b"bad")
    report = session.get(REPLIES)
    assert report is not None
    assert report.descriptor.feedback == rc.MQRC_MSG_TOO_BIG_FOR_Q
    assert reader.end(1) == 1
    assert manager.verify().problems == ()


def test_a_message_that_nobody_takes_stays_claimed_and_the_error_names_it(
    manager: QueueManager, session: Session
) -> None:
    alter_manager(manager, DEADQ="")
    put(session, 1, 2)
    reader = Reader(manager)
    reader.claim()
    with pytest.raises(MQError, match=r"of Q1 cannot be used \(reason 2030\), and neither BOQNAME"):
        backed_out(reader, 1)
    assert reader.read(1) == [b"1", b"2"]
    assert manager.verify().problems == ()


def test_E15_what_was_backed_out_of_a_claim_stays_so_after_a_restart(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm, "Q1", BOTHRESH=9)
        with qm.session() as session:
            put(session, *range(1, 7))
        reader = Reader(qm)
        reader.claim()
        assert backed_out(reader, 2, 3, 6) == BackedOut(3, 0)
    with QueueManager("QM1", tmp_path, clock) as qm:
        # Of those given back, only the persistent ones outlive the restart.
        assert qm.counts("Q1") == Counts(0, live=2, uncommitted=0, locked=3, expired_present=0)
        reader = Reader(qm)
        assert reader.read(1) == [b"1", b"4", b"5"]
        assert qm.verify().problems == ()
        assert qm.claims.release("billing") == 3
        assert qm.curdepth("Q1") == 5
        assert qm.verify().problems == ()

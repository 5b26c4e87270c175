"""Rows read ahead of gets in order: whatever happens, a get takes what the store has first.

Each test fails when nobody tells the rows that were read ahead of what it does.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count as count_up
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from mayfly import MQError, QueueManager
from mayfly.engine import Session
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.examples import examples
from tests.spec.scene import BROWSE, INPUT, bodies, body, local, take

SIDES = pytest.mark.parametrize("persistent", [False, True])
LIFE_MS = 1_000
LIMIT = ClaimLimit(3, 2**20)
#: What queues may borrow, a queue as much again as it has, up to a loan; the longest body that is
#: kept; what a row takes beside its body.
ROOM_BYTES, LOAN_BYTES, BODY_BYTES, ROW_BYTES = 2**24, 65_536, 65_536, 512
#: Where the body stands among the columns of a row.
BODY_PLACE = 11


class ReadAheadMachine(RuleBasedStateMachine):
    """All that shows, hides, changes or ends a message; after each step the first is the first."""

    #: Of a consumer that is attached anew with each release.
    epoch: int
    claimed: int

    @initialize(
        count=st.integers(0, 20),
        persistent=st.booleans(),
        scans=st.booleans(),
        room_bytes=st.sampled_from((0, 4_096, 3 * LOAN_BYTES, ROOM_BYTES)),
    )
    def begin(self, count: int, persistent: bool, scans: bool, room_bytes: int) -> None:
        self.folder = TemporaryDirectory()
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", self.folder.name, self.clock)
        self.manager.mqsc(f"DEFINE QLOCAL(Q1)\nALTER QMGR EXPRYINT({int(scans)})")
        self.manager.mqsc("DEFINE QLOCAL(Q2)")
        self.manager.engine.row_memory.left_bytes = room_bytes
        self.alone, self.putter = self.manager.session(), self.manager.session(transacted=True)
        self.getters = [self.manager.session(transacted=True) for _ in range(2)]
        self.handle = self.alone.open("Q1", BROWSE | INPUT)
        self.numbers = count_up()
        self.attach()
        for side in (False, True):
            _get_one(self.alone, "Q1", "Q2", persistent=side)
        for number in range(count):
            self.alone.put("Q1", b"%d" % number, persistent=persistent)
        self.mark = self.manager.claims.mark()

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            self.manager.close()
            self.folder.cleanup()

    @rule(
        persistent=st.booleans(),
        priority=st.integers(3, 5),
        lives=st.booleans(),
        length=st.sampled_from((1, 1, BODY_BYTES // 2, BODY_BYTES + 1)),
    )
    def put(self, persistent: bool, priority: int, lives: bool, length: int) -> None:
        life_ms = LIFE_MS if lives else None
        self.alone.put(
            "Q1", bytes(length), persistent=persistent, priority=priority, time_to_live_ms=life_ms
        )

    @rule(count=st.integers(1, 5))
    def put_elsewhere(self, count: int) -> None:
        """The other queue borrows, or takes what is lent to this one."""
        for _ in range(count):
            self.alone.put("Q2", bytes(BODY_BYTES // 2))

    @rule(persistent=st.booleans())
    def put_in_a_unit(self, persistent: bool) -> None:
        self.putter.put("Q1", b"late", persistent=persistent)

    @rule(persistent=st.booleans(), count=st.integers(1, 3))
    def put_with_a_delay(self, persistent: bool, count: int) -> None:
        """Persistent ones of one descriptor are released together."""
        for _ in range(count):
            self.alone.put("Q1", b"delayed", persistent=persistent, delay_ms=LIFE_MS, priority=9)

    @rule(commits=st.booleans())
    def end_the_puts(self, commits: bool) -> None:
        (self.putter.commit if commits else self.putter.backout)()

    @rule(number=st.integers(0, 1), count=st.integers(1, 12))
    def get_in_a_unit(self, number: int, count: int) -> None:
        for _ in range(count):
            self.getters[number].get("Q1")

    @rule(number=st.integers(0, 1), commits=st.booleans())
    def end_the_gets(self, number: int, commits: bool) -> None:
        (self.getters[number].commit if commits else self.getters[number].backout)()

    @rule(count=st.integers(1, 12))
    def get(self, count: int) -> None:
        for _ in range(count):
            first = self.first_of_the_store()
            assert _seen(self.alone.get("Q1")) == _seen(first)

    @rule(most=st.integers(1, 12))
    def get_many(self, most: int) -> None:
        self.alone.get_many("Q1", most)

    @rule(number=st.integers(0, 1), most=st.integers(1, 12))
    def get_many_in_a_unit(self, number: int, most: int) -> None:
        self.getters[number].get_many("Q1", most)

    @rule(place=st.integers(0, 12))
    def get_by_id(self, place: int) -> None:
        ids = [message.msg_id for message in self.alone.browse("Q1")]
        if place < len(ids):
            assert self.alone.get("Q1", msg_id=ids[place]) is not None

    @rule(number=st.integers(0, 1))
    def get_by_selector(self, number: int) -> None:
        self.getters[number].get("Q1", selector="JMSPriority = 4")

    @rule(first=st.booleans())
    def lock(self, first: bool) -> None:
        step = c.MQGMO_BROWSE_FIRST if first else c.MQGMO_BROWSE_NEXT
        with suppress(MQError):
            take(self.handle, step | c.MQGMO_LOCK)

    @rule()
    def unlock(self) -> None:
        with suppress(MQError):
            take(self.handle, c.MQGMO_UNLOCK)

    @rule(is_marked=st.booleans())
    def claim(self, is_marked: bool) -> None:
        """With a mark it passes over what was put since, wherever that comes."""
        claims = self.manager.claims
        limit = LIMIT._replace(up_to=self.mark) if is_marked else LIMIT
        self.claimed = claims.claim(self.reader, self.epoch, self.claimed, limit).until

    @rule()
    def end_claims(self) -> None:
        self.manager.claims.end(self.reader, self.epoch, self.claimed)

    @rule()
    def give_claims_back(self) -> None:
        self.manager.claims.release(self.reader)
        self.attach()

    def attach(self) -> None:
        self.reader, self.claimed = f"reader{next(self.numbers)}", 0
        self.epoch = self.manager.claims.attach(self.reader, "Q1").epoch

    @rule()
    def clear(self) -> None:
        """It is refused where anything is under way."""
        self.handle.close()
        self.manager.mqsc("CLEAR QLOCAL(Q1)")
        self.handle = self.alone.open("Q1", BROWSE | INPUT)

    @rule(ms=st.sampled_from((1, LIFE_MS - 1, LIFE_MS)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def the_first_is_the_first(self) -> None:
        """No invariant, as a look moves on in the rows: a get may not have had one before it."""
        ahead = next(self.alone.browse("Q1"), None)
        assert _seen(ahead) == _seen(self.first_of_the_store())

    @invariant()
    def what_was_read_ahead_is_what_the_store_has(self) -> None:
        if hasattr(self, "manager"):
            for side in (False, True):
                _check_rows(self.manager, side)

    def first_of_the_store(self) -> Message | None:
        """A browse begins with what was read ahead, a selector always asks the store."""
        return next(self.alone.browse("Q1", selector="JMSPriority >= 0"), None)


def test_G1_the_first_to_be_got_is_the_first_of_the_store() -> None:
    run_state_machine_as_test(
        ReadAheadMachine, settings=settings(max_examples=examples(100), stateful_step_count=40)
    )


@SIDES
def test_G1_one_of_a_higher_priority_comes_before_those_read_ahead(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _fill(session, 20, persistent=persistent)
        assert [body(session.get("Q1")) for _ in range(5)] == [b"%d" % n for n in range(5)]
        session.put("Q1", b"urgent", priority=9, persistent=persistent)
        assert bodies(session, "Q1") == [b"urgent", *(b"%d" % n for n in range(5, 20))]


@SIDES
def test_G8_what_was_backed_out_comes_again_with_its_count(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm:
        local(qm)
        session, other = qm.session(transacted=True), qm.session()
        _fill(other, 20, persistent=persistent)
        for _ in range(12):
            session.get("Q1")
        assert body(other.get("Q1")) == b"12"
        session.backout()
        again = [message for _ in range(19) if (message := other.get("Q1")) is not None]
        assert [message.body for message in again] == [
            b"%d" % n for n in (*range(12), *range(13, 20))
        ]
        assert [message.backout_count for message in again] == [1] * 12 + [0] * 7


@SIDES
def test_P8_a_unit_that_put_before_comes_before_those_read_ahead(
    persistent: bool,
) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm:
        local(qm)
        early, session = qm.session(transacted=True), qm.session()
        early.put("Q1", b"early", persistent=persistent)
        _fill(session, 20, persistent=persistent)
        assert [body(session.get("Q1")) for _ in range(3)] == [b"0", b"1", b"2"]
        early.commit()
        assert bodies(session, "Q1") == [b"early", *(b"%d" % n for n in range(3, 20))]


@SIDES
def test_G2_one_got_by_its_id_is_not_got_again(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ids = _fill(session, 20, persistent=persistent)
        assert body(session.get("Q1")) == b"0"
        assert body(session.get("Q1")) == b"1"
        assert body(session.get("Q1", msg_id=ids[5])) == b"5"
        assert bodies(session, "Q1") == [b"%d" % n for n in range(2, 20) if n != 5]


@SIDES
def test_E9_a_deadline_counts_for_what_was_read_ahead_of_it(persistent: bool) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", None, clock) as qm, qm.session() as session:
        local(qm)
        for n in range(20):
            life_ms = LIFE_MS if n in (3, 4, 12) else None
            session.put("Q1", b"%d" % n, persistent=persistent, time_to_live_ms=life_ms)
        assert [body(session.get("Q1")) for _ in range(3)] == [b"0", b"1", b"2"]
        clock.advance(LIFE_MS - 1)
        assert body(session.get("Q1")) == b"3"
        clock.advance(1)
        assert bodies(session, "Q1") == [b"%d" % n for n in range(5, 20) if n != 12]
        assert qm.counts("Q1").live == 0


@SIDES
def test_claimed_ones_are_not_got_and_come_again_when_given_back(
    tmp_path: Path, persistent: bool
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _fill(session, 20, persistent=persistent)
        assert [body(session.get("Q1")) for _ in range(3)] == [b"0", b"1", b"2"]
        epoch = qm.claims.attach("reader", "Q1").epoch
        qm.claims.claim("reader", epoch, 0, LIMIT)
        assert body(session.get("Q1")) == b"6"
        qm.claims.release("reader")
        assert bodies(session, "Q1") == [b"3", b"4", b"5", *(b"%d" % n for n in range(7, 20))]


@SIDES
def test_one_claimed_from_behind_another_is_not_got(tmp_path: Path, persistent: bool) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _fill(session, 3, persistent=persistent)
        mark = qm.claims.mark()
        session.put("Q1", b"urgent", priority=9, persistent=persistent)
        session.put("Q1", b"high", priority=8, persistent=persistent)
        assert body(session.get("Q1")) == b"urgent"
        # With it all others are read ahead.
        handle = session.open("Q1", BROWSE)
        assert body(take(handle, c.MQGMO_BROWSE_FIRST).message) == b"high"
        epoch = qm.claims.attach("reader", "Q1").epoch
        qm.claims.claim("reader", epoch, 0, ClaimLimit(2, 2**20, up_to=mark))
        assert bodies(session, "Q1") == [b"high", b"2"]


def test_D22_those_released_together_come_before_those_read_ahead(tmp_path: Path) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm, qm.session() as session:
        local(qm)
        for _ in range(3):
            session.put("Q1", b"urgent", priority=9, persistent=True, delay_ms=LIFE_MS)
        _fill(session, 20, persistent=True)
        assert [body(session.get("Q1")) for _ in range(3)] == _numbers(0, 1, 2)
        clock.advance(LIFE_MS)
        assert bodies(session, "Q1") == [b"urgent"] * 3 + _numbers(*range(3, 20))


@SIDES
def test_one_that_has_just_come_is_got_without_a_read(tmp_path: Path, persistent: bool) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _fill(session, 3, persistent=persistent)
        assert bodies(session, "Q1") == _numbers(0, 1, 2)
        with _reads(qm, persistent=persistent) as statements:
            for n in range(200):
                session.put("Q1", b"%d" % n, persistent=persistent)
                assert body(session.get("Q1")) == b"%d" % n
            assert statements == []
            _fill(session, 1_000, persistent=persistent)
            assert bodies(session, "Q1") == _numbers(*range(1_000))
            _fill(session, 300, persistent=persistent)
            assert body(session.get("Q1")) == b"0"
            some = session.get_many("Q1", 200) + session.get_many("Q1", 200)
            assert [message.body for message in some] == _numbers(*range(1, 300))
            assert statements == []


@SIDES
def test_G1_those_that_come_behind_the_end_are_got_in_order(
    tmp_path: Path, persistent: bool
) -> None:
    """What is got under another's hands, and what one of a higher priority passes, come first."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        other = qm.session(transacted=True)
        _fill(session, 3, persistent=persistent)
        assert [body(session.get("Q1")) for _ in range(2)] == _numbers(0, 1)
        assert body(other.get("Q1")) == b"2"
        assert session.get("Q1") is None
        session.put("Q1", b"low", persistent=persistent, priority=0)
        session.put("Q1", b"high", persistent=persistent, priority=9)
        session.put("Q1", b"lowest", persistent=persistent, priority=0)
        other.backout()
        assert bodies(session, "Q1") == [b"high", b"2", b"low", b"lowest"]


@SIDES
def test_G1_those_that_come_behind_the_end_stand_in_the_order_of_their_priorities(
    persistent: bool,
) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        for n in range(3):
            session.put("Q1", b"%d" % n, persistent=persistent, priority=9)
        assert [body(session.get("Q1")) for _ in range(2)] == _numbers(0, 1)
        for priority in (1, 5, 3):
            session.put("Q1", b"of %d" % priority, persistent=persistent, priority=priority)
        assert bodies(session, "Q1") == [b"2", b"of 5", b"of 3", b"of 1"]


@SIDES
def test_G8_one_given_back_that_no_read_has_met_is_got(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        other = qm.session(transacted=True)
        ids = _fill(session, 2, persistent=persistent)
        assert body(other.get("Q1")) == b"0"
        assert body(next(session.browse("Q1"))) == b"1"
        assert body(session.get("Q1", msg_id=ids[1])) == b"1"
        # It begins behind the one that is held, and comes to the end.
        assert session.get("Q1") is None
        other.backout()
        assert bodies(session, "Q1") == [b"0"]


@SIDES
def test_no_row_is_kept_of_those_that_are_gone(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ahead = qm.engine.registry.queue("Q1").ahead[persistent]
        for length in (0, 200, 2_000, 60_000):
            for _ in range(300):
                session.put("Q1", bytes(length), persistent=persistent)
                assert session.get("Q1") is not None
                assert len(ahead.rows) <= 64 + 1
                assert _kept_bytes(ahead) <= LOAN_BYTES + ROW_BYTES
        assert qm.engine.row_memory.left_bytes >= ROOM_BYTES - LOAN_BYTES - 4_096


@SIDES
def test_what_a_queue_keeps_is_lent_and_given_back(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _get_one(session, "Q1", persistent=persistent)
        room, ahead = qm.engine.row_memory, qm.engine.registry.queue("Q1").ahead[persistent]
        lent = []
        lengths = (0, 0, 0, 0, 0, 10_000, 0, BODY_BYTES, BODY_BYTES, BODY_BYTES - ROW_BYTES, 0)
        for length in lengths:
            session.put("Q1", bytes(length), persistent=persistent)
            lent.append((ROOM_BYTES - room.left_bytes) // 1_024)
        # As many as are needed, or as many again as it has, or the largest loan.
        assert lent == [4, 4, 4, 4, 4, 16, 16, 80, 144, 208, 208]
        with _reads(qm, persistent=persistent) as statements:
            for length in lengths:
                assert body(session.get("Q1")) == bytes(length)
        assert statements == []
        assert room.left_bytes == ROOM_BYTES
        assert ahead.rows == []


@SIDES
@pytest.mark.parametrize("gets_many", [False, True])
def test_a_queue_keeps_nothing_before_the_first_get_in_turn(
    persistent: bool, gets_many: bool
) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ids = _fill(session, 3, persistent=persistent)
        assert session.get("Q1", msg_id=ids[1]) is not None
        _fill(session, 3, persistent=persistent)
        assert qm.engine.row_memory.left_bytes == ROOM_BYTES
        if gets_many:
            assert len(session.get_many("Q1", 10)) == 5
        else:
            assert bodies(session, "Q1") == _numbers(0, 2, 0, 1, 2)
        _fill(session, 1, persistent=persistent)
        assert qm.engine.row_memory.left_bytes == ROOM_BYTES - 4_096


@SIDES
def test_the_garbage_collector_leaves_what_is_kept_alone(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _get_one(session, "Q1", persistent=persistent)
        _fill(session, 5, persistent=persistent)
        session.put("Q1", b"in the midst", persistent=persistent, priority=9)
        gc.collect()
        rows = qm.engine.registry.queue("Q1").ahead[persistent].rows
        assert [gc.is_tracked(row) for row in rows] == [False] * 6


@SIDES
def test_neither_long_ones_nor_delayed_ones_take_room(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _get_one(session, "Q1", persistent=persistent)
        put = partial(session.put, "Q1", persistent=persistent)
        put(bytes(BODY_BYTES + 1))
        put(b"delayed", delay_ms=LIFE_MS)
        assert qm.engine.row_memory.left_bytes == ROOM_BYTES
        # What is behind one that is not kept is read.
        put(b"short")
        assert qm.engine.row_memory.left_bytes == ROOM_BYTES
        assert bodies(session, "Q1") == [bytes(BODY_BYTES + 1), b"short"]


@SIDES
def test_the_room_is_given_back_while_a_queue_is_emptied(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _get_one(session, "Q1", persistent=persistent)
        _fill(session, 2_000, persistent=persistent)
        lent_bytes = []
        for _ in range(10):
            lent_bytes.append(ROOM_BYTES - qm.engine.row_memory.left_bytes)
            assert len(bodies_of(session, 200)) == 200
        assert lent_bytes == sorted(lent_bytes, reverse=True)
        assert lent_bytes[5] < lent_bytes[0] * 0.7


@SIDES
def test_the_room_is_given_back_while_many_are_got_by_one_call(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ahead = qm.engine.registry.queue("Q1").ahead[persistent]
        _get_one(session, "Q1", persistent=persistent)
        _fill(session, 2_000, persistent=persistent)
        for left in range(1_900, 0, -100):
            assert len(session.get_many("Q1", 100)) == 100
            # Those of this call, and an eighth of all.
            assert len(ahead.rows) <= (left + 100) * 8 / 7 + 1


@SIDES
def test_the_oldest_borrower_leaves_its_room_to_another(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        for name in ("Q1", "IDLE", "BUSY"):
            local(qm, name)
        _get_one(session, "Q1", "IDLE", "BUSY", persistent=persistent)
        put = partial(session.put, persistent=persistent)
        qm.engine.row_memory.left_bytes = 6 * LOAN_BYTES
        for name in ("BUSY", "IDLE"):
            for n in range(3):
                put(name, b"%d" % n + bytes(LOAN_BYTES - ROW_BYTES - 1))
        assert qm.engine.row_memory.left_bytes == 0
        # A queue that gives back and borrows again is no old borrower.
        assert len(bodies_of(session, 2, "BUSY")) == 2
        put("BUSY", b"3")
        put("Q1", bytes(LOAN_BYTES))
        put("Q1", bytes(LOAN_BYTES))
        with _reads(qm, persistent=persistent) as statements:
            assert [body[:1] for body in bodies_of(session, 2, "BUSY")] == _numbers(2, 3)
            assert [len(body) for body in bodies_of(session, 2)] == [LOAN_BYTES] * 2
            assert statements == []
            assert [body[:1] for body in bodies_of(session, 3, "IDLE")] == _numbers(0, 1, 2)
            assert len(statements) > 0


@SIDES
def test_without_room_the_rest_of_a_queue_is_read(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _get_one(session, "Q1", persistent=persistent)
        qm.engine.row_memory.left_bytes = 128 * 1_024
        _fill(session, 1_000, persistent=persistent)
        kept_count = 128 * 1_024 // (ROW_BYTES + 3)
        with _reads(qm, persistent=persistent) as statements:
            assert bodies_of(session, kept_count) == _numbers(*range(kept_count))
            assert statements == []
            assert bodies(session, "Q1") == _numbers(*range(kept_count, 1_000))
            assert 0 < len(statements) < 20


@SIDES
def test_one_read_before_it_could_be_seen_is_kept_once(persistent: bool) -> None:
    """Durable it is in the store, and hidden until its transaction takes effect."""
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _fill(session, 5, persistent=persistent)
        core, queue = qm.engine, qm.engine.registry.queue("Q1")
        with core.engine_lock:
            ahead, first, messages = queue.ahead[persistent], queue.low, core.messages(persistent)
            stored = messages.in_order(queue.low, queue.high, 5)
            ahead.forget()
            hidden = {stored[3].k}
            for row in stored[:2]:
                found = ahead.next(hidden, first)
                found = ahead.read(messages, hidden, first, queue.high) if found is None else found
                assert found == row
                first = row.k + 1
            ahead.arrive(stored[3], first)
            assert [*ahead.rows_from(first, ())] == stored[2:]


@SIDES
def test_G2_those_got_by_their_ids_leave_the_others_read_ahead(persistent: bool) -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        _get_one(session, "Q1", persistent=persistent)
        ids = _fill(session, 500, persistent=persistent)
        ahead = qm.engine.registry.queue("Q1").ahead[persistent]
        for n in range(1, 500, 2):
            assert body(session.get("Q1", msg_id=ids[n])) == b"%d" % n
        with _reads(qm, persistent=persistent) as statements:
            assert bodies(session, "Q1") == _numbers(*range(0, 500, 2))
        assert statements == []
        # Nor are those kept for ever that nobody gets in turn.
        ids = _fill(session, 500, persistent=persistent)
        for msg_id in ids[1:]:
            assert session.get("Q1", msg_id=msg_id) is not None
        assert len(ahead.rows) <= 64
        assert len(ahead.gone) <= 64
        assert qm.engine.row_memory.left_bytes >= ROOM_BYTES - 2 * LOAN_BYTES


def test_bodies_read_ahead_stay_within_64_KiB_of_a_queue(tmp_path: Path) -> None:
    """Nor is a long one kept that was only browsed, and its get refused for a short buffer."""
    long = os.urandom(100_000)
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ahead = qm.engine.registry.queue("Q1").ahead[1]
        qm.engine.row_memory.left_bytes = 0
        for _ in range(8):
            session.put("Q1", long[:30_000], persistent=True)
        for _ in range(3):
            session.put("Q1", long, persistent=True)
        handle = session.open("Q1", INPUT)
        for left in range(11, 0, -1):
            refused_one = take(handle, max_length=1)
            assert refused_one.warning == rc.MQRC_TRUNCATED_MSG_FAILED
            message = session.get("Q1")
            assert message is not None
            assert len(message.body) == (100_000 if left <= 3 else 30_000)
            assert sum(len(row[BODY_PLACE]) for row in ahead.rows) <= 65_536
        assert session.get("Q1") is None


def _check_rows(qm: QueueManager, side: bool) -> None:
    """Rows in memory that can be seen are all that the store has up to their end."""
    core = qm.engine
    with core.engine_lock:
        queue = core.registry.queue("Q1")
        ahead, first = queue.ahead[side], queue.first[side]
        end = queue.high if ahead.has_all else max(first, ahead.end)
        stored = core.messages(side).in_order(first, end, 1_000_000)
        assert [*ahead.rows_from(first, core.hidden)] == [
            row for row in stored if row.k not in core.hidden
        ]


def _get_one(session: Session, *queues: str, persistent: bool) -> None:
    """Get from queues for the first time, so that they keep what arrives."""
    for queue in queues:
        session.put(queue, b"first", persistent=persistent)
        assert body(session.get(queue)) == b"first"


def bodies_of(session: Session, count: int, queue: str = "Q1") -> list[bytes]:
    return [message.body for _ in range(count) if (message := session.get(queue)) is not None]


def _kept_bytes(ahead: Any) -> int:
    return sum(ROW_BYTES + len(row[BODY_PLACE]) for row in ahead.rows)


def _seen(message: Message | None) -> tuple[bytes, int] | None:
    return None if message is None else (message.msg_id, message.backout_count)


@contextmanager
def _reads(qm: QueueManager, *, persistent: bool) -> Iterator[list[str]]:
    """Collect the statements that read messages."""
    statements = list[str]()
    store = qm.engine.store
    reader = (store.persistent if persistent else store.volatile)._reader
    told = partial(_note_read, statements)
    reader.trace_v2(apsw.SQLITE_TRACE_STMT, told)
    yield statements
    reader.trace_v2(0, None)


def _note_read(statements: list[str], event: dict[str, Any]) -> None:
    if re.match(r"SELECT .* FROM (whole_)?message ", event["sql"]):
        statements.append(event["sql"])


def _numbers(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def _fill(session: Session, count: int, *, persistent: bool) -> list[bytes]:
    return [session.put("Q1", b"%d" % n, persistent=persistent) for n in range(count)]

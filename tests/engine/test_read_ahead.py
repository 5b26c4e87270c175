"""Rows read ahead of gets in order: whatever happens, a get takes what the store has first.

Each test fails when nobody tells the rows that were read ahead of what it does.
"""

from __future__ import annotations

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
from mayfly.engine import Message, Session
from mayfly.engine.face.bulk import ClaimLimit
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.examples import examples
from tests.spec.scene import BROWSE, INPUT, bodies, body, local, take

SIDES = pytest.mark.parametrize("persistent", [False, True])
LIFE_MS = 1_000
LIMIT = ClaimLimit(3, 2**20)


class ReadAheadMachine(RuleBasedStateMachine):
    """All that shows, hides, changes or ends a message; after each step the first is the first."""

    #: Of a consumer that is attached anew with each release.
    epoch: int
    claimed: int

    @initialize(count=st.integers(0, 20), persistent=st.booleans(), scans=st.booleans())
    def begin(self, count: int, persistent: bool, scans: bool) -> None:
        self.folder = TemporaryDirectory()
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", self.folder.name, self.clock)
        self.manager.mqsc(f"DEFINE QLOCAL(Q1)\nALTER QMGR EXPRYINT({int(scans)})")
        self.alone, self.putter = self.manager.session(), self.manager.session(transacted=True)
        self.getters = [self.manager.session(transacted=True) for _ in range(2)]
        self.handle = self.alone.open("Q1", BROWSE | INPUT)
        self.numbers = count_up()
        self.attach()
        for number in range(count):
            self.alone.put("Q1", b"%d" % number, persistent=persistent)
        self.mark = self.manager.claims.mark()

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            self.manager.close()
            self.folder.cleanup()

    @rule(persistent=st.booleans(), priority=st.integers(3, 5), lives=st.booleans())
    def put(self, persistent: bool, priority: int, lives: bool) -> None:
        life_ms = LIFE_MS if lives else None
        self.alone.put(
            "Q1", b"x", persistent=persistent, priority=priority, time_to_live_ms=life_ms
        )

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
            self.alone.get("Q1")

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

    @invariant()
    def the_first_is_the_first(self) -> None:
        """A browse begins with what was read ahead, a selector always asks the store."""
        if hasattr(self, "manager"):
            ahead = next(self.alone.browse("Q1"), None)
            stored = next(self.alone.browse("Q1", selector="JMSPriority >= 0"), None)
            assert _seen(ahead) == _seen(stored)


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
            _fill(session, 100, persistent=persistent)
            assert bodies(session, "Q1") == _numbers(*range(100))
            # Only 64 of them are kept.
            assert len(statements) == 1


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
                assert len(ahead._rows) <= 64 + 1
                assert sum(len(row.body) for row in ahead._rows) <= 65_536


def test_bodies_read_ahead_stay_within_64_KiB_of_a_queue(tmp_path: Path) -> None:
    """Nor is a long one kept that was only browsed, and its get refused for a short buffer."""
    long = os.urandom(100_000)
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ahead = qm.engine.registry.queue("Q1").ahead[1]
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
            assert sum(len(row.body) for row in ahead._rows) <= 65_536
        assert session.get("Q1") is None


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

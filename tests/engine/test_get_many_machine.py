"""Many messages by one get are those that a loop of gets would get, whatever happened before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

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
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.examples import examples
from tests.spec.scene import BROWSE, INPUT, REPLIES, alter, lives, take

LIFE_MS = 1_000
REPORTS = c.MQRO_COD, c.MQRO_EXPIRATION, c.MQRO_COD | c.MQRO_EXPIRATION_WITH_FULL_DATA


def by_loop(session: Session, queue: str, most: int) -> list[Message]:
    """Get as a program does that has no get of many; an error counts when it is the first."""
    found: list[Message] = []
    while len(found) < most:
        try:
            message = session.get(queue)
        except MQError:
            if not found:
                raise
            return found
        if message is None:
            return found
        found.append(message)
    return found


def by_call(session: Session, queue: str, most: int) -> list[Message]:
    return session.get_many(queue, most)


Way = Callable[[Session, str, int], list[Message]]


def told(messages: list[Message]) -> list[tuple[Any, ...]]:
    """Return what a program sees, but for the ids, which two queue managers do not share."""
    return [
        (m.queue, m.body, m.priority, m.persistent, m.backout_count, m.seen_ms, m.expire_at_ms)
        for m in messages
    ]


class Twin:
    """A queue manager whose programs get by a loop, or by one call, and its sessions."""

    def __init__(self, way: Way, folder: str | None, discards: bool, max_open: int) -> None:
        self.way, self.clock = way, VirtualClock()
        config = {"expiry.discard_on_empty": discards}
        self.manager = QueueManager("QM1", folder, self.clock, settings=config)
        self.manager.mqsc(
            f"DEFINE QLOCAL(Q1) MAXDEPTH(100000)\nDEFINE QLOCAL({REPLIES}) MAXDEPTH(100000)\n"
            f"ALTER QMGR EXPRYINT(OFF) MAXUMSGS({max_open})"
        )
        self.alone = self.manager.session()
        self.units = [self.manager.session(transacted=True) for _ in range(2)]
        self.handle = self.alone.open("Q1", BROWSE | INPUT)

    def get(self, session: Session, most: int, queue: str = "Q1") -> object:
        """Return what was got, or the reason code."""
        try:
            return told(self.way(session, queue, most))
        except MQError as error:
            return error.reason

    def state(self) -> list[Any]:
        """Return the depths, and all about the lives that have ended.

        A browse would discard what has expired, and so hide who does not.
        """
        counts = [self.manager.curdepth(name) for name in ("Q1", REPLIES)]
        # Non-persistent ones are written later, in an order of their own.
        ended = sorted(
            repr(life._replace(msg_id=b"", correl_id=b"", origin_id=None))
            for name in ("Q1", REPLIES)
            for life in lives(self.manager, name)
        )
        return [counts, ended]

    def close(self) -> tuple[list[Any], list[str]]:
        """Return what is left, and whether the store is sound."""
        for session in (self.alone, *self.units):
            session.close(commit=False)
        with self.manager.session() as session:
            left = [told([*session.browse(name)]) for name in ("Q1", REPLIES)]
        left.append(self.state())
        problems = [*self.manager.verify().problems]
        self.manager.close()
        return left, problems


class GetManyMachine(RuleBasedStateMachine):
    """The same steps on two queue managers, one of which gets many by one call."""

    @initialize(
        count=st.integers(0, 3),
        persistent=st.booleans(),
        discards=st.booleans(),
        is_limited=st.sampled_from((False, False, False, True)),
        on_disk=st.booleans(),
    )
    def begin(
        self, count: int, persistent: bool, discards: bool, is_limited: bool, on_disk: bool
    ) -> None:
        self.folder = TemporaryDirectory()
        self.number = 0
        self.twins = [
            Twin(way, f"{self.folder.name}/{way.__name__}" if on_disk else None, discards, limit)
            for limit in (4 if is_limited else 10_000,)
            for way in (by_loop, by_call)
        ]
        for _ in range(count):
            self._put(lambda twin: twin.alone, persistent, 4, None, report=0)

    def teardown(self) -> None:
        if hasattr(self, "twins"):
            one, other = [twin.close() for twin in self.twins]
            self.folder.cleanup()
            assert one == other
            assert not one[1]

    def same(self, step: Callable[[Twin], object]) -> None:
        """Do a step on both, which must have one outcome."""
        one, other = [step(twin) for twin in self.twins]
        assert one == other

    @rule(
        persistent=st.booleans(),
        priority=st.integers(3, 5),
        life=st.sampled_from((None, 1, LIFE_MS)),
        report=st.sampled_from((0, 0, 0, *REPORTS)),
        delay_ms=st.sampled_from((0, 0, 0, LIFE_MS)),
        count=st.integers(1, 3),
    )
    def put(
        self,
        persistent: bool,
        priority: int,
        life: int | None,
        report: int,
        delay_ms: int,
        count: int,
    ) -> None:
        for _ in range(count):
            self._put(
                lambda t: t.alone, persistent, priority, life, report=report, delay_ms=delay_ms
            )

    @rule(
        place=st.integers(0, 1),
        persistent=st.booleans(),
        priority=st.integers(3, 5),
        life=st.sampled_from((None, 1, LIFE_MS)),
        report=st.sampled_from((0, 0, *REPORTS)),
    )
    def put_in_a_unit(
        self, place: int, persistent: bool, priority: int, life: int | None, report: int
    ) -> None:
        self._put(lambda t: t.units[place], persistent, priority, life, report=report)

    def _put(
        self,
        session_of: Callable[[Twin], Session],
        persistent: bool,
        priority: int,
        life: int | None,
        **more: Any,
    ) -> None:
        self.number += 1
        body = b"%d" % self.number
        if more["report"]:
            more["reply_to_q"] = REPLIES

        def put(twin: Twin) -> object:
            with suppress(MQError):
                session_of(twin).put(
                    "Q1",
                    body,
                    persistent=persistent,
                    priority=priority,
                    time_to_live_ms=life,
                    **more,
                )
            return None

        self.same(put)

    @rule(place=st.integers(0, 1), most=st.integers(1, 12))
    def get_in_a_unit(self, place: int, most: int) -> None:
        self.same(lambda twin: twin.get(twin.units[place], most))

    @rule(place=st.integers(0, 1), most=st.integers(1, 3))
    def get_reports_in_a_unit(self, place: int, most: int) -> None:
        self.same(lambda twin: twin.get(twin.units[place], most, REPLIES))

    @rule(place=st.integers(0, 1), is_commit=st.booleans())
    def end_a_unit(self, place: int, is_commit: bool) -> None:
        for twin in self.twins:
            unit = twin.units[place]
            (unit.commit if is_commit else unit.backout)()

    @rule(most=st.integers(1, 12))
    def get(self, most: int) -> None:
        self.same(lambda twin: twin.get(twin.alone, most))

    @rule(most=st.integers(1, 3))
    def get_reports(self, most: int) -> None:
        self.same(lambda twin: twin.get(twin.alone, most, REPLIES))

    @rule(first=st.booleans())
    def lock(self, first: bool) -> None:
        step = c.MQGMO_BROWSE_FIRST if first else c.MQGMO_BROWSE_NEXT
        for twin in self.twins:
            with suppress(MQError):
                take(twin.handle, step | c.MQGMO_LOCK)

    @rule(place=st.integers(0, 1))
    def get_while_inhibited(self, place: int) -> None:
        for twin in self.twins:
            alter(twin.manager, "Q1", GET=c.MQQA_GET_INHIBITED)
            assert twin.get(twin.units[place], 3) == rc.MQRC_GET_INHIBITED
            alter(twin.manager, "Q1", GET=c.MQQA_GET_ALLOWED)

    @rule(ms=st.sampled_from((1, LIFE_MS - 1, LIFE_MS)))
    def time_passes(self, ms: int) -> None:
        for twin in self.twins:
            twin.clock.advance(ms)

    @invariant()
    def both_are_the_same(self) -> None:
        if hasattr(self, "twins"):
            self.same(Twin.state)


def test_G1_many_are_got_as_a_loop_of_gets_gets_them() -> None:
    run_state_machine_as_test(
        GetManyMachine, settings=settings(max_examples=examples(100), stateful_step_count=30)
    )

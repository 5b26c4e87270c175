"""Groups on the real queue manager beside an obvious and slow model of them.

The model is a list of messages and looks through all of it for every get. What expires is removed
from it only where the rules say that a get discards it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle, Match, PutRequest
from mayfly.engine.api.programs import ANY
from mayfly.engine.finding.search import in_order
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.examples import examples

IN_GROUP, LAST = c.MQMF_MSG_IN_GROUP, c.MQMF_LAST_MSG_IN_GROUP
SEGMENT, LAST_SEGMENT = c.MQMF_SEGMENT, c.MQMF_LAST_SEGMENT
LOGICAL, COMPLETE = c.MQGMO_LOGICAL_ORDER, c.MQGMO_COMPLETE_MSG
ALL_MSGS, ALL_SEGMENTS = c.MQGMO_ALL_MSGS_AVAILABLE, c.MQGMO_ALL_SEGMENTS_AVAILABLE
#: MsgSeqNumber and Offset; None is any.
Spot = tuple[int | None, int | None]
OPEN = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT | c.MQOO_BROWSE


class Piece(NamedTuple):
    """One physical message that may be put; the name of a group is that of its first letter."""

    body: bytes
    number: int = 1
    offset: int = 0
    flags: int = 0

    @property
    def group(self) -> str:
        return chr(self.body[0]) if self.flags else ""


PIECES = (
    Piece(b"A1", 1, 0, IN_GROUP),
    Piece(b"A2", 2, 0, IN_GROUP),
    Piece(b"A3", 3, 0, IN_GROUP | LAST),
    Piece(b"B1", 1, 0, IN_GROUP | SEGMENT),
    Piece(b"B2", 1, 2, IN_GROUP | SEGMENT | LAST_SEGMENT),
    Piece(b"B3", 2, 0, IN_GROUP | LAST),
    Piece(b"C1", 1, 0, SEGMENT),
    Piece(b"C2", 1, 2, SEGMENT),
    Piece(b"C3", 1, 4, SEGMENT | LAST_SEGMENT),
    Piece(b"D1", 1, 0, IN_GROUP | LAST),
    Piece(b"-1"),
    Piece(b"-2"),
)


class Held:
    """A message of the model.

    ``putter`` and ``taker`` are who has it in an open unit of work, ``locker`` who has browsed it
    with a lock.
    """

    def __init__(self, piece: Piece, place: tuple[int, int], expire_at_ms: int | None) -> None:
        self.piece = piece
        self.place = place
        self.expire_at_ms = expire_at_ms
        self.putter: int | None = None
        self.taker: int | None = None
        self.locker: int | None = None


class At(NamedTuple):
    """Where a handle stands: what comes next, and whether it got there in logical order."""

    group: str
    number: int
    offset: int
    in_message: bool
    is_logical: bool


class Model:
    """All that is on the queue, in order."""

    def __init__(self) -> None:
        self.messages: list[Held] = []
        self.now_ms = 0
        #: Whose handle looks now, and sees what it has locked.
        self.viewer: int | None = None
        #: MsgSeqNumber and Offset that are asked for beside the GroupId.
        self.spot: Spot = (None, None)

    def visible(self, owner: int | None) -> list[Held]:
        seen = [
            m
            for m in self.messages
            if m.taker is None and m.putter in (None, owner) and m.locker in (None, self.viewer)
        ]
        return sorted(seen, key=lambda m: m.place)

    def under(
        self, owner: int | None, place: tuple[int, int] | None, mode: int
    ) -> tuple[int, list[Held]]:
        """Return what a get of the message at a place returns, and discard what it discards."""
        there = [m for m in self.visible(owner) if m.place == place and m.putter is None]
        if there and mode and there[0].piece.offset:
            return rc.MQRC_INVALID_MSG_UNDER_CURSOR, []
        if there and mode and there[0].piece.group:
            piece = there[0].piece
            parts = self.chain(owner, piece.group, piece.number)
            there = parts if there[0] in parts else []
        dead = [m for m in there if self.is_dead(m)]
        if not there or dead:
            if all(m.putter is None for m in dead):
                self.messages = [m for m in self.messages if m not in dead]
            return rc.MQRC_NO_MSG_UNDER_CURSOR, []
        return rc.MQRC_NONE, there

    def find(
        self, owner: int | None, mode: int, at: At | None, group: str, low: tuple[int, int]
    ) -> list[Held]:
        """Return what a get returns, and discard what it discards."""
        while True:
            for message in self.candidates(owner, mode, at, group, low):
                needed, returned = self.sets_of(
                    owner, message, mode if at is None else rest(mode, at)
                )
                dead = [m for m in needed if self.is_dead(m)]
                if not dead:
                    return returned
                if all(m in returned and m.putter is None for m in dead):
                    self.messages = [m for m in self.messages if m not in dead]
                    break
            else:
                return []

    def is_dead(self, message: Held) -> bool:
        return message.expire_at_ms is not None and message.expire_at_ms <= self.now_ms

    def candidates(
        self, owner: int | None, mode: int, at: At | None, group: str, low: tuple[int, int]
    ) -> Iterator[Held]:
        for message in self.visible(owner):
            piece = message.piece
            if at is not None:
                follows = at.group, at.number, at.offset
                if (piece.group, piece.number, piece.offset) != follows:
                    continue
                if rest(mode, at) and not self.chain(owner, piece.group, piece.number):
                    continue
                yield message
                continue
            if message.place < low or (group and piece.group != group):
                continue
            number, offset = self.spot
            if number not in (None, piece.number) or offset not in (None, piece.offset):
                continue
            if self.is_available(owner, message, mode):
                yield message

    def is_available(self, owner: int | None, message: Held, mode: int) -> bool:
        piece = message.piece
        if not piece.group:
            return True
        if mode & LOGICAL and (piece.number, piece.offset) != (1, 0):
            return False
        if mode & ALL_MSGS and message not in self.whole(owner, piece.group):
            return False
        parts = self.chain(owner, piece.group, piece.number)
        if mode & (COMPLETE | ALL_SEGMENTS) and message not in parts:
            return False
        return not (mode & COMPLETE and piece.offset)

    def sets_of(self, owner: int | None, message: Held, mode: int) -> tuple[list[Held], list[Held]]:
        piece = message.piece
        if not piece.group:
            return [message], [message]
        parts = self.chain(owner, piece.group, piece.number)
        returned = parts if mode & COMPLETE else [message]
        if mode & ALL_MSGS:
            return self.whole(owner, piece.group), returned
        return (parts if mode & (COMPLETE | ALL_SEGMENTS) else [message]), returned

    def chain(self, owner: int | None, group: str, number: int) -> list[Held]:
        parts = sorted(
            (m for m in self.visible(owner) if m.piece.group == group and m.piece.number == number),
            key=lambda m: m.piece.offset,
        )
        wanted = [p for p in PIECES if p.group == group and p.number == number]
        return parts if [m.piece for m in parts] == wanted else []

    def whole(self, owner: int | None, group: str) -> list[Held]:
        numbers = sorted({p.number for p in PIECES if p.group == group})
        chains = [self.chain(owner, group, number) for number in numbers]
        return [m for parts in chains for m in parts] if all(chains) else []


def rest(mode: int, at: At) -> int:
    """Return what of a mode counts within a group that was begun."""
    return 0 if at.in_message else mode & (COMPLETE | ALL_SEGMENTS)


def after(parts: list[Held], *, is_logical: bool) -> At | None:
    """Return where a handle stands that has got a message, in one piece or in these."""
    piece = parts[-1].piece
    in_message = bool(piece.flags & SEGMENT) and not piece.flags & LAST_SEGMENT
    if not in_message and (not piece.flags & IN_GROUP or piece.flags & LAST):
        return None
    if in_message:
        end = piece.offset + len(piece.body)
        return At(piece.group, piece.number, end, in_message, is_logical)
    return At(piece.group, piece.number + 1, 0, in_message, is_logical)


LOWEST = (-10, 0)
users = st.sampled_from((0, 1, 1))
modes = st.sampled_from(
    (
        LOGICAL,
        LOGICAL | ALL_MSGS,
        LOGICAL | COMPLETE,
        LOGICAL | ALL_SEGMENTS,
        LOGICAL | ALL_MSGS | COMPLETE,
        ALL_MSGS,
        COMPLETE,
        ALL_SEGMENTS,
        ALL_MSGS | COMPLETE,
    )
)
groups = st.sampled_from(("", "", "", "A", "B", "C"))


class GroupsMachine(RuleBasedStateMachine):
    """Two users put and get members of groups, one of them in units of work."""

    @initialize(
        first=st.lists(
            st.tuples(st.sampled_from(PIECES), st.sampled_from((None, None, 100))),
            max_size=12,
            unique_by=lambda put: put[0],
        )
    )
    def begin(self, first: list[tuple[Piece, int | None]]) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", None, self.clock)
        assert self.manager.mqsc("DEFINE QLOCAL(Q1) MSGDLVSQ(PRIORITY)").ok
        self.model = Model()
        self.model.now_ms = self.clock.now_ms()
        self.order = 0
        self.sessions = [self.manager.session("anna"), self.manager.session("ben")]
        self.handles = [session.open("Q1", OPEN) for session in self.sessions]
        self.plain = self.sessions[0].open("Q1", OPEN)
        self.ids: dict[str, bytes] = {
            p.group: p.group.encode().ljust(24, b"!") for p in PIECES if p.group
        }
        self.stands: list[At | None] = [None, None]
        self.before_unit: At | None = None
        #: Of each handle's browse: where it stands, the place of its group, its cursor, its kind.
        self.browse_stands: list[At | None] = [None, None]
        self.browse_places: list[tuple[int, int]] = [LOWEST, LOWEST]
        self.cursors: list[tuple[int, int] | None] = [None, None]
        self.browses_logically = [False, False]
        for piece, life_ms in first:
            self.put_one(0, piece, 0, life_ms)

    @rule(
        user=users,
        pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12, unique=True),
        priority=st.sampled_from((0, 5)),
        mortal=st.sampled_from(PIECES),
        life_ms=st.sampled_from((100, 250)),
    )
    def put(
        self, user: int, pieces: list[Piece], priority: int, mortal: Piece, life_ms: int
    ) -> None:
        there = {m.piece for m in self.model.messages}
        for piece in pieces:
            if piece not in there:
                self.put_one(user, piece, priority, life_ms if piece == mortal else None)

    def put_one(self, user: int, piece: Piece, priority: int, life_ms: int | None) -> None:
        descriptor = Descriptor(
            version=2,
            priority=priority,
            msg_seq_number=piece.number,
            offset=piece.offset,
            msg_flags=piece.flags,
            group_id=self.ids.get(piece.group, b""),
        )
        options = c.MQPMO_SYNCPOINT if user else c.MQPMO_NO_SYNCPOINT
        request = PutRequest(descriptor, life_ms=life_ms)
        assert self.handles[user].put(piece.body, request, options).warning == 0
        expire_at_ms = None if life_ms is None else self.model.now_ms + life_ms
        self.order += 1
        held = Held(piece, (-priority, self.order), expire_at_ms)
        held.putter = user or None
        self.model.messages.append(held)

    @rule(
        user=users,
        mode=modes | st.just(0),
        group=groups,
        spot=st.tuples(st.sampled_from((None, None, 1, 2, 3)), st.sampled_from((None, 0, 2))),
    )
    def get(self, user: int, mode: int, group: str, spot: Spot) -> None:
        if not (mode or group):
            # A plain get is remembered only by a handle that has asked for groups before.
            return
        self.model.viewer = user
        at = self.stands[user] if mode & LOGICAL else None
        group = "" if at is not None else group
        self.model.spot = spot = spot if group and not mode & LOGICAL else (None, None)
        expected = self.model.find(user or None, mode, at, group, LOWEST)
        self.model.spot = None, None
        options = mode | (c.MQGMO_SYNCPOINT if user else c.MQGMO_NO_SYNCPOINT)
        body, warning = see(self.handles[user], options, self.ids.get(group), spot)
        assert body == joined(expected)
        if not expected:
            assert warning == rc.MQRC_NO_MSG_AVAILABLE
            return
        assert warning == (0 if mode & LOGICAL else left_behind(self.stands[user]))
        self.remove(user, expected)
        self.stands[user] = after(expected, is_logical=bool(mode & LOGICAL))

    @rule(user=users, mode=st.sampled_from((0, COMPLETE)))
    def get_under_cursor(self, user: int, mode: int) -> None:
        if self.cursors[user] is None:
            # The handle has not asked for groups yet, and remembers nothing of what it gets.
            return
        self.model.viewer = user
        reason, expected = self.model.under(user or None, self.cursors[user], mode)
        options = mode | c.MQGMO_MSG_UNDER_CURSOR
        options |= c.MQGMO_SYNCPOINT if user else c.MQGMO_NO_SYNCPOINT
        body, warning = see(self.handles[user], options, None)
        assert body == joined(expected)
        assert warning == (left_behind(self.stands[user]) if expected else reason)
        if expected:
            self.remove(user, expected)
            self.stands[user] = after(expected, is_logical=False)

    @rule(user=users, mode=modes, first=st.booleans(), group=groups, lock=st.booleans())
    def browse(self, user: int, mode: int, first: bool, group: str, lock: bool) -> None:
        options = mode | (c.MQGMO_BROWSE_FIRST if first else c.MQGMO_BROWSE_NEXT)
        lock = lock and not mode & COMPLETE
        options |= c.MQGMO_LOCK if lock else 0
        first = first or self.cursors[user] is None
        is_logical = bool(mode & LOGICAL)
        is_other_way = not first and is_logical != self.browses_logically[user]
        at = None if first or not is_logical else self.browse_stands[user]
        group = "" if at is not None else group
        body, warning = see(self.handles[user], options, self.ids.get(group))
        if is_other_way:
            assert warning == rc.MQRC_INCONSISTENT_BROWSE
            return
        self.model.viewer = user
        for message in self.model.messages:
            message.locker = None if message.locker == user else message.locker
        low = self.browse_places[user] if is_logical else self.cursors[user]
        start = LOWEST if first or low is None else (low[0], low[1] + 1)
        expected = self.model.find(None, mode, at, group, start)
        assert body == joined(expected)
        if not expected:
            return
        expected[0].locker = user if lock else None
        self.cursors[user] = expected[0].place
        self.browses_logically[user] = is_logical
        if is_logical:
            if at is None:
                self.browse_places[user] = expected[0].place
            self.browse_stands[user] = after(expected, is_logical=True)

    @rule()
    def get_plainly(self) -> None:
        self.model.viewer = None
        while True:
            head = next(iter(self.model.visible(None)), None)
            if head is None or not self.model.is_dead(head):
                break
            self.model.messages.remove(head)
        body, _warning = see(self.plain, c.MQGMO_NONE, None)
        assert body == (None if head is None else head.piece.body)
        if head is not None:
            self.model.messages.remove(head)

    @rule()
    def commit(self) -> None:
        self.sessions[1].commit()
        # A put that has expired before its commit never reaches the queue (E17).
        late = [m for m in self.model.messages if m.putter is not None and self.model.is_dead(m)]
        self.model.messages = [m for m in self.model.messages if m.taker is None and m not in late]
        for message in self.model.messages:
            message.putter = None
        self.before_unit = self.stands[1]

    @rule()
    def backout(self) -> None:
        self.sessions[1].backout()
        self.model.messages = [m for m in self.model.messages if m.putter is None]
        for message in self.model.messages:
            message.taker = None
        self.stands[1] = self.before_unit

    @precondition(lambda self: any(m.expire_at_ms for m in self.model.messages))
    @rule(ms=st.sampled_from((99, 1, 150)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.model.now_ms += ms

    @invariant()
    def same_messages(self) -> None:
        if not hasattr(self, "manager"):
            return
        self.model.viewer = None
        queue = self.manager.engine.registry.queue("Q1")
        with self.manager.engine.engine_lock:
            rows = [
                row.body
                for row, _persistence in in_order(self.manager.engine, queue, ANY, queue.low)
            ]
        assert rows == [m.piece.body for m in self.model.visible(None)]
        assert queue.depth == sum(1 for m in self.model.messages if m.taker is None)

    def remove(self, user: int, got: list[Held]) -> None:
        for message in got:
            message.locker = None
            if user and message.putter is None:
                message.taker = user
            else:
                self.model.messages.remove(message)

    def teardown(self) -> None:
        for session in self.sessions:
            session.close(commit=False)
        found = self.manager.verify()
        self.manager.close()
        assert found.ok, found.problems


def joined(parts: list[Held]) -> bytes | None:
    return b"".join(m.piece.body for m in parts) if parts else None


def left_behind(at: At | None) -> int:
    if at is None or not at.is_logical:
        return rc.MQRC_NONE
    return rc.MQRC_INCOMPLETE_MSG if at.in_message else rc.MQRC_INCOMPLETE_GROUP


def see(
    handle: Handle, options: int, group_id: bytes | None, spot: Spot = (None, None)
) -> tuple[bytes | None, int]:
    """Return the body and the warning, or None and the reason code."""
    match = Match(group_id=group_id, msg_seq_number=spot[0], offset=spot[1]) if group_id else ANY
    try:
        result = handle.get(GetRequest(match), options)
    except MQError as error:
        return None, error.reason
    return result.message.body, result.warning


@pytest.mark.slow
def test_groups_are_put_got_and_browsed_as_the_model_says() -> None:
    limits = settings(
        max_examples=examples(200),
        stateful_step_count=40,
        # Small state machines are slow to draw from; that says nothing about the queue manager.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(GroupsMachine, settings=limits)

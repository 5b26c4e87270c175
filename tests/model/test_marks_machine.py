"""Browsers that mark, getters and time do what a slow, obvious model of one queue says (B7)."""

from __future__ import annotations

from dataclasses import dataclass, field

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
from mayfly.engine import GetRequest, Handle, Match, Session
from mayfly.engine.api.programs import ANY
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import token_of
from tests.examples import examples

FIRST, NEXT, UNDER = c.MQGMO_BROWSE_FIRST, c.MQGMO_BROWSE_NEXT, c.MQGMO_BROWSE_MSG_UNDER_CURSOR
UNMARKED, GET_UNDER = c.MQGMO_UNMARKED_BROWSE_MSG, c.MQGMO_MSG_UNDER_CURSOR
MARK, UNMARK = c.MQGMO_MARK_BROWSE_HANDLE, c.MQGMO_UNMARK_BROWSE_HANDLE
MARK_SET, UNMARK_SET = c.MQGMO_MARK_BROWSE_CO_OP, c.MQGMO_UNMARK_BROWSE_CO_OP
SYNCPOINT = c.MQGMO_SYNCPOINT
CORREL_IDS = (b"A".ljust(24, b"\0"), b"B".ljust(24, b"\0"))
#: Which handles co-operate; the first half is one session's, the second another's.
CO_OPERATES = (True, False, True, True, False)
SESSION_OF = (0, 0, 0, 1, 1)
UNLIMITED = -1
#: Whose a mark of a set is when the handle that made it is closed: nobody's that is open.
CLOSED = -1

handles = st.sampled_from(range(len(CO_OPERATES)))
of_handle = st.sampled_from((0, 0, MARK, UNMARK))
of_set = st.sampled_from((0, MARK_SET, UNMARK_SET))
#: A get that looks at groups finds the same here, where there are none.
ways = st.sampled_from((0, 0, SYNCPOINT, c.MQGMO_COMPLETE_MSG, SYNCPOINT | c.MQGMO_COMPLETE_MSG))


@dataclass(eq=False)
class Held:
    """A message: its place, its end, who has got it and not committed, and who has marked it."""

    body: bytes
    place: tuple[int, int]
    correl_id: bytes
    end_ms: int | None
    getter: int | None = None
    handles: set[int] = field(default_factory=set)
    marker: int | None = None
    until_ms: int | None = None


class MarksModel:
    """One queue as a list in get order; each call returns a reason code and what was seen."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.held: list[Held] = []
        self.interval_ms = 5_000
        self.cursors: dict[int, tuple[int, int]] = {}
        self.open = set(range(len(CO_OPERATES)))

    def is_dead(self, m: Held) -> bool:
        return m.end_ms is not None and self.now_ms >= m.end_ms

    def has_marker(self, m: Held) -> bool:
        return m.marker is not None and (m.until_ms is None or self.now_ms < m.until_ms)

    def hides(self, m: Held, handle: int) -> bool:
        return handle in m.handles or (CO_OPERATES[handle] and self.has_marker(m))

    def browse(self, handle: int, options: int, correl_id: bytes) -> tuple[int, bytes]:
        after = (-99, 0) if options & FIRST else self.cursors.get(handle, (-99, 0))

        def is_ahead(m: Held) -> bool:
            return m.place > after and correl_id in (b"", m.correl_id)

        found = None
        for m in sorted(self.held, key=lambda m: m.place):
            if m.getter is not None or not is_ahead(m):
                continue
            if self.is_dead(m):
                self.held.remove(m)
            elif not (options & UNMARKED and self.hides(m, handle)):
                found = m
                break
        if found is None:
            return rc.MQRC_NO_MSG_AVAILABLE, b""
        self.cursors[handle] = found.place
        self.mark(found, handle, options)
        return 0, found.body

    def mark(self, m: Held, handle: int, options: int) -> None:
        if options & MARK:
            m.handles.add(handle)
        if options & UNMARK:
            m.handles.discard(handle)
        if options & MARK_SET:
            m.marker = handle
            limited = self.interval_ms != UNLIMITED
            m.until_ms = self.now_ms + self.interval_ms if limited else None
        if options & UNMARK_SET:
            m.marker = None

    def under(self, handle: int) -> Held | None:
        place = self.cursors.get(handle)
        for m in self.held:
            if m.place == place and m.getter is None:
                if self.is_dead(m):
                    self.held.remove(m)
                    return None
                return m
        return None

    def reread(self, handle: int, options: int) -> tuple[int, bytes]:
        m = self.under(handle)
        if m is None:
            return rc.MQRC_NO_MSG_UNDER_CURSOR, b""
        if options & UNMARKED and self.hides(m, handle):
            return rc.MQRC_MSG_MARKED_BROWSE_CO_OP, b""
        self.mark(m, handle, options)
        return 0, m.body

    def get_under(self, handle: int, *, in_unit: bool) -> tuple[int, bytes]:
        m = self.under(handle)
        if m is None:
            return rc.MQRC_NO_MSG_UNDER_CURSOR, b""
        if CO_OPERATES[handle] and self.has_marker(m) and m.marker != handle:
            return rc.MQRC_MSG_MARKED_BROWSE_CO_OP, b""
        return self.take(m, handle, in_unit=in_unit)

    def get(self, handle: int, correl_id: bytes, *, in_unit: bool) -> tuple[int, bytes]:
        for m in sorted(self.held, key=lambda m: m.place):
            if m.getter is not None or correl_id not in (b"", m.correl_id):
                continue
            if not self.is_dead(m):
                return self.take(m, handle, in_unit=in_unit)
            self.held.remove(m)
        return rc.MQRC_NO_MSG_AVAILABLE, b""

    def get_by_token(self, m: Held, handle: int, *, in_unit: bool) -> tuple[int, bytes]:
        if m not in self.held or m.getter is not None:
            return rc.MQRC_NO_MSG_AVAILABLE, b""
        if CO_OPERATES[handle] and self.has_marker(m) and m.marker != handle:
            return rc.MQRC_MSG_MARKED_BROWSE_CO_OP, b""
        if self.is_dead(m):
            self.held.remove(m)
            return rc.MQRC_NO_MSG_AVAILABLE, b""
        return self.take(m, handle, in_unit=in_unit)

    def take(self, m: Held, handle: int, *, in_unit: bool) -> tuple[int, bytes]:
        m.handles, m.marker = set(), None
        if in_unit:
            m.getter = SESSION_OF[handle]
        else:
            self.held.remove(m)
        return 0, m.body

    def end_unit(self, session: int, *, commit: bool) -> None:
        for m in [m for m in self.held if m.getter == session]:
            m.getter = None
            if commit:
                self.held.remove(m)

    def close(self, handle: int) -> None:
        self.open.discard(handle)
        self.cursors.pop(handle, None)
        is_last = not any(CO_OPERATES[h] for h in self.open)
        for m in self.held:
            m.handles.discard(handle)
            if m.marker == handle:
                m.marker = CLOSED
            if is_last:
                m.marker = None


class MarksMachine(RuleBasedStateMachine):
    """Five handles of two sessions on one queue; after each step both sides must agree."""

    @initialize()
    def begin(self) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", None, self.clock)
        self.model = MarksModel(self.clock.now_ms())
        administration.define(self.manager.engine, "QLOCAL", "Q1", {})
        self.sessions: list[Session] = [self.manager.session() for _ in range(2)]
        self.handles: list[Handle] = []
        for number in range(len(CO_OPERATES)):
            self.handles.append(self.opened(number))
        self.tokens: dict[bytes, tuple[bytes, Held]] = {}
        for _ in range(3):
            self.put(1, None, CORREL_IDS[0], persistent=False)

    def opened(self, number: int) -> Handle:
        options = c.MQOO_INPUT_SHARED | c.MQOO_BROWSE
        options |= c.MQOO_CO_OP if CO_OPERATES[number] else 0
        return self.sessions[SESSION_OF[number]].open("Q1", options)

    @rule(
        priority=st.integers(0, 2),
        life_ms=st.none() | st.sampled_from((1, 100, 4_999, 5_000, 5_001)),
        correl_id=st.sampled_from(CORREL_IDS),
        persistent=st.booleans(),
    )
    def put(self, priority: int, life_ms: int | None, correl_id: bytes, persistent: bool) -> None:
        number = len(self.tokens) + 1
        body = b"%d" % number
        with self.manager.session() as putter:
            msg_id = putter.put(
                "Q1",
                body,
                priority=priority,
                time_to_live_ms=life_ms,
                correl_id=correl_id,
                persistent=persistent,
            )
            (message,) = list(putter.browse("Q1", msg_id=msg_id))
        end_ms = None if life_ms is None else self.model.now_ms + life_ms
        held = Held(body, (-priority, number), correl_id, end_ms)
        self.model.held.append(held)
        self.tokens[body] = token_of(message), held

    @rule(
        handle=handles,
        first=st.booleans(),
        unmarked=st.booleans(),
        own=of_handle,
        common=of_set,
        correl_id=st.sampled_from((b"", b"", *CORREL_IDS)),
    )
    def browse(
        self, handle: int, first: bool, unmarked: bool, own: int, common: int, correl_id: bytes
    ) -> None:
        options = self.options(handle, unmarked, own, common) | (FIRST if first else NEXT)
        match = Match(correl_id=correl_id) if correl_id else ANY
        expected = self.model.browse(handle, options, correl_id)
        self.compare(handle, options, match, expected)

    @rule(handle=handles, unmarked=st.booleans(), own=of_handle, common=of_set)
    def browse_under_cursor(self, handle: int, unmarked: bool, own: int, common: int) -> None:
        options = self.options(handle, unmarked, own, common) | UNDER
        self.compare(handle, options, ANY, self.model.reread(handle, options))

    @rule(handle=handles)
    def dispatch(self, handle: int) -> None:
        """What such programs do most of the time."""
        co_operates = CO_OPERATES[handle]
        options = c.MQGMO_BROWSE_CO_OP if co_operates else c.MQGMO_BROWSE_HANDLE
        self.compare(handle, options, ANY, self.model.browse(handle, options, b""))

    @rule(handle=handles, way=ways)
    def get_under_cursor(self, handle: int, way: int) -> None:
        expected = self.model.get_under(handle, in_unit=bool(way & SYNCPOINT))
        self.compare(handle, GET_UNDER | way, ANY, expected)

    @rule(handle=handles, way=ways, correl_id=st.sampled_from((b"", *CORREL_IDS)))
    def get(self, handle: int, way: int, correl_id: bytes) -> None:
        match = Match(correl_id=correl_id) if correl_id else ANY
        expected = self.model.get(handle, correl_id, in_unit=bool(way & SYNCPOINT))
        self.compare(handle, way, match, expected)

    @rule(handle=handles, number=st.integers(1, 12), way=ways)
    def get_by_token(self, handle: int, number: int, way: int) -> None:
        token, held = self.tokens[b"%d" % (number % len(self.tokens) + 1)]
        expected = self.model.get_by_token(held, handle, in_unit=bool(way & SYNCPOINT))
        self.compare(handle, way, Match(token=token), expected)

    @rule(session=st.sampled_from((0, 1)), commit=st.booleans())
    def end_unit(self, session: int, commit: bool) -> None:
        self.model.end_unit(session, commit=commit)
        if commit:
            self.sessions[session].commit()
        else:
            self.sessions[session].backout()

    @rule(handle=handles)
    def close_and_open_again(self, handle: int) -> None:
        self.model.close(handle)
        self.handles[handle].close()
        self.handles[handle] = self.opened(handle)
        self.model.open.add(handle)

    @rule()
    def close_all_and_open_again(self) -> None:
        for handle in range(len(CO_OPERATES)):
            self.model.close(handle)
            self.handles[handle].close()
        assert not self.manager.engine.marks.marked
        self.handles = [self.opened(handle) for handle in range(len(CO_OPERATES))]
        self.model.open.update(range(len(CO_OPERATES)))

    @rule(interval_ms=st.sampled_from((0, 1, 100, 5_000, UNLIMITED)))
    def alter_interval(self, interval_ms: int) -> None:
        administration.alter(self.manager.engine, "QMGR", "", {"MARKINT": interval_ms})
        self.model.interval_ms = interval_ms

    @rule(ms=st.sampled_from((1, 99, 100, 4_999, 5_000, 5_001)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.model.now_ms += ms

    @invariant()
    def same_depth(self) -> None:
        held = [m for m in self.model.held if m.getter is None]
        assert self.manager.curdepth("Q1") == len(held)

    @invariant()
    def same_marks(self) -> None:
        """What has lapsed may still be noted; it counts no longer."""
        now_ms = self.clock.now_ms()
        found = {}
        for key, marked in self.manager.engine.marks.marked.items():
            lasts = marked.until_ms is None or now_ms < marked.until_ms
            found[self.body_of(key)] = len(marked.handles), marked.marker is not None and lasts
        model = self.model
        expected = {m.body: (len(m.handles), model.has_marker(m)) for m in model.held}
        assert {body: marks for body, marks in found.items() if any(marks)} == {
            body: marks for body, marks in expected.items() if any(marks)
        }

    def body_of(self, key: int) -> bytes:
        rows = [self.manager.engine.messages(side).row(key) for side in (0, 1)]
        return next(row.body for row in rows if row is not None)

    def options(self, handle: int, unmarked: bool, own: int, common: int) -> int:
        """Return what is allowed of marks: UNMARKED with nothing that unmarks."""
        common = common if CO_OPERATES[handle] else 0
        unmarks = own == UNMARK or common == UNMARK_SET
        return own | common | (UNMARKED if unmarked and not unmarks else 0)

    def compare(self, handle: int, options: int, match: Match, expected: tuple[int, bytes]) -> None:
        try:
            found = 0, self.handles[handle].get(GetRequest(match), options).message.body
        except MQError as error:
            found = error.reason, b""
        assert found == expected

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            for session in self.sessions:
                session.close(commit=False)
            verified = self.manager.verify()
            self.manager.close()
            assert verified.ok, verified.problems


@pytest.mark.slow
def test_B7_marks_do_what_the_model_says() -> None:
    run_state_machine_as_test(
        MarksMachine,
        settings=settings(max_examples=examples(300), stateful_step_count=40),
    )

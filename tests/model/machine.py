"""The real queue manager and the model of ``tests.model.queues``, driven side by side."""

from collections import Counter
from functools import partial
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle, Match, Session
from mayfly.engine.api.programs import ANY
from mayfly.engine.finding.search import in_order
from mayfly.engine.objects import administration
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.model.material import (
    ALIAS,
    CORREL_IDS,
    QUEUES,
    REPLY,
    SESSIONS,
    delays,
    label_id,
    labels,
    lives,
    mostly,
    puts,
    queues,
    reason_of,
    see_next,
    sessions,
    shown,
    steps,
)
from tests.model.queues import STAGING, Cursor, Held, Model, Put, Queue

MAX_DEPTH = 6
OUTCOME = LEDGER_COLUMNS.index("outcome")
WHATEVER = GetRequest()


class QueueMachine(RuleBasedStateMachine):
    """Several sessions work on two small queues; after each step both sides must agree."""

    folder: Path | None = None

    @initialize(
        scan_seconds=st.sampled_from((0, 0, 5)),
        first=st.lists(st.tuples(queues, puts(lives | st.none())), min_size=2, max_size=6),
    )
    def begin(self, scan_seconds: int, first: list[tuple[str, Put]]) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", self.folder, self.clock)
        self.model = Model(self.clock.now_ms(), scan_seconds * 1_000 or None)
        self.sessions: dict[int, Session] = {}
        self.handles: dict[tuple[int, str], tuple[Handle, Cursor]] = {}
        self.label = 0
        for name, sequence in QUEUES.items():
            attributes: dict[str, int | str] = {"MSGDLVSQ": sequence, "MAXDEPTH": MAX_DEPTH}
            administration.define(self.manager.engine, "QLOCAL", name, attributes)
            self.model.queues[name] = Queue(name, sequence == c.MQMDS_FIFO, MAX_DEPTH)
        administration.define(self.manager.engine, "QLOCAL", REPLY, {})
        self.model.queues[REPLY] = Queue(REPLY)
        administration.define(self.manager.engine, "QALIAS", ALIAS, {"TARGET": "FIFO"})
        self.model.aliases[ALIAS] = "FIFO"
        if scan_seconds:
            administration.alter(self.manager.engine, "QMGR", "", {"EXPRYINT": scan_seconds})
        for name, put in first:
            self.compare_put(0, name, put)

    def session(self, number: int) -> Session:
        if number not in self.sessions:
            self.sessions[number] = self.manager.session(f"user{number}", transacted=number > 0)
        return self.sessions[number]

    def owner(self, number: int) -> int | None:
        return number or None

    def handle(self, number: int, name: str) -> tuple[Handle, Cursor]:
        if (number, name) not in self.handles:
            options = c.MQOO_BROWSE | c.MQOO_INPUT_SHARED
            handle = self.session(number).open(name, options)
            self.handles[number, name] = handle, Cursor(self.model.queues[name])
        return self.handles[number, name]

    # Calls of programs

    @rule(number=sessions, name=queues, put=puts())
    def put(self, number: int, name: str, put: Put) -> None:
        self.compare_put(number, name, put)

    @rule(number=sessions, name=queues, put=puts(life_ms=lives))
    def put_with_expiry(self, number: int, name: str, put: Put) -> None:
        self.compare_put(number, name, put)

    @rule(number=sessions, name=queues, put=puts(life_ms=lives | st.none(), delay_ms=delays))
    def put_with_delay(self, number: int, name: str, put: Put) -> None:
        self.compare_put(number, name, put)

    @rule(number=sessions, name=queues)
    def get(self, number: int, name: str) -> None:
        self.compare_get(number, name, b"", b"")

    @rule(number=sessions, name=queues, label=labels)
    def get_by_msg_id(self, number: int, name: str, label: int) -> None:
        self.compare_get(number, name, label_id(label % self.label + 1), b"")

    @rule(number=sessions, name=queues, correl_id=st.sampled_from(CORREL_IDS[1:]))
    def get_by_correl_id(self, number: int, name: str, correl_id: bytes) -> None:
        self.compare_get(number, name, b"", correl_id)

    @rule(number=sessions, nth=labels)
    def cancel(self, number: int, nth: int) -> None:
        staged = self.model.queues[STAGING].messages
        msg_id = staged[nth % len(staged)].msg_id if staged else label_id(1)
        self.compare_get(number, STAGING, b"", msg_id)

    @rule(name=queues)
    def browse_all(self, name: str) -> None:
        cursor = Cursor(self.model.queues[name])
        messages = self.session(0).browse(name)
        while True:
            seen: list[Message] = []
            reason = reason_of(partial(see_next, messages, seen))
            expected, held = self.model.browse(cursor, first=False, lock=False)
            assert (reason or (rc.MQRC_NONE if seen else rc.MQRC_NO_MSG_AVAILABLE)) == expected
            if held is None:
                return
            self.compare(seen[0], held)

    @rule(number=sessions, name=queues, first=st.booleans(), lock=st.booleans())
    def browse(self, number: int, name: str, first: bool, lock: bool) -> None:
        handle, cursor = self.handle(number, name)
        options = c.MQGMO_BROWSE_FIRST if first else c.MQGMO_BROWSE_NEXT
        options |= c.MQGMO_LOCK if lock else 0
        self.compare_call(handle, options, self.model.browse(cursor, first=first, lock=lock))

    @rule(number=sessions, name=queues, lock=st.booleans())
    def browse_under_cursor(self, number: int, name: str, lock: bool) -> None:
        handle, cursor = self.handle(number, name)
        options = c.MQGMO_BROWSE_MSG_UNDER_CURSOR | (c.MQGMO_LOCK if lock else 0)
        self.compare_call(handle, options, self.model.browse_under_cursor(cursor, lock=lock))

    @rule(number=sessions, name=queues)
    def get_under_cursor(self, number: int, name: str) -> None:
        handle, cursor = self.handle(number, name)
        options = c.MQGMO_MSG_UNDER_CURSOR | (c.MQGMO_SYNCPOINT if number else 0)
        self.compare_call(handle, options, self.model.get_under_cursor(self.owner(number), cursor))

    @rule(number=sessions, name=queues, label=labels, is_any=st.booleans())
    def get_by_handle(self, number: int, name: str, label: int, is_any: bool) -> None:
        """The handle may get what it has locked itself."""
        handle, cursor = self.handle(number, name)
        msg_id = b"" if is_any else label_id(label % self.label + 1)
        request = GetRequest(ANY if is_any else Match(msg_id=msg_id))
        expected = self.model.get(self.owner(number), name, msg_id, cursor=cursor)
        self.compare_call(handle, c.MQGMO_SYNCPOINT if number else 0, expected, request)

    @rule(number=sessions, name=queues)
    def unlock(self, number: int, name: str) -> None:
        handle, cursor = self.handle(number, name)
        assert handle.unlock() == self.model.unlock(cursor)

    @rule(number=sessions, name=queues)
    def close_handle(self, number: int, name: str) -> None:
        handle, cursor = self.handle(number, name)
        handle.close()
        self.model.unlock(cursor)
        del self.handles[number, name]

    @rule(number=st.sampled_from(SESSIONS[1:]))
    def commit(self, number: int) -> None:
        self.session(number).commit()
        self.model.commit(number)

    @rule(number=st.sampled_from(SESSIONS[1:]))
    def backout(self, number: int) -> None:
        self.session(number).backout()
        self.model.backout(number)

    @rule(number=sessions, commits=st.booleans())
    def disconnect(self, number: int, commits: bool) -> None:
        for key in [key for key in self.handles if key[0] == number]:
            _handle, cursor = self.handles.pop(key)
            self.model.unlock(cursor)
        self.session(number).close(commit=commits)
        del self.sessions[number]
        (self.model.commit if commits else self.model.backout)(self.owner(number))

    # Time and operators

    @rule(ms=steps)
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.model.advance(ms)

    @rule(nth=labels, offset_ms=st.sampled_from((-1, 0, 0, 1)))
    def a_moment_comes(self, nth: int, offset_ms: int) -> None:
        """Go to a delivery time or a deadline, or a millisecond before or after it."""
        ahead = sorted(
            moment
            for queue in self.model.queues.values()
            for m in queue.messages
            for moment in (m.due_ms, m.expire_at_ms)
            if moment is not None and moment > self.model.now_ms
        )
        if ahead:
            self.time_passes(ahead[nth % len(ahead)] + offset_ms - self.model.now_ms)

    @rule(name=st.sampled_from([*QUEUES, REPLY]), allowed=mostly)
    def alter_put(self, name: str, allowed: bool) -> None:
        administration.alter(self.manager.engine, "QLOCAL", name, {"PUT": int(not allowed)})
        self.model.queues[name].put_allowed = allowed

    @rule(name=queues, allowed=mostly)
    def alter_get(self, name: str, allowed: bool) -> None:
        administration.alter(self.manager.engine, "QLOCAL", name, {"GET": int(not allowed)})
        self.model.queues[name].get_allowed = allowed

    # Invariants

    @invariant()
    def same_queues(self) -> None:
        if not hasattr(self, "model"):
            return
        for queue in self.model.queues.values():
            assert self.manager.curdepth(queue.name) == queue.depth(), queue.name
            real, expected = self.visible(queue), shown(queue)
            assert real == expected, queue.name
            if queue.name != STAGING:
                assert self.manager.counts(queue.name) == self.counts(queue), queue.name

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        verification = self.manager.verify()
        assert verification.ok, verification.problems
        for number in list(self.sessions):
            self.disconnect(number=number, commits=False)
        self.same_queues()
        assert not self.manager.engine.hidden
        assert not self.manager.engine.committer.deferred
        self.manager.engine.store.write_balances()
        for queue in self.model.queues.values():
            assert self.ended_by_ledger(queue.name) == queue.ended, queue.name
        self.manager.close()

    def counts(self, queue: Queue) -> tuple[int, int, int, int, int]:
        staged = [
            m for m in self.model.queues[STAGING].messages
            if m.first_queue == queue.name and m.target and m.putter is None
        ]  # fmt: skip
        expired = [m for m in queue.visible() if m.expire_at_ms is not None
                   and m.expire_at_ms <= self.model.now_ms]  # fmt: skip
        uncommitted = [m for m in queue.messages if m.putter is not None and m.getter is None]
        locked = [m for m in queue.messages if m.getter is not None or m.locker is not None]
        live = len(queue.visible()) - len(expired)
        return len(staged), live, len(uncommitted), len(locked), len(expired)

    def visible(self, queue: Queue) -> list[tuple[object, ...]]:
        """Return what is visible on a real queue, without discarding anything."""
        manager = self.manager
        shown_rows: list[tuple[object, ...]] = []
        with manager.engine.engine_lock:
            local = manager.engine.registry.queue(queue.name)
            for row, side in in_order(manager.engine, local, ANY, local.low):
                descriptor = unpack_descriptor(row.descriptor)
                report = descriptor.feedback == c.MQFB_EXPIRATION
                shown_rows.append(
                    (
                        row.correl_id if report else row.msg_id,
                        descriptor.priority,
                        bool(side),
                        row.expire_at_ms,
                        row.backout_count,
                        row.put_ms,
                        descriptor.feedback,
                    )
                )
        # The order of reports that one scan sends is nobody's business.
        return sorted(shown_rows, key=repr) if queue.name == REPLY else shown_rows

    def ended_by_ledger(self, name: str) -> Counter[str]:
        rows = self.manager.ledger.page(0, 100_000)
        ended = Counter(row[OUTCOME] for row in rows if row[1] == KIND_LIFE and row[2] == name)
        totals = self.manager.engine.store.ledger_writer.totals[
            self.manager.engine.registry.queue(name).number
        ]
        assert ended == Counter(totals.ended)
        return ended

    def compare_put(self, number: int, name: str, put: Put) -> None:
        self.label += 1
        put.msg_id, put.sender = label_id(self.label), f"user{number}"
        reason = reason_of(
            lambda: self.session(number).put(
                name,
                put.msg_id,
                msg_id=put.msg_id,
                correl_id=put.correl_id or None,
                priority=put.priority,
                persistent=put.persistent,
                time_to_live_ms=put.life_ms,
                delay_ms=put.delay_ms,
                report=put.report,
                reply_to_q=put.reply_to_q,
            )
        )
        assert reason == self.model.put(self.owner(number), name, put)

    def compare_get(self, number: int, name: str, msg_id: bytes, correl_id: bytes) -> None:
        got: list[Message | None] = []
        reason = reason_of(
            lambda: got.append(
                self.session(number).get(name, msg_id=msg_id or None, correl_id=correl_id or None)
            )
        )
        expected, held = self.model.get(self.owner(number), name, msg_id, correl_id)
        if expected == rc.MQRC_NO_MSG_AVAILABLE:
            assert got == [None]
            return
        assert reason == expected
        if held is not None:
            self.compare(got[0], held)

    def compare_call(
        self,
        handle: Handle,
        options: int,
        expected: tuple[int, Held | None],
        request: GetRequest = WHATEVER,
    ) -> None:
        got: list[Message] = []
        reason = reason_of(lambda: got.append(handle.get(request, options).message))
        assert reason == expected[0]
        if expected[1] is not None:
            self.compare(got[0], expected[1])

    def compare(self, message: Message | None, held: Held) -> None:
        assert message is not None
        left_ms = None if held.expire_at_ms is None else held.expire_at_ms - self.model.now_ms
        assert left_ms is None or left_ms > 0
        if not held.target:
            assert message.body == message.msg_id == held.msg_id
            assert message.correl_id == (held.correl_id or bytes(24))
        assert (message.remaining_ms, message.priority, message.backout_count) == (
            left_ms,
            held.priority,
            held.backout_count,
        )

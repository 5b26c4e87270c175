"""The trace of each message equals what a plain model has written down, whatever happened to it.

Two queue managers on disk with channels both ways, in virtual time: puts with lives, delays and
reports, gets alone and in a unit of work, browses that meet what has expired, changes of the
schedule, publications, dead letters, messages and reports that go from one to the other, restarts.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from mayfly import QueueManager
from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.services.dead_letter import DeadLetterHandler, parse_rules
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.examples import examples
from tests.spec.scene import STAGING, START_MS
from tests.spec.test_traces import linked, run

USERS = ("anna", "bob")
HERE = ("Q1", "Q2", "S1", "S2", "DEAD", "REPLIES")
DELAYS_MS = (0, 0, 1, 1_000)
LIVES_MS = (None, 0, 1, 500, 2_000)
_numbers = itertools.count()
#: A life as the trace tells it: queue manager, queue, state, put, end, who put it, who got it.
Told = tuple[str, str, str, int, int | None, str, str]


@dataclass(eq=False)
class Life:
    """One message on one queue, as the model knows it; ``due_ms`` and ``target`` while delayed."""

    manager: str
    queue: str
    put_ms: int
    message: Message
    state: State = State.AVAILABLE
    ended_ms: int | None = None
    due_ms: int = 0
    target: str = ""
    #: The user that has got it; a dead letter may have been redriven, by nobody in particular.
    getter: str = ""
    #: Its place in get order.
    number: int = field(default_factory=lambda: next(_numbers))

    def end(self, state: State, now_ms: int) -> None:
        self.state, self.ended_ms = state, now_ms

    @property
    def told(self) -> Told:
        getter = self.getter if self.queue != "DEAD" else ""
        place = self.manager, self.queue, self.state.value
        return *place, self.put_ms, self.ended_ms, self.message.user, getter


@dataclass(eq=False)
class Message:
    """A message, by the lives of it and of the report about it."""

    user: str
    persistent: bool
    expire_at_ms: int | None
    wants_report: bool
    msg_id: bytes = b""
    lives: list[Life] = field(default_factory=list)
    report: Message | None = None

    def is_expired(self, now_ms: int) -> bool:
        return self.expire_at_ms is not None and self.expire_at_ms <= now_ms


class MessageTraces(RuleBasedStateMachine):
    """Does things to messages, and writes down what becomes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-trace-")
        self.clock = VirtualClock(START_MS)
        self.messages: list[Message] = []
        #: Lives that stand on a queue, in get order, by queue manager and queue.
        self.queues: dict[tuple[str, str], list[Life]] = {}
        self.staged: list[Life] = []
        self.unit_gets: list[Life] = []
        self.unit_puts: list[Life] = []
        self.is_q2_inhibited = False
        self.managers: dict[str, QueueManager] = {}
        self.open()
        one, two = self.one, self.two
        linked(one, two)
        linked(two, one)
        run(one, "".join(f"DEFINE QLOCAL({name})\n" for name in HERE) + "ALTER QMGR DEADQ(DEAD)")
        run(one, "DEFINE QREMOTE(OUT) RNAME(IN) RQMNAME(QM2)")
        for name in ("S1", "S2"):
            run(one, f"DEFINE SUB({name}) TOPICSTR('news') DEST({name})")
        run(two, "DEFINE QLOCAL(IN)")

    @property
    def one(self) -> QueueManager:
        return self.managers["QM1"]

    @property
    def two(self) -> QueueManager:
        return self.managers["QM2"]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def open(self) -> None:
        for name in ("QM2", "QM1"):
            place = Path(self.folder.name) / name
            self.managers[name] = QueueManager(name, place, self.clock)
        self.sessions = {user: self.one.session(user) for user in USERS}
        self.unit = self.one.session("anna", transacted=True)
        self.other = self.two.session("anna")

    def close(self) -> None:
        for session in (*self.sessions.values(), self.unit, self.other):
            session.close()
        for manager in self.managers.values():
            manager.close()

    def settle(self) -> None:
        """Let channels carry what waits for them."""
        self.clock.advance(0)
        assert (self.one.curdepth("QM2"), self.two.curdepth("QM1")) == (0, 0)

    # The model

    def stand(self, life: Life) -> None:
        life.message.lives.append(life)
        self.queues.setdefault((life.manager, life.queue), []).append(life)

    def leave(self, life: Life, state: State) -> None:
        self.queues[life.manager, life.queue].remove(life)
        life.end(state, self.now_ms)

    def arrive(self, message: Message, target: str, put_ms: int) -> None:
        """A message that is due comes to its queue, which may be at the other queue manager."""
        if target == "OUT":
            sent = Life("QM1", "QM2", put_ms, message)
            sent.end(State.TRANSMITTED, self.now_ms)
            message.lives.append(sent)
            self.stand(Life("QM2", "IN", self.now_ms, message))
        else:
            self.stand(Life("QM1", target, put_ms, message))

    def release(self, life: Life) -> None:
        self.staged.remove(life)
        if life.message.is_expired(self.now_ms):
            life.end(State.EXPIRED, self.now_ms)
            self.report(life)
        elif life.target == "Q2" and self.is_q2_inhibited:
            life.end(State.DEAD_LETTERED, self.now_ms)
            self.stand(Life("QM1", "DEAD", life.put_ms, life.message))
        else:
            life.end(State.RELEASED, self.now_ms)
            self.arrive(life.message, life.target, life.put_ms)

    def discard(self, life: Life) -> None:
        self.leave(life, State.EXPIRED)
        self.report(life)

    def report(self, life: Life) -> None:
        """The report that is owed goes to REPLIES, from the other queue manager by its channel."""
        about = life.message
        if not about.wants_report:
            return
        about.report = Message("", about.persistent, None, wants_report=False)
        if life.manager == "QM2":
            sent = Life("QM2", "QM1", self.now_ms, about.report)
            sent.end(State.TRANSMITTED, self.now_ms)
            about.report.lives.append(sent)
        self.stand(Life("QM1", "REPLIES", self.now_ms, about.report))

    def next_alive(self, manager: str, queue: str, own: Sequence[Life] = ()) -> Life | None:
        """Return the message that a get finds; what has expired before it is discarded.

        ``own`` are the puts of the unit of work that gets, which may have them (P9).
        """
        lives: list[Life] = [*self.queues.get((manager, queue), ()), *own]
        for life in sorted(lives, key=lambda life: life.number):
            if life.state not in (State.AVAILABLE, State.UNCOMMITTED):
                continue
            if not life.message.is_expired(self.now_ms):
                return life
            if life.state == State.AVAILABLE:
                self.discard(life)
        return None

    def release_due(self, until_ms: int) -> None:
        """Let time pass, and release what is due at each moment on the way."""
        while due := [life for life in self.staged if life.due_ms <= until_ms]:
            at_ms = max(min(life.due_ms for life in due), self.now_ms)
            self.clock.advance(at_ms - self.now_ms)
            for life in [life for life in due if life.due_ms <= at_ms]:
                self.release(life)
        self.clock.advance(until_ms - self.now_ms)

    # What is done

    @rule(
        user=st.sampled_from(USERS),
        queue=st.sampled_from(("Q1", "Q2", "OUT")),
        delay_ms=st.sampled_from(DELAYS_MS),
        life_ms=st.sampled_from(LIVES_MS),
        persistent=st.booleans(),
        wants_report=st.booleans(),
        in_unit=st.booleans(),
    )
    def put(
        self,
        *,
        user: str,
        queue: str,
        delay_ms: int,
        life_ms: int | None,
        persistent: bool,
        wants_report: bool,
        in_unit: bool,
    ) -> None:
        if queue == "Q2" and self.is_q2_inhibited:
            return
        in_unit = in_unit and not delay_ms and queue != "OUT"
        session = self.unit if in_unit else self.sessions[user]
        time_to_live_ms = None if life_ms is None else delay_ms + life_ms or 1
        expire_at_ms = None if time_to_live_ms is None else self.now_ms + time_to_live_ms
        message = Message("anna" if in_unit else user, persistent, expire_at_ms, wants_report)
        message.msg_id = session.put(
            queue,
            b"x",
            delay_ms=delay_ms,
            time_to_live_ms=time_to_live_ms,
            persistent=persistent,
            report=c.MQRO_EXPIRATION if wants_report else 0,
            reply_to_q="REPLIES",
        )
        self.messages.append(message)
        if in_unit:
            self.unit_puts.append(Life("QM1", queue, self.now_ms, message, State.UNCOMMITTED))
            message.lives.append(self.unit_puts[-1])
        elif delay_ms:
            life = Life("QM1", STAGING, self.now_ms, message, State.DELAYED)
            life.due_ms, life.target = self.now_ms + delay_ms, queue
            message.lives.append(life)
            self.staged.append(life)
        else:
            self.arrive(message, queue, self.now_ms)
        self.settle()

    @rule(user=st.sampled_from(USERS), persistent=st.booleans())
    def publish(self, user: str, persistent: bool) -> None:
        published = self.sessions[user].publish("news", b"x", persistent=persistent)
        message = Message(user, persistent, None, wants_report=False, msg_id=published.msg_id)
        self.messages.append(message)
        for name in ("S1", "S2"):
            self.stand(Life("QM1", name, self.now_ms, message))

    @rule(place=st.sampled_from((*HERE, "IN")))
    def get(self, place: str) -> None:
        manager, session = ("QM2", self.other) if place == "IN" else ("QM1", self.sessions["bob"])
        found = session.get(place)
        life = self.next_alive(manager, place)
        assert (found is None) == (life is None)
        if life is not None:
            self.leave(life, State.GOT)
            life.getter = "anna" if manager == "QM2" else "bob"
        self.settle()

    @rule(place=st.sampled_from(("Q1", "Q2", "S1", "REPLIES")))
    def get_in_unit(self, place: str) -> None:
        found = self.unit.get(place)
        own = [put for put in self.unit_puts if put.queue == place]
        life = self.next_alive("QM1", place, own)
        assert (found is None) == (life is None)
        if life is not None:
            life.state = State.LOCKED
            if life not in self.unit_puts:
                self.unit_gets.append(life)
        self.settle()

    @rule()
    def commit(self) -> None:
        self.unit.commit()
        for life in self.unit_puts:
            if life.state == State.LOCKED:
                life.end(State.GOT, self.now_ms)
                life.getter = "anna"
            elif life.message.is_expired(self.now_ms):
                # E17.
                life.end(State.EXPIRED, self.now_ms)
                self.report(life)
            else:
                life.state = State.AVAILABLE
                self.queues.setdefault(("QM1", life.queue), []).append(life)
        for life in self.unit_gets:
            self.leave(life, State.GOT)
            life.getter = "anna"
        self.unit_puts, self.unit_gets = [], []
        self.settle()

    @rule()
    def backout(self) -> None:
        self.unit.backout()
        for life in self.unit_puts:
            # It was never part of a queue.
            self.messages.remove(life.message)
        for life in self.unit_gets:
            life.state = State.AVAILABLE
        self.unit_puts, self.unit_gets = [], []

    @rule(place=st.sampled_from((*HERE, "IN")))
    def browse(self, place: str) -> None:
        """A browse discards what has expired, all along the queue."""
        manager, session = ("QM2", self.other) if place == "IN" else ("QM1", self.sessions["bob"])
        list(session.browse(place))
        for life in list(self.queues.get((manager, place), ())):
            if life.state == State.AVAILABLE and life.message.is_expired(self.now_ms):
                self.discard(life)
        self.settle()

    @rule(ms=st.sampled_from((1, 499, 1_000, 2_500)))
    def pass_time(self, ms: int) -> None:
        self.release_due(self.now_ms + ms)
        self.settle()

    @precondition(lambda self: self.staged)
    @rule(place=st.integers(0, 99), action=st.sampled_from(("cancel", "release", "reschedule")))
    def change_schedule(self, place: int, action: str) -> None:
        life = self.staged[place % len(self.staged)]
        schedule, msg_id = self.sessions["anna"].schedule, life.message.msg_id
        if action == "cancel":
            assert schedule.cancel(msg_id) == Receipt.CANCELLED
            self.staged.remove(life)
            life.end(State.CANCELLED, self.now_ms)
        elif action == "release":
            assert schedule.release(msg_id) == Receipt.RELEASED
            self.release(life)
        else:
            # Not beyond its life (D7), and behind all others of that moment.
            due_ms = min(life.due_ms + 700, life.message.expire_at_ms or 2**60)
            assert schedule.reschedule(msg_id, deliver_at_ms=due_ms) == Receipt.RESCHEDULED
            life.due_ms = due_ms
            self.staged.remove(life)
            self.staged.append(life)
        self.settle()

    @rule()
    def inhibit_or_allow(self) -> None:
        self.is_q2_inhibited = not self.is_q2_inhibited
        word = "DISABLED" if self.is_q2_inhibited else "ENABLED"
        run(self.one, f"ALTER QLOCAL(Q2) PUT({word})")

    @precondition(lambda self: not self.is_q2_inhibited)
    @rule()
    def redrive(self) -> None:
        """Dead letters go to the queue that they were meant for, by a new put; expired ones end."""
        with DeadLetterHandler(self.one, parse_rules("ACTION(RETRY)")) as handler:
            handler.run_once()
        while (life := self.next_alive("QM1", "DEAD")) is not None:
            self.leave(life, State.GOT)
            self.stand(Life("QM1", "Q2", self.now_ms, life.message))

    @rule()
    def restart(self) -> None:
        """The end of a session commits; what is not persistent is lost."""
        self.commit()
        self.close()
        for lives in (self.staged, *self.queues.values()):
            for life in [life for life in lives if not life.message.persistent]:
                lives.remove(life)
                life.end(State.LOST_AT_RESTART, self.now_ms)
        self.open()
        for name, manager in (("QM1.TO.QM2", self.one), ("QM2.TO.QM1", self.two)):
            manager.mqsc(f"START CHANNEL({name})")
        self.settle()

    @rule(place=st.integers(0, 99))
    def ask(self, place: int) -> None:
        if self.messages:
            self.check(self.messages[place % len(self.messages)])

    # What is told

    def check(self, message: Message) -> None:
        for manager in self.managers.values():
            found = manager.traces.of(message.msg_id)
            told: dict[str, list[Told]] = {"message": [], "report": []}
            for stay in found.entries:
                user = stay.user_identifier if stay.relation == "message" else ""
                is_got = stay.state == State.GOT and stay.queue != "DEAD"
                getter = stay.ended_by if is_got else ""
                place = stay.queue_manager, stay.queue, stay.state
                told[stay.relation].append((*place, stay.put_ms, stay.ended_ms, user, getter))
            for relation, known in (("message", message), ("report", message.report)):
                expected, heard = model_of(known), sorted(told[relation], key=repr)
                assert heard == expected, f"{relation}: told {heard}, happened {expected}"
            moments = [step.at_ms for step in found.steps]
            assert moments == sorted(moments)
            assert found.steps[0].user == message.user
            assert found.is_known

    def teardown(self) -> None:
        try:
            for message in self.messages:
                self.check(message)
            self.restart()
            for message in self.messages:
                self.check(message)
        finally:
            self.close()
            self.folder.cleanup()


def model_of(message: Message | None) -> list[Told]:
    return [] if message is None else sorted((life.told for life in message.lives), key=repr)


TestStories = MessageTraces.TestCase
TestStories.settings = settings(max_examples=examples(40), stateful_step_count=30)

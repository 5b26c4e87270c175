"""Messages that go to MQ and back for as long as they live, and the reports about the others."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mayfly import QueueManager
from mayfly.everyplace import (
    MSG_EXPIRE_TIME,
    EveryplaceError,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    SkewedClock,
)
from mayfly.mqi.constants import (
    MQMT_DATAGRAM,
    MQMT_MQE_FIELDS,
    MQMT_MQE_FIELDS_FROM_MQE,
    MQRO_EXPIRATION,
)
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_Q_FULL, MQRC_SYNCPOINT_NOT_AVAILABLE
from mayfly.services.everyplace.fields import MQ_DATA, fields_as_body, fields_of_body
from mayfly.services.everyplace.mq_queues import ReportsToMq, move_from_mq, move_to_mq
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.everyplace.scene import START_MS, quick_folder, reopened
from tests.examples import examples

Q, Q1, REPLIES = "Q", "Q1", "REPLIES"
MOST = 3

lives_ms = st.sampled_from((None, 51, 1_000, 1_000, 2_000))


@dataclass
class Life:
    """Where a message is and when it ends there, by the clock of MQ; None is never."""

    own_ms: int | None
    #: Its end in MQ while it is there.
    mq_ms: int | None
    is_in_mq: bool
    arrived_ms: int
    is_reported: bool
    was_moved_to_mq: bool = False


class Telling(ReportsToMq):
    """Notes what expires on the Everyplace queue."""

    def __init__(self, manager: QueueManager) -> None:
        super().__init__(manager)
        self.fired: list[bytes] = []

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        self.fired.append(tag_of(message))
        super().message_expired(entry, message)


def tag_of(message: MessageFields) -> bytes:
    return message.get_array_of_byte(MQ_DATA)


def tag_in_mq(message: Message) -> bytes:
    if message.descriptor.msg_type in (MQMT_MQE_FIELDS, MQMT_MQE_FIELDS_FROM_MQE):
        return tag_of(fields_of_body(message.body))
    return message.body


class AdapterMachine(RuleBasedStateMachine):
    """A message is got or expires, once, at its millisecond, on the side where it is."""

    is_durable = False

    @initialize(skew_ms=st.sampled_from((0, -3_600_000, 77)), interval_ms=lives_ms)
    def begin(self, skew_ms: int, interval_ms: int | None) -> None:
        self.clock = VirtualClock(START_MS)
        self.queue_manager = QueueManager("QM1", clock=self.clock)
        self.queue_manager.mqsc(f"DEFINE QLOCAL({Q1}) MAXDEPTH({MOST})\nDEFINE QLOCAL({REPLIES})")
        self.session = self.queue_manager.session()
        self.folders = ExitStack()
        self.home = self.folders.enter_context(quick_folder()) if self.is_durable else None
        self.field = EveryplaceQueueManager("F", SkewedClock(self.clock, skew_ms), self.home)
        self.telling = Telling(self.queue_manager)
        self.field.create_queue(Q, interval_ms, self.telling, MOST)
        self.skew_ms, self.interval_ms = skew_ms, interval_ms
        self.lives: dict[bytes, Life] = {}
        self.got: list[bytes] = []
        self.tag_count = 0

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def end_ms(self, life: Life) -> int | None:
        if life.is_in_mq:
            return life.mq_ms
        if life.own_ms is not None:
            return life.own_ms
        return None if self.interval_ms is None else life.arrived_ms + self.interval_ms

    def alive(self, *, in_mq: bool) -> set[bytes]:
        """Return what can be got on one side now."""
        ends = {t: self.end_ms(life) for t, life in self.lives.items() if life.is_in_mq is in_mq}
        return {tag for tag, end_ms in ends.items() if end_ms is None or end_ms > self.now_ms()}

    def fields(self, own_ms: int | None, *, is_absolute: bool) -> MessageFields:
        message = MessageFields(self.field.clock)
        self.tag_count += 1
        message.put_array_of_byte(MQ_DATA, b"%d" % self.tag_count)
        if own_ms is not None and is_absolute:
            message.put_long(MSG_EXPIRE_TIME, self.field.clock.now_ms() + own_ms)
        elif own_ms is not None:
            message.put_int(MSG_EXPIRE_TIME, own_ms)
        return message

    def note(self, tag: bytes, own_ms: int | None, life_ms: int | None, **where: bool) -> None:
        now_ms = self.now_ms()
        ends = [None if ms is None else now_ms + ms for ms in (own_ms, life_ms)]
        self.lives[tag] = Life(ends[0], ends[1], where["in_mq"], now_ms, where["is_reported"])

    @rule(own_ms=lives_ms, is_absolute=st.booleans())
    def put(self, own_ms: int | None, is_absolute: bool) -> None:
        message = self.fields(own_ms, is_absolute=is_absolute)
        try:
            self.field.put_message(Q, message)
        except EveryplaceError:
            assert len(self.field.browse_messages(Q)) == MOST
        else:
            self.note(tag_of(message), own_ms, None, in_mq=False, is_reported=False)

    @rule(own_ms=lives_ms, life_ms=lives_ms, is_reported=st.booleans(), is_plain=st.booleans())
    def put_in_mq(
        self, own_ms: int | None, life_ms: int | None, is_reported: bool, is_plain: bool
    ) -> None:
        message = self.fields(None if is_plain else own_ms, is_absolute=False)
        try:
            self.session.put(
                Q1,
                tag_of(message) if is_plain else fields_as_body(message),
                time_to_live_ms=life_ms,
                msg_type=MQMT_DATAGRAM if is_plain else MQMT_MQE_FIELDS,
                report=MQRO_EXPIRATION if is_reported else 0,
                reply_to_q=REPLIES if is_reported else "",
            )
        except MQError:
            assert self.queue_manager.curdepth(Q1) == MOST
        else:
            own_ms = None if is_plain else own_ms
            self.note(tag_of(message), own_ms, life_ms, in_mq=True, is_reported=is_reported)

    @rule(own_ms=lives_ms, life_ms=lives_ms, is_plain=st.booleans(), ms=st.sampled_from((1, 50)))
    def fetch(self, own_ms: int | None, life_ms: int | None, is_plain: bool, ms: int) -> None:
        """Put in MQ, and fetch what is next there a moment later."""
        self.put_in_mq(own_ms, life_ms, is_reported=True, is_plain=is_plain)
        self.time_passes(ms)
        self.from_mq()
        self.time_passes(ms)
        self.size()

    @rule()
    def to_mq(self) -> None:
        alive = self.alive(in_mq=False)
        shown = {tag_of(message) for message in self.field.browse_messages(Q)}
        try:
            moved = move_to_mq(self.field, Q, self.session, Q1)
        except MQError:
            assert self.queue_manager.curdepth(Q1) == MOST
            assert alive <= {tag_of(message) for message in self.field.browse_messages(Q)}
            return
        assert (moved is None) is not bool(alive)
        if moved is not None:
            (tag,) = alive - {tag_of(message) for message in self.field.browse_messages(Q)}
            assert tag in shown
            life = self.lives[tag]
            life.is_in_mq, life.was_moved_to_mq, life.mq_ms = True, True, life.own_ms

    @rule()
    def in_a_unit_of_work(self) -> None:
        """Nothing moves: its backout would lose the message."""
        with self.queue_manager.session(transacted=True) as unit:
            with pytest.raises(EveryplaceError) as caught:
                move_to_mq(self.field, Q, unit, Q1)
            assert caught.value.reason == MQRC_SYNCPOINT_NOT_AVAILABLE

    @rule()
    def from_mq(self) -> None:
        alive = self.alive(in_mq=True)
        try:
            uid = move_from_mq(self.queue_manager, Q1, self.field, Q)
        except EveryplaceError as error:
            if error.reason != MQRC_Q_FULL:
                raise
            assert self.alive(in_mq=True) == alive
            return
        assert (uid is None) is not bool(alive)
        if uid is not None:
            (tag,) = alive - {tag_in_mq(message) for message in self.session.browse(Q1)}
            life = self.lives[tag]
            ends = [end_ms for end_ms in (life.own_ms, life.mq_ms) if end_ms is not None]
            life.own_ms, life.mq_ms = min(ends, default=None), None
            life.is_in_mq, life.arrived_ms = False, self.now_ms()

    @precondition(lambda self: self.is_durable)
    @rule()
    def restart(self) -> None:
        """Nothing is forgotten, nor told to the rule before the queue is touched (M8)."""
        assert self.home is not None
        fired = list(self.telling.fired)
        self.field = reopened(self.field, self.home)
        self.field.set_rule(Q, self.telling)
        assert self.telling.fired == fired

    @rule(in_mq=st.booleans())
    def get(self, in_mq: bool) -> None:
        alive = self.alive(in_mq=in_mq)
        if in_mq:
            over = self.session.get(Q1)
            tag = tag_in_mq(over) if over else b""
        else:
            message = self.field.get_message(Q)
            tag = tag_of(message) if message else b""
        assert bool(tag) is bool(alive)
        if tag:
            assert tag in alive
            self.got.append(tag)
            del self.lives[tag]

    @rule(ms=st.sampled_from((1, 1, 50, 949)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def size(self) -> None:
        assert self.field.inquire_queue_size(Q) == len(self.alive(in_mq=False))

    def teardown(self) -> None:
        if hasattr(self, "lives"):
            with self.folders:
                self.end()

    def end(self) -> None:
        self.clock.advance(10_000)
        alive = self.alive(in_mq=True) | self.alive(in_mq=False)
        while (over := self.session.get(Q1)) is not None:
            alive.remove(tag_in_mq(over))
        while (message := self.field.get_message(Q)) is not None:
            alive.remove(tag_of(message))
        assert not alive
        assert len(set(self.got)) == len(self.got)
        assert len(set(self.telling.fired)) == len(self.telling.fired)
        assert not set(self.telling.fired) & set(self.got)
        self.check_reports()
        self.field.delete_queue(Q)
        assert self.queue_manager.verify().ok
        self.session.close()
        self.queue_manager.close()
        self.field.close()

    def check_reports(self) -> None:
        """One for each that asked and ended here, or there before it was ever moved there."""
        over = {t: life for t, life in self.lives.items() if self.end_ms(life) is not None}
        owed = [
            life
            for tag, life in over.items()
            if life.is_reported and (tag in self.telling.fired or not life.was_moved_to_mq)
        ]
        assert {t for t, life in over.items() if not life.is_in_mq} == set(self.telling.fired)
        assert self.queue_manager.curdepth(REPLIES) == len(owed)


class DurableMachine(AdapterMachine):
    """The same with a folder, and restarts in between."""

    is_durable = True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "example_count"), [(AdapterMachine, 200), (DurableMachine, 100)]
)
def test_what_goes_to_mq_and_back_ends_once_at_its_millisecond(
    machine: type[AdapterMachine], example_count: int
) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(example_count), stateful_step_count=30)
    )

"""Lifetimes of Everyplace messages, rules M1 to M11 and M14 to M17, at one queue manager."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from mayfly.everyplace import (
    DEAD_LETTER_QUEUE_NAME,
    MSG_EXPIRE_TIME,
    MSG_RESEND,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    QueueRule,
    SkewedClock,
)
from mayfly.lifetime.times import ms_of_seconds
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering, refused, seen, take, text

boundaries = pytest.mark.parametrize(("late_ms", "is_gone"), [(-1, False), (0, True), (1, True)])


@boundaries
def test_M1_the_interval_of_a_queue_counts_from_the_arrival(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering, late_ms: int, is_gone: bool
) -> None:
    """Not from the creation: the message is five seconds old when it arrives."""
    a.create_queue("Q", expiry_ms=60_000, rule=rule)
    message = text(clock)
    clock.advance(5_000)
    a.put_message("Q", message)
    clock.advance(60_000 + late_ms)
    assert take(a) == ("-" if is_gone else "x")
    assert rule.expired == (["x"] if is_gone else [])


def test_M1_another_queue_begins_its_own_interval(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q", expiry_ms=1_000)
    a.create_queue("R", expiry_ms=1_000)
    a.put_message("Q", text(clock))
    clock.advance(999)
    moved = a.get_message("Q")
    assert moved is not None
    moved.put_boolean(MSG_RESEND, True)
    a.put_message("R", moved)
    clock.advance(999)
    assert seen(a, "R") == ["x"]
    assert a.inquire_queue_size("R") == 1
    clock.advance(1)
    assert a.inquire_queue_size("R") == 0


@pytest.mark.parametrize("answer", [True, False, None])
def test_M2_the_rule_is_told_and_cannot_prevent_it(
    a: EveryplaceQueueManager, clock: VirtualClock, answer: object
) -> None:
    told: list[QueueEntry] = []

    class Rule(QueueRule):
        def message_expired(self, entry: QueueEntry, message: MessageFields) -> object:
            told.append(entry)
            assert a.inquire_queue_size("Q") == 0
            return answer

    a.create_queue("Q", expiry_ms=10, rule=Rule())
    uid = a.put_message("Q", text(clock))
    clock.advance(10)
    assert a.get_message("Q") is None
    assert a.inquire_queue_size("Q") == 0
    (entry,) = told
    assert (entry.owner, entry.queue, entry.uid) == (a, "Q", uid)
    assert (entry.arrived_ms, entry.expire_at_ms) == (START_MS, START_MS + 10)


@boundaries
@pytest.mark.parametrize("own_ms", [20, 500])
def test_M3_the_message_overrides_the_queue_shorter_and_longer(
    a: EveryplaceQueueManager, clock: VirtualClock, own_ms: int, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q", expiry_ms=100)
    a.put_message("Q", text(clock, relative_ms=own_ms))
    clock.advance(own_ms + late_ms)
    assert a.inquire_queue_size("Q") == (0 if is_gone else 1)


@boundaries
def test_M4_an_int_counts_from_the_creation_and_never_begins_again(
    a: EveryplaceQueueManager, clock: VirtualClock, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q")
    a.create_queue("R")
    message = text(clock, relative_ms=60_000)
    clock.advance(20_000)
    a.put_message("Q", message)
    clock.advance(20_000)
    moved = a.get_message("Q")
    assert moved is not None
    moved.put_boolean(MSG_RESEND, True)
    a.put_message("R", moved)
    clock.advance(20_000 + late_ms)
    assert take(a, "R") == ("-" if is_gone else "x")


@boundaries
def test_M4_a_long_is_a_moment(
    a: EveryplaceQueueManager, clock: VirtualClock, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q")
    a.put_message("Q", text(clock, at_ms=START_MS + 60_000))
    clock.advance(60_000 + late_ms)
    assert take(a) == ("-" if is_gone else "x")


@boundaries
def test_M5_the_date_of_the_example_is_the_15th_of_May(late_ms: int, is_gone: bool) -> None:
    """Its month counts from zero: (2001, 04, 15, 15, 25)."""
    end_ms = ms_of_seconds(int(datetime(2001, 5, 15, 15, 25, tzinfo=UTC).timestamp()))
    clock = VirtualClock(end_ms - 60_000)
    a = EveryplaceQueueManager("A", clock=clock)
    a.create_queue("Q")
    a.put_message("Q", text(clock, at_ms=end_ms))
    clock.advance(60_000 + late_ms)
    assert take(a) == ("-" if is_gone else "x")


@boundaries
def test_M5_an_absolute_end_may_be_said_as_a_datetime(late_ms: int, is_gone: bool) -> None:
    """The date of the example, where it is two hours earlier in UTC."""
    end = datetime(2001, 5, 15, 15, 25, tzinfo=timezone(timedelta(hours=2)))
    end_ms = ms_of_seconds(int(end.timestamp()))
    clock = VirtualClock(end_ms - 60_000)
    a = EveryplaceQueueManager("A", clock=clock)
    a.create_queue("Q")
    message = text(clock)
    message.put_datetime(MSG_EXPIRE_TIME, end)
    assert message.get_long(MSG_EXPIRE_TIME) == end_ms
    assert message.get_datetime(MSG_EXPIRE_TIME) == end
    assert message.get_datetime(MSG_EXPIRE_TIME).tzinfo is UTC
    a.put_message("Q", message)
    clock.advance(60_000 + late_ms)
    assert take(a) == ("-" if is_gone else "x")


def test_M5_what_says_no_moment_is_refused(clock: VirtualClock) -> None:
    message = text(clock, at_ms=7)
    naive = datetime(2001, 5, 15, 15, 25)  # noqa: DTZ001 - that is what is refused
    said = refused(
        rc.MQRC_PROP_NUMBER_FORMAT_ERROR, lambda: message.put_datetime(MSG_EXPIRE_TIME, naive)
    )
    assert "has no time zone" in said
    assert MSG_EXPIRE_TIME in said
    wrong: Any = 60_000
    refused(rc.MQRC_PROPERTY_TYPE_ERROR, lambda: message.put_datetime(MSG_EXPIRE_TIME, wrong))
    refused(rc.MQRC_PROPERTY_NAME_ERROR, lambda: message.put_datetime("", naive))
    assert message.get_long(MSG_EXPIRE_TIME) == 7
    message.put_long("F", 2**62)
    refused(rc.MQRC_PROP_NUMBER_FORMAT_ERROR, lambda: message.get_datetime("F"))
    message.put_datetime("F", datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    # Cut to the millisecond: nothing lives longer than it was said to.
    assert message.get_long("F") == -1


@boundaries
def test_M6_checked_when_put(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q", rule=rule)
    message = text(clock, relative_ms=1_000)
    clock.advance(1_000 + late_ms)
    a.put_message("Q", message)
    assert rule.expired == (["x"] if is_gone else [])
    assert len(a.browse_messages("Q")) == (0 if is_gone else 1)


@boundaries
def test_M6_checked_again_when_the_put_is_confirmed(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q", rule=rule)
    uid = a.put_message("Q", text(clock, relative_ms=1_000), confirm_id=7)
    clock.advance(1_000 + late_ms)
    a.confirm_put_message("Q", uid)
    assert rule.expired == (["x"] if is_gone else [])
    assert len(a.browse_messages("Q")) == (0 if is_gone else 1)


def test_M7_a_get_finds_nothing_and_removes_what_stands_in_its_way(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", rule=rule)
    for said, life_ms in (("1", 10), ("2", 10), ("live", None), ("4", 10)):
        a.put_message("Q", text(clock, said, relative_ms=life_ms))
    clock.advance(10)
    assert take(a) == "live"
    assert rule.expired == ["1", "2"]
    assert take(a) == "-"
    assert rule.expired == ["1", "2", "4"]


def test_M7_delete_of_an_expired_message_finds_nothing(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", rule=rule)
    uid = a.put_message("Q", text(clock, relative_ms=10))
    clock.advance(10)
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", uid))
    assert rule.expired == ["x"]


def three_states(a: EveryplaceQueueManager, clock: VirtualClock, life_ms: int) -> None:
    """Put one message of each state: got and put under a confirm id, and available."""
    a.put_message("Q", text(clock, "got", relative_ms=life_ms))
    a.put_message("Q", text(clock, "free", relative_ms=life_ms))
    a.put_message("Q", text(clock, "put", relative_ms=life_ms), confirm_id=1)
    assert a.get_message("Q", confirm_id=2) is not None


@boundaries
@pytest.mark.parametrize("was_inactive", [True, False])
def test_M8_checked_when_activated_whatever_the_state(
    a: EveryplaceQueueManager,
    clock: VirtualClock,
    rule: Remembering,
    was_inactive: bool,
    late_ms: int,
    is_gone: bool,
) -> None:
    a.create_queue("Q", rule=rule)
    three_states(a, clock, 1_000)
    if was_inactive:
        a.deactivate_queue("Q")
    clock.advance(1_000 + late_ms)
    a.activate_queue("Q")
    assert sorted(rule.expired) == (["free", "got", "put"] if is_gone else [])
    assert a.inquire_queue_size("Q") == (0 if is_gone else 3)


def test_M8_a_call_on_an_inactive_queue_activates_it(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", expiry_ms=10, rule=rule)
    a.put_message("Q", text(clock))
    a.deactivate_queue("Q")
    clock.advance(10)
    assert rule.expired == []
    assert a.browse_messages("Q") == []
    assert rule.expired == ["x"]


@boundaries
def test_M9_checked_when_deleted_whatever_the_state(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q", rule=rule)
    three_states(a, clock, 1_000)
    clock.advance(1_000 + late_ms)
    if not is_gone:
        assert "3 messages" in refused(rc.MQRC_Q_NOT_EMPTY, lambda: a.delete_queue("Q"))
        assert a.inquire_queue_size("Q") == 3
        return
    a.delete_queue("Q")
    assert sorted(rule.expired) == ["free", "got", "put"]
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.inquire_queue_size("Q"))


def test_M9_what_has_expired_is_gone_even_if_the_queue_stays(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", rule=rule)
    a.put_message("Q", text(clock, "old", relative_ms=1))
    a.put_message("Q", text(clock, "live"))
    clock.advance(1)
    refused(rc.MQRC_Q_NOT_EMPTY, lambda: a.delete_queue("Q"))
    assert (rule.expired, seen(a)) == (["old"], ["live"])


@boundaries
def test_M10_the_size_leaves_out_what_has_expired(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering, late_ms: int, is_gone: bool
) -> None:
    a.create_queue("Q", rule=rule)
    three_states(a, clock, 1_000)
    a.put_message("Q", text(clock, "live"))
    clock.advance(1_000 + late_ms)
    assert a.inquire_queue_size("Q") == (1 if is_gone else 4)
    assert len(rule.expired) == (3 if is_gone else 0)


def test_M11_no_other_moment_checks(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    """Neither time alone, nor a browse, an undo, an alteration, a put, a confirmed get."""
    a.create_queue("Q", expiry_ms=10, rule=rule)
    uid = a.put_message("Q", text(clock, "got"))
    a.put_message("Q", text(clock, "free"))
    assert a.get_message("Q", confirm_id=2) is not None
    clock.advance(1_000_000)
    assert seen(a) == ["free"]
    assert a.undo("Q", 99) == 0
    a.put_message("Q", text(clock, "new"))
    a.alter_queue("Q", max_depth=10)
    a.confirm_get_message("Q", uid)
    a.deactivate_queue("Q")
    assert rule.expired == []


def test_M11_a_get_that_is_undone_too_late_is_shown_until_the_next_check(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", expiry_ms=10, rule=rule)
    a.put_message("Q", text(clock))
    assert a.get_message("Q", confirm_id=2) is not None
    clock.advance(10)
    assert a.get_message("Q") is None
    assert rule.expired == []
    assert a.undo("Q", 2) == 1
    assert seen(a) == ["x"]
    assert a.get_message("Q") is None
    assert rule.expired == ["x"]


@pytest.mark.parametrize(("skew_ms", "is_gone"), [(-1, False), (0, True), (1, True)])
def test_M14_a_clock_a_millisecond_behind_keeps_it_alive(
    clock: VirtualClock, skew_ms: int, is_gone: bool
) -> None:
    b = EveryplaceQueueManager("B", clock=SkewedClock(clock, skew_ms))
    b.create_queue("Q")
    b.put_message("Q", text(clock, relative_ms=5_000))
    clock.advance(5_000)
    assert take(b) == ("-" if is_gone else "x")


def test_M15_an_int_holds_32_bits(clock: VirtualClock) -> None:
    message = MessageFields(clock=clock)
    message.put_int(MSG_EXPIRE_TIME, 2**31 - 1)
    for value in (2**31, -(2**31) - 1, START_MS):
        said = refused(
            rc.MQRC_PROP_NUMBER_FORMAT_ERROR,
            partial(message.put_int, MSG_EXPIRE_TIME, value),
        )
        assert MSG_EXPIRE_TIME in said
        assert str(value) in said
    assert message.get_int(MSG_EXPIRE_TIME) == 2**31 - 1
    message.put_int(MSG_EXPIRE_TIME, -(2**31))
    refused(rc.MQRC_PROPERTY_TYPE_ERROR, lambda: message.put_ascii(MSG_EXPIRE_TIME, "60000"))


@pytest.mark.parametrize("relative_ms", [0, -1, 1])
def test_M15_an_int_that_is_no_time_to_live_expires_on_arrival_and_is_logged(
    a: EveryplaceQueueManager,
    clock: VirtualClock,
    rule: Remembering,
    caplog: pytest.LogCaptureFixture,
    relative_ms: int,
) -> None:
    """An end no later than the creation is no end of a message that was ever alive: 0 is none."""
    a.create_queue("Q", rule=rule)
    is_alive = relative_ms > 0
    with caplog.at_level(logging.WARNING, "mayfly.everyplace"):
        a.put_message("Q", text(clock, relative_ms=relative_ms))
    assert rule.expired == ([] if is_alive else ["x"])
    assert a.inquire_queue_size("Q") == int(is_alive)
    assert (f"Msg_ExpireTime {relative_ms}" in caplog.text) is not is_alive


def test_M15_a_small_long_is_a_moment_in_1970_and_is_logged(
    a: EveryplaceQueueManager,
    clock: VirtualClock,
    rule: Remembering,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a.create_queue("Q", rule=rule)
    with caplog.at_level(logging.WARNING, "mayfly.everyplace"):
        a.put_message("Q", text(clock, at_ms=60_000))
    assert rule.expired == ["x"]
    assert a.inquire_queue_size("Q") == 0
    assert "Msg_ExpireTime 60000" in caplog.text
    assert "a moment" in caplog.text


class ToDeadLetters(QueueRule):
    """Puts a copy of what expired on the dead-letter queue, with or without what that needs."""

    def __init__(self, *, resend: bool = True, without_end: bool = True) -> None:
        self.resend = resend
        self.without_end = without_end

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        if self.resend:
            message.put_boolean(MSG_RESEND, True)
        if self.without_end:
            message.delete(MSG_EXPIRE_TIME)
        entry.owner.put_message(DEAD_LETTER_QUEUE_NAME, message)


def test_M16_the_rule_puts_a_copy_on_the_dead_letter_queue(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q", rule=ToDeadLetters())
    uid = a.put_message("Q", text(clock, "dead", relative_ms=10))
    clock.advance(10)
    assert a.get_message("Q") is None
    clock.advance(1_000_000)
    dead = a.get_message(DEAD_LETTER_QUEUE_NAME)
    assert dead is not None
    assert (dead.uid, dead.get_ascii("MsgData")) == (uid, "dead")
    assert not dead.contains(MSG_EXPIRE_TIME)


@pytest.mark.parametrize("on_arrival", [False, True])
def test_M16_without_resend_the_copy_is_refused_as_a_duplicate(
    a: EveryplaceQueueManager,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    on_arrival: bool,
) -> None:
    a.create_queue("Q", rule=ToDeadLetters(resend=False))
    message = text(clock, relative_ms=10)
    clock.advance(10 if on_arrival else 0)
    a.put_message("Q", message)
    clock.advance(10)
    assert a.get_message("Q") is None
    assert a.inquire_queue_size("Q") == 0
    assert a.inquire_queue_size(DEAD_LETTER_QUEUE_NAME) == 0
    assert "duplicate message" in caplog.text


def test_M16_with_its_old_end_the_copy_expires_on_arrival(
    a: EveryplaceQueueManager, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue(DEAD_LETTER_QUEUE_NAME, rule=rule)
    a.create_queue("Q", rule=ToDeadLetters(without_end=False))
    a.put_message("Q", text(clock, relative_ms=10))
    clock.advance(10)
    assert a.get_message("Q") is None
    assert a.inquire_queue_size(DEAD_LETTER_QUEUE_NAME) == 0
    assert rule.expired == ["x"]


def test_M16_a_rule_of_the_dead_letter_queue_that_puts_there_again_ends(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue(DEAD_LETTER_QUEUE_NAME, rule=ToDeadLetters(without_end=False))
    message = text(clock, relative_ms=10)
    clock.advance(10)
    a.put_message(DEAD_LETTER_QUEUE_NAME, message)
    assert a.inquire_queue_size(DEAD_LETTER_QUEUE_NAME) == 0


def test_M16_a_rule_may_put_on_its_own_queue(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    class Again(QueueRule):
        def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
            message.put_boolean(MSG_RESEND, True)
            message.delete(MSG_EXPIRE_TIME)
            entry.owner.put_message(entry.queue, message)

    a.create_queue("Q", rule=Again())
    for said in ("1", "2", "3"):
        a.put_message("Q", text(clock, said, relative_ms=10))
    clock.advance(10)
    assert a.inquire_queue_size("Q") == 3
    assert [take(a) for _ in range(4)] == ["1", "2", "3", "-"]


def test_M16_a_rule_that_puts_what_is_being_put_does_not_double_it(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    class Eager(QueueRule):
        def __init__(self) -> None:
            self.is_busy = False

        def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
            if not self.is_busy:
                self.is_busy = True
                message.put_boolean(MSG_RESEND, True)
                entry.owner.put_message(entry.queue, message)

    a.create_queue("Q", rule=Eager())
    a.put_message("Q", text(clock))
    assert a.inquire_queue_size("Q") == 1
    assert (take(a), take(a)) == ("x", "-")


def test_M17_an_error_in_a_rule_changes_nothing(
    a: EveryplaceQueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(QueueRule):
        def __getattribute__(self, name: str) -> object:
            if name in vars(QueueRule) and not name.startswith("_"):

                def fail(*_: object) -> object:
                    raise ZeroDivisionError(name)

                return fail
            return super().__getattribute__(name)

    a.create_queue("Q", expiry_ms=1_000, rule=Broken(), max_depth=2)
    uid = a.put_message("Q", text(clock, "1"))
    a.put_message("Q", text(clock, "2"))
    refused(rc.MQRC_Q_FULL, lambda: a.put_message("Q", text(clock, "3")))
    assert seen(a) == ["1", "2"]
    a.delete_message("Q", uid)
    assert a.get_message("Q", confirm_id=1) is not None
    assert a.undo("Q", 1) == 1
    a.alter_queue("Q", expiry_ms=10)
    clock.advance(10)
    assert a.get_message("Q") is None
    a.deactivate_queue("Q")
    a.delete_queue("Q")
    assert "ZeroDivisionError: message_expired" in caplog.text

"""What a rule may do to a queue from inside its hooks, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly.everyplace import (
    MSG_EXPIRE_TIME,
    MSG_PRIORITY,
    EveryplaceQueueManager,
    Link,
    MessageFields,
    MessageState,
    QueueEntry,
    QueueRule,
    RuleRefused,
)
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering, refused, seen, take, text, text_of


class Meddler(QueueRule):
    """Changes each message that it is shown, but at its put."""

    def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
        self.meddle(message)

    delete_message = browse_message = undo = get_message

    def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
        self.meddle(message)
        return True

    def meddle(self, message: MessageFields) -> None:
        message.put_ascii("MsgData", "meddled")
        message.put_byte(MSG_PRIORITY, 0)
        message.put_int(MSG_EXPIRE_TIME, 1)


def test_only_the_put_rule_changes_a_message(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q", rule=Meddler())
    for said in ("1", "2"):
        a.put_message("Q", text(clock, said))
    assert seen(a) == ["1", "2"]
    assert text_of(a.get_message("Q", confirm_id=7)) == "1"
    assert a.undo("Q", 7) == 1
    clock.advance(1)
    assert [take(a) for _ in range(3)] == ["1", "2", "-"]


def test_nor_what_is_sent(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True, rule=Meddler())
    a.put_message("Q", text(clock))
    assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
    clock.advance(1)
    assert take(b) == "x"


def test_a_put_rule_that_keeps_the_message_does_not_move_it_later(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    """A message keeps the place it was given; another one in its stead would be lost."""
    kept: list[MessageFields] = []

    class Keep(QueueRule):
        def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
            kept.append(message)

    a.create_queue("Q", rule=Keep())
    uids = [a.put_message("Q", text(clock, said)) for said in ("1", "2", "3")]
    kept[0].put_byte(MSG_PRIORITY, 0)
    a.delete_message("Q", uids[0])
    assert [take(a) for _ in range(3)] == ["2", "3", "-"]


def test_a_message_that_the_undo_rule_has_got_is_not_given_out_twice(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    class GetIt(QueueRule):
        is_busy = False

        def undo(self, entry: QueueEntry, message: MessageFields) -> None:
            if not self.is_busy:
                self.is_busy = True
                assert entry.owner.undo(entry.queue, entry.confirm_id) == 1
                assert entry.owner.get_message(entry.queue, confirm_id=9) is not None

    a.create_queue("Q", rule=GetIt())
    uid = a.put_message("Q", text(clock))
    assert a.get_message("Q", confirm_id=7) is not None
    a.undo("Q", 7)
    assert take(a) == "-"
    a.confirm_get_message("Q", uid)
    assert a.inquire_queue_size("Q") == 0


@pytest.mark.parametrize("confirm_id", [0, 9])
def test_a_message_that_the_delete_rule_has_got_is_not_there_to_be_deleted(
    a: EveryplaceQueueManager, clock: VirtualClock, confirm_id: int
) -> None:
    got: list[MessageFields | None] = []

    class GetIt(QueueRule):
        def delete_message(self, entry: QueueEntry, message: MessageFields) -> None:
            got.append(entry.owner.get_message(entry.queue, confirm_id=confirm_id))

    a.create_queue("Q", rule=GetIt())
    uid = a.put_message("Q", text(clock))
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", uid))
    assert text_of(got[0]) == "x"
    assert a.inquire_queue_size("Q") == (1 if confirm_id else 0)


@pytest.mark.parametrize("hook", ["queue_close", "queue_removed"])
def test_nothing_is_put_on_a_queue_that_is_being_deleted(
    a: EveryplaceQueueManager, clock: VirtualClock, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It would go with the queue, unseen."""

    def put_farewell(queue: str) -> None:
        a.put_message(queue, text(clock, "farewell"))

    rule = QueueRule()
    setattr(rule, hook, put_farewell)
    a.create_queue("Q", rule=rule)
    a.delete_queue("Q")
    assert "MQRC_UNKNOWN_OBJECT_NAME" in caplog.text
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.inquire_queue_size("Q"))


def test_a_listener_may_confirm_the_transmission_that_called_it(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True)

    def confirm(_: MessageFields) -> None:
        a.transmit_confirm("Q")

    b.add_message_listener("Q", confirm)
    for said in ("1", "2"):
        a.put_message("Q", text(clock, said))
    assert a.transmit_put("Q") == 2
    assert a.transmit_confirm("Q") == 0
    assert (a.inquire_queue_size("Q"), [take(b) for _ in range(3)]) == (0, ["1", "2", "-"])


CHECKS: dict[str, Callable[[EveryplaceQueueManager, MessageFields], object]] = {
    "added": lambda a, _: a.put_message("Q", _late(a)),
    "confirmed": lambda a, first: a.confirm_put_message("Q", first.uid),
    "removed": lambda a, _: a.get_message("Q"),
    "activated": lambda a, _: a.activate_queue("Q"),
    "asked for its size": lambda a, _: a.inquire_queue_size("Q"),
    "deleted": lambda a, _: a.delete_queue("Q"),
}


def _late(a: EveryplaceQueueManager) -> MessageFields:
    return text(a.clock, "late", relative_ms=0)


@pytest.mark.parametrize("moment", CHECKS)
@pytest.mark.parametrize("error", [ZeroDivisionError, RuleRefused, RecursionError])
def test_M17_whatever_the_rule_raises_at_an_expiry_the_message_is_gone(
    a: EveryplaceQueueManager,
    clock: VirtualClock,
    moment: str,
    error: type[Exception],
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    class Broken(QueueRule):
        def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
            told.append(text_of(message))
            raise error("broken")

    a.create_queue("Q", rule=Broken())
    first = text(clock, "first", relative_ms=10)
    a.put_message("Q", first, confirm_id=7)
    clock.advance(10)
    CHECKS[moment](a, first)
    assert told == ["late" if moment == "added" else "first"]
    if moment == "deleted":
        refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.inquire_queue_size("Q"))
    else:
        assert a.inquire_queue_size("Q") == 0
    assert len(told) == (2 if moment == "added" else 1)
    assert f"{error.__name__}" in caplog.text


@pytest.mark.parametrize(
    ("state", "confirm_id"),
    [
        (MessageState.AVAILABLE, 0),
        (MessageState.PUT_UNCONFIRMED, 7),
        (MessageState.GET_UNCONFIRMED, 8),
    ],
)
def test_M2_the_rule_is_told_where_the_message_stood(
    a: EveryplaceQueueManager,
    clock: VirtualClock,
    rule: Remembering,
    state: MessageState,
    confirm_id: int,
) -> None:
    a.create_queue("Q", expiry_ms=10, rule=rule)
    is_put = state is MessageState.PUT_UNCONFIRMED
    uid = a.put_message("Q", text(clock), confirm_id=confirm_id if is_put else 0)
    if state is MessageState.GET_UNCONFIRMED:
        a.get_message("Q", confirm_id=confirm_id)
    clock.advance(10)
    a.inquire_queue_size("Q")
    assert rule.entries == [
        QueueEntry(a, "Q", uid, state, START_MS, START_MS + 10, confirm_id),
    ]


def test_a_put_rule_may_lengthen_a_life_that_is_over(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    """The rule comes before the check."""

    class Keep(QueueRule):
        def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
            message.delete(MSG_EXPIRE_TIME)

    a.create_queue("Q", rule=Keep())
    a.put_message("Q", text(clock, relative_ms=0))
    assert take(a) == "x"


def test_the_rule_of_a_synchronous_definition_is_asked_before_a_put(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    entries: list[QueueEntry] = []

    class Ask(QueueRule):
        def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
            entries.append(entry)
            if text_of(message) == "no":
                raise RuleRefused("not this one")
            message.put_ascii("MsgData", "changed")

    b.create_queue("Q")
    a.create_remote_queue("Q", "B", rule=Ask())
    message = text(clock, "no")
    assert "not this one" in refused(rc.MQRC_NONE, lambda: a.put_message("Q", message))
    uid = a.put_message("Q", text(clock, "yes"))
    unconfirmed = a.put_message("Q", text(clock, "later"), confirm_id=7)
    assert seen(b) == ["changed"]
    assert entries[1:] == [
        QueueEntry(a, "Q", uid, MessageState.AVAILABLE, START_MS, None, 0),
        QueueEntry(a, "Q", unconfirmed, MessageState.PUT_UNCONFIRMED, START_MS, None, 7),
    ]

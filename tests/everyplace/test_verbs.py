"""Put, get, browse, locks by confirm id, order, attributes, listeners and the hooks of rules."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mayfly.everyplace import (
    MSG_PRIORITY,
    MSG_RESEND,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    QueueRule,
    RuleRefused,
)
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import refused, seen, take, text, text_of


def test_what_is_put_is_a_copy_and_so_is_what_is_got(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    message = text(clock, "1")
    uid = a.put_message("Q", message)
    message.put_ascii("MsgData", "changed")
    (browsed,) = a.browse_messages("Q")
    browsed.put_ascii("MsgData", "changed")
    got = a.get_message("Q")
    assert got is not None
    assert (text_of(got), got.uid) == ("1", uid)
    assert (message.uid, uid.origin_queue_manager) == (uid, "A")


def test_priority_then_order_of_arrival(a: EveryplaceQueueManager, clock: VirtualClock) -> None:
    a.create_queue("Q")
    for said, priority in (("4a", 4), ("9", 9), ("4b", None), ("0", 0)):
        message = text(clock, said)
        if priority is not None:
            message.put_byte(MSG_PRIORITY, priority)
        a.put_message("Q", message)
    assert seen(a) == ["9", "4a", "4b", "0"]
    assert [take(a) for _ in range(4)] == ["9", "4a", "4b", "0"]


def test_a_put_under_a_confirm_id_is_unseen_and_ordered_by_its_confirmation(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    first = a.put_message("Q", text(clock, "1"), confirm_id=7)
    a.put_message("Q", text(clock, "2"))
    assert (seen(a), a.inquire_queue_size("Q")) == (["2"], 2)
    a.confirm_put_message("Q", first)
    assert [take(a) for _ in range(3)] == ["2", "1", "-"]
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.confirm_put_message("Q", first))


def test_a_get_under_a_confirm_id_is_locked_until_it_is_confirmed(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.put_message("Q", text(clock))
    got = a.get_message("Q", confirm_id=7)
    assert got is not None
    assert (take(a), seen(a), a.inquire_queue_size("Q")) == ("-", [], 1)
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.confirm_put_message("Q", got.uid))
    a.confirm_get_message("Q", got.uid)
    assert a.inquire_queue_size("Q") == 0
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.confirm_get_message("Q", got.uid))


def test_undo_takes_back_what_was_done_under_its_id_and_nothing_else(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.put_message("Q", text(clock, "1"))
    a.put_message("Q", text(clock, "2"))
    unsure = text(clock, "3")
    a.put_message("Q", unsure, confirm_id=7)
    assert text_of(a.get_message("Q", confirm_id=7)) == "1"
    assert text_of(a.get_message("Q", confirm_id=8)) == "2"
    assert a.undo("Q", 7) == 2
    assert (seen(a), a.inquire_queue_size("Q")) == (["1"], 2)
    assert a.undo("Q", 7) == 0
    a.put_message("Q", unsure)
    assert seen(a) == ["1", "3"]
    assert a.undo("Q", 8) == 1
    assert [take(a) for _ in range(4)] == ["1", "2", "3", "-"]


@pytest.mark.parametrize("confirm_id", [-1, 2**63, True, 1.0, "7"])
def test_confirm_ids_that_are_none(
    a: EveryplaceQueueManager, clock: VirtualClock, confirm_id: int
) -> None:
    a.create_queue("Q")
    message = text(clock)
    said = refused(rc.MQRC_OPTIONS_ERROR, lambda: a.put_message("Q", message, None, confirm_id))
    assert repr(confirm_id) in said
    refused(rc.MQRC_OPTIONS_ERROR, lambda: a.get_message("Q", None, confirm_id))
    refused(rc.MQRC_OPTIONS_ERROR, lambda: a.undo("Q", confirm_id))
    refused(rc.MQRC_OPTIONS_ERROR, lambda: a.undo("Q", 0))
    assert a.inquire_queue_size("Q") == 0


def test_M16_a_message_that_was_put_needs_resend(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.create_queue("R")
    message = text(clock)
    a.put_message("Q", message)
    for queue in ("Q", "R"):
        said = refused(
            rc.MQRC_OBJECT_ALREADY_EXISTS,
            partial(a.put_message, queue, message),
        )
        assert "Msg_Resend" in said
    message.put_boolean(MSG_RESEND, True)
    a.put_message("Q", message)
    a.put_message("R", message)
    assert (a.inquire_queue_size("Q"), a.inquire_queue_size("R")) == (1, 1)


def test_M16_undoing_a_put_again_does_not_undo_the_first_one(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.create_queue("R")
    message = text(clock)
    a.put_message("Q", message)
    message.put_boolean(MSG_RESEND, True)
    a.put_message("R", message, confirm_id=7)
    assert a.undo("R", 7) == 1
    message.delete(MSG_RESEND)
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.put_message("R", message))
    assert (a.inquire_queue_size("Q"), a.inquire_queue_size("R")) == (1, 0)


def test_delete_message_removes_what_is_available(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    locked = a.put_message("Q", text(clock, "1"))
    free = a.put_message("Q", text(clock, "2"))
    assert a.get_message("Q", confirm_id=1) is not None
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", locked))
    a.delete_message("Q", free)
    assert a.inquire_queue_size("Q") == 1


def test_an_altered_interval_meets_what_is_there_at_its_next_check(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.put_message("Q", text(clock))
    clock.advance(10)
    a.alter_queue("Q", expiry_ms=11)
    assert a.inquire_queue_size("Q") == 1
    a.alter_queue("Q", expiry_ms=10)
    assert seen(a) == ["x"]
    assert a.inquire_queue_size("Q") == 0


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"expiry_ms": 0}, rc.MQRC_EXPIRY_ERROR),
        ({"expiry_ms": -1}, rc.MQRC_EXPIRY_ERROR),
        ({"expiry_ms": 2**63}, rc.MQRC_EXPIRY_ERROR),
        ({"expiry_ms": True}, rc.MQRC_EXPIRY_ERROR),
        ({"max_depth": 0}, rc.MQRC_OPTIONS_ERROR),
    ],
)
def test_attributes_that_no_queue_has(
    a: EveryplaceQueueManager, attributes: dict[str, Any], reason: int
) -> None:
    (name,) = attributes
    assert name in refused(reason, lambda: a.create_queue("Q", **attributes))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.inquire_queue_size("Q"))
    a.create_queue("Q")
    assert name in refused(reason, lambda: a.alter_queue("Q", **attributes))
    assert "depth" in refused(rc.MQRC_OPTIONS_ERROR, lambda: a.alter_queue("Q", depth=1))


def test_definitions_that_do_not_fit(a: EveryplaceQueueManager, b: EveryplaceQueueManager) -> None:
    a.create_queue("Q")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.create_queue("Q"))
    refused(rc.MQRC_OBJECT_NAME_ERROR, lambda: a.create_queue(""))
    refused(rc.MQRC_OBJECT_NAME_ERROR, lambda: EveryplaceQueueManager(""))
    refused(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, lambda: a.connect(EveryplaceQueueManager("A")))
    refused(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, lambda: a.create_remote_queue("Q", "A"))
    refused(rc.MQRC_OPTIONS_ERROR, lambda: a.create_remote_queue("Q", "B", expiry_ms=10))
    a.create_remote_queue("Q", "B")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.create_remote_queue("Q", "B"))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.delete_queue("R", "B"))
    a.delete_queue("Q", "B")
    a.create_remote_queue("Q", "B", asynchronous=True)
    a.delete_queue("Q", "B")
    a.create_remote_queue("R", "B")
    refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, lambda: a.activate_queue("R"))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.transmit_put("R"))
    a.create_remote_queue("R", "C")
    assert "name one" in refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.inquire_queue_size("R"))


def test_listeners_hear_what_becomes_available(
    a: EveryplaceQueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def hear(message: MessageFields) -> None:
        heard.append(text_of(message))
        message.put_ascii("MsgData", "changed")
        raise LookupError

    a.create_queue("Q")
    a.add_message_listener("Q", hear)
    a.put_message("Q", text(clock, "1"))
    uid = a.put_message("Q", text(clock, "2"), confirm_id=1)
    a.put_message("Q", text(clock, "dead", relative_ms=0))
    assert heard == ["1"]
    a.confirm_put_message("Q", uid)
    a.remove_message_listener("Q", hear)
    a.put_message("Q", text(clock, "3"))
    assert (heard, seen(a)) == (["1", "2"], ["1", "2", "3"])
    assert "LookupError" in caplog.text
    refused(rc.MQRC_OPTIONS_ERROR, lambda: a.remove_message_listener("Q", hear))


class Noting(QueueRule):
    """Notes which hooks were called, and refuses those that it is told to."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.refuses = ""

    def __getattribute__(self, name: str) -> object:
        if name.startswith("_") or name not in vars(QueueRule):
            return super().__getattribute__(name)

        def hook(*_: object) -> None:
            self.called.append(name)
            if name == self.refuses:
                raise RuleRefused("not today")

        return hook


def test_every_hook_is_called_at_its_moment(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    rule = Noting()
    a.connect(b)
    a.create_queue("Q", rule=rule, max_depth=1)
    a.add_message_listener("Q", print)
    a.remove_message_listener("Q", print)
    uid = a.put_message("Q", resent := text(clock))
    resent.put_boolean(MSG_RESEND, True)
    a.put_message("Q", resent)
    refused(rc.MQRC_Q_FULL, lambda: a.put_message("Q", text(clock)))
    a.browse_messages("Q")
    a.get_message("Q", confirm_id=1)
    a.undo("Q", 1)
    a.delete_message("Q", uid)
    a.alter_queue("Q", expiry_ms=10)
    a.put_message("Q", text(clock))
    clock.advance(10)
    a.deactivate_queue("Q")
    a.delete_queue("Q")
    assert rule.called == (
        "queue_activate add_listener remove_listener put_message put_message duplicate_message"
        " put_message"
        " threshold_exceeded browse_message get_message undo delete_message attribute_change"
        " put_message queue_close message_expired queue_activate queue_close queue_removed".split()
    )
    a.create_remote_queue("R", "B", asynchronous=True, rule=rule)
    a.put_message("R", text(clock))
    rule.called.clear()
    a.transmit_put("R")
    assert rule.called == ["transmit"]


def test_a_rule_may_refuse_and_nothing_has_happened(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    rule = Noting()
    a.create_queue("Q", rule=rule)
    uid = a.put_message("Q", text(clock))
    message = text(clock, "other")
    for hook, call in {
        "put_message": lambda: a.put_message("Q", message),
        "get_message": lambda: a.get_message("Q"),
        "browse_message": lambda: a.browse_messages("Q"),
        "delete_message": lambda: a.delete_message("Q", uid),
        "attribute_change": lambda: a.alter_queue("Q", expiry_ms=1),
        "add_listener": lambda: a.add_message_listener("Q", print),
    }.items():
        rule.refuses = hook
        assert "not today" in refused(rc.MQRC_NONE, call)
    rule.refuses = ""
    clock.advance(1_000)
    assert (seen(a), a.inquire_queue_size("Q")) == (["x"], 1)
    a.put_message("Q", message)
    assert seen(a) == ["x", "other"]
    assert a.get_message("Q", confirm_id=1) is not None
    rule.refuses = "undo"
    refused(rc.MQRC_NONE, lambda: a.undo("Q", 1))
    assert seen(a) == ["other"]


def test_M2_not_even_by_refusing(a: EveryplaceQueueManager, clock: VirtualClock) -> None:
    rule = Noting()
    rule.refuses = "message_expired"
    a.create_queue("Q", expiry_ms=10, rule=rule)
    a.put_message("Q", text(clock))
    clock.advance(10)
    assert a.inquire_queue_size("Q") == 0


def test_a_put_rule_may_change_the_message(a: EveryplaceQueueManager, clock: VirtualClock) -> None:
    class Hurry(QueueRule):
        def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
            message.put_byte(MSG_PRIORITY, 9)
            message.put_int("Msg_ExpireTime", 10)

    a.create_queue("Q", rule=Hurry())
    message = text(clock)
    a.put_message("Q", message)
    assert not message.contains(MSG_PRIORITY)
    (browsed,) = a.browse_messages("Q")
    assert browsed.priority == 9
    clock.advance(10)
    assert take(a) == "-"


def test_a_rule_that_gets_the_message_itself_leaves_the_next_one(
    a: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    class First(QueueRule):
        def __init__(self) -> None:
            self.mine = ""

        def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
            if not self.mine:
                self.mine = "…"
                self.mine = text_of(entry.owner.get_message(entry.queue))

    rule = First()
    a.create_queue("Q", rule=rule)
    a.put_message("Q", text(clock, "1"))
    a.put_message("Q", text(clock, "2"))
    assert (take(a), rule.mine, take(a)) == ("2", "1", "-")

"""What is wrong with a call is said, with the argument and what came, and nothing has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mayfly.everyplace import (
    EveryplaceError,
    EveryplaceQueueManager,
    Fault,
    Link,
    MessageFields,
    QueueRule,
)
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import refused, seen, take, text

Caller = Callable[[EveryplaceQueueManager, Any], object]

NO_TEXT: tuple[Any, ...] = (None, 5, [], {}, b"Q", "")

BY_QUEUE: dict[str, Caller] = {
    "create_queue": lambda a, queue: a.create_queue(queue),
    "create_remote_queue": lambda a, queue: a.create_remote_queue(queue, "B"),
    "create_home_server_queue": lambda a, queue: a.create_home_server_queue(queue, "B"),
    "alter_queue": lambda a, queue: a.alter_queue(queue, expiry_ms=1),
    "delete_queue": lambda a, queue: a.delete_queue(queue),
    "activate_queue": lambda a, queue: a.activate_queue(queue),
    "deactivate_queue": lambda a, queue: a.deactivate_queue(queue),
    "add_message_listener": lambda a, queue: a.add_message_listener(queue, print),
    "remove_message_listener": lambda a, queue: a.remove_message_listener(queue, print),
    "put_message": lambda a, queue: a.put_message(queue, MessageFields()),
    "confirm_put_message": lambda a, queue: a.confirm_put_message(queue, MessageFields().uid),
    "get_message": lambda a, queue: a.get_message(queue),
    "confirm_get_message": lambda a, queue: a.confirm_get_message(queue, MessageFields().uid),
    "undo": lambda a, queue: a.undo(queue, 1),
    "delete_message": lambda a, queue: a.delete_message(queue, MessageFields().uid),
    "browse_messages": lambda a, queue: a.browse_messages(queue),
    "inquire_queue_size": lambda a, queue: a.inquire_queue_size(queue),
    "transmit_put": lambda a, queue: a.transmit_put(queue),
    "transmit_confirm": lambda a, queue: a.transmit_confirm(queue),
    "pull": lambda a, queue: a.pull(queue),
}

BY_QUEUE_MANAGER: dict[str, Caller] = {
    "create_remote_queue": lambda a, name: a.create_remote_queue("R", name),
    "create_home_server_queue": lambda a, name: a.create_home_server_queue("R", name),
    "EveryplaceQueueManager": lambda _, name: EveryplaceQueueManager(name),
}

#: Here None is this queue manager.
BY_ANY_QUEUE_MANAGER: dict[str, Caller] = {
    "alter_queue": lambda a, name: a.alter_queue("Q", name, expiry_ms=1),
    "delete_queue": lambda a, name: a.delete_queue("Q", name),
    "activate_queue": lambda a, name: a.activate_queue("Q", name),
    "deactivate_queue": lambda a, name: a.deactivate_queue("Q", name),
    "put_message": lambda a, name: a.put_message("Q", MessageFields(), name),
    "get_message": lambda a, name: a.get_message("Q", name),
    "undo": lambda a, name: a.undo("Q", 1, name),
    "browse_messages": lambda a, name: a.browse_messages("Q", name),
    "inquire_queue_size": lambda a, name: a.inquire_queue_size("Q", name),
}

BY_UID: dict[str, Caller] = {
    "confirm_put_message": lambda a, uid: a.confirm_put_message("Q", uid),
    "confirm_get_message": lambda a, uid: a.confirm_get_message("Q", uid),
    "delete_message": lambda a, uid: a.delete_message("Q", uid),
}


def said_of(reason: int, call: Caller, a: EveryplaceQueueManager, value: object) -> str:
    """Return what the refusal of a value says."""
    return refused(reason, lambda: call(a, value))


@pytest.mark.parametrize("verb", BY_QUEUE)
def test_a_queue_name_is_a_text(a: EveryplaceQueueManager, verb: str) -> None:
    for name in NO_TEXT:
        said = said_of(rc.MQRC_OBJECT_NAME_ERROR, BY_QUEUE[verb], a, name)
        assert f"queue name {name!r}" in said


@pytest.mark.parametrize("verb", BY_QUEUE_MANAGER)
def test_a_queue_manager_name_is_a_text(a: EveryplaceQueueManager, verb: str) -> None:
    for name in NO_TEXT:
        said = said_of(rc.MQRC_OBJECT_NAME_ERROR, BY_QUEUE_MANAGER[verb], a, name)
        assert f"queue manager name {name!r}" in said


@pytest.mark.parametrize("verb", BY_ANY_QUEUE_MANAGER)
def test_a_queue_manager_is_a_text_or_None(a: EveryplaceQueueManager, verb: str) -> None:
    a.create_queue("Q")
    for name in NO_TEXT[1:]:
        said = said_of(rc.MQRC_OBJECT_NAME_ERROR, BY_ANY_QUEUE_MANAGER[verb], a, name)
        assert f"queue manager name {name!r}" in said


@pytest.mark.parametrize("verb", BY_UID)
def test_a_uid_is_that_of_a_message(a: EveryplaceQueueManager, verb: str) -> None:
    a.create_queue("Q")
    no_uids: tuple[Any, ...] = (None, 5, [], "A", ("A", 1, 1), MessageFields())
    for uid in no_uids:
        assert f"uid {uid!r}" in said_of(rc.MQRC_OPTIONS_ERROR, BY_UID[verb], a, uid)
    said_of(rc.MQRC_NO_MSG_AVAILABLE, BY_UID[verb], a, MessageFields().uid)


@pytest.mark.parametrize("fields", [None, 5, b"data", "data", {"MsgData": "x"}])
def test_what_is_put_is_a_message(a: EveryplaceQueueManager, fields: Any) -> None:
    a.create_queue("Q")
    assert repr(fields) in refused(rc.MQRC_FORMAT_ERROR, lambda: a.put_message("Q", fields))
    assert a.inquire_queue_size("Q") == 0


@pytest.mark.parametrize("rule", [QueueRule, "rule", 0, [], print])
def test_a_rule_is_one_and_not_its_class(a: EveryplaceQueueManager, rule: Any) -> None:
    """A class would be called without its self, and M17 would hide that."""
    for create in (
        lambda: a.create_queue("Q", rule=rule),
        lambda: a.create_remote_queue("Q", "B", rule=rule),
        lambda: a.create_remote_queue("Q", "B", asynchronous=True, rule=rule),
        lambda: a.create_home_server_queue("Q", "B", rule=rule),
    ):
        assert f"rule {rule!r}" in refused(rc.MQRC_OPTIONS_ERROR, create)
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.delete_queue("Q"))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("Q"))


@pytest.mark.parametrize("listener", [None, 0, "print", MessageFields()])
def test_a_listener_can_be_called(
    a: EveryplaceQueueManager, clock: VirtualClock, listener: Any
) -> None:
    a.create_queue("Q")
    said = refused(rc.MQRC_OPTIONS_ERROR, lambda: a.add_message_listener("Q", listener))
    assert repr(listener) in said
    refused(rc.MQRC_OPTIONS_ERROR, lambda: a.remove_message_listener("Q", listener))
    a.put_message("Q", text(clock))
    assert take(a) == "x"


@pytest.mark.parametrize("clock_given", [0, "", [], "now", 1_700_000_000_000])
def test_a_clock_tells_the_time(clock_given: Any) -> None:
    said = refused(rc.MQRC_OPTIONS_ERROR, lambda: MessageFields(clock_given))
    assert f"clock {clock_given!r}" in said
    refused(rc.MQRC_OPTIONS_ERROR, lambda: EveryplaceQueueManager("A", clock_given))


@pytest.mark.parametrize("name", NO_TEXT)
def test_a_field_name_is_a_text(clock: VirtualClock, name: Any) -> None:
    message = MessageFields(clock=clock)
    for call in (message.get_int, message.get_array_of_byte, message.contains, message.delete):
        said = refused(rc.MQRC_PROPERTY_NAME_ERROR, lambda call=call: call(name))  # type: ignore[misc]  # bound in its turn
        assert f"field name {name!r}" in said


def test_a_queue_manager_is_its_own_partner_nowhere(a: EveryplaceQueueManager) -> None:
    for other in (None, "B", 5):
        with pytest.raises(EveryplaceError, match=f"other {other!r}"):
            a.connect(other)  # type: ignore[arg-type]  # that is the question
    refused(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, lambda: a.create_home_server_queue("Q", "A"))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.inquire_queue_size("Q"))


def test_a_second_queue_manager_of_a_name_is_not_taken_for_the_first(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link
) -> None:
    """Its numbers begin again: what it sent would pass for what the first one has finished."""
    assert (a.connect(b), b.connect(a)) == (link, link)
    second = EveryplaceQueueManager("B")
    said = refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.connect(second))
    assert "A and B" in said
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: second.connect(a))
    refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, lambda: second.inquire_queue_size("Q", "A"))


def test_faults_go_by_their_names(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link
) -> None:
    b.create_queue("Q")
    said = refused(rc.MQRC_OPTIONS_ERROR, lambda: link.fail_next(Fault.DROP, "lost"))  # type: ignore[arg-type]  # that is the question
    assert "lost" in said
    assert "drop_answer" in said
    assert a.inquire_queue_size("Q", "B") == 0
    link.fail_next("drop")  # type: ignore[arg-type]  # a Fault is a str
    refused(rc.MQRC_HOST_NOT_AVAILABLE, lambda: a.inquire_queue_size("Q", "B"))


def test_a_queue_that_several_have_is_named_with_its_queue_manager(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    for partner in ("B", "C"):
        a.create_remote_queue("Q", partner, asynchronous=True)
        a.put_message("Q", text(clock, partner), partner)
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.alter_queue("Q", expiry_ms=5))
    a.alter_queue("Q", "C", expiry_ms=5)
    clock.advance(5)
    a.deactivate_queue("Q", "B")
    a.activate_queue("Q", "B")
    a.activate_queue("Q", "C")
    shown = [message.get_ascii("MsgData") for message in a.browse_messages("Q", "B")]
    assert (shown, a.browse_messages("Q", "C")) == (["B"], [])
    a.create_queue("Q")
    a.alter_queue("Q", max_depth=1)
    assert seen(a) == []
    refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, lambda: a.alter_queue("Q", "D", expiry_ms=5))

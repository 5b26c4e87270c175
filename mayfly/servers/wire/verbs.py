"""The verbs of a client, carried out on its conversation: in the loop or on another thread.

A verb of AT_ONCE neither waits nor syncs: it runs in the loop of the server. A verb that may wait
or sync has a callback form, or runs on a thread that may block.
"""

from __future__ import annotations

from typing import Any

from mayfly.connection.interface import UnderWay
from mayfly.connection.values import Settlement, check_most
from mayfly.connection.wire_values import row_of_delivery, row_of_message, row_of_put, row_of_result
from mayfly.contracts.wire import MOST_GOT_BYTES, MOST_GOT_IN_FRAME
from mayfly.contracts.wire_verbs import Verb
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.servers.wire.begun import Begins, Tell
from mayfly.servers.wire.operating_verbs import OPERATING, Caller, Runs
from mayfly.servers.wire.put_verbs import put, put_several
from mayfly.servers.wire.topic_verbs import TOPICS

#: MsgIds for one request: they are made in the loop.
_MOST_IDS = 256
_SYNCPOINT_GETS = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT


def _unlock(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.unlock(*fields)


def _status(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.status()


def _inquire(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.objects.inquire(*fields)


def _lives_from_release(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.objects.lives_from_release(*fields)


def _backout_rule(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.objects.backout_rule(*fields)


def _command_level(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.objects.command_level()


def _new_ids(conversation: Caller, fields: list[Any]) -> Any:
    count = min(max(fields[0], 1), _MOST_IDS)
    connection = conversation.connection
    return connection.now_ms(), b"".join(connection.got_messages.new_ids(count))


def _now(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.now_ms()


AT_ONCE: dict[int, Runs] = {
    Verb.UNLOCK: _unlock,
    Verb.STATUS: _status,
    Verb.INQUIRE: _inquire,
    Verb.LIVES_FROM_RELEASE: _lives_from_release,
    Verb.BACKOUT_RULE: _backout_rule,
    Verb.COMMAND_LEVEL: _command_level,
    Verb.NEW_IDS: _new_ids,
    Verb.NOW: _now,
}


def _get(conversation: Caller, fields: list[Any], tell: Tell) -> tuple[Any] | UnderWay:
    handle, options, wait_ms, max_length, msg_id, correl_id, group_id, number, offset = fields[:9]
    token, in_handle, with_extension = fields[9:]
    if options & _SYNCPOINT_GETS:
        conversation.begin_unit_of_work()
    standing = conversation.connection.calls.prepare_fetch(
        handle,
        options,
        on_done=lambda outcome: tell(
            outcome if isinstance(outcome, MQError) else row_of_result(outcome)
        ),
        wait_ms=wait_ms,
        max_length=max_length,
        msg_id=msg_id,
        correl_id=correl_id,
        group_id=group_id,
        sequence_number=number,
        offset=offset,
        token=token,
        in_handle=in_handle,
        with_extension=with_extension,
    )
    outcome = standing.begin_at_once()
    if outcome is None:
        return standing
    if isinstance(outcome, MQError):
        raise outcome
    return (row_of_result(outcome),)


def _get_any(conversation: Caller, fields: list[Any], tell: Tell) -> UnderWay:
    handles, options, wait_ms, max_length, msg_id, correl_id, tells_refusals = fields
    if options & c.MQGMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    return conversation.connection.asynchronous.get_any(
        handles,
        options,
        on_done=lambda outcome: tell(
            outcome if isinstance(outcome, MQError) else row_of_delivery(outcome)
        ),
        wait_ms=wait_ms,
        max_length=max_length,
        msg_id=msg_id,
        correl_id=correl_id,
        on_refused=tell.refused if tells_refusals else None,
    )


def _wait_until(conversation: Caller, fields: list[Any], tell: Tell) -> UnderWay:
    return conversation.connection.asynchronous.wait_until(*fields, on_done=tell)


def _await_definitions(conversation: Caller, _fields: list[Any], tell: Tell) -> UnderWay:
    return conversation.connection.asynchronous.await_definitions(on_done=tell)


def _commit(conversation: Caller, _fields: list[Any], tell: Tell) -> UnderWay:
    conversation.end_unit_of_work()
    return conversation.connection.asynchronous.commit(tell)


def _settle(conversation: Caller, fields: list[Any], tell: Tell) -> UnderWay:
    numbers, settlement, reason, within = fields
    if within:
        conversation.check_neighbour(within)
    return conversation.connection.asynchronous.settle(
        numbers, Settlement(settlement), reason=reason, within=within, on_done=tell
    )


BEGUN: dict[int, Begins] = {
    Verb.PUT: put,
    Verb.PUTS: put_several,
    Verb.GET: _get,
    Verb.GET_ANY: _get_any,
    Verb.WAIT_UNTIL: _wait_until,
    Verb.AWAIT_DEFINITIONS: _await_definitions,
    Verb.COMMIT: _commit,
    Verb.SETTLE: _settle,
}


def _open(conversation: Caller, fields: list[Any]) -> Any:
    name, options, kind, manager, topic, dynamic_name, selector, alternate_user = fields
    return conversation.connection.open(
        name,
        options,
        kind=kind,
        manager=manager,
        topic=topic,
        dynamic_name=dynamic_name,
        selector=selector,
        alternate_user=alternate_user,
    )


def _close_object(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.close_object(*fields)


def _put1(conversation: Caller, fields: list[Any]) -> Any:
    name, body, descriptor, options, kind, manager, topic, msg_id, correl_id, life_ms = fields[:10]
    if options & c.MQPMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    result = conversation.connection.put1(
        name,
        body,
        descriptor,
        options,
        kind=kind,
        manager=manager,
        topic=topic,
        msg_id=msg_id,
        correl_id=correl_id,
        time_to_live_ms=life_ms,
        delay_ms=fields[10],
    )
    return row_of_put(result)


def _get_at_cursor(conversation: Caller, fields: list[Any]) -> Any:
    handle, options, wait_ms, max_length, msg_id, correl_id, group_id, number, offset = fields[:9]
    token, in_handle, with_extension = fields[9:]
    if options & _SYNCPOINT_GETS:
        conversation.begin_unit_of_work()
    result = conversation.connection.get(
        handle,
        options,
        wait_ms=wait_ms,
        max_length=max_length,
        msg_id=msg_id,
        correl_id=correl_id,
        group_id=group_id,
        sequence_number=number,
        offset=offset,
        token=token,
        in_handle=in_handle,
        with_extension=with_extension,
    )
    return row_of_result(result)


def _get_many(conversation: Caller, fields: list[Any]) -> Any:
    handle, options, most, most_bytes = fields
    if options & c.MQGMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    check_most(most)
    most, most_bytes = min(most, MOST_GOT_IN_FRAME), min(most_bytes, MOST_GOT_BYTES)
    found = conversation.connection.many.get(handle, options, most, most_bytes)
    return [row_of_message(message) for message in found]


def _backout(conversation: Caller, _fields: list[Any]) -> None:
    conversation.end_unit_of_work()
    conversation.connection.backout()


def _forward(conversation: Caller, fields: list[Any]) -> None:
    queue, token, name = fields
    got = conversation.connection.got_messages
    # As in one process the name is looked at before the message.
    got.check_target(name)
    got.forward(got.found(queue, token), name)


def _move(conversation: Caller, fields: list[Any]) -> int:
    handle, name, descriptor, header_bytes, putter = fields
    conversation.begin_unit_of_work()
    return conversation.connection.onward.move(
        handle, name, descriptor=descriptor, header_bytes=header_bytes, putter=putter
    )


def _reply(conversation: Caller, fields: list[Any]) -> int:
    name, manager, body, descriptor, putter, msg_id, correl_id, life_ms = fields
    conversation.begin_unit_of_work()
    return conversation.connection.onward.reply(
        name,
        manager,
        body,
        descriptor,
        putter=putter,
        msg_id=msg_id,
        correl_id=correl_id,
        time_to_live_ms=life_ms,
    )


def _dead_letter(conversation: Caller, fields: list[Any]) -> None:
    queue, token, reason = fields
    got = conversation.connection.got_messages
    got.dead_letter(got.found(queue, token), reason)


def _report_exception(conversation: Caller, fields: list[Any]) -> bool:
    queue, token, reason = fields
    got = conversation.connection.got_messages
    return got.report_exception(got.found(queue, token), reason)


def _set(conversation: Caller, fields: list[Any]) -> None:
    handle, values = fields
    conversation.connection.objects.set(handle, dict(values))


#: GET is here, too: one under the cursor never waits, and may sync.
BLOCKING: dict[int, Runs] = {
    Verb.OPEN: _open,
    Verb.CLOSE_OBJECT: _close_object,
    Verb.GET: _get_at_cursor,
    Verb.GET_MANY: _get_many,
    Verb.BACKOUT: _backout,
    Verb.SET: _set,
    Verb.PUT1: _put1,
    Verb.FORWARD: _forward,
    Verb.MOVE: _move,
    Verb.REPLY: _reply,
    Verb.DEAD_LETTER: _dead_letter,
    Verb.REPORT_EXCEPTION: _report_exception,
    **TOPICS,
    **OPERATING,
}

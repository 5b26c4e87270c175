"""MQPUT over the wire: one message a request, or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mayfly.connection.interface import UnderWay
from mayfly.connection.local_puts import PutTarget, SeveralPuts
from mayfly.connection.values import NewMessage, PutOutcome
from mayfly.connection.wire_values import properties_of_rows, row_of_put
from mayfly.contracts.wire_fields import WrongFrame
from mayfly.contracts.wire_mistakes import reason_of
from mayfly.contracts.wire_rows import PUT_MESSAGE
from mayfly.contracts.wire_verbs import Verb
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.servers.wire.begun import Tell
from mayfly.servers.wire.operating_verbs import Caller


def put(conversation: Caller, fields: list[Any], tell: Tell) -> tuple[Any] | UnderWay:
    """Begin to put a message."""
    handle, body, descriptor, options, *said, rows, context = fields
    if options & c.MQPMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    calls = conversation.connection.calls
    properties = properties_of_rows(rows) if rows else ()
    result, completion = calls.attempt_put(
        PutTarget(handle, descriptor, options, context),
        NewMessage._make((body, *said, properties)),
    )
    if completion.is_empty:
        return (row_of_put(result),)
    return calls.end_with(
        completion,
        lambda outcome: tell(outcome if isinstance(outcome, MQError) else row_of_put(outcome)),
        result,
    )


def put_several(conversation: Caller, fields: list[Any], tell: Tell) -> tuple[Any] | UnderWay:
    """Begin to put several messages to one queue, each by itself."""
    handle, descriptor, options, context, messages = fields
    if options & c.MQPMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    target = PutTarget(handle, descriptor, options, context)
    puts = SeveralPuts(conversation.connection.calls, target)
    for message in messages:
        try:
            said = PUT_MESSAGE.of(message)
        except WrongFrame as wrong:
            puts.refuse(mq_error(reason_of(Verb.PUT, wrong.field), str(wrong)))
        else:
            if said[-1]:
                said[-1] = properties_of_rows(said[-1])
            puts.put(NewMessage._make(said))
    has_results = not options & c.MQPMO_ASYNC_RESPONSE
    under_way = puts.end_with(lambda outcomes: tell(_answer(outcomes, has_results)))
    return (_answer(puts.outcomes, has_results),) if under_way is None else under_way


def _answer(outcomes: Sequence[PutOutcome], has_results: bool) -> list[Any]:
    """Return what became of several puts as it travels."""
    failed = [
        [place, failure_of(outcome)]
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, MQError)
    ]
    results = [
        None if isinstance(outcome, MQError) else row_of_put(outcome)
        for outcome in (outcomes if has_results else ())
    ]
    return [results, failed]

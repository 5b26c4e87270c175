"""The outcome of a command: its messages, and those of runmqsc for reason codes of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mayfly.admin import Record, Value
from mayfly.admin.mqsc.display import Selection, body
from mayfly.admin.mqsc.grammar import Command, Parameter
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.verbs.mqsc_result import Message

_NOT_FOUND = ("AMQ8147E", "IBM MQ object {name} not found.")
_EXISTS = ("AMQ8150E", "IBM MQ object {name} already exists.")
_IN_USE = ("AMQ8148E", "IBM MQ object {name} in use.")
_NOT_AVAILABLE = ("AMQ8146E", "IBM MQ queue manager not available.")
#: Reason code -> message of runmqsc; any other is AMQ8101S.
_FAILURES: dict[int, tuple[str, str]] = {
    rc.MQRC_UNKNOWN_OBJECT_NAME: _NOT_FOUND,
    # There is a queue of that name, but of another kind.
    rc.MQRC_OBJECT_TYPE_ERROR: _NOT_FOUND,
    rc.MQRC_NO_SUBSCRIPTION: _NOT_FOUND,
    rc.MQRC_OBJECT_ALREADY_EXISTS: _EXISTS,
    rc.MQRC_SUB_ALREADY_EXISTS: _EXISTS,
    rc.MQRC_OBJECT_IN_USE: _IN_USE,
    rc.MQRC_SUBSCRIPTION_IN_USE: _IN_USE,
    rc.MQRC_Q_NOT_EMPTY: ("AMQ8143E", "IBM MQ queue {name} not empty."),
    rc.MQRC_NOT_AUTHORIZED: ("AMQ8135E", "Not authorized."),
    rc.MQRC_CONNECTION_BROKEN: _NOT_AVAILABLE,
    rc.MQRC_Q_MGR_NOT_AVAILABLE: _NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The messages of a command, and the objects it shows."""

    messages: tuple[Message, ...]
    rows: tuple[dict[str, Value], ...] = ()


def failure(error: MQError, about: Parameter) -> Message:
    """Return what runmqsc says to an error of the engine."""
    name = about.values[0].text if about.values else about.keyword
    code, text = _FAILURES.get(error.reason, ("AMQ8101S", f"IBM MQ error has occurred: {error}"))
    return Message(code, text.replace("{name}", name), reason=error.reason)


def done(code: str, text: str) -> Outcome:
    """Return the outcome of a command that was carried out."""
    return Outcome((Message(code, text),))


def not_found(name: str) -> Outcome:
    """Return the outcome of a command about something that is not there."""
    code, text = _NOT_FOUND
    message = Message(code, text.format(name=name), reason=rc.MQRC_UNKNOWN_OBJECT_NAME)
    return Outcome((message,))


def shown(
    records: Iterable[Record], wanted: Selection, pattern: str, heading: tuple[str, str]
) -> Outcome:
    """Return the outcome of a DISPLAY: one message for each object that is wanted."""
    found = [row for row in map(wanted.of, records) if row is not None]
    if not found:
        return not_found(pattern)
    return Outcome(tuple(Message(*heading, body(row)) for row in found), tuple(found))


def nothing_else(command: Command, kind: str, given: dict[str, Parameter]) -> None:
    """Refuse keywords that are left over."""
    for parameter in given.values():
        raise parameter.wrong(f"{parameter.keyword} is not a keyword of {command.verb} {kind}")

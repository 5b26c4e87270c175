"""The MQSC commands about channels that are not about their definitions: status, start, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mayfly.admin import SEQUENCE, channels_of, inquire, number_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqsc.display import selection
from mayfly.mqsc.grammar import Command, Parameter, fold
from mayfly.mqsc.outcome import Outcome, done, nothing_else, shown
from mayfly.mqsc.result import Message
from mayfly.mqsc.values import distinct, object_name, one_value

if TYPE_CHECKING:
    from mayfly.admin import Manager

_NAME_LENGTH: Final = 20
_DETAILS = ("AMQ8417I", "Display Channel Status details.")


def display_status(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY CHSTATUS(generic) [attributes] [WHERE()]: channels that were ever started."""
    pattern = object_name(command.object, generic=True)
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    found = inquire(queue_manager, (kind,), pattern)
    if not found:
        text = "Channel Status not found."
        return Outcome((Message("AMQ8420I", text, reason=rc.MQRC_UNKNOWN_OBJECT_NAME),))
    return shown(found, wanted, pattern, _DETAILS)


def start(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """START CHANNEL(name)."""
    name = name_of(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    channels_of(queue_manager).start(name)
    return done("AMQ8018I", "Start IBM MQ channel accepted.")


def stop(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """STOP CHANNEL(name) [MODE(QUIESCE | FORCE)]."""
    name = name_of(command.object)
    given = distinct(command.parameters)
    mode = _word(given.pop("MODE", None), ("QUIESCE", "FORCE"))
    nothing_else(command, kind, given)
    channels_of(queue_manager).stop(name, is_forced=mode == "FORCE")
    return done("AMQ8019I", "Stop IBM MQ channel accepted.")


def reset(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """RESET CHANNEL(name) [SEQNUM(n)]: the number of the next message, 1 without it."""
    name = name_of(command.object)
    given = distinct(command.parameters)
    number = given.pop("SEQNUM", None)
    sequence = 1 if number is None else _sequence(number)
    nothing_else(command, kind, given)
    channels_of(queue_manager).reset(name, sequence)
    return done("AMQ8023I", "IBM MQ channel reset.")


def resolve(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """RESOLVE CHANNEL(name) ACTION(COMMIT | BACKOUT)."""
    name = name_of(command.object)
    given = distinct(command.parameters)
    if "ACTION" not in given:
        raise command.object.wrong("ACTION is missing: COMMIT or BACKOUT")
    action = _word(given.pop("ACTION"), ("COMMIT", "BACKOUT"))
    nothing_else(command, kind, given)
    channels_of(queue_manager).resolve(name, is_committed=action == "COMMIT")
    return done("AMQ8025I", "IBM MQ channel resolved.")


def ping(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """PING CHANNEL(name): whether its partner answers."""
    name = name_of(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    try:
        channels_of(queue_manager).ping(name)
    except OSError as error:
        text = f"The remote channel '{name}' is not currently available: {error}."
        return Outcome((Message("AMQ9558E", text, reason=rc.MQRC_Q_MGR_NOT_AVAILABLE),))
    except MQError as error:
        if error.reason != rc.MQRC_UNKNOWN_CHANNEL_NAME:
            raise
        return Outcome((Message("AMQ9519E", f"Channel '{name}' not found.", reason=error.reason),))
    return done("AMQ8020I", "Ping IBM MQ channel complete.")


def name_of(parameter: Parameter) -> str:
    """Return the name of a channel, which is shorter than that of other objects."""
    name = object_name(parameter)
    if len(name) > _NAME_LENGTH:
        raise parameter.wrong(f"{name} is {len(name)} characters long; it may have {_NAME_LENGTH}")
    return name


def _word(parameter: Parameter | None, words: tuple[str, ...]) -> str:
    if parameter is None:
        return words[0]
    word = fold(one_value(parameter))
    if word not in words:
        raise parameter.wrong(f"{parameter} is not right: it must be {' or '.join(words)}")
    return word


def _sequence(parameter: Parameter) -> int:
    number = number_of(SEQUENCE, one_value(parameter))
    if number is None:
        raise parameter.wrong(f"{parameter} is not right: it must be 1 to {SEQUENCE.high}")
    return number

"""The MQSC commands about channels: their definitions, and what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mayfly.channel.addresses import addresses_of
from mayfly.channel.channels import channels_of
from mayfly.channel.status import ChannelStatus
from mayfly.engine.attributes import attributes_of
from mayfly.engine.attributes.attribute import CHANNEL, Value
from mayfly.engine.attributes.of_channels import (
    ANY_TLS,
    RECEIVER_ONLY,
    SENDER_ONLY,
)
from mayfly.engine.objects.named import (
    alter_named,
    define_named,
    delete_named,
    find_named,
    named_of,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqi.selectors import MQCHT_RECEIVER, MQCHT_SENDER, MQXPT_TCP
from mayfly.mqsc.display import selection
from mayfly.mqsc.grammar import Command, Parameter, fold
from mayfly.mqsc.outcome import Outcome, done, nothing_else, shown
from mayfly.mqsc.result import Message
from mayfly.mqsc.values import (
    GENERIC,
    distinct,
    matches,
    number_of,
    object_name,
    one_value,
    settings,
    switch,
    word_of,
)

if TYPE_CHECKING:
    from mayfly.engine.attributes.definition import Definition
    from mayfly.engine.manager import Manager

_NAME_LENGTH: Final = 20
_TYPE: Final = "CHLTYPE"
_NEEDED: Final = ("XMITQ", "CONNAME")
_DETAILS = ("AMQ8414I", "Display Channel details.")
_STATUS_DETAILS = ("AMQ8417I", "Display Channel Status details.")


def define(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DEFINE CHANNEL(name) CHLTYPE(SDR | RCVR) [LIKE(name)] [REPLACE] attributes."""
    name = _name(command.object)
    given = distinct(command.parameters)
    replace = switch(given, "REPLACE")
    like = given.pop("LIKE", None)
    if _TYPE not in given:
        raise command.object.wrong(f"{_TYPE} is missing: SDR or RCVR")
    attributes = settings(given, kind)
    existing = queue_manager.registry.named.get((kind, name))
    model = existing if replace else None
    if like is not None:
        model = find_named(queue_manager, kind, _name(like))
    inherited = {} if model is None else model.attributes
    if model is not None and model.attributes[_TYPE] != attributes[_TYPE]:
        raise given[_TYPE].wrong(f"{model.name} is a channel of another {_TYPE}")
    _check_type(given, attributes[_TYPE])
    attributes = {**inherited, **attributes}
    if attributes[_TYPE] == MQCHT_SENDER:
        for keyword in _NEEDED:
            if not attributes.get(keyword):
                raise command.object.wrong(f"{keyword} is missing: a sender needs it")
        _check_network(command.object, attributes)
    define_named(queue_manager, kind, name, attributes, replace=replace)
    return done("AMQ8014I", "IBM MQ channel created.")


def alter(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """ALTER CHANNEL(name) [CHLTYPE(type)] attributes, which count from the next start on."""
    name = _name(command.object)
    given = distinct(command.parameters)
    attributes = settings(given, kind)
    existing = find_named(queue_manager, kind, name).attributes
    before = existing[_TYPE]
    if attributes.setdefault(_TYPE, before) != before:
        raise given[_TYPE].wrong(f"{_TYPE} cannot be changed")
    _check_type(given, before)
    for keyword in _NEEDED:
        if before == MQCHT_SENDER and attributes.get(keyword) == "":
            raise given[keyword].wrong(f"{keyword} is missing: a sender needs it")
    if before == MQCHT_SENDER:
        _check_network(command.object, {**existing, **attributes})
    alter_named(queue_manager, kind, name, attributes)
    return done("AMQ8016I", "IBM MQ channel changed.")


def delete(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DELETE CHANNEL(name), which must not be started."""
    name = _name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    find_named(queue_manager, kind, name)
    channels_of(queue_manager).forget(name)
    delete_named(queue_manager, kind, name)
    return done("AMQ8015I", "IBM MQ channel deleted.")


def display(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY CHANNEL(generic) [attributes] [WHERE()]."""
    pattern = object_name(command.object, generic=True)
    wanted = selection(distinct(command.parameters), (kind,), generic=pattern.endswith(GENERIC))
    with queue_manager.latch:
        found = [d for d in named_of(queue_manager, kind) if matches(d.name, pattern)]
    return shown(map(_row, found), wanted, pattern, _DETAILS)


def display_status(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY CHSTATUS(generic) [attributes] [WHERE()]: what was ever started."""
    pattern = object_name(command.object, generic=True)
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    channels = channels_of(queue_manager)
    names = [d.name for d in named_of(queue_manager, CHANNEL) if matches(d.name, pattern)]
    known = {state.name for state in queue_manager.shipments.states()}
    rows = [
        _status_row(standing)
        for name in names
        for standing in channels.status(name)
        if name in known or not standing.is_sender
    ]
    if not rows:
        text = "Channel Status not found."
        return Outcome((Message("AMQ8420I", text, reason=rc.MQRC_UNKNOWN_OBJECT_NAME),))
    return shown(rows, wanted, pattern, _STATUS_DETAILS)


def start(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """START CHANNEL(name)."""
    name = _name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    channels_of(queue_manager).start(name)
    return done("AMQ8018I", "Start IBM MQ channel accepted.")


def stop(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """STOP CHANNEL(name) [MODE(QUIESCE | FORCE)]."""
    name = _name(command.object)
    given = distinct(command.parameters)
    mode = _word(given.pop("MODE", None), ("QUIESCE", "FORCE"))
    nothing_else(command, kind, given)
    channels_of(queue_manager).stop(name, is_forced=mode == "FORCE")
    return done("AMQ8019I", "Stop IBM MQ channel accepted.")


def reset(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """RESET CHANNEL(name) [SEQNUM(n)]: the number of the next message, 1 without it."""
    name = _name(command.object)
    given = distinct(command.parameters)
    number = given.pop("SEQNUM", None)
    sequence = 1 if number is None else _sequence(number)
    nothing_else(command, kind, given)
    channels_of(queue_manager).reset(name, sequence)
    return done("AMQ8023I", "IBM MQ channel reset.")


def resolve(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """RESOLVE CHANNEL(name) ACTION(COMMIT | BACKOUT)."""
    name = _name(command.object)
    given = distinct(command.parameters)
    if "ACTION" not in given:
        raise command.object.wrong("ACTION is missing: COMMIT or BACKOUT")
    action = _word(given.pop("ACTION"), ("COMMIT", "BACKOUT"))
    nothing_else(command, kind, given)
    channels_of(queue_manager).resolve(name, is_committed=action == "COMMIT")
    return done("AMQ8025I", "IBM MQ channel resolved.")


def ping(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """PING CHANNEL(name): whether its partner answers."""
    name = _name(command.object)
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


def _name(parameter: Parameter) -> str:
    name = object_name(parameter)
    if len(name) > _NAME_LENGTH:
        raise parameter.wrong(f"{name} is {len(name)} characters long; it may have {_NAME_LENGTH}")
    return name


def _check_type(given: dict[str, Parameter], channel_type: Value) -> None:
    others = RECEIVER_ONLY if channel_type == MQCHT_SENDER else SENDER_ONLY
    word = word_of(attributes_of(CHANNEL)[_TYPE], channel_type)
    for keyword, parameter in given.items():
        if keyword in others:
            raise parameter.wrong(f"{keyword} is not a keyword of CHANNEL {_TYPE}({word})")


def _check_network(parameter: Parameter, attributes: Mapping[str, Value]) -> None:
    """Check what a sender says of the way to its partner."""
    if attributes.get("SSLCIPH", "") not in ("", ANY_TLS):
        raise parameter.wrong(f"SSLCIPH must be blank or {ANY_TLS}")
    if attributes.get("TRPTYPE") == MQXPT_TCP:
        try:
            addresses_of(str(attributes["CONNAME"]))
        except ValueError as error:
            raise parameter.wrong(f"CONNAME: {error}") from error


def _word(parameter: Parameter | None, words: tuple[str, ...]) -> str:
    if parameter is None:
        return words[0]
    word = fold(one_value(parameter))
    if word not in words:
        raise parameter.wrong(f"{parameter} is not right: it must be {' or '.join(words)}")
    return word


def _sequence(parameter: Parameter) -> int:
    attribute = attributes_of(CHANNEL)["SEQWRAP"]._replace(low=1)
    number = number_of(attribute, one_value(parameter))
    if number is None:
        raise parameter.wrong(f"{parameter} is not right: it must be 1 to {attribute.high}")
    return number


def _row(definition: Definition) -> dict[str, Value]:
    values = definition.attributes
    others = RECEIVER_ONLY if values[_TYPE] == MQCHT_SENDER else SENDER_ONLY
    known = attributes_of(CHANNEL).items()
    words = {k: word_of(a, values[k]) for k, a in known if k not in others}
    return {CHANNEL: definition.name, **words}


def _status_row(standing: ChannelStatus) -> dict[str, Value]:
    types = attributes_of(CHANNEL)[_TYPE]
    return {
        CHANNEL: standing.name,
        _TYPE: word_of(types, MQCHT_SENDER if standing.is_sender else MQCHT_RECEIVER),
        "STATUS": str(standing.status),
        "CONNAME": standing.connection,
        "RQMNAME": standing.partner,
        "XMITQ": standing.transmission_queue,
        "MSGS": standing.message_count,
        "BATCHES": standing.batch_count,
        "CURSEQNO": standing.current_sequence,
        "LSTSEQNO": standing.sequence,
        "CURLUWID": standing.current_luw,
        "LSTLUWID": standing.luw,
        "INDOUBT": "YES" if standing.is_in_doubt else "NO",
        "SHORTRTS": standing.short_retries_left,
        "LONGRTS": standing.long_retries_left,
        "FAILURE": standing.failure,
    }

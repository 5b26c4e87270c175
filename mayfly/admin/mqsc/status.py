"""MQSC commands about status: of channels with their start and stop, connections, topics, queues.

And those about statistics, and REFRESH QMGR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mayfly.admin import (
    CHANNEL,
    CLNTCONN,
    CONN,
    HANDLE,
    INPUT_TYPES,
    PUBSUB,
    QSTATUS_HANDLE,
    QUEUE_KINDS,
    REFRESH_INTERVAL,
    REFRESHABLE,
    SBSTATUS,
    SEQUENCE,
    SUB,
    TOPIC,
    TPSTATUS_SUB,
    AdminError,
    Record,
    Value,
    allowed,
    channels_of,
    discard_now,
    fold,
    inquire,
    move_messages,
    named,
    number_of,
    object_type,
    report_configuration,
    reset_queue_statistics,
    stop_channel,
    stop_channel_instances,
    stop_connection,
)
from mayfly.admin.mqsc.display import (
    Reply,
    body,
    done,
    not_found,
    nothing_else,
    row_of,
    selection,
    shown,
)
from mayfly.admin.mqsc.grammar import (
    GENERIC,
    Command,
    Parameter,
    distinct,
    object_name,
    one_value,
    word_of,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.verbs.facts import MqscMessage

if TYPE_CHECKING:
    from mayfly.admin import Engine


_NAME_LENGTH: Final = 20
_CHANNEL_TYPE: Final = "CHLTYPE"
_TYPE_ROW: Final = object_type(CHANNEL).attributes[_CHANNEL_TYPE]
_ALL_TYPES: Final = "ALL"
_TABLES: Final = ("QMGRTAB", "CLNTTAB")
_DETAILS = ("AMQ8417I", "Display Channel Status details.")
_CONN_KINDS: Final = {CONN: (CONN,), HANDLE: (HANDLE,), "ALL": (CONN, HANDLE)}
_CONN_DETAILS: Final = ("AMQ8276I", "Display Connection details.")


def display(queue_manager: Engine, command: Command, _kind: str) -> Reply:
    """Run DISPLAY CHANNEL(generic) [TYPE(a type | ALL)] [attributes] [WHERE()].

    Returns a message for each channel, also of type CLNTCONN; AMQ8147E for none. Raises
    MqscSyntaxError.
    """
    pattern = object_name(command.object, generic=True)
    remaining = distinct(command.parameters)
    channel_type = _type_asked(remaining)
    kinds = (CHANNEL, CLNTCONN)
    wanted = selection(remaining, kinds, generic=pattern.endswith(GENERIC))
    found = [
        record
        for record in inquire(queue_manager, kinds, pattern)
        if channel_type in (_ALL_TYPES, named(_TYPE_ROW, record.values[_CHANNEL_TYPE]))
    ]
    found.sort(key=lambda record: record.name)
    return shown(found, wanted, pattern, "AMQ8414I", "Display Channel details.")


def kind_of(parameters: Mapping[str, Parameter], kind: str) -> str:
    """Return CLNTCONN if DEFINE or ALTER CHANNEL has CHLTYPE(CLNTCONN), otherwise ``kind``."""
    channel_type = parameters.get(_CHANNEL_TYPE)
    is_client = kind == CHANNEL and channel_type is not None and channel_type.values
    return (
        CLNTCONN if is_client and fold(one_value(parameters[_CHANNEL_TYPE])) == CLNTCONN else kind
    )


def kind_to_delete(remaining: dict[str, Parameter], kind: str) -> str:
    """Remove CHLTABLE() from ``remaining``; return the object type that DELETE deletes.

    It is CLNTCONN for CHANNEL with CHLTABLE(CLNTTAB), otherwise ``kind``. Raises MqscSyntaxError
    for another word.
    """
    if kind != CHANNEL:
        return kind
    return CLNTCONN if word_of(remaining.pop("CHLTABLE", None), _TABLES) == _TABLES[1] else kind


def display_status(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY CHSTATUS(generic) [attributes] [WHERE()] for channels that were ever started.

    Returns a message for each status record, AMQ8420I for none. Raises MqscSyntaxError. ``kind`` is
    CHSTATUS.
    """
    pattern = object_name(command.object, generic=True)
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    found = inquire(queue_manager, (kind,), pattern)
    if not found:
        text = "Channel Status not found."
        return Reply((MqscMessage("AMQ8420I", text, reason=rc.MQRC_UNKNOWN_OBJECT_NAME),))
    return shown(found, wanted, pattern, *_DETAILS)


def start(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run START CHANNEL(name); return its reply AMQ8018I without waiting for the partner.

    Raises MqscSyntaxError, MQRC_UNKNOWN_OBJECT_NAME. ``kind`` is CHANNEL.
    """
    name = name_of(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    channels_of(queue_manager).start(name)
    return done("AMQ8018I", "Start IBM MQ channel accepted.")


def stop(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run STOP CHANNEL(name) [MODE(QUIESCE | FORCE | TERMINATE)] [STATUS(STOPPED | INACTIVE)].

    CONNAME() and QMNAME() end the instances with one partner only; STATUS must not be STOPPED then.
    Returns the reply AMQ8019I without waiting for the end of a batch, AMQ9533W if there is no such
    instance. Raises MqscSyntaxError, MQRC_UNKNOWN_OBJECT_NAME. ``kind`` is CHANNEL.
    """
    name = name_of(command.object)
    remaining = distinct(command.parameters)
    is_forced = word_of(remaining.pop("MODE", None), ("QUIESCE", "FORCE", "TERMINATE")) != "QUIESCE"
    stopped = remaining.pop("STATUS", None)
    status = word_of(stopped, ("STOPPED", "INACTIVE"))
    connection, partner = remaining.pop("CONNAME", None), remaining.pop("QMNAME", None)
    nothing_else(command, kind, remaining)
    if connection is None and partner is None:
        stop_channel(queue_manager, name, is_forced=is_forced, is_inactive=status == "INACTIVE")
        return done("AMQ8019I", "Stop IBM MQ channel accepted.")
    if stopped is not None and status == "STOPPED":
        raise stopped.wrong("STATUS(STOPPED) is for all partners: not with CONNAME or QMNAME")
    try:
        stop_channel_instances(
            queue_manager,
            name,
            connection="" if connection is None else one_value(connection),
            partner="" if partner is None else object_name(partner),
            is_forced=is_forced,
        )
    except AdminError as error:
        text = f"Channel '{name}' is not currently active."
        return Reply((MqscMessage("AMQ9533W", text, error.detail, error.reason),))
    return done("AMQ8019I", "Stop IBM MQ channel accepted.")


def reset(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run RESET CHANNEL(name) [SEQNUM(n)]; n is the number of the next message, 1 by default.

    Returns the reply AMQ8023I. Raises MqscSyntaxError, and MQError for a channel that is unknown,
    connected, or in doubt. ``kind`` is CHANNEL.
    """
    name = name_of(command.object)
    remaining = distinct(command.parameters)
    number = remaining.pop("SEQNUM", None)
    sequence = 1 if number is None else _sequence(number)
    nothing_else(command, kind, remaining)
    channels_of(queue_manager).reset(name, sequence)
    return done("AMQ8023I", "IBM MQ channel reset.")


def resolve(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run RESOLVE CHANNEL(name) ACTION(COMMIT | BACKOUT) for a sender's batch in doubt.

    Returns the reply AMQ8025I. Raises MqscSyntaxError, and MQError for a channel that is unknown,
    running, or not in doubt. ``kind`` is CHANNEL.
    """
    name = name_of(command.object)
    remaining = distinct(command.parameters)
    if "ACTION" not in remaining:
        raise command.object.wrong("ACTION is missing: COMMIT or BACKOUT")
    action = word_of(remaining.pop("ACTION"), ("COMMIT", "BACKOUT"))
    nothing_else(command, kind, remaining)
    channels_of(queue_manager).resolve(name, is_committed=action == "COMMIT")
    return done("AMQ8025I", "IBM MQ channel resolved.")


def ping(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run PING CHANNEL(name), which tests whether the partner of a sender answers.

    Returns the reply AMQ8020I, AMQ9558E if the partner cannot be reached, or AMQ9519E if the
    partner has no such channel. Raises MqscSyntaxError, and other MQErrors by which the partner
    refuses. ``kind`` is CHANNEL.
    """
    name = name_of(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    try:
        channels_of(queue_manager).ping(name)
    except OSError as error:
        text = f"The remote channel '{name}' is not currently available: {error}."
        return Reply((MqscMessage("AMQ9558E", text, reason=rc.MQRC_Q_MGR_NOT_AVAILABLE),))
    except MQError as error:
        if error.reason != rc.MQRC_UNKNOWN_CHANNEL_NAME:
            raise
        return Reply(
            (MqscMessage("AMQ9519E", f"Channel '{name}' not found.", reason=error.reason),)
        )
    return done("AMQ8020I", "Ping IBM MQ channel complete.")


def name_of(parameter: Parameter) -> str:
    """Return the channel name in a parameter.

    Raises MqscSyntaxError for more than 20 characters or an invalid name.
    """
    name = object_name(parameter)
    if len(name) > _NAME_LENGTH:
        raise parameter.wrong(f"{name} is {len(name)} characters long; it may have {_NAME_LENGTH}")
    return name


def _sequence(parameter: Parameter) -> int:
    """Return the number in SEQNUM(); raises MqscSyntaxError outside 1 to 999999999."""
    number = number_of(SEQUENCE, one_value(parameter))
    if number is None:
        raise parameter.wrong(f"{parameter} is not right: it must be 1 to {SEQUENCE.high}")
    return number


def _type_asked(remaining: dict[str, Parameter]) -> str:
    """Remove TYPE() or CHLTYPE() from ``remaining``; return its channel type, ALL without either.

    Raises MqscSyntaxError for a word that is no channel type.
    """
    for keyword in ("TYPE", _CHANNEL_TYPE):
        parameter = remaining.get(keyword)
        if parameter is not None and parameter.values is not None:
            del remaining[keyword]
            return word_of(parameter, (_ALL_TYPES, *(word for word, _ in _TYPE_ROW.words)))
    return _ALL_TYPES


def display_connections(queue_manager: Engine, command: Command, _kind: str) -> Reply:
    """Run DISPLAY CONN(generic) [TYPE(CONN | HANDLE | ALL)] [attributes] [WHERE()].

    Returns a message for each connection or handle, AMQ8461E for an unknown id, AMQ8147E if no
    record passes. Raises MqscSyntaxError.
    """
    pattern = fold(one_value(command.object))
    remaining = distinct(command.parameters)
    kinds = _CONN_KINDS[word_of(remaining.pop("TYPE", None), tuple(_CONN_KINDS))]
    wanted = selection(remaining, kinds, generic=False)
    found = inquire(queue_manager, kinds, pattern)
    found.sort(key=lambda record: record.name)
    if not found and not pattern.endswith(GENERIC):
        return _unknown_connection(pattern)
    return shown(found, wanted, pattern, *_CONN_DETAILS)


def end_connection(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run STOP CONN(id), which ends a connection and backs out its unit of work.

    Returns the reply AMQ8457I, AMQ8461E for an unknown id. Raises MqscSyntaxError. ``kind`` is
    CONN.
    """
    identifier = fold(one_value(command.object))
    nothing_else(command, kind, distinct(command.parameters))
    try:
        stop_connection(queue_manager, identifier)
    except AdminError as error:
        return _unknown_connection(identifier, error.reason)
    return done("AMQ8457I", "IBM MQ connection stopped.")


def _unknown_connection(identifier: str, reason: int = 0) -> Reply:
    """Return the reply AMQ8461E for a connection id that no connection has.

    ``reason`` is the reason code in the message, 0 for none.
    """
    text = f"Connection identifier {identifier} not found."
    return Reply((MqscMessage("AMQ8461E", text, reason=reason),))


_TYPE: Final = "TYPE"
_ALL: Final = "ALL"
_OF_SUBSCRIPTIONS: Final = {
    "SUBTYPE": (_ALL, "USER", "ADMIN", "API", "PROXY"),
    "DURABLE": (_ALL, "YES", "NO"),
}
#: The types of SUBTYPE(USER).
_OF_USERS: Final = ("ADMIN", "API")
#: Keywords of DISPLAY that choose records by their value, by kind, with their words.
_ASKED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    **dict.fromkeys((SUB, SBSTATUS, TPSTATUS_SUB), _OF_SUBSCRIPTIONS),
    TOPIC: {_TYPE: (_ALL, "LOCAL", "CLUSTER")},
    QSTATUS_HANDLE: {"OPENTYPE": (_ALL, "INPUT", "OUTPUT")},
}
_RELATIONS: Final = ("ALL", "LOCAL", "PARENT", "CHILD")
_RELATION_DETAILS: Final = "AMQ8723I", "Display pub/sub status details."
_REFRESHED: Final = ("EXPIRY", "CONFIGEV", "PROXYSUB")
#: The kinds of objects by their words in OBJECT of REFRESH QMGR TYPE(CONFIGEV).
_OBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    _ALL: REFRESHABLE,
    "QUEUE": QUEUE_KINDS,
    **{kind: (kind,) for kind in REFRESHABLE if kind != CLNTCONN},
    CHANNEL: (CHANNEL, CLNTCONN),
}


def refresh_manager(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run REFRESH QMGR TYPE(EXPIRY | CONFIGEV | PROXYSUB) [OBJECT()] [NAME()] [INCLINT()].

    EXPIRY discards the expired messages of the queues in NAME now. CONFIGEV makes a Refresh object
    event for each object; INCLINT, in minutes, changes nothing, as a definition does not know when
    it was changed. PROXYSUB does nothing: the
    neighbours always have the subscriptions of now. Returns its reply. Raises MqscSyntaxError.
    ``kind`` is QMGR.
    """
    remaining = distinct(command.parameters)
    if _TYPE not in remaining:
        raise command.object.wrong(f"REFRESH {kind} needs TYPE({' | '.join(_REFRESHED)})")
    wanted = word_of(remaining.pop(_TYPE), _REFRESHED)
    if wanted == "PROXYSUB":
        nothing_else(command, kind, remaining)
        return done("MFY1016I", "Nothing was done: neighbours know all subscriptions.")
    named = remaining.pop("NAME", None)
    pattern = GENERIC if named is None else object_name(named, generic=True)
    if wanted == "EXPIRY":
        nothing_else(command, kind, remaining)
        discard_now(queue_manager, pattern)
        return done("MFY1005I", "Expired messages discarded.")
    kinds = _OBJECTS[word_of(remaining.pop("OBJECT", None), tuple(_OBJECTS))]
    interval = remaining.pop("INCLINT", None)
    if interval is not None and number_of(REFRESH_INTERVAL, one_value(interval)) is None:
        raise interval.wrong(f"{interval} is not right: it must be {allowed(REFRESH_INTERVAL)}")
    nothing_else(command, kind, remaining)
    count = report_configuration(queue_manager, kinds, pattern)
    return done("MFY1006I", f"Configuration events: {count} objects.")


def reset_statistics(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run RESET QSTATS(generic), which shows statistics of queues, and begins them anew.

    Returns a message for each queue, AMQ8147E for none. Raises MqscSyntaxError, and
    MQRCCF_EVENTS_DISABLED for a queue without statistics. ``kind`` is QSTATS.
    """
    pattern = object_name(command.object, generic=True)
    nothing_else(command, kind, distinct(command.parameters))
    found = reset_queue_statistics(queue_manager, pattern)
    rows = [{"QUEUE": each.name, **each.values} for each in found]
    return _message_of_each(rows, pattern, "MFY1007I", "Reset queue statistics.")


def move(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run MOVE QLOCAL(from) TOQLOCAL(to) [TYPE(MOVE | ADD)]; return its reply.

    MOVE needs an empty target. Raises MqscSyntaxError, and the errors of ``admin.move_messages``.
    ``kind`` is QLOCAL.
    """
    source = object_name(command.object)
    remaining = distinct(command.parameters)
    if "TOQLOCAL" not in remaining:
        raise command.object.wrong("TOQLOCAL is missing")
    target = object_name(remaining.pop("TOQLOCAL"))
    adds = word_of(remaining.pop(_TYPE, None), ("MOVE", "ADD")) == "ADD"
    nothing_else(command, kind, remaining)
    count = move_messages(queue_manager, source, target, adds=adds)
    return done("MFY1008I", f"{count} messages moved.")


def asked(remaining: dict[str, Parameter], kind: str) -> Callable[[Record], bool]:
    """Remove SUBTYPE(), DURABLE(), TYPE() or OPENTYPE(); return a function that applies them.

    The function returns True for a record that they select.
    They are SUBTYPE and DURABLE of SUB, SBSTATUS and TPSTATUS TYPE(SUB), TYPE of TOPIC, OPENTYPE of
    QSTATUS TYPE(HANDLE), all with a value. Without any of them all records are selected. Raises
    MqscSyntaxError for another word.
    """
    words: dict[str, str] = {}
    for keyword, known in _ASKED.get(kind, {}).items():
        parameter = remaining.get(keyword)
        if parameter is not None and parameter.values is not None:
            words[keyword] = word_of(remaining.pop(keyword), known)
    return lambda record: all(_means(word, keyword, record) for keyword, word in words.items())


def _means(word: str, keyword: str, record: Record) -> bool:
    """Return True if a word of :func:`asked` means a record."""
    if word == _ALL:
        return True
    if keyword == "OPENTYPE":
        is_input = record.values["INPUT"] != INPUT_TYPES["NO"]
        return is_input if word == "INPUT" else bool(record.values["OUTPUT"])
    if keyword == _TYPE:
        # Clusters have no topics.
        return word == "LOCAL"
    shown = row_of(record)[keyword]
    return shown in _OF_USERS if word == "USER" else shown == word


def neighbours(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY PUBSUB [TYPE(ALL | LOCAL | PARENT | CHILD)] [attributes].

    Returns a message for each queue manager of the hierarchy of that relation. Raises
    MqscSyntaxError. ``kind`` is PUBSUB.
    """
    remaining = distinct(command.parameters)
    relation = word_of(remaining.pop(_TYPE, None), _RELATIONS)
    if "WHERE" in remaining:
        raise remaining["WHERE"].wrong(f"WHERE is not a keyword of DISPLAY {kind}")
    wanted = selection(remaining, (PUBSUB,), generic=False)
    records = inquire(queue_manager, (PUBSUB,), "")
    found = [each for each in records if relation in (_ALL, row_of(each)[_TYPE])]
    return shown(found, wanted, queue_manager.name, *_RELATION_DETAILS)


def nothing_runs(_queue_manager: Engine, command: Command, _kind: str) -> Reply:
    """Run DISPLAY of LSSTATUS, SVSTATUS, CLUSQMGR or another thing that never exists here.

    Returns AMQ8147E, as IBM MQ does when nothing runs. Raises MqscSyntaxError for no name.
    """
    return not_found(one_value(command.object))


def _message_of_each(
    rows: Sequence[Mapping[str, Value]], pattern: str, code: str, text: str
) -> Reply:
    """Return the reply with a message for each row, AMQ8147E with ``pattern`` for none.

    ``code`` and ``text`` are those of each message, as "AMQ8450I".
    """
    if not rows:
        return not_found(pattern)
    messages = tuple(MqscMessage(code, text, body(row)) for row in rows)
    return Reply(messages, tuple(dict(row) for row in rows))

"""MQSC commands about status of topics and open queues, about statistics, and REFRESH QMGR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mayfly.admin import (
    CHANNEL,
    CLNTCONN,
    PUBSUB,
    QUEUE_KINDS,
    REFRESH_INTERVAL,
    REFRESHABLE,
    SUB,
    TOPIC,
    TPSTATUS,
    OpenConnection,
    Value,
    allowed,
    discard_now,
    inquire,
    matches,
    move_messages,
    number_of,
    open_connections,
    report_configuration,
    reset_queue_statistics,
    topic_strings,
    topic_subscribers,
)
from mayfly.admin.mqsc.display import Reply, body, done, not_found, nothing_else, row_of
from mayfly.admin.mqsc.grammar import (
    GENERIC,
    Command,
    Parameter,
    distinct,
    no_value,
    object_name,
    one_value,
    word_of,
)
from mayfly.verbs.facts import MqscMessage

if TYPE_CHECKING:
    from mayfly.admin import Engine

_TYPE: Final = "TYPE"
_ALL: Final = "ALL"
_TOPIC_TYPES: Final = ("TOPIC", "SUB", "PUB")
_TOPIC_DETAILS: Final = "AMQ8754I", "Display topic status details."
_QUEUE_DETAILS: Final = "AMQ8450I", "Display queue status details."
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
#: An option of MQOPEN by the keyword that shows it.
_OPEN_WORDS: Final = {
    "BROWSE": "MQOO_BROWSE",
    "INQUIRE": "MQOO_INQUIRE",
    "OUTPUT": "MQOO_OUTPUT",
    "SET": "MQOO_SET",
}
_INPUTS: Final = {
    "MQOO_INPUT_EXCLUSIVE": "EXCL",
    "MQOO_INPUT_SHARED": "SHARED",
    "MQOO_INPUT_AS_Q_DEF": "SHARED",
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


def topics(queue_manager: Engine, topic: str, kind: str) -> Reply:
    """Return the reply to DISPLAY TPSTATUS(topic) TYPE(SUB | PUB): a message for each of them.

    ``topic`` may have wildcards; ``kind`` is SUB or PUB. A subscription is shown at each topic
    string that it matches; a publisher has the topic open. AMQ8147E for none. Raises
    MQRC_TOPIC_STRING_ERROR.
    """
    rows: list[Mapping[str, Value]] = []
    for each in topic_strings(queue_manager, topic):
        head: dict[str, Value] = {TPSTATUS: each, _TYPE: kind}
        if kind == SUB:
            for record in topic_subscribers(queue_manager, each):
                shown = row_of(record)
                rows.append({**head, **{key: shown[key] for key in shown if key != "TOPICSTR"}})
        else:
            rows += [
                {**head, "ACTCONN": found.identifier, "USERID": found.user}
                for found in open_connections(queue_manager)
                for handle in found.handles
                if handle.kind == TOPIC and handle.name == each
            ]
    return _message_of_each(rows, topic, *_TOPIC_DETAILS)


def handles(queue_manager: Engine, pattern: str) -> Reply:
    """Return the reply to DISPLAY QSTATUS(generic) TYPE(HANDLE): who has queues open, and for what.

    AMQ8147E if nobody has.
    """
    rows = [
        _handle_row(found, handle.name, handle.options)
        for found in open_connections(queue_manager)
        for handle in found.handles
        if handle.kind == "QUEUE" and matches(handle.name, pattern)
    ]
    rows.sort(key=lambda row: str(row["QUEUE"]))
    return _message_of_each(rows, pattern, *_QUEUE_DETAILS)


def neighbours(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY PUBSUB [TYPE(ALL | LOCAL | PARENT | CHILD)] [ALL].

    Returns a message for each queue manager of the hierarchy of that relation. Raises
    MqscSyntaxError. ``kind`` is PUBSUB.
    """
    remaining = distinct(command.parameters)
    relation = word_of(remaining.pop(_TYPE, None), _RELATIONS)
    _without_value(remaining, _ALL)
    nothing_else(command, kind, remaining)
    found = [row_of(record) for record in inquire(queue_manager, (PUBSUB,), "")]
    rows = [row for row in found if relation in (_ALL, row[_TYPE])]
    return _message_of_each(rows, queue_manager.name, *_RELATION_DETAILS)


def nothing_runs(_queue_manager: Engine, command: Command, _kind: str) -> Reply:
    """Run DISPLAY of LSSTATUS, SVSTATUS, CLUSQMGR or another thing that never exists here.

    Returns AMQ8147E, as IBM MQ does when nothing runs. Raises MqscSyntaxError for no name.
    """
    return not_found(one_value(command.object))


def topic_type(remaining: dict[str, Parameter]) -> str:
    """Remove TYPE(TOPIC | SUB | PUB) from the parameters of DISPLAY TPSTATUS, and return its word.

    TOPIC without TYPE. For SUB and PUB, ALL is removed too. Raises MqscSyntaxError.
    """
    parameter = remaining.get(_TYPE)
    if parameter is None or parameter.values is None:
        return _TOPIC_TYPES[0]
    wanted = word_of(remaining.pop(_TYPE), _TOPIC_TYPES)
    if wanted != _TOPIC_TYPES[0]:
        _without_value(remaining, _ALL)
    return wanted


def _without_value(remaining: dict[str, Parameter], keyword: str) -> None:
    """Remove a keyword if it is there; raises MqscSyntaxError if it has a value."""
    parameter = remaining.pop(keyword, None)
    if parameter is not None:
        no_value(parameter)


def _handle_row(found: OpenConnection, queue: str, options: Sequence[str]) -> dict[str, Value]:
    """Return how one handle of a connection is displayed."""
    asked = next((word for name, word in _INPUTS.items() if name in options), "NO")
    return {
        "QUEUE": queue,
        _TYPE: "HANDLE",
        "APPLTAG": found.application,
        "APPLTYPE": "USER",
        **{word: "YES" if name in options else "NO" for word, name in _OPEN_WORDS.items()},
        "INPUT": asked,
        "CHANNEL": found.channel,
        "CONNAME": found.address,
        "CONN": found.identifier,
        "USERID": found.user,
    }


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

"""MQSC commands about status of topics and open queues, about statistics, and REFRESH QMGR."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mayfly.admin import (
    CHANNEL,
    CLNTCONN,
    INPUT_TYPES,
    PUBSUB,
    QSTATUS_HANDLE,
    QUEUE_KINDS,
    REFRESH_INTERVAL,
    REFRESHABLE,
    SBSTATUS,
    SUB,
    TOPIC,
    TPSTATUS_SUB,
    Record,
    Value,
    allowed,
    discard_now,
    inquire,
    move_messages,
    number_of,
    report_configuration,
    reset_queue_statistics,
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
from mayfly.verbs.facts import MqscMessage

if TYPE_CHECKING:
    from mayfly.admin import Engine

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
    """Remove SUBTYPE(), DURABLE(), TYPE() or OPENTYPE(); return whether they mean a record.

    They are SUBTYPE and DURABLE of SUB, SBSTATUS and TPSTATUS TYPE(SUB), TYPE of TOPIC, OPENTYPE of
    QSTATUS TYPE(HANDLE), all with a value. Without any of them all records are meant. Raises
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

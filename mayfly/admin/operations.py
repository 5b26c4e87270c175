"""The operations on objects of all kinds: define, alter, delete, inquire.

Attributes are given and answered by MQSC keyword, with typed values. All functions raise MQError:
AdminError names the attribute and its value, any other is about the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mayfly.admin import authentication, channels, connections, processes, queues, settings, topics
from mayfly.admin.filters import Filter
from mayfly.admin.model import (
    CHSTATUS,
    CONN,
    GROUP_STATUS,
    HANDLE,
    PUBSUB,
    QMSTATUS,
    QSTATUS,
    SETTING,
    TPSTATUS,
    Record,
)
from mayfly.engine import Engine
from mayfly.engine.face.administration import (
    AUTHINFO,
    CHANNEL,
    CLNTCONN,
    PROCESS,
    QLOCAL,
    QMGR,
    QUEUE_KINDS,
    SUB,
    TOPIC,
    view_members,
)
from mayfly.verbs.facts import Value


class _Define(Protocol):
    def __call__(
        self,
        manager: Engine,
        kind: str,
        name: str,
        attributes: Mapping[str, Value],
        *,
        like: str | None,
        replace: bool,
    ) -> None: ...


_DEFINE: dict[str, _Define] = {
    **dict.fromkeys(QUEUE_KINDS, queues.define),
    TOPIC: topics.define,
    SUB: topics.subscribe,
    PROCESS: processes.define,
    AUTHINFO: authentication.define,
    **dict.fromkeys((CHANNEL, CLNTCONN), channels.define),
}
_ALTER: dict[str, Callable[[Engine, str, str, Mapping[str, Value]], None]] = {
    **dict.fromkeys((*QUEUE_KINDS, QMGR), queues.alter),
    TOPIC: topics.alter,
    SUB: topics.alter_subscribed,
    PROCESS: processes.alter,
    AUTHINFO: authentication.alter,
    **dict.fromkeys((CHANNEL, CLNTCONN), channels.alter),
}
_DELETE: dict[str, Callable[[Engine, str, str], None]] = {
    **dict.fromkeys(QUEUE_KINDS, queues.delete),
    TOPIC: topics.delete,
    SUB: topics.unsubscribe,
    PROCESS: processes.delete,
    AUTHINFO: authentication.delete,
    **dict.fromkeys((CHANNEL, CLNTCONN), channels.delete),
}


def _members(manager: Engine) -> list[Record]:
    return [
        Record(
            GROUP_STATUS,
            member.name,
            {
                "QSGNAME": member.group,
                "STATUS": "ACTIVE" if member.is_open else "INACTIVE",
                "DECIDED": member.decided_count,
            },
        )
        for member in view_members(manager)
    ]


_INQUIRE: dict[str, Callable[[Engine, str], Sequence[Record]]] = {
    QMGR: lambda manager, _pattern: [queues.inquire_manager(manager)],
    TOPIC: topics.inquire,
    SUB: topics.inquire_subscriptions,
    PROCESS: processes.inquire,
    AUTHINFO: authentication.inquire,
    CHANNEL: lambda manager, pattern: channels.inquire(manager, CHANNEL, pattern),
    CLNTCONN: lambda manager, pattern: channels.inquire(manager, CLNTCONN, pattern),
    QSTATUS: queues.inquire_status,
    TPSTATUS: lambda manager, topic: [topics.inquire_topic_string(manager, topic)],
    CHSTATUS: channels.inquire_status,
    QMSTATUS: lambda manager, _pattern: [connections.inquire_manager_status(manager)],
    CONN: connections.inquire,
    HANDLE: connections.inquire_handles,
    PUBSUB: lambda manager, _pattern: topics.inquire_neighbours(manager),
    SETTING: settings.inquire,
    GROUP_STATUS: lambda manager, _pattern: _members(manager),
}
#: The kinds of objects that can be defined, and of what can be inquired about.
DEFINABLE, INQUIRABLE = tuple(_DEFINE), (*QUEUE_KINDS, *_INQUIRE)


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define an object; attributes left out are as in ``like``, else as a new one's.

    With ``replace`` one that is there takes the attributes given. Raises UnknownModel for a
    ``like`` that is not there, MQRC_OBJECT_ALREADY_EXISTS, MQRC_OBJECT_NAME_ERROR and what is said
    of the kind in the engine.
    """
    _DEFINE[kind](manager, kind, name, attributes, like=like, replace=replace)


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of an object, all or none; for QMGR the name is not looked at.

    Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    _ALTER[kind](manager, kind, name, attributes)


def delete(manager: Engine, kind: str, name: str, *, purge: bool = False) -> None:
    """Delete an object; a local queue with messages only with ``purge``.

    Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE, MQRC_Q_NOT_EMPTY.
    """
    if kind == QLOCAL and purge:
        queues.delete(manager, kind, name, purge=True)
    else:
        _DELETE[kind](manager, kind, name)


def inquire(
    manager: Engine, kinds: Sequence[str], pattern: str, where: Filter | None = None
) -> list[Record]:
    """Return what matches a pattern and a condition: queues of some types, or other kinds in turn.

    A pattern is a name, or the beginning of names in front of ``*``; for TPSTATUS it is a topic
    string, and for QMGR, PUBSUB and GROUP it is not looked at.
    """
    if kinds[0] in QUEUE_KINDS:
        found: Sequence[Record] = queues.inquire(manager, pattern, kinds)
    else:
        found = [record for kind in kinds for record in _INQUIRE[kind](manager, pattern)]
    return [record for record in found if where is None or where.passes(record)]

"""Resolves a queue name: to a queue here, or through a transmission queue to another queue manager.

A name may include a queue manager, as in ``ORDERS@QM2``; the name of an object never has an ``@``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from mayfly.engine.attributes import (
    QALIAS,
    QLOCAL,
    QMODEL,
    QREMOTE,
    ManagerDefinition,
    QueueDefinition,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQOO_BROWSE,
    MQOO_INPUT_AS_Q_DEF,
    MQOO_INPUT_EXCLUSIVE,
    MQOO_INPUT_SHARED,
    MQOO_INQUIRE,
    MQOO_SET,
    MQOT_TOPIC,
    MQUS_TRANSMISSION,
)
from mayfly.mqi.errors import mq_error

_Find: TypeAlias = Callable[[str], QueueDefinition | None]
_NAME_BYTES = 48
_READS = MQOO_INPUT_AS_Q_DEF | MQOO_INPUT_SHARED | MQOO_INPUT_EXCLUSIVE | MQOO_BROWSE


class Remote(NamedTuple):
    """A queue of another queue manager, as the MQXQH names it."""

    queue: str
    manager: str


class Resolution(NamedTuple):
    """The objects on the way from a name to its queue; the last one holds the messages.

    ``remote`` is None for a queue here; else it is the queue of another queue manager.
    """

    objects: list[QueueDefinition]
    remote: Remote | None


def full_name(queue: str, manager: str, own_manager: str) -> str:
    """Return the name of a queue, with its queue manager if that is another one.

    ``("Q", "QM2", "QM1")`` -> ``"Q@QM2"``; ``("Q", "QM1", "QM1")`` -> ``"Q"``.
    """
    return queue if manager in ("", own_manager) else f"{queue}@{manager}"


def route(find: _Find, queue_manager: ManagerDefinition, name: str) -> Resolution:
    """Return the objects that a name leads to; the last one holds the messages (C1, C2).

    ``find`` returns the definition of a name, None without one. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_UNKNOWN_ALIAS_BASE_Q, MQRC_ALIAS_BASE_Q_TYPE_ERROR; MQRC_OPTION_NOT_VALID_FOR_TYPE for the
    alias of a topic; MQRC_OBJECT_NAME_ERROR and MQRC_OBJECT_Q_MGR_NAME_ERROR for a remote name that
    is empty or does not fit an MQXQH; MQRC_REMOTE_Q_NAME_ERROR for an incomplete remote definition;
    and the reasons of :func:`_transmission_queue`.
    """
    own_name = queue_manager.name
    queue, _, manager = name.partition("@")
    passed: list[QueueDefinition] = []
    transmission = ""
    if manager not in ("", own_name):
        alias = find(manager)
        if alias is not None and alias.kind == QREMOTE and not alias.rname:
            passed.append(alias)
            manager, transmission = alias.rqmname, alias.xmitq
    if manager in ("", own_name):
        passed += _walk(find, queue)
        last = passed[-1]
        if last.kind == QLOCAL:
            return Resolution(passed, None)
        queue, manager, transmission = last.rname, last.rqmname, last.xmitq
        if not queue or manager in ("", own_name):
            raise mq_error(
                rc.MQRC_REMOTE_Q_NAME_ERROR,
                f"{last.name}: RNAME({queue}) RQMNAME({manager}) name no queue elsewhere",
            )
    _check_elsewhere(queue, rc.MQRC_OBJECT_NAME_ERROR)
    _check_elsewhere(manager, rc.MQRC_OBJECT_Q_MGR_NAME_ERROR)
    default = queue_manager.defxmitq
    passed.append(_transmission_queue(find, transmission, manager, default))
    return Resolution(passed, Remote(queue, manager))


def check_remote_open(name: str, options: int) -> None:
    """Raise MQRC_OPTION_NOT_VALID_FOR_TYPE for open options not allowed on a remote queue (C3).

    These are input and browse. Inquire and set are allowed on its remote definition here, but not
    on a name with ``@``.
    """
    if options & _READS or ("@" in name and options & (MQOO_INQUIRE | MQOO_SET)):
        text = f"open options {options:#x}: {name} is a queue of another queue manager"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)


def reply_address(find: _Find, queue: str) -> tuple[str, str] | None:
    """Return queue and queue manager of the remote definition that ReplyToQ names (P4).

    ``find`` returns the definition of a name. None when ReplyToQ names no remote definition.
    """
    definition = find(queue)
    if definition is None or definition.kind != QREMOTE:
        return None
    return definition.rname or queue, definition.rqmname


def _walk(find: _Find, name: str) -> Iterator[QueueDefinition]:
    """Yield the object with this name and, for an alias, its target.

    ``find`` returns the definition of a name, None without one. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_UNKNOWN_ALIAS_BASE_Q, MQRC_ALIAS_BASE_Q_TYPE_ERROR, and MQRC_OPTION_NOT_VALID_FOR_TYPE for
    the alias of a topic.
    """
    definition = find(name)
    if definition is None or definition.kind == QMODEL:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue {name!r} is not defined")
    yield definition
    if definition.kind == QALIAS:
        target = definition.target
        if definition.targtype == MQOT_TOPIC:
            raise mq_error(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                f"alias {name} leads to topic {target}: it can only be put to",
            )
        base = find(target)
        if base is None:
            raise mq_error(
                rc.MQRC_UNKNOWN_ALIAS_BASE_Q, f"alias {name}: TARGET {target!r} is not defined"
            )
        if base.kind not in (QLOCAL, QREMOTE):
            raise mq_error(
                rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR, f"alias {name}: TARGET {target} is {base.kind}"
            )
        yield base


def _check_elsewhere(name: str, reason: int) -> None:
    """Raise ``reason`` unless a name has 1 to 48 ASCII characters, without NUL and ``@``."""
    if not 0 < len(name) <= _NAME_BYTES or not name.isascii() or "\0" in name or "@" in name:
        raise mq_error(reason, f"{name!r} is no name of 1 to {_NAME_BYTES} characters")


def _transmission_queue(find: _Find, named: str, manager: str, default: str) -> QueueDefinition:
    """Return the transmission queue that leads to the queue manager ``manager``.

    ``find`` returns the definition of a name, None without one. The result is the queue ``named``
    (XMITQ) if that is not empty, else the queue with the name of the queue manager, else
    ``default`` (DEFXMITQ). Raises MQRC_UNKNOWN_REMOTE_Q_MGR when there is none of the three. For an
    unusable queue, raises MQRC_UNKNOWN_XMIT_Q, MQRC_XMIT_Q_TYPE_ERROR or MQRC_XMIT_Q_USAGE_ERROR;
    for the default one MQRC_UNKNOWN_DEF_XMIT_Q, MQRC_DEF_XMIT_Q_TYPE_ERROR or
    MQRC_DEF_XMIT_Q_USAGE_ERROR.
    """
    if named or find(manager) is not None:
        name, unknown = named or manager, rc.MQRC_UNKNOWN_XMIT_Q
        wrong_type, wrong_usage = rc.MQRC_XMIT_Q_TYPE_ERROR, rc.MQRC_XMIT_Q_USAGE_ERROR
    elif default:
        name, unknown = default, rc.MQRC_UNKNOWN_DEF_XMIT_Q
        wrong_type, wrong_usage = rc.MQRC_DEF_XMIT_Q_TYPE_ERROR, rc.MQRC_DEF_XMIT_Q_USAGE_ERROR
    else:
        raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"no transmission queue leads to {manager!r}")
    definition = find(name)
    if definition is None:
        raise mq_error(unknown, f"transmission queue {name!r} is not defined")
    if definition.kind != QLOCAL:
        raise mq_error(wrong_type, f"transmission queue {name} is a {definition.kind}")
    if definition.usage != MQUS_TRANSMISSION:
        raise mq_error(wrong_usage, f"{name} is not USAGE(XMITQ)")
    return definition

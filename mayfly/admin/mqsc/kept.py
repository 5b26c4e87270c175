"""MQSC commands about objects that are kept without effect, and the note about what has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mayfly import admin
from mayfly.admin import COMMINFO, LISTENER, NAMELIST, POLICY, SERVICE, STGCLASS, Value
from mayfly.admin.mqsc.display import Reply, WithoutEffect, done, nothing_else
from mayfly.admin.mqsc.grammar import (
    Command,
    Parameter,
    distinct,
    no_value,
    object_name,
    settings,
    word_of,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.facts import WITHOUT_EFFECT, MqscMessage

if TYPE_CHECKING:
    from mayfly.admin import Engine

#: What the objects are called in replies.
NOUNS: Final[Mapping[str, str]] = {
    LISTENER: "listener",
    SERVICE: "service",
    NAMELIST: "namelist",
    COMMINFO: "communication information object",
    STGCLASS: "storage class",
    POLICY: "security policy",
}
_ADD, _REPLACE, _REMOVE = "ADD", "REPLACE", "REMOVE"
_TOLERATE: Final = "TOLERATE"
#: Lists of a policy, which a command may give in several parameters.
_LISTS: Final = ("SIGNER", "RECIP")
_NAMES_SHOWN: Final = 3
#: Attributes by which START and STOP LISTENER may name a listener that is not defined.
_PLACE: Final = ("TRPTYPE", "PORT", "IPADDR", "LUNAME", "INDISP")


def start_or_stop(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run START or STOP of a LISTENER or SERVICE, which does nothing; the reply says why.

    Raises MQRC_UNKNOWN_OBJECT_NAME for one that is not defined, MqscSyntaxError. ``kind`` is
    LISTENER or SERVICE.
    """
    name = "" if command.object.values is None else object_name(command.object)
    remaining = distinct(command.parameters)
    if kind == LISTENER and not name:
        for keyword in _PLACE:
            remaining.pop(keyword, None)
    nothing_else(command, kind, remaining)
    is_standard = (kind, name) in admin.STANDARD_OBJECTS
    if name and not is_standard and not admin.inquire(queue_manager, (kind,), name):
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
    if kind == LISTENER:
        why = "the ports of mayfly serve are settings of the server"
    else:
        why = "programs beside the server are started by the system"
    return done("MFY1015I", f"Nothing was done: a {NOUNS[kind]} is kept only; {why}.")


def set_policy(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run SET POLICY(name) [attributes] [ACTION(REPLACE | ADD | REMOVE)]; return its reply.

    ADD adds SIGNER and RECIP to those of the policy, REMOVE deletes it. Raises MqscSyntaxError, and
    MQRC_UNKNOWN_OBJECT_NAME for ADD or REMOVE without a policy. ``kind`` is POLICY.
    """
    name = object_name(command.object)
    remaining = distinct(_joined(command.parameters))
    action = word_of(remaining.pop("ACTION", None), (_REPLACE, _ADD, _REMOVE))
    if action == _REMOVE:
        admin.delete(queue_manager, kind, name)
        return done("MFY1013I", f"IBM MQ {NOUNS[kind]} deleted.")
    tolerates = _tolerates(remaining)
    attributes = {**settings(remaining, kind), **tolerates}
    if action == _REPLACE:
        known = admin.object_type(kind).attributes
        defaults = {keyword: row.default for keyword, row in known.items()}
        admin.define(queue_manager, kind, name, {**defaults, **attributes}, replace=True)
    else:
        found = [one for one in admin.inquire(queue_manager, (kind,), name) if one.name == name]
        for keyword in _LISTS if found else ():
            both = f"{found[0].values[keyword]},{attributes.get(keyword, '')}"
            attributes[keyword] = admin.list_text(dict.fromkeys(admin.entries_of(both)))
        admin.alter(queue_manager, kind, name, attributes)
    lost = (WithoutEffect(kind, name, kind),)
    return Reply((MqscMessage("MFY1012I", f"IBM MQ {NOUNS[kind]} set."),), without_effect=lost)


def _joined(parameters: Iterable[Parameter]) -> list[Parameter]:
    """Return parameters, with several of one list joined to one.

    Example: ``RECIP(a) RECIP(b)`` becomes ``RECIP(a,b)`` if no other parameter is between them.
    Only SIGNER and RECIP are lists.
    """
    found: list[Parameter] = []
    for each in parameters:
        last = found[-1] if found else None
        if last is not None and each.keyword in _LISTS and each.keyword == last.keyword:
            values = (*(last.values or ()), *(each.values or ()))
            found[-1] = Parameter(last.keyword, values, last.start, each.end)
        else:
            found.append(each)
    return found


def _tolerates(remaining: dict[str, Parameter]) -> dict[str, Value]:
    """Remove TOLERATE and ENFORCE without a value from ``remaining``; return the attribute.

    TOLERATE means YES, ENFORCE means NO. Without either, or for TOLERATE(word), return {}.
    """
    found: dict[str, Value] = {}
    for keyword, value in ((_TOLERATE, 1), ("ENFORCE", 0)):
        parameter = remaining.get(keyword)
        if parameter is not None and (parameter.values is None or keyword != _TOLERATE):
            no_value(parameter)
            del remaining[keyword]
            found[_TOLERATE] = value
    return found


def note_of(lost: Iterable[WithoutEffect]) -> MqscMessage | None:
    """Return the one message of a script that names all that it has set without effect in Mayfly.

    Returns None if there is nothing.
    """
    by_kind: dict[str, dict[str, list[str]]] = {}
    for one in lost:
        names = by_kind.setdefault(one.kind, {}).setdefault(one.text, [])
        if one.name not in names:
            names.append(one.name)
    if not by_kind:
        return None
    lines = [
        f"   {kind} {text if text != kind else ''}".rstrip() + f": {_listed(names)}"
        for kind, found in sorted(by_kind.items())
        for text, names in sorted(found.items())
    ]
    return MqscMessage(WITHOUT_EFFECT, "These are kept, and have no effect here:", "\n".join(lines))


def _listed(names: list[str]) -> str:
    """Return names with commas; beyond three the others are a number: ``A, B, C and 2 more``."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown

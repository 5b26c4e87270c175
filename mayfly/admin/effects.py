"""Which values of a definition have no effect here, for the note of a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayfly.admin.inheritance import find_definition
from mayfly.admin.model import named, object_type, type_of
from mayfly.admin.standard_objects import DEFAULT_SUBSCRIPTION, SYSTEM
from mayfly.engine import Engine
from mayfly.engine.api.administration import (
    ANY_TLS,
    AUTHINFO,
    CHANNEL,
    KEPT_CHANNEL_TYPES,
    KEPT_KINDS,
    NOT_OBEYED,
    SECRETS,
    TOPIC,
    TYPED_BY,
)
from mayfly.verbs.facts import Value

#: The types of channels for which any version of TLS from 1.2 on is spoken, whatever the cipher is.
_SERVING: Final = ("SVRCONN", "RCVR")
#: The root of the topic tree, and what it has in IBM MQ in place of ASPARENT.
_ROOT: Final = (TOPIC, "SYSTEM.BASE.TOPIC")
_ROOT_VALUES: Final[Mapping[str, Value]] = {
    "COMMINFO": "SYSTEM.DEFAULT.COMMINFO.MULTICAST",
    "DEFPRESP": 1,
    "MCAST": 2,
    "PUBSCOPE": 0,
    "SUBSCOPE": 0,
}
#: IBM MQ sets it for whoever subscribes, and an export has it.
_WITHOUT_MEANING: Final = ("PUBACCT",)
_NOT_CHECKED: Final = ("CRLLDAP", "OCSP", "IDPWLDAP")


def without_effect(
    manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]
) -> list[str]:
    """Return those of some attributes of an object that Mayfly stores but does not obey.

    ``attributes`` are the values that a command has set. The result is such as
    ``['NPMCLASS(HIGH)']``, or [] for none. If nothing of the object is obeyed, the result is one
    text: its ``kind``, or its type such as ``CHLTYPE(SVR)``; it is [] for objects SYSTEM.*. An
    attribute at its default in IBM MQ is left out.
    """
    found = find_definition(manager, kind, name) if kind in TYPED_BY else None
    given_type = "" if found is None else type_of(kind, found.attributes)
    if kind in KEPT_KINDS:
        return [] if name.startswith(SYSTEM) else [kind]
    if kind == CHANNEL and given_type in KEPT_CHANNEL_TYPES:
        return [] if name.startswith(SYSTEM) else [f"CHLTYPE({given_type})"]
    if kind == AUTHINFO and given_type in _NOT_CHECKED:
        return [] if name.startswith(SYSTEM) else [f"AUTHTYPE({given_type})"]
    if (kind, name) == DEFAULT_SUBSCRIPTION:
        return []
    root = _ROOT_VALUES if (kind, name) == _ROOT else {}
    lost = []
    known = object_type(kind)
    for keyword, value in attributes.items():
        row = known.kept.get(keyword)
        is_lost = row is not None and value not in (row.default, root.get(keyword))
        is_lost = is_lost and keyword not in _WITHOUT_MEANING
        if row is None and (given_type or kind) in NOT_OBEYED.get(keyword, ()):
            is_lost = value not in (0, known.attributes[keyword].default)
        if keyword == "SSLCIPH" and given_type in _SERVING:
            is_lost = value not in ("", ANY_TLS)
        if is_lost:
            shown = "" if keyword in SECRETS else named(known.attributes[keyword], value)
            lost.append(f"{keyword}({shown})")
    return lost

"""MQSC text of a command that defines, alters, deletes or clears: for exports, and for previews.

The values of attributes are those that DISPLAY shows, or those that are stored: a number that has
a word is written as that word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mayfly.admin import (
    CHANNEL,
    CLNTCONN,
    QMGR,
    SECRETS,
    Attribute,
    AuthorityKey,
    Value,
    entries_of,
    named,
    object_type,
)
from mayfly.admin.mqsc.grammar import format_value

#: The text in place of a secret.
HIDDEN: Final = "********"
_OF_CLIENTS: Final = "CHLTABLE(CLNTTAB)"


def define_command(
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str = "",
    replaces: bool = False,
    omitted: Collection[str] = (),
) -> str:
    """Return the DEFINE command of an object with attributes by keyword, but those ``omitted``.

    Keywords that cannot be set are left out, secrets hidden. ``like`` adds LIKE(name), "" none;
    ``replaces`` adds REPLACE.
    """
    written = attribute_texts(kind, attributes, omitted)
    if like:
        written.append(f"LIKE({format_value(like)})")
    if replaces:
        written.append("REPLACE")
    return joined(f"DEFINE {_word(kind)}({format_value(name)})", written)


def alter_command(kind: str, name: str, attributes: Mapping[str, Value]) -> str:
    """Return the ALTER command of an object with attributes by keyword; secrets are hidden.

    An object of a typed kind needs CHLTYPE or AUTHTYPE among them. Of QMGR no name is written.
    """
    head = QMGR if kind == QMGR else f"{_word(kind)}({format_value(name)})"
    return joined(f"ALTER {head}", attribute_texts(kind, attributes))


def delete_command(kind: str, name: str, *, purge: bool = False) -> str:
    """Return the DELETE command of an object; with ``purge`` a local queue goes with messages."""
    more = [*(["PURGE"] if purge else []), *([_OF_CLIENTS] if kind == CLNTCONN else [])]
    return " ".join((f"DELETE {_word(kind)}({format_value(name)})", *more))


def clear_command(kind: str, name: str) -> str:
    """Return the CLEAR command of a local queue."""
    return f"CLEAR {kind}({format_value(name)})"


def set_authority_command(
    key: AuthorityKey, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> str:
    """Return SET AUTHREC for a record, with the authorities that it gets and those it loses."""
    given = (("AUTHADD", ",".join(add)), ("AUTHRMV", ",".join(remove)))
    lists = [f"{keyword}({words})" for keyword, words in given if words]
    return joined("SET AUTHREC", [*_record(key), *lists])


def delete_authority_command(key: AuthorityKey) -> str:
    """Return DELETE AUTHREC for a record."""
    return joined("DELETE AUTHREC", _record(key))


def _record(key: AuthorityKey) -> list[str]:
    """Return the parameters that name an authority record."""
    return [
        f"PROFILE({format_value(key.profile)})",
        f"OBJTYPE({key.object_type})",
        f"{key.entity.kind}({format_value(key.entity.name)})",
    ]


def attribute_texts(
    kind: str, attributes: Mapping[str, Value], omitted: Collection[str] = ()
) -> list[str]:
    """Return attributes of an object type, each as MQSC writes it: ``MAXDEPTH(5)``.

    Keywords that cannot be set and those ``omitted`` are left out; a secret is hidden.
    """
    known = object_type(kind).attributes
    return [
        _attribute(known[keyword], HIDDEN if keyword in SECRETS else value)
        for keyword, value in attributes.items()
        if keyword in known and keyword not in omitted
    ]


def _attribute(attribute: Attribute, value: Value) -> str:
    """Return an attribute as MQSC writes it: ``NAMES(A,'b')``, or NOTRIGGER for a flag."""
    word = named(attribute, value)
    if attribute.is_flag:
        return str(word)
    entries = (attribute.is_list and entries_of(str(word))) or [str(word)]
    return f"{attribute.keyword}({','.join(map(format_value, entries))})"


def joined(head: str, parameters: Iterable[str]) -> str:
    """Return a command with a line for its beginning and one for each parameter."""
    return " +\n   ".join((head, *parameters))


def _word(kind: str) -> str:
    """Return the word for a kind in DEFINE, ALTER and DELETE: CHANNEL for a client channel."""
    return CHANNEL if kind == CLNTCONN else kind

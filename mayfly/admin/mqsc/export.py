"""MQSC text of commands, and the script that defines again what a queue manager has (dmpmqcfg).

The values of attributes are those that DISPLAY shows, or those that are stored: a number that has
a word is written as that word. The script is made from the answers to DISPLAY commands alone, so it
can be made of any queue manager that runs MQSC, here or over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from mayfly.admin import (
    AUTHINFO,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    COMMINFO,
    LISTENER,
    NAMELIST,
    POLICY,
    PROCESS,
    QLOCAL,
    QMGR,
    SECRETS,
    SERVICE,
    STGCLASS,
    SUB,
    TOPIC,
    Attribute,
    AuthorityKey,
    Entity,
    Value,
    entries_of,
    named,
    object_type,
)
from mayfly.admin.mqsc.display import own_attributes
from mayfly.admin.mqsc.grammar import format_value
from mayfly.verbs.facts import MqscResult

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


_Row: TypeAlias = Mapping[str, Value]
_HEAD: Final = "* Definitions of a queue manager, written by mayfly export.\n"
#: Kinds that are written alike, in an order in which each finds what it names.
_NAMED: Final = (AUTHINFO, PROCESS, NAMELIST, COMMINFO, STGCLASS, TOPIC, LISTENER, SERVICE)
#: Attributes of a managed subscription that the queue manager sets, and the topic object of any
#: subscription, whose string is the beginning of TOPICSTR.
_MADE_FOR_MANAGED: Final = ("DEST", "DESTQMGR")
_SAID_BY_TOPICSTR: Final = "TOPICOBJ"
_RULE_LISTS: Final = ("ADDRLIST", "USERLIST")
#: A setting that is decided when the queue manager is made.
_PLATFORM: Final = "platform"


def exported(run: Callable[[str], MqscResult]) -> str:
    """Return a script that defines all objects, rules, authorities and settings again.

    ``run`` runs MQSC commands on the queue manager. Each attribute is written, also one without
    effect in Mayfly; secrets are not. Left out are messages, dynamic queues, subscriptions that are
    not durable or come from a neighbour, and users. A subscription whose texts are not printable is
    a comment.
    """
    return _HEAD + "".join(f"\n{command}\n" for command in _commands(run))


def _commands(run: Callable[[str], MqscResult]) -> Iterator[str]:
    """Yield the commands of the script; each names only objects that earlier ones define."""
    for row in run(f"DISPLAY QUEUE(*) ALL {own_attributes(QLOCAL)}").rows:
        kind = str(row["TYPE"])
        if "DEFTYPE" in object_type(kind).attributes or row.get("DEFTYPE") in (None, "PREDEFINED"):
            yield _definition(kind, row, str(row["QUEUE"]))
    for kind in _NAMED:
        for row in run(f"DISPLAY {kind}(*) ALL").rows:
            yield _definition(kind, row, str(row[kind]))
    for row in run(f"DISPLAY {CHANNEL}(*) ALL {own_attributes(CHANNEL)}").rows:
        kind = CLNTCONN if row["CHLTYPE"] == CLNTCONN else CHANNEL
        yield _definition(kind, row, str(row[CHANNEL]))
    for row in run(f"DISPLAY {SUB}(*) ALL").rows:
        if row["DURABLE"] == "YES" and row["SUBTYPE"] != "PROXY":
            yield _subscription(row)
    for row in run(f"DISPLAY {POLICY}(*) ALL").rows:
        head = f"SET {POLICY}({format_value(row[POLICY])})"
        yield joined(head, [*attribute_texts(POLICY, row, SECRETS), "ACTION(REPLACE)"])
    for row in run(f"DISPLAY {CHLAUTH}(*) ALL").rows:
        yield _rule(row)
    for row in run("DISPLAY AUTHREC").rows:
        yield _authority(row)
    # After the authorities: without them AUTHCHK would refuse the user who runs the script.
    [manager] = run(f"DISPLAY {QMGR} ALL {own_attributes(QMGR)}").rows
    yield alter_command(QMGR, "", {k: v for k, v in manager.items() if k not in SECRETS})
    for row in run("DISPLAY SETTING(*)").rows:
        if row["VALUE"] != row["DEFAULT"] and row["SETTING"] != _PLATFORM:
            yield f"ALTER SETTING({row['SETTING']}) VALUE({format_value(row['VALUE'])})"


def _definition(kind: str, row: _Row, name: str, omitted: Collection[str] = ()) -> str:
    """Return the DEFINE command, with REPLACE, of an object with all attributes but ``omitted``.

    ``row`` has the displayed values of the object by keyword.
    """
    return define_command(kind, name, row, replaces=True, omitted={*omitted, *SECRETS})


def _subscription(row: _Row) -> str:
    """Return the DEFINE command of a subscription; a comment if a text of it is not printable."""
    if not all(str(value).isprintable() for value in row.values()):
        return f"* A subscription is left out, whose texts are not printable: {row['SUBID']}"
    omitted = [_SAID_BY_TOPICSTR]
    omitted += _MADE_FOR_MANAGED if row["DESTCLAS"] == "MANAGED" else ()
    return _definition(SUB, row, str(row[SUB]), omitted)


def _rule(row: _Row) -> str:
    """Return the SET CHLAUTH command of a rule, with what is not at its default."""
    parameters = []
    for keyword, attribute in object_type(CHLAUTH).attributes.items():
        value = row.get(keyword)
        is_default = value in (None, named(attribute, attribute.default))
        if keyword == "PROFILE" or (is_default and keyword != "TYPE"):
            continue
        texts = str(value).split(",") if keyword in _RULE_LISTS else [value or ""]
        parameters.append(f"{keyword}({','.join(map(format_value, texts))})")
    head = f"SET {CHLAUTH}({format_value(row[CHLAUTH])})"
    return joined(head, [*parameters, "ACTION(REPLACE)"])


def _authority(row: _Row) -> str:
    """Return the SET AUTHREC command of an authority record."""
    entity = Entity(str(row["ENTTYPE"]), str(row["ENTITY"]))
    key = AuthorityKey(str(row["OBJTYPE"]), str(row["PROFILE"]), entity)
    return set_authority_command(key, add=[str(row["AUTHLIST"])])

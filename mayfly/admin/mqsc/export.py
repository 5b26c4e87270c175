"""Export: the script that defines again what a queue manager has, as dmpmqcfg writes it.

The script is made from the answers to DISPLAY commands alone, so it can be made of any queue
manager that runs MQSC, here or over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
    AuthorityKey,
    Entity,
    Value,
    named,
    object_type,
)
from mayfly.admin.mqsc.display import own_attributes
from mayfly.admin.mqsc.grammar import format_value
from mayfly.admin.mqsc.writing import (
    alter_command,
    attribute_texts,
    define_command,
    joined,
    set_authority_command,
)
from mayfly.verbs.facts import MqscResult

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
    """Yield the commands of the script; what one of them names is defined by an earlier one."""
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
    # Behind the authorities, without which AUTHCHK would keep out whoever runs the script.
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

"""Events of administration: objects that are defined, altered or deleted, and commands.

A codec says where a command comes from by :func:`commanded_by`, and calls :func:`report_command`.
``operations`` brackets each change of an object by :func:`reporting_change`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from mayfly.admin.authority_numbers import AUTHORITIES, ENTITY_TYPES, OBJECT_TYPES
from mayfly.admin.model import Record, entries_of, object_type
from mayfly.engine import Engine, manager_definition, new_message_id
from mayfly.engine.api.administration import (
    AUTHINFO,
    AUTHREC,
    CHANGE_OBJECT,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    COMMAND_CONTEXT,
    COMMAND_MQSC,
    COMMAND_PCF,
    COMMINFO,
    CREATE_OBJECT,
    DELETE_OBJECT,
    LISTENER,
    NAMELIST,
    NOT_AUTHORIZED_COMMAND,
    POLICY,
    PROCESS,
    QMGR,
    QUEUE_KINDS,
    REFRESH_OBJECT,
    SECRETS,
    SERVICE,
    STGCLASS,
    TOPIC,
    EventType,
    emit_event,
    event_structures,
    is_event_on,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi.pcf import Structure, integer, integer_list, string, string_list

#: MQOT_* and the parameter with the name, by kind; a kind that is not here makes no event.
_KINDS: Final = {
    **dict.fromkeys(QUEUE_KINDS, (c.MQOT_Q, c.MQCA_Q_NAME)),
    QMGR: (c.MQOT_Q_MGR, c.MQCA_Q_MGR_NAME),
    TOPIC: (c.MQOT_TOPIC, c.MQCA_TOPIC_NAME),
    PROCESS: (c.MQOT_PROCESS, c.MQCA_PROCESS_NAME),
    CHANNEL: (c.MQOT_CHANNEL, k.MQCACH_CHANNEL_NAME),
    CLNTCONN: (c.MQOT_CLNTCONN_CHANNEL, k.MQCACH_CHANNEL_NAME),
    AUTHINFO: (c.MQOT_AUTH_INFO, c.MQCA_AUTH_INFO_NAME),
    NAMELIST: (c.MQOT_NAMELIST, c.MQCA_NAMELIST_NAME),
    LISTENER: (c.MQOT_LISTENER, k.MQCACF_OBJECT_NAME),
    SERVICE: (c.MQOT_SERVICE, k.MQCACF_OBJECT_NAME),
    COMMINFO: (c.MQOT_COMM_INFO, k.MQCACF_OBJECT_NAME),
    STGCLASS: (c.MQOT_STORAGE_CLASS, k.MQCACF_OBJECT_NAME),
    POLICY: (c.MQOT_PROT_POLICY, k.MQCACF_OBJECT_NAME),
    AUTHREC: (c.MQOT_AUTH_REC, k.MQCACF_AUTH_PROFILE_NAME),
    CHLAUTH: (c.MQOT_CHLAUTH, k.MQCACH_CHANNEL_NAME),
}
_CHANNEL_BYTES: Final = 20
_NAME_BYTES: Final = 48
#: Texts up to this length are padded with blanks; longer ones have their own.
_LONGEST_PADDED_BYTES: Final = 264
#: CMDEV(NODISPLAY), and the command that it leaves out.
_NO_DISPLAY: Final = 3
_DISPLAY: Final = "DISPLAY"
_SECRET: Final = re.compile(
    rf"\b({'|'.join(sorted(SECRETS))})\s*\((?:\s*'(?:[^']|'')*'\s*|[^)]*)\)", re.IGNORECASE
)


class Origin(NamedTuple):
    """Where a command comes from: a user, MQEVO_*, and for a message its context."""

    user: str = ""
    origin: int = e.MQEVO_OTHER
    accounting_token: bytes | None = None
    identity_data: str | None = None
    appl_type: int | None = None
    appl_name: str | None = None
    origin_data: str | None = None


_ORIGIN: ContextVar[Origin | None] = ContextVar("origin", default=None)


@contextmanager
def commanded_by(origin: Origin) -> Iterator[None]:
    """Let the events of the ``with`` block say that its commands come from ``origin``.

    Of several such blocks around a command the outermost counts.
    """
    token = _ORIGIN.set(_ORIGIN.get() or origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)


@contextmanager
def reporting_change(
    manager: Engine, kind: str, find: Callable[[], Mapping[Hashable, Record]]
) -> Iterator[None]:
    """Make the configuration events of what the ``with`` block does to objects of a kind.

    ``find`` returns the objects that the block may change, by what identifies them. One that was
    not there is created, one that is gone is deleted, and any other is changed: two messages, with
    the attributes before and after. Of rules for channels only those that differ are changed, as
    the block may be about one of several. Without CONFIGEV nothing is asked, and an error of the
    block makes no event.
    """
    if kind not in _KINDS or not is_event_on(manager, CHANGE_OBJECT):
        yield
        return
    before = find()
    yield
    after = find()
    for identity in {**before, **after}:
        old, new = before.get(identity), after.get(identity)
        if old is None and new is not None:
            _report(manager, CREATE_OBJECT, new)
        elif new is None and old is not None:
            _report(manager, DELETE_OBJECT, old)
        elif old is not None and new is not None and (kind != CHLAUTH or old != new):
            together = new_message_id(manager)
            _report(manager, CHANGE_OBJECT, old, together, 1, k.MQCFC_NOT_LAST)
            _report(manager, CHANGE_OBJECT, new, together, 2)


def report_objects(manager: Engine, records: Sequence[Record]) -> None:
    """Make a Refresh object event for each object, none of which is a subscription."""
    for record in records:
        _report(manager, REFRESH_OBJECT, record)


def report_mqsc(manager: Engine, verb: str, text: str) -> None:
    """Make the command event of an MQSC command that was done; secrets in its text are hidden.

    ``verb`` is its first word, without abbreviation. DISPLAY is left out with CMDEV(NODISPLAY).
    """
    hidden = _SECRET.sub(r"\1(********)", text)
    data = [string(e.MQCACF_COMMAND_MQSC, hidden)]
    _report_command(manager, COMMAND_MQSC, None, data, looks=verb == _DISPLAY)


def report_pcf(
    manager: Engine, command: int, parameters: Sequence[Structure], *, looks: bool
) -> None:
    """Make the command event of a PCF command that was done.

    ``command`` is MQCMD_*; ``looks`` says that it is an inquiry, which CMDEV(NODISPLAY) leaves out.
    """
    _report_command(manager, COMMAND_PCF, command, parameters, looks=looks)


def report_refused_command(manager: Engine, command: int, user: str) -> None:
    """Make the event for a PCF command that is refused for want of authority."""
    facts: dict[int, int | str | bytes] = {
        e.MQIACF_REASON_QUALIFIER: e.MQRQ_CMD_NOT_AUTHORIZED,
        e.MQIACF_COMMAND: command,
        k.MQCACF_USER_IDENTIFIER: user,
    }
    emit_event(manager, NOT_AUTHORIZED_COMMAND, facts)


def _report_command(
    manager: Engine,
    event: EventType,
    command: int | None,
    data: Sequence[Structure],
    *,
    looks: bool,
) -> None:
    """Make a command event of two groups, CommandContext and CommandData.

    ``looks`` is True for a command that only displays: it makes no event if CMDEV is NODISPLAY.
    ``command`` is its MQCMD_* number, None if it has none.
    """
    if looks and manager_definition(manager).cmdev == _NO_DISPLAY:
        return
    facts = _origin_facts(manager)
    if command is not None:
        facts[e.MQIACF_COMMAND] = command
    context = event_structures(COMMAND_CONTEXT, facts)
    groups = [
        Structure(k.MQCFT_GROUP, e.MQGACF_COMMAND_CONTEXT, tuple(context)),
        Structure(k.MQCFT_GROUP, e.MQGACF_COMMAND_DATA, tuple(data)),
    ]
    emit_event(manager, event, {}, groups)


def _report(
    manager: Engine,
    event: EventType,
    record: Record,
    correl_id: bytes = b"",
    sequence_number: int = 1,
    control: int = k.MQCFC_LAST,
) -> None:
    """Put one message about an object: its type, its name, and its attributes."""
    number, name_parameter = _KINDS[record.kind]
    length = _CHANNEL_BYTES if name_parameter == k.MQCACH_CHANNEL_NAME else _NAME_BYTES
    named = string(name_parameter, record.name, length)
    attributes = _authority(record) if record.kind == AUTHREC else _attributes(record)
    shown = [each for each in attributes if each.parameter != name_parameter]
    emit_event(
        manager,
        event,
        {**_origin_facts(manager), k.MQIACF_OBJECT_TYPE: number},
        [named, *shown],
        correl_id=correl_id,
        sequence_number=sequence_number,
        control=control,
    )


def _authority(record: Record) -> list[Structure]:
    """Return the attributes of an authority record, as PCF structures."""
    values = record.values
    words = str(values["AUTHLIST"]).split(",")
    return [
        integer(e.MQIACF_AUTH_REC_TYPE, OBJECT_TYPES[str(values["OBJTYPE"])]),
        integer_list(k.MQIACF_AUTHORIZATION_LIST, [AUTHORITIES[word] for word in words]),
        string(k.MQCACF_ENTITY_NAME, str(values["ENTITY"])),
        integer(k.MQIACF_ENTITY_TYPE, ENTITY_TYPES[str(values["ENTTYPE"])]),
    ]


def _attributes(record: Record) -> list[Structure]:
    """Return the attributes of an object that have a number, as PCF structures."""
    rows, found = object_type(record.kind), []
    for keyword, value in record.values.items():
        row = rows.row(keyword)
        if row is None or row.selector is None or keyword in SECRETS:
            continue
        if isinstance(value, int):
            found.append(integer(row.selector, value))
        elif row.is_list:
            found.append(string_list(row.selector, entries_of(value), row.length))
        else:
            length = row.length if row.length <= _LONGEST_PADDED_BYTES else 0
            found.append(string(row.selector, value, length))
    return found


def _origin_facts(manager: Engine) -> dict[int, int | str | bytes]:
    """Return the parameters about the present origin: user, kind, and context of a message."""
    origin = _ORIGIN.get() or Origin()
    given: dict[int, int | str | bytes | None] = {
        e.MQCACF_EVENT_USER_ID: origin.user,
        e.MQIACF_EVENT_ORIGIN: origin.origin,
        e.MQCACF_EVENT_Q_MGR: manager.name,
        e.MQBACF_EVENT_ACCOUNTING_TOKEN: origin.accounting_token,
        e.MQCACF_EVENT_APPL_IDENTITY: origin.identity_data,
        e.MQIACF_EVENT_APPL_TYPE: origin.appl_type,
        e.MQCACF_EVENT_APPL_NAME: origin.appl_name,
        e.MQCACF_EVENT_APPL_ORIGIN: origin.origin_data,
    }
    return {number: value for number, value in given.items() if value is not None}

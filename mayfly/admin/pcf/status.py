"""PCF commands about status: of channels with their start and stop, connections, queues, topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from mayfly import admin
from mayfly.admin import (
    APSTATUS,
    APSTATUS_LOCAL,
    APSTATUS_QMGR,
    CHSTATUS,
    CONN,
    HANDLE,
    QSTATUS,
    QUEUE_KINDS,
    SBSTATUS,
    SEQUENCE,
    TPSTATUS,
    Engine,
    OpenConnection,
    Record,
    channels_of,
)
from mayfly.admin.pcf.objects import InquirySelection, take_selection
from mayfly.admin.pcf.parameters import Parameters, missing, wrong_value
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqi.pcf import PcfError, Structure, byte_string, integer, string

_CHANNEL_BYTES: Final = 20
#: A connection id is this word, twelve characters of the queue manager's name, and CONN of MQSC.
_CONNECTION_WORD: Final = b"AMQC"
_CONNECTION_NAME_BYTES: Final = 12
_CONNECTION_BYTES: Final = 24
_KINDS: Final = {
    k.MQIACF_CONN_INFO_CONN: (CONN,),
    k.MQIACF_CONN_INFO_HANDLE: (HANDLE,),
    k.MQIACF_CONN_INFO_ALL: (CONN, HANDLE),
}
_INFO_TYPE: Final = {CONN: k.MQIACF_CONN_INFO_CONN, HANDLE: k.MQIACF_CONN_INFO_HANDLE}
#: Status that the reply always has.
_STATUS_ALWAYS: Final = (
    k.MQIACH_CHANNEL_TYPE,
    k.MQIACH_CHANNEL_STATUS,
    k.MQCACH_CONNECTION_NAME,
    k.MQCACH_XMIT_Q_NAME,
)


def inquire_status(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return the status of channels that were ever started, and of each client: one message each.

    Raises PcfError (MQRCCF_CHL_STATUS_NOT_FOUND) without any.
    """
    pattern = parameters.needed_text(k.MQCACH_CHANNEL_NAME)
    parameters.number(k.MQIACH_CHANNEL_INSTANCE_TYPE, (c.MQOT_CURRENT_CHANNEL,))
    selection = take_selection(parameters, k.MQIACH_CHANNEL_INSTANCE_ATTRS, (CHSTATUS,))
    parameters.end()
    found = list(filter(selection.passes, admin.inquire(manager, (CHSTATUS,), pattern)))
    if not found:
        text = f"no channel like {pattern!r} has a status, or passes the conditions"
        raise PcfError(k.MQRCCF_CHL_STATUS_NOT_FOUND, text, k.MQCACH_CHANNEL_NAME)
    return [
        [
            string(k.MQCACH_CHANNEL_NAME, record.name, _CHANNEL_BYTES),
            integer(k.MQIACH_CHANNEL_INSTANCE_TYPE, c.MQOT_CURRENT_CHANNEL),
            *selection.structures(record, _STATUS_ALWAYS),
        ]
        for record in found
    ]


def start(manager: Engine, parameters: Parameters) -> None:
    """Start a channel, without waiting for the partner."""
    name = _name(parameters)
    parameters.end()
    channels_of(manager).start(name)


def stop(manager: Engine, parameters: Parameters) -> None:
    """Stop a channel by MQIACF_MODE, without waiting for the end of a batch.

    MQIACH_CHANNEL_STATUS is MQCHS_STOPPED or MQCHS_INACTIVE. MQCACH_CONNECTION_NAME and
    MQCA_Q_MGR_NAME end the instances with one partner only; with MQCHS_STOPPED they raise PcfError
    (MQRCCF_PARM_CONFLICT).
    """
    name = _name(parameters)
    modes = (k.MQMODE_FORCE, k.MQMODE_QUIESCE, k.MQMODE_TERMINATE)
    mode = parameters.number(k.MQIACF_MODE, modes)
    states = (k.MQCHS_INACTIVE, k.MQCHS_STOPPED)
    status = parameters.number(k.MQIACH_CHANNEL_STATUS, states)
    connection = parameters.text(k.MQCACH_CONNECTION_NAME) or ""
    partner = parameters.text(c.MQCA_Q_MGR_NAME) or ""
    parameters.end()
    is_forced = mode not in (None, k.MQMODE_QUIESCE)
    if not connection and not partner:
        is_inactive = status == k.MQCHS_INACTIVE
        admin.stop_channel(manager, name, is_forced=is_forced, is_inactive=is_inactive)
        return
    if status == k.MQCHS_STOPPED:
        text = "MQCHS_STOPPED is for all partners of a channel"
        raise PcfError(k.MQRCCF_PARM_CONFLICT, text, k.MQIACH_CHANNEL_STATUS)
    admin.stop_channel_instances(
        manager, name, connection=connection, partner=partner, is_forced=is_forced
    )


def reset(manager: Engine, parameters: Parameters) -> None:
    """Set the number of the next message, MQIACH_MSG_SEQUENCE_NUMBER, 1 by default.

    Raises PcfError (MQRCCF_PARM_VALUE_ERROR) for a number out of range.
    """
    name = _name(parameters)
    number = parameters.number(k.MQIACH_MSG_SEQUENCE_NUMBER)
    if number is not None and not SEQUENCE.low <= number <= SEQUENCE.high:
        what = f"from {SEQUENCE.low} to {SEQUENCE.high}"
        raise wrong_value(k.MQIACH_MSG_SEQUENCE_NUMBER, number, what)
    parameters.end()
    channels_of(manager).reset(name, 1 if number is None else number)


def resolve(manager: Engine, parameters: Parameters) -> None:
    """Commit or back out a sender's batch in doubt, by MQIACH_IN_DOUBT.

    Raises PcfError (MQRCCF_PARM_MISSING) without it.
    """
    name = _name(parameters)
    decision = parameters.number(k.MQIACH_IN_DOUBT, (k.MQIDO_COMMIT, k.MQIDO_BACKOUT))
    if decision is None:
        raise missing(k.MQIACH_IN_DOUBT)
    parameters.end()
    channels_of(manager).resolve(name, is_committed=decision == k.MQIDO_COMMIT)


def ping(manager: Engine, parameters: Parameters) -> None:
    """Test whether the partner of a sender answers.

    Raises PcfError: MQRCCF_HOST_NOT_AVAILABLE without an answer, MQRCCF_UNKNOWN_REMOTE_CHANNEL if
    the partner has no such channel.
    """
    name = _name(parameters)
    parameters.end()
    try:
        channels_of(manager).ping(name)
    except OSError as error:
        text = f"the partner of {name} is not available: {error}"
        raise PcfError(k.MQRCCF_HOST_NOT_AVAILABLE, text) from error
    except MQError as error:
        if error.reason != rc.MQRC_UNKNOWN_CHANNEL_NAME:
            raise
        text = f"the partner has no channel {name}"
        raise PcfError(k.MQRCCF_UNKNOWN_REMOTE_CHANNEL, text) from error


def inquire_connections(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return connections, or what they have open, by MQIACF_CONN_INFO_TYPE: one message each.

    MQBACF_CONNECTION_ID is one connection, MQBACF_GENERIC_CONNECTION_ID the beginning of ids, empty
    for all. Raises PcfError (MQRCCF_CONNECTION_ID_ERROR) for an id that no connection has,
    MQRCCF_NONE_FOUND where no record passes.
    """
    is_asked = _connections_asked(parameters)
    info_type = parameters.number(k.MQIACF_CONN_INFO_TYPE, _KINDS)
    kinds = _KINDS[k.MQIACF_CONN_INFO_CONN if info_type is None else info_type]
    selection = take_selection(parameters, k.MQIACF_CONNECTION_ATTRS, kinds)
    parameters.end()
    found = [
        record
        for record in admin.inquire(manager, kinds, "*")
        if is_asked(connection_bytes(manager, record.name)) and selection.passes(record)
    ]
    if not found:
        raise PcfError(k.MQRCCF_NONE_FOUND, "no connection has this id and passes the conditions")
    return [
        [
            byte_string(k.MQBACF_CONNECTION_ID, connection_bytes(manager, record.name)),
            integer(k.MQIACF_CONN_INFO_TYPE, _INFO_TYPE[record.kind]),
            *selection.structures(record),
        ]
        for record in sorted(found, key=lambda record: record.name)
    ]


def _connections_asked(parameters: Parameters) -> Callable[[bytes], bool]:
    """Take the connection ids of an inquiry; return a function that is True for a wanted one.

    Raises PcfError (MQRCCF_PARM_MISSING) without an id.
    """
    generic = parameters.raw(k.MQBACF_GENERIC_CONNECTION_ID)
    identifier = parameters.raw(k.MQBACF_CONNECTION_ID)
    if generic is None and identifier is None:
        raise missing(k.MQBACF_CONNECTION_ID)
    if identifier is not None:
        return identifier.__eq__
    return lambda found: found.startswith(generic or b"")


def stop_connection(manager: Engine, parameters: Parameters) -> None:
    """End the connection with MQBACF_CONNECTION_ID, and back out its unit of work.

    Raises PcfError (MQRCCF_CONNECTION_ID_ERROR) for an id that no connection has.
    """
    identifier = parameters.raw(k.MQBACF_CONNECTION_ID)
    if identifier is None:
        raise missing(k.MQBACF_CONNECTION_ID)
    parameters.end()
    number = identifier[_CONNECTION_BYTES - 8 :].hex().upper()
    if identifier != connection_bytes(manager, number):
        text = f"no connection has the id {identifier.hex()}"
        raise PcfError(k.MQRCCF_CONNECTION_ID_ERROR, text, k.MQBACF_CONNECTION_ID)
    admin.stop_connection(manager, number)


def connection_bytes(manager: Engine, identifier: str) -> bytes:
    """Return the 24 bytes that name a connection in PCF, for its CONN of MQSC."""
    name = manager.name.encode()[:_CONNECTION_NAME_BYTES].ljust(_CONNECTION_NAME_BYTES)
    return _CONNECTION_WORD + name + bytes.fromhex(identifier)


def _name(parameters: Parameters) -> str:
    """Take the name of one channel."""
    return parameters.needed_text(k.MQCACH_CHANNEL_NAME)


_NAME_BYTES: Final = 48
_APPLICATION_BYTES: Final = 28
_GENERIC: Final = "*"
#: The purpose of a handle: parameter, and option of MQOPEN.
_OPENED: Final = (
    (k.MQIACF_OPEN_BROWSE, "MQOO_BROWSE"),
    (k.MQIACF_OPEN_INQUIRE, "MQOO_INQUIRE"),
    (k.MQIACF_OPEN_OUTPUT, "MQOO_OUTPUT"),
    (k.MQIACF_OPEN_SET, "MQOO_SET"),
)
#: MQQSO_* of the options for input.
_INPUTS: Final = {
    "MQOO_INPUT_EXCLUSIVE": k.MQQSO_EXCLUSIVE,
    "MQOO_INPUT_SHARED": k.MQQSO_SHARED,
    "MQOO_INPUT_AS_Q_DEF": k.MQQSO_SHARED,
}
_TAG_BYTES: Final = 128
_NO_CONNECTION: Final = bytes(24)
#: The status of programs, by MQIACF_APPL_INFO_TYPE.
_APPLICATION_KINDS: Final = {
    e.MQIACF_APPL_INFO_APPL: APSTATUS,
    e.MQIACF_APPL_INFO_QMGR: APSTATUS_QMGR,
    e.MQIACF_APPL_INFO_LOCAL: APSTATUS_LOCAL,
}
_TOPIC_TYPES: Final = (k.MQIACF_TOPIC_STATUS, k.MQIACF_TOPIC_SUB, k.MQIACF_TOPIC_PUB)


def inquire_queues(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return the status of local queues, or with MQIACF_Q_HANDLE each handle, one message each.

    Raises PcfError: MQRC_UNKNOWN_OBJECT_NAME if there is no such local queue, and
    MQRCCF_Q_STATUS_NOT_FOUND if nothing passes, or the queue is not local.
    """
    pattern = parameters.needed_text(c.MQCA_Q_NAME)
    types = (k.MQIACF_Q_STATUS, k.MQIACF_Q_HANDLE)
    status_type = parameters.number(k.MQIACF_Q_STATUS_TYPE, types)
    if status_type == k.MQIACF_Q_HANDLE:
        wanted = parameters.numbers(k.MQIACF_Q_STATUS_ATTRS)
        parameters.end()
        return _handles(manager, pattern, wanted)
    selection = take_selection(parameters, k.MQIACF_Q_STATUS_ATTRS, (QSTATUS,))
    parameters.end()
    found = list(filter(selection.passes, admin.inquire(manager, (QSTATUS,), pattern)))
    if not found:
        if not pattern.endswith(_GENERIC) and admin.inquire(manager, QUEUE_KINDS, pattern):
            text = f"queue {pattern} is not local, or does not pass the conditions"
            raise PcfError(k.MQRCCF_Q_STATUS_NOT_FOUND, text, c.MQCA_Q_NAME)
        text = f"no local queue is like {pattern!r}, or passes the conditions"
        raise PcfError(rc.MQRC_UNKNOWN_OBJECT_NAME, text, c.MQCA_Q_NAME)
    return [
        [
            string(c.MQCA_Q_NAME, record.name, _NAME_BYTES),
            integer(k.MQIACF_Q_STATUS_TYPE, k.MQIACF_Q_STATUS),
            *selection.structures(record),
        ]
        for record in found
    ]


def _handles(manager: Engine, pattern: str, wanted: Sequence[int] | None) -> list[list[Structure]]:
    """Return a message for each handle of queues whose names match, sorted by name.

    ``wanted`` are the attributes to return, None for all. Raises PcfError
    (MQRCCF_Q_STATUS_NOT_FOUND) if no such queue is open.
    """
    found = [
        (handle.name, connection, handle.options)
        for connection in admin.open_connections(manager)
        for handle in connection.handles
        if handle.kind == "QUEUE" and admin.matches(handle.name, pattern)
    ]
    if not found:
        text = f"nobody has a queue like {pattern!r} open"
        raise PcfError(k.MQRCCF_Q_STATUS_NOT_FOUND, text, c.MQCA_Q_NAME)
    return [
        [
            string(c.MQCA_Q_NAME, name, _NAME_BYTES),
            integer(k.MQIACF_Q_STATUS_TYPE, k.MQIACF_Q_HANDLE),
            *_chosen(_handle(manager, connection, options), wanted),
        ]
        for name, connection, options in sorted(found, key=lambda each: each[0])
    ]


def _handle(manager: Engine, connection: OpenConnection, options: Sequence[str]) -> list[Structure]:
    """Return what an open queue is open for, and by whom."""
    asked = next((number for word, number in _INPUTS.items() if word in options), k.MQQSO_NO)
    return [
        string(k.MQCACF_APPL_TAG, connection.application, _APPLICATION_BYTES),
        integer(c.MQIA_APPL_TYPE, c.MQAT_USER),
        string(k.MQCACH_CHANNEL_NAME, connection.channel, 20),
        string(k.MQCACH_CONNECTION_NAME, connection.address, 264),
        byte_string(k.MQBACF_CONNECTION_ID, connection_bytes(manager, connection.identifier)),
        *(
            integer(number, k.MQQSO_YES if word in options else k.MQQSO_NO)
            for number, word in _OPENED
        ),
        integer(k.MQIACF_OPEN_INPUT_TYPE, asked),
        integer(e.MQIACF_OPEN_OPTIONS, sum(getattr(c, word) for word in options)),
        string(k.MQCACF_USER_IDENTIFIER, connection.user, 12),
    ]


def _chosen(structures: list[Structure], wanted: Collection[int] | None) -> list[Structure]:
    """Return the structures that are wanted; None and a list with MQIACF_ALL are all."""
    if wanted is None or k.MQIACF_ALL in wanted:
        return structures
    return [each for each in structures if each.parameter in wanted]


def inquire_topics(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return the status of topic strings, which may have wildcards, one message each.

    With MQIACF_TOPIC_SUB it is a message for each subscription at a topic string, with
    MQIACF_TOPIC_PUB for each program that has it open to publish. Raises PcfError
    (MQRCCF_TOPIC_STRING_NOT_FOUND) for no message.
    """
    topic = parameters.text(c.MQCA_TOPIC_STRING)
    if topic is None:
        raise missing(c.MQCA_TOPIC_STRING)
    status_type = parameters.number(k.MQIACF_TOPIC_STATUS_TYPE, _TOPIC_TYPES)
    kind = SBSTATUS if status_type == k.MQIACF_TOPIC_SUB else TPSTATUS
    selection = take_selection(parameters, k.MQIACF_TOPIC_STATUS_ATTRS, (kind,))
    parameters.end()
    if status_type == k.MQIACF_TOPIC_SUB:
        found = _subscribers(manager, topic, selection)
    elif status_type == k.MQIACF_TOPIC_PUB:
        found = _publishers(manager, topic, selection.wanted)
    else:
        found = [
            (record.name, selection.structures(record))
            for record in admin.inquire(manager, (TPSTATUS,), topic)
            if selection.passes(record)
        ]
    if not found:
        text = f"nothing is found for topic string {topic!r}, or passes the conditions"
        raise PcfError(k.MQRCCF_TOPIC_STRING_NOT_FOUND, text, c.MQCA_TOPIC_STRING)
    shown_type = k.MQIACF_TOPIC_STATUS if status_type is None else status_type
    return [
        [
            string(c.MQCA_TOPIC_STRING, name),
            integer(k.MQIACF_TOPIC_STATUS_TYPE, shown_type),
            *structures,
        ]
        for name, structures in found
    ]


def _subscribers(
    manager: Engine, topic: str, selection: InquirySelection
) -> list[tuple[str, list[Structure]]]:
    """Return each subscription at topic strings, with the string."""
    return [
        (
            each,
            [
                *(s for s in selection.structures(record) if s.parameter != c.MQCA_TOPIC_STRING),
                *active_connection(manager, record, selection.wanted),
            ],
        )
        for each in admin.topic_strings(manager, topic)
        for record in admin.topic_subscribers(manager, each)
        if selection.passes(record)
    ]


def active_connection(
    manager: Engine, record: Record, wanted: Collection[int] | None
) -> list[Structure]:
    """Return the connection that has a subscription open, nulls for none; [] if not wanted.

    ``record`` is of kind SBSTATUS, ``wanted`` the numbers of the attributes to show, None for all.
    """
    active = str(record.values["ACTCONN"])
    identifier = connection_bytes(manager, active) if active else _NO_CONNECTION
    return _chosen([byte_string(k.MQBACF_CONNECTION_ID, identifier)], wanted)


def _publishers(
    manager: Engine, topic: str, wanted: Collection[int] | None
) -> list[tuple[str, list[Structure]]]:
    """Return each program that has a topic string open to publish, with the string.

    ``wanted`` are the attributes to return, None for all.
    """
    connections = admin.open_connections(manager)
    return [
        (
            each,
            _chosen(
                [
                    byte_string(
                        k.MQBACF_CONNECTION_ID, connection_bytes(manager, found.identifier)
                    ),
                    string(k.MQCACF_USER_IDENTIFIER, found.user, 12),
                ],
                wanted,
            ),
        )
        for each in admin.topic_strings(manager, topic)
        for found in connections
        for handle in found.handles
        if handle.kind == admin.TOPIC and handle.name == each
    ]


def inquire_applications(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return the programs that are connected, by MQIACF_APPL_INFO_TYPE.

    It is one message for each name with MQIACF_APPL_INFO_APPL and MQIACF_APPL_INFO_QMGR, for each
    connection with MQIACF_APPL_INFO_LOCAL. Raises PcfError (MQRCCF_APPL_STATUS_NOT_FOUND) if none
    is connected.
    """
    pattern = parameters.text(e.MQCACF_APPL_NAME) or _GENERIC
    asked = parameters.number(e.MQIACF_APPL_INFO_TYPE, _APPLICATION_KINDS)
    info_type = e.MQIACF_APPL_INFO_APPL if asked is None else asked
    kind = _APPLICATION_KINDS[info_type]
    selection = take_selection(parameters, e.MQIACF_APPL_INFO_ATTRS, (kind,))
    parameters.end()
    found = list(filter(selection.passes, admin.inquire(manager, (kind,), pattern)))
    if not found:
        text = f"no program like {pattern!r} is connected, or passes the conditions"
        raise PcfError(k.MQRCCF_APPL_STATUS_NOT_FOUND, text, e.MQCACF_APPL_NAME)
    return [
        [
            string(e.MQCACF_APPL_NAME, record.name),
            integer(e.MQIACF_APPL_INFO_TYPE, info_type),
            *selection.structures(record),
            *_connection_tag(record, selection.wanted),
        ]
        for record in found
    ]


def _connection_tag(record: Record, wanted: Collection[int] | None) -> list[Structure]:
    """Return the tag of a connection; [] if it is not wanted, or the record is not of one."""
    tag = record.values.get("CONNTAG")
    if tag is None:
        return []
    return _chosen(
        [byte_string(e.MQBACF_CONN_TAG, str(tag).encode().ljust(_TAG_BYTES, b"\0"))], wanted
    )

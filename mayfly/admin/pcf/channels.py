"""PCF commands about channels (status, start, stop, ping …) and about connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayfly import admin
from mayfly.admin import CHSTATUS, CONN, HANDLE, SEQUENCE, Engine, channels_of
from mayfly.admin.pcf.objects import take_selection
from mayfly.admin.pcf.parameters import Parameters, missing, wrong_value
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
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

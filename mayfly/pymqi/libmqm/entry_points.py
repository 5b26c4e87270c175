"""The verbs as a C program calls them: numbers, and addresses of structures and buffers.

The C library calls the function of each name with the arguments of its entry point, in their
order, but for completion and reason code: these are what it returns
(``connections.codes_of``). In arguments, ``..._at`` is an address, 0 for NULL. The names are
those of the MQI. Message handles have properties by name, with values of C types.
"""

from __future__ import annotations

import struct
from ctypes import string_at

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.mqi.properties import Typed
from mayfly.pymqi import CMQC
from mayfly.pymqi.consumers import RegisteredCallback
from mayfly.pymqi.errors import MQMIError, warning
from mayfly.pymqi.libmqm import connections, repeated
from mayfly.pymqi.libmqm.connections import (
    ConnectionHandle,
    c_callback,
    callbacks_of,
    connect,
    entry_point,
    verb,
)
from mayfly.pymqi.libmqm.memory import (
    BMHO,
    BO,
    CBD,
    CTLO,
    MHBO,
    InMemory,
    read_charv,
    read_name,
    read_number,
    read_structure,
    write_bytes,
    write_number,
)
from mayfly.pymqi.message_handle import HandleContents, MessageHandle, ValueTooBig, handle_of
from mayfly.pymqi.structures import (
    CMHO,
    DMHO,
    DMPO,
    GMO,
    IMPO,
    MD,
    OD,
    PD,
    PMO,
    SD,
    SMPO,
    SRO,
    STS,
    return_string,
)
from mayfly.pymqi.verbs import (
    descriptor_of,
    fields_of,
    get_message,
    open_object,
    padded_attribute,
    padded_name,
    put_message,
    subscribe,
    text_of,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.properties.folders import (
    DATA_TYPES,
    FIXED_BYTES,
    Description,
    Property,
    joined,
    parts_of,
    raw_value,
    without_properties,
)
from mayfly.verbs.requests import Opened, Subscribed

#: The message handles of C programs by number, and the connection (MQHCONN) of each.
_handles: dict[int, tuple[MessageHandle, int]] = {}
#: The struct code of a value by its type in an MQRFH2.
_CODES = {"boolean": "<i", "i1": "<b", "i2": "<h", "i4": "<i", "i8": "<q", "r4": "<f", "r8": "<d"}
_MQ_TYPES = {dt: mq_type for mq_type, dt in DATA_TYPES.items()}


@entry_point
def MQCRTMH(hconn: int, cmho_at: int, hmsg_at: int) -> None:
    """Create a message handle, of a connection or with MQHC_UNASSOCIATED_HCONN of none.

    Raises MQRC_HMSG_ERROR for NULL, MQRC_HCONN_ERROR for an unknown connection.
    """
    write_number(hmsg_at, CMQC.MQHM_UNUSABLE_HMSG, 8)
    if not hmsg_at:
        raise mq_error(rc.MQRC_HMSG_ERROR, "pHmsg is NULL")
    _check_connection(hconn)
    made = MessageHandle(None, InMemory(CMHO, cmho_at).value if cmho_at else None)
    _handles[int(made.msg_handle)] = (made, hconn)
    write_number(hmsg_at, int(made.msg_handle), 8)


@entry_point
def MQDLTMH(hconn: int, hmsg_at: int, dmho_at: int) -> None:
    """Delete a message handle, which becomes MQHM_UNUSABLE_HMSG; MQRC_HMSG_ERROR for NULL."""
    if not hmsg_at:
        raise mq_error(rc.MQRC_HMSG_ERROR, "pHmsg is NULL")
    number = read_number(hmsg_at, 8)
    _contents(hconn, number)
    _handles[number][0].dlt(InMemory(DMHO, dmho_at).value if dmho_at else None)
    del _handles[number]
    write_number(hmsg_at, CMQC.MQHM_UNUSABLE_HMSG, 8)


@entry_point
def MQSETMP(
    hconn: int,
    hmsg: int,
    smpo_at: int,
    name_at: int,
    pd_at: int,
    mq_type: int,
    length: int,
    value_at: int,
) -> None:
    """Set a property to a value of a C type; a text may end with a NUL (MQVL_NULL_TERMINATED).

    Raises MQRC_PD_ERROR for options in the property descriptor, and the errors of the value.
    """
    contents = _contents(hconn, hmsg)
    smpo = InMemory(SMPO, smpo_at).value if smpo_at else SMPO()
    pd = InMemory(PD, pd_at).value if pd_at else PD()
    if pd.Options != c.MQPD_NONE:
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.Options {pd.Options:#x}")
    value = _value(mq_type, length, value_at)
    description = Description(pd.Support, pd.Context, pd.CopyOptions)
    contents.set(_name(name_at), mq_type, value, description, smpo.Options)


@entry_point
def MQINQMP(
    hconn: int,
    hmsg: int,
    impo_at: int,
    name_at: int,
    pd_at: int,
    type_at: int,
    length: int,
    value_at: int,
    data_length_at: int,
) -> None:
    """Return the value of a property in a buffer, with its type, name and descriptor.

    Raises MQRC_BUFFER_LENGTH_ERROR for a negative length, MQRC_PROPERTY_NOT_AVAILABLE, and
    MQRC_PROPERTY_VALUE_TOO_BIG with as much of the value as fits.
    """
    contents = _contents(hconn, hmsg)
    impo = InMemory(IMPO, impo_at) if impo_at else None
    pd = InMemory(PD, pd_at) if pd_at else None
    if length < 0:
        raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"ValueLength {length}")
    options = c.MQIMPO_NONE if impo is None else impo.value.Options
    wanted = read_number(type_at) if type_at else c.MQTYPE_AS_SET
    only_length = CMQC.MQIMPO_QUERY_LENGTH
    name = _name(name_at)
    max_bytes = 2**31 - 1 if options & only_length else length
    try:
        typed = contents.inquire(name, wanted, options & ~only_length, max_bytes)
    except ValueTooBig as error:
        write_number(data_length_at, len(raw_value(error.typed)))
        write_bytes(value_at, _raw(error.typed)[:length])
        raise
    found = contents.at_cursor or Property(name, typed)
    write_number(type_at, _MQ_TYPES.get(typed.dt, c.MQTYPE_STRING))
    if typed.value is None:
        write_number(type_at, c.MQTYPE_NULL)
    raw = _raw(typed)
    write_number(data_length_at, len(raw))
    if not options & only_length:
        write_bytes(value_at, raw)
    if impo is not None:
        fields = vars(impo.value)
        return_string(fields, "ReturnedName", found.name)
        impo.value.set(
            ReturnedEncoding=c.MQENC_NATIVE, ReturnedCCSID=1208, TypeString=typed.dt.ljust(8)
        )
        impo.write_back()
    if pd is not None:
        support, context, copy_options = found.description
        pd.value.set(Support=support, Context=context, CopyOptions=copy_options)
        pd.write_back()


@entry_point
def MQDLTMP(hconn: int, hmsg: int, dmpo_at: int, name_at: int) -> None:
    """Delete a property; MQRC_PROPERTY_NOT_AVAILABLE when the handle does not have it."""
    contents = _contents(hconn, hmsg)
    dmpo = InMemory(DMPO, dmpo_at).value if dmpo_at else DMPO()
    contents.delete(_name(name_at), dmpo.Options)


@entry_point
def MQBUFMH(
    hconn: int,
    hmsg: int,
    bmho_at: int,
    md_at: int,
    length: int,
    buffer_at: int,
    data_length_at: int,
) -> None:
    """Take the properties of a message in a buffer into a handle.

    With MQBMHO_DELETE_PROPERTIES they leave the buffer, and the MQMD describes what remains. Raises
    MQRC_OPTIONS_ERROR, MQRC_BUFFER_LENGTH_ERROR, MQRC_BUFFER_ERROR.
    """
    contents = _contents(hconn, hmsg)
    options = BMHO.read(bmho_at)["Options"]
    if options & ~CMQC.MQBMHO_DELETE_PROPERTIES:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"BMHO.Options {options:#x}")
    md = InMemory(MD, md_at)
    if length < 0:
        raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"BufferLength {length}")
    if length and not buffer_at:
        raise mq_error(rc.MQRC_BUFFER_ERROR, "pBuffer is NULL")
    body = string_at(buffer_at, length) if length else b""
    descriptor = descriptor_of(vars(md.value), 0)
    parts = parts_of(descriptor, body)
    contents.hold(parts.properties)
    if options & CMQC.MQBMHO_DELETE_PROPERTIES:
        descriptor, body = without_properties(descriptor, parts)
        write_bytes(buffer_at, body)
        _describe(md, fields_of(descriptor, md.value.Version))
    write_number(data_length_at, len(body))


@entry_point
def MQMHBUF(
    hconn: int,
    hmsg: int,
    mhbo_at: int,
    _name_at: int,
    md_at: int,
    length: int,
    buffer_at: int,
    data_length_at: int,
) -> None:
    """Write the properties of a handle as an MQRFH2 into a buffer; the MQMD describes it.

    Raises MQRC_PROPERTIES_TOO_BIG, with the length that is needed in DataLength.
    """
    contents = _contents(hconn, hmsg)
    options = MHBO.read(mhbo_at)["Options"]
    known = CMQC.MQMHBO_PROPERTIES_IN_MQRFH2 | CMQC.MQMHBO_DELETE_PROPERTIES
    if options & ~known:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"MHBO.Options {options:#x}")
    md = InMemory(MD, md_at)
    if length < 0:
        raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"BufferLength {length}")
    descriptor, body = joined(descriptor_of(vars(md.value), 0), b"", contents.properties)
    write_number(data_length_at, len(body))
    if len(body) > length:
        text = f"{len(body)} bytes of properties, {length} of the buffer"
        raise mq_error(rc.MQRC_PROPERTIES_TOO_BIG, text)
    write_bytes(buffer_at, body)
    _describe(md, fields_of(descriptor, md.value.Version))
    if options & CMQC.MQMHBO_DELETE_PROPERTIES:
        contents.hold([])


def _describe(md: InMemory[MD], fields: dict[str, object]) -> None:
    """Return in an MQMD what the data in a buffer are."""
    md.value.set(**{name: fields[name] for name in ("Format", "Encoding", "CodedCharSetId")})
    md.write_back()


def _check_connection(hconn: int) -> None:
    """Raise MQRC_HCONN_ERROR for a handle that is neither a connection nor that of none."""
    if hconn != CMQC.MQHC_UNASSOCIATED_HCONN:
        connections.connection_of(hconn).enter(asynchronous=True)


def _contents(hconn: int, number: int) -> HandleContents:
    """Return the contents of a message handle.

    Raises MQRC_HCONN_ERROR for a wrong connection, MQRC_HMSG_ERROR for an unknown handle.
    """
    _check_connection(hconn)
    if number not in _handles:
        raise mq_error(rc.MQRC_HMSG_ERROR, f"Hmsg {number}")
    return handle_of(number)


def _name(name_at: int) -> str:
    """Return the name in an MQCHARV; raises MQRC_PROPERTY_NAME_ERROR without one."""
    raw = read_charv(name_at)
    if raw is None:
        raise mq_error(rc.MQRC_PROPERTY_NAME_ERROR, "the MQCHARV of the name")
    return raw.decode("utf-8", "replace")


def _value(mq_type: int, length: int, at: int) -> object:
    """Return a value of an MQTYPE_* in memory.

    Raises MQRC_PROPERTY_TYPE_ERROR for another type, MQRC_BUFFER_LENGTH_ERROR for a length that is
    not that of the type, MQRC_BUFFER_ERROR for NULL.
    """
    if mq_type == c.MQTYPE_NULL:
        return None
    dt = DATA_TYPES.get(mq_type)
    if dt is None:
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"Type {mq_type}")
    is_text = dt == "string"
    if length < (c.MQVL_NULL_TERMINATED if is_text else 0) or length != FIXED_BYTES.get(dt, length):
        raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"ValueLength {length} of a {dt}")
    if not at and length:
        raise mq_error(rc.MQRC_BUFFER_ERROR, "pValue is NULL")
    raw = string_at(at) if length == c.MQVL_NULL_TERMINATED else string_at(at, length)
    if is_text:
        return raw.decode("utf-8", "replace")
    return raw if dt == "bin.hex" else struct.unpack(_CODES[dt], raw)[0]


def _raw(typed: Typed) -> bytes:
    """Return a value as the bytes of its C type."""
    code = _CODES.get(typed.dt)
    if code is None or typed.value is None or isinstance(typed.value, str | bytes):
        return raw_value(typed)
    return struct.pack(code, typed.value)


__all__ = [
    "MQBACK",
    "MQBEGIN",
    "MQBUFMH",
    "MQCB",
    "MQCLOSE",
    "MQCMIT",
    "MQCONN",
    "MQCONNX",
    "MQCRTMH",
    "MQCTL",
    "MQDISC",
    "MQDLTMH",
    "MQDLTMP",
    "MQGET",
    "MQINQ",
    "MQINQMP",
    "MQMHBUF",
    "MQOPEN",
    "MQPUT",
    "MQPUT1",
    "MQSET",
    "MQSETMP",
    "MQSTAT",
    "MQSUB",
    "MQSUBRQ",
]

_NAME_BYTES = 48
#: The most selectors that MQINQ and MQSET take.
_MAX_SELECTORS = 256
#: The numbers that selectors of texts have.
_TEXTS = range(CMQC.MQCA_FIRST, CMQC.MQCA_LAST + 1)


@entry_point
def MQCONN(name_at: int, hconn_at: int) -> None:
    """Connect to a queue manager by its name."""
    _connect(name_at, 0, hconn_at)


@entry_point
def MQCONNX(name_at: int, options_at: int, hconn_at: int) -> None:
    """Connect to a queue manager with an MQCNO; MQRC_CNO_ERROR for NULL."""
    if not options_at:
        raise mq_error(CMQC.MQRC_CNO_ERROR, "MQCNO is NULL")
    _connect(name_at, options_at, hconn_at)


def _connect(name_at: int, options_at: int, hconn_at: int) -> None:
    """Connect and return the handle; after an error it is MQHC_UNUSABLE_HCONN."""
    write_number(hconn_at, CMQC.MQHC_UNUSABLE_HCONN)
    if not hconn_at:
        raise mq_error(rc.MQRC_HCONN_ERROR, "pHconn is NULL")
    made = connect(read_name(name_at, _NAME_BYTES), options_at)
    hconn = connections.add(made)
    made.callbacks = callbacks_of(made.connection, hconn)
    write_number(hconn_at, hconn)


@entry_point
def MQDISC(hconn_at: int) -> None:
    """Commit and disconnect; the handle becomes MQHC_UNUSABLE_HCONN, also after an error."""
    if not hconn_at:
        raise mq_error(rc.MQRC_HCONN_ERROR, "pHconn is NULL")
    hconn = read_number(hconn_at)
    handle = connections.connection_of(hconn)
    handle.enter(asynchronous=True)
    if handle.callbacks is not None:
        handle.callbacks.stop()
    connections.remove(hconn)
    write_number(hconn_at, CMQC.MQHC_UNUSABLE_HCONN)
    if handle.connection.is_broken:
        raise mq_error(rc.MQRC_CONNECTION_BROKEN, "the queue manager, or the way to it, is gone")
    handle.connection.close()


@verb
def MQOPEN(handle: ConnectionHandle, od_at: int, options: int, hobj_at: int) -> None:
    """Open a queue, topic, process or queue manager; the MQOD gets the resolved names.

    Raises MQRC_HOBJ_ERROR for NULL, and the errors of an open.
    """
    write_number(hobj_at, CMQC.MQHO_UNUSABLE_HOBJ)
    if not hobj_at:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "pHobj is NULL")
    od = InMemory(OD, od_at)
    opened = open_object(handle.connection, od.value, options)
    od.write_back()
    write_number(hobj_at, handle.add(opened))


@verb
def MQCLOSE(handle: ConnectionHandle, hobj_at: int, options: int) -> None:
    """Close an object or a subscription; the handle becomes MQHO_UNUSABLE_HOBJ.

    Raises MQRC_HOBJ_ERROR for NULL or an unknown handle, the errors of a close, and its warnings.
    """
    if not hobj_at:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "pHobj is NULL")
    hobj = read_number(hobj_at)
    found = handle.object(hobj)
    reason = rc.MQRC_NONE
    if isinstance(found, Subscribed):
        _close_subscription(handle.connection, found, options)
    else:
        if handle.callbacks is not None:
            handle.callbacks.deregister(hobj)
        reason = handle.connection.call(ask.CloseObject(found.handle, options))
    handle.remove(hobj)
    write_number(hobj_at, CMQC.MQHO_UNUSABLE_HOBJ)
    if reason:
        raise warning(reason)


def _close_subscription(connection: Connection, found: Subscribed, options: int) -> None:
    """Close a subscription; with MQCO_REMOVE_SUB a durable one ends.

    Raises MQRC_OPTIONS_ERROR for other options, and MQRC_OPTION_NOT_VALID_FOR_TYPE for
    MQCO_KEEP_SUB of one that is not durable.
    """
    both = c.MQCO_KEEP_SUB | c.MQCO_REMOVE_SUB
    if options & ~(both | c.MQCO_QUIESCE) or options & both == both:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"close options {options:#x} of a subscription")
    if options & c.MQCO_KEEP_SUB and not found.facts.is_durable:
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, "MQCO_KEEP_SUB: it is not durable")
    is_removed = bool(options & c.MQCO_REMOVE_SUB)
    connection.call(ask.CloseSubscription(found.number, remove=is_removed))


@verb
def MQPUT(
    handle: ConnectionHandle, hobj: int, md_at: int, pmo_at: int, length: int, buffer_at: int
) -> None:
    """Put a message; MQMD and MQPMO get what the queue manager has filled in.

    Raises the errors of a put, and its warnings, after which the message is put.
    """
    opened = handle.opened(hobj)
    md, pmo = read_structure(MD, md_at), read_structure(PMO, pmo_at)
    body = _body(length, buffer_at)
    outcome = repeated.put(handle.connection, opened.handle, md, pmo, body)
    if outcome is None:
        _put(handle, opened, InMemory(MD, md_at), InMemory(PMO, pmo_at), body)
        return
    write_bytes(md_at, outcome.md)
    write_bytes(pmo_at, outcome.options)
    if outcome.warning:
        raise warning(outcome.warning)


@verb
def MQPUT1(
    handle: ConnectionHandle, od_at: int, md_at: int, pmo_at: int, length: int, buffer_at: int
) -> None:
    """Open an object, put one message and close it.

    Raises MQRC_OBJECT_TYPE_ERROR for an object that is no queue or topic, and the errors of an open
    and a put.
    """
    od, md, pmo = InMemory(OD, od_at), InMemory(MD, md_at), InMemory(PMO, pmo_at)
    body = _body(length, buffer_at)
    options = c.MQOO_OUTPUT
    for put_option, open_option in _CONTEXTS.items():
        options |= open_option if pmo.value.Options & put_option else 0
    if od.value.ObjectType not in (c.MQOT_Q, c.MQOT_TOPIC):
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"OD.ObjectType {od.value.ObjectType}")
    opened = open_object(handle.connection, od.value, options)
    try:
        _put(handle, opened, md, pmo, body)
    finally:
        handle.connection.call(ask.CloseObject(opened.handle))
        od.write_back()


_CONTEXTS = {
    c.MQPMO_SET_ALL_CONTEXT: c.MQOO_SET_ALL_CONTEXT,
    c.MQPMO_SET_IDENTITY_CONTEXT: c.MQOO_SET_IDENTITY_CONTEXT,
    c.MQPMO_PASS_ALL_CONTEXT: c.MQOO_PASS_ALL_CONTEXT,
    c.MQPMO_PASS_IDENTITY_CONTEXT: c.MQOO_PASS_IDENTITY_CONTEXT,
}


def _put(
    handle: ConnectionHandle, opened: Opened, md: InMemory[MD], pmo: InMemory[PMO], body: bytes
) -> None:
    """Put a body to an open object, and return MQMD and MQPMO, after a warning too."""
    fields = vars(pmo.value)
    context = fields["Context"]
    if context:
        fields["Context"] = handle.opened(context).handle
    try:
        put_message(handle.connection, opened, body, md.value, pmo.value)
    except MQMIError as error:
        if error.comp == c.MQCC_FAILED:
            raise
        fields["Context"] = context
        md.write_back()
        pmo.write_back()
        raise
    fields["Context"] = context
    md.write_back()
    pmo.write_back()


def _body(length: int, buffer_at: int) -> bytes:
    """Return the data of a put.

    Raises MQRC_BUFFER_LENGTH_ERROR for a negative length, MQRC_BUFFER_ERROR for NULL.
    """
    if length < 0:
        raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"BufferLength {length}")
    if not length:
        return b""
    if not buffer_at:
        raise mq_error(rc.MQRC_BUFFER_ERROR, "pBuffer is NULL")
    return string_at(buffer_at, length)


@verb
def MQGET(
    handle: ConnectionHandle,
    hobj: int,
    md_at: int,
    gmo_at: int,
    length: int,
    buffer_at: int,
    data_length_at: int,
) -> None:
    """Get or browse a message into a buffer; MQMD, MQGMO and DataLength describe it.

    Raises MQRC_BUFFER_LENGTH_ERROR, MQRC_BUFFER_ERROR, MQRC_DATA_LENGTH_ERROR, the errors of a get,
    and its warnings, after which the buffer has the message.
    """
    opened = handle.opened(hobj)
    md, gmo = read_structure(MD, md_at), read_structure(GMO, gmo_at)
    if length < 0:
        raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"BufferLength {length}")
    if length and not buffer_at:
        raise mq_error(rc.MQRC_BUFFER_ERROR, "pBuffer is NULL")
    if not data_length_at:
        raise mq_error(rc.MQRC_DATA_LENGTH_ERROR, "pDataLength is NULL")
    outcome = repeated.get(handle.connection, opened.handle, md, gmo, length)
    if outcome is None:
        _get(handle.connection, opened.handle, md_at, gmo_at, length, buffer_at, data_length_at)
        return
    _return_message(outcome.body, outcome.length, buffer_at, data_length_at)
    write_bytes(md_at, outcome.md)
    write_bytes(gmo_at, outcome.options)
    if outcome.warning:
        raise warning(outcome.warning)


def _get(
    connection: Connection,
    handle: int,
    md_at: int,
    gmo_at: int,
    length: int,
    buffer_at: int,
    data_length_at: int,
) -> None:
    """Get with structures that ask for more than ``repeated`` knows.

    ``handle`` is the object handle of the connection, not that of the C program.
    """
    md, gmo = InMemory(MD, md_at), InMemory(GMO, gmo_at)
    try:
        body = get_message(connection, handle, length, md.value, gmo.value)
    except MQMIError as error:
        if error.comp == c.MQCC_WARNING:
            _return_message(error.message, error.original_length, buffer_at, data_length_at)
            md.write_back()
            gmo.write_back()
        raise
    _return_message(body, len(body), buffer_at, data_length_at)
    md.write_back()
    gmo.write_back()


def _return_message(body: bytes, length: int, buffer_at: int, data_length_at: int) -> None:
    """Write a body, and the full length of its message."""
    write_bytes(buffer_at, body)
    write_number(data_length_at, length)


@verb
def MQINQ(
    handle: ConnectionHandle,
    hobj: int,
    count: int,
    selectors_at: int,
    number_count: int,
    numbers_at: int,
    text_length: int,
    texts_at: int,
) -> None:
    """Inquire attributes: numbers and texts, each kind in the order of the selectors.

    An attribute that the object does not have is -1, or a text of asterisks, and a warning. An
    array that is too small gets what fits, and a warning.
    """
    opened = handle.opened(hobj)
    selectors = _selectors(count, selectors_at, number_count, numbers_at, text_length, texts_at)
    inquiry = handle.connection.call(ask.Inquire(opened.handle, selectors))
    reason, numbers, texts = inquiry.warning, b"", b""
    for selector, value in zip(selectors, inquiry.values, strict=True):
        found = _not_applicable(selector) if value is None else padded_attribute(selector, value)
        if isinstance(found, bytes):
            texts += found
        else:
            numbers += found.to_bytes(4, "little", signed=True)
    if len(numbers) > 4 * number_count:
        reason = CMQC.MQRC_INT_ATTR_COUNT_TOO_SMALL
    if len(texts) > text_length:
        reason = CMQC.MQRC_CHAR_ATTRS_TOO_SHORT
    write_bytes(numbers_at, numbers[: 4 * number_count])
    write_bytes(texts_at, texts[:text_length])
    if reason:
        raise warning(reason)


@verb
def MQSET(
    handle: ConnectionHandle,
    hobj: int,
    count: int,
    selectors_at: int,
    number_count: int,
    numbers_at: int,
    text_length: int,
    texts_at: int,
) -> None:
    """Set attributes: numbers and texts, each kind in the order of the selectors; all or none.

    Raises MQRC_CHAR_ATTR_LENGTH_ERROR, MQRC_INT_ATTR_COUNT_ERROR for arrays that are too small.
    """
    opened = handle.opened(hobj)
    selectors = _selectors(count, selectors_at, number_count, numbers_at, text_length, texts_at)
    values: dict[int, int | str] = {}
    number_index = text_offset = 0
    for selector in selectors:
        if selector in _TEXTS:
            length = _length(selector)
            if text_offset + length > text_length:
                raise mq_error(rc.MQRC_CHAR_ATTR_LENGTH_ERROR, f"CharAttrLength {text_length}")
            values[selector] = text_of(string_at(texts_at + text_offset, length))
            text_offset += length
        else:
            if number_index >= number_count:
                raise mq_error(rc.MQRC_INT_ATTR_COUNT_ERROR, f"IntAttrCount {number_count}")
            values[selector] = read_number(numbers_at + 4 * number_index)
            number_index += 1
    handle.connection.call(ask.Set.of(opened.handle, values))


def _not_applicable(selector: int) -> int | bytes:
    """Return what MQINQ has for an attribute that the object has not."""
    return b"*" * _length(selector) if selector in _TEXTS else int(CMQC.MQIAV_NOT_APPLICABLE)


def _length(selector: int) -> int:
    """Return the length of an attribute that is a text, in bytes."""
    found = padded_attribute(selector, "")
    assert isinstance(found, bytes)
    return len(found)


def _selectors(
    count: int, at: int, number_count: int, numbers_at: int, text_length: int, texts_at: int
) -> list[int]:
    """Return the selectors of MQINQ and MQSET; raises the reason codes of wrong arrays."""
    if not 0 <= count <= _MAX_SELECTORS:
        raise mq_error(CMQC.MQRC_SELECTOR_COUNT_ERROR, f"SelectorCount {count}")
    if count and not at:
        raise mq_error(rc.MQRC_SELECTOR_ERROR, "pSelectors is NULL")
    if number_count < 0:
        raise mq_error(rc.MQRC_INT_ATTR_COUNT_ERROR, f"IntAttrCount {number_count}")
    if number_count and not numbers_at:
        raise mq_error(CMQC.MQRC_INT_ATTRS_ARRAY_ERROR, "pIntAttrs is NULL")
    if text_length < 0:
        raise mq_error(rc.MQRC_CHAR_ATTR_LENGTH_ERROR, f"CharAttrLength {text_length}")
    if text_length and not texts_at:
        raise mq_error(CMQC.MQRC_CHAR_ATTRS_ERROR, "pCharAttrs is NULL")
    return [read_number(at + 4 * n) for n in range(count)]


@verb
def MQBEGIN(_handle: ConnectionHandle, options_at: int) -> None:
    """Fail with MQRC_ENVIRONMENT_ERROR: there are no global units of work."""
    if options_at:
        BO.read(options_at)
    raise mq_error(rc.MQRC_ENVIRONMENT_ERROR, "MQBEGIN: no resource manager takes part")


@verb
def MQCMIT(handle: ConnectionHandle) -> None:
    """Commit the unit of work."""
    handle.connection.call(ask.Commit())


@verb
def MQBACK(handle: ConnectionHandle) -> None:
    """Back out the unit of work."""
    handle.connection.call(ask.Backout())


@verb
def MQSUB(handle: ConnectionHandle, sd_at: int, hobj_at: int, hsub_at: int) -> None:
    """Subscribe; a managed subscription returns a handle of its queue, any other is given one.

    Raises MQRC_HOBJ_ERROR if the address of a handle is NULL, and the errors of a subscription.
    """
    if not hobj_at:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "pHobj is NULL")
    if not hsub_at:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "pHsub is NULL")
    sd = InMemory(SD, sd_at)
    hobj, options = read_number(hobj_at), sd.value.Options
    queue = c.MQHO_NONE
    if not options & c.MQSO_MANAGED and hobj not in (c.MQHO_NONE, CMQC.MQHO_UNUSABLE_HOBJ):
        queue = handle.opened(hobj).handle
    altered = None
    if options & c.MQSO_ALTER:
        name = (sd.value.get_vs("SubName") or b"").decode("utf-8", "replace")
        altered = handle.subscription_named(name)
    held = c.MQHO_NONE if altered is None else altered.handle
    made = subscribe(handle.connection, sd.value, queue, altered=altered, held=held)
    sd.write_back()
    if made.handle != c.MQHO_NONE and made.handle != queue:
        known = handle.handle_of(made.handle)
        opened = Opened(made.handle, c.MQOT_Q, made.facts.queue, handle.connection.name)
        write_number(hobj_at, known or handle.add(opened))
    write_number(hsub_at, handle.add(made))


@verb
def MQSUBRQ(handle: ConnectionHandle, hsub: int, action: int, sro_at: int) -> None:
    """Request the retained publications of a subscription; MQSRO says how many were sent.

    Raises MQRC_ACTION_ERROR, and MQRC_OPTIONS_ERROR for options other than MQSRO_FAIL_IF_QUIESCING.
    """
    found = handle.subscribed(hsub)
    if action != CMQC.MQSR_ACTION_PUBLICATION:
        raise mq_error(rc.MQRC_ACTION_ERROR, f"Action {action}")
    sro = InMemory(SRO, sro_at) if sro_at else None
    if sro is not None and sro.value.Options & ~c.MQSO_FAIL_IF_QUIESCING:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"SRO.Options {sro.value.Options:#x}")
    sent = handle.connection.call(ask.RequestRetained(found.number))
    if sro is not None:
        sro.value.NumPubs = sent
        sro.write_back()


@verb
def MQSTAT(handle: ConnectionHandle, kind: int, status_at: int) -> None:
    """Return the outcomes of asynchronous puts since the last call in an MQSTS.

    Raises MQRC_STAT_TYPE_ERROR, and MQRC_ENVIRONMENT_ERROR for the types about reconnection.
    """
    sts = InMemory(STS, status_at)
    if kind in (CMQC.MQSTAT_TYPE_RECONNECTION, CMQC.MQSTAT_TYPE_RECONNECTION_ERROR):
        raise mq_error(rc.MQRC_ENVIRONMENT_ERROR, f"MQSTAT Type {kind}")
    if kind != CMQC.MQSTAT_TYPE_ASYNC_ERROR:
        raise mq_error(CMQC.MQRC_STAT_TYPE_ERROR, f"MQSTAT Type {kind}")
    status = handle.connection.call(ask.AskStatus())
    own = handle.connection.name if status.object_name else ""
    sts.value.set(
        CompCode=status.comp,
        Reason=status.reason,
        PutSuccessCount=status.success_count,
        PutWarningCount=status.warning_count,
        PutFailureCount=status.failure_count,
        ObjectType=status.object_type,
        ObjectName=padded_name(status.object_name),
        ObjectQMgrName=padded_name(own),
        ResolvedObjectName=padded_name(status.queue),
        ResolvedQMgrName=padded_name(status.manager),
    )
    sts.write_back()


@entry_point
def MQCB(hconn: int, operation: int, cbd_at: int, hobj: int, md_at: int, gmo_at: int) -> None:
    """Register, end, suspend or resume the callback of a queue, or that for events."""
    handle = connections.connection_of(hconn)
    handle.enter(asynchronous=True)
    assert handle.callbacks is not None
    handle.callbacks.operate(
        operation,
        _hobj(cbd_at, hobj),
        lambda: _consumer(handle, cbd_at, hobj, md_at, gmo_at),
    )


def _hobj(cbd_at: int, hobj: int) -> int:
    """Return the object of a callback: MQHO_NONE for one of events, whatever Hobj is."""
    is_event = cbd_at and CBD.read(cbd_at)["CallbackType"] == CMQC.MQCBT_EVENT_HANDLER
    return c.MQHO_NONE if is_event else hobj


def _consumer(
    handle: ConnectionHandle, cbd_at: int, hobj: int, md_at: int, gmo_at: int
) -> RegisteredCallback:
    """Return the callback that an MQCBD describes, with copies of MQMD and MQGMO.

    Raises MQRC_CBD_ERROR, MQRC_CALLBACK_TYPE_ERROR, MQRC_CALLBACK_ROUTINE_ERROR, MQRC_HOBJ_ERROR.
    """
    cbd = CBD.read(cbd_at)
    kind = cbd["CallbackType"]
    if kind not in (CMQC.MQCBT_MESSAGE_CONSUMER, CMQC.MQCBT_EVENT_HANDLER):
        raise mq_error(CMQC.MQRC_CALLBACK_TYPE_ERROR, f"CBD.CallbackType {kind}")
    if not cbd["CallbackFunction"]:
        text = "CBD.CallbackFunction is NULL: a name of a program is not loaded"
        raise mq_error(CMQC.MQRC_CALLBACK_ROUTINE_ERROR, text)
    if kind == CMQC.MQCBT_EVENT_HANDLER:
        return c_callback(c.MQHO_NONE, c.MQHO_NONE, cbd, MD(), GMO())
    md = InMemory(MD, md_at).value if md_at else MD()
    gmo = InMemory(GMO, gmo_at).value if gmo_at else GMO()
    return c_callback(hobj, handle.opened(hobj).handle, cbd, md, gmo)


@entry_point
def MQCTL(hconn: int, operation: int, options_at: int) -> None:
    """Start, stop, suspend or resume the callbacks of a connection."""
    handle = connections.connection_of(hconn)
    handle.enter(asynchronous=True)
    area = CTLO.read(options_at)["ConnectionArea"] if options_at else 0
    assert handle.callbacks is not None
    handle.callbacks.control(operation, area)

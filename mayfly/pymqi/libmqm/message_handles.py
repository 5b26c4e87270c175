"""Message handles as a C program uses them: properties by name, with values of C types."""

from __future__ import annotations

import struct
from ctypes import string_at

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.mqi.properties import Typed
from mayfly.pymqi import CMQC
from mayfly.pymqi.libmqm import connections
from mayfly.pymqi.libmqm.connections import entry_point
from mayfly.pymqi.libmqm.memory import (
    BMHO,
    MHBO,
    InMemory,
    read_charv,
    read_number,
    write_bytes,
    write_number,
)
from mayfly.pymqi.message_handle import HandleContents, MessageHandle, ValueTooBig, handle_of
from mayfly.pymqi.structures import CMHO, DMHO, DMPO, IMPO, MD, PD, SMPO, return_string
from mayfly.pymqi.verbs import descriptor_of, fields_of
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

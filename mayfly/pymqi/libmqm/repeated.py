"""Puts and gets whose structures are like those of an earlier call, at a third of the cost.

A program passes the same few MQMD, MQPMO and MQGMO to its verbs again and again. The request that
their bytes make, and the bytes that describe the outcome, are computed once and cached. Ids, times
and counts differ from message to message: they are no part of the cache.

Calls that ask for more (a message handle, a context, groups) are left to ``memory.InMemory`` and
``pymqi.verbs``. ``tests/libmqm/test_repeated.py`` compares both, byte for byte.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.layout import Layout
from mayfly.pymqi.converting import Coding, converted
from mayfly.pymqi.libmqm.memory import packed, unpacked
from mayfly.pymqi.structures import GMO, MD, PMO
from mayfly.pymqi.verbs import (
    EXTENSION_FORMAT,
    descriptor_of,
    destination_of,
    fields_of,
    fill_in_status,
    padded_name,
    put_fields_of,
    put_moment,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import token_of

#: How many structures are kept of each kind, the most recent ones.
_KEPT: Final = 1_024
_NO_ID: Final = bytes(24)
_LONG: Final = struct.Struct("<i")


def _offset(layout: Layout, name: str) -> int:
    """Return the offset of a field in bytes."""
    names = [field.name for field in layout.fields]
    return sum(field.length for field in layout.fields[: names.index(name)])


# Parts of an MQMD, of an MQGMO.
_EXPIRY, _FEEDBACK, _ENCODING, _FORMAT, _MSG_ID, _CORREL_ID, _BACKOUT_COUNT, _REPLY_TO_Q = (
    _offset(structures.MD, name)
    for name in (
        "Expiry",
        "Feedback",
        "Encoding",
        "Format",
        "MsgId",
        "CorrelId",
        "BackoutCount",
        "ReplyToQ",
    )
)
_PUT_DATE, _APPL_ORIGIN_DATA = (
    _offset(structures.MD, name) for name in ("PutDate", "ApplOriginData")
)
_RESOLVED_Q_NAME, _MATCH_OPTIONS, _GROUP_STATUS, _RESERVED1, _MSG_TOKEN, _RESERVED2 = (
    _offset(structures.GMO, name)
    for name in (
        "ResolvedQName",
        "MatchOptions",
        "GroupStatus",
        "Reserved1",
        "MsgToken",
        "Reserved2",
    )
)


class VerbOutcome(NamedTuple):
    """The result of a verb for the program: both structures complete, and the data of a get.

    ``length`` is that of the message in bytes, which is more than that of data that are cut.
    ``warning`` is a reason code, 0 for none.
    """

    md: bytes
    options: bytes
    warning: int
    body: bytes = b""
    length: int = 0


class _AskedPut(NamedTuple):
    """The request in the structures of a put, without ids."""

    descriptor: Descriptor
    options: int
    expiry_tenths: int


class _AskedGet(NamedTuple):
    """The request in the structures of a get, without ids; ``coding`` is for MQGMO_CONVERT."""

    options: int
    wait_ms: int
    md_version: int
    gmo_version: int
    matches_msg_id: bool
    matches_correl_id: bool
    coding: Coding | None


def put(
    connection: Connection, handle: int, md: bytes, pmo: bytes, body: bytes
) -> VerbOutcome | None:
    """Put a message to an open object (MQPUT); None, and nothing done, for a call that asks more.

    ``md`` and ``pmo`` are structures with a right StrucId and Version. Raises MQError.
    """
    kept = md[:_MSG_ID] + md[_BACKOUT_COUNT:_PUT_DATE] + md[_APPL_ORIGIN_DATA:]
    asked = _asked_put(kept, pmo)
    if asked is None:
        return None
    result = connection.put(
        handle,
        body,
        asked.descriptor,
        asked.options,
        msg_id=stored_id(md[_MSG_ID:_CORREL_ID]),
        correl_id=stored_id(md[_CORREL_ID:_BACKOUT_COUNT]),
        expiry_tenths=asked.expiry_tenths,
    )
    if result is None:
        return VerbOutcome(md, pmo, 0)
    before, between, after = _md_after_put(kept, result.descriptor)
    date, time = put_moment(result.descriptor, result.window.put_ms)
    ids = result.msg_id, result.correl_id or _NO_ID
    return VerbOutcome(
        b"".join((before, *ids, between, date, time, after)),
        _pmo_after_put(pmo, result.queue, result.manager, connection.name),
        result.warning,
    )


def get(
    connection: Connection, handle: int, md: bytes, gmo: bytes, buffer_bytes: int
) -> VerbOutcome | None:
    """Get or browse a message (MQGET); None, and nothing done, for a call that asks more.

    ``md`` and ``gmo`` are structures with a right StrucId and Version; ``buffer_bytes`` is the
    length of the buffer. Raises MQError.
    """
    fixed = gmo[:_RESOLVED_Q_NAME] + gmo[_MATCH_OPTIONS:_GROUP_STATUS] + gmo[_RESERVED2:]
    asked = _asked_get(md[:8] + md[_ENCODING:_FORMAT], fixed)
    if asked is None:
        return None
    result = connection.call(
        ask.Get(
            handle,
            asked.options,
            wait_ms=asked.wait_ms,
            max_length=buffer_bytes,
            msg_id=stored_id(md[_MSG_ID:_CORREL_ID]) if asked.matches_msg_id else b"",
            correl_id=stored_id(md[_CORREL_ID:_BACKOUT_COUNT]) if asked.matches_correl_id else b"",
            with_extension=asked.md_version < c.MQMD_VERSION_2,
        )
    )
    message, length, warning = result.message, result.data_length, result.warning
    body, descriptor = message.body, message.descriptor
    if asked.coding is not None:
        body, descriptor, length, warning = converted(
            result, asked.coding, buffer_bytes, asked.options
        )
    head, middle, names, tail = _md_after_get(descriptor, asked.md_version)
    date, time = put_moment(descriptor, message.put_ms)
    filled = (
        head,
        _LONG.pack(message.remaining_tenths),
        middle,
        message.msg_id,
        message.correl_id,
        _LONG.pack(message.backout_count),
        names,
        date,
        time,
        tail,
    )
    parts = [gmo[:_RESOLVED_Q_NAME], padded_name(message.queue)]
    if asked.gmo_version >= c.MQGMO_VERSION_2:
        status = _status(descriptor.msg_flags)
        parts += gmo[_MATCH_OPTIONS:_GROUP_STATUS], status, gmo[_RESERVED1:_MSG_TOKEN]
    if asked.gmo_version >= c.MQGMO_VERSION_3:
        parts += token_of(message), _LONG.pack(len(body)), gmo[_RESERVED2:]
    return VerbOutcome(b"".join(filled), b"".join(parts), warning, body, length)


@lru_cache(_KEPT)
def _asked_put(kept: bytes, pmo: bytes) -> _AskedPut | None:
    """Return what a put asks for; None if it is more than is kept.

    ``kept`` is an MQMD without ids, PutDate and PutTime.
    """
    given = vars(unpacked(PMO, pmo))
    options = given["Options"]
    fields = ("Context", "RecsPresent", "OriginalMsgHandle", "NewMsgHandle", "Action")
    if options & (c.MQPMO_SET_ALL_CONTEXT | c.MQPMO_MD_FOR_OUTPUT_ONLY) or any(
        given[name] for name in fields
    ):
        return None
    md = vars(unpacked(MD, _whole(kept)))
    descriptor = descriptor_of(md, c.MQPMO_NONE)
    if descriptor.format == EXTENSION_FORMAT:
        return None
    return _AskedPut(descriptor, ask.response_of_mqi(options), md["Expiry"])


@lru_cache(_KEPT)
def _md_after_put(kept: bytes, final: Descriptor) -> tuple[bytes, bytes, bytes]:
    """Return an MQMD with what a put has resolved, cut at its ids, and at its date and time."""
    md = unpacked(MD, _whole(kept))
    fields = vars(md)
    # The MD describes the data in the form that the program gave.
    resolved = final._replace(format=descriptor_of(fields, c.MQPMO_NONE).format)
    fields.update(put_fields_of(resolved, fields["Version"]))
    raw = packed(md)
    return raw[:_MSG_ID], raw[_BACKOUT_COUNT:_PUT_DATE], raw[_APPL_ORIGIN_DATA:]


def _whole(kept: bytes) -> bytes:
    """Return an MQMD with zeros for its ids, and for its date and time."""
    before, rest = kept[:_MSG_ID], kept[_MSG_ID:]
    names_bytes = _PUT_DATE - _BACKOUT_COUNT
    between, after = rest[:names_bytes], rest[names_bytes:]
    return b"".join((before, _NO_ID, _NO_ID, between, bytes(16), after))


@lru_cache(_KEPT)
def _pmo_after_put(pmo: bytes, queue: str, manager: str, own_manager: str) -> bytes:
    """Return an MQPMO with the names of the resolved queue."""
    value = unpacked(PMO, pmo)
    vars(value).update(destination_of(queue, manager, own_manager))
    return packed(value)


@lru_cache(_KEPT)
def _asked_get(read: bytes, fixed: bytes) -> _AskedGet | None:
    """Return what a get asks for; None if it is more than is kept.

    ``read`` are StrucId, Version, Encoding and CodedCharSetId of an MQMD, ``fixed`` an MQGMO
    without what a get fills in.
    """
    md_version, encoding, ccsid = struct.unpack_from("<3i", read, 4)
    gmo_version, options, wait_ms = struct.unpack_from("<3i", fixed, 4)
    others = c.MQGMO_UNLOCK | c.MQGMO_PROPERTIES_IN_HANDLE | c.MQGMO_LOGICAL_ORDER
    has_handle = any(fixed[_RESOLVED_Q_NAME + 4 + 4 :])
    matched = c.MQMO_MATCH_MSG_ID | c.MQMO_MATCH_CORREL_ID
    if gmo_version >= c.MQGMO_VERSION_2:
        [matched] = struct.unpack_from("<i", fixed, _RESOLVED_Q_NAME)
    if options & others or has_handle or matched & ~(c.MQMO_MATCH_MSG_ID | c.MQMO_MATCH_CORREL_ID):
        return None
    return _AskedGet(
        options,
        wait_ms,
        md_version,
        gmo_version,
        bool(matched & c.MQMO_MATCH_MSG_ID),
        bool(matched & c.MQMO_MATCH_CORREL_ID),
        Coding.of(encoding, ccsid) if options & c.MQGMO_CONVERT else None,
    )


@lru_cache(_KEPT)
def _md_after_get(descriptor: Descriptor, version: int) -> tuple[bytes, bytes, bytes, bytes]:
    """Return an MQMD for a descriptor, cut at expiry, at ids and count, and at date and time."""
    md = MD(Version=version)
    vars(md).update(fields_of(descriptor, version))
    raw = packed(md)
    return (
        raw[:_EXPIRY],
        raw[_FEEDBACK:_MSG_ID],
        raw[_REPLY_TO_Q:_PUT_DATE],
        raw[_APPL_ORIGIN_DATA:],
    )


@lru_cache(_KEPT)
def _status(flags: int) -> bytes:
    """Return GroupStatus, SegmentStatus and Segmentation of an MQGMO for the flags of a message."""
    fields = vars(GMO(Version=c.MQGMO_VERSION_2))
    fill_in_status(fields, flags, 0)
    return bytes(fields[name] for name in ("GroupStatus", "SegmentStatus", "Segmentation"))

"""A JMS message on its way out: its descriptor, and its MQRFH2 as IBM MQ JMS writes it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, cast

from mayfly.jms import constants as k
from mayfly.jms import values as v
from mayfly.jms.charsets import ccsid_named, codec_of
from mayfly.jms.destinations import Destination, Queue
from mayfly.jms.errors import MessageFormatException, refuse
from mayfly.jms.messages import Message
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import (
    FORMAT,
    UTF_8,
    Typed,
    escape,
    pack_folder,
    pack_header,
    property_element,
)
from mayfly.properties.selectors.names import REPORT_BITS, correlation_bytes, id_bytes

_NULL_BODY = (
    '<msgbody xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"></msgbody>'
)
_DATA_FORMATS = {"jms_text": "MQSTR", "jms_map": "MQSTR", "jms_stream": "MQSTR"}
_FORMAT_BYTES = 8
_LARGEST_SEQUENCE_NUMBER = 999_999_999


class Terms(NamedTuple):
    """The terms on which a message is sent: settings of the producer and of the destination.

    ``delivery_mode`` and ``priority`` go into the MQRFH2, ``persistence`` and ``md_priority`` into
    the descriptor. ``timestamp_ms`` 0 is no timestamp, ``expiration_ms`` 0 no end.
    """

    delivery_mode: int
    priority: int
    persistence: int
    md_priority: int
    timestamp_ms: int
    expiration_ms: int


class EncodedMessage(NamedTuple):
    """A message as the engine takes it; CorrelId is empty for none."""

    descriptor: Descriptor
    correl_id: bytes
    body: bytes


class Special(NamedTuple):
    """The descriptor fields that the JMS_IBM_* and JMSX* properties of a message set."""

    report: int = c.MQRO_NONE
    msg_type: int | None = None
    feedback: int = c.MQFB_NONE
    data_format: str | None = None
    encoding: int = c.MQENC_NORMAL
    coded_char_set_id: int = UTF_8
    group_id: str | None = None
    group_seq: int | None = None
    is_last_in_group: bool = False
    is_retained: bool = False

    @property
    def is_grouped(self) -> bool:
        """Whether it is part of a group."""
        return self.group_id is not None or self.is_last_in_group


PLAIN = Special()


def special_of(properties: dict[str, Typed]) -> Special:
    """Return the descriptor fields that the properties set.

    Raises MessageFormatException for a value of the wrong type, JMSException for one that MQ does
    not know (MQRC_REPORT_OPTIONS_ERROR, MQRC_TARGET_CCSID_ERROR, MQRC_MSG_SEQ_NUMBER_ERROR).
    """
    if not properties:
        return PLAIN
    found = {name: properties[name] for name in properties if name in k.DESCRIPTOR_PROPERTIES}
    if not found:
        return PLAIN
    return Special(
        _report(found),
        _number(found, k.JMS_IBM_MSGTYPE),
        _number(found, k.JMS_IBM_FEEDBACK) or c.MQFB_NONE,
        _text(found, k.JMS_IBM_FORMAT),
        c.MQENC_NORMAL if (e := _number(found, k.JMS_IBM_ENCODING)) is None else e,
        _character_set(_text(found, k.JMS_IBM_CHARACTER_SET)),
        _text(found, k.JMSX_GROUPID),
        _group_seq(_number(found, k.JMSX_GROUPSEQ)),
        bool(v.converted(found.get(k.JMS_IBM_LAST_MSG_IN_GROUP), v.BOOLEAN)),
        _number(found, k.JMS_IBM_RETAIN) == k.RETAIN_PUBLICATION,
    )


def outgoing(
    message: Message, destination: Destination, terms: Terms, special: Special
) -> EncodedMessage:
    """Return a message as it is put.

    Raises MessageFormatException where the text does not fit its character set.
    """
    is_text = message.kind in _DATA_FORMATS
    ccsid = special.coded_char_set_id
    data = message.wire_body(codec_of(ccsid, rc.MQRC_TARGET_CCSID_ERROR) if is_text else "")
    data_format = special.data_format
    if data_format is None:
        data_format = _DATA_FORMATS.get(message.kind, "")
    reply_to = message.jms_reply_to
    reply_to_queue = reply_to if isinstance(reply_to, Queue) else None
    has_header = destination.target_client == k.TARGET_CLIENT_JMS
    descriptor = _descriptor(
        terms.md_priority,
        terms.persistence,
        "" if reply_to_queue is None else reply_to_queue.queue_name,
        "" if reply_to_queue is None else reply_to_queue.queue_manager,
        FORMAT if has_header else data_format,
        special,
        has_header,
    )
    correl_id = message.jms_correlation_id_as_bytes or b""
    if not has_header:
        return EncodedMessage(descriptor, correl_id, data or b"")
    folders = (
        _mcd_folder(message.kind, message.jms_type, is_null=data is None)
        + _pack(_jms_folder(message, destination.uri, terms, special))
        + _usr_folder(message)
    )
    header = pack_header(folders, data_format, special.encoding, special.coded_char_set_id)
    return EncodedMessage(descriptor, correl_id, header + data if data else header)


@lru_cache(maxsize=1024)
def _descriptor(
    priority: int,
    persistence: int,
    reply_to_q: str,
    reply_to_q_mgr: str,
    format_name: str,
    special: Special,
    has_header: bool,
) -> Descriptor:
    msg_type = special.msg_type
    if msg_type is None:
        msg_type = c.MQMT_REQUEST if reply_to_q else c.MQMT_DATAGRAM
    plain = Descriptor(
        report=special.report,
        msg_type=msg_type,
        feedback=special.feedback,
        encoding=c.MQENC_NORMAL if has_header else special.encoding,
        coded_char_set_id=UTF_8 if has_header else special.coded_char_set_id,
        priority=priority,
        persistence=persistence,
        format=format_name,
        reply_to_q=reply_to_q,
        reply_to_q_mgr=reply_to_q_mgr,
    )
    if not special.is_grouped:
        return plain
    last = c.MQMF_LAST_MSG_IN_GROUP if special.is_last_in_group else c.MQMF_NONE
    return plain._replace(
        version=c.MQMD_VERSION_2,
        group_id=_group_bytes(special.group_id),
        msg_seq_number=1 if special.group_seq is None else special.group_seq,
        msg_flags=c.MQMF_MSG_IN_GROUP | last,
    )


@lru_cache(maxsize=1024)
def _mcd_folder(kind: str, jms_type: str | None, *, is_null: bool) -> bytes:
    """Return the folder that says of what kind the body is."""
    type_ = "" if jms_type is None else f"<Type>{escape(jms_type)}</Type>"
    return _pack(f"<mcd><Msd>{kind}</Msd>{type_}{_NULL_BODY if is_null else ''}</mcd>")


def _jms_folder(message: Message, uri: str, terms: Terms, special: Special) -> str:
    """Return the folder with the headers; those with their default value are left out."""
    correlation_id = message.jms_correlation_id
    parts = [_dst(uri)]
    if message.jms_reply_to is not None:
        parts.append(f"<Rto>{escape(str(message.jms_reply_to))}</Rto>")
    if terms.timestamp_ms:
        parts.append(f"<Tms>{terms.timestamp_ms}</Tms>")
    if terms.expiration_ms:
        parts.append(f"<Exp>{terms.expiration_ms}</Exp>")
    if correlation_id is not None and id_bytes(correlation_id) is None:
        parts.append(f"<Cid>{escape(correlation_id)}</Cid>")
    if terms.priority != k.DEFAULT_PRIORITY:
        parts.append(f"<Pri>{terms.priority}</Pri>")
    parts.append(f"<Dlv>{terms.delivery_mode}</Dlv>")
    if special.group_id is not None and id_bytes(special.group_id) is None:
        parts.append(f"<Gid>{escape(special.group_id)}</Gid>")
    if special.group_seq is not None:
        parts.append(f"<Seq>{special.group_seq}</Seq>")
    parts.append("</jms>")
    return "".join(parts)


@lru_cache(maxsize=1024)
def _dst(uri: str) -> str:
    return f"<jms><Dst>{escape(uri)}</Dst>"


def _usr_folder(message: Message) -> bytes:
    """Return the folder with the application's properties; nothing when there are none."""
    properties = message.typed_properties
    if not properties:
        return b""
    elements = [
        property_element(name, typed)
        for name, typed in properties.items()
        if name not in k.KNOWN_PROPERTIES
    ]
    return _pack(f"<usr>{''.join(elements)}</usr>") if elements else b""


def _pack(folder: str) -> bytes:
    try:
        return pack_folder(folder)
    except UnicodeEncodeError as error:
        raise MessageFormatException(f"a property or header: {error}") from None


def _report(found: dict[str, Typed]) -> int:
    report = c.MQRO_NONE
    for name, allowed in REPORT_BITS.items():
        value = _number(found, name)
        if value is None:
            continue
        # Bits may come as the signed number that the descriptor holds.
        value &= 0xFFFFFFFF
        if value & ~allowed:
            refuse(rc.MQRC_REPORT_OPTIONS_ERROR, f"{name} {value:#x}")
        report |= value
    return report


def _number(found: dict[str, Typed], name: str) -> int | None:
    typed = found.get(name)
    return None if typed is None else cast(int, v.converted(typed, v.LONG))


def _text(found: dict[str, Typed], name: str) -> str | None:
    text = cast("str | None", v.converted(found.get(name), v.STRING))
    if text is None or name != k.JMS_IBM_FORMAT:
        return text
    if len(text.encode("utf-8", "replace")) > _FORMAT_BYTES:
        raise MessageFormatException(f"{name} {text!r} is longer than {_FORMAT_BYTES} bytes")
    return text.rstrip()


def _character_set(name: str | None) -> int:
    return UTF_8 if name is None else ccsid_named(name)


def _group_seq(number: int | None) -> int | None:
    if number is not None and not 1 <= number <= _LARGEST_SEQUENCE_NUMBER:
        refuse(rc.MQRC_MSG_SEQ_NUMBER_ERROR, f"JMSXGroupSeq {number}")
    return number


def _group_bytes(group_id: str | None) -> bytes:
    return b"" if group_id is None else correlation_bytes(group_id)

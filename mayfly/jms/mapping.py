"""Mapping of JMS messages to queue messages and back: descriptor, MQRFH2, body as in IBM MQ JMS.

In this order: names of character sets; received messages, by their MQRFH2 or else by their format;
messages to send.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple, cast

from mayfly.jms import constants as k
from mayfly.jms import values as v
from mayfly.jms.destinations import Destination, Queue, Topic, destination_of_uri
from mayfly.jms.errors import MessageFormatException, refuse
from mayfly.jms.messages import BytesMessage, MapMessage, Message, StreamMessage, TextMessage
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import CODECS
from mayfly.mqi.constants import MQCCSI_Q_MGR
from mayfly.mqi.delay_header import FORMAT as DELAY_FORMAT
from mayfly.mqi.delay_header import find_delay_header
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import (
    FORMAT,
    UTF_8,
    Element,
    Typed,
    escape,
    pack_folder,
    pack_header,
    properties_of,
    property_element,
    read_header,
)
from mayfly.verbs.messages import Message as QueueMessage
from mayfly.verbs.properties.folders import as_said
from mayfly.verbs.properties.selectors.fields import SelectorFields
from mayfly.verbs.properties.selectors.names import (
    JMS_MAYFLY_DELAYED,
    REPORT_BITS,
    correlation_bytes,
    correlation_text,
    id_bytes,
    id_text,
    timestamp_of,
    type_of,
)

_CCSIDS = {
    codecs.lookup(name).name: ccsid
    for ccsid, name in reversed(CODECS.items())
    if ccsid not in (MQCCSI_Q_MGR, 932, 1200, 1202, 5348, 17584)
}
_CCSID_DIGITS = 5
#: UTF-16 without a byte order is big-endian, as JMS writes it.
_CCSIDS["utf-16"] = 1200


def codec_of(coded_char_set_id: int, reason: int = rc.MQRC_SOURCE_CCSID_ERROR) -> str:
    """Return the Python codec of a CodedCharSetId; raises MQError with ``reason`` if unknown."""
    codec = CODECS.get(coded_char_set_id)
    if codec is None:
        raise mq_error(reason, f"CodedCharSetId {coded_char_set_id}")
    return codec


def character_set_name(coded_char_set_id: int) -> str:
    """Return the value of JMS_IBM_Character_Set: 1208 -> ``UTF-8``, else the name of the codec.

    For an unknown CodedCharSetId it is the number as text.
    """
    if coded_char_set_id == UTF_8:
        return "UTF-8"
    codec = CODECS.get(coded_char_set_id)
    return str(coded_char_set_id) if codec is None else codec


def ccsid_named(name: str) -> int:
    """Return the CodedCharSetId for a JMS_IBM_Character_Set: a name, or a number as text.

    Raises MQRC_TARGET_CCSID_ERROR for an unknown name. A number is not checked.
    """
    if name.isdecimal() and len(name) <= _CCSID_DIGITS:
        # Data that is no text may pass through in a character set that is not known here.
        return int(name)
    try:
        ccsid = _CCSIDS.get(codecs.lookup(name).name)
    except LookupError:
        ccsid = None
    if ccsid is None:
        raise mq_error(rc.MQRC_TARGET_CCSID_ERROR, f"character set {name!r}")
    return ccsid


_KINDS: dict[str, type[Message]] = {
    "jms_text": TextMessage,
    "jms_bytes": BytesMessage,
    "jms_map": MapMessage,
    "jms_stream": StreamMessage,
    "jms_none": Message,
}
Acknowledge = Callable[[], None] | None
_TYPES = {bool: v.BOOLEAN, int: v.INT, str: v.STRING}
_ALWAYS: tuple[str, ...] = (
    k.JMSX_DELIVERY_COUNT,
    k.JMSX_USERID,
    k.JMSX_APPID,
    k.JMS_IBM_MSGTYPE,
    k.JMS_IBM_FEEDBACK,
    k.JMS_IBM_PUTAPPLTYPE,
    k.JMS_IBM_PUTDATE,
    k.JMS_IBM_PUTTIME,
)
_OF_GROUPS = (k.JMSX_GROUPID, k.JMSX_GROUPSEQ, k.JMS_IBM_LAST_MSG_IN_GROUP)


class ParsedMessage(NamedTuple):
    """A message split into the folders of its MQRFH2, and its data with their format."""

    mcd: dict[str, Element]
    jms: dict[str, str]
    amqp: dict[str, str]
    usr: list[tuple[str, Typed]]
    data_format: str
    encoding: int
    coded_char_set_id: int
    data: bytes
    has_header: bool


def incoming(message: QueueMessage, manager_name: str, acknowledge: Acknowledge) -> Message:
    """Return a message that was got or browsed as a read-only JMS message.

    ``manager_name`` is the queue manager of the message. ``acknowledge`` is called by
    ``Message.acknowledge``; None does nothing. A malformed header or body is no error: all of it
    becomes the body of a BytesMessage.
    """
    descriptor, body = message.descriptor, message.body
    sent, delay = descriptor, None
    if descriptor.format == DELAY_FORMAT:
        delay = find_delay_header(DELAY_FORMAT, body)
    if delay is not None:
        # Found on the staging queue: it is shown as what was sent.
        sent, body = delay.descriptor_of_data(descriptor), body[delay.length_bytes :]
    parts = _parts(sent, body)
    received, parts = _with_body(parts, sent, body)
    _set_headers(received, message, parts, manager_name)
    if delay is not None and "Dst" not in parts.jms:
        manager = delay.target_manager
        received.jms_destination = Queue(
            delay.target_queue, "" if manager == manager_name else manager
        )
    received.received(partial(_properties, message, descriptor, parts), acknowledge)
    return received


def _parts(descriptor: Descriptor, body: bytes) -> ParsedMessage:
    """Split a message by its MQRFH2; without a valid one all of ``body`` is data."""
    if descriptor.format.strip() == FORMAT:
        try:
            header = read_header(descriptor.encoding, descriptor.coded_char_set_id, body)
            folders = header.folders
            return ParsedMessage(
                {element.name: element for element in folders.get("mcd", ())},
                {element.name: element.text for element in folders.get("jms", ())},
                {element.name: element.text for element in folders.get("amqp", ())},
                properties_of(folders.get("usr", ())),
                header.data_format,
                header.data_encoding,
                header.data_coded_char_set_id,
                body[header.data_start :],
                has_header=True,
            )
        except MQError:
            pass
    return _without_header(descriptor, body)


def _without_header(descriptor: Descriptor, body: bytes) -> ParsedMessage:
    """Return a message without an MQRFH2, or with a malformed one: all of ``body`` is data."""
    return ParsedMessage(
        {},
        {},
        {},
        [],
        descriptor.format.strip(),
        descriptor.encoding,
        descriptor.coded_char_set_id,
        body,
        has_header=False,
    )


def _with_body(
    parts: ParsedMessage, descriptor: Descriptor, body: bytes
) -> tuple[Message, ParsedMessage]:
    """Return the JMS message with its body, without headers, and the parts that it was made of.

    If the body is malformed, it is a BytesMessage of all of ``body``, and the parts are those
    without a header.
    """
    try:
        return _message(parts), parts
    except (MQError, UnicodeDecodeError):
        parts = _without_header(descriptor, body)
        received = BytesMessage()
        received.set_raw(parts.data, parts.encoding)
        return received, parts


def _message(parts: ParsedMessage) -> Message:
    """Return a JMS message with its body; mcd.Msd in the MQRFH2, else the format, gives its class.

    Raises MQError or UnicodeDecodeError for a malformed body.
    """
    domain = parts.mcd.get("Msd")
    kind = _KINDS.get("" if domain is None else domain.text)
    if kind is None:
        kind = TextMessage if parts.data_format == "MQSTR" else BytesMessage
    received = kind()
    if isinstance(received, TextMessage):
        body = parts.mcd.get("msgbody")
        if body is None or not body.is_nil:
            received.set_raw(parts.data, _codec(parts), parts.coded_char_set_id)
    elif isinstance(received, BytesMessage):
        received.set_raw(parts.data, parts.encoding)
    elif isinstance(received, (MapMessage, StreamMessage)):
        received.set_raw(parts.data.decode(codec_of(parts.coded_char_set_id)))
    return received


def _codec(parts: ParsedMessage) -> str | None:
    """Return the Python codec of the data, None for an unknown character set."""
    try:
        codec = codec_of(parts.coded_char_set_id)
    except MQError:
        return None
    if codec == "utf-16-be" and parts.encoding & c.MQENC_INTEGER_MASK == c.MQENC_INTEGER_REVERSED:
        return "utf-16-le"
    return codec


def _set_headers(
    received: Message, message: QueueMessage, parts: ParsedMessage, manager_name: str
) -> None:
    """Set the JMS headers of ``received`` from the descriptor and the MQRFH2 of ``message``.

    ``parts`` are those of the MQRFH2. A ReplyToQMgr equal to ``manager_name``, the queue manager of
    the message, is left out of JMSReplyTo.
    """
    descriptor = message.descriptor
    # An MQRFH2 in a report is a copy of the original's, so its headers describe the original.
    is_report = descriptor.msg_type == c.MQMT_REPORT
    jms, amqp = ({}, {}) if is_report else (parts.jms, parts.amqp)
    received.jms_message_id = id_text(message.msg_id)
    # An MQRFH2 without Tms means that the sender disabled the timestamp: JMSTimestamp is then 0.
    put_ms = message.put_ms
    received.jms_timestamp = timestamp_of(jms.get("Tms", "0"), put_ms) if jms else put_ms
    received.jms_correlation_id = correlation_text(message.correl_id, jms.get("Cid"))
    received.jms_reply_to = _reply_to(
        descriptor, jms.get("Rto"), manager_name, has_header=parts.has_header
    )
    received.jms_destination = destination_of_uri(jms.get("Dst", "")) or (
        _queue(message.queue) if message.topic is None else Topic(message.topic)
    )
    received.jms_delivery_mode = k.PERSISTENT if message.persistent else k.NON_PERSISTENT
    received.jms_redelivered = message.backout_count > 0
    received.jms_type = _type(parts.mcd) if parts.mcd else None
    expiration, delivery_time = message.expire_at_ms, message.deliver_at_ms
    received.jms_expiration = 0 if expiration is None else expiration
    received.jms_delivery_time = delivery_time
    if amqp:
        # A client of AMQP has said them by its own clock.
        if "CreationTime" in amqp:
            received.jms_timestamp = timestamp_of(amqp["CreationTime"], put_ms)
        if expiration is not None:
            received.jms_expiration = as_said(amqp.get("ExpiryTime"), expiration)
        received.jms_delivery_time = as_said(amqp.get("DeliveryTime"), delivery_time)
    received.jms_priority = message.priority


@lru_cache(maxsize=256)
def _queue(name: str) -> Queue:
    """Return the Queue of a name; the same object for the same name."""
    return Queue(name)


def _reply_to(
    descriptor: Descriptor, uri: str | None, manager_name: str, *, has_header: bool
) -> Destination | None:
    """Return JMSReplyTo from the descriptor's ReplyToQ and the MQRFH2's ``Rto`` URI.

    ``uri`` is returned as destination if ReplyToQ is blank or names the same queue; None is no URI.
    Otherwise it is the queue of ReplyToQ; ReplyToQMgr is left out if it equals ``manager_name``.
    Replies get no MQRFH2 if the message had none (``has_header`` False). Returns None without
    ReplyToQ and URI.
    """
    name = descriptor.reply_to_q.strip()
    named = None if uri is None else destination_of_uri(uri)
    if not name or (isinstance(named, Queue) and named.queue_name == name):
        return named
    manager = descriptor.reply_to_q_mgr.strip()
    # A program that sends without an MQRFH2 may not understand one in the answer.
    client = k.TARGET_CLIENT_JMS if has_header else k.TARGET_CLIENT_MQ
    return Queue(name, "" if manager == manager_name else manager, target_client=client)


def _type(mcd: dict[str, Element]) -> str | None:
    """Return JMSType from the mcd folder of an MQRFH2; None if the folder has no type."""
    parts = (mcd.get(name) for name in ("Type", "Set", "Fmt", "Msd"))
    name, set_, form, domain = (None if part is None else part.text for part in parts)
    return type_of(name, set_, form, domain)


def _properties(
    message: QueueMessage, descriptor: Descriptor, parts: ParsedMessage
) -> dict[str, Typed]:
    """Return all properties of a received message: those of the program, JMSX* and JMS_IBM_*."""
    properties = {name: v.known(typed) for name, typed in parts.usr}
    properties[k.JMS_IBM_FORMAT] = Typed(v.STRING, parts.data_format.ljust(8))
    properties[k.JMS_IBM_ENCODING] = Typed(v.INT, parts.encoding)
    character_set = character_set_name(parts.coded_char_set_id)
    properties[k.JMS_IBM_CHARACTER_SET] = Typed(v.STRING, character_set)
    # The values that a selector has seen.
    fields = SelectorFields(message, descriptor, message.put_ms)
    for name in _names(descriptor, parts.jms):
        value = fields.value(name)
        if value is not None:
            properties[name] = Typed(_TYPES[type(value)], value)
    return properties


def _names(descriptor: Descriptor, jms: dict[str, str]) -> Iterable[str]:
    """Return the names of the JMSX* and JMS_IBM_* properties that a received message may have.

    They depend on its descriptor and ``jms``, the jms folder of its MQRFH2.
    """
    names = _ALWAYS
    if descriptor.report:
        names += tuple(REPORT_BITS)
    if descriptor.group_id or descriptor.msg_flags or "Gid" in jms or "Seq" in jms:
        names += _OF_GROUPS
    if descriptor.format == DELAY_FORMAT:
        names += (JMS_MAYFLY_DELAYED,)
    return names


_NULL_BODY = (
    '<msgbody xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"></msgbody>'
)
_DATA_FORMATS = {"jms_text": "MQSTR", "jms_map": "MQSTR", "jms_stream": "MQSTR"}
_FORMAT_BYTES = 8
_LARGEST_SEQUENCE_NUMBER = 999_999_999


class SendTerms(NamedTuple):
    """The settings with which a message is sent, from the producer and the destination.

    ``delivery_mode`` and ``priority`` go into the MQRFH2, ``persistence`` and ``md_priority`` into
    the descriptor. Times are in ms since 1970, UTC; ``timestamp_ms`` 0 is no timestamp,
    ``expiration_ms`` 0 is never.
    """

    delivery_mode: int
    priority: int
    persistence: int
    md_priority: int
    timestamp_ms: int
    expiration_ms: int


class EncodedMessage(NamedTuple):
    """A message in the form in which it is put; an empty CorrelId is none."""

    descriptor: Descriptor
    correl_id: bytes
    body: bytes


class DescriptorFields(NamedTuple):
    """The descriptor fields that JMS_IBM_* and JMSX* properties of a message set."""

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
        """True if a group id or the last-in-group mark is set: the message is part of a group."""
        return self.group_id is not None or self.is_last_in_group


NO_FIELDS = DescriptorFields()


def descriptor_fields_of(properties: dict[str, Typed]) -> DescriptorFields:
    """Return the descriptor fields that JMS_IBM_* and JMSX* properties set, else their defaults.

    Raises MessageFormatException for a value of the wrong type. Raises JMSException for a value
    that MQ does not know, with MQRC_REPORT_OPTIONS_ERROR, MQRC_TARGET_CCSID_ERROR or
    MQRC_MSG_SEQ_NUMBER_ERROR.
    """
    if not properties:
        return NO_FIELDS
    found = {name: properties[name] for name in properties if name in k.DESCRIPTOR_PROPERTIES}
    if not found:
        return NO_FIELDS
    return DescriptorFields(
        _report(found),
        _number(found, k.JMS_IBM_MSGTYPE),
        _number(found, k.JMS_IBM_FEEDBACK) or c.MQFB_NONE,
        _text(found, k.JMS_IBM_FORMAT),
        c.MQENC_NORMAL if (e := _number(found, k.JMS_IBM_ENCODING)) is None else e,
        UTF_8 if (name := _text(found, k.JMS_IBM_CHARACTER_SET)) is None else ccsid_named(name),
        _text(found, k.JMSX_GROUPID),
        _group_seq(_number(found, k.JMSX_GROUPSEQ)),
        bool(v.converted(found.get(k.JMS_IBM_LAST_MSG_IN_GROUP), v.BOOLEAN)),
        _number(found, k.JMS_IBM_RETAIN) == k.RETAIN_PUBLICATION,
    )


def outgoing(
    message: Message, destination: Destination, terms: SendTerms, special: DescriptorFields
) -> EncodedMessage:
    """Return a JMS message in the form in which it is put: descriptor, CorrelId and body.

    ``terms`` are the settings of the send. ``special`` has the descriptor fields that properties of
    the message set. The body begins with an MQRFH2 unless the destination's ``target_client`` is
    TARGET_CLIENT_MQ. Raises MessageFormatException for text that does not fit its character set,
    MQRC_TARGET_CCSID_ERROR for an unknown one.
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
    special: DescriptorFields,
    has_header: bool,
) -> Descriptor:
    """Return the descriptor of a message to send; equal arguments get the same object.

    ``format_name`` is the Format, of the MQRFH2 or of the data. ``special`` has the descriptor
    fields that properties of the message set. With ``has_header`` the encoding and character set of
    the data are in the MQRFH2 instead.
    """
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
        group_id=b"" if special.group_id is None else correlation_bytes(special.group_id),
        msg_seq_number=1 if special.group_seq is None else special.group_seq,
        msg_flags=c.MQMF_MSG_IN_GROUP | last,
    )


@lru_cache(maxsize=1024)
def _mcd_folder(kind: str, jms_type: str | None, *, is_null: bool) -> bytes:
    """Return the packed mcd folder: kind of the body, JMSType, and a mark for a null body."""
    type_ = "" if jms_type is None else f"<Type>{escape(jms_type)}</Type>"
    return _pack(f"<mcd><Msd>{kind}</Msd>{type_}{_NULL_BODY if is_null else ''}</mcd>")


def _jms_folder(message: Message, uri: str, terms: SendTerms, special: DescriptorFields) -> str:
    """Return the jms folder of the MQRFH2 with the headers of a message as XML text.

    ``uri`` is that of the destination, ``terms`` are the settings of the send. ``special`` has the
    group id and sequence that properties of the message set. Headers with their default value are
    left out.
    """
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
    """Return the beginning of the jms folder, with the destination."""
    return f"<jms><Dst>{escape(uri)}</Dst>"


def _usr_folder(message: Message) -> bytes:
    """Return the packed usr folder with the program's properties, empty without any."""
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
    """Return a folder packed for an MQRFH2; raises MessageFormatException for a lone surrogate."""
    try:
        return pack_folder(folder)
    except UnicodeEncodeError as error:
        raise MessageFormatException(f"a property or header: {error}") from None


def _report(found: dict[str, Typed]) -> int:
    """Return the report options (MQRO_*) that the JMS_IBM_Report_* properties set.

    Raises JMSException with MQRC_REPORT_OPTIONS_ERROR for bits that a property does not allow.
    """
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
    """Return a property as an integer, None for a missing one.

    Raises MessageFormatException for a value that cannot be converted.
    """
    typed = found.get(name)
    return None if typed is None else cast(int, v.converted(typed, v.LONG))


def _text(found: dict[str, Typed], name: str) -> str | None:
    """Return a property as text, None for a missing one; JMS_IBM_Format without trailing blanks.

    Raises MessageFormatException for a JMS_IBM_Format of more than 8 bytes.
    """
    text = cast("str | None", v.converted(found.get(name), v.STRING))
    if text is None or name != k.JMS_IBM_FORMAT:
        return text
    if len(text.encode("utf-8", "replace")) > _FORMAT_BYTES:
        raise MessageFormatException(f"{name} {text!r} is longer than {_FORMAT_BYTES} bytes")
    return text.rstrip()


def _group_seq(number: int | None) -> int | None:
    """Return ``number`` unchanged if it is None or a valid JMSXGroupSeq, 1 to 999,999,999.

    Raises JMSException with MQRC_MSG_SEQ_NUMBER_ERROR for another number.
    """
    if number is not None and not 1 <= number <= _LARGEST_SEQUENCE_NUMBER:
        refuse(rc.MQRC_MSG_SEQ_NUMBER_ERROR, f"JMSXGroupSeq {number}")
    return number

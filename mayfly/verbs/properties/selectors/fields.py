"""The message fields that a selector can name: MQMD fields, JMS headers, properties.

A property is read from its folder of the MQRFH2, without reading the rest of the header. The value
is the one that ``mqi.properties`` returns. This works for headers as programs write them: one
MQRFH2 in UTF-8, properties without entities. All others are left to ``mqi.properties``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.window import remaining_tenths
from mayfly.mqi import constants as c
from mayfly.mqi.delay_header import FORMAT as DELAY_FORMAT
from mayfly.mqi.delay_header import DelayHeader, find_delay_header
from mayfly.mqi.descriptor import MD_NAMES, Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import (
    FORMAT,
    UTF_8,
    Element,
    Rfh2Headers,
    Value,
    parse,
    properties_of,
    read_header,
)
from mayfly.verbs.properties.selectors.names import (
    JMS_MAYFLY_DELAYED,
    MQMD,
    REPORT_BITS,
    SENT_MESSAGE_ID,
    TOPIC_STRING,
    correlation_text,
    id_text,
    sent_id_text,
    timestamp_of,
    type_of,
)

#: The bytes of a folder, or its properties by name if the folder had to be parsed.
Folder: TypeAlias = "bytes | Elements | Mapping[str, Value]"
NONE: Mapping[str, Value] = MappingProxyType({})
_FIXED_BYTES = 36
_LENGTH_BYTES = 4
_VERSION = 2
_BIG, _LITTLE = struct.Struct(">4siiii8sii"), struct.Struct("<4siiii8sii")
_PADDED_FORMAT = FORMAT.encode().ljust(8)
_BOOLEANS = {"1": True, "0": False}
_SHORT_INTEGER = 9
#: Characters behind the name of a folder: ``<usr2>`` is not ``usr``.
_AFTER_NAME = b"> /\t\r\n"
#: The properties of the last few folders up to this length are cached.
_CACHED_BYTES = 16 * 1024
_TAG = re.compile(rb"<(/?)([^\s/>]*)")
#: An element as programs write it, with or without its type.
_ORDINARY = re.compile(rb"<([^\s/>]*)(?: dt='([a-z0-9.]+)')?>([^<&]*)</([^>]*)>")


def find_folder(folder: bytes, encoding: int, coded_char_set_id: int, body: bytes) -> Folder:
    """Return a folder of an MQRFH2; an empty one when it is missing or the header is malformed.

    ``folder`` is the start of its tag, such as ``<usr``. ``encoding`` and ``coded_char_set_id`` are
    those of the MQMD, whose Format must be MQHRF2. Errors in other folders are not detected.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    if 0 < end <= len(body):
        found = body.find(folder, _FIXED_BYTES + _LENGTH_BYTES, end - 1)
        if found < 0:
            return NONE
        # The four bytes before a folder are its length; the four characters before the same text
        # inside a value would be a length beyond any header.
        order: Literal["big", "little"] = "big" if is_big_endian(encoding) else "little"
        size = int.from_bytes(body[found - _LENGTH_BYTES : found], order)
        is_complete_name = body[found + len(folder)] in _AFTER_NAME
        if is_complete_name and 0 < size <= end - found and body.find(folder, found + 1, end) < 0:
            return body[found : found + size]
    return _read_folder(folder, encoding, coded_char_set_id, body)


def value_in(folder: Folder, name: str) -> Value:
    """Return the value of a property in a folder, None when it is missing or malformed.

    In ``name`` dots separate groups and property. Errors in other properties are not detected.
    """
    if not isinstance(folder, bytes):
        return folder.get(name)
    expression, end = _searched(name)
    match = expression.search(folder)
    if match is None:
        return _all(folder).get(name) if "." in name else None
    dt, raw = match.groups()
    at = match.start()
    # A property is directly in the folder when all elements before it have ended, but the folder.
    is_direct = folder.count(b"<", 0, at) == 2 * folder.count(b"</", 0, at) + 1
    if raw is None or not is_direct or folder.find(end, match.end()) >= 0:
        return _all(folder).get(name)
    try:
        text: str = raw.decode()
        return text if dt is None else _value(name, dt.decode(), text)
    except (MQError, UnicodeDecodeError):
        return None


class Elements:
    """A folder whose elements are indexed in one pass, for a selector that reads many of them.

    Its values equal those of :func:`value_in`, which searches the complete folder each time.
    """

    __slots__ = ("_all_values", "_ends", "_folder", "_starts")

    def __init__(self, folder: bytes) -> None:
        """Index the first start of each element name, and count its end tags.

        ``folder`` is the XML of a folder in UTF-8.
        """
        self._folder = folder
        #: Name -> the place, and whether it is directly in the folder.
        self._starts: dict[bytes, tuple[int, bool]] = {}
        self._ends: dict[bytes, int] = {}
        self._all_values: Mapping[str, Value] | None = None
        open_count = 0
        for match in _TAG.finditer(folder):
            is_end, name = match.groups()
            if is_end:
                self._ends[name] = self._ends.get(name, 0) + 1
                open_count -= 1
            else:
                self._starts.setdefault(name, (match.start(), open_count == 1))
                open_count += 1

    def get(self, name: str) -> Value:
        """Return the value of a property, None when it is missing or malformed."""
        raw_name = name.encode()
        at, is_direct = self._starts.get(raw_name, (-1, False))
        if at < 0:
            return self._all().get(name) if "." in name else None
        match = _ORDINARY.match(self._folder, at)
        is_one = match is not None and match[4] == raw_name and self._ends.get(raw_name) == 1
        if match is None or not is_one or not is_direct:
            return self._all().get(name)
        try:
            text: str = match[3].decode()
            return text if match[2] is None else _value(name, match[2].decode(), text)
        except (MQError, UnicodeDecodeError):
            return None

    def _all(self) -> Mapping[str, Value]:
        """Return all properties of the folder by name, parsed at the first call."""
        if self._all_values is None:
            self._all_values = _all(self._folder)
        return self._all_values


def all_folders(encoding: int, coded_char_set_id: int, body: bytes) -> dict[bytes, Folder]:
    """Return all folders of an MQRFH2 by the start of their tag, such as ``<usr``.

    ``encoding`` and ``coded_char_set_id`` are those of the MQMD. The dict is empty for a malformed
    header.
    """
    end, at = _end_of_plain(body[:_FIXED_BYTES], encoding), _FIXED_BYTES
    order: Literal["big", "little"] = "big" if is_big_endian(encoding) else "little"
    found: dict[bytes, Folder] = {}
    while 0 < end <= len(body) and at < end:
        size = int.from_bytes(body[at : at + _LENGTH_BYTES], order)
        at += _LENGTH_BYTES
        tag = _TAG.match(body, at)
        if not 0 < size <= end - at or tag is None or tag[0] in found:
            break
        found[tag[0]] = body[at : at + size]
        at += size
    if at == end:
        return found
    header = header_of(encoding, coded_char_set_id, body)
    return (
        {}
        if header is None
        else {f"<{n}".encode(): _folder_of_header(header, n) for n in header.folders}
    )


def may_hold(text_end: bytes, encoding: int, body: bytes) -> bool:
    """Return True if an MQRFH2 may contain ``text_end``, the end of an element.

    ``encoding`` is that of the MQMD. Such an end is ``>red</colour``. False means that it certainly
    does not. The search is valid because text in a UTF-8 header without entities is unchanged; for
    other headers the result is True.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    if not 0 < end <= len(body):
        return True
    return body.find(text_end, _FIXED_BYTES, end) >= 0 or body.find(b"&", _FIXED_BYTES, end) >= 0


def size_of(encoding: int, body: bytes) -> int:
    """Return the length in bytes of the MQRFH2 at the start of a body.

    ``encoding`` is that of the MQMD. For an unusual header the result is the length of the body.
    """
    end = _end_of_plain(body[:_FIXED_BYTES], encoding)
    return end if 0 < end <= len(body) else len(body)


def header_of(encoding: int, coded_char_set_id: int, body: bytes) -> Rfh2Headers | None:
    """Parse the MQRFH2 at the start of a body; None when it is malformed."""
    try:
        return read_header(encoding, coded_char_set_id, body)
    except MQError:
        return None


@lru_cache(maxsize=4096)
def _end_of_plain(fixed: bytes, encoding: int) -> int:
    """Return the offset at which an MQRFH2 ends, from its first 36 bytes.

    ``fixed`` are these bytes, ``encoding`` is that of the MQMD. Returns 0 unless it is a single
    MQRFH2 in UTF-8.
    """
    if len(fixed) < _FIXED_BYTES:
        return 0
    layout = _BIG if is_big_endian(encoding) else _LITTLE
    struc_id, version, end, _, _, data_format, _, ccsid = layout.unpack(fixed)
    is_plain = struc_id == b"RFH " and version == _VERSION and ccsid == UTF_8
    return max(0, end) if is_plain and data_format != _PADDED_FORMAT else 0


@lru_cache(maxsize=1024)
def _searched(name: str) -> tuple[re.Pattern[bytes], bytes]:
    """Return the pattern that finds an element by its name, and its end tag; cached.

    The pattern also captures type and text if the element is written in the usual way.
    """
    raw = re.escape(name.encode())
    expression = rb"<%b(?![\w$.:-])(?:(?: dt='([a-z0-9.]+)')?>([^<&]*)</%b>)?" % (raw, raw)
    return re.compile(expression), b"</%b>" % name.encode()


def _all(folder: bytes) -> Mapping[str, Value]:
    """Return all properties of a folder by name; short folders are cached.

    The dict is empty for a malformed folder.
    """
    return _cached_all(folder) if len(folder) <= _CACHED_BYTES else _read_all(folder)


def _read_all(folder: bytes) -> Mapping[str, Value]:
    """Parse all properties of a folder; the dict is empty for a malformed folder."""
    try:
        return _properties([child for root in parse(folder.decode()) for child in root.children])
    except (MQError, UnicodeDecodeError):
        return NONE


_cached_all = lru_cache(maxsize=64)(_read_all)


def _read_folder(
    folder: bytes, encoding: int, coded_char_set_id: int, body: bytes
) -> Mapping[str, Value]:
    """Return the properties of a folder by parsing the complete MQRFH2.

    The dict is empty for a missing folder or a malformed header.
    """
    header = header_of(encoding, coded_char_set_id, body)
    return NONE if header is None else _folder_of_header(header, folder[1:].decode())


def _folder_of_header(header: Rfh2Headers, name: str) -> Mapping[str, Value]:
    """Return the properties of a folder in a parsed header; empty if missing or malformed."""
    try:
        return _properties(header.folders.get(name, []))
    except MQError:
        return NONE


def _properties(elements: list[Element]) -> Mapping[str, Value]:
    """Return the values of properties by name; raises MQRC_RFH_FORMAT_ERROR for an invalid one."""
    return {name: typed.value for name, typed in properties_of(elements)}


def _value(name: str, dt: str, text: str) -> Value:
    """Convert the text of a property to its data type ``dt``: ``i4``, ``42`` -> 42.

    Raises MQRC_RFH_FORMAT_ERROR when the text is not of that type.
    """
    if dt in ("i4", "i8") and text.isdecimal() and text.isascii() and len(text) <= _SHORT_INTEGER:
        return int(text)
    if dt == "boolean" and text in _BOOLEANS:
        return _BOOLEANS[text]
    return Element(name, {"dt": dt}, [], [text]).typed().value


_ZERO_ID = bytes(24)
_TOKEN_BYTES = 32
#: Names or folders that are read one by one; after these all are read at once.
_FEW = 8
#: Characters of the descriptor's texts, and what a name costs beside what it reads.
_FIXED_SIZE = 64
_USER_FOLDER, _JMS, _MCD = b"<usr", b"<jms", b"<mcd"
#: The folder of values of AMQP that MQ has no field for.
_AMQP = b"<amqp"


class Row(Protocol):
    """The fields of a message outside its descriptor, as a row of the store has them."""

    @property
    def msg_id(self) -> bytes:
        """MsgId, 24 bytes."""

    @property
    def correl_id(self) -> bytes:
        """CorrelId, 24 bytes; empty for none."""

    @property
    def put_ms(self) -> int:
        """Moment of the put, epoch ms."""

    @property
    def expire_at_ms(self) -> int | None:
        """Deadline in epoch ms, None for unlimited."""

    @property
    def backout_count(self) -> int:
        """Number of backouts."""

    @property
    def topic(self) -> str | None:
        """Topic string of a publication; None for any other message."""

    @property
    def body(self) -> bytes:
        """Data with its headers; names of descriptor fields are evaluated without reading it."""


class _Known:
    """Cache of the values and folders of one message, for a selector that reads many names."""

    __slots__ = ("complete", "folders", "values")

    def __init__(self) -> None:
        """Create an empty cache."""
        self.values: dict[str, Value] = {}
        self.folders: dict[bytes, Folder] = {}
        #: All folders, once many were read.
        self.complete: Mapping[bytes, Folder] | None = None


class SelectorFields:
    """The fields of one message at one time, which a selector reads by name."""

    __slots__ = ("_known", "_user", "descriptor", "row", "seen_ms")

    def __init__(self, row: Row, descriptor: Descriptor, seen_ms: int) -> None:
        """Set the message; ``seen_ms`` (epoch ms) is the time for which Expiry is computed."""
        self.row = row
        self.descriptor = descriptor
        self.seen_ms = seen_ms
        self._user: Folder | None = None
        #: Filled by :meth:`remembered`.
        self._known: _Known | None = None

    @property
    def size(self) -> int:
        """The most characters of the message that must be searched to read one name."""
        row, descriptor = self.row, self.descriptor
        size = _FIXED_SIZE if row.topic is None else _FIXED_SIZE + len(row.topic)
        if descriptor.format == FORMAT:
            return size + size_of(descriptor.encoding, row.body)
        return size + len(row.body) if descriptor.format == DELAY_FORMAT else size

    def value(self, name: str) -> Value:
        """Return the value of a name: an MQMD field, JMS header or property; None without one.

        A name with dots is a folder, its groups and a property; without dots it is in ``usr``.
        """
        reader = _READERS.get(name)
        if reader is not None:
            return reader(self)
        if "." in name:
            folder, _, rest = name.partition(".")
            return value_in(self.folder(b"<" + folder.encode()), rest)
        user = self._user
        if user is None:
            user = self._user = self.folder(_USER_FOLDER)
        return value_in(user, name)

    def remembered(self, name: str) -> Value:
        """Return the value of a name as :meth:`value` does, from a cache of this message.

        It is for a selector that reads many names: each is read once, and after eight names the
        complete header is indexed. So the time is proportional to the length of the selector plus
        that of the header, not to their product.
        """
        known = self._known
        if known is None:
            known = self._known = _Known()
        if name in known.values:
            return known.values[name]
        if len(known.values) >= _FEW and isinstance(self._user, bytes):
            self._user = Elements(self._user)
        value = known.values[name] = self.value(name)
        return value

    def may_hold(self, text_end: bytes) -> bool:
        """Return True if the MQRFH2 may contain ``text_end``, such as ``>red</colour``.

        False means that it certainly does not. Without an MQRFH2 the result is False.
        """
        descriptor = self.descriptor
        if descriptor.format == FORMAT:
            return may_hold(text_end, descriptor.encoding, self.row.body)
        found = self._behind_delay()
        return found is not None and may_hold(text_end, found[0], found[2])

    def header(self) -> Rfh2Headers | None:
        """Return the parsed MQRFH2, None when it is missing or malformed."""
        coded = self._coded_header()
        return None if coded is None else header_of(*coded)

    def folder(self, start: bytes) -> Folder:
        """Return a folder of the MQRFH2 by the start of its tag, such as ``<jms``.

        An empty folder when it is missing, or the header is missing or malformed.
        """
        if self._known is not None:
            return self._known_folder(self._known, start)
        descriptor = self.descriptor
        if descriptor.format == FORMAT:
            # Most messages, without a call more.
            coding = descriptor.encoding, descriptor.coded_char_set_id
            return find_folder(start, *coding, self.row.body)
        found = self._behind_delay()
        return NONE if found is None else find_folder(start, *found)

    def _known_folder(self, known: _Known, start: bytes) -> Folder:
        """Return a folder from the cache of the message, reading it first if necessary.

        ``known`` is the cache, ``start`` the start of the folder's tag, such as ``<jms``. An empty
        folder when it is missing.
        """
        if known.complete is None and start not in known.folders:
            coded = self._coded_header()
            if coded is None:
                known.complete = {}
            elif len(known.folders) >= _FEW:
                known.complete = all_folders(*coded)
            else:
                known.folders[start] = find_folder(start, *coded)
        found = known.folders.get(start)
        if found is None:
            assert known.complete is not None
            found = known.folders[start] = known.complete.get(start, NONE)
        if isinstance(found, bytes) and len(known.values) >= _FEW:
            found = known.folders[start] = Elements(found)
        return found

    def _coded_header(self) -> tuple[int, int, bytes] | None:
        """Return encoding, character set and body from the MQRFH2 on, None without an MQRFH2."""
        descriptor = self.descriptor
        if descriptor.format == FORMAT:
            return descriptor.encoding, descriptor.coded_char_set_id, self.row.body
        return self._behind_delay()

    def delay_header(self) -> DelayHeader | None:
        """Return the MQHDDLY of a delayed message on the staging queue, None for any other."""
        if self.descriptor.format != DELAY_FORMAT:
            return None
        return find_delay_header(DELAY_FORMAT, self.row.body)

    def _behind_delay(self) -> tuple[int, int, bytes] | None:
        """Return encoding, character set and bytes of an MQRFH2 that follows an MQHDDLY.

        The bytes go to the end of the body. None if no MQRFH2 follows an MQHDDLY.
        """
        delay = self.delay_header()
        if delay is None or delay.format != FORMAT:
            return None
        return delay.encoding, delay.coded_char_set_id, self.row.body[delay.length_bytes :]


Reader = Callable[[SelectorFields], Value]


def _read_delivery_mode(fields: SelectorFields) -> Value:
    """Return JMSDeliveryMode: ``PERSISTENT`` or ``NON_PERSISTENT``."""
    return "PERSISTENT" if fields.descriptor.persistence else "NON_PERSISTENT"


def _own_headers(fields: SelectorFields) -> Folder:
    """Return the ``jms`` folder of the MQRFH2; an empty one for a report.

    The header of a report is the original message's.
    """
    return NONE if fields.descriptor.msg_type == c.MQMT_REPORT else fields.folder(_JMS)


def _text_in(folder: Folder, name: str) -> str | None:
    """Return the value of a property in a folder as text, None without the property."""
    value = value_in(folder, name)
    return None if value is None else str(value)


def _read_sent_message_id(fields: SelectorFields) -> Value:
    """Return the message id that an AMQP client has set, as ``ID:`` text; else the MsgId."""
    # A report has its own id, but carries the header of its original; so does a delayed message.
    if fields.descriptor.msg_type != c.MQMT_REPORT and fields.delay_header() is None:
        kept = _text_in(fields.folder(_AMQP), "MessageId")
        if kept:
            return sent_id_text(kept)
    return id_text(fields.row.msg_id)


def _read_timestamp(fields: SelectorFields) -> Value:
    """Return JMSTimestamp in epoch ms: the sender's, 0 if disabled, else the time of the put."""
    jms, put_ms = _own_headers(fields), fields.row.put_ms
    if fields.descriptor.msg_type != c.MQMT_REPORT:
        # A client of AMQP has said it by its own clock.
        given_ms = _text_in(fields.folder(_AMQP), "CreationTime")
        if given_ms is not None:
            return timestamp_of(given_ms, put_ms)
    if not jms:
        return put_ms
    # A sender that disables timestamps leaves Tms out.
    return timestamp_of(_text_in(jms, "Tms") or "0", put_ms)


def _read_correlation_id(fields: SelectorFields) -> Value:
    """Return JMSCorrelationID, None for a CorrelId of zeros."""
    return correlation_text(fields.row.correl_id or _ZERO_ID, _text_in(_own_headers(fields), "Cid"))


def _read_type(fields: SelectorFields) -> Value:
    """Return JMSType from the ``mcd`` folder, None without one."""
    mcd = fields.folder(_MCD)
    name, set_, form, domain = (_text_in(mcd, part) for part in ("Type", "Set", "Fmt", "Msd"))
    return type_of(name, set_, form, domain)


def _read_group_id(fields: SelectorFields) -> Value:
    """Return JMSXGroupID: the text of the ``jms`` folder, else GroupId; None without a group."""
    return _text_in(fields.folder(_JMS), "Gid") or id_text(fields.descriptor.group_id)


def _read_group_seq(fields: SelectorFields) -> Value:
    """Return JMSXGroupSeq: MsgSeqNumber of a group, else the ``jms`` folder's; None without one."""
    if _read_group_id(fields) is not None:
        return fields.descriptor.msg_seq_number
    sequence = _text_in(fields.folder(_JMS), "Seq") or ""
    return int(sequence) if sequence.isdecimal() and len(sequence) < 10 else None


def _read_is_last_in_group(fields: SelectorFields) -> Value:
    """Return True for the last message of a group, False for another one; None outside a group."""
    flags = fields.descriptor.msg_flags
    if flags & (c.MQMF_MSG_IN_GROUP | c.MQMF_LAST_MSG_IN_GROUP):
        return bool(flags & c.MQMF_LAST_MSG_IN_GROUP)
    return None


def _read_feedback(fields: SelectorFields) -> Value:
    """Return Feedback, None if it is 0 and the message is no report."""
    descriptor = fields.descriptor
    is_there = descriptor.feedback or descriptor.msg_type == c.MQMT_REPORT
    return descriptor.feedback if is_there else None


def _read_data_format(fields: SelectorFields) -> Value:
    """Return the Format of the data after MQHDDLY and MQRFH2, as JMS_IBM_Format."""
    header = fields.header()
    if header is None:
        return (fields.delay_header() or fields.descriptor).format
    return header.data_format


def _read_data_encoding(fields: SelectorFields) -> Value:
    """Return the Encoding of the data after MQHDDLY and MQRFH2, as JMS_IBM_Encoding."""
    header = fields.header()
    if header is None:
        return (fields.delay_header() or fields.descriptor).encoding
    return header.data_encoding


def _read_put_date(fields: SelectorFields) -> Value:
    """Return PutDate, ``YYYYMMDD``: as set by the putter, else of the put."""
    return (fields.descriptor.put_date or put_date(fields.row.put_ms)).strip()


def _read_put_time(fields: SelectorFields) -> Value:
    """Return PutTime, ``HHMMSSTH``: as set by the putter, else of the put."""
    return (fields.descriptor.put_time or put_time(fields.row.put_ms)).strip()


def _report_reader(bits: int) -> Reader:
    """Return a function that reads these MQRO_* bits of a message's Report.

    Its result is None if none of them is set.
    """
    return lambda fields: fields.descriptor.report & bits or None


def _descriptor_reader(attribute: str) -> Reader:
    """Return a function that reads this attribute of a message's descriptor; texts are stripped."""
    index = Descriptor._fields.index(attribute)

    def read(fields: SelectorFields) -> Value:
        value: Value = fields.descriptor[index]
        return value.strip() if type(value) is str else value

    return read


#: Properties of JMS that equal a field of the descriptor -> that field.
_ATTRIBUTES = {
    "JMSPriority": "priority",
    "JMSXUserID": "user_identifier",
    "JMSXAppID": "put_appl_name",
    "JMS_IBM_MsgType": "msg_type",
    "JMS_IBM_PutApplType": "put_appl_type",
    **{MQMD + name: attribute for name, attribute in MD_NAMES.items()},
}
_READERS: dict[str, Reader] = {
    **{name: _descriptor_reader(attribute) for name, attribute in _ATTRIBUTES.items()},
    **{name: _report_reader(bits) for name, bits in REPORT_BITS.items()},
    **dict.fromkeys(TOPIC_STRING, lambda fields: fields.row.topic),
    "JMSDeliveryMode": _read_delivery_mode,
    "JMSMessageID": lambda fields: id_text(fields.row.msg_id),
    SENT_MESSAGE_ID: _read_sent_message_id,
    "JMSTimestamp": _read_timestamp,
    "JMSCorrelationID": _read_correlation_id,
    "JMSType": _read_type,
    "JMSXGroupID": _read_group_id,
    "JMSXGroupSeq": _read_group_seq,
    JMS_MAYFLY_DELAYED: lambda fields: fields.delay_header() is not None or None,
    "JMSXDeliveryCount": lambda fields: fields.row.backout_count + 1,
    "JMS_IBM_Last_Msg_In_Group": _read_is_last_in_group,
    "JMS_IBM_Feedback": _read_feedback,
    "JMS_IBM_Format": _read_data_format,
    "JMS_IBM_Encoding": _read_data_encoding,
    "JMS_IBM_PutDate": _read_put_date,
    "JMS_IBM_PutTime": _read_put_time,
    f"{MQMD}Expiry": lambda fields: remaining_tenths(fields.row.expire_at_ms, fields.seen_ms),
    f"{MQMD}MsgId": lambda fields: fields.row.msg_id,
    f"{MQMD}CorrelId": lambda fields: fields.row.correl_id or _ZERO_ID,
    f"{MQMD}BackoutCount": lambda fields: fields.row.backout_count,
    f"{MQMD}AccountingToken": lambda f: f.descriptor.accounting_token.ljust(_TOKEN_BYTES, b"\0"),
    f"{MQMD}GroupId": lambda fields: fields.descriptor.group_id.ljust(24, b"\0"),
    f"{MQMD}PutDate": _read_put_date,
    f"{MQMD}PutTime": _read_put_time,
}

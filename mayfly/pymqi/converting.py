"""Converting data of a get to the character set and encoding of the getter's MD: MQGMO_CONVERT.

Text (MQSTR) and PCF messages are converted, and so are MQ headers and the data after them, each as
the header before it describes. Data without a format are never converted. Other formats need an
exit, which Mayfly does not have (MQRC_FORMAT_ERROR). Data that cannot be converted are returned
unchanged with a warning, and the MD describes their actual form (G7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Self

from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import pcf
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import MANAGER_CCSID, codec_name
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Field, Layout, is_big_endian
from mayfly.mqi.structures import DLH, IIH, MDE, RFH2, TM, XQH
from mayfly.verbs.messages import GetResult

#: A character that is cut in the middle leaves fewer bytes than this.
_LONGEST_CHARACTER_BYTES = 4


class Coding(NamedTuple):
    """The form of data: an Encoding and a CodedCharSetId, which is never MQCCSI_Q_MGR."""

    encoding: int
    ccsid: int

    @classmethod
    def of(cls, encoding: int, ccsid: int) -> Self:
        """Return the coding for Encoding and CodedCharSetId of an MD.

        MQCCSI_Q_MGR becomes the queue manager's CCSID.
        """
        return cls(encoding, MANAGER_CCSID if ccsid == c.MQCCSI_Q_MGR else ccsid)

    @property
    def order(self) -> Literal["big", "little"]:
        """The byte order of binary integers, from the Encoding."""
        return "big" if is_big_endian(self.encoding) else "little"

    def codec(self, reason: int) -> str:
        """Return the Python codec of the character set.

        Raises MQError with ``reason`` for an unknown character set.
        """
        name = codec_name(self.ccsid, self.encoding)
        if name is None:
            raise mq_error(reason, f"CodedCharSetId {self.ccsid}")
        return name


def decoded(raw: bytes, codec: str, *, is_cut: bool) -> str:
    """Return decoded text; with ``is_cut`` an incomplete character at the end is dropped.

    Raises UnicodeError for bytes that are not valid in the character set.
    """
    try:
        return raw.decode(codec)
    except UnicodeDecodeError as error:
        is_half = error.end == len(raw) and error.end - error.start < _LONGEST_CHARACTER_BYTES
        if not (is_cut and is_half):
            raise
        return raw[: error.start].decode(codec)


def cut_to(raw: bytes, buffer_bytes: int, codec: str) -> bytes:
    """Return as many complete characters of encoded text as fit in ``buffer_bytes``.

    Raises UnicodeError for bytes that are not valid in the character set.
    """
    return decoded(raw[:buffer_bytes], codec, is_cut=True).encode(codec)


def padded(name: str, text: str, length: int, codec: str) -> bytes:
    """Return encoded text, padded with blanks to ``length`` bytes.

    Raises MQRC_CONVERTED_STRING_TOO_BIG for longer text, MQRC_NOT_CONVERTED for a character that is
    not in the character set. ``name`` is the field for errors.
    """
    try:
        raw, blank = text.encode(codec), " ".encode(codec)
    except UnicodeError as error:
        raise mq_error(rc.MQRC_NOT_CONVERTED, f"{name}: {error}") from None
    if len(raw) > length:
        raise mq_error(rc.MQRC_CONVERTED_STRING_TOO_BIG, f"{name} {text!r}")
    return raw + blank * ((length - len(raw)) // len(blank))


#: Format -> the header it announces, of those that are converted.
HEADERS: dict[str, Layout] = {
    "MQDEAD": DLH,
    "MQHMDE": MDE,
    "MQHRF2": RFH2,
    "MQIMS": IIH,
    "MQTRIG": TM,
    "MQXMIT": XQH,
}
_VERSION_AT, _LENGTH_BYTES = 4, 4
#: Character sets of the folders of an MQRFH2 whose bytes follow the order of numbers.
_UTF_16 = (1200, 13488, 17584)


class CodedHeader:
    """The MQ header at the start of data, and the format and coding of the data after it."""

    def __init__(self, layout: Layout, raw: memoryview, source: Coding) -> None:
        """Parse the header at the start of ``raw``, which has the encoding and CCSID of ``source``.

        ``layout`` is that of the structure. Raises MQRC_SOURCE_CCSID_ERROR for an unknown character
        set, MQRC_NOT_CONVERTED for a damaged or truncated header.
        """
        self._layout = layout
        self._source = source
        version = int.from_bytes(
            raw[_VERSION_AT : _VERSION_AT + _LENGTH_BYTES], source.order, signed=True
        )
        if version not in layout.versions or len(raw) < layout.length(version):
            raise self._damaged(f"version {version}, {len(raw)} bytes")
        self._fixed = bytes(raw[: layout.length(version)])
        codec = source.codec(rc.MQRC_SOURCE_CCSID_ERROR)
        self._values = {
            field.name: self._value(field, data, codec)
            for field, data in self._fields()
            if field.kind != "byte"
        }
        if self._values["StrucId"] != layout.struc_id.decode().rstrip():
            raise self._damaged(f"StrucId {self._values['StrucId']!r}")
        #: Where the data behind it begin.
        self.length = self._number("StrucLength", len(self._fixed))
        if not len(self._fixed) <= self.length <= len(raw):
            raise self._damaged(f"StrucLength {self.length}")
        self._area = bytes(raw[len(self._fixed) : self.length])

    @property
    def format_behind(self) -> str:
        """The format of the data after the header; empty if the header has no Format field."""
        return str(self._values.get(self._named("Format"), ""))

    @property
    def coding_behind(self) -> Coding:
        """The coding of the data after the header, from its Encoding and CodedCharSetId.

        MQCCSI_INHERIT, or a header without these fields, means the coding of the header itself.
        """
        encoding = self._number(self._named("Encoding"), self._source.encoding)
        ccsid = self._number(self._named("CodedCharSetId"), c.MQCCSI_INHERIT)
        return Coding.of(encoding, self._source.ccsid if ccsid == c.MQCCSI_INHERIT else ccsid)

    def packed(self, wanted: Coding, behind: Coding | None) -> bytes:
        """Return the header in the coding ``wanted``.

        ``behind`` is the new coding of the data after it, which its Encoding and CodedCharSetId
        then describe; None without such data. Raises MQRC_TARGET_CCSID_ERROR, MQRC_NOT_CONVERTED,
        MQRC_CONVERTED_STRING_TOO_BIG.
        """
        codec = wanted.codec(rc.MQRC_TARGET_CCSID_ERROR)
        changed = {} if behind is None else self._changed(wanted, behind)
        made = b""
        for field, data in self._fields():
            value = changed.get(field.name, self._values.get(field.name))
            if value is None:
                made += data
            elif isinstance(value, int):
                made += value.to_bytes(field.length, wanted.order, signed=True)
            else:
                made += padded(field.name, value, field.length, codec)
        if self._layout is RFH2 and wanted.order != self._source.order:
            return made + self._swapped_folders()
        return made + self._area

    def _changed(self, wanted: Coding, behind: Coding) -> dict[str, int]:
        """Return new values of Encoding and CodedCharSetId, where they must change, by field name.

        ``wanted`` is the new coding of the header itself. They must describe data after the header
        in the coding ``behind``. MQCCSI_INHERIT stays if it still holds.
        """
        encoding, ccsid = self._named("Encoding"), self._named("CodedCharSetId")
        if ccsid not in self._values:
            return {}
        changed = {} if behind == self.coding_behind else {encoding: behind.encoding}
        if self._values[ccsid] == c.MQCCSI_INHERIT:
            return changed if behind.ccsid == wanted.ccsid else {**changed, ccsid: behind.ccsid}
        return {**changed, ccsid: behind.ccsid} if changed else {}

    def _swapped_folders(self) -> bytes:
        """Return the MQRFH2 folders with the other byte order: lengths, and text in UTF-16.

        Raises MQRC_NOT_CONVERTED for a folder with a wrong length.
        """
        made, at = b"", 0
        ccsid = self._number("NameValueCCSID", 0)
        turned: Literal["big", "little"] = "big" if self._source.order == "little" else "little"
        while at < len(self._area):
            length = int.from_bytes(self._area[at : at + _LENGTH_BYTES], self._source.order)
            at += _LENGTH_BYTES
            folder = self._area[at : at + length]
            if len(folder) < length or (ccsid in _UTF_16 and length % 2):
                raise self._damaged(f"folder of {length} bytes")
            if ccsid in _UTF_16:
                turned_folder = bytearray(folder)
                turned_folder[::2], turned_folder[1::2] = folder[1::2], folder[::2]
                folder = bytes(turned_folder)
            made += length.to_bytes(_LENGTH_BYTES, turned) + folder
            at += length
        return made

    def _fields(self) -> Iterator[tuple[Field, bytes]]:
        """Yield each field of the header, as far as its version has it, with its bytes."""
        at = 0
        for field in self._layout.fields:
            if at < len(self._fixed):
                yield field, self._fixed[at : at + field.length]
            at += field.length

    def _value(self, field: Field, data: bytes, codec: str) -> int | str:
        """Return the value of a field: a number, or text up to a NUL without trailing blanks.

        Raises MQRC_NOT_CONVERTED for text that is not valid in ``codec``.
        """
        if field.kind != "char":
            return int.from_bytes(data, self._source.order, signed=True)
        try:
            text = decoded(data, codec, is_cut=False)
        except UnicodeError as error:
            raise self._damaged(f"{field.name}: {error}") from None
        return text.partition("\0")[0].rstrip(" ")

    def _named(self, field: str) -> str:
        """Return the full name of a field that describes the data after the header.

        In an MQXQH it is a field of the embedded MQMD: ``Format`` -> ``MsgDesc.Format``.
        """
        return f"MsgDesc.{field}" if self._layout.name == "MQXQH" else field

    def _number(self, field: str, default: int) -> int:
        """Return the value of a number field, ``default`` if the header does not have the field."""
        value = self._values.get(field, default)
        assert isinstance(value, int)
        return value

    def _damaged(self, what: str) -> MQError:
        """Return (not raise) MQRC_NOT_CONVERTED for a damaged header."""
        return mq_error(rc.MQRC_NOT_CONVERTED, f"{self._layout.name}: {what}")


_TEXT = "MQSTR"
#: Commands, their answers, events, and messages of programs in the same form.
_PCF = ("MQADMIN", "MQEVENT", "MQPCF")


class Returned(NamedTuple):
    """The result of a get: data, descriptor, full length in bytes, and a warning reason or 0."""

    body: bytes
    descriptor: Descriptor
    data_length: int
    reason: int


class _Made(NamedTuple):
    """Data converted as far as possible; the last ``text_bytes`` of them are converted text."""

    body: bytes
    coding: Coding
    reason: int = rc.MQRC_NONE
    text_bytes: int = 0


class _Placed(NamedTuple):
    """A header, its offset in the data, and its coding."""

    start: int
    coding: Coding
    header: CodedHeader


def converted(
    result: GetResult, wanted: Coding, buffer_bytes: int | None, options: int
) -> Returned:
    """Return the result of a get with MQGMO_CONVERT, for a buffer of ``buffer_bytes``.

    ``wanted`` is the character set and encoding that the MD asks for, ``options`` are MQGMO.
    ``buffer_bytes`` None is no limit. The ``reason`` of the result is that of the get itself, or
    MQRC_TRUNCATED_MSG_ACCEPTED if the converted data exceed the buffer and may be truncated. If not
    everything is converted it is MQRC_FORMAT_ERROR, MQRC_SOURCE_CCSID_ERROR,
    MQRC_TARGET_CCSID_ERROR, MQRC_NOT_CONVERTED, MQRC_CONVERTED_STRING_TOO_BIG or
    MQRC_CONVERTED_MSG_TOO_BIG.
    """
    body, descriptor = result.message.body, result.message.descriptor
    as_it_is = Returned(body, descriptor, result.data_length, result.warning)
    source = Coding.of(descriptor.encoding, descriptor.coded_char_set_id)
    if not body or source == wanted or result.stays:
        return as_it_is
    is_cut = len(body) < result.data_length
    try:
        made = _convert(descriptor.format, body, source, wanted, is_cut=is_cut)
    except MQError as error:
        return as_it_is._replace(reason=error.reason)
    described = descriptor._replace(
        encoding=made.coding.encoding, coded_char_set_id=made.coding.ccsid
    )
    if buffer_bytes is None or len(made.body) <= buffer_bytes:
        length = result.data_length if is_cut else len(made.body)
        return Returned(made.body, described, length, made.reason or result.warning)
    if not options & c.MQGMO_ACCEPT_TRUNCATED_MSG:
        return as_it_is._replace(reason=rc.MQRC_CONVERTED_MSG_TOO_BIG)
    shown = _truncated(made, buffer_bytes, wanted)
    return Returned(shown, described, result.data_length, rc.MQRC_TRUNCATED_MSG_ACCEPTED)


def _convert(
    format_name: str, raw: bytes, source: Coding, wanted: Coding, *, is_cut: bool
) -> _Made:
    """Convert the MQ headers at the start of data, then the data after them; return the result.

    ``format_name`` is the format of ``raw``, ``source`` its present coding and ``wanted`` the new
    one. ``is_cut`` True means that the end of ``raw`` is missing. ``reason`` of the result is not 0
    if a later part could not be converted. Raises MQError if nothing could be converted.
    """
    headers: list[_Placed] = []
    start, coding, view = 0, source, memoryview(raw)
    try:
        while start < len(raw) and coding != wanted and format_name in HEADERS:
            header = CodedHeader(HEADERS[format_name], view[start:], coding)
            headers.append(_Placed(start, coding, header))
            start += header.length
            format_name, coding = header.format_behind, header.coding_behind
        made = _without_headers(format_name, raw[start:], coding, wanted, is_cut=is_cut)
    except MQError as error:
        if not start:
            raise
        made = _Made(raw[start:], coding, error.reason)
    return _with_headers(headers, raw, made, wanted)


def _with_headers(headers: Sequence[_Placed], raw: bytes, made: _Made, wanted: Coding) -> _Made:
    """Return the headers, converted, followed by the data after them.

    ``raw`` has the headers and the data as they were, ``made`` the data already converted. Raises
    MQError if the first header fails. Another header that cannot be converted stays unchanged, with
    all data after it; ``reason`` then says why.
    """
    parts = [made.body]
    for start, coding, header in reversed(headers):
        has_rest = start + header.length < len(raw)
        try:
            packed = header.packed(wanted, made.coding if has_rest else None)
        except MQError as error:
            if not start:
                raise
            made = _Made(b"", coding, error.reason)
            parts = [raw[start:]]
        else:
            made = made._replace(coding=wanted)
            parts.append(packed)
    return made._replace(body=b"".join(reversed(parts)))


def _without_headers(
    format_name: str, raw: bytes, source: Coding, wanted: Coding, *, is_cut: bool
) -> _Made:
    """Convert data that do not begin with a header; data without a format stay unchanged.

    ``source`` is the present coding, ``wanted`` the new one. ``is_cut`` True means that the end of
    ``raw`` is missing. Raises MQRC_FORMAT_ERROR for a format other than MQSTR and those of PCF, and
    for PCF that is malformed or cut; and the errors of converting text.
    """
    if not (raw and format_name) or source == wanted:
        return _Made(raw, source)
    if format_name in _PCF:
        return _Made(_pcf_message(raw, source, wanted), wanted)
    if format_name != _TEXT:
        raise mq_error(rc.MQRC_FORMAT_ERROR, f"format {format_name!r}")
    text = _text(raw, source, wanted, is_cut=is_cut)
    return _Made(text, wanted, text_bytes=len(text))


def _pcf_message(raw: bytes, source: Coding, wanted: Coding) -> bytes:
    """Return a PCF message converted: the byte order of its numbers, and its texts.

    Raises MQRC_FORMAT_ERROR for bytes that are no PCF message, and the errors of converting text.
    """
    try:
        message = pcf.unpack(raw, big_endian=source.order == "big")
    except pcf.PcfError as error:
        raise mq_error(rc.MQRC_FORMAT_ERROR, str(error)) from error
    structures = [_pcf_structure(each, source, wanted) for each in message.structures]
    return pcf.pack(message.header, structures, big_endian=wanted.order == "big")


def _pcf_structure(structure: pcf.Structure, source: Coding, wanted: Coding) -> pcf.Structure:
    """Return a structure of a PCF message with its texts converted, a group with its members.

    A text that names a character set of its own is named after the wanted one; the texts of a list
    have one length, blanks fill them. Raises the errors of converting text.
    """
    value = structure.value
    if structure.type == k.MQCFT_GROUP:
        assert isinstance(value, tuple)
        members = [each for each in value if isinstance(each, pcf.Structure)]
        made = tuple(_pcf_structure(each, source, wanted) for each in members)
        return structure._replace(value=made)
    if structure.type not in (k.MQCFT_STRING, k.MQCFT_STRING_LIST, k.MQCFT_STRING_FILTER):
        return structure
    own = source._replace(ccsid=structure.ccsid) if structure.ccsid > 0 else source
    ccsid = wanted.ccsid if structure.ccsid > 0 else structure.ccsid
    if isinstance(value, bytes):
        text = _text(value, own, wanted, is_cut=False)
        return structure._replace(value=text, ccsid=ccsid)
    assert isinstance(value, tuple)
    raws = [each for each in value if isinstance(each, bytes)]
    texts = [_text(each, own, wanted, is_cut=False) for each in raws]
    blank = " ".encode(wanted.codec(rc.MQRC_TARGET_CCSID_ERROR))
    longest = max(map(len, texts), default=0)
    filled = [text + blank * ((longest - len(text)) // len(blank)) for text in texts]
    return structure._replace(value=tuple(filled), ccsid=ccsid)


def _text(raw: bytes, source: Coding, wanted: Coding, *, is_cut: bool) -> bytes:
    """Return text converted from one character set to another.

    With ``is_cut`` an incomplete character at the end is dropped. Raises MQRC_NOT_CONVERTED for a
    character that is invalid or missing in the target. Raises MQRC_SOURCE_CCSID_ERROR,
    MQRC_TARGET_CCSID_ERROR for unknown character sets.
    """
    codec = source.codec(rc.MQRC_SOURCE_CCSID_ERROR)
    target = wanted.codec(rc.MQRC_TARGET_CCSID_ERROR)
    try:
        return decoded(raw, codec, is_cut=is_cut).encode(target)
    except UnicodeError as error:
        raise mq_error(rc.MQRC_NOT_CONVERTED, str(error)) from None


def _truncated(made: _Made, buffer_bytes: int, wanted: Coding) -> bytes:
    """Return the converted data cut to the buffer, without an incomplete character at the end.

    ``made`` is the converted data, ``wanted`` its character set and encoding.
    """
    start = len(made.body) - made.text_bytes
    if buffer_bytes <= start:
        return made.body[:buffer_bytes]
    codec = wanted.codec(rc.MQRC_TARGET_CCSID_ERROR)
    return made.body[:start] + cut_to(made.body[start:], buffer_bytes - start, codec)

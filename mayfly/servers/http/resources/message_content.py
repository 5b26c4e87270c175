"""The content of a message for operators: MQMD, headers and properties, values with their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from msgspec import Struct

from mayfly.engine.api.operating import PresentMessage
from mayfly.lifetime.times import spelled_moment
from mayfly.mqi import constants as c
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import report_names
from mayfly.mqi.descriptor import MD_NAMES, Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.header_chain import HeaderChain, HeaderRead, read_headers
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import FORMAT as RFH2_FORMAT
from mayfly.mqi.reasons import cause_name, reason_text
from mayfly.properties.folders import Parts, parts_of

_RFH2: Final = "MQRFH2"
#: Fields whose numbers have names in MQI, by the beginning of these names.
_NAMED: Final = {
    "MsgType": "MQMT_",
    "Persistence": "MQPER_",
    "PutApplType": "MQAT_",
}


class NamedField(Struct):
    """A field of an MQ structure: its value as text, and what that means; null if it is plain.

    Bytes are hexadecimal; padding is left out.
    """

    name: str
    value: str
    meaning: str | None = None


class HeaderContent(Struct):
    """A header before the data: the name of its structure, its place, length and fields.

    ``sentence`` says in words what the header tells, empty for nothing. ``folders`` are the XML
    texts of an MQRFH2.
    """

    name: str
    offset: int
    length_bytes: int
    sentence: str
    fields: list[NamedField]
    folders: list[str]


class PropertyContent(Struct):
    """A message property: its name, its type as in an MQRFH2 (``string``, ``i4`` …), its value."""

    name: str
    type: str
    value: str | None


class ContentParts(NamedTuple):
    """Headers and properties of a message, and the chain by which its data is found."""

    chain: HeaderChain
    headers: list[HeaderContent]
    properties: list[PropertyContent]


def content_of(descriptor: Descriptor, body: bytes, found: PresentMessage) -> ContentParts:
    """Return headers and properties of a message; damaged ones end the chain.

    A delayed message is stored without its delay header, which comes from ``found`` then.
    """
    chain = read_headers(descriptor.format, descriptor.encoding, descriptor.coded_char_set_id, body)
    headers, properties = list[HeaderContent](), list[PropertyContent]()
    if found.row.target is not None:
        headers.append(_delay_header(found))
    for header in chain.headers:
        folders = list[str]()
        if header.name == _RFH2:
            parts = _parts(header, body)
            if parts is not None:
                folders = parts.others
                properties += [
                    PropertyContent(each.name, each.typed.dt, _text_of(each.typed.value))
                    for each in parts.properties
                ]
        headers.append(
            HeaderContent(
                header.name,
                header.offset,
                header.length_bytes,
                _sentence(header),
                list(_fields(header.fields)),
                folders,
            )
        )
    return ContentParts(chain, headers, properties)


def descriptor_fields(descriptor: Descriptor) -> list[NamedField]:
    """Return the fields of an MQMD under their MQI names, with words for numbers."""
    return list(_fields({name: getattr(descriptor, own) for name, own in MD_NAMES.items()}))


def _parts(header: HeaderRead, body: bytes) -> Parts | None:
    """Return folders and properties of one MQRFH2; None if they cannot be read."""
    announced = Descriptor(
        format=RFH2_FORMAT,
        encoding=header.encoding,
        coded_char_set_id=header.coded_char_set_id,
    )
    end = header.offset + header.length_bytes
    try:
        return parts_of(announced, body[header.offset : end])
    except MQError:
        return None


def _delay_header(found: PresentMessage) -> HeaderContent:
    """Return what the delay header of a delayed message says; the queue shows it to programs."""
    row = found.row
    due_ms = row.put_ms if row.deliver_at_ms is None else row.deliver_at_ms
    fields = [
        NamedField("TargetQName", row.target or ""),
        NamedField("DueTime", str(due_ms), f"{spelled_moment(due_ms)} UTC"),
        NamedField("OriginalMsgId", row.msg_id.hex()),
        NamedField("OriginalCorrelId", (row.correl_id or bytes(24)).hex()),
    ]
    sentence = f"It waits for {spelled_moment(due_ms)} UTC, and then goes to {row.target}."
    return HeaderContent("DDH", 0, 0, sentence, fields, [])


def _sentence(header: HeaderRead) -> str:
    """Return in words what a header says: why a letter is dead, where a message goes."""
    fields = {name: str(value).strip() for name, value in header.fields.items()}
    if header.name == "MQDLH":
        reason = header.fields["Reason"]
        assert isinstance(reason, int)
        place = f"{fields['DestQName']}@{fields['DestQMgrName']}".rstrip("@")
        return (
            f"It could not be put on {place}: {cause_name(reason)} ({reason}). "
            f"{reason_text(reason)} It was put here by {fields['PutApplName']}."
        )
    if header.name == "MQXQH":
        place = f"{fields['RemoteQName']}@{fields['RemoteQMgrName']}"
        return f"It is on its way to {place}."
    if header.name == "DDH":
        place = f"{fields['TargetQName']}@{fields['TargetQMgrName']}".rstrip("@")
        return f"It waits for its delivery time, and then goes to {place}."
    return ""


def _fields(fields: Mapping[str, object]) -> Iterator[NamedField]:
    """Yield fields with their values as text, and what numbers mean."""
    encoding = fields.get("Encoding")
    for name, value in fields.items():
        yield NamedField(name, _text_of(value) or "", _meaning(name, value, encoding))


def _text_of(value: object) -> str | None:
    """Return a value as text: bytes in hexadecimal, texts without padding; None stays None."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).rstrip(" \0")


def _meaning(name: str, value: object, encoding: object) -> str | None:
    """Return what a number in a field means, in words or as its MQI name; None if it is plain."""
    own = name.rpartition(".")[2]
    if not isinstance(value, int):
        return None
    if own == "Report":
        return ", ".join(report_names(value)) or "none"
    if own in ("Reason", "Feedback"):
        return cause_name(value) if value else "none"
    if own == "Encoding":
        return "big-endian" if is_big_endian(value) else "little-endian"
    if own == "Expiry":
        return "never" if value == c.MQEI_UNLIMITED else f"{value / 10:g} s"
    if own == "CodedCharSetId":
        return codec_name(value, encoding if isinstance(encoding, int) else c.MQENC_NATIVE)
    prefix = _NAMED.get(own)
    return None if prefix is None else _names(prefix).get(value)


@cache
def _names(prefix: str) -> Mapping[int, str]:
    """Return the names of the MQI constants that begin with a prefix, by value."""
    found: Iterable[tuple[str, object]] = vars(c).items()
    names = [(name, value) for name, value in found if name.startswith(prefix)]
    bounds = ("_FIRST", "_LAST", "_DEFAULT")
    return {
        value: name
        for name, value in reversed(names)
        if isinstance(value, int) and not name.endswith(bounds)
    }

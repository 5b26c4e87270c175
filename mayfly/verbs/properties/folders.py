"""Properties of messages: their values and types, and the folders of an MQRFH2 that hold them.

The stored form of properties is the MQRFH2 before the data, as JMS writes it; so selectors, JMS,
pymqi and the native verbs see the same ones. Folders that hold no properties stay unchanged.

A name is a folder, its groups and the property, with dots between them; without a dot it is a
property of the ``usr`` folder (IBM MQ, "Property names", "Property name restrictions").
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQ_MAX_PROPERTY_NAME_LENGTH
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import (
    BOOLEANS,
    FORMAT,
    INTEGER_BITS,
    UTF_8,
    Element,
    Typed,
    Value,
    fits,
    format_float,
    named_elements,
    pack_folder,
    pack_header,
    parse_folder,
    property_element,
    read_texts,
    single,
)
from mayfly.verbs.properties.selectors.names import RESERVED

#: MQTYPE_* -> data type in the MQRFH2; a null has none.
DATA_TYPES: Mapping[int, str] = {
    c.MQTYPE_BOOLEAN: "boolean",
    c.MQTYPE_BYTE_STRING: "bin.hex",
    c.MQTYPE_INT8: "i1",
    c.MQTYPE_INT16: "i2",
    c.MQTYPE_INT32: "i4",
    c.MQTYPE_INT64: "i8",
    c.MQTYPE_FLOAT32: "r4",
    c.MQTYPE_FLOAT64: "r8",
    c.MQTYPE_STRING: "string",
}
_MQ_TYPES = {dt: mq_type for mq_type, dt in DATA_TYPES.items()}
#: Bytes of a value whose type says how long it is.
FIXED_BYTES = {"boolean": 4, "i1": 1, "i2": 2, "i4": 4, "i8": 8, "r4": 4, "r8": 8}
_INTEGERS = tuple(INTEGER_BITS)
#: Types to which MQIMPO_CONVERT_TYPE converts a value ("MQINQMP", Type).
_TO_INTEGERS_AND_TEXT = frozenset((*_INTEGERS, "boolean", "string"))
_CONVERSIONS: Mapping[str, frozenset[str]] = {
    "boolean": _TO_INTEGERS_AND_TEXT,
    **dict.fromkeys(_INTEGERS, _TO_INTEGERS_AND_TEXT),
    "r4": frozenset(("r8", "string")),
    "r8": frozenset(("r4", "string")),
    "bin.hex": frozenset(("string",)),
    "string": frozenset(_MQ_TYPES),
}


def python_value(name: str, value: object) -> Typed:
    """Convert a Python value to a property value: int to i4 or i8, float to r8, None to null.

    Raises MQRC_PROPERTY_TYPE_ERROR for a value of another type, MQRC_PROP_NUMBER_FORMAT_ERROR for
    an integer of more than 64 bits. ``name`` is for the error text.
    """
    if value is None:
        return Typed("string", None)
    if isinstance(value, str):
        return mq_value(name, c.MQTYPE_STRING, value)
    if isinstance(value, bool):
        return Typed("boolean", value)
    if isinstance(value, int):
        return mq_value(name, c.MQTYPE_INT32 if fits(value, "i4") else c.MQTYPE_INT64, value)
    if isinstance(value, float):
        return Typed("r8", value)
    if isinstance(value, (bytes, bytearray)):
        return Typed("bin.hex", bytes(value))
    raise _wrong_type(name, value, "a property")


def mq_value(name: str, mq_type: int, value: object) -> Typed:
    """Convert a Python value to a property value of an MQTYPE_*; MQTYPE_NULL gives a null.

    Raises MQRC_PROPERTY_TYPE_ERROR for an unknown type or a value that is not of the type, and
    MQRC_PROP_NUMBER_FORMAT_ERROR for a number that does not fit. ``name`` is for the error text.
    """
    if mq_type == c.MQTYPE_NULL:
        return Typed("string", None)
    dt = DATA_TYPES.get(mq_type)
    if dt is None:
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: Type {mq_type}")
    if dt in INTEGER_BITS and isinstance(value, int):
        if not fits(value, dt):
            raise _wrong_number(name, value, dt)
        return Typed(dt, int(value))
    if dt == "boolean" and isinstance(value, int):
        return Typed(dt, bool(value))
    if dt in ("r4", "r8") and isinstance(value, (int, float)):
        return Typed(dt, _checked_float(name, value, dt))
    if dt == "bin.hex" and isinstance(value, (bytes, bytearray)):
        return Typed(dt, bytes(value))
    if dt == "string" and isinstance(value, str):
        return Typed(dt, _checked_text(name, value))
    raise _wrong_type(name, value, dt)


def converted(name: str, typed: Typed, mq_type: int) -> Typed:
    """Return a property value converted to another MQTYPE_*, as MQIMPO_CONVERT_TYPE does.

    ``name`` is for the error text. A null comes back unchanged, and so does any value for
    MQTYPE_AS_SET or MQTYPE_NULL. Raises MQRC_PROPERTY_TYPE_ERROR for an unknown type,
    MQRC_PROP_CONV_NOT_SUPPORTED for two types without a conversion, and
    MQRC_PROP_NUMBER_FORMAT_ERROR for a text or number that cannot be converted.
    """
    wanted = DATA_TYPES.get(mq_type)
    if wanted is None and mq_type not in (c.MQTYPE_AS_SET, c.MQTYPE_NULL):
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: Type {mq_type}")
    if wanted is None or typed.value is None or typed.dt == wanted:
        return typed
    if wanted not in _CONVERSIONS.get(typed.dt, _CONVERSIONS["string"]):
        raise mq_error(
            rc.MQRC_PROP_CONV_NOT_SUPPORTED, f"property {name}: {typed.dt} is not made {wanted}"
        )
    if isinstance(typed.value, str):
        if wanted == "string":
            # Of a type that MQ has not, as the char of JMS.
            return Typed(wanted, typed.value)
        return Typed(wanted, _parse_text(name, typed.value, wanted))
    if wanted == "string":
        return Typed(wanted, _as_text(typed))
    return mq_value(name, mq_type, typed.value)


def raw_value(typed: Typed) -> bytes:
    """Return bytes of the length that MQINQMP reports for a value.

    A text comes as UTF-8, a byte string unchanged, a number as zeros of its size. A null gives no
    bytes.
    """
    if isinstance(typed.value, str):
        return typed.value.encode()
    if isinstance(typed.value, bytes):
        return typed.value
    return bytes(0 if typed.value is None else FIXED_BYTES[typed.dt])


def _parse_text(name: str, text: str, dt: str) -> Value:
    """Parse a text as a value of data type ``dt``: ``true`` -> True, ``0a`` -> one byte.

    Raises MQRC_PROP_NUMBER_FORMAT_ERROR when it is invalid.
    """
    try:
        if dt == "boolean":
            return BOOLEANS[text.strip().lower()]
        if dt == "bin.hex":
            return bytes.fromhex(text)
        if dt in ("r4", "r8"):
            return _checked_float(name, float(text), dt)
        number = int(text)
    except (KeyError, ValueError):
        raise _wrong_number(name, text, dt) from None
    if not fits(number, dt):
        raise _wrong_number(name, text, dt)
    return number


def _as_text(typed: Typed) -> str:
    """Return a boolean, number or byte string as text: ``TRUE``, ``42``, ``0AFF``."""
    value = typed.value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return value.hex().upper()
    return (
        format_float(value, is_single=typed.dt == "r4") if isinstance(value, float) else f"{value}"
    )


def _checked_text(name: str, value: str) -> str:
    """Return a text unchanged; raises MQRC_PROPERTY_TYPE_ERROR if UTF-8 cannot encode it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: {error}") from None
    return value


def _checked_float(name: str, value: float, dt: str) -> float:
    """Return a number as float, rounded to 4 bytes for ``r4``.

    Raises MQRC_PROP_NUMBER_FORMAT_ERROR if it is too large.
    """
    try:
        return single(float(value)) if dt == "r4" and math.isfinite(value) else float(value)
    except (OverflowError, struct.error):
        raise _wrong_number(name, value, dt) from None


def _wrong_number(name: str, value: object, dt: str) -> MQError:
    """Return (not raise) MQRC_PROP_NUMBER_FORMAT_ERROR for a value that is no ``dt``."""
    return mq_error(
        rc.MQRC_PROP_NUMBER_FORMAT_ERROR, f"property {name}: {str(value)[:40]!r} is no {dt}"
    )


def _wrong_type(name: str, value: object, dt: str) -> MQError:
    """Return (not raise) MQRC_PROPERTY_TYPE_ERROR for a value whose type is not ``dt``."""
    return mq_error(
        rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: {type(value).__name__} is no value of {dt}"
    )


USER_FOLDER = "usr"
#: Folders that hold properties without saying so by content='properties'.
PROPERTY_FOLDERS = frozenset(
    "usr jms mcd mqext mqps mq mq_usr mqema mq_svc mqtt ibm sib sib_context sib_usr".split()
)
#: Folders in which there are no groups.
_FLAT = frozenset("usr mqext mqps mq mqema mq_svc mqtt ibm".split())
#: The names of JMS that an MQI program may set -> the folder and property that store them.
JMS_SETTABLE = {
    "JMSCorrelationID": "jms.Cid",
    "JMSReplyTo": "jms.Rto",
    "JMSType": "mcd.Type",
    "JMSXGroupID": "jms.Gid",
    "JMSXGroupSeq": "jms.Seq",
}
#: The topic string of a publication, as its subscriber has it, kept with the message.
TOPIC = "mqps.Top"
#: Names of JMS, and of the topic, that can be read -> the folder and property that store them.
#: Other names of JMS are in the descriptor.
JMS_READABLE = {
    **JMS_SETTABLE,
    "JMSDestination": "jms.Dst",
    "JMSExpiration": "jms.Exp",
    "MQTopicString": TOPIC,
}


@lru_cache(maxsize=2048)
def checked_name(name: str) -> str:
    """Return the name under which a property is stored: ``usr.colour`` -> ``colour``.

    A JMS name becomes folder and property: ``JMSType`` -> ``mcd.Type``. Raises
    MQRC_PROPERTY_NAME_LENGTH_ERR for a name that is empty or too long, MQRC_PROPERTY_NAME_ERROR for
    one that may not be set.
    """
    check_length(name)
    if name in JMS_SETTABLE:
        return JMS_SETTABLE[name]
    kept = plain_name(name)
    folder, *rest = kept.split(".")
    for part in (folder, *rest):
        # Java allows what Python does, and the dollar sign.
        if not part.replace("$", "_").isidentifier():
            raise _wrong_name(name, f"{part!r} is not a name as in Java")
    if any(ord(char) > 0xFFFF for char in name):
        raise _wrong_name(name, "characters above U+FFFF")
    if not rest and kept.upper() in RESERVED:
        raise _wrong_name(name, "a word of selectors")
    if kept.startswith("JMS"):
        raise _wrong_name(name, f"of JMS only {', '.join(JMS_SETTABLE)} can be set")
    if folder in ("Body", "Root"):
        raise _wrong_name(name, "fields of the MQMD are set in the MQMD")
    is_mq = folder.lower().startswith("mq") and folder.lower() != "mq_usr"
    if len(rest) > 1 and (is_mq or folder in _FLAT):
        raise _wrong_name(name, f"there are no groups in {folder}")
    return kept


def plain_name(name: str) -> str:
    """Return a property name without its folder ``usr``: ``usr.colour`` -> ``colour``.

    Any other name comes back unchanged.
    """
    start = f"{USER_FOLDER}."
    # A second dot would be a group; checked_name refuses it with the folder in place.
    return name[len(start) :] if name.startswith(start) and name.count(".") == 1 else name


def check_length(name: str) -> None:
    """Raise MQRC_PROPERTY_NAME_LENGTH_ERR unless a name has 1 to 4,095 characters."""
    if not 1 <= len(name) <= MQ_MAX_PROPERTY_NAME_LENGTH:
        raise mq_error(rc.MQRC_PROPERTY_NAME_LENGTH_ERR, f"property name of {len(name)} characters")


def path_of(name: str) -> list[str]:
    """Return folder, groups and property of a stored name: ``colour`` -> ``["usr", "colour"]``."""
    return name.split(".") if "." in name else [USER_FOLDER, name]


def _wrong_name(name: str, why: str) -> MQError:
    """Return (not raise) an MQRC_PROPERTY_NAME_ERROR that names the property and the cause."""
    return mq_error(rc.MQRC_PROPERTY_NAME_ERROR, f"property {name[:80]!r}: {why}")


#: The order in which folders are written; others follow.
_ORDER = ("mcd", "jms", "usr", "mqps", "mqext")
_COPY_NAMES = {
    "all": c.MQCOPY_ALL,
    "forward": c.MQCOPY_FORWARD,
    "publish": c.MQCOPY_PUBLISH,
    "reply": c.MQCOPY_REPLY,
    "report": c.MQCOPY_REPORT,
}
_COPY_BITS = {**_COPY_NAMES, "default": c.MQCOPY_DEFAULT}
_SUPPORT_NAMES = {
    "required": c.MQPD_SUPPORT_REQUIRED,
    "required_if_local": c.MQPD_SUPPORT_REQUIRED_IF_LOCAL,
}


class Description(NamedTuple):
    """The content of an MQPD: MQPD_SUPPORT_*, MQPD_*_CONTEXT, MQCOPY_* bits."""

    support: int = c.MQPD_SUPPORT_OPTIONAL
    context: int = c.MQPD_NO_CONTEXT
    copy_options: int = c.MQCOPY_DEFAULT


#: The default MQPD of a property, which is not written.
USUAL = Description()


class Property(NamedTuple):
    """One property: its stored name, its typed value, and its description (MQPD)."""

    name: str
    typed: Typed
    description: Description = USUAL


_SAYS_PROPERTIES = " content='properties'"


class Parts(NamedTuple):
    """A message taken apart: its properties, its other folders as XML texts, and its data."""

    properties: list[Property]
    others: list[str]
    #: Whether it has a folder for properties, even an empty one.
    has_property_folder: bool
    data_format: str
    data_encoding: int
    data_coded_char_set_id: int
    data: bytes


#: A property in a folder: its groups and its own name, and itself.
Place: TypeAlias = tuple[list[str], Property]


def properties_of_mapping(values: Mapping[str, object]) -> list[Property]:
    """Convert names and Python values to properties; raises an error for the first invalid one.

    Two names of one property keep the last value. Raises MQRC_PROPERTY_NAME_ERROR,
    MQRC_PROPERTY_NAME_LENGTH_ERR, MQRC_PROPERTY_TYPE_ERROR, MQRC_PROP_NUMBER_FORMAT_ERROR, and
    MQRC_MIXED_CONTENT_NOT_ALLOWED for a name that is also a group.
    """
    found: dict[str, Property] = {}
    for name, value in values.items():
        new = named(name, python_value(name, value))
        check_mixed(new.name, found)
        found[new.name] = new
    return list(found.values())


def named(name: str, typed: Typed) -> Property:
    """Return a property with the stored form of the name that a program uses.

    Raises MQRC_PROPERTY_NAME_ERROR, MQRC_PROPERTY_NAME_LENGTH_ERR, and MQRC_PROPERTY_TYPE_ERROR
    when a JMS name needs another type.
    """
    kept = checked_name(name)
    if name in JMS_SETTABLE:
        wanted = "i4" if name == "JMSXGroupSeq" else "string"
        if typed.dt != wanted:
            raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"{name} is a {wanted}, not a {typed.dt}")
    return Property(kept, typed)


def check_mixed(name: str, others: Iterable[str]) -> None:
    """Raise MQRC_MIXED_CONTENT_NOT_ALLOWED if ``name`` is a group of another name, or the reverse.

    Example: ``a.b`` beside ``a.b.c``. A name without a dot always passes.
    """
    if "." not in name:
        return
    for other in others:
        # A name without a dot is stored in usr, which has no groups.
        is_group = "." in other and name.startswith(f"{other}.")
        if is_group or other.startswith(f"{name}."):
            raise mq_error(rc.MQRC_MIXED_CONTENT_NOT_ALLOWED, f"property {name} beside {other}")


def parts_of(descriptor: Descriptor, body: bytes) -> Parts:
    """Split a message into properties, other folders and data; without an MQRFH2 all is data.

    The result also has the Format, Encoding and CCSID of the data. Raises MQRC_RFH_ERROR,
    MQRC_RFH_STRING_ERROR or MQRC_RFH_FORMAT_ERROR for a malformed header; the last also for a
    property name of more than 4,095 characters.
    """
    encoding, ccsid = descriptor.encoding, descriptor.coded_char_set_id
    if descriptor.format.strip() != FORMAT:
        return Parts([], [], False, descriptor.format, encoding, ccsid, body)
    texts = read_texts(encoding, ccsid, body)
    properties: list[Property] = []
    others: list[str] = []
    has_folder = False
    for text in texts.folders:
        elements = parse_folder(text)
        if not elements or not all(holds_properties(e) for e in elements):
            others.append(text)
            continue
        has_folder = True
        for element in elements:
            properties += _properties_in(element)
    return Parts(
        properties,
        others,
        has_folder,
        texts.data_format,
        texts.data_encoding,
        texts.data_coded_char_set_id,
        body[texts.data_start :],
    )


def holds_properties(folder: Element) -> bool:
    """Return True if a folder holds properties, by its name or its ``content`` attribute."""
    return folder.name in PROPERTY_FOLDERS or folder.attributes.get("content") == "properties"


def joined(
    descriptor: Descriptor, body: bytes, properties: Iterable[Property]
) -> tuple[Descriptor, bytes]:
    """Return descriptor and body of a message with these properties added to its MQRFH2.

    An MQRFH2 is created when there was none. Present properties of the same name are replaced. If
    ``properties`` is empty, the message comes back unchanged. Raises MQRC_RFH_ERROR,
    MQRC_RFH_STRING_ERROR or MQRC_RFH_FORMAT_ERROR when the present header is malformed.
    """
    added = list(properties)
    if not added:
        return descriptor, body
    parts = parts_of(descriptor, body)
    merged = overridden(parts.properties, added)
    folders = [pack_folder(text) for text in [*_folder_texts(merged), *parts.others]]
    return _with_header(descriptor, parts, b"".join(folders))


def without_properties(descriptor: Descriptor, parts: Parts) -> tuple[Descriptor, bytes]:
    """Return descriptor and body of a message without its properties; other folders stay.

    ``parts`` is the message taken apart by :func:`parts_of`. Without other folders the MQRFH2 is
    removed.
    """
    if parts.others:
        return _with_header(descriptor, parts, b"".join(map(pack_folder, parts.others)))
    plain = descriptor._replace(
        format=parts.data_format,
        encoding=parts.data_encoding,
        coded_char_set_id=parts.data_coded_char_set_id,
    )
    return plain, parts.data


def overridden(properties: Iterable[Property], by: Iterable[Property]) -> list[Property]:
    """Return the properties of both lists; for a name in both, only that of ``by``."""
    winners = list(by)
    names = {p.name for p in winners}
    return [p for p in properties if p.name not in names] + winners


def _with_header(descriptor: Descriptor, parts: Parts, folders: bytes) -> tuple[Descriptor, bytes]:
    """Return descriptor and body of a message, with an MQRFH2 of packed folders before its data.

    ``parts`` is the message taken apart by :func:`parts_of`.
    """
    header = pack_header(
        folders,
        parts.data_format,
        parts.data_encoding,
        # MQCCSI_Q_MGR means nothing in a header.
        parts.data_coded_char_set_id or UTF_8,
    )
    described = descriptor._replace(format=FORMAT, encoding=c.MQENC_NORMAL, coded_char_set_id=UTF_8)
    return described, header + parts.data


def _properties_in(folder: Element) -> list[Property]:
    """Return the properties in a folder's XML element, in order; groups give names with dots.

    Raises MQRC_RFH_FORMAT_ERROR for a name of more than 4,095 characters or an invalid value.
    """
    found: list[Property] = []
    for name, element in named_elements(folder.children, f"{folder.name}."):
        if len(plain_name(name)) > c.MQ_MAX_PROPERTY_NAME_LENGTH:
            raise mq_error(rc.MQRC_RFH_FORMAT_ERROR, f"property {name[:80]}… is too long a name")
        if not element.children:
            found.append(_property(plain_name(name), element))
    return found


def _property(name: str, element: Element) -> Property:
    """Return the property in an XML element, with its MQPD from the attributes.

    Unknown attribute values are ignored. Raises MQRC_RFH_FORMAT_ERROR for an invalid value.
    """
    attributes = element.attributes
    if not attributes:
        return Property(name, element.typed())
    copy_options = c.MQCOPY_NONE
    for word in attributes.get("copy", "default").split(","):
        copy_options |= _COPY_BITS.get(word.strip(), c.MQCOPY_NONE)
    description = Description(
        _SUPPORT_NAMES.get(attributes.get("support", ""), c.MQPD_SUPPORT_OPTIONAL),
        c.MQPD_USER_CONTEXT if attributes.get("context") == "user" else c.MQPD_NO_CONTEXT,
        copy_options,
    )
    return Property(name, element.typed(), description)


def _folder_texts(properties: list[Property]) -> list[str]:
    """Return the XML text of each folder that these properties need, in the order of writing."""
    folders: dict[str, list[Place]] = {name: [] for name in _ORDER}
    for found in properties:
        folder, *rest = path_of(found.name)
        folders.setdefault(folder, []).append((rest, found))
    return [
        f"<{name}{'' if name in PROPERTY_FOLDERS else _SAYS_PROPERTIES}>{_xml_of(held)}</{name}>"
        for name, held in folders.items()
        if held
    ]


def _xml_of(held: list[Place]) -> str:
    """Return the XML inside a folder: its properties, with those of one group together.

    Each item of ``held`` is the groups and own name of a property, and the property. It uses no
    recursion, because a name may have 2,000 groups.
    """
    first: dict[tuple[str, ...], int] = {}
    for groups, _found in held:
        first.setdefault(tuple(groups[:-1]), len(first))
    texts: list[str] = []
    inside: list[str] = []
    for (*groups, name), found in sorted(held, key=lambda place: first[tuple(place[0][:-1])]):
        same = takewhile(lambda pair: pair[0] == pair[1], zip(inside, groups, strict=False))
        shared = sum(1 for _ in same)
        texts += [f"</{group}>" for group in inside[shared:][::-1]]
        texts += [f"<{group}>" for group in groups[shared:]]
        texts.append(property_element(name, found.typed, attributes=_attributes(found.description)))
        inside = groups
    texts += [f"</{group}>" for group in inside[::-1]]
    return "".join(texts)


def _attributes(description: Description) -> str:
    """Return the XML attributes for an MQPD, such as ``context='user'``; empty for the default."""
    if description == USUAL:
        return ""
    support, context, copy_options = description
    text = ""
    if copy_options != c.MQCOPY_DEFAULT:
        copies = [name for name, bit in _COPY_NAMES.items() if copy_options & bit]
        text += f" copy='{','.join(copies) or 'none'}'"
    if context == c.MQPD_USER_CONTEXT:
        text += " context='user'"
    for name, bit in _SUPPORT_NAMES.items():
        if support == bit:
            text += f" support='{name}'"
    return text


# Properties about a message's expiry, and the times that an AMQP client has set
#
# An expired message on the queue that EXPQ names has three properties: reason, queue of the expiry,
# and time. They are for JMS and AMQP programs and for selectors. MQMD.Feedback has the reason for
# programs that read no properties.
#
# An AMQP client sets times by its clock. Time to live and delay count from the arrival, so that
# this clock and the queue manager's need not agree. The time in force then differs from the
# client's by the transfer time and by the difference of the clocks. Clients see the time that was
# set.


#: Names of the properties: why it is here, where it expired, and when, in ms since 1970.
REASON: Final = "MayflyReason"
ORIGINAL_QUEUE: Final = "MayflyOriginalQueue"
EXPIRED_AT: Final = "MayflyExpiredAt"
EXPIRED: Final = "expired"


def as_expired(
    descriptor: Descriptor, body: bytes, queue: str, expired_at_ms: int
) -> tuple[Descriptor, bytes]:
    """Return descriptor and body of an expired message, as the queue that EXPQ names holds it.

    Adds the properties MayflyReason, MayflyOriginalQueue and MayflyExpiredAt (ms since 1970). Sets
    Feedback MQFB_EXPIRATION, and clears the report options. Ids, context and everything else stay.
    If its MQRFH2 is damaged, no properties are added.
    """
    descriptor = descriptor._replace(report=c.MQRO_NONE, feedback=c.MQFB_EXPIRATION)
    properties = [
        Property(REASON, Typed("string", EXPIRED)),
        Property(ORIGINAL_QUEUE, Typed("string", queue)),
        Property(EXPIRED_AT, Typed("i8", expired_at_ms)),
    ]
    try:
        return joined(descriptor, body, properties)
    except MQError:
        return descriptor, body


#: The properties that hold the moments an AMQP client gave. A folder of JMS would make
#: PROPCTL(COMPAT) show MQI programs a header that they do not expect.
CREATION: Final = "amqp.CreationTime"
EXPIRY: Final = "amqp.ExpiryTime"
DELIVERY: Final = "amqp.DeliveryTime"
_LARGEST_MS: Final = 2**63 - 1
#: Time passes between the reading of a message and its put, and a channel counts in tenths.
_SLACK_MS: Final = SECOND_MS


def as_kept(said_ms: int, counted_ms: int) -> str:
    """Return the property value for a time that a client set: ``SAID/COUNTED``, in epoch ms.

    ``said_ms`` is the client's time, ``counted_ms`` the one in force at the arrival.
    """
    return f"{said_ms}/{counted_ms}"


def as_said(kept: str | None, counts_ms: int) -> int:
    """Return the time (epoch ms) to show to a client: the one that the sender set, if still valid.

    ``kept`` is a text from :func:`as_kept`, or None; ``counts_ms`` is the time in force now.
    Returns ``counts_ms`` if ``kept`` is None or invalid, or if the time in force has changed since
    the arrival. A CAPEXPRY or another delivery time may have changed it.
    """
    given, slash, counted = (kept or "").partition("/")
    if not slash or not (_is_moment(given) and _is_moment(counted)):
        return counts_ms
    return int(given) if abs(int(counted) - counts_ms) <= _SLACK_MS else counts_ms


def _is_moment(text: str) -> bool:
    """Return True if a text is a decimal integer of 64 bits."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_LARGEST_MS))
    return is_number and abs(int(text)) <= _LARGEST_MS

"""The byte layouts of the MQ structures, and the chain of headers before the data of a message."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import (
    MQACTP_NEW,
    MQCCSI_APPL,
    MQCCSI_INHERIT,
    MQCCSI_Q_MGR,
    MQCCSI_UNDEFINED,
    MQCOPY_DEFAULT,
    MQEI_UNLIMITED,
    MQENC_NATIVE,
    MQMO_MATCH_CORREL_ID,
    MQMO_MATCH_MSG_ID,
    MQMT_DATAGRAM,
    MQOL_UNDEFINED,
    MQOT_Q,
    MQPD_SUPPORT_OPTIONAL,
    MQPER_PERSISTENCE_AS_Q_DEF,
    MQPRI_PRIORITY_AS_PUBLISHED,
    MQPRI_PRIORITY_AS_Q_DEF,
    MQRL_UNDEFINED,
)
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import Field, Layout, Value, byte, char, gap, int_in, is_big_endian, number

#: Format of a message that waits on the staging queue: a DDH, then the original data.
DDH_FORMAT = b"MQHDDLY "

_UTF8_CCSID = 1208


def _start(struc_id: str, version: int = 1) -> list[Field]:
    """Return the fields StrucId and Version, with which most structures begin."""
    return [char("StrucId", 4, struc_id), number("Version", version)]


def _data_description(encoding: int, ccsid: int) -> list[Field]:
    """Return the fields Encoding, CodedCharSetId and Format, which describe a header's data.

    ``encoding`` and ``ccsid`` are the initial values of the first two.
    """
    return [number("Encoding", encoding), number("CodedCharSetId", ccsid), char("Format", 8)]


def _variable_string(name: str, ccsid: int = MQCCSI_APPL) -> list[Field]:
    """Return the fields of an MQCHARV, each prefixed with ``name``.

    ``ccsid`` is the initial VSCCSID.
    """
    return [
        number(f"{name}.VSPtr", kind="ptr"),
        number(f"{name}.VSOffset"),
        number(f"{name}.VSBufSize"),
        number(f"{name}.VSLength"),
        number(f"{name}.VSCCSID", ccsid),
    ]


def _group_fields() -> list[Field]:
    """Return the fields that MQMD version 2 has beyond version 1; an MQMDE carries them."""
    return [
        byte("GroupId", 24),
        number("MsgSeqNumber", 1),
        number("Offset"),
        number("MsgFlags"),
        number("OriginalLength", MQOL_UNDEFINED),
    ]


_MD_1 = [
    *_start("MD  "),
    number("Report"),
    number("MsgType", MQMT_DATAGRAM),
    number("Expiry", MQEI_UNLIMITED),
    number("Feedback"),
    *_data_description(MQENC_NATIVE, MQCCSI_Q_MGR),
    number("Priority", MQPRI_PRIORITY_AS_Q_DEF),
    number("Persistence", MQPER_PERSISTENCE_AS_Q_DEF),
    byte("MsgId", 24),
    byte("CorrelId", 24),
    number("BackoutCount"),
    char("ReplyToQ", 48),
    char("ReplyToQMgr", 48),
    char("UserIdentifier", 12),
    byte("AccountingToken", 32),
    char("ApplIdentityData", 32),
    number("PutApplType"),
    char("PutApplName", 28),
    char("PutDate", 8),
    char("PutTime", 8),
    char("ApplOriginData", 4),
]

#: The message descriptor; Expiry is at offset 16 in both versions.
MD = Layout("MQMD", _MD_1 + _group_fields(), versions={1: 324, 2: 364}, reason=rc.MQRC_MD_ERROR)

#: The extension that carries the fields of MQMD version 2 where only version 1 can travel.
MDE = Layout(
    "MQMDE",
    [
        *_start("MDE ", 2),
        number("StrucLength", 72),
        *_data_description(MQENC_NATIVE, MQCCSI_UNDEFINED),
        number("Flags"),
        *_group_fields(),
    ],
    versions={2: 72},
    reason=rc.MQRC_MDE_ERROR,
)

#: The transmission queue header with its embedded MQMD version 1: Expiry at offset 120.
XQH = Layout(
    "MQXQH",
    [
        *_start("XQH "),
        char("RemoteQName", 48),
        char("RemoteQMgrName", 48),
        *(field._replace(name=f"MsgDesc.{field.name}") for field in _MD_1),
    ],
    versions={1: 428},
    reason=rc.MQRC_XQH_ERROR,
)

#: The dead-letter header.
DLH = Layout(
    "MQDLH",
    [
        *_start("DLH "),
        number("Reason"),
        char("DestQName", 48),
        char("DestQMgrName", 48),
        *_data_description(0, MQCCSI_UNDEFINED),
        number("PutApplType"),
        char("PutApplName", 28),
        char("PutDate", 8),
        char("PutTime", 8),
    ],
    versions={1: 172},
    reason=rc.MQRC_DLH_ERROR,
)

#: The fixed part of the rules and formatting header 2; folders follow up to StrucLength.
RFH2 = Layout(
    "MQRFH2",
    [
        *_start("RFH ", 2),
        number("StrucLength", 36),
        *_data_description(MQENC_NATIVE, MQCCSI_INHERIT),
        number("Flags"),
        number("NameValueCCSID", _UTF8_CCSID),
    ],
    versions={2: 36},
    reason=rc.MQRC_RFH_ERROR,
)

_TRIGGER_NAMES = [char("QName", 48), char("ProcessName", 48), char("TriggerData", 64)]
_TRIGGER_PROGRAM = [char("ApplId", 256), char("EnvData", 128), char("UserData", 128)]

#: The trigger message.
TM = Layout(
    "MQTM",
    [*_start("TM  "), *_TRIGGER_NAMES, number("ApplType"), *_TRIGGER_PROGRAM],
    versions={1: 684},
    reason=rc.MQRC_TM_ERROR,
)

#: The trigger message in characters only, as a started program gets it; Version is text too.
TMC2 = Layout(
    "MQTMC2",
    [
        char("StrucId", 4, "TMC "),
        char("Version", 4, "   2"),
        *_TRIGGER_NAMES,
        char("ApplType", 4),
        *_TRIGGER_PROGRAM,
        char("QMgrName", 48),
    ],
    versions={2: 732},
    reason=rc.MQRC_TMC_ERROR,
)

#: The IMS information header; Flags holds MQIIH_PASS_EXPIRATION.
IIH = Layout(
    "MQIIH",
    [
        *_start("IIH "),
        number("StrucLength", 84),
        *_data_description(0, 0),
        number("Flags"),
        char("LTermOverride", 8),
        char("MFSMapName", 8),
        char("ReplyToFormat", 8),
        char("Authenticator", 8),
        byte("TranInstanceId", 16),
        char("TranState", 1),
        char("CommitMode", 1, "0"),
        char("SecurityScope", 1, "C"),
        char("Reserved", 1),
    ],
    versions={1: 84},
    reason=rc.MQRC_IIH_ERROR,
)

#: The get options; WaitInterval is in milliseconds.
GMO = Layout(
    "MQGMO",
    [
        *_start("GMO "),
        number("Options"),
        number("WaitInterval"),
        number("Signal1"),
        number("Signal2"),
        char("ResolvedQName", 48),
        number("MatchOptions", MQMO_MATCH_MSG_ID + MQMO_MATCH_CORREL_ID),
        char("GroupStatus", 1),
        char("SegmentStatus", 1),
        char("Segmentation", 1),
        char("Reserved1", 1),
        byte("MsgToken", 16),
        number("ReturnedLength", MQRL_UNDEFINED),
        number("Reserved2"),
        number("MsgHandle", kind="i64"),
    ],
    versions={1: 72, 2: 80, 3: 100, 4: 112},
    reason=rc.MQRC_GMO_ERROR,
)

#: The put options.
PMO = Layout(
    "MQPMO",
    [
        *_start("PMO "),
        number("Options"),
        number("Timeout", -1),
        number("Context"),
        number("KnownDestCount"),
        number("UnknownDestCount"),
        number("InvalidDestCount"),
        char("ResolvedQName", 48),
        char("ResolvedQMgrName", 48),
        number("RecsPresent"),
        number("PutMsgRecFields"),
        number("PutMsgRecOffset"),
        number("ResponseRecOffset"),
        number("PutMsgRecPtr", kind="ptr"),
        number("ResponseRecPtr", kind="ptr"),
        number("OriginalMsgHandle", kind="i64"),
        number("NewMsgHandle", kind="i64"),
        number("Action", MQACTP_NEW),
        number("PubLevel", 9),
    ],
    versions={1: 128, 2: 160, 3: 184},
    reason=rc.MQRC_PMO_ERROR,
)

#: The object descriptor.
OD = Layout(
    "MQOD",
    [
        *_start("OD  "),
        number("ObjectType", MQOT_Q),
        char("ObjectName", 48),
        char("ObjectQMgrName", 48),
        char("DynamicQName", 48, "AMQ.*"),
        char("AlternateUserId", 12),
        number("RecsPresent"),
        number("KnownDestCount"),
        number("UnknownDestCount"),
        number("InvalidDestCount"),
        number("ObjectRecOffset"),
        number("ResponseRecOffset"),
        number("ObjectRecPtr", kind="ptr"),
        number("ResponseRecPtr", kind="ptr"),
        byte("AlternateSecurityId", 40),
        char("ResolvedQName", 48),
        char("ResolvedQMgrName", 48),
        *_variable_string("ObjectString"),
        *_variable_string("SelectionString"),
        *_variable_string("ResObjectString"),
        number("ResolvedType", -3),  # what pymqi starts with
        gap(4),
    ],
    versions={1: 168, 2: 208, 3: 344, 4: 424},
    reason=rc.MQRC_OD_ERROR,
)

#: The subscription descriptor; SubExpiry is the life of the subscription in tenths, at offset 112.
SD = Layout(
    "MQSD",
    [
        *_start("SD  "),
        number("Options"),
        char("ObjectName", 48),
        char("AlternateUserId", 12),
        byte("AlternateSecurityId", 40),
        number("SubExpiry", MQEI_UNLIMITED),
        gap(4),
        *_variable_string("ObjectString"),
        *_variable_string("SubName"),
        *_variable_string("SubUserData"),
        byte("SubCorrelId", 24),
        number("PubPriority", MQPRI_PRIORITY_AS_PUBLISHED),
        byte("PubAccountingToken", 32),
        char("PubApplIdentityData", 32),
        gap(4),
        *_variable_string("SelectionString"),
        number("SubLevel", 1),
        gap(4),
        *_variable_string("ResObjectString"),
    ],
    versions={1: 344},
    reason=rc.MQRC_SD_ERROR,
)

#: The options of a subscription request, MQSUBRQ; NumPubs says how many publications came.
SRO = Layout(
    "MQSRO",
    [*_start("SRO "), number("Options"), number("NumPubs")],
    versions={1: 16},
    reason=rc.MQRC_SRO_ERROR,
)

#: The status of asynchronous puts, MQSTAT: the first that failed, and counts by outcome.
STS = Layout(
    "MQSTS",
    [
        *_start("STAT"),
        number("CompCode"),
        number("Reason"),
        number("PutSuccessCount"),
        number("PutWarningCount"),
        number("PutFailureCount"),
        number("ObjectType", MQOT_Q),
        char("ObjectName", 48),
        char("ObjectQMgrName", 48),
        char("ResolvedObjectName", 48),
        char("ResolvedQMgrName", 48),
        *_variable_string("ObjectString"),
        *_variable_string("SubName"),
        number("OpenOptions"),
        number("SubOptions"),
    ],
    versions={1: 224, 2: 280},
    reason=rc.MQRC_STS_ERROR,
)

#: The header of a staged message, Mayfly's own: a delayed message waits on the staging queue with
#: Format `DDH_FORMAT` and this in front of its data. Integers are little-endian whatever the
#: message's own Encoding. Encoding, CodedCharSetId and Format are those of the original data.
#: DueTime is the delivery time in milliseconds since the epoch. TargetNumber is the store's number
#: of the queue that the target led to at the put, for its counters. A version 2 may only add fields
#: behind SubId: readers find the data by StrucLength.
#:
#:   0 StrucId 4 `DDH `   24 TargetQName 48      168 Encoding 4
#:   4 Version 4 = 1      72 TargetQMgrName 48   172 CodedCharSetId 4
#:   8 StrucLength 4     120 OriginalMsgId 24    176 Format 8
#:  12 TargetNumber 4    144 OriginalCorrelId 24 184 SubId 24 (zeros: the target is a queue)
#:  16 DueTime 8                                 208 the original data
DDH = Layout(
    "DDH",
    [
        *_start("DDH "),
        number("StrucLength", 208),
        number("TargetNumber"),
        number("DueTime", kind="i64"),
        char("TargetQName", 48),
        char("TargetQMgrName", 48),
        byte("OriginalMsgId", 24),
        byte("OriginalCorrelId", 24),
        *_data_description(MQENC_NATIVE, MQCCSI_Q_MGR),
        byte("SubId", 24),
    ],
    versions={1: 208},
    reason=rc.MQRC_HEADER_ERROR,
)

LAYOUTS: dict[str, Layout] = {
    "MD": MD,
    "MDE": MDE,
    "XQH": XQH,
    "DLH": DLH,
    "RFH2": RFH2,
    "TM": TM,
    "TMC2": TMC2,
    "IIH": IIH,
    "GMO": GMO,
    "PMO": PMO,
    "OD": OD,
    "SD": SD,
    "SRO": SRO,
    "STS": STS,
    "DDH": DDH,
}


def _options(struc_id: str) -> list[Field]:
    """Return the fields StrucId, Version 1 and Options."""
    return [*_start(struc_id), number("Options")]


#: How a message handle is made.
CMHO = Layout("MQCMHO", _options("CMHO"), versions={1: 12}, reason=rc.MQRC_CMHO_ERROR)

#: How a message handle is deleted.
DMHO = Layout("MQDMHO", _options("DMHO"), versions={1: 12}, reason=rc.MQRC_DMHO_ERROR)

#: How a property is deleted.
DMPO = Layout("MQDMPO", _options("DMPO"), versions={1: 12}, reason=rc.MQRC_DMPO_ERROR)

#: The descriptor of a property (MQPD): support, context, copy options.
PD = Layout(
    "MQPD",
    [
        *_options("PD  "),
        number("Support", MQPD_SUPPORT_OPTIONAL),
        number("Context"),
        number("CopyOptions", MQCOPY_DEFAULT),
    ],
    versions={1: 24},
    reason=rc.MQRC_PD_ERROR,
)

#: How a property is set.
SMPO = Layout(
    "MQSMPO",
    [
        *_options("SMPO"),
        number("ValueEncoding", MQENC_NATIVE),
        number("ValueCCSID", MQCCSI_APPL),
    ],
    versions={1: 20},
    reason=rc.MQRC_SMPO_ERROR,
)

#: How a property is inquired.
IMPO = Layout(
    "MQIMPO",
    [
        *_options("IMPO"),
        number("RequestedEncoding", MQENC_NATIVE),
        number("RequestedCCSID", MQCCSI_APPL),
        number("ReturnedEncoding", MQENC_NATIVE),
        number("ReturnedCCSID"),
        number("Reserved1"),
        *_variable_string("ReturnedName", 0),
        char("TypeString", 8),
    ],
    versions={1: 64},
    reason=rc.MQRC_IMPO_ERROR,
)


#: Format -> the structure it announces.
HEADERS: dict[str, Layout] = {
    "MQDEAD": DLH,
    "MQHMDE": MDE,
    "MQHRF2": RFH2,
    "MQIMS": IIH,
    "MQXMIT": XQH,
    "MQHDDLY": DDH,
}


def headers_length(format_name: str, body: bytes, encoding: int) -> int:
    """Return the length in bytes of the chain of MQ headers at the start of a message's data.

    0 without a header. ``format_name`` and ``encoding`` are those of the MQMD; each header has
    those of the data after it. The chain ends at the first unknown or damaged structure. It also
    ends after an MQXQH, which does not name the format of its data.
    """
    return leading_headers(format_name, body, encoding)[0]


def leading_headers(format_name: str, body: bytes, encoding: int) -> tuple[int, str]:
    """Return the length in bytes of the MQ headers before a message's data, and the data's Format.

    ``format_name`` and ``encoding`` are those of the MQMD. The chain of headers ends as in
    :func:`headers_length`; (0, ``format_name``) without a header.
    """
    length = 0
    # A slice of bytes would be a copy of all the rest, for each header of a long row.
    rest = memoryview(body)
    while (layout := HEADERS.get(format_name)) is not None:
        try:
            header = layout.unpack(rest[length:], big_endian=is_big_endian(encoding))
        except MQError:
            break
        size = layout.length(int_in(header, "Version"))
        if "StrucLength" in header:
            size = int_in(header, "StrucLength")
        if not 0 < size <= len(body) - length:
            break
        length += size
        format_name = str(header.get("Format", ""))
        if "Encoding" in header:
            encoding = int_in(header, "Encoding")
    return length, format_name


_EMBEDDED = "MsgDesc."


class HeaderRead(NamedTuple):
    """One header: its name as ``MQDLH``, its fields by name, its place and length in bytes.

    ``format_name``, ``encoding`` and ``coded_char_set_id`` are those that announce it.
    """

    name: str
    fields: dict[str, Value]
    offset: int
    length_bytes: int
    format_name: str
    encoding: int
    coded_char_set_id: int


class HeaderChain(NamedTuple):
    """The headers of a message, and Format, Encoding, CodedCharSetId and place of its data.

    ``damage`` says which announced header cannot be read, and why; it begins at ``data_offset``.
    Empty when all could be read.
    """

    headers: list[HeaderRead]
    format_name: str
    encoding: int
    coded_char_set_id: int
    data_offset: int
    damage: str


def read_headers(
    format_name: str, encoding: int, coded_char_set_id: int, body: bytes
) -> HeaderChain:
    """Read the chain of headers at the start of a message's data; the three are those of its MQMD.

    After an MQXQH the chain goes on with the embedded MQMD. It ends at the first format that
    announces no header, or at a damaged header.
    """
    headers, offset, damage = list[HeaderRead](), 0, ""
    rest = memoryview(body)
    while (layout := HEADERS.get(format_name.strip())) is not None:
        is_plain = body.startswith(layout.struc_id, offset)
        codec = None if is_plain else codec_name(coded_char_set_id, encoding)
        # A delay header is little-endian, whatever Encoding the message has.
        big_endian = layout is not DDH and is_big_endian(encoding)
        try:
            fields = layout.unpack(rest[offset:], big_endian=big_endian, text_codec=codec)
        except MQError as error:
            damage = f"{layout.name}: {error.detail or error.text}"
            break
        size = layout.length(int_in(fields, "Version"))
        if "StrucLength" in fields:
            size = int_in(fields, "StrucLength")
        if not 0 < size <= len(body) - offset:
            damage = f"{layout.name}: StrucLength {size}, and {len(body) - offset} bytes are left"
            break
        announced = format_name, encoding, coded_char_set_id
        headers.append(HeaderRead(layout.name, fields, offset, size, *announced))
        offset += size
        prefix = _EMBEDDED if layout is XQH else ""
        format_name = str(fields[f"{prefix}Format"])
        encoding = int_in(fields, f"{prefix}Encoding")
        own_ccsid = int_in(fields, f"{prefix}CodedCharSetId")
        coded_char_set_id = coded_char_set_id if own_ccsid == MQCCSI_INHERIT else own_ccsid
    return HeaderChain(headers, format_name.strip(), encoding, coded_char_set_id, offset, damage)

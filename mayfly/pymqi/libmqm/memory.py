"""The memory of a C program: numbers, bytes, and the structures of the MQI that only C has.

An address is a number; 0 is NULL. As in C, an address that leads elsewhere ends the process.

Structures say how to connect, and are those of callbacks and buffers. Fields have the sizes and
alignment of C on a 64-bit machine. A version has the fields of the earlier ones and more at its
end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from ctypes import memmove, string_at
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mayfly.mqi import structures
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import Layout
from mayfly.pymqi import CMQC
from mayfly.pymqi.structures import (
    CMHO,
    DMHO,
    DMPO,
    GMO,
    IMPO,
    MD,
    NULL_TERMINATED,
    OD,
    PD,
    PMO,
    SD,
    SMPO,
    SRO,
    STS,
    MQOpts,
    StringPointer,
)


class CField(NamedTuple):
    """A field: its code in the struct module (``i``, ``P``, ``48s``), and what it begins with."""

    name: str
    code: str
    initial: int | bytes


class CStructure:
    """A structure by its fields, and how many of these each version has.

    ``reason`` is the reason code for a pointer that does not lead to such a structure.
    """

    def __init__(self, name: str, versions: dict[int, str], initial: dict[str, Any], reason: int):
        """Take the fields of each version, beyond the earlier ones, as ``Name:code`` words.

        ``initial`` has the values that fields begin with, other than zeros.
        """
        self.name, self.reason = name, reason
        self.fields: list[CField] = []
        self._codecs: dict[int, struct.Struct] = {}
        for version, words in versions.items():
            for word in words.split():
                field, code = word.split(":")
                zero = b"" if code.endswith("s") else 0
                self.fields.append(CField(field, code, initial.get(field, zero)))
            self._codecs[version] = struct.Struct("@" + "".join(f.code for f in self.fields))
        self._version_offset = self.offset_of("Version")
        self.struc_id: bytes | None = initial.get("StrucId")

    def offset_of(self, field: str) -> int:
        """Return the offset of a field in bytes; raises StopIteration for an unknown one."""
        at = next(n for n, each in enumerate(self.fields) if each.name == field)
        codes = "".join(each.code for each in self.fields[: at + 1])
        return struct.calcsize("@" + codes) - struct.calcsize("@" + self.fields[at].code)

    def read(self, address: int) -> dict[str, Any]:
        """Return the fields of a structure in memory; those that its version lacks begin so.

        Raises MQError with the reason of the structure for NULL, another StrucId or Version.
        """
        if not address:
            raise mq_error(self.reason, f"{self.name} is NULL")
        if self.struc_id is not None and string_at(address, 4) != self.struc_id:
            raise mq_error(self.reason, f"{self.name}.StrucId {string_at(address, 4)!r}")
        [version] = struct.unpack("<i", string_at(address + self._version_offset, 4))
        codec = self._codecs.get(version)
        if codec is None:
            raise mq_error(self.reason, f"{self.name}.Version {version}")
        values = codec.unpack(string_at(address, codec.size))
        found = self.initial()
        return found | dict(zip(found, values, strict=False))

    def initial(self) -> dict[str, Any]:
        """Return the initial values of all fields, by field name."""
        return {field.name: field.initial for field in self.fields}

    def pack(self, **values: Any) -> bytes:
        """Return the bytes of a structure of the newest version; other fields are initial."""
        codec = self._codecs[max(self._codecs)]
        return codec.pack(*(values.get(each.name, each.initial) for each in self.fields))


def _options(name: str, struc_id: bytes, reason: int) -> CStructure:
    """Return a structure of StrucId, Version and Options."""
    return CStructure(
        name, {1: "StrucId:4s Version:i Options:i"}, {"StrucId": struc_id, "Version": 1}, reason
    )


BO = _options("MQBO", b"BO  ", CMQC.MQRC_BO_ERROR)
BMHO = _options("MQBMHO", b"BMHO", CMQC.MQRC_BMHO_ERROR)
MHBO = _options("MQMHBO", b"MHBO", CMQC.MQRC_MHBO_ERROR)

#: How a program connects.
CNO = CStructure(
    "MQCNO",
    {
        1: "StrucId:4s Version:i Options:i",
        2: "ClientConnOffset:i ClientConnPtr:P",
        3: "ConnTag:128s",
        4: "SSLConfigPtr:P SSLConfigOffset:i",
        5: "ConnectionId:24s SecurityParmsOffset:i SecurityParmsPtr:P",
        6: "CCDTUrlPtr:P CCDTUrlOffset:i CCDTUrlLength:i Reserved:8s",
        7: "ApplName:28s Reserved2:4s",
        8: "BalanceParmsPtr:P BalanceParmsOffset:i Reserved3:4s",
    },
    {"StrucId": b"CNO ", "Version": 1},
    CMQC.MQRC_CNO_ERROR,
)

#: User and password of a program.
CSP = CStructure(
    "MQCSP",
    {
        1: "StrucId:4s Version:i AuthenticationType:i Reserved1:4s CSPUserIdPtr:P CSPUserIdOffset:i"
        " CSPUserIdLength:i Reserved2:8s CSPPasswordPtr:P CSPPasswordOffset:i CSPPasswordLength:i",
        2: "Reserved3:8s InitialKeyPtr:P InitialKeyOffset:i InitialKeyLength:i",
        3: "Reserved4:8s TokenPtr:P TokenOffset:i TokenLength:i",
    },
    {"StrucId": b"CSP ", "Version": 1},
    CMQC.MQRC_CSP_ERROR,
)

#: TLS of a program.
SCO = CStructure(
    "MQSCO",
    {
        1: "StrucId:4s Version:i KeyRepository:256s CryptoHardware:256s AuthInfoRecCount:i"
        " AuthInfoRecOffset:i AuthInfoRecPtr:P",
        2: "KeyResetCount:i FipsRequired:i",
        3: "EncryptionPolicySuiteB:16s",
        4: "CertificateValPolicy:i Reserved:4s",
        5: "CertificateLabel:64s",
        6: "KeyRepoPasswordPtr:P KeyRepoPasswordOffset:i KeyRepoPasswordLength:i",
        7: "HTTPSCertValidation:i HTTPSCertRevocation:i HTTPSKeyStorePtr:P HTTPSKeyStoreOffset:i"
        " HTTPSKeyStoreLength:i",
    },
    {"StrucId": b"SCO ", "Version": 1},
    CMQC.MQRC_SCO_ERROR,
)

#: A channel. It has no StrucId; programs fill in names, connection and TLS.
CD = CStructure(
    "MQCD",
    {
        1: "ChannelName:20s Version:i ChannelType:i TransportType:i Desc:64s QMgrName:48s"
        " XmitQName:48s ShortConnectionName:20s MCAName:20s ModeName:8s TpName:64s BatchSize:i"
        " DiscInterval:i ShortRetryCount:i ShortRetryInterval:i LongRetryCount:i"
        " LongRetryInterval:i SecurityExit:128s MsgExit:128s SendExit:128s ReceiveExit:128s"
        " SeqNumberWrap:i MaxMsgLength:i PutAuthority:i DataConversion:i SecurityUserData:32s"
        " MsgUserData:32s SendUserData:32s ReceiveUserData:32s",
        2: "UserIdentifier:12s Password:12s MCAUserIdentifier:12s MCAType:i ConnectionName:264s"
        " RemoteUserIdentifier:12s RemotePassword:12s",
        3: "MsgRetryExit:128s MsgRetryUserData:32s MsgRetryCount:i MsgRetryInterval:i",
        4: "HeartbeatInterval:i BatchInterval:i NonPersistentMsgSpeed:i StrucLength:i"
        " ExitNameLength:i ExitDataLength:i MsgExitsDefined:i SendExitsDefined:i"
        " ReceiveExitsDefined:i MsgExitPtr:P MsgUserDataPtr:P SendExitPtr:P SendUserDataPtr:P"
        " ReceiveExitPtr:P ReceiveUserDataPtr:P",
        5: "ClusterPtr:P ClustersDefined:i NetworkPriority:i",
        6: "LongMCAUserIdLength:i LongRemoteUserIdLength:i LongMCAUserIdPtr:P"
        " LongRemoteUserIdPtr:P MCASecurityId:40s RemoteSecurityId:40s",
        7: "SSLCipherSpec:32s SSLPeerNamePtr:P SSLPeerNameLength:i SSLClientAuth:i"
        " KeepAliveInterval:i LocalAddress:48s BatchHeartbeat:i",
        8: "HdrCompList:8s MsgCompList:64s CLWLChannelRank:i CLWLChannelPriority:i"
        " CLWLChannelWeight:i ChannelMonitoring:i ChannelStatistics:i",
        9: "SharingConversations:i PropertyControl:i MaxInstances:i MaxInstancesPerClient:i"
        " ClientChannelWeight:i ConnectionAffinity:i",
        10: "BatchDataLimit:i UseDLQ:i DefReconnect:i",
        11: "CertificateLabel:64s",
        12: "SPLProtection:i",
    },
    {
        "Version": 6,
        "ChannelType": 6,
        "TransportType": 2,
        "MaxMsgLength": 4_194_304,
        "HeartbeatInterval": 1,
        "KeepAliveInterval": -1,
        "SharingConversations": 10,
        "ConnectionAffinity": 1,
    },
    CMQC.MQRC_CD_ERROR,
)

#: A callback of a queue, or for events.
CBD = CStructure(
    "MQCBD",
    {
        1: "StrucId:4s Version:i CallbackType:i Options:i CallbackArea:P CallbackFunction:P"
        " CallbackName:128s MaxMsgLength:i",
    },
    {"StrucId": b"CBD ", "Version": 1, "CallbackType": 1, "MaxMsgLength": -1},
    CMQC.MQRC_CBD_ERROR,
)

#: Why a callback is called.
CBC = CStructure(
    "MQCBC",
    {
        1: "StrucId:4s Version:i CallType:i Hobj:i CallbackArea:P ConnectionArea:P CompCode:i"
        " Reason:i State:i DataLength:i BufferLength:i Flags:i",
        2: "ReconnectDelay:i",
    },
    {"StrucId": b"CBC ", "Version": 2},
    CMQC.MQRC_UNEXPECTED_ERROR,
)

#: The options of MQCTL.
CTLO = CStructure(
    "MQCTLO",
    {1: "StrucId:4s Version:i Options:i Reserved:i ConnectionArea:P"},
    {"StrucId": b"CTLO", "Version": 1},
    CMQC.MQRC_CTLO_ERROR,
)

#: All of them, in the order in which a C header has them.
STRUCTURES: Iterable[CStructure] = (BO, CNO, CSP, SCO, CD, CBD, CBC, CTLO, BMHO, MHBO)


S = TypeVar("S", bound=MQOpts)

#: The layouts of the structures that programs hand to verbs.
LAYOUTS: Final[dict[type[MQOpts], Layout]] = {
    MD: structures.MD,
    OD: structures.OD,
    GMO: structures.GMO,
    PMO: structures.PMO,
    SD: structures.SD,
    SRO: structures.SRO,
    STS: structures.STS,
    CMHO: structures.CMHO,
    DMHO: structures.DMHO,
    SMPO: structures.SMPO,
    IMPO: structures.IMPO,
    DMPO: structures.DMPO,
    PD: structures.PD,
}


#: The forms of numbers by their lengths in bytes.
_NUMBERS: Final = {4: struct.Struct("<i"), 8: struct.Struct("<q")}


def read_number(address: int, length: int = 4) -> int:
    """Return the signed number at an address; ``length`` is its size, 4 or 8 bytes."""
    found: int = _NUMBERS[length].unpack(string_at(address, length))[0]
    return found


def write_number(address: int, value: int, length: int = 4) -> None:
    """Write a signed number of ``length`` bytes; nothing at NULL."""
    if address:
        memmove(address, value.to_bytes(length, "little", signed=True), length)


def write_bytes(address: int, data: bytes) -> None:
    """Write bytes; nothing at NULL."""
    if address and data:
        memmove(address, data, len(data))


def read_name(address: int, length: int) -> str:
    """Return a name of at most ``length`` bytes, padded with blanks or ended by NUL; "" at NULL."""
    if not address:
        return ""
    # Byte by byte: a name that ends with a NUL may be in a buffer of that length.
    raw = b""
    while len(raw) < length and (each := string_at(address + len(raw), 1)) != b"\0":
        raw += each
    return raw.rstrip(b" ").decode("utf-8", "replace")


class VariableString(NamedTuple):
    """An MQCHARV as the program has it, and the address of its string, 0 without one."""

    pointer: int
    offset: int
    buffer_bytes: int
    length: int
    address: int


class _VersionForm:
    """One version of a structure: its length in bytes, its fields in order, and their codec."""

    def __init__(self, kind: type[MQOpts], layout: Layout, version: int) -> None:
        """Take the fields of a layout up to the end of a version."""
        self.length = layout.length(version)
        new = kind().get()
        codes, names, end = "<", [], 0
        for field in layout.fields:
            if end < self.length:
                end += field.length
                name = field.name.replace(".", "")
                # pymqi has single characters as numbers.
                codes += "b" if field.length == 1 and isinstance(new[name], int) else field.code
                names += [name] if name else []
        self.names: Final = tuple(names)
        self.codec: Final = struct.Struct(codes)
        self.values: Final = itemgetter(*names)
        self.strings: Final = [
            name.removesuffix("VSPtr") for name in names if name.endswith("VSPtr")
        ]


#: The form of each version by the first 8 bytes of a structure: StrucId and Version.
_FORMS: Final[dict[type[MQOpts], dict[bytes, _VersionForm]]] = {
    kind: {
        layout.struc_id + version.to_bytes(4, "little"): _VersionForm(kind, layout, version)
        for version in layout.versions
    }
    for kind, layout in LAYOUTS.items()
}


def read_structure(kind: type[MQOpts], address: int) -> bytes:
    """Return the bytes of a structure, as many as its version has.

    Raises the reason code of its kind for NULL, another StrucId or Version.
    """
    head = string_at(address, 8) if address else b""
    form = _FORMS[kind].get(head)
    if form is None:
        layout = LAYOUTS[kind]
        raise mq_error(layout.reason, f"{layout.name} begins with {head!r}")
    return string_at(address, form.length)


def unpacked(kind: type[S], raw: bytes) -> S:
    """Return the structure of these bytes; fields that its version lacks have initial values."""
    form = _FORMS[kind][raw[:8]]
    value = kind()
    vars(value).update(zip(form.names, form.codec.unpack(raw), strict=True))
    return value


def packed(value: MQOpts) -> bytes:
    """Return the bytes of a structure; older versions are shorter.

    The caller has checked StrucId and Version: an unknown one is a KeyError.
    """
    fields = vars(value)
    form = _FORMS[type(value)][fields["StrucId"] + fields["Version"].to_bytes(4, "little")]
    return form.codec.pack(*form.values(fields))


class InMemory(Generic[S]):
    """A structure that a verb reads from the memory of the program, and returns changed.

    ``value`` has the fields; those that the version of the program's structure lacks have their
    initial values.
    """

    __slots__ = ("_address", "_form", "_given", "value")

    def __init__(self, kind: type[S], address: int) -> None:
        """Read a structure; raises its reason code for NULL, another StrucId or Version."""
        raw = read_structure(kind, address)
        self.value = unpacked(kind, raw)
        self._address, self._form = address, _FORMS[kind][raw[:8]]
        fields = vars(self.value)
        #: The strings as the program has them, and what their pointers were replaced by.
        self._given: dict[str, tuple[VariableString, object]] = {}
        for name in self._form.strings:
            self._read_string(fields, name)

    def _read_string(self, fields: dict[str, Any], name: str) -> None:
        """Replace the pointer of an MQCHARV field in ``fields`` by the string at that address.

        An MQCHARV of length 0 gets a NULL pointer. ``name`` is the field's name without its suffix.
        """
        given = variable_string(fields, name, self._address)
        if given.length == 0:
            fields[f"{name}VSPtr"] = 0
        elif given.address and given.length >= NULL_TERMINATED:
            fields[f"{name}VSPtr"] = StringPointer(string_of(given))
        fields[f"{name}VSOffset"] = 0
        self._given[name] = given, fields[f"{name}VSPtr"]

    def write_back(self) -> None:
        """Write the fields into the program's structure, and returned strings into its buffers."""
        fields = vars(self.value)
        for name, (given, replaced) in self._given.items():
            found = fields[f"{name}VSPtr"]
            if found is not replaced and isinstance(found, StringPointer):
                write_bytes(given.address, found.target)
            else:
                fields[f"{name}VSLength"] = given.length
            fields[f"{name}VSPtr"], fields[f"{name}VSOffset"] = given.pointer, given.offset
        memmove(self._address, self._form.codec.pack(*self._form.values(fields)), self._form.length)


def variable_string(fields: dict[str, Any], name: str, address: int) -> VariableString:
    """Return an MQCHARV among the fields of a structure that is at an address."""
    pointer, offset = fields[f"{name}VSPtr"], fields[f"{name}VSOffset"]
    at = pointer or (address + offset if offset else 0)
    return VariableString(
        pointer, offset, fields[f"{name}VSBufSize"], fields[f"{name}VSLength"], at
    )


def string_of(given: VariableString) -> bytes:
    """Return the string of an MQCHARV: up to its first NUL, or of its length."""
    if not given.address or given.length < NULL_TERMINATED:
        return b""
    if given.length == NULL_TERMINATED:
        return string_at(given.address)
    return string_at(given.address, given.length)


def read_charv(address: int) -> bytes | None:
    """Return the string of an MQCHARV at an address; None for NULL or a wrong length."""
    if not address:
        return None
    fields = {
        "VSPtr": read_number(address, 8),
        "VSOffset": read_number(address + 8),
        "VSBufSize": read_number(address + 12),
        "VSLength": read_number(address + 16),
    }
    given = variable_string(fields, "", address)
    return None if given.length < NULL_TERMINATED else string_of(given)

"""The structures of the MQI that only C programs have: how to connect, callbacks, buffers.

Fields have the sizes and alignment of C on a 64-bit machine. A version has the fields of the
earlier ones and more at its end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from ctypes import string_at
from typing import Any, NamedTuple

from mayfly.mqi.errors import mq_error
from mayfly.pymqi import CMQC


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
        """Return what the fields of a new structure have."""
        return {field.name: field.initial for field in self.fields}

    def pack(self, **values: Any) -> bytes:
        """Return a structure of the newest version; fields without a value begin as they do."""
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

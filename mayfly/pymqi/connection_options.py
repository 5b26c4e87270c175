"""What a client connection is described with: MQCD and MQSCO, taken and not acted upon.

There is no MQ channel here, so that only their fields exist: a program that fills them in runs as
it is.
"""

from __future__ import annotations

from mayfly.mqi.layout import Field, Layout, byte, char, number
from mayfly.mqi.reasons import MQRC_CHANNEL_CONFIG_ERROR
from mayfly.pymqi.structures import MQOpts

_MQCHT_CLNTCONN, _MQXPT_TCP, _MQCAFTY_PREFERRED = 6, 2, 1
_MQCD_VERSION_6, _MQSCO_VERSION_1 = 6, 1

_CD_FIELDS = [
    char("ChannelName", 20),
    number("Version", _MQCD_VERSION_6),
    number("ChannelType", _MQCHT_CLNTCONN),
    number("TransportType", _MQXPT_TCP),
    char("Desc", 64),
    char("QMgrName", 48),
    number("MaxMsgLength", 4_194_304),
    char("UserIdentifier", 12),
    char("Password", 12),
    char("ConnectionName", 264),
    number("HeartbeatInterval", 1),
    char("SSLCipherSpec", 32),
    char("SSLPeerName", 1024),
    number("SSLClientAuth"),
    number("KeepAliveInterval", -1),
    char("LocalAddress", 48),
    char("SecurityExit", 128),
    char("SecurityUserData", 32),
    char("SendExit", 128),
    char("SendUserData", 32),
    char("ReceiveExit", 128),
    char("ReceiveUserData", 32),
    number("SharingConversations", 10),
    number("ClientChannelWeight"),
    number("ConnectionAffinity", _MQCAFTY_PREFERRED),
    number("DefReconnect"),
    char("CertificateLabel", 64),
]
_SCO_FIELDS = [
    char("StrucId", 4, "SCO "),
    number("Version", _MQSCO_VERSION_1),
    char("KeyRepository", 256),
    char("CryptoHardware", 256),
    number("KeyResetCount"),
    number("FipsRequired"),
    number("CertificateValPolicy"),
    byte("EncryptionPolicySuiteB", 16),
    char("CertificateLabel", 64),
]


def _layout(name: str, fields: list[Field]) -> Layout:
    length = sum(field.length for field in fields)
    return Layout(name, fields, versions={1: length}, reason=MQRC_CHANNEL_CONFIG_ERROR)


class CD(MQOpts, layout=_layout("MQCD", _CD_FIELDS)):
    """The channel definition, MQCD: the fields that a client sets."""


class SCO(MQOpts, layout=_layout("MQSCO", _SCO_FIELDS)):
    """The TLS configuration, MQSCO."""

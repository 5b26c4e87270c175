"""The description of a client connection: MQCD, MQSCO and the options of MQCNO."""

from __future__ import annotations

from mayfly.client.connection.choose import Binding, Wanted
from mayfly.client.connection.endpoint import Endpoint, Reconnect, Tls, addresses_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Field, Layout, byte, char, number
from mayfly.pymqi import CMQC
from mayfly.pymqi.opening import text_of
from mayfly.pymqi.structures import MQOpts

_MQCHT_CLNTCONN, _MQXPT_TCP, _MQCAFTY_PREFERRED = 6, 2, 1
_MQCD_VERSION_6, _MQSCO_VERSION_1 = 6, 1
_EXITS = ("SecurityExit", "SendExit", "ReceiveExit")

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
    return Layout(name, fields, versions={1: length}, reason=rc.MQRC_CHANNEL_CONFIG_ERROR)


class CD(MQOpts, layout=_layout("MQCD", _CD_FIELDS)):
    """The channel definition, MQCD: the fields that a client sets."""


class SCO(MQOpts, layout=_layout("MQSCO", _SCO_FIELDS)):
    """The TLS configuration, MQSCO."""


_BINDINGS = {CMQC.MQCNO_LOCAL_BINDING: Binding.LOCAL, CMQC.MQCNO_CLIENT_BINDING: Binding.CLIENT}
_RECONNECTS = {
    CMQC.MQCNO_RECONNECT: Reconnect.YES,
    CMQC.MQCNO_RECONNECT_DISABLED: Reconnect.DISABLED,
    CMQC.MQCNO_RECONNECT_Q_MGR: Reconnect.QUEUE_MANAGER,
}
#: CD.DefReconnect: MQRCN_NO, _YES, _Q_MGR and _DISABLED.
_DEFAULT_RECONNECTS = (
    Reconnect.NO,
    Reconnect.YES,
    Reconnect.QUEUE_MANAGER,
    Reconnect.DISABLED,
)
_HANDLE_SHARES = (
    CMQC.MQCNO_HANDLE_SHARE_NONE,
    CMQC.MQCNO_HANDLE_SHARE_BLOCK,
    CMQC.MQCNO_HANDLE_SHARE_NO_BLOCK,
)
#: All that there are, so that a wrong bit is refused; bindings other than these two are the same.
_KNOWN = sum(
    {
        value
        for name, value in vars(CMQC).items()
        if name.startswith("MQCNO_") and isinstance(value, int) and value.bit_count() == 1
        if not name.startswith(("MQCNO_VERSION", "MQCNO_LENGTH", "MQCNO_CURRENT"))
    }
)


def wanted_of(cd: CD | None, sco: SCO | None, options: int) -> Wanted:
    """Return the wishes of a program for its connection; a CD without a channel names none.

    Raises MQRC_OPTIONS_ERROR for MQCNO options that are unknown or do not go together. A CD that is
    not of a client over TCP is MQRC_CD_ERROR, one with exits MQRC_CLIENT_EXIT_LOAD_ERROR, one with
    a wrong ConnectionName MQRC_HOST_NOT_AVAILABLE. FIPS is MQRC_SSL_INITIALIZATION_ERROR.
    """
    alternatives = (tuple(_BINDINGS), tuple(_RECONNECTS), _HANDLE_SHARES)
    if options & ~_KNOWN or any(
        sum(bool(options & bit) for bit in bits) > 1 for bits in alternatives
    ):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"MQCNO options {options:#x}")
    binding = next((how for bit, how in _BINDINGS.items() if options & bit), Binding.ANY)
    reconnect = next((how for bit, how in _RECONNECTS.items() if options & bit), None)
    repository = label = ""
    if sco is not None:
        repository, label = _text(sco, "KeyRepository"), _text(sco, "CertificateLabel")
        if sco["FipsRequired"]:
            said = "SCO.FipsRequired: no cryptography here is certified"
            raise mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, said)
    if cd is None or not (_text(cd, "ChannelName") or _text(cd, "ConnectionName")):
        return Wanted(None, repository, label, binding, reconnect, may_reconnect=True)
    label = _text(cd, "CertificateLabel") or label
    default = cd["DefReconnect"]
    if not 0 <= default < len(_DEFAULT_RECONNECTS):
        raise _cd_error("DefReconnect", default)
    reconnect = reconnect or _DEFAULT_RECONNECTS[default]
    endpoint = _endpoint_of(cd)
    return Wanted(endpoint, repository, label, binding, reconnect, may_reconnect=True)


def _endpoint_of(cd: CD) -> Endpoint:
    for exit_name in _EXITS:
        if given := _text(cd, exit_name):
            said = f"CD.{exit_name} {given!r}: exits are programs for IBM's client"
            raise mq_error(rc.MQRC_CLIENT_EXIT_LOAD_ERROR, said)
    channel = _text(cd, "ChannelName")
    if not channel:
        raise _cd_error("ChannelName", "''")
    if cd["ChannelType"] != _MQCHT_CLNTCONN:
        raise _cd_error("ChannelType", cd["ChannelType"])
    if cd["TransportType"] != _MQXPT_TCP:
        raise _cd_error("TransportType", cd["TransportType"])
    cipher = _text(cd, "SSLCipherSpec")
    return Endpoint(
        addresses_of(_text(cd, "ConnectionName")),
        channel,
        tls=Tls(cipher, peer_name=_text(cd, "SSLPeerName")) if cipher else None,
        heartbeat_s=cd["HeartbeatInterval"],
        share_conversations=cd["SharingConversations"],
        max_message_bytes=cd["MaxMsgLength"],
    )


def _cd_error(field: str, value: object) -> MQError:
    return mq_error(rc.MQRC_CD_ERROR, f"CD.{field} is {value}")


def _text(structure: MQOpts, field: str) -> str:
    return text_of(structure[field]).rstrip(" \0")

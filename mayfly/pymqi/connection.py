"""Connection of pymqi: QueueManager with its unit of work and MQPUT1, and the options to connect.

An MQCD, an MQSCO and MQCNO options describe a client connection.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, overload
from weakref import WeakMethod

from mayfly.client import connection
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Endpoint, Reconnect, Tls, addresses_of
from mayfly.client.connection.reconnection import Attempts
from mayfly.client.connection.routes import Binding, ConnectOptions
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Field, Layout, byte, char, number
from mayfly.pymqi import CMQC
from mayfly.pymqi.consumers import CBD, CTLO, MessageConsumers
from mayfly.pymqi.errors import MQMIError, PYIFError, raises_mqmi
from mayfly.pymqi.structures import GMO, MD, OD, STS, MQOpts
from mayfly.pymqi.verbs import (
    DEFINITIONS,
    body_and_options,
    od_of,
    open_object,
    padded_attribute,
    padded_name,
    put_message,
    text_of,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.facts import Status

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
    """Return the layout of MQCD or MQSCO; its errors are MQRC_CHANNEL_CONFIG_ERROR."""
    length = sum(field.length for field in fields)
    return Layout(name, fields, versions={1: length}, reason=rc.MQRC_CHANNEL_CONFIG_ERROR)


class CD(MQOpts, layout=_layout("MQCD", _CD_FIELDS)):
    """The channel definition, MQCD, with the fields that a client sets."""


class SCO(MQOpts, layout=_layout("MQSCO", _SCO_FIELDS)):
    """The TLS configuration, MQSCO."""


#: Names and keys may be longer than the fields of C, which point to them.
_TEXT_BYTES = 1_024
_TOKEN_BYTES = 8_192


class CSP(
    MQOpts,
    fields=[
        char("StrucId", 4, "CSP "),
        number("Version", CMQC.MQCSP_VERSION_1),
        number("AuthenticationType", CMQC.MQCSP_AUTH_NONE),
        char("CSPUserId", _TEXT_BYTES),
        char("CSPPassword", _TEXT_BYTES),
        char("InitialKey", _TEXT_BYTES),
        char("Token", _TOKEN_BYTES),
    ],
):
    """User and password, MQCSP; texts are in the structure itself, not behind a pointer."""


class CNO(
    MQOpts,
    fields=[
        char("StrucId", 4, "CNO "),
        number("Version", CMQC.MQCNO_VERSION_5),
        number("Options", CMQC.MQCNO_NONE),
        byte("ConnTag", 128),
        byte("ConnectionId", 24),
        char("CCDTUrl", _TEXT_BYTES),
        char("ApplName", 28),
    ],
):
    """The options to connect, MQCNO; texts are in the structure itself, not behind a pointer."""


class BNO(
    MQOpts,
    fields=[
        char("StrucId", 4, "BNO "),
        number("Version", CMQC.MQBNO_VERSION_1),
        number("ApplType", CMQC.MQBNO_BALTYPE_SIMPLE),
        number("Timeout", CMQC.MQBNO_TIMEOUT_AS_DEFAULT),
        number("Options", CMQC.MQBNO_OPTIONS_NONE),
    ],
):
    """How a cluster may move a connection, MQBNO: without effect, there are no clusters."""


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


def wanted_of(cd: CD | None, sco: SCO | None, options: int, table_url: str = "") -> ConnectOptions:
    """Return the connection options for an MQCD, an MQSCO and MQCNO options.

    ``table_url`` is that of a channel table, which replaces MQCCDTURL unless empty.
    A CD with neither channel name nor connection name counts as None. Raises MQRC_OPTIONS_ERROR for
    unknown or contradictory options. Raises MQRC_CD_ERROR for a CD that is not a client's over TCP,
    MQRC_CLIENT_EXIT_LOAD_ERROR for one with exits, and MQRC_HOST_NOT_AVAILABLE for a wrong
    ConnectionName. FipsRequired in the SCO raises MQRC_SSL_INITIALIZATION_ERROR.
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
        repository, label = text_of(sco["KeyRepository"]), text_of(sco["CertificateLabel"])
        if sco["FipsRequired"]:
            text = "SCO.FipsRequired: no cryptography here is certified"
            raise mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, text)
    if cd is None or not (text_of(cd["ChannelName"]) or text_of(cd["ConnectionName"])):
        return ConnectOptions(
            None, repository, label, binding, reconnect, table_url, may_reconnect=True
        )
    label = text_of(cd["CertificateLabel"]) or label
    default = cd["DefReconnect"]
    if not 0 <= default < len(_DEFAULT_RECONNECTS):
        raise _cd_error("DefReconnect", default)
    reconnect = reconnect or _DEFAULT_RECONNECTS[default]
    endpoint = _endpoint_of(cd)
    return ConnectOptions(endpoint, repository, label, binding, reconnect, may_reconnect=True)


def _endpoint_of(cd: CD) -> Endpoint:
    """Return the addresses, channel and TLS settings of an MQCD.

    Raises MQRC_CD_ERROR for a CD that is not a client's over TCP, MQRC_CLIENT_EXIT_LOAD_ERROR for
    one with exits, and MQRC_HOST_NOT_AVAILABLE for a wrong ConnectionName.
    """
    for exit_name in _EXITS:
        if given := text_of(cd[exit_name]):
            text = f"CD.{exit_name} {given!r}: exits are programs for IBM's client"
            raise mq_error(rc.MQRC_CLIENT_EXIT_LOAD_ERROR, text)
    channel = text_of(cd["ChannelName"])
    if not channel:
        raise _cd_error("ChannelName", "''")
    if cd["ChannelType"] != _MQCHT_CLNTCONN:
        raise _cd_error("ChannelType", cd["ChannelType"])
    if cd["TransportType"] != _MQXPT_TCP:
        raise _cd_error("TransportType", cd["TransportType"])
    cipher = text_of(cd["SSLCipherSpec"])
    return Endpoint(
        addresses_of(text_of(cd["ConnectionName"])),
        channel,
        tls=Tls(cipher, peer_name=text_of(cd["SSLPeerName"])) if cipher else None,
        heartbeat_s=cd["HeartbeatInterval"],
        share_conversations=cd["SharingConversations"],
        max_message_bytes=cd["MaxMsgLength"],
    )


def _cd_error(field: str, value: object) -> MQError:
    """Return (not raise) MQRC_CD_ERROR for a wrong field of an MQCD."""
    return mq_error(rc.MQRC_CD_ERROR, f"CD.{field} is {value}")


DEFAULT_ENCODING = "utf8"
DEFAULT_CCSID = 1208
_PUT1_OPEN = {
    c.MQPMO_SET_ALL_CONTEXT: c.MQOO_SET_ALL_CONTEXT,
    c.MQPMO_SET_IDENTITY_CONTEXT: c.MQOO_SET_IDENTITY_CONTEXT,
    c.MQPMO_PASS_ALL_CONTEXT: c.MQOO_PASS_ALL_CONTEXT,
    c.MQPMO_PASS_IDENTITY_CONTEXT: c.MQOO_PASS_IDENTITY_CONTEXT,
}


#: MQHCONN of the next connection; 0 and -1 have meanings of their own.
_numbers = count(1)


class QueueManager:
    """A connection to a queue manager; with the name ``None`` it is not connected yet.

    ``bytes_encoding`` and ``default_ccsid`` encode a ``str`` body. Disconnecting commits; so does
    garbage collection, unless ``disconnect_on_exit`` is False.
    """

    _mq: Connection | None = None
    _number: int = 0
    _consumers: MessageConsumers | None = None
    _disconnect_on_exit = True

    def __init__(
        self,
        name: str | bytes | None = "",
        disconnect_on_exit: bool = True,
        bytes_encoding: str = DEFAULT_ENCODING,
        default_ccsid: int = DEFAULT_CCSID,
    ) -> None:
        """Connect to a queue manager by name; ``None`` connects later, by :meth:`connect`.

        A blank name is the only queue manager open in this process. ``disconnect_on_exit`` lets
        garbage collection disconnect, which commits. ``bytes_encoding`` is the codec of a body that
        is a ``str``, ``default_ccsid`` the CCSID set in its MD. Raises the errors of
        :meth:`connect`.
        """
        self._disconnect_on_exit = disconnect_on_exit
        self.bytes_encoding = bytes_encoding
        self.default_ccsid = default_ccsid
        if name is not None:
            self.connect(name)

    def connect(self, name: str | bytes) -> None:
        """Connect (MQCONN) by MQSERVER or a channel table, or on this machine (docs/CLIENTS.md).

        An earlier connection is disconnected then. Raises MQMIError with MQRC_Q_MGR_NAME_ERROR,
        MQRC_Q_MGR_NOT_AVAILABLE, and the reason codes of ``connect_with_options``.
        """
        self.connect_with_options(name)

    @raises_mqmi
    def connect_with_options(self, name: str | bytes, *args: Any, **kwargs: Any) -> None:
        """Connect (MQCONNX) with ``opts`` (MQCNO options), ``cd``, ``sco``, ``user``, ``password``.

        ``cd`` and ``sco`` may be positional. ``cno`` has options, a URL of a channel table and the
        name of the program; its options count beside ``opts``. ``csp`` has user and password where
        its AuthenticationType says so; ``bno`` is without effect. On this machine a user is not
        authenticated. An earlier connection is disconnected after success. Raises TypeError for
        other arguments, and MQMIError with MQRC_HOST_NOT_AVAILABLE, MQRC_UNKNOWN_CHANNEL_NAME,
        MQRC_CHANNEL_NOT_AVAILABLE, MQRC_NOT_AUTHORIZED, MQRC_SSL_INITIALIZATION_ERROR,
        MQRC_KEY_REPOSITORY_ERROR, MQRC_CD_ERROR, MQRC_CSP_ERROR, MQRC_CLIENT_EXIT_LOAD_ERROR or
        MQRC_OPTIONS_ERROR.
        """
        if len(args) > 2:
            raise TypeError(f"cd and sco may follow the name, not {len(args)} arguments")
        given = dict(zip(("cd", "sco"), args, strict=False)) | kwargs
        unknown = given.keys() - {"opts", "cd", "sco", "user", "password", "csp", "cno", "bno"}
        if unknown:
            raise TypeError(f"connect_with_options does not take {', '.join(sorted(unknown))}")
        cd, cno = given.get("cd"), given.get("cno") or CNO()
        user, password = given.get("user"), given.get("password")
        if user is None and given.get("csp") is not None:
            user, password = _credentials_of(given["csp"])
        if cd is not None:
            user, password = user or cd.UserIdentifier, password or text_of(cd.Password)
        options = (given.get("opts") or CMQC.MQCNO_NONE) | cno.Options
        wanted = wanted_of(cd, given.get("sco"), options, text_of(cno.CCDTUrl))
        # Weak: a connection that the program drops ends at once.
        reports = WeakMethod(self._report)

        def on_change(change: MQError) -> None:
            report = reports()
            if report is not None:
                report(change)

        mq = connection.connect(
            text_of(name or ""),
            text_of(user or "") or None,
            password=password.decode() if isinstance(password, bytes) else password,
            program=text_of(cno.ApplName) or _program(),
            wanted=wanted._replace(attempts=Attempts(on_change)),
        )
        if self._mq is not None:
            self.disconnect()
        self._mq, self._number = mq, next(_numbers)

    def connect_tcp_client(
        self,
        name: str | bytes,
        cd: CD,
        channel: str | bytes,
        conn_name: str | bytes,
        user: str | bytes | None = None,
        password: str | bytes | None = None,
        **options: Any,
    ) -> None:
        """Connect by a channel name and a connection name: ``host(port)``, or a list of these.

        Sets both names in ``cd``. ``user`` and ``password`` None connect without a password.
        ``options`` are those of :meth:`connect_with_options`, as ``csp`` and ``sco``. An earlier
        connection is disconnected after success. Raises the errors of
        :meth:`connect_with_options`.
        """
        cd.ChannelName = channel
        cd.ConnectionName = conn_name
        self.connect_with_options(name, cd=cd, user=user, password=password, **options)

    @raises_mqmi
    def disconnect(self) -> None:
        """Commit, close all queues and disconnect (MQDISC).

        Raises PYIFError when not connected, MQMIError if the commit fails; the object is not
        connected then.
        """
        mq, self._mq = self._mq, None
        if mq is None:
            raise PYIFError("not connected")
        consumers, self._consumers = self._consumers, None
        if consumers is not None:
            consumers.stop()
        mq.close()

    def get_handle(self) -> int:
        """Return the number of the connection (MQHCONN); no other one of this process has it.

        Raises PYIFError when not connected, and MQMIError with MQRC_CONNECTION_BROKEN when the
        queue manager is gone.
        """
        self.connection()
        return self._number

    def connection(self) -> Connection:
        """Return the Mayfly connection behind this object.

        Raises PYIFError when not connected, and MQMIError with MQRC_CONNECTION_BROKEN when the
        queue manager is gone.
        """
        if self._mq is None:
            raise PYIFError("not connected")
        if self._mq.is_broken:
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_CONNECTION_BROKEN)
        return self._mq

    def get_name(self) -> str:
        """Return the name of the connected queue manager; raises PYIFError when not connected."""
        if self._mq is None:
            raise PYIFError("not connected")
        return self._mq.name

    @property
    def is_connected(self) -> bool:
        """True if connected, and the connection is not broken."""
        return self._mq is not None and self._mq.is_open and not self._mq.is_broken

    def end_dropped(self, end: Callable[[], None], handle: int = c.MQHO_NONE) -> None:
        """Run ``end``, which closes an object that Python has garbage-collected.

        It runs now or, while a verb is running, before the next verb. Does nothing if the
        connection is closed or broken, or if ``handle`` is not open any more; MQHO_NONE is not
        checked.
        """
        mq = self._mq
        if mq is None or not self.is_connected:
            return
        if handle == c.MQHO_NONE or mq.has_open(handle):
            mq.end_dropped(end)

    def begin(self) -> None:
        """Raise MQMIError with MQRC_ENVIRONMENT_ERROR: MQBEGIN needs global units of work.

        Raises PYIFError when not connected.
        """
        self.connection()
        raise MQMIError(c.MQCC_FAILED, rc.MQRC_ENVIRONMENT_ERROR)

    @raises_mqmi
    def commit(self) -> None:
        """Commit (MQCMIT): puts of the unit of work become visible, its gets are final.

        Raises PYIFError when not connected, MQMIError if the commit fails.
        """
        self.connection().call(ask.Commit())

    @raises_mqmi
    def backout(self) -> None:
        """Back out (MQBACK): puts of the unit of work vanish, its gets return to their queues.

        The backout counts of the messages got rise. Raises PYIFError when not connected.
        """
        self.connection().call(ask.Backout())

    def put1(self, qDesc: str | bytes | OD, msg: str | bytes, *opts: Any) -> None:
        """Put one message (MQPUT1); ``opts`` are an MD and a PMO, updated in place.

        ``qDesc`` is a queue name, or an OD of a queue or topic. Raises MQMIError, also for a
        warning: the message is then put. Raises TypeError for other arguments, PYIFError when not
        connected.
        """
        mq = self.connection()
        body, md, pmo = body_and_options(msg, opts, self.bytes_encoding, self.default_ccsid)
        open_options = c.MQOO_OUTPUT
        for put_option, open_option in _PUT1_OPEN.items():
            if pmo.Options & put_option:
                open_options |= open_option
        od = od_of(qDesc)
        if od.ObjectType in DEFINITIONS:
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_OBJECT_TYPE_ERROR)
        opened = open_object(mq, od, open_options)
        try:
            put_message(mq, opened, body, md, pmo)
        finally:
            with contextlib.suppress(MQError):
                mq.call(ask.CloseObject(opened.handle))

    @overload
    def inquire(self, attribute: int) -> int | bytes: ...
    @overload
    def inquire(self, attribute: list[int]) -> dict[int, int | bytes]: ...
    @raises_mqmi
    def inquire(self, attribute: int | list[int]) -> int | bytes | dict[int, int | bytes]:
        """Return a queue manager attribute (MQINQ): a number, or text padded with blanks.

        For a list it returns several by their numbers, as in ibmmq. Raises MQMIError, with
        MQRC_SELECTOR_ERROR for an unknown attribute, and PYIFError when not connected.
        """
        wanted = attribute if isinstance(attribute, list) else [attribute]
        values = self.connection().call(ask.Inquire(c.MQHO_NONE, wanted)).values
        found = {}
        for each, value in zip(wanted, values, strict=True):
            assert value is not None
            found[each] = padded_attribute(each, value)
        return found if isinstance(attribute, list) else found[attribute]

    inq = inquire

    def consumers(self) -> MessageConsumers:
        """Return the callbacks of this connection; raises PYIFError when not connected."""
        mq = self.connection()
        if self._consumers is None:
            self._consumers = MessageConsumers(self, mq)
        return self._consumers

    def _report(self, change: MQError) -> None:
        """Tell the event handler that the connection is being replaced, or has been (2544, 2545).

        Another thread calls it.
        """
        if self._consumers is not None:
            self._consumers.report(change)

    @raises_mqmi
    def cb(self, *, operation: int = CMQC.MQOP_REGISTER, cbd: CBD | None = None) -> None:
        """Register a callback for events of the connection, or end it (MQCB); as in ibmmq.

        It is called when the connection is lost, and when it reconnects. Raises MQMIError with the
        reason codes of ``MessageConsumers.operate``, PYIFError when not connected.
        """
        consumers = self.consumers()
        consumers.operate(operation, None, c.MQHO_NONE, cbd or CBD(), MD(), GMO())

    @raises_mqmi
    def ctl(self, operation: int, ctlo: CTLO | None = None) -> None:
        """Start or stop the callbacks of the connection (MQCTL), as in ibmmq.

        Raises MQMIError with MQRC_OPERATION_ERROR, PYIFError when not connected.
        """
        self.consumers().control(operation, ctlo or CTLO())

    @raises_mqmi
    def stat(self, status_type: int) -> STS:
        """Return the results of asynchronous puts since the last call (MQSTAT, as in ibmmq).

        Raises MQMIError with MQRC_STAT_TYPE_ERROR for an unknown type, MQRC_ENVIRONMENT_ERROR for
        the types that report the reconnection of clients. Raises PYIFError when not connected.
        """
        mq = self.connection()
        if status_type in (c.MQSTAT_TYPE_RECONNECTION, c.MQSTAT_TYPE_RECONNECTION_ERROR):
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_ENVIRONMENT_ERROR)
        if status_type != c.MQSTAT_TYPE_ASYNC_ERROR:
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_STAT_TYPE_ERROR)
        return _sts_of(mq.call(ask.AskStatus()), mq.name)

    connectWithOptions = connect_with_options
    connectTCPClient = connect_tcp_client
    getHandle = get_handle

    def __del__(self) -> None:
        if self._mq is not None and self._disconnect_on_exit:
            self._mq.end_dropped(self._disconnect_quietly)

    def _disconnect_quietly(self) -> None:
        """Disconnect, for garbage collection; errors are ignored."""
        with contextlib.suppress(MQMIError, PYIFError):
            self.disconnect()


def connect(
    queue_manager: str | bytes,
    channel: str | bytes | None = None,
    conn_info: str | bytes | None = None,
    user: str | bytes | None = None,
    password: str | bytes | None = None,
    disconnect_on_exit: bool = True,
    bytes_encoding: str = DEFAULT_ENCODING,
    default_ccsid: int = DEFAULT_CCSID,
    cd: CD | None = None,
    **options: Any,
) -> QueueManager:
    """Return a new connection to a queue manager: by a channel and host, else by its name.

    ``conn_info`` is ``host(port)``, or a list of these. ``user`` and ``password`` are optional.
    ``disconnect_on_exit`` lets garbage collection disconnect, which commits. ``bytes_encoding`` is
    the codec of a body that is a ``str``, ``default_ccsid`` the CCSID set in its MD. ``cd`` and
    ``options`` (``cno``, ``csp``, ``sco``) are those of ``connect_with_options``, whose errors are
    raised, and TypeError for a channel without a host or a host without a channel.
    """
    if (channel is None) != (conn_info is None):
        raise TypeError("channel and conn_info go together")
    made = QueueManager(None, disconnect_on_exit, bytes_encoding, default_ccsid)
    if channel is None or conn_info is None:
        made.connect_with_options(queue_manager, cd=cd, user=user, password=password, **options)
    else:
        made.connect_tcp_client(
            queue_manager, cd or CD(), channel, conn_info, user, password, **options
        )
    return made


def _credentials_of(csp: CSP) -> tuple[str | None, str | None]:
    """Return user and password of an MQCSP, None without a user.

    As in ibmmq, a user in it counts with MQCSP_AUTH_NONE too. Raises MQRC_CSP_ERROR for another way
    of authentication, as by a token.
    """
    if not csp.CSPUserId and csp.AuthenticationType == CMQC.MQCSP_AUTH_NONE:
        return None, None
    if csp.AuthenticationType not in (
        CMQC.MQCSP_AUTH_NONE,
        CMQC.MQCSP_AUTH_USER_ID_AND_PWD,
    ):
        text = f"CSP.AuthenticationType {csp.AuthenticationType}: users have passwords here"
        raise mq_error(CMQC.MQRC_CSP_ERROR, text)
    return text_of(csp.CSPUserId), text_of(csp.CSPPassword)


def _sts_of(status: Status, manager_name: str) -> STS:
    """Return an MQSTS structure with the status of asynchronous puts.

    ``manager_name`` is the connected queue manager.
    """
    return STS(
        CompCode=status.comp,
        Reason=status.reason,
        PutSuccessCount=status.success_count,
        PutWarningCount=status.warning_count,
        PutFailureCount=status.failure_count,
        ObjectType=status.object_type,
        ObjectName=padded_name(status.object_name),
        ObjectQMgrName=padded_name(manager_name if status.object_name else ""),
        ResolvedObjectName=padded_name(status.queue),
        ResolvedQMgrName=padded_name(status.manager),
    )


def _program() -> str:
    """Return the file name of the running program, ``python`` without one."""
    return Path(sys.argv[0]).name or "python"

"""pymqi's QueueManager: a connection, its unit of work, and the puts that need no queue opened."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mayfly.client import connection
from mayfly.client.connection import Connection
from mayfly.engine import text_length
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.pymqi import CMQC
from mayfly.pymqi.connection_options import CD, wanted_of
from mayfly.pymqi.errors import MQMIError, PYIFError, mqmi_error
from mayfly.pymqi.opening import DEFINITIONS, body_and_options, od_of, open_object, text_of
from mayfly.pymqi.structures import OD, STS
from mayfly.pymqi.verbs import padded_name, put_message
from mayfly.verbs.facts import Status

DEFAULT_ENCODING = "utf8"
DEFAULT_CCSID = 1208
_PUT1_OPEN = {
    c.MQPMO_SET_ALL_CONTEXT: c.MQOO_SET_ALL_CONTEXT,
    c.MQPMO_SET_IDENTITY_CONTEXT: c.MQOO_SET_IDENTITY_CONTEXT,
    c.MQPMO_PASS_ALL_CONTEXT: c.MQOO_PASS_ALL_CONTEXT,
    c.MQPMO_PASS_IDENTITY_CONTEXT: c.MQOO_PASS_IDENTITY_CONTEXT,
}


class QueueManager:
    """A connection to a queue manager; ``None`` as its name connects later.

    ``bytes_encoding`` and ``default_ccsid`` are how a ``str`` body is sent. Disconnecting commits;
    so does losing the last reference, unless ``disconnect_on_exit`` is False.
    """

    _mq: Connection | None = None
    _disconnect_on_exit = True

    def __init__(
        self,
        name: str | bytes | None = "",
        disconnect_on_exit: bool = True,
        bytes_encoding: str = DEFAULT_ENCODING,
        default_ccsid: int = DEFAULT_CCSID,
    ) -> None:
        """Connect to a queue manager by name; blank is the only one open in this process."""
        self._disconnect_on_exit = disconnect_on_exit
        self.bytes_encoding = bytes_encoding
        self.default_ccsid = default_ccsid
        if name is not None:
            self.connect(name)

    def connect(self, name: str | bytes) -> None:
        """MQCONN: by MQSERVER or a channel table, or on this machine (docs/CLIENTS.md).

        Raises MQRC_Q_MGR_NAME_ERROR, MQRC_Q_MGR_NOT_AVAILABLE and as ``connect_with_options``.
        """
        self.connect_with_options(name)

    def connect_with_options(self, name: str | bytes, *args: Any, **kwargs: Any) -> None:
        """MQCONNX with ``opts`` (MQCNO options), ``cd``, ``sco``, ``user`` and ``password``.

        ``cd`` and ``sco`` may follow the name. On this machine a user is taken at its word. Raises
        MQRC_HOST_NOT_AVAILABLE, MQRC_UNKNOWN_CHANNEL_NAME, MQRC_CHANNEL_NOT_AVAILABLE,
        MQRC_NOT_AUTHORIZED, MQRC_SSL_INITIALIZATION_ERROR, MQRC_KEY_REPOSITORY_ERROR,
        MQRC_CD_ERROR, MQRC_CLIENT_EXIT_LOAD_ERROR, MQRC_OPTIONS_ERROR.
        """
        if len(args) > 2:
            raise TypeError(f"cd and sco may follow the name, not {len(args)} arguments")
        given = dict(zip(("cd", "sco"), args, strict=False)) | kwargs
        unknown = given.keys() - {"opts", "cd", "sco", "user", "password"}
        if unknown:
            raise TypeError(f"connect_with_options does not take {', '.join(sorted(unknown))}")
        cd = given.get("cd")
        user, password = given.get("user"), given.get("password")
        if cd is not None:
            user, password = user or cd.UserIdentifier, password or text_of(cd.Password)
        try:
            mq = connection.connect(
                _plain(name),
                _plain(user) or None,
                password=password.decode() if isinstance(password, bytes) else password,
                program=_program(),
                wanted=wanted_of(cd, given.get("sco"), given.get("opts") or CMQC.MQCNO_NONE),
            )
        except MQError as error:
            raise mqmi_error(error) from error
        if self._mq is not None:
            self.disconnect()
        self._mq = mq

    def connect_tcp_client(
        self,
        name: str | bytes,
        cd: CD,
        channel: str | bytes,
        conn_name: str | bytes,
        user: str | bytes | None = None,
        password: str | bytes | None = None,
    ) -> None:
        """Connect by channel and ``host(port)``, or a list of hosts; ``cd`` is filled in."""
        cd.ChannelName = channel
        cd.ConnectionName = conn_name
        self.connect_with_options(name, cd=cd, user=user, password=password)

    def disconnect(self) -> None:
        """MQDISC: commit, close all queues, disconnect; raises PYIFError when not connected."""
        mq, self._mq = self._mq, None
        if mq is None:
            raise PYIFError("not connected")
        try:
            mq.close()
        except MQError as error:
            raise mqmi_error(error) from error

    def get_handle(self) -> Connection:
        """Return the connection itself.

        Raises PYIFError when not connected, MQRC_CONNECTION_BROKEN once the queue manager is gone.
        """
        if self._mq is None:
            raise PYIFError("not connected")
        if self._mq.is_broken:
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_CONNECTION_BROKEN)
        return self._mq

    def get_name(self) -> str:
        """Return the name of the queue manager connected to; PYIFError when not connected."""
        if self._mq is None:
            raise PYIFError("not connected")
        return self._mq.name

    @property
    def is_connected(self) -> bool:
        """Whether the connection can be used."""
        return self._mq is not None and self._mq.is_open and not self._mq.is_broken

    def end_dropped(self, end: Callable[[], None], handle: int = c.MQHO_NONE) -> None:
        """Run what closes a dropped object, unless its handle was closed or all of them are."""
        mq = self._mq
        if mq is None or not self.is_connected:
            return
        if handle == c.MQHO_NONE or mq.has_open(handle):
            mq.end_dropped(end)

    def begin(self) -> None:
        """MQBEGIN: there are no global units of work, MQRC_ENVIRONMENT_ERROR."""
        self.get_handle()
        raise MQMIError(c.MQCC_FAILED, rc.MQRC_ENVIRONMENT_ERROR)

    def commit(self) -> None:
        """MQCMIT: make the puts of the unit of work visible and its gets final (G9)."""
        try:
            self.get_handle().commit()
        except MQError as error:
            raise mqmi_error(error) from error

    def backout(self) -> None:
        """MQBACK: drop the puts of the unit of work and give its gets back (G8)."""
        try:
            self.get_handle().backout()
        except MQError as error:
            raise mqmi_error(error) from error

    def put1(self, qDesc: str | bytes | OD, msg: str | bytes, *opts: Any) -> None:
        """MQPUT1: open, put and close (P11); ``opts`` are an MD and a PMO, updated in place."""
        mq = self.get_handle()
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
                mq.close_object(opened.handle)

    def inquire(self, attribute: int) -> int | bytes:
        """MQINQ on the queue manager: a number, or text blank padded to its length."""
        try:
            (value,) = self.get_handle().objects.inquire(c.MQHO_NONE, [attribute]).values
        except MQError as error:
            raise mqmi_error(error) from error
        assert value is not None
        return value if isinstance(value, int) else value.encode().ljust(text_length(attribute))

    def stat(self, status_type: int) -> STS:
        """MQSTAT, as ibmmq has it: the outcome of puts with MQPMO_ASYNC_RESPONSE since the last.

        Raises MQMIError MQRC_STAT_TYPE_ERROR, and MQRC_ENVIRONMENT_ERROR for the types that tell of
        the reconnection of clients.
        """
        mq = self.get_handle()
        if status_type in (c.MQSTAT_TYPE_RECONNECTION, c.MQSTAT_TYPE_RECONNECTION_ERROR):
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_ENVIRONMENT_ERROR)
        if status_type != c.MQSTAT_TYPE_ASYNC_ERROR:
            raise MQMIError(c.MQCC_FAILED, rc.MQRC_STAT_TYPE_ERROR)
        try:
            return _sts_of(mq.status(), mq.name)
        except MQError as error:
            raise mqmi_error(error) from error

    connectWithOptions = connect_with_options
    connectTCPClient = connect_tcp_client
    getHandle = get_handle

    def __del__(self) -> None:
        """Disconnect quietly."""
        if self._mq is not None and self._disconnect_on_exit:
            self._mq.end_dropped(self._disconnect_quietly)

    def _disconnect_quietly(self) -> None:
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
) -> QueueManager:
    """Return a connection to a queue manager: over a network by a channel, else by its name.

    Raises as ``QueueManager.connect_with_options``; TypeError for a channel without a host or a
    host without a channel.
    """
    if (channel is None) != (conn_info is None):
        raise TypeError("channel and conn_info go together")
    made = QueueManager(None, disconnect_on_exit, bytes_encoding, default_ccsid)
    if channel is None or conn_info is None:
        made.connect_with_options(queue_manager, user=user, password=password)
    else:
        made.connect_tcp_client(queue_manager, CD(), channel, conn_info, user, password)
    return made


def _sts_of(status: Status, manager_name: str) -> STS:
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


def _plain(text: str | bytes | None) -> str:
    return text_of(text or "").rstrip(" \0")


def _program() -> str:
    return Path(sys.argv[0]).name or "python"

"""The connections of C programs: MQCONNX, handles, who may use them, callbacks, entry points.

MQCNO, MQCD, MQSCO and MQCSP say how to connect. A callback in C gets its message in structures of
C; while the callbacks of a connection run, only they call verbs of the connection. A function
becomes an entry point when its errors are codes and its connection may be used.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, addressof, c_int32, c_void_p, create_string_buffer, string_at
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias

from mayfly.client import connection
from mayfly.client.connection import Connection
from mayfly.client.connection.reconnection import Attempts
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi import CMQC
from mayfly.pymqi.connection import CD as ChannelDefinition
from mayfly.pymqi.connection import SCO as TlsOptions
from mayfly.pymqi.connection import wanted_of
from mayfly.pymqi.consumers import Call, ConnectionCallbacks, RegisteredCallback
from mayfly.pymqi.errors import MQMIError
from mayfly.pymqi.libmqm.memory import CBC, CD, CNO, CSP, SCO, packed
from mayfly.pymqi.structures import GMO, MD
from mayfly.verbs.requests import Opened, Subscribed

#: An object that a program has open under a handle.
OpenObject: TypeAlias = Opened | Subscribed


class ConnectionHandle:
    """A connection of a C program: its objects by handle, and the rule of its threads.

    ``share`` is MQCNO_HANDLE_SHARE_NONE: the thread that connected alone may use it; BLOCK: a
    thread waits for the verb of another; NO_BLOCK: it gets MQRC_CALL_IN_PROGRESS.
    """

    def __init__(self, connection: Connection, share: int) -> None:
        """Take a connection that the calling thread has made."""
        self.connection = connection
        self.callbacks: Callbacks | None = None
        self._share = share
        self._process, self._thread = os.getpid(), connection.runtime.thread_id()
        self._lock = connection.runtime.lock("libmqm")
        self._user = 0
        self._numbers = count(1)
        self._objects: dict[int, OpenObject] = {}

    def enter(self, *, asynchronous: bool = False) -> bool:
        """Begin a verb of the calling thread; False for a verb of a callback within another.

        ``asynchronous`` verbs may be called while callbacks run. Raises MQRC_CONNECTION_BROKEN in
        a forked child, MQRC_HCONN_ERROR in a thread that may not use the connection,
        MQRC_CALL_IN_PROGRESS, and MQRC_HCONN_ASYNC_ACTIVE while callbacks run.
        """
        if os.getpid() != self._process:
            raise mq_error(rc.MQRC_CONNECTION_BROKEN, "a forked child has no connections")
        thread = self.connection.runtime.thread_id()
        if self.callbacks is not None and self.callbacks.is_running:
            if self.callbacks.thread == thread:
                return False
            if not asynchronous:
                raise mq_error(CMQC.MQRC_HCONN_ASYNC_ACTIVE, "callbacks run on the connection")
        if asynchronous:
            return False
        if self._share == CMQC.MQCNO_HANDLE_SHARE_NONE and thread != self._thread:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the connection is that of another thread")
        if not self._lock.acquire(blocking=self._share != CMQC.MQCNO_HANDLE_SHARE_NO_BLOCK):
            raise mq_error(CMQC.MQRC_CALL_IN_PROGRESS, "another thread uses the connection")
        return True

    def leave(self) -> None:
        """End the verb that :meth:`enter` has begun with True."""
        self._lock.release()

    def report(self, change: MQError) -> None:
        """Tell the event handler that the connection is being replaced, or has been (2544, 2545).

        Any thread may call it; without a handler, or while no callbacks run, nothing happens.
        """
        if self.callbacks is not None:
            self.callbacks.report(change)

    def add(self, opened: OpenObject) -> int:
        """Return the new handle of an object that the program has opened."""
        handle = next(self._numbers)
        self._objects[handle] = opened
        return handle

    def remove(self, handle: int) -> None:
        """Forget a handle; nothing for an unknown one."""
        self._objects.pop(handle, None)

    def opened(self, handle: int) -> Opened:
        """Return the object under a handle; MQRC_HOBJ_ERROR for another or a subscription."""
        found = self._objects.get(handle)
        if not isinstance(found, Opened):
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"Hobj {handle}")
        return found

    def subscribed(self, handle: int) -> Subscribed:
        """Return the subscription under a handle; MQRC_HOBJ_ERROR for another or an object."""
        found = self._objects.get(handle)
        if not isinstance(found, Subscribed):
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"Hsub {handle}")
        return found

    def object(self, handle: int) -> OpenObject:
        """Return what is open under a handle; raises MQRC_HOBJ_ERROR."""
        found = self._objects.get(handle)
        if found is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"Hobj {handle}")
        return found

    def subscription_named(self, name: str) -> Subscribed | None:
        """Return the open subscription of a name, None without one or for an empty name."""
        for found in self._objects.values():
            if name and isinstance(found, Subscribed) and found.facts.name == name:
                return found
        return None

    def handle_of(self, number: int) -> int:
        """Return the handle of the object that the connection knows by a number; 0 without."""
        for handle, found in self._objects.items():
            if isinstance(found, Opened) and found.handle == number:
                return handle
        return c.MQHO_NONE


_numbers = count(1)
_handles: dict[int, ConnectionHandle] = {}


def add(made: ConnectionHandle) -> int:
    """Return the new handle (MQHCONN) of a connection; no other one of this process has it."""
    number = next(_numbers)
    _handles[number] = made
    return number


def connection_of(number: int) -> ConnectionHandle:
    """Return the connection with a handle; raises MQRC_HCONN_ERROR for an unknown one."""
    found = _handles.get(number)
    if found is None:
        raise mq_error(rc.MQRC_HCONN_ERROR, f"Hconn {number}")
    return found


def remove(number: int) -> None:
    """Forget a handle."""
    _handles.pop(number, None)


#: void callback(MQHCONN, MQMD *, MQGMO *, void *buffer, MQCBC *).
_FUNCTION: Final = CFUNCTYPE(None, c_int32, c_void_p, c_void_p, c_void_p, c_void_p)
#: The callbacks of a connection of a C program.
Callbacks: TypeAlias = ConnectionCallbacks[RegisteredCallback]


def callbacks_of(connection: Connection, hconn: int) -> Callbacks:
    """Return the callbacks of a new connection: none, stopped; ``hconn`` is handed to each."""
    return ConnectionCallbacks(connection, partial(_call, hconn))


def c_callback(
    hobj: int, handle: int, description: dict[str, Any], md: MD, gmo: GMO
) -> RegisteredCallback:
    """Return the callback that the fields of an MQCBD describe, for an object of the program.

    ``hobj`` is the handle that the program knows, ``handle`` that of the connection, MQHO_NONE for
    events. ``md`` and ``gmo`` choose messages.
    """
    return RegisteredCallback(
        hobj,
        handle,
        _FUNCTION(description["CallbackFunction"]),
        area=description["CallbackArea"],
        options=description["Options"],
        max_length=description["MaxMsgLength"],
        md=md,
        gmo=gmo,
    )


def _call(hconn: int, consumer: RegisteredCallback, call: Call) -> None:
    """Call a function of the program; its arguments stay in memory until it returns."""
    cbc = create_string_buffer(
        CBC.pack(
            CallType=call.call_type,
            Hobj=consumer.hobj,
            CallbackArea=consumer.area or 0,
            ConnectionArea=call.area or 0,
            CompCode=call.comp,
            Reason=call.reason,
            DataLength=call.data_length,
            BufferLength=len(call.body or b""),
        )
    )
    data = None if call.body is None else create_string_buffer(call.body, len(call.body) + 1)
    md, gmo = (create_string_buffer(packed(each)) for each in (call.md, call.gmo))
    consumer.function(
        hconn,
        addressof(md),
        addressof(gmo),
        None if data is None else addressof(data),
        addressof(cbc),
    )


_SHARES = (
    CMQC.MQCNO_HANDLE_SHARE_NONE | CMQC.MQCNO_HANDLE_SHARE_BLOCK | CMQC.MQCNO_HANDLE_SHARE_NO_BLOCK
)


def connect(name: str, options_address: int) -> ConnectionHandle:
    """Connect to a queue manager as the MQCNO at an address says; 0 is none, as MQCONN has.

    Raises MQRC_CNO_ERROR, MQRC_CD_ERROR, MQRC_SCO_ERROR, MQRC_CSP_ERROR for structures that are
    wrong, and the errors of ``connection.connect``.
    """
    cno = CNO.read(options_address) if options_address else CNO.initial()
    options = cno["Options"]
    cd = _pointed_to(cno, "ClientConn", options_address)
    sco = _pointed_to(cno, "SSLConfig", options_address)
    csp = _pointed_to(cno, "SecurityParms", options_address)
    channel = _channel(cd) if cd and not options & CMQC.MQCNO_CD_FOR_OUTPUT_ONLY else None
    user, password = _credentials(csp) if csp else (None, None)
    if channel is not None:
        user = user or _text(channel.UserIdentifier) or None
        password = password or _text(channel.Password) or None
    table = _at(cno, "CCDTUrl", options_address)
    wanted = wanted_of(channel, _tls(sco) if sco else None, options)
    if table:
        wanted = wanted._replace(table_url=table.decode("utf-8", "replace"))
    handles: list[ConnectionHandle] = []

    def on_change(change: MQError) -> None:
        for each in handles:
            each.report(change)

    made = connection.connect(
        name,
        user,
        password=password,
        program=_text(cno["ApplName"]) or _program(),
        wanted=wanted._replace(attempts=Attempts(on_change)),
    )
    handles.append(ConnectionHandle(made, options & _SHARES or CMQC.MQCNO_HANDLE_SHARE_NONE))
    return handles[0]


def _channel(address: int) -> ChannelDefinition:
    """Return the channel in an MQCD."""
    fields = CD.read(address)
    known = ChannelDefinition()
    for name in known.members:
        if name in fields and name != "Version":
            value = fields[name]
            known[name] = value.partition(b"\0")[0] if isinstance(value, bytes) else value
    if fields["SSLPeerNamePtr"]:
        known["SSLPeerName"] = string_at(fields["SSLPeerNamePtr"], fields["SSLPeerNameLength"])
    return known


def _tls(address: int) -> TlsOptions:
    """Return the keys in an MQSCO."""
    fields = SCO.read(address)
    return TlsOptions(
        KeyRepository=fields["KeyRepository"].partition(b"\0")[0],
        CertificateLabel=fields["CertificateLabel"].partition(b"\0")[0],
        FipsRequired=fields["FipsRequired"],
    )


def _credentials(address: int) -> tuple[str | None, str | None]:
    """Return user and password of an MQCSP, None for what it has not.

    Raises MQRC_CSP_ERROR for another way of authentication, as by a token.
    """
    fields = CSP.read(address)
    kind = fields["AuthenticationType"]
    user, password = (_at(fields, name, address) for name in ("CSPUserId", "CSPPassword"))
    if kind not in (CMQC.MQCSP_AUTH_NONE, CMQC.MQCSP_AUTH_USER_ID_AND_PWD):
        raise mq_error(CMQC.MQRC_CSP_ERROR, f"CSP.AuthenticationType {kind}")
    if not user:
        return None, None
    return _text(user), _text(password)


def _pointed_to(fields: dict[str, Any], name: str, address: int) -> int:
    """Return the address in a pair of pointer and offset, 0 without one."""
    pointer: int = fields[f"{name}Ptr"]
    offset: int = fields[f"{name}Offset"]
    return pointer or (address + offset if offset else 0)


def _at(fields: dict[str, Any], name: str, address: int) -> bytes:
    """Return the bytes that a pointer or offset with a length leads to, empty without one."""
    at, length = _pointed_to(fields, name, address), fields[f"{name}Length"]
    return string_at(at, length) if at and length > 0 else b""


def _text(raw: bytes) -> str:
    """Return bytes of a field as text up to the first NUL, without blanks at the end."""
    return raw.partition(b"\0")[0].rstrip(b" ").decode("utf-8", "replace")


def _program() -> str:
    """Return the file name of the running program, which becomes PutApplName."""
    given = getattr(sys, "argv", [""])[0]
    return Path(given).name or Path("/proc/self/exe").resolve().name


P = ParamSpec("P")
_LOG = logging.getLogger("mayfly.pymqi.libmqm")

#: With this variable each verb that fails says why in the log: without one, on standard error.
ERRORS_VARIABLE = "MAYFLY_LIBMQM_ERRORS"


def codes_of(comp: int, reason: int) -> int:
    """Return both codes as one number, as the C library takes them."""
    return comp << 32 | reason


_OK = codes_of(c.MQCC_OK, rc.MQRC_NONE)


def entry_point(work: Callable[P, None]) -> Callable[P, int]:
    """Decorate a function that raises MQError or MQMIError.

    The decorated function returns completion and reason code as :func:`codes_of`; for any other
    exception MQRC_UNEXPECTED_ERROR.
    """

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            work(*args, **kwargs)
        except (MQError, MQMIError) as error:
            if ERRORS_VARIABLE in os.environ:
                why = error.__cause__ or error
                _LOG.warning("libmqm: %s: %s", work.__name__, why)
            return codes_of(error.comp, error.reason)
        except Exception:  # noqa: BLE001 - a C program cannot catch it; its outcome is a code
            _LOG.exception("libmqm: %s", work.__name__)
            return codes_of(c.MQCC_FAILED, rc.MQRC_UNEXPECTED_ERROR)
        return _OK

    return call


def verb(
    work: Callable[Concatenate[ConnectionHandle, P], None],
) -> Callable[Concatenate[int, P], int]:
    """Decorate a function of a connection: it takes the handle of one, and waits for its turn."""

    @functools.wraps(work)
    def call(hconn: int, /, *args: P.args, **kwargs: P.kwargs) -> None:
        handle = connection_of(hconn)
        is_entered = handle.enter()
        try:
            work(handle, *args, **kwargs)
        finally:
            if is_entered:
                handle.leave()

    return entry_point(call)

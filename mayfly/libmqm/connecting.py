"""MQCONNX of C programs: what MQCNO, MQCD, MQSCO and MQCSP say about a connection."""

from __future__ import annotations

import sys
from ctypes import string_at
from pathlib import Path
from typing import Any

from mayfly.client import connection
from mayfly.client.connection.reconnection import Attempts
from mayfly.libmqm.connections import ConnectionHandle
from mayfly.libmqm.structures import CD, CNO, CSP, SCO
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi import CMQC
from mayfly.pymqi.connection import CD as ChannelDefinition
from mayfly.pymqi.connection import SCO as TlsOptions
from mayfly.pymqi.connection import wanted_of

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

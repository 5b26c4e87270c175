"""``mayfly.connect``: a client by the name of a queue manager, or by a URL."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from mayfly.client import connection
from mayfly.client.client import Client
from mayfly.client.connection import Connection
from mayfly.client.connection.choose import Wanted
from mayfly.client.connection.endpoint import Reconnect, Tls
from mayfly.client.connection.url import endpoint_of_url, is_url

#: How a connection is encrypted: True trusts whom the machine trusts, a path is a PEM file of
#: certificates that are trusted.
TlsWanted: TypeAlias = Tls | str | PathLike[str] | bool | None


def connect(
    name: str,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: TlsWanted = None,
    transacted: bool = False,
    reconnect: Reconnect | None = None,
) -> Client:
    """Connect to a queue manager by its name, or by a URL (docs/CLIENTS.md).

    ``connect("QM1")`` finds it as IBM MQ does: by MQSERVER, MQCCDTURL or MQCHLLIB with MQCHLTAB,
    else on this machine. ``connect("mq://host:1414/QM1?channel=DEV.APP.SVRCONN")`` goes there;
    ``mqs://`` or ``tls`` encrypt. ``user`` None is who runs the program. ``reconnect`` YES makes a
    connection anew that breaks, QUEUE_MANAGER to the same one only; None is as the channel says.
    Raises MQError:
    MQRC_Q_MGR_NAME_ERROR, MQRC_Q_MGR_NOT_AVAILABLE, MQRC_HOST_NOT_AVAILABLE,
    MQRC_UNKNOWN_CHANNEL_NAME, MQRC_CHANNEL_NOT_AVAILABLE, MQRC_NOT_AUTHORIZED,
    MQRC_SSL_INITIALIZATION_ERROR, MQRC_KEY_REPOSITORY_ERROR, MQRC_CLIENT_CONN_ERROR.
    """
    wanted = Wanted(reconnect=reconnect, may_reconnect=True)
    made = connected(name, wanted, user=user, password=password, tls=tls)
    return Client(made, transacted=transacted)


def connected(
    name: str, wanted: Wanted, *, user: str | None, password: str | None, tls: TlsWanted
) -> Connection:
    """Return the connection of a new client; raises as :func:`connect`."""
    if is_url(name):
        endpoint = endpoint_of_url(name, _tls(tls))
        wanted, name = wanted._replace(endpoint=endpoint), endpoint.queue_manager
    elif tls:
        raise ValueError(f"tls is for a URL; {name!r} is a name, whose channel says what it uses")
    program = Path(sys.argv[0]).name or "python"
    return connection.connect(name, user, password=password, program=program, wanted=wanted)


def _tls(wanted: TlsWanted) -> Tls | None:
    if isinstance(wanted, Tls):
        return wanted
    if isinstance(wanted, bool) or wanted is None:
        return Tls() if wanted else None
    return Tls(authorities=Path(wanted))

"""The routes to a queue manager by its name: MQSERVER, a channel table, or here (docs/CLIENTS.md).

The order is that of IBM MQ: the channel that the program gives, MQSERVER, MQCCDTURL, MQCHLLIB with
MQCHLTAB. With none of them the queue manager is on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mayfly.client.connection.endpoint import Endpoint, Reconnect, Tls, addresses_of
from mayfly.client.connection.reconnection import DEFAULT_ATTEMPTS, Attempts
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.runtime import Runtime

if TYPE_CHECKING:
    from mayfly.client.connection.ccdt import ChannelTable

#: Endings of key files of IBM's clients, and the command that makes a PEM file of them.
_FOREIGN = {".kdb", ".p12", ".pfx", ".jks", ".sth"}
_CONVERT = "keys are PEM files here: `openssl pkcs12 -in key.p12 -out key.pem -nodes` makes one"


def with_key_repository(tls: Tls, repository: str, label: str = "") -> Tls:
    """Return ``tls`` with the files of a key repository; an empty ``repository`` changes nothing.

    A program names a key repository by ``SCO.KeyRepository`` or MQSSLKEYR as for IBM MQ, for
    instance ``/var/mqm/ssl/key``. Its PEM file, ``key.pem``, has the certificates that the client
    trusts, and the client's own certificate with its private key if it has one. With a ``label``
    the client's own certificate is in the file ``LABEL.pem`` beside it instead.

    Raises MQRC_KEY_REPOSITORY_ERROR for a repository that is missing or in another format, and for
    a label without a file.
    """
    if not repository:
        if label:
            text = f"certificate label {label!r} without a key repository (MQSSLKEYR)"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, text)
        return tls
    given = Path(repository)
    if given.suffix.lower() in _FOREIGN:
        raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, f"{repository}: {_CONVERT}")
    trusted = given if given.suffix == ".pem" else given.with_name(f"{given.name}.pem")
    own = trusted.with_name(f"{label}.pem") if label else trusted
    for path in (trusted, own):
        if not path.is_file():
            text = f"{path} is not there: {_CONVERT}"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, text)
    has_own = bool(label) or b"PRIVATE KEY-----" in trusted.read_bytes()
    return tls._replace(authorities=trusted, certificate=own if has_own else None)


#: Any of these may name a channel table.
_NAME_TABLES = ("MQCCDTURL", "MQCHLLIB", "MQCHLTAB")
_CHANNEL_NAME_LENGTH = 20


class ClientRoute(NamedTuple):
    """One endpoint that may reach a queue manager, with the reconnect option of the channel."""

    endpoint: Endpoint
    reconnect: Reconnect = Reconnect.NO


class Binding(Enum):
    """Where the queue manager of a program may be: anywhere, on this machine, or over a network."""

    ANY = "as the environment says"
    LOCAL = "on this machine"
    CLIENT = "over a network"


class Sharing(NamedTuple):
    """A group of conversations that share sockets with each other only.

    At most ``max_conversations`` conversations use one socket.
    """

    group: object
    max_conversations: int


class ConnectOptions(NamedTuple):
    """The wishes of a program beside the name: a channel, its keys, whether to reconnect.

    ``table_url`` replaces MQCCDTURL. An empty ``key_repository`` means that of MQSSLKEYR.
    ``reconnect`` None leaves the choice to the channel. ``may_reconnect`` is True for programs,
    whose ``attempts`` it applies; services reconnect by themselves. ``sharing`` None shares sockets
    with the whole process.
    """

    endpoint: Endpoint | None = None
    key_repository: str = ""
    certificate_label: str = ""
    binding: Binding = Binding.ANY
    reconnect: Reconnect | None = None
    table_url: str = ""
    may_reconnect: bool = False
    attempts: Attempts = DEFAULT_ATTEMPTS
    sharing: Sharing | None = None


DEFAULT_OPTIONS = ConnectOptions()


def routes(
    name: str,
    wanted: ConnectOptions = DEFAULT_OPTIONS,
    *,
    environment: Mapping[str, str] = os.environ,
    random_bytes: Callable[[int], bytes] | None = None,
) -> Iterator[ClientRoute] | None:
    """Return the routes to a queue manager in the order of trial, None for one on this machine.

    A name such as ``*GROUP`` accepts any queue manager that answers. ``wanted`` has the channel,
    keys and table that the program itself names; the variables of ``environment`` name the others.
    ``random_bytes`` returns as many random bytes as it is asked for; they decide the order of
    channels with a weight. Raises MQRC_CLIENT_CONN_ERROR for a wrong MQSERVER or table,
    MQRC_CCDT_URL_ERROR for a wrong MQCCDTURL, MQRC_Q_MGR_NAME_ERROR for a name without a channel.
    Raises MQRC_HOST_NOT_AVAILABLE for a wrong connection name, and MQRC_KEY_REPOSITORY_ERROR.
    """
    if wanted.binding is Binding.LOCAL:
        return None
    keys = wanted.key_repository or environment.get("MQSSLKEYR", "")
    if wanted.endpoint is not None:
        endpoint = _for_queue_manager(wanted.endpoint, name)
        return iter([ClientRoute(_with_keys(endpoint, keys, wanted.certificate_label))])
    if wanted.table_url:
        environment = {"MQCCDTURL": wanted.table_url}
    if server := environment.get("MQSERVER"):
        return iter([ClientRoute(_for_queue_manager(endpoint_of_mqserver(server), name))])
    table = _table_of(environment)
    if table is None and wanted.binding is Binding.CLIENT:
        text = f"no channel leads to {name!r}: set MQSERVER or MQCCDTURL"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, text)
    if table is None:
        return None
    source = Runtime().random_bytes if random_bytes is None else random_bytes
    return _table_routes(table, name, keys, wanted.certificate_label, source)


def endpoint_of_mqserver(value: str) -> Endpoint:
    """Return the endpoint of an MQSERVER value: ``CHANNEL/TCP/host(port)``, or a list of hosts.

    Raises MQRC_CLIENT_CONN_ERROR for a wrong form, MQRC_Q_MGR_NAME_ERROR (as IBM MQ does) for
    another transport than TCP, and MQRC_HOST_NOT_AVAILABLE for a wrong host or port.
    """
    parts = value.split("/", 2)
    if len(parts) < 3:
        text = f"MQSERVER {value!r} is not CHANNEL/TCP/host(port)"
        raise mq_error(rc.MQRC_CLIENT_CONN_ERROR, text)
    channel, transport, connection_name = (part.strip() for part in parts)
    if not 0 < len(channel) <= _CHANNEL_NAME_LENGTH:
        text = f"MQSERVER {value!r}: {channel!r} is no channel name of 1 to 20 characters"
        raise mq_error(rc.MQRC_CLIENT_CONN_ERROR, text)
    if transport != "TCP":
        text = f"MQSERVER {value!r}: the transport is {transport!r}, TCP alone is known here"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, text)
    return Endpoint(addresses_of(connection_name), channel)


def _table_of(environment: Mapping[str, str]) -> ChannelTable | None:
    """Return the channel table that environment variables name, None if none is set.

    Raises MQRC_CCDT_URL_ERROR, MQRC_Q_MGR_NAME_ERROR or MQRC_CLIENT_CONN_ERROR for a wrong table.
    """
    if not any(environment.get(name) for name in _NAME_TABLES):
        return None
    from mayfly.client.connection.ccdt import named_table

    return named_table(environment)


def _table_routes(
    table: ChannelTable,
    name: str,
    keys: str,
    label: str,
    random_bytes: Callable[[int], bytes],
) -> Iterator[ClientRoute]:
    """Yield the routes for a queue manager name from a channel table, with key files.

    ``keys`` is the key repository, and ``label`` the client's certificate in it; empty takes the
    label of the channel. ``random_bytes`` decides the order of channels with a weight. Raises
    MQRC_Q_MGR_NAME_ERROR when no channel of the table matches, and MQRC_KEY_REPOSITORY_ERROR.
    """
    for row in table.candidates(name, random_bytes):
        yield ClientRoute(_with_keys(row.endpoint, keys, label or row.label), row.reconnect)


def _for_queue_manager(endpoint: Endpoint, name: str) -> Endpoint:
    """Return a copy of the endpoint for a queue manager name; ``*GROUP`` accepts any of them."""
    return endpoint._replace(queue_manager="" if name.startswith("*") else name)


def _with_keys(endpoint: Endpoint, repository: str, label: str) -> Endpoint:
    """Return the endpoint with the files of a key repository.

    ``label`` names the client's own certificate there. An endpoint without TLS, or one that already
    has files, is returned unchanged. Raises MQRC_KEY_REPOSITORY_ERROR as
    :func:`with_key_repository` does.
    """
    tls = endpoint.tls
    if tls is None or tls.authorities is not None or tls.certificate is not None:
        return endpoint
    return endpoint._replace(tls=with_key_repository(tls, repository, label))

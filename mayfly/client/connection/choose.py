"""The ways to a queue manager by its name: MQSERVER, a channel table, or here (docs/CLIENTS.md).

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
from mayfly.client.connection.reconnection import USUAL_ATTEMPTS, Attempts
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.runtime import Runtime

if TYPE_CHECKING:
    from mayfly.client.connection.ccdt import ChannelTable

#: Endings of key files of IBM's clients, and the command that makes a PEM file of them.
_FOREIGN = {".kdb", ".p12", ".pfx", ".jks", ".sth"}
_CONVERT = "keys are PEM files here: `openssl pkcs12 -in key.p12 -out key.pem -nodes` makes one"


def with_key_repository(tls: Tls, repository: str, label: str = "") -> Tls:
    """Return TLS with the files of a key repository; an empty one is the machine's trust.

    A program names a key repository by ``SCO.KeyRepository`` or MQSSLKEYR as for IBM MQ, for
    instance ``/var/mqm/ssl/key``. Its PEM file, ``key.pem``, holds the certificates that the client
    trusts, and the client's own certificate with the private key when it has one. Further
    certificates of the client stand beside it, named by their label: ``LABEL.pem``.

    Raises MQRC_KEY_REPOSITORY_ERROR for a repository in another format, for one that is not there
    and for a label without a file.
    """
    if not repository:
        if label:
            said = f"certificate label {label!r} without a key repository (MQSSLKEYR)"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, said)
        return tls
    given = Path(repository)
    if given.suffix.lower() in _FOREIGN:
        raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, f"{repository}: {_CONVERT}")
    trusted = given if given.suffix == ".pem" else given.with_name(f"{given.name}.pem")
    own = trusted.with_name(f"{label}.pem") if label else trusted
    for path in (trusted, own):
        if not path.is_file():
            said = f"{path} is not there: {_CONVERT}"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, said)
    has_own = bool(label) or b"PRIVATE KEY-----" in trusted.read_bytes()
    return tls._replace(authorities=trusted, certificate=own if has_own else None)


#: Any of these may name a channel table.
_NAME_TABLES = ("MQCCDTURL", "MQCHLLIB", "MQCHLTAB")
#: The default of MQCHLTAB in IBM's client.
_DEFAULT_TABLE = "AMQCLCHL.TAB"
_CHANNEL_NAME_LENGTH = 20


class Route(NamedTuple):
    """One way to a queue manager."""

    endpoint: Endpoint
    reconnect: Reconnect = Reconnect.NO


class Binding(Enum):
    """Where a program wants its queue manager to be."""

    ANY = "as the environment says"
    LOCAL = "on this machine"
    CLIENT = "over a network"


class Sharing(NamedTuple):
    """Conversations that share sockets with each other alone, so many on each at the most."""

    group: object
    max_messages: int


class Wanted(NamedTuple):
    """The wishes of a program beside the name: a channel, its keys, whether it reconnects.

    ``table_url`` names a channel table in the place of MQCCDTURL. An empty ``key_repository`` is
    that of MQSSLKEYR; ``reconnect`` None leaves it to the channel. ``may_reconnect`` is True for
    programs, which may control the ``attempts``; services connect again by themselves. ``sharing``
    None shares sockets with the whole process.
    """

    endpoint: Endpoint | None = None
    key_repository: str = ""
    certificate_label: str = ""
    binding: Binding = Binding.ANY
    reconnect: Reconnect | None = None
    table_url: str = ""
    may_reconnect: bool = False
    attempts: Attempts = USUAL_ATTEMPTS
    sharing: Sharing | None = None


NOTHING_WANTED = Wanted()


def routes(
    name: str,
    wanted: Wanted = NOTHING_WANTED,
    *,
    environment: Mapping[str, str] = os.environ,
    random_bytes: Callable[[int], bytes] | None = None,
) -> Iterator[Route] | None:
    """Return the ways to a queue manager in the order of trial, None for one on this machine.

    A name with an asterisk before it, ``*GROUP``, takes whichever queue manager answers. Raises
    MQRC_CLIENT_CONN_ERROR for a wrong MQSERVER or table, MQRC_CCDT_URL_ERROR for a wrong MQCCDTURL,
    MQRC_Q_MGR_NAME_ERROR for a name that no channel is for, MQRC_HOST_NOT_AVAILABLE for a wrong
    connection name and MQRC_KEY_REPOSITORY_ERROR.
    """
    if wanted.binding is Binding.LOCAL:
        return None
    keys = wanted.key_repository or environment.get("MQSSLKEYR", "")
    if wanted.endpoint is not None:
        endpoint = _named(wanted.endpoint, name)
        return iter([Route(_keyed(endpoint, keys, wanted.certificate_label))])
    if wanted.table_url:
        environment = {"MQCCDTURL": wanted.table_url}
    if server := environment.get("MQSERVER"):
        return iter([Route(_named(endpoint_of_mqserver(server), name))])
    table = _table_of(environment)
    if table is None and wanted.binding is Binding.CLIENT:
        said = f"no channel leads to {name!r}: set MQSERVER or MQCCDTURL"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, said)
    if table is None:
        return None
    source = Runtime().random_bytes if random_bytes is None else random_bytes
    return _rows(table, name, keys, wanted.certificate_label, source)


def endpoint_of_mqserver(value: str) -> Endpoint:
    """Return the endpoint of a value of MQSERVER: ``CHANNEL/TCP/host(port)``, or a list of hosts.

    Raises MQRC_CLIENT_CONN_ERROR; for another transport MQRC_Q_MGR_NAME_ERROR as IBM MQ.
    """
    parts = value.split("/", 2)
    if len(parts) < 3:
        said = f"MQSERVER {value!r} is not CHANNEL/TCP/host(port)"
        raise mq_error(rc.MQRC_CLIENT_CONN_ERROR, said)
    channel, transport, connection_name = (part.strip() for part in parts)
    if not 0 < len(channel) <= _CHANNEL_NAME_LENGTH:
        said = f"MQSERVER {value!r}: {channel!r} is no channel name of 1 to 20 characters"
        raise mq_error(rc.MQRC_CLIENT_CONN_ERROR, said)
    if transport != "TCP":
        said = f"MQSERVER {value!r}: the transport is {transport!r}, TCP alone is known here"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, said)
    return Endpoint(addresses_of(connection_name), channel)


def _table_of(environment: Mapping[str, str]) -> ChannelTable | None:
    """Return the channel table that an environment names; most programs have none."""
    if not any(environment.get(name) for name in _NAME_TABLES):
        return None
    from mayfly.client.connection.ccdt import named_table

    return named_table(environment)


def _rows(
    table: ChannelTable,
    name: str,
    keys: str,
    label: str,
    random_bytes: Callable[[int], bytes],
) -> Iterator[Route]:
    for row in table.candidates(name, random_bytes):
        yield Route(_keyed(row.endpoint, keys, label or row.label), row.reconnect)


def _named(endpoint: Endpoint, name: str) -> Endpoint:
    return endpoint._replace(queue_manager="" if name.startswith("*") else name)


def _keyed(endpoint: Endpoint, repository: str, label: str) -> Endpoint:
    """Fill in the files of the keys, unless the program has named the files themselves."""
    tls = endpoint.tls
    if tls is None or tls.authorities is not None or tls.certificate is not None:
        return endpoint
    return endpoint._replace(tls=with_key_repository(tls, repository, label))

"""``…/connections``: the open connections of a queue manager; an operator can stop them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.admin import open_connections, stop_connection
from mayfly.admin.model import WrongObject
from mayfly.admin.security.roles import Role
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation


class HandleOfConnection(Struct):
    """An object that a connection has open."""

    kind: Annotated[str, Meta(description="QUEUE, TOPIC, PROCESS or QMGR")]
    name: Annotated[str, Meta(description="the name of the object")]
    options: Annotated[list[str], Meta(description="names of MQOO options")]


class ConnectionShown(Struct):
    """A connection of a program, as in DISPLAY CONN."""

    id: Annotated[str, Meta(description="CONN, 16 hexadecimal digits")]
    user: Annotated[str, Meta(description="the user whose authority counts")]
    application: Annotated[str, Meta(description="its name for itself")]
    channel: Annotated[str, Meta(description="the channel it has come by; empty for a local one")]
    address: Annotated[str, Meta(description="the address of its client; empty for a local one")]
    has_tls: Annotated[bool, Meta(description="whether it has come over TLS")]
    connected_ms: Annotated[int, Meta(description="since when, ms since 1970, UTC")]
    unit_of_work_ms: Annotated[
        int | None, Meta(description="since when its unit of work is open, null without one")
    ]
    handles: Annotated[list[HandleOfConnection], Meta(description="objects that it has open")]


class Connections(Struct):
    """Open connections, the oldest first."""

    connections: list[ConnectionShown]


class Stopped(Struct):
    """The connection that was stopped."""

    id: str


def listed(call: Call[NoQuery, None]) -> Connections:
    """List the open connections, of local programs and of clients, the oldest first."""
    return Connections(
        [
            ConnectionShown(
                id=one.identifier,
                user=one.user,
                application=one.application,
                channel=one.channel,
                address=one.address,
                has_tls=one.has_tls,
                connected_ms=one.connected_ms,
                unit_of_work_ms=one.unit_of_work_ms,
                handles=[
                    HandleOfConnection(kind, name, list(options))
                    for kind, name, options in one.handles
                ],
            )
            for one in open_connections(call.manager.engine)
        ]
    )


def stopped(call: Call[NoQuery, None]) -> Stopped:
    """Stop a connection: its unit of work is backed out, and its later calls fail.

    If it belongs to a client, its socket is closed, and with it all other connections on that
    socket. 404 for an unknown id.
    """
    identifier = call.names["connection"]
    try:
        stop_connection(call.manager.engine, identifier.upper())
    except WrongObject as error:
        text = f"no connection has the id {identifier}"
        raise HttpError(HTTPStatus.NOT_FOUND, text) from error
    return Stopped(identifier)


OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/connections", listed, Role.LOOK),
    Operation(
        "POST",
        f"{OF_MANAGER}/connections/{{connection}}/stop",
        stopped,
        Role.OPERATE,
        problems={HTTPStatus.NOT_FOUND: "no connection has this id"},
    ),
)

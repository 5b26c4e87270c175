"""``…/claims``: messages that consumers of pipelines (Spark) have reserved, and their release."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.client import connection as client
from mayfly.client.connection import LocalConnection
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation
from mayfly.verbs.contracts.claims import ConsumerState


class Claims(Struct):
    """The claims of one consumer; a claim is a batch of messages reserved for the consumer.

    Claims after number ``closed``, up to ``last``, are open: their messages are locked on the
    queue.
    """

    consumer: Annotated[str, Meta(description="the name of the consumer")]
    queue: Annotated[str, Meta(description="the queue that it reads")]
    epoch: Annotated[int, Meta(description="of its reader; readers of earlier epochs are refused")]
    closed: Annotated[int, Meta(description="number of the last claim that has ended")]
    last: Annotated[int, Meta(description="number of its last claim")]
    message_count: Annotated[int, Meta(description="messages in open claims")]
    oldest_claimed_ms: Annotated[
        int | None, Meta(description="since when the oldest claim is open, null without one")
    ]


class AllClaims(Struct):
    """Consumers by name."""

    claims: list[Claims]


class Release(Struct, forbid_unknown_fields=True):
    """Options for the release of claimed messages."""

    dry_run: Annotated[bool, Meta(description="messages are counted, and nothing changes")] = False


class Given(Struct):
    """The answer to a release: how many messages returned to their queue, or would return."""

    consumer: str
    message_count: int
    dry_run: bool


def listed(call: Call[NoQuery, None]) -> AllClaims:
    """List the consumers of pipelines by name, with their claims (reserved batches of messages)."""
    with call.connection() as connection:
        return AllClaims([Claims(*one) for one in client.ClientClaims(connection.call).standings()])


def shown(call: Call[NoQuery, None]) -> Claims:
    """Show the claims of one consumer; 404 for an unknown consumer."""
    with call.connection() as connection:
        return Claims(*_consumer(connection, call.names["consumer"]))


def released(call: Call[NoQuery, Release]) -> Given:
    """Return the claimed messages of a consumer to their queue; their backout counts rise by one.

    The consumer's reader gets an error from now on. A batch that the reader has already written
    will be written a second time; its checkpoint shows which one (docs/PIPELINE.md). 404 for an
    unknown consumer.
    """
    name, is_dry = call.names["consumer"], call.body.dry_run
    with call.connection() as connection:
        count = _consumer(connection, name).message_count
        if not is_dry:
            count = client.ClientClaims(connection.call).release(name)
    return Given(name, count, is_dry)


def _consumer(connection: LocalConnection, name: str) -> ConsumerState:
    """Return the state of a pipeline's consumer by name; raises HttpError (404) if unknown."""
    found = [
        one for one in client.ClientClaims(connection.call).standings() if one.consumer == name
    ]
    if not found:
        raise HttpError(HTTPStatus.NOT_FOUND, f"no consumer is called {name!r}")
    return found[0]


_NONE: Final = {HTTPStatus.NOT_FOUND: "there is no such consumer"}
_ONE: Final = f"{OF_MANAGER}/claims/{{consumer}}"
OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/claims", listed, Role.LOOK),
    Operation("GET", _ONE, shown, Role.LOOK, problems=_NONE),
    Operation("POST", f"{_ONE}/release", released, Role.OPERATE, problems=_NONE),
)

"""``/mayfly/v1/clock``: the time of the queue managers; a test can advance a virtual clock."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.client.connection import Administration
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime.virtual_clock import VirtualClock
from mayfly.servers.http.resources.operations import OWN, Call, NoQuery, Operation

_MS: Final = "ms since 1970, UTC"


class Time(Struct):
    """The time of all queue managers of a server."""

    time_ms: Annotated[int, Meta(description=_MS)]
    time: Annotated[str, Meta(description="the same as ISO 8601 has it")]
    is_virtual: Annotated[bool, Meta(description="whether it is moved by requests alone")]


class Advance(Struct, forbid_unknown_fields=True):
    """A step of a virtual clock."""

    advance_ms: Annotated[int, Meta(description="0 to 214,748,364,700 ms")]


def show(call: Call[NoQuery, None]) -> Time:
    """Show the time, and whether the clock is virtual."""
    with call.connection() as connection:
        return _time(call, connection.now_ms())


def advance(call: Call[NoQuery, Advance]) -> Time:
    """Advance a virtual clock, and do all work that falls due on the way before answering.

    Raises MQRC_ENVIRONMENT_ERROR (409) if the clock is not virtual, and MQRC_OPTIONS_ERROR (400)
    for a step back.
    """
    with call.connection() as connection:
        Administration(connection.call).advance_clock(call.body.advance_ms)
        return _time(call, connection.now_ms())


def _time(call: Call[NoQuery, Any], now_ms: int) -> Time:
    """Return a time (ms since 1970) as the API shows it."""
    moment = datetime.fromtimestamp(now_ms // SECOND_MS, UTC)
    spelled = f"{moment:%Y-%m-%dT%H:%M:%S}.{now_ms % SECOND_MS:03d}Z"
    return Time(now_ms, spelled, isinstance(call.manager.engine.clock, VirtualClock))


OPERATIONS: Final = (
    Operation("GET", f"{OWN}/clock", show, Role.LOOK),
    Operation(
        "POST",
        f"{OWN}/clock",
        advance,
        Role.ADMINISTER,
        problems={HTTPStatus.CONFLICT: "time goes by itself (2012 MQRC_ENVIRONMENT_ERROR)"},
    ),
)

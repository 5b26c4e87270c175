"""``…/schedule/timeline``: numbers of delayed messages by delivery time, in equal steps."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine.api.operating import DelayTimeline, Span
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, Operation, check_span

_MAX_STEPS: Final = 2_000


class TimelineSpan(Struct, forbid_unknown_fields=True):
    """Query parameters of a timeline: range of delivery times, and number of steps."""

    from_ms: (
        Annotated[int, Meta(ge=0, le=LATEST_DUE_MS, description="that of the first message")] | None
    ) = None
    before_ms: (
        Annotated[int, Meta(ge=0, le=LATEST_DUE_MS + 1, description="behind the last message")]
        | None
    ) = None
    steps: Annotated[int, Meta(ge=1, le=_MAX_STEPS, description="the most steps")] = 200
    queue: Annotated[
        str | None, Meta(description="only messages that wait for this local queue")
    ] = None


class ScheduleTimeline(Struct):
    """Numbers of delayed messages by delivery time: ``earlier`` + ``counts`` + ``later`` are all.

    Messages in an open unit of work are in none of these.
    """

    now_ms: Annotated[int, Meta(description="ms since 1970, UTC")]
    from_ms: Annotated[int, Meta(description="where the first step begins")]
    before_ms: Annotated[int, Meta(description="behind the last delivery time that is counted")]
    step_ms: Annotated[int, Meta(description="how long each step is; the last one may be cut off")]
    counts: Annotated[list[int], Meta(description="messages in each step, by delivery time")]
    earlier: Annotated[int, Meta(description="messages with an earlier delivery time")]
    later: Annotated[int, Meta(description="messages with a later delivery time")]
    first_due_ms: Annotated[
        int | None, Meta(description="the first delivery time, of any queue; null without one")
    ]
    last_due_ms: Annotated[
        int | None, Meta(description="the last delivery time, of any queue; null without one")
    ]


def shown(call: Call[TimelineSpan, None]) -> ScheduleTimeline:
    """Count delayed messages in equal steps of delivery time; a million takes no longer than a few.

    A step is at least a millisecond, so a short range may have fewer steps. 400 if the range ends
    before it begins.
    """
    asked = call.query
    check_span(asked.from_ms, asked.before_ms)
    span = Span(asked.from_ms, asked.before_ms, asked.steps)
    found: DelayTimeline = call.manager.engine.staged_keys.timeline(span, asked.queue)
    return ScheduleTimeline(*found)


OPERATIONS: Final = (
    Operation(
        "GET",
        f"{OF_MANAGER}/schedule/timeline",
        shown,
        Role.LOOK,
        problems={HTTPStatus.NOT_FOUND: "the name is not that of a local queue"},
    ),
)

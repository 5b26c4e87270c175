"""``…/figures``: figures of the last hour, day and week, and hours in which messages expired."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine import ArchiveError
from mayfly.engine.api.operating import ended_steps
from mayfly.lifetime.times import SECOND_MS
from mayfly.servers.figure_history import ALL, OTHERS, RINGS, RingStep
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, Operation

_HOUR_MS: Final = 3_600 * SECOND_MS
#: Hours that one heat map has: 366 days, and the hour that a day has more when clocks go back.
_MAX_HOURS: Final = 366 * 24 + 1
_MAX_TOTALS: Final = 1_000
_LATEST_MS: Final = 2**53


class FigureSpan(Struct, forbid_unknown_fields=True, kw_only=True):
    """Query parameters: which span of time, and of which queue."""

    over: Annotated[
        Literal["hour", "day", "week"], Meta(description="the span of time that ends now")
    ] = "hour"
    queue: Annotated[
        str | None, Meta(description="a local queue, or `(others)`; all queues without it")
    ] = None


class MeasuredFigures(Struct):
    """Figures of a span of time: counts of messages, and highest values."""

    put_count: int
    got_count: int
    expired_count: int
    ended_count: Annotated[int, Meta(description="lives that ended, by any outcome but a release")]
    depth: Annotated[int, Meta(description="highest CURDEPTH, without the staging queue")]
    delayed: Annotated[int, Meta(description="most messages that waited for their delivery time")]
    oldest_age_ms: Annotated[int, Meta(description="highest age of the oldest message")]
    released_count: Annotated[int, Meta(description="messages that were released for the queue")]
    release_lateness_ms: Annotated[
        float | None, Meta(description="their mean lateness; null without any")
    ]
    discarded_count: Annotated[int, Meta(description="expired messages that were met")]
    discard_lateness_ms: Annotated[
        float | None, Meta(description="how long after their deadlines, mean; null without any")
    ]


class FigureStep(MeasuredFigures):
    """Figures of one step of time."""

    start_ms: Annotated[int, Meta(description="when it begins, ms since 1970, UTC")]
    covered_ms: Annotated[
        int, Meta(description="how long the server looked, to make rates of counts")
    ]


class FigureSteps(Struct):
    """Figures over time, the oldest step first. While the server did not run there are none."""

    now_ms: Annotated[int, Meta(description="ms since 1970, UTC")]
    from_ms: Annotated[int, Meta(description="where the span begins")]
    step_ms: Annotated[int, Meta(description="how long each step is")]
    steps: list[FigureStep]


class TotalsListing(Struct, forbid_unknown_fields=True, kw_only=True):
    """Query parameters of the totals of queues."""

    over: Annotated[
        Literal["hour", "day", "week"], Meta(description="the span of time that ends now")
    ] = "week"
    limit: Annotated[int, Meta(ge=1, le=_MAX_TOTALS, description="the most queues")] = 100


class QueueTotals(MeasuredFigures):
    """Figures of one queue in a span of time."""

    name: Annotated[str, Meta(description=f"of the queue, or `{OTHERS}`")]


class FigureTotals(Struct):
    """Totals of queues in a span of time, those that lost most messages to expiry first."""

    now_ms: Annotated[int, Meta(description="ms since 1970, UTC")]
    from_ms: Annotated[int, Meta(description="where the span begins")]
    queues: list[QueueTotals]


class HourSpan(Struct, forbid_unknown_fields=True, kw_only=True):
    """Query parameters: hours in which lives ended."""

    from_ms: Annotated[int, Meta(ge=0, le=_LATEST_MS, description="where the first hour begins")]
    hours: Annotated[int, Meta(ge=1, le=_MAX_HOURS, description="how many hours")] = 168
    queue: Annotated[str | None, Meta(description="a queue; all queues without it")] = None
    source: Annotated[Literal["ledger", "lake"], Meta(description="where lives are counted")] = (
        "ledger"
    )


class Hours(Struct):
    """Lives that ended, by hours. An expired message counts in the hour of its deadline."""

    from_ms: Annotated[int, Meta(description="where the first hour begins, ms since 1970, UTC")]
    ended: Annotated[list[int], Meta(description="lives that ended in each hour")]
    expired: Annotated[list[int], Meta(description="those of them that ended by expiry")]
    is_cut: Annotated[bool, Meta(description="whether older rows were not read: 2,000,000 are")]
    lake: Annotated[
        str | None, Meta(description="the lake of the queue manager; null if none is configured")
    ]


def shown(call: Call[FigureSpan, None]) -> FigureSteps:
    """Show figures over time, of the queue manager or one queue: at most 720 steps.

    The server keeps them: steps of 10 s for the last hour, of 2 min for the last day, of 15 min for
    the last week. A queue that the server has no figures of has zeros.
    """
    asked, ring = call.query, RINGS[call.query.over]
    table = call.service.histories[call.manager.name].table
    now_ms = call.manager.now_ms()
    queue = ALL if asked.queue is None else asked.queue
    steps = [_to_step(one) for one in table.steps(queue, ring, now_ms)]
    return FigureSteps(now_ms, now_ms - ring.span_ms, ring.step_ms, steps)


def totals(call: Call[TotalsListing, None]) -> FigureTotals:
    """Show totals of queues over the last hour, day or week, most expired messages first.

    Each step of a span has 100 queues of its own, the busiest; the others are added up.
    """
    asked, ring = call.query, RINGS[call.query.over]
    table = call.service.histories[call.manager.name].table
    now_ms = call.manager.now_ms()
    found = table.totals(ring, now_ms, asked.limit)
    queues = [_to_totals(name, one) for name, one in found.items()]
    return FigureTotals(now_ms, now_ms - ring.span_ms, queues)


def hours(call: Call[HourSpan, None]) -> Hours:
    """Count lives that ended, and those that expired, by hours.

    They come from the ledger, so hours before the server was started count as well. The newest
    2,000,000 rows are read. A lake has rows that the ledger no longer has, and all are read. 400
    for a lake when there is none, 503 when it cannot be read.
    """
    asked, archives = call.query, call.manager.traces.archives
    steps = asked.queue, asked.from_ms, _HOUR_MS, asked.hours
    is_cut = False
    if asked.source == "ledger":
        found, is_cut = ended_steps(call.manager.engine, *steps)
        by_hour = [(one.ended_count, one.expired_count) for one in found]
    elif archives:
        try:
            by_hour = archives[0].ended_steps(call.manager.name, *steps)
        except ArchiveError as error:
            text = f"{archives[0].name} cannot be read: {error}"
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, text) from error
    else:
        text = f"source 'lake': {call.manager.name} has no lake in the file of the server"
        raise HttpError(HTTPStatus.BAD_REQUEST, text)
    ended, expired = [one for one, _expired in by_hour], [one for _ended, one in by_hour]
    lake = archives[0].name if archives else None
    return Hours(asked.from_ms, ended, expired, is_cut, lake)


def _to_step(one: RingStep) -> FigureStep:
    """Return a step as the API shows it, with lateness as a mean."""
    return FigureStep(**one._asdict() | _means_of(one))


def _to_totals(name: str, one: RingStep) -> QueueTotals:
    """Return the totals of a queue as the API shows them."""
    values = one._asdict() | _means_of(one)
    return QueueTotals(
        name=name, **{field: values[field] for field in MeasuredFigures.__struct_fields__}
    )


def _means_of(one: RingStep) -> dict[str, float | None]:
    """Return the mean lateness of releases and discards by field, None without any."""
    return {
        "release_lateness_ms": _mean(one.release_lateness_ms, one.released_count),
        "discard_lateness_ms": _mean(one.discard_lateness_ms, one.discarded_count),
    }


def _mean(total_ms: int, count: int) -> float | None:
    """Return a mean in ms, None for no messages."""
    return round(total_ms / count, 1) if count else None


OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/figures", shown, Role.LOOK),
    Operation("GET", f"{OF_MANAGER}/figures/queues", totals, Role.LOOK),
    Operation(
        "GET",
        f"{OF_MANAGER}/ledger/hours",
        hours,
        Role.LOOK,
        problems={HTTPStatus.SERVICE_UNAVAILABLE: "The lake cannot be read, or DuckDB is missing."},
    ),
)

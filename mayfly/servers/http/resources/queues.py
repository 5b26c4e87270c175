"""``…/queues``: local queues with their depths, and the outcomes of messages on them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final, TypedDict

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine.api.operating import Figures, QueueFigures, figures
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import (
    OF_MANAGER,
    AfterName,
    Call,
    Next,
    NoQuery,
    Operation,
)

_MAX: Final = 10_000


class QueueListing(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of queues."""

    limit: Annotated[int, Meta(ge=1, le=_MAX, description="the most queues of a page")] = 200
    after: AfterName = ""


class Together(TypedDict):
    """The statistics of one local queue, or of several together."""

    depth: Annotated[int, Meta(description="CURDEPTH, messages of open units of work included")]
    present: Annotated[
        Mapping[str, int] | None,
        Meta(description="messages by where they stand; null where nobody counted"),
    ]
    oldest_age_ms: Annotated[
        int | None, Meta(description="age of the oldest message, null without one")
    ]
    input_count: Annotated[int, Meta(description="IPPROCS")]
    output_count: Annotated[int, Meta(description="OPPROCS")]
    puts: Annotated[int, Meta(description="messages put since the queue was defined")]
    ended: Annotated[Mapping[str, int], Meta(description="lives ended since then, by outcome")]


class QueueStatistics(Together):
    """The statistics of one local queue."""

    name: Annotated[str, Meta(description="the name of the queue")]


class Queues(Struct):
    """Local queues, and statistics of the queue manager."""

    now_ms: Annotated[int, Meta(description="ms since 1970, UTC")]
    next_due_ms: Annotated[
        int | None, Meta(description="the earliest delivery time, null when nothing is delayed")
    ]
    is_releasing: Annotated[bool, Meta(description="whether delayed messages are released")]
    ledger_first: Annotated[int, Meta(description="the oldest position of the ledger")]
    ledger_last: Annotated[int, Meta(description="its newest position")]
    queues: Annotated[list[QueueStatistics], Meta(description="by name")]
    others: Annotated[
        Together, Meta(description="all queues that are not listed here, dynamic ones included")
    ]
    next: Next


def listed(call: Call[QueueListing, None]) -> Queues:
    """List the predefined local queues by name, and statistics of the queue manager.

    ``others`` sums all queues that are not on the page. ``next`` is null after a page with fewer
    than ``limit`` queues.
    """
    asked = call.query
    found = figures(call.manager.engine, asked.limit, after=asked.after)
    page = [_to_queue(found, name, one) for name, one in found.queues.items()]
    return Queues(
        found.now_ms,
        found.next_due_ms,
        found.is_releasing,
        found.ledger_first,
        found.ledger_last,
        page,
        _figures_of(found, found.others),
        page[-1]["name"] if len(page) == asked.limit else None,
    )


def shown(call: Call[NoQuery, None]) -> QueueStatistics:
    """Show one local queue; 404 if no local queue has this name."""
    name = call.names["queue"]
    found = figures(call.manager.engine, 1, name)
    one = found.queues.get(name)
    if one is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"{name!r} is no local queue")
    return _to_queue(found, name, one)


def _to_queue(found: Figures, name: str, one: QueueFigures) -> QueueStatistics:
    """Return the statistics of one queue, with its name, as the API shows them."""
    return {"name": name, **_figures_of(found, one)}


def _figures_of(found: Figures, one: QueueFigures) -> Together:
    """Return the statistics of one queue, or the sums of several, as the API shows them."""
    return {
        "depth": one.depth,
        "present": None if one.present is None else one.present._asdict(),
        "oldest_age_ms": found.oldest_age_ms(one),
        "input_count": one.input_count,
        "output_count": one.output_count,
        "puts": one.puts,
        "ended": dict(one.ended),
    }


OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/queues", listed, Role.LOOK),
    Operation(
        "GET",
        f"{OF_MANAGER}/queues/{{queue}}",
        shown,
        Role.LOOK,
        problems={HTTPStatus.NOT_FOUND: "the name is that of no local queue"},
    ),
)

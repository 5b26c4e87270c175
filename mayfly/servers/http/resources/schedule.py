"""``…/schedule``: list, cancel, reschedule and release delayed messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from mayfly.admin.security.roles import Role
from mayfly.client.connection import Administration, LocalConnection, Schedule
from mayfly.client.connection.json_values import (
    AuditJson,
    ScheduledJson,
    audit_as_json,
    scheduled_as_json,
)
from mayfly.engine import Engine, Session
from mayfly.engine.api.operating import (
    KeptMessages,
    Receipts,
    SessionSchedule,
    audit,
    undo_cancel,
)
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import (
    IF_MATCH,
    MATCH_PROBLEMS,
    OF_MANAGER,
    Answered,
    Call,
    Next,
    NoQuery,
    Operation,
    check_match,
    etag_of,
    is_conditional,
)
from mayfly.verbs.schedule import Receipt, Scheduled, ScheduleFilter

_T = TypeVar("_T")
_MAX: Final = 1_000
#: Messages that one page of a search for a part looks at.
_MOST_LOOKED_AT: Final = 20_000
#: Positions have 64 bits; a page begins behind any but the last.
_LAST_POSITION: Final = 2**63 - 2
_Moment = Annotated[int, Meta(ge=0, le=LATEST_DUE_MS, description="ms since 1970, UTC")]
_Limit = Annotated[int, Meta(ge=1, le=_MAX, description="the most entries of a page")]


class DelayedListing(Struct, forbid_unknown_fields=True, rename={"property_name": "property"}):
    """Query parameters of the list of delayed messages."""

    queue: Annotated[str | None, Meta(description="their target")] = None
    sender: Annotated[str | None, Meta(description="their UserIdentifier")] = None
    property_name: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="the name of a message property; needs ``value``"),
    ] = None
    value: Annotated[str | None, Meta(description="its value as text")] = None
    find: Annotated[
        str,
        Meta(
            max_length=64,
            description="a part of their MsgId in hexadecimal, of their target or their sender",
        ),
    ] = ""
    due_from_ms: Annotated[_Moment | None, Meta(description="delivery times from this one on")] = (
        None
    )
    due_before_ms: Annotated[_Moment | None, Meta(description="delivery times before this one")] = (
        None
    )
    limit: _Limit = 20
    after: Annotated[
        Annotated[int, Meta(ge=-(2**63), le=_LAST_POSITION)] | None,
        Meta(title="a position of the schedule", description="``next`` of the page before"),
    ] = None


class Audited(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of changes."""

    limit: _Limit = 20
    after: Annotated[
        Annotated[int, Meta(ge=1, le=_LAST_POSITION)] | None,
        Meta(title="a place in the list", description="``next`` of the page before"),
    ] = None


class DelayedPage(Struct):
    """Delayed messages by delivery time."""

    messages: list[ScheduledJson]
    next: Next


class Changes(Struct):
    """The last changes of the schedule, the newest first."""

    changes: list[AuditJson]
    next: Next


class DelayedFilter(Struct, forbid_unknown_fields=True):
    """A filter of delayed messages: a message must match all fields."""

    queue: Annotated[str | UnsetType, Meta(description="their target")] = UNSET
    sender: Annotated[str | UnsetType, Meta(description="their UserIdentifier")] = UNSET
    due_from_ms: Annotated[int | UnsetType, Meta(description="ms since 1970, UTC")] = UNSET
    due_before_ms: Annotated[int | UnsetType, Meta(description="ms since 1970, UTC")] = UNSET
    properties: Annotated[
        dict[str, str], Meta(description="properties of the message, as text")
    ] = {}

    def as_filter(self) -> ScheduleFilter:
        """Return the filter for the engine; a missing field becomes None, which matches all."""
        return ScheduleFilter(
            _none_if_unset(self.queue),
            _none_if_unset(self.sender),
            tuple(self.properties.items()),
            _none_if_unset(self.due_from_ms),
            _none_if_unset(self.due_before_ms),
        )


def _none_if_unset(value: _T | UnsetType) -> _T | None:
    """Return a value; None if the JSON did not have the field."""
    return None if isinstance(value, UnsetType) else value


class NewTime(Struct, forbid_unknown_fields=True):
    """A new delivery time: give one of the two fields."""

    delay_ms: Annotated[int | UnsetType, Meta(description="ms from now")] = UNSET
    deliver_at_ms: Annotated[int | UnsetType, Meta(description="ms since 1970, UTC")] = UNSET


class DelayedChange(Struct, forbid_unknown_fields=True):
    """A change of all messages that match a filter; ``reschedule`` needs one of the three times."""

    action: Literal["cancel", "release", "reschedule"]
    where: Annotated[DelayedFilter, Meta(title="a filter")]
    all: Annotated[bool, Meta(description="an empty filter is meant: all delayed messages")] = False
    dry_run: Annotated[bool, Meta(description="messages are counted, and nothing changes")] = False
    delay_ms: Annotated[int | UnsetType, Meta(description="ms from now")] = UNSET
    deliver_at_ms: Annotated[int | UnsetType, Meta(description="ms since 1970, UTC")] = UNSET
    by_ms: Annotated[int | UnsetType, Meta(description="moves each delivery time, in ms")] = UNSET


class Receipted(Struct):
    """The receipt for a MsgId, and the number of messages under this MsgId that were changed.

    ``undo`` is the id of an undo of the change, null where there is none.
    """

    msg_id: str
    receipt: Receipt
    message_count: int
    undo: str | None


class ChangedMessages(Struct):
    """The number of messages that were changed, or would be.

    ``undo`` is the id of an undo of the change, null where there is none.
    """

    receipt: Receipt
    message_count: int
    dry_run: bool
    undo: str | None


class _Action(NamedTuple):
    """One kind of change of delayed messages: the receipt that means success, and its calls.

    ``one`` takes the schedule and a MsgId, ``many`` the schedule and a filter; both take the
    ``times`` that a request may have. One that ``keeps`` also takes ``kept``, which receives the
    messages for an undo.
    """

    receipt: Receipt
    one: Callable[..., Receipt]
    many: Callable[..., Iterator[int]]
    times: tuple[str, ...] = ()
    keeps: bool = False


#: By the word in the path.
ACTIONS: Final = {
    "cancel": _Action(
        Receipt.CANCELLED,
        SessionSchedule.cancel,
        SessionSchedule.cancel_all,
        keeps=True,
    ),
    "release": _Action(
        Receipt.RELEASED,
        SessionSchedule.release,
        SessionSchedule.release_all,
    ),
    "reschedule": _Action(
        Receipt.RESCHEDULED,
        SessionSchedule.reschedule,
        SessionSchedule.reschedule_all,
        ("delay_ms", "deliver_at_ms", "by_ms"),
    ),
}


def listed(call: Call[DelayedListing, None]) -> DelayedPage:
    """List delayed messages by delivery time.

    A page has at most ``limit`` messages; ``next`` is null on the last page. With ``find`` a page
    looks at 20,000 messages, so it may be short and still have a ``next``. ``property`` needs
    BROWSE on SYSTEM.DDELAY.LOCAL.QUEUE, unless ``sender`` is the user, and is audited.
    """
    asked = call.query
    if (asked.property_name is None) != (asked.value is None):
        raise HttpError(HTTPStatus.BAD_REQUEST, "property and value are given together, or neither")
    properties: tuple[tuple[str, str], ...] = ()
    if asked.property_name is not None and asked.value is not None:
        properties = ((asked.property_name, asked.value),)
    where = ScheduleFilter(
        asked.queue, asked.sender, properties, asked.due_from_ms, asked.due_before_ms
    )
    # A property is content: it takes the user's own authority, which the schedule asks.
    with call.authenticated.connection() if properties else call.connection() as connection:
        schedule = connection.session.schedule
        if asked.find:
            return _found(schedule, where, asked.find.lower(), asked.limit, asked.after)
        page = schedule.list(where, limit=asked.limit, after=asked.after)
        if properties and asked.after is None:
            detail = f"on the schedule property {asked.property_name}={asked.value}"
            audit(connection.session, "search", b"", detail, "searched", len(page))
    following = str(page[-1].position) if len(page) == asked.limit else None
    return DelayedPage([scheduled_as_json(one) for one in page], following)


def _found(
    schedule: SessionSchedule, where: ScheduleFilter, part: str, limit: int, after: int | None
) -> DelayedPage:
    """Return a page of delayed messages with a text in MsgId, target or sender.

    ``part`` is the text in lower case, ``limit`` the size of the page. ``after`` is the key at
    which the page before ended, None for the first page.
    """
    found = list[Scheduled]()
    for _ in range(_MOST_LOOKED_AT // _MAX):
        page = schedule.list(where, limit=_MAX, after=after)
        for one in page:
            after = one.position
            texts = one.msg_id.hex(), one.target.lower(), one.user_identifier.lower()
            if any(part in text for text in texts):
                found.append(one)
                if len(found) == limit:
                    return DelayedPage([scheduled_as_json(each) for each in found], str(after))
        if len(page) < _MAX:
            return DelayedPage([scheduled_as_json(each) for each in found], None)
    return DelayedPage([scheduled_as_json(each) for each in found], str(after))


def shown(call: Call[NoQuery, None]) -> Answered[ScheduledJson]:
    """Show the delayed message with a MsgId, with its ETag; of several, the next one due.

    404 if no such message is delayed.
    """
    msg_id = call.names["id"]
    with call.connection() as connection:
        found = Schedule(connection.call).show(msg_id)
    if found is None:
        text = f"no message {msg_id} waits for its delivery time"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    return Answered(scheduled_as_json(found), {"ETag": etag_of(found.position)})


def audited(call: Call[Audited, None]) -> Changes:
    """List the last changes of the schedule, with their users, the newest first.

    A change is a cancel, release or reschedule of delayed messages. A page has at most ``limit``
    changes; ``next`` is null on the last page.
    """
    limit, after = call.query.limit, call.query.after or _LAST_POSITION
    with call.connection() as connection:
        page = Schedule(connection.call).audit_before(after, limit)
    following = str(page[-1][0]) if len(page) == limit else None
    return Changes([audit_as_json(entry) for _number, entry in page], following)


def cancelled(call: Call[NoQuery, None]) -> Receipted:
    """Cancel all delayed messages with a MsgId: they are never delivered.

    For ten minutes ``undo`` delays them again. 404 if no such message is delayed, 409 if they have
    been delivered or an open unit of work has them.
    """
    return _change_one(call, ACTIONS["cancel"], {})


def released(call: Call[NoQuery, None]) -> Receipted:
    """Release all delayed messages with a MsgId now; they can be got when the answer comes.

    404 if no such message is delayed, 409 if they have been delivered or an open unit of work has
    them.
    """
    return _change_one(call, ACTIONS["release"], {})


def rescheduled(call: Call[NoQuery, NewTime]) -> Receipted:
    """Give the delayed messages that have this MsgId another delivery time.

    Returns what became of the request, with the number of messages. 404 if no such message is
    delayed, 409 if they have been delivered or an open unit of work has them.
    """
    action = ACTIONS["reschedule"]
    return _change_one(call, action, _times(call.body, ("delay_ms", "deliver_at_ms")))


def changed(call: Call[NoQuery, DelayedChange]) -> ChangedMessages:
    """Cancel, release or reschedule all delayed messages that match a filter.

    An empty filter is refused (400) without ``"all": true``. If the change fails for one message,
    no message is changed. The answer has the number of messages, 0 if none matches.
    """
    asked = call.body
    action, where = ACTIONS[asked.action], asked.where.as_filter()
    if where == ScheduleFilter() and not asked.all:
        raise HttpError(
            HTTPStatus.BAD_REQUEST, 'where is empty: {"all": true} means all delayed messages'
        )
    times = _times(asked, action.times)
    if not action.times and _times_given(asked, ACTIONS["reschedule"].times):
        text = f"action {asked.action!r} is not reschedule, and a time is given"
        raise HttpError(HTTPStatus.BAD_REQUEST, text)
    with call.connection() as connection:
        if asked.dry_run:
            return ChangedMessages(action.receipt, _count(where, connection), True, None)
        kept = KeptMessages() if action.keeps else None
        count = _change_many(action, where, times, connection, kept)
    return ChangedMessages(action.receipt, count, False, _undo_of(call, kept))


def _change_one(call: Call[Any, Any], action: _Action, times: Mapping[str, int]) -> Receipted:
    """Do ``action`` (cancel, release, reschedule) to the delayed messages with a path's MsgId.

    ``times`` has the new delivery time, for reschedule only. Returns the receipt (the kind of
    change) and the number of messages. Raises HttpError if no message was changed: 404 for an
    unknown MsgId, 409 otherwise.
    """
    msg_id = call.names["id"]
    kept = KeptMessages() if action.keeps else None
    more = {} if kept is None else {"kept": kept}
    with call.connection() as connection:
        receipt = action.one(_schedule_if_match(call, connection), msg_id, **times, **more)
        if receipt == Receipt.RELEASED:
            # It can be got when the answer comes.
            Administration(connection.call).run_due()
    if receipt == action.receipt:
        undo = _undo_of(call, kept)
        return Receipted(msg_id, action.receipt, receipt.message_count, undo)
    is_known = receipt != Receipt.UNKNOWN
    status = HTTPStatus.CONFLICT if is_known else HTTPStatus.NOT_FOUND
    text = f"message {msg_id}: {receipt}"
    raise HttpError(status, text, msg_id=msg_id, receipt=receipt)


def _undo_of(call: Call[Any, Any], kept: KeptMessages | None) -> str | None:
    """Return the id of an undo of a cancel; None if none of its messages is kept."""
    if kept is None or not kept.found:
        return None
    found = kept.found

    def run(engine: Engine, session: Session) -> Receipts:
        return undo_cancel(engine, session, found)

    data_bytes = sum(len(row.body) for _queue, row, _persistence in found)
    user = call.authenticated.admitted.user
    return call.service.undos.add(call.manager.name, user, run, data_bytes)


def _schedule_if_match(call: Call[Any, Any], connection: LocalConnection) -> SessionSchedule:
    """Return a schedule whose changes apply only to the message that If-Match names.

    Without If-Match, or if no message has the MsgId, the schedule has no such restriction. Raises
    HttpError (412) if the ETag is that of another message.
    """
    schedule = connection.session.schedule
    if not is_conditional(call.request):
        return schedule
    found = schedule.show(call.names["id"])
    if found is None:
        # Its receipt says more than the ETag.
        return schedule
    check_match(call.request, etag_of(found.position))
    return schedule.at(found.position)


def _change_many(
    action: _Action,
    where: ScheduleFilter,
    times: Mapping[str, int],
    connection: LocalConnection,
    kept: KeptMessages | None,
) -> int:
    """Do ``action`` (cancel, release, reschedule) to all delayed messages that match a filter.

    ``times`` has the new delivery time, for reschedule only; ``kept`` is for cancel only. Returns
    the number of messages. Released messages can be got on return.
    """
    more = {} if kept is None else {"kept": kept}
    counts = list(action.many(connection.session.schedule, where, **times, **more))
    if action.receipt is Receipt.RELEASED:
        Administration(connection.call).run_due()
    return counts[-1] if counts else 0


def _count(where: ScheduleFilter, connection: LocalConnection) -> int:
    """Return the number of delayed messages that match a filter; change nothing."""
    count, after = 0, None
    while page := Schedule(connection.call).list(where, limit=_MAX, after=after):
        count, after = count + len(page), page[-1].position
    return count


def _times(given: NewTime | DelayedChange, names: tuple[str, ...]) -> dict[str, int]:
    """Return the one time in a body, in ms by its name; {} if ``names`` is empty.

    Raises HttpError (400) if the body has none of the names or several.
    """
    found = _times_given(given, names)
    if names and len(found) != 1:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the body has not one of {', '.join(names)}")
    return found


def _times_given(given: NewTime | DelayedChange, names: tuple[str, ...]) -> dict[str, int]:
    """Return the times that a body has, of those in ``names``, in ms by name."""
    return {name: value for name in names if (value := getattr(given, name)) is not UNSET}


_PATH: Final = f"{OF_MANAGER}/schedule"
_NONE: Final = {HTTPStatus.NOT_FOUND: "no such message waits for its delivery time"}
_ONE: Final = {
    **_NONE,
    **MATCH_PROBLEMS,
    HTTPStatus.CONFLICT: "it has left, or an open unit of work has it",
}


def _change_operation(word: str, handler: Callable[..., Receipted]) -> Operation:
    """Return the operation ``POST …/schedule/{id}/WORD`` for a word such as ``cancel``."""
    path = f"{_PATH}/{{id}}/{word}"
    return Operation("POST", path, handler, Role.OPERATE, problems=_ONE, headers=IF_MATCH)


OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.LOOK),
    Operation("POST", _PATH, changed, Role.OPERATE),
    Operation("GET", f"{_PATH}/audit", audited, Role.LOOK),
    Operation("GET", f"{_PATH}/{{id}}", shown, Role.LOOK, problems=_NONE, has_etag=True),
    _change_operation("cancel", cancelled),
    _change_operation("release", released),
    _change_operation("reschedule", rescheduled),
)

"""The verbs of an operator, carried out: the schedule, administration, claims, the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeAlias

from mayfly.connection import LocalConnection, ScheduleVerbs
from mayfly.connection.values import ScheduleFilter
from mayfly.connection.wire_values import row_of_script
from mayfly.contracts.wire_verbs import Verb
from mayfly.engine import PropertyQuestion
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.ledger import PositionTrimmed

#: A page is one frame, of half a megabyte at most.
MOST_LEDGER_ROWS: Final = 1_000


class Streams:
    """Changes of the schedule that go on step by step, by number, while a client asks for more."""

    #: So many may be open on a conversation; one more ends the oldest.
    _MOST = 16

    def __init__(self) -> None:
        """Begin with none."""
        self._by_number: dict[int, Iterator[int]] = {}
        self._last_number = 0
        #: Whether changes are part of the unit of work.
        self.are_in_unit = False

    def add(self, progress: Iterator[int]) -> int:
        """Return the number of a new one."""
        if len(self._by_number) >= self._MOST:
            del self._by_number[next(iter(self._by_number))]
        self._last_number += 1
        self._by_number[self._last_number] = progress
        return self._last_number

    def next_of(self, number: int) -> int | None:
        """Go on with one; None when it is over. Raises MQRC_OPTIONS_ERROR for a wrong number."""
        progress = self._by_number.get(number)
        if progress is None:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"number: no change of the schedule is {number}")
        done_count = next(progress, None)
        if done_count is None:
            del self._by_number[number]
        return done_count


class Caller(Protocol):
    """A conversation, as verbs use it."""

    connection: LocalConnection
    streams: Streams

    def begin_unit_of_work(self) -> None:
        """Note when its unit of work has begun."""

    def end_unit_of_work(self) -> None:
        """Note that the next unit of work has not begun."""

    def check_neighbour(self, number: int) -> None:
        """Raise MQRC_UOW_NOT_AVAILABLE unless a conversation shares this connection."""


#: Takes the fields of a request and returns the answer as it travels; raises MQError.
Runs: TypeAlias = Callable[[Caller, list[Any]], Any]


def _schedule_list(conversation: Caller, fields: list[Any]) -> Any:
    where, limit, after = fields
    return conversation.connection.schedule.list(_filter(where), limit=limit, after=after)


def _schedule_show(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.schedule.show(*fields)


def _schedule_count(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.schedule.count(*fields)


def _schedule_syncpoint(conversation: Caller, fields: list[Any]) -> None:
    [conversation.streams.are_in_unit] = fields


def _changed(conversation: Caller) -> ScheduleVerbs:
    """Return the schedule for a change, as the client has said that it makes changes."""
    if not conversation.streams.are_in_unit:
        return conversation.connection.schedule
    conversation.begin_unit_of_work()
    return conversation.connection.schedule_in_unit


def _schedule_cancel(conversation: Caller, fields: list[Any]) -> Any:
    return _changed(conversation).cancel(*fields)


def _schedule_reschedule(conversation: Caller, fields: list[Any]) -> Any:
    msg_id, delay_ms, deliver_at_ms = fields
    schedule = _changed(conversation)
    return schedule.reschedule(msg_id, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms)


def _schedule_release(conversation: Caller, fields: list[Any]) -> Any:
    return _changed(conversation).release(*fields)


def _counted(runs: Runs) -> Runs:
    """Return a change by MsgId that answers with the number of messages as well."""

    def run(conversation: Caller, fields: list[Any]) -> Any:
        receipt = runs(conversation, fields)
        return receipt, receipt.message_count

    return run


def _schedule_cancel_all(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.streams.add(_changed(conversation).cancel_all(_filter(fields[0])))


def _schedule_reschedule_all(conversation: Caller, fields: list[Any]) -> Any:
    where, delay_ms, deliver_at_ms, by_ms = fields
    progress = _changed(conversation).reschedule_all(
        _filter(where), delay_ms=delay_ms, deliver_at_ms=deliver_at_ms, by_ms=by_ms
    )
    return conversation.streams.add(progress)


def _schedule_release_all(conversation: Caller, fields: list[Any]) -> Any:
    progress = _changed(conversation).release_all(_filter(fields[0]))
    return conversation.streams.add(progress)


def _schedule_next(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.streams.next_of(*fields)


def _schedule_audit(conversation: Caller, fields: list[Any]) -> Any:
    return list(conversation.connection.schedule.audit(*fields))


def _filter(row: list[Any]) -> ScheduleFilter:
    queue, sender, properties, due_from_ms, due_before_ms = row
    pairs = tuple((name, value) for name, value in properties)
    return ScheduleFilter(queue, sender, pairs, due_from_ms, due_before_ms)


def _mqsc(conversation: Caller, fields: list[Any]) -> Any:
    return row_of_script(conversation.connection.admin.mqsc(*fields))


def _counts(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.admin.counts(*fields)


def _curdepth(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.admin.curdepth(*fields)


def _why(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.admin.why(*fields)


def _story(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.admin.stories.of(*fields)


def _stories(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.admin.stories.with_property(PropertyQuestion(*fields))


def _verify(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.admin.verify()


def _delay_processor_status(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.admin.delay_processor_status()


def _own_time(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.admin.own_time()


def _follow_wall(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.admin.follow_wall()


def _run_due(conversation: Caller, _fields: list[Any]) -> Any:
    conversation.connection.admin.run_due()


def _advance_clock(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.admin.advance_clock(*fields)


def _claims_instance(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.claims.instance_id


def _claims_standings(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.claims.standings()


def _claims_end_written(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.claims.end_written(*fields)


def _claims_release(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.claims.release(*fields)


def _ledger_first(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.admin.ledger.first_position()


def _ledger_page(conversation: Caller, fields: list[Any]) -> Any:
    after_position, max_rows = fields
    if max_rows < 1:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"max_rows: {max_rows} is less than 1")
    ledger = conversation.connection.admin.ledger
    try:
        return ledger.page(after_position, min(max_rows, MOST_LEDGER_ROWS)), None
    except PositionTrimmed as trimmed:
        return [], trimmed.first_position


OPERATING: dict[int, Runs] = {
    Verb.SCHEDULE_LIST: _schedule_list,
    Verb.SCHEDULE_SHOW: _schedule_show,
    Verb.SCHEDULE_COUNT: _schedule_count,
    Verb.SCHEDULE_CANCEL: _schedule_cancel,
    Verb.SCHEDULE_RESCHEDULE: _schedule_reschedule,
    Verb.SCHEDULE_RELEASE: _schedule_release,
    Verb.SCHEDULE_CANCEL_COUNTED: _counted(_schedule_cancel),
    Verb.SCHEDULE_RESCHEDULE_COUNTED: _counted(_schedule_reschedule),
    Verb.SCHEDULE_RELEASE_COUNTED: _counted(_schedule_release),
    Verb.SCHEDULE_CANCEL_ALL: _schedule_cancel_all,
    Verb.SCHEDULE_RESCHEDULE_ALL: _schedule_reschedule_all,
    Verb.SCHEDULE_RELEASE_ALL: _schedule_release_all,
    Verb.SCHEDULE_NEXT: _schedule_next,
    Verb.SCHEDULE_AUDIT: _schedule_audit,
    Verb.SCHEDULE_SYNCPOINT: _schedule_syncpoint,
    Verb.MQSC: _mqsc,
    Verb.COUNTS: _counts,
    Verb.CURDEPTH: _curdepth,
    Verb.WHY: _why,
    Verb.STORY: _story,
    Verb.STORIES: _stories,
    Verb.VERIFY: _verify,
    Verb.DELAY_PROCESSOR_STATUS: _delay_processor_status,
    Verb.OWN_TIME: _own_time,
    Verb.FOLLOW_WALL: _follow_wall,
    Verb.RUN_DUE: _run_due,
    Verb.ADVANCE_CLOCK: _advance_clock,
    Verb.CLAIMS_INSTANCE: _claims_instance,
    Verb.CLAIMS_STANDINGS: _claims_standings,
    Verb.CLAIMS_END_WRITTEN: _claims_end_written,
    Verb.CLAIMS_RELEASE: _claims_release,
    Verb.LEDGER_FIRST: _ledger_first,
    Verb.LEDGER_PAGE: _ledger_page,
}

"""Functions of a server, by the type of the request that each carries out on a conversation.

A request of :data:`AT_ONCE` neither waits nor syncs: it is carried out in the loop of the server.
One that may wait or sync has a callback form in :data:`BEGUN`, or runs on a thread that may block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

from mayfly.connection import LocalConnection, ScheduleVerbs
from mayfly.connection.interface import UnderWay
from mayfly.connection.local_puts import PutTarget, SeveralPuts
from mayfly.connection.values import NewMessage, PutOutcome, check_most
from mayfly.contracts.wire import MOST_GOT_BYTES, MOST_GOT_IN_FRAME
from mayfly.contracts.wire_fields import (
    WrongFrame,
    decoded,
    descriptor_of,
    numbers_of,
)
from mayfly.engine import PropertyQuestion, Receipt, ScheduleFilter
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.store.ledger import PositionTrimmed
from mayfly.verbs import requests as ask
from mayfly.verbs.rows import (
    FailedPut,
    GetRow,
    MessageRow,
    PutRow,
    PutsRow,
    properties_of,
    row_of_delivery,
    row_of_message,
    row_of_put,
    row_of_result,
    scalar_of,
)

#: MsgIds for one request: they are made in the loop.
_MOST_IDS: Final = 256
#: A page is one frame, of half a megabyte at most.
MOST_LEDGER_ROWS: Final = 1_000
_SYNCPOINT_GETS: Final = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT


class Streams:
    """Changes of the schedule that go on step by step, by number, while a client asks for more."""

    #: So many may be open on a conversation; one more ends the oldest.
    _MOST = 16

    def __init__(self) -> None:
        """Begin with none."""
        self._by_number: dict[int, Iterator[int]] = {}
        self._last_number = 0

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
    """A conversation, as the functions here use it."""

    connection: LocalConnection
    streams: Streams

    def begin_unit_of_work(self) -> None:
        """Note when its unit of work has begun."""

    def end_unit_of_work(self) -> None:
        """Note that the next unit of work has not begun."""

    def check_neighbour(self, number: int) -> None:
        """Raise MQRC_UOW_NOT_AVAILABLE unless a conversation shares this connection."""


class Tell(Protocol):
    """Takes the outcome of a request that was begun; any thread calls it."""

    def __call__(self, outcome: Any, /) -> object:
        """Take the outcome, once: the answer as it travels, or MQError."""

    def refused(self, handle: int, error: MQError) -> object:
        """Take the refusal of a queue that the request cannot get from; it goes on."""


#: Carries out a request and returns the answer as it travels; raises MQError, WrongFrame.
Runs: TypeAlias = Callable[[Caller, Any], Any]
#: Begins a request. Returns its answer, alone in a tuple, or what is under way, whose outcome Tell
#: will take. Raises MQError, WrongFrame.
Begins: TypeAlias = Callable[[Caller, Any, Tell], tuple[Any] | UnderWay]


# Puts


def _put(conversation: Caller, put: ask.Put, tell: Tell) -> tuple[Any] | UnderWay:
    if put.options & c.MQPMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    calls = conversation.connection.calls
    result, completion = calls.attempt_put(
        PutTarget(put.handle, descriptor_of(put.descriptor), put.options, put.context),
        _new_message(put),
    )
    if completion.is_empty:
        return (row_of_put(result),)
    return calls.end_with(
        completion,
        lambda outcome: tell(outcome if isinstance(outcome, MQError) else row_of_put(outcome)),
        result,
    )


def _puts(conversation: Caller, puts: ask.Puts, tell: Tell) -> tuple[Any] | UnderWay:
    """Begin to put several messages to one object, each by itself: a wrong one stops no other."""
    if puts.options & c.MQPMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    target = PutTarget(puts.handle, descriptor_of(puts.descriptor), puts.options, puts.context)
    several = SeveralPuts(conversation.connection.calls, target)
    for message in puts.messages:
        try:
            new = _new_message(decoded(ask.NewMessageRow, bytes(message), "put"))
        except WrongFrame as wrong:
            several.refuse(mq_error(ask.reason_of(ask.Put, wrong.field), str(wrong)))
        else:
            several.put(new)
    has_results = not puts.options & c.MQPMO_ASYNC_RESPONSE
    under_way = several.end_with(lambda outcomes: tell(_outcomes(outcomes, has_results)))
    return (_outcomes(several.outcomes, has_results),) if under_way is None else under_way


def _new_message(put: ask.Put | ask.NewMessageRow) -> NewMessage:
    return NewMessage(
        put.body,
        put.msg_id,
        put.correl_id,
        put.expiry_tenths,
        put.time_to_live_ms,
        put.delay_ms,
        properties_of(put.properties) if put.properties else (),
    )


def _outcomes(outcomes: Sequence[PutOutcome], has_results: bool) -> PutsRow:
    failed = [
        FailedPut(place, failure_of(outcome))
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, MQError)
    ]
    results = [
        None if isinstance(outcome, MQError) else row_of_put(outcome)
        for outcome in (outcomes if has_results else ())
    ]
    return PutsRow(results, failed)


def _put1(conversation: Caller, put: ask.Put1) -> PutRow | None:
    if put.options & c.MQPMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    result = conversation.connection.put1(
        put.name,
        put.body,
        descriptor_of(put.descriptor),
        put.options,
        kind=put.kind,
        manager=put.manager,
        topic=put.topic,
        msg_id=put.msg_id,
        correl_id=put.correl_id,
        time_to_live_ms=put.time_to_live_ms,
        delay_ms=put.delay_ms,
    )
    return row_of_put(result)


def _new_ids(conversation: Caller, asked: ask.NewIds) -> ask.Ids:
    count = min(max(asked.count, 1), _MOST_IDS)
    connection = conversation.connection
    return ask.Ids(connection.now_ms(), b"".join(connection.got_messages.new_ids(count)))


# Gets


def _get(conversation: Caller, get: ask.Get, tell: Tell) -> tuple[Any] | UnderWay:
    if get.options & _SYNCPOINT_GETS:
        conversation.begin_unit_of_work()
    standing = conversation.connection.calls.prepare_fetch(
        get.handle,
        get.options,
        on_done=lambda outcome: tell(
            outcome if isinstance(outcome, MQError) else row_of_result(outcome)
        ),
        wait_ms=get.wait_ms,
        max_length=get.max_length,
        msg_id=get.msg_id,
        correl_id=get.correl_id,
        group_id=get.group_id,
        sequence_number=get.sequence_number,
        offset=get.offset,
        token=get.token,
        in_handle=get.in_handle,
        with_extension=get.with_extension,
    )
    outcome = standing.begin_at_once()
    if outcome is None:
        return standing
    if isinstance(outcome, MQError):
        raise outcome
    return (row_of_result(outcome),)


def _get_at_cursor(conversation: Caller, get: ask.Get) -> GetRow:
    if get.options & _SYNCPOINT_GETS:
        conversation.begin_unit_of_work()
    result = conversation.connection.get(
        get.handle,
        get.options,
        wait_ms=get.wait_ms,
        max_length=get.max_length,
        msg_id=get.msg_id,
        correl_id=get.correl_id,
        group_id=get.group_id,
        sequence_number=get.sequence_number,
        offset=get.offset,
        token=get.token,
        in_handle=get.in_handle,
        with_extension=get.with_extension,
    )
    return row_of_result(result)


def _get_many(conversation: Caller, get: ask.GetMany) -> list[MessageRow]:
    if get.options & c.MQGMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    check_most(get.most)
    most, most_bytes = min(get.most, MOST_GOT_IN_FRAME), min(get.most_bytes, MOST_GOT_BYTES)
    found = conversation.connection.many.get(get.handle, get.options, most, most_bytes)
    return [row_of_message(message) for message in found]


def _get_any(conversation: Caller, get: ask.GetAny, tell: Tell) -> UnderWay:
    if get.options & c.MQGMO_SYNCPOINT:
        conversation.begin_unit_of_work()
    return conversation.connection.asynchronous.get_any(
        numbers_of(get.handles, "handles"),
        get.options,
        on_done=lambda outcome: tell(
            outcome if isinstance(outcome, MQError) else row_of_delivery(outcome)
        ),
        wait_ms=get.wait_ms,
        max_length=get.max_length,
        msg_id=get.msg_id,
        correl_id=get.correl_id,
        on_refused=tell.refused if get.tells_refusals else None,
    )


def _settle(conversation: Caller, asked: ask.Settle, tell: Tell) -> UnderWay:
    if asked.within:
        conversation.check_neighbour(asked.within)
    return conversation.connection.asynchronous.settle(
        numbers_of(asked.deliveries, "deliveries"),
        asked.settlement,
        reason=asked.reason,
        within=asked.within,
        on_done=tell,
    )


# The unit of work, and messages that it has got


def _commit(conversation: Caller, _asked: ask.Commit, tell: Tell) -> UnderWay:
    conversation.end_unit_of_work()
    return conversation.connection.asynchronous.commit(tell)


def _backout(conversation: Caller, _asked: ask.Backout) -> None:
    conversation.end_unit_of_work()
    conversation.connection.backout()


def _forward(conversation: Caller, asked: ask.Forward) -> None:
    got = conversation.connection.got_messages
    # As in one process the name is looked at before the message.
    got.check_target(asked.name)
    got.forward(got.found(asked.queue, asked.token), asked.name)


def _dead_letter(conversation: Caller, asked: ask.DeadLetter) -> None:
    got = conversation.connection.got_messages
    got.dead_letter(got.found(asked.queue, asked.token), asked.reason)


def _report_exception(conversation: Caller, asked: ask.ReportException) -> bool:
    got = conversation.connection.got_messages
    return got.report_exception(got.found(asked.queue, asked.token), asked.reason)


def _move(conversation: Caller, asked: ask.Move) -> int:
    conversation.begin_unit_of_work()
    return conversation.connection.onward.move(
        asked.handle,
        asked.name,
        descriptor=None if asked.descriptor is None else descriptor_of(asked.descriptor),
        header_bytes=asked.header_bytes,
        putter=asked.putter,
    )


def _reply(conversation: Caller, asked: ask.Reply) -> int:
    conversation.begin_unit_of_work()
    return conversation.connection.onward.reply(
        asked.name,
        asked.manager,
        asked.body,
        descriptor_of(asked.descriptor),
        putter=asked.putter,
        msg_id=asked.msg_id,
        correl_id=asked.correl_id,
        time_to_live_ms=asked.time_to_live_ms,
    )


# Objects and topics


def _open(conversation: Caller, asked: ask.Open) -> ask.Opened:
    return conversation.connection.open(
        asked.name,
        asked.options,
        kind=asked.kind,
        manager=asked.manager,
        topic=asked.topic,
        dynamic_name=asked.dynamic_name,
        selector=asked.selector,
        alternate_user=asked.alternate_user,
    )


def _set(conversation: Caller, asked: ask.Set) -> None:
    values = {selector: scalar_of(value, "values") for selector, value in asked.values}
    conversation.connection.objects.set(asked.handle, values)


def _subscribe(conversation: Caller, asked: ask.Subscribe) -> ask.Subscribed:
    return conversation.connection.topics.subscribe(
        asked.options,
        topic=asked.topic,
        topic_object=asked.topic_object,
        name=asked.name,
        queue=asked.queue,
        selector=asked.selector,
        user_data=asked.user_data,
        correl_id=asked.correl_id,
        expiry_tenths=asked.expiry_tenths,
        priority=asked.priority,
        altered=asked.altered,
        held=asked.held,
    )


def _join(conversation: Caller, asked: ask.JoinSubscription) -> ask.Subscribed:
    return conversation.connection.topics.join(
        asked.topic,
        name=asked.name,
        is_durable=asked.is_durable,
        is_shared=asked.is_shared,
        no_local=asked.no_local,
        selector=asked.selector,
    )


# The schedule


def _schedule(conversation: Caller, in_unit: bool) -> ScheduleVerbs:
    """Return the schedule for a change, durable at once or part of the unit of work."""
    if not in_unit:
        return conversation.connection.schedule
    conversation.begin_unit_of_work()
    return conversation.connection.schedule_in_unit


def _filter(where: ask.Filter) -> ScheduleFilter:
    return ScheduleFilter(
        where.queue,
        where.sender,
        tuple(where.properties),
        where.due_from_ms,
        where.due_before_ms,
    )


def _row_of_receipt(receipt: Receipt) -> ask.ReceiptRow:
    return ask.ReceiptRow(receipt, receipt.message_count)


def _cancel_scheduled(conversation: Caller, asked: ask.CancelScheduled) -> ask.ReceiptRow:
    return _row_of_receipt(_schedule(conversation, asked.in_unit).cancel(asked.msg_id))


def _release_scheduled(conversation: Caller, asked: ask.ReleaseScheduled) -> ask.ReceiptRow:
    return _row_of_receipt(_schedule(conversation, asked.in_unit).release(asked.msg_id))


def _reschedule(conversation: Caller, asked: ask.Reschedule) -> ask.ReceiptRow:
    receipt = _schedule(conversation, asked.in_unit).reschedule(
        asked.msg_id, delay_ms=asked.delay_ms, deliver_at_ms=asked.deliver_at_ms
    )
    return _row_of_receipt(receipt)


def _cancel_all(conversation: Caller, asked: ask.CancelAll) -> int:
    progress = _schedule(conversation, asked.in_unit).cancel_all(_filter(asked.where))
    return conversation.streams.add(progress)


def _release_all(conversation: Caller, asked: ask.ReleaseAll) -> int:
    progress = _schedule(conversation, asked.in_unit).release_all(_filter(asked.where))
    return conversation.streams.add(progress)


def _reschedule_all(conversation: Caller, asked: ask.RescheduleAll) -> int:
    progress = _schedule(conversation, asked.in_unit).reschedule_all(
        _filter(asked.where),
        delay_ms=asked.delay_ms,
        deliver_at_ms=asked.deliver_at_ms,
        by_ms=asked.by_ms,
    )
    return conversation.streams.add(progress)


# Administration


def _run_mqsc(conversation: Caller, asked: ask.RunMqsc) -> ask.ScriptRow:
    result = conversation.connection.admin.mqsc(asked.script)
    return ask.ScriptRow(
        result.text,
        [
            ask.CommandRow(
                command.number,
                command.command,
                [
                    ask.ReplyRow(m.code, m.text, m.body, m.reason, m.line, m.column)
                    for m in command.messages
                ],
                list(command.rows),
            )
            for command in result.commands
        ],
    )


def _read_ledger(conversation: Caller, asked: ask.ReadLedger) -> ask.LedgerPage:
    if asked.max_rows < 1:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"max_rows: {asked.max_rows} is less than 1")
    ledger = conversation.connection.admin.ledger
    try:
        rows = ledger.page(asked.after_position, min(asked.max_rows, MOST_LEDGER_ROWS))
    except PositionTrimmed as trimmed:
        return ask.LedgerPage([], trimmed.first_position)
    return ask.LedgerPage(rows, None)


def _stories(conversation: Caller, asked: ask.Stories) -> Any:
    question = PropertyQuestion(
        asked.name, asked.value, asked.from_ms, asked.before_ms, asked.limit
    )
    return conversation.connection.admin.stories.with_property(question)


AT_ONCE: Final[dict[type[ask.Request[Any]], Runs]] = {
    ask.Unlock: lambda on, asked: on.connection.unlock(asked.handle, asked.options),
    ask.AskStatus: lambda on, _asked: on.connection.status(),
    ask.Inquire: lambda on, asked: on.connection.objects.inquire(asked.handle, asked.selectors),
    ask.AskLivesFromRelease: lambda on, asked: on.connection.objects.lives_from_release(
        asked.handle
    ),
    ask.AskBackoutRule: lambda on, asked: on.connection.objects.backout_rule(asked.handle),
    ask.AskCommandLevel: lambda on, _asked: on.connection.objects.command_level(),
    ask.NewIds: _new_ids,
    ask.Now: lambda on, _asked: on.connection.now_ms(),
}
BEGUN: Final[dict[type[ask.Request[Any]], Begins]] = {
    ask.Put: _put,
    ask.Puts: _puts,
    ask.Get: _get,
    ask.GetAny: _get_any,
    ask.WaitUntil: lambda on, asked, tell: on.connection.asynchronous.wait_until(
        asked.moment_ms, on_done=tell
    ),
    ask.AwaitDefinitions: lambda on, _asked, tell: on.connection.asynchronous.await_definitions(
        on_done=tell
    ),
    ask.Commit: _commit,
    ask.Settle: _settle,
}
#: Get is here, too: one under the cursor never waits, and may sync.
BLOCKING: Final[dict[type[ask.Request[Any]], Runs]] = {
    ask.Open: _open,
    ask.CloseObject: lambda on, asked: on.connection.close_object(asked.handle, asked.options),
    ask.Get: _get_at_cursor,
    ask.GetMany: _get_many,
    ask.Backout: _backout,
    ask.Set: _set,
    ask.Put1: _put1,
    ask.Forward: _forward,
    ask.Move: _move,
    ask.Reply: _reply,
    ask.DeadLetter: _dead_letter,
    ask.ReportException: _report_exception,
    ask.Subscribe: _subscribe,
    ask.CloseSubscription: lambda on, asked: on.connection.topics.close(
        asked.number, remove=asked.remove
    ),
    ask.RequestRetained: lambda on, asked: on.connection.topics.request_retained(asked.number),
    ask.JoinSubscription: _join,
    ask.IsSubscriptionOpen: lambda on, asked: on.connection.topics.is_open(asked.number),
    ask.RemoveSubscription: lambda on, asked: on.connection.topics.remove(asked.name),
    ask.BelongTo: lambda on, asked: on.connection.topics.belong_to(asked.owner),
    ask.ClaimClientId: lambda on, asked: on.connection.topics.claim(asked.client_id),
    ask.MakeTemporaryTopic: lambda on, _asked: on.connection.topics.make_temporary(),
    ask.DeleteTemporaryTopic: lambda on, asked: on.connection.topics.delete_temporary(asked.topic),
    ask.ListSchedule: lambda on, asked: on.connection.schedule.list(
        _filter(asked.where), limit=asked.limit, after=asked.after
    ),
    ask.ShowScheduled: lambda on, asked: on.connection.schedule.show(asked.msg_id),
    ask.CountScheduled: lambda on, asked: on.connection.schedule.count(asked.queue),
    ask.CancelScheduled: _cancel_scheduled,
    ask.Reschedule: _reschedule,
    ask.ReleaseScheduled: _release_scheduled,
    ask.CancelAll: _cancel_all,
    ask.RescheduleAll: _reschedule_all,
    ask.ReleaseAll: _release_all,
    ask.GoOn: lambda on, asked: on.streams.next_of(asked.number),
    ask.Audit: lambda on, asked: list(on.connection.schedule.audit(asked.limit)),
    ask.RunMqsc: _run_mqsc,
    ask.AskCounts: lambda on, asked: on.connection.admin.counts(asked.queue),
    ask.AskCurdepth: lambda on, asked: on.connection.admin.curdepth(asked.queue),
    ask.Why: lambda on, asked: on.connection.admin.why(asked.identifier),
    ask.Story: lambda on, asked: on.connection.admin.stories.of(asked.identifier),
    ask.Stories: _stories,
    ask.Verify: lambda on, _asked: on.connection.admin.verify(),
    ask.AskDelayProcessorStatus: lambda on, _asked: on.connection.admin.delay_processor_status(),
    ask.AskOwnTime: lambda on, _asked: on.connection.admin.own_time(),
    ask.FollowWall: lambda on, _asked: on.connection.admin.follow_wall(),
    ask.RunDue: lambda on, _asked: on.connection.admin.run_due(),
    ask.AdvanceClock: lambda on, asked: on.connection.admin.advance_clock(asked.ms),
    ask.AskInstance: lambda on, _asked: on.connection.claims.instance_id,
    ask.ListConsumers: lambda on, _asked: on.connection.claims.standings(),
    ask.EndWritten: lambda on, asked: on.connection.claims.end_written(asked.consumer, asked.until),
    ask.ReleaseClaims: lambda on, asked: on.connection.claims.release(asked.consumer),
    ask.AskFirstPosition: lambda on, _asked: on.connection.admin.ledger.first_position(),
    ask.ReadLedger: _read_ledger,
}

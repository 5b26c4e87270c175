"""The functions of a connection in this process, by the type of the request.

A function in :data:`CALLS` carries a request out and returns its answer; it may wait. One in
:data:`BEGUN` begins it, and the answer is told. One in :data:`HERE` is for a loop that must not
wait: it returns the answer alone in a tuple where that is decided at once. All raise MQError for
what is wrong with the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from mayfly.connection.interface import DECIDED, OnDone, OnRefused, UnderWay
from mayfly.connection.objects import AnyHandle, OpenObjects, not_open_here
from mayfly.contracts.claims import ConsumerState
from mayfly.contracts.ledger import PositionTrimmed
from mayfly.contracts.reasons import CONSUMER_UNKNOWN
from mayfly.contracts.wire_fields import descriptor_of
from mayfly.engine import (
    GetRequest,
    Handle,
    Match,
    PutRequest,
    Session,
    check_forward_target,
    forward,
    full_name,
    move_under_cursor,
    new_message_id,
    put_dead_letter,
    put_reply,
    report_exception,
    set_aside,
)
from mayfly.engine.face.bulk import ClaimError
from mayfly.engine.face.programs import (
    ANY,
    DEFINITION_KINDS,
    Completion,
    DefinitionHandle,
    OpenSubscription,
    Room,
    Schedule,
    StandingGet,
    StandingWaits,
    SubscriptionWanted,
    TopicHandle,
    UnitOfWork,
    check_get_options,
    claim_client_id,
    delete_temporary_topic,
    facts_of,
    get_many,
    got_in,
    has_lives_from_release,
    inquire,
    inquire_itself,
    is_subscribed_to,
    make_temporary_topic,
    open_durable,
    remove_idle,
    set_attributes,
    subscribe_as,
    with_properties,
)
from mayfly.lifetime.window import check_life_ms, life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_most
from mayfly.verbs.facts import Inquiry
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.requests import BackoutRule, Opened, Subscribed
from mayfly.verbs.rows import properties_of, scalar_of
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from mayfly.verbs.stories import PropertyQuestion, StoriesFound, Whereabouts

_T = TypeVar("_T")
#: The sessions of the conversations of this process, by number.
_sessions: WeakValueDictionary[int, Session] = WeakValueDictionary()
#: So many changes of many delayed messages may be open; one more ends the oldest.
_MOST_STEPS: Final = 16
#: MQPUT1 opens no queue whose context could be passed on.
_NOT_FOR_PUT1 = c.MQPMO_ASYNC_RESPONSE | c.MQPMO_PASS_IDENTITY_CONTEXT | c.MQPMO_PASS_ALL_CONTEXT
#: With these alone a publication needs no open topic.
_OF_PLAIN_PUBLISHING = {
    syncpoint | retain
    for syncpoint in (c.MQPMO_NONE, c.MQPMO_SYNCPOINT, c.MQPMO_NO_SYNCPOINT)
    for retain in (c.MQPMO_NONE, c.MQPMO_RETAIN)
}
_SETS_CONTEXT = c.MQPMO_SET_IDENTITY_CONTEXT | c.MQPMO_SET_ALL_CONTEXT
_OF_MANY = (
    c.MQGMO_SYNCPOINT
    | c.MQGMO_NO_SYNCPOINT
    | c.MQGMO_FAIL_IF_QUIESCING
    | c.MQGMO_PROPERTIES_FORCE_MQRFH2
)


class Program:
    """A session, and everything that a connection has open on it."""

    def __init__(self, session: Session, manager: QueueManager) -> None:
        """Take the session, with nothing open."""
        self.session, self.manager, self.core = session, manager, session.core
        self.objects = OpenObjects()
        self.standing = StandingWaits(session.core)
        self.numbers = count(1)
        self.subscriptions: dict[int, OpenSubscription] = {}
        self.temporary_topics: set[str] = set()
        #: Changes of the schedule that go on step by step, by number.
        self.steps: dict[int, Iterator[int]] = {}
        _sessions[session.number] = session

    @property
    def admin(self) -> QueueManager:
        """The verbs of an operator; MQRC_NOT_AUTHORIZED for a user with limited authority."""
        if self.session.authority is not None:
            said = "a user of limited authority administers nothing"
            raise mq_error(rc.MQRC_NOT_AUTHORIZED, said)
        return self.manager

    def subscription(self, number: int) -> OpenSubscription:
        """Return an open subscription; raises MQRC_HOBJ_ERROR."""
        found = self.subscriptions.get(number)
        if found is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return found

    def enter_subscription(self, opened: OpenSubscription) -> int:
        """Return the number of a subscription that was opened."""
        number = next(self.numbers)
        self.subscriptions[number] = opened
        return number

    def end_with(
        self, completion: Completion, on_done: OnDone[_T], answer: _T | MQError
    ) -> UnderWay:
        """Tell an answer when what a verb has left is durable, or why it is not."""

        def end(error: MQError | None) -> None:
            on_done(answer if error is None else error)

        self.core.background.end_with(completion, end)
        return DECIDED

    def close(self, *, commit: bool) -> None:
        """MQDISC."""
        try:
            self.standing.end()
            self.session.close(commit=commit)
        finally:
            self.objects.handles.clear()
            temporary, self.temporary_topics = self.temporary_topics, set()
            for topic in temporary:
                if not self.core.is_stopped:
                    delete_temporary_topic(self.core, topic)


# Objects


def _open(on: Program, asked: ask.Open) -> Opened:
    handle = _opened(
        on,
        asked.name,
        asked.options,
        asked.kind,
        asked.manager,
        topic=asked.topic,
        dynamic_name=asked.dynamic_name,
        selector=asked.selector,
        alternate_user=asked.alternate_user,
    )
    name, number = on.core.name, on.objects.enter(handle)
    if isinstance(handle, DefinitionHandle):
        return Opened(number, asked.kind, "", name)
    if isinstance(handle, TopicHandle):
        return Opened(number, c.MQOT_TOPIC, "", name, topic=handle.topic)
    queue, manager = handle.path.remote or (handle.queue_name, name)
    made = handle.queue_name if handle.owns_queue else ""
    kind = 0 if handle.path.remote else handle.queue.definition.definition_type
    return Opened(number, c.MQOT_Q, queue, manager, made, definition_type=kind)


def _opened(
    on: Program,
    name: str,
    options: int,
    kind: int,
    manager: str,
    *,
    topic: str = "",
    dynamic_name: str = "AMQ.*",
    selector: str | None = None,
    alternate_user: str = "",
) -> AnyHandle:
    """Open what a name of a kind leads to; it has no number here yet."""
    session, here = on.session, on.core.name
    if kind == c.MQOT_Q:
        name = full_name(name, manager, here)
        if session.leads_to_topic(name):
            return session.open_topic("", options, alias=name, alternate_user=alternate_user)
        return session.open(
            name,
            options,
            dynamic_name=dynamic_name,
            selector=selector,
            alternate_user=alternate_user,
        )
    is_here = manager in ("", here)
    if kind == c.MQOT_TOPIC:
        if not is_here:
            said = f"topics of {manager!r} are not known here"
            raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, said)
        return session.open_topic(topic, options, topic_object=name, alternate_user=alternate_user)
    if kind not in DEFINITION_KINDS:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {kind} is no queue and no topic")
    if not is_here:
        said = f"{name} of {manager} is not to be opened here"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
    of_kind = DEFINITION_KINDS[kind]
    return session.open_definition(of_kind, name, options, alternate_user=alternate_user)


def _close_object(on: Program, asked: ask.CloseObject) -> int:
    handles, number = on.objects.handles, asked.handle
    closing = handles.get(number)
    if closing is None:
        raise not_open_here(number)
    reason = closing.close(asked.options) or rc.MQRC_NONE
    del handles[number]
    return reason


def _inquire(on: Program, asked: ask.Inquire) -> Inquiry:
    if asked.handle == c.MQHO_NONE:
        return inquire_itself(on.session, asked.selectors)
    found = on.objects.find(asked.handle)
    if isinstance(found, TopicHandle):
        said = f"handle {asked.handle} is that of a topic"
        raise mq_error(rc.MQRC_NOT_OPEN_FOR_INQUIRE, said)
    return inquire(on.core, found, asked.selectors)


def _set(on: Program, asked: ask.Set) -> None:
    values = {selector: scalar_of(value, "values") for selector, value in asked.values}
    found = on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_SET)
    set_attributes(on.core, found, values)


def _backout_rule(on: Program, asked: ask.AskBackoutRule) -> BackoutRule:
    definition = on.objects.queue(asked.handle, rc.MQRC_HOBJ_ERROR).queue.definition
    return BackoutRule(definition.bothresh, definition.boqname)


def _lives_from_release(on: Program, asked: ask.AskLivesFromRelease) -> bool:
    if asked.handle == c.MQHO_NONE:
        return has_lives_from_release(on.core)
    return on.objects.queue(asked.handle, rc.MQRC_HOBJ_ERROR).path.ttl_from_release


# Puts


def put_with(on: Program, asked: ask.Put, completion: Completion | None) -> PutResult | None:
    """Put as far as it goes without the disk, or with ``completion`` None to its end."""
    opened = on.objects.find(asked.handle)
    if not isinstance(opened, (Handle, TopicHandle)):
        said = f"handle {asked.handle} cannot be put to"
        raise mq_error(rc.MQRC_NOT_OPEN_FOR_OUTPUT, said)
    life_ms, options = asked.time_to_live_ms, asked.options
    if life_ms is not None:
        check_life_ms(life_ms)
    if asked.expiry_tenths != c.MQEI_UNLIMITED:
        refuses_zero = on.core.settings.is_zero_refused
        life_ms = life_ms_of_expiry(asked.expiry_tenths, refuse_zero=refuses_zero)
    descriptor, body = descriptor_of(asked.descriptor), asked.body
    if asked.properties:
        properties = properties_of(asked.properties)
        descriptor, body = with_properties(on.core, descriptor, body, properties)
    request = PutRequest(descriptor, asked.msg_id, asked.correl_id, life_ms, asked.delay_ms)
    if options & c.MQPMO_ASYNC_RESPONSE and isinstance(opened, Handle):
        return opened.put_async(body, request, options, asked.context, completion=completion)
    return opened.put(body, request, options, asked.context, completion=completion)


def _attempt_put(on: Program, asked: ask.Put) -> tuple[PutResult | None, Completion]:
    """Put as far as it goes without the disk; the rest is for :meth:`Program.end_with`.

    The put is over where nothing is left.
    """
    on.core.background.check_room()
    completion = Completion()
    return put_with(on, asked, completion), completion


def _begin_put(
    on: Program, asked: ask.Put, on_done: OnDone[PutResult | None], _on_event: OnRefused | None
) -> UnderWay:
    result, completion = _attempt_put(on, asked)
    return on.end_with(completion, on_done, result)


def _put_here(
    on: Program, asked: ask.Put, on_done: OnDone[PutResult | None], _on_event: OnRefused | None
) -> tuple[PutResult | None] | UnderWay:
    result, completion = _attempt_put(on, asked)
    return (result,) if completion.is_empty else on.end_with(completion, on_done, result)


def begin_puts(
    on: Program,
    puts: Iterable[ask.Put | MQError],
    on_done: Callable[[list[PutResult | MQError | None]], object],
) -> list[PutResult | MQError | None] | UnderWay:
    """Begin several puts, each by itself: a wrong one stops no other.

    Those that wait for the disk do so together, behind the last put. Returns the outcomes where
    none waits.
    """
    outcomes: list[PutResult | MQError | None] = []
    left: dict[int, Completion] = {}
    for put in puts:
        outcome: PutResult | MQError | None
        try:
            if isinstance(put, MQError):
                raise put
            outcome, completion = _attempt_put(on, put)
        except MQError as error:
            outcome = error
        else:
            if not completion.is_empty:
                left[len(outcomes)] = completion
        outcomes.append(outcome)
    waiting = set(left)

    def end(place: int, outcome: PutResult | MQError | None) -> None:
        # Callbacks of a queue manager come one at a time.
        outcomes[place] = outcome
        waiting.discard(place)
        if not waiting:
            on_done(outcomes)

    under_way: UnderWay | None = None
    for place, completion in left.items():
        under_way = on.end_with(completion, partial(end, place), outcomes[place])
    return outcomes if under_way is None else under_way


def _put1(on: Program, asked: ask.Put1) -> PutResult:
    options, topic = asked.options, asked.topic
    if options & _NOT_FOR_PUT1:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"PMO.Options {options:#x} of MQPUT1")
    request = PutRequest(
        descriptor_of(asked.descriptor),
        asked.msg_id,
        asked.correl_id,
        asked.time_to_live_ms,
        asked.delay_ms,
    )
    is_named = asked.name or asked.manager
    if asked.kind == c.MQOT_TOPIC and not is_named and options in _OF_PLAIN_PUBLISHING:
        return _publish(on, topic, asked.body, request, options)
    opens = c.MQOO_OUTPUT
    if options & _SETS_CONTEXT:
        opens |= c.MQOO_SET_ALL_CONTEXT if options & c.MQPMO_SET_ALL_CONTEXT else 0
        opens |= c.MQOO_SET_IDENTITY_CONTEXT if options & c.MQPMO_SET_IDENTITY_CONTEXT else 0
    handle = _opened(on, asked.name, opens, asked.kind, asked.manager, topic=topic)
    if not isinstance(handle, (Handle, TopicHandle)):
        handle.close()
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {asked.kind} of MQPUT1")
    try:
        return handle.put(asked.body, request, options)
    finally:
        handle.close()


def _publish(on: Program, topic: str, body: bytes, request: PutRequest, options: int) -> PutResult:
    """Publish without making a handle: the options of this put need none."""
    result = on.session.publish_as(
        topic,
        body,
        request,
        syncpoint=bool(options & c.MQPMO_SYNCPOINT),
        retain=bool(options & c.MQPMO_RETAIN),
    )
    return PutResult(
        result.msg_id,
        request.correl_id,
        result.descriptor,
        result.window,
        result.warning,
        "",
        on.core.name,
    )


def _new_ids(on: Program, asked: ask.NewIds) -> ask.Ids:
    ids = b"".join([new_message_id(on.core) for _ in range(asked.count)])
    return ask.Ids(on.core.now_ms(), ids)


# Gets


def _match(asked: ask.Get | ask.GetAny) -> Match:
    """Return what the ids of a get match."""
    msg_id, correl_id = asked.msg_id or None, asked.correl_id or None
    if isinstance(asked, ask.GetAny):
        return Match(msg_id, correl_id) if msg_id or correl_id else ANY
    group_id, sequence_number, offset = asked.group_id or None, asked.sequence_number, asked.offset
    if group_id or sequence_number is not None or offset is not None:
        return Match(msg_id, correl_id, group_id, sequence_number, offset, token=asked.token)
    if msg_id or correl_id or asked.token is not None:
        return Match(msg_id, correl_id, token=asked.token)
    return ANY


def _get_request(source: Handle, asked: ask.Get) -> GetRequest:
    view = source.view(asked.options, has_handle=asked.in_handle)
    return GetRequest(
        _match(asked),
        asked.wait_ms,
        asked.max_length,
        view=view,
        extends=asked.with_extension,
    )


def _get(on: Program, asked: ask.Get) -> GetResult:
    source = on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    return source.get(_get_request(source, asked), asked.options)


def _standing_get(on: Program, asked: ask.Get, on_done: OnDone[GetResult]) -> StandingGet:
    source = on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    return source.begin_get(_get_request(source, asked), asked.options, on_done)


def _begin_get(
    on: Program, asked: ask.Get, on_done: OnDone[GetResult], _on_event: OnRefused | None
) -> UnderWay:
    standing = _standing_get(on, asked, on_done)
    standing.begin()
    return standing


def _get_here(
    on: Program, asked: ask.Get, on_done: OnDone[GetResult], _on_event: OnRefused | None
) -> tuple[GetResult] | UnderWay:
    standing = _standing_get(on, asked, on_done)
    outcome = standing.begin_at_once()
    if outcome is None:
        return standing
    if isinstance(outcome, MQError):
        raise outcome
    return (outcome,)


def _get_many(on: Program, asked: ask.GetMany) -> list[Message]:
    options, session = asked.options, on.session
    check_most(asked.most)
    queue = on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    if options & ~_OF_MANY or not options & c.MQGMO_PROPERTIES_FORCE_MQRFH2:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of many")
    unit_of_work = session.unit_of_work if options & c.MQGMO_SYNCPOINT else None
    getter = queue.getter(GetRequest(ANY), options, unit_of_work)
    if not getter.takes_any:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "many by a handle that has a selector")
    return get_many(on.core, getter, asked.most, unit_of_work, most_bytes=asked.most_bytes)


def _get_held(on: Program, asked: ask.GetAny) -> Delivery:
    """Get a message of one queue that is held; of several queues a get is begun."""
    [handle] = asked.handles
    queue = on.objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    deliveries = on.session.deliveries
    unit = deliveries.new_unit()
    view = queue.view(asked.options, has_handle=False)
    request = GetRequest(_match(asked), asked.wait_ms, asked.max_length, view=view)
    return deliveries.get(handle, queue.getter(request, asked.options, unit), unit)


def _begin_get_any(
    on: Program, asked: ask.GetAny, on_done: OnDone[Delivery], on_refused: OnRefused | None
) -> UnderWay:
    deliveries, options, getters = on.session.deliveries, asked.options, {}
    held = unit = None
    if options & c.MQGMO_SYNCPOINT:
        unit = on.session.unit_of_work
    elif not options & c.MQGMO_BROWSE_FIRST:
        held = unit = deliveries.new_unit()
    match = _match(asked)
    for handle in asked.handles:
        queue = on.objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        view = queue.view(options, has_handle=False)
        request = GetRequest(match, asked.wait_ms, asked.max_length, view=view)
        getters[handle] = queue.getter(request, options, unit)
    if not getters:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "no handle to get from")
    standing = deliveries.standing_get(
        getters, held, on_done, on_refused if asked.tells_refusals else None
    )
    standing.begin()
    return standing


def _take_held(on: Program, asked: ask.TakeHeld) -> list[Delivery]:
    queue = on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    options = asked.options
    request = GetRequest(ANY, view=queue.view(options, has_handle=False))
    return on.session.deliveries.take(
        asked.handle,
        request,
        lambda held: queue.getter(request, options, held),
        Room(asked.most, asked.most_bytes),
    )


def _unlock(on: Program, asked: ask.Unlock) -> int:
    check_get_options(asked.options)
    return on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_BROWSE).unlock()


def _settle(on: Program, asked: ask.Settle) -> None:
    _settle_with(on, asked, None)


def _begin_settle(
    on: Program, asked: ask.Settle, on_done: OnDone[None], _on_event: OnRefused | None
) -> UnderWay:
    completion = Completion()
    _settle_with(on, asked, completion)
    return on.end_with(completion, on_done, None)


def _settle_with(on: Program, asked: ask.Settle, completion: Completion | None) -> None:
    if asked.within:
        _move_into_unit(on, asked.deliveries, asked.settlement, asked.within)
    else:
        on.session.deliveries.settle(
            asked.deliveries,
            asked.settlement,
            put_elsewhere=partial(_put_elsewhere, on, asked.settlement, asked.reason),
            completion=completion,
        )


def _move_into_unit(
    on: Program, deliveries: Iterable[int], settlement: Settlement, within: int
) -> None:
    session = _sessions.get(within)
    if session is None or session.core is not on.core or not session.is_open:
        said = f"conversation {within} is none of {on.core.name}"
        raise mq_error(rc.MQRC_UOW_NOT_AVAILABLE, said)
    if settlement is not Settlement.TAKEN:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{settlement.value} within a unit of work")
    on.session.deliveries.move_into(session.unit_of_work, deliveries)


def _put_elsewhere(
    on: Program, settlement: Settlement, reason: int, unit_of_work: UnitOfWork, message: Message
) -> None:
    if not reason:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "a dead letter has a reason, not 0")
    # The queue manager moves it: its user has only said that it is of no use.
    beside = on.session.beside(unit_of_work, as_manager=True)
    put = set_aside if settlement is Settlement.SET_ASIDE else put_dead_letter
    put(on.core, beside, message, reason)


# The unit of work, and messages that it has got


def _begin_commit(
    on: Program, _asked: ask.Commit, on_done: OnDone[None], _on_event: OnRefused | None
) -> UnderWay:
    completion = Completion()
    on.session.commit(completion)
    return on.end_with(completion, on_done, None)


def _found(on: Program, asked: ask.Forward | ask.DeadLetter | ask.ReportException) -> Message:
    found = got_in(on.session, asked.queue, asked.token)
    if found is None:
        said = f"message: the unit of work has got none of {asked.queue!r} with this MsgToken"
        raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, said)
    return found


def _forward(on: Program, asked: ask.Forward) -> None:
    check_forward_target(on.core, asked.name)
    forward(on.core, on.session, asked.name, _found(on, asked))


def _dead_letter(on: Program, asked: ask.DeadLetter) -> None:
    put_dead_letter(on.core, on.session, _found(on, asked), asked.reason)


def _report_exception(on: Program, asked: ask.ReportException) -> bool:
    return report_exception(on.core, on.session, _found(on, asked), asked.reason)


def _move(on: Program, asked: ask.Move) -> int:
    source = on.objects.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_BROWSE)
    return move_under_cursor(
        on.session,
        source,
        asked.name,
        descriptor=None if asked.descriptor is None else descriptor_of(asked.descriptor),
        header_bytes=asked.header_bytes,
        putter=asked.putter,
    )


def _reply(on: Program, asked: ask.Reply) -> int:
    session = on.session
    if session.authority is not None:
        said = "a user of limited authority says no context of replies"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, said)
    target = full_name(asked.name, asked.manager, on.core.name) if asked.name else ""
    request = PutRequest(
        descriptor_of(asked.descriptor),
        asked.msg_id,
        asked.correl_id,
        asked.time_to_live_ms,
        context_option=c.MQPMO_SET_ALL_CONTEXT,
    )
    return put_reply(session, target, asked.putter, asked.body, request)


# Topics


def _subscribe(on: Program, asked: ask.Subscribe) -> Subscribed:
    wanted = SubscriptionWanted(
        asked.options,
        asked.name,
        asked.topic,
        asked.topic_object,
        asked.selector,
        asked.user_data,
        asked.correl_id,
        asked.expiry_tenths,
        asked.priority,
        _queue_or_none(on, asked.queue),
    )
    number = asked.altered
    current = on.subscription(number) if number else None
    held = _queue_or_none(on, asked.held)
    opened, handle = subscribe_as(on.session, wanted, altered=current, held=held)
    if opened is not current:
        number = on.enter_subscription(opened)
    return Subscribed(number, on.objects.enter(handle), facts_of(opened))


def _queue_or_none(on: Program, number: int) -> Handle | None:
    return None if number == c.MQHO_NONE else on.objects.queue(number, rc.MQRC_HOBJ_ERROR)


def _join(on: Program, asked: ask.JoinSubscription) -> Subscribed:
    opened: OpenSubscription
    if asked.is_durable:
        opened = open_durable(
            on.session,
            asked.name,
            asked.topic,
            selector=asked.selector,
            shared=asked.is_shared,
            no_local=asked.no_local,
        )
    else:
        opened = on.session.subscribe(
            asked.topic,
            name=asked.name,
            selector=asked.selector,
            shared=asked.is_shared,
            no_local=asked.no_local,
        )
    handle = c.MQHO_NONE if opened.handle is None else on.objects.enter(opened.handle)
    return Subscribed(on.enter_subscription(opened), handle, facts_of(opened))


def _close_subscription(on: Program, asked: ask.CloseSubscription) -> None:
    on.subscription(asked.number).close(remove=asked.remove)
    del on.subscriptions[asked.number]


def _is_subscription_open(on: Program, asked: ask.IsSubscriptionOpen) -> bool:
    found = on.subscriptions.get(asked.number)
    return found is not None and found.is_open


def _make_temporary_topic(on: Program, _asked: ask.MakeTemporaryTopic) -> str:
    topic = make_temporary_topic(on.session)
    on.temporary_topics.add(topic)
    return topic


def _delete_temporary_topic(on: Program, asked: ask.DeleteTemporaryTopic) -> None:
    topic = asked.topic
    if topic not in on.temporary_topics:
        said = f"{topic} is no temporary topic of this one"
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, said)
    if is_subscribed_to(on.core, topic):
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{topic} has a consumer")
    on.temporary_topics.discard(topic)
    delete_temporary_topic(on.core, topic)


# The schedule of delayed messages


def _schedule(on: Program, asked: Any) -> Schedule:
    """Return the schedule for a change, durable at once or part of the unit of work."""
    session, position = on.session, getattr(asked, "position", None)
    schedule = session.schedule if position is None else session.schedule.at(position)
    return schedule.within(session.unit_of_work) if asked.in_unit else schedule


def _filter(where: ask.Filter) -> ScheduleFilter:
    properties = tuple(where.properties)
    return ScheduleFilter(
        where.queue, where.sender, properties, where.due_from_ms, where.due_before_ms
    )


def _receipt(receipt: Receipt) -> ask.ReceiptRow:
    return ask.ReceiptRow(receipt, receipt.message_count)


def _reschedule(on: Program, asked: ask.Reschedule) -> ask.ReceiptRow:
    receipt = _schedule(on, asked).reschedule(
        asked.msg_id, delay_ms=asked.delay_ms, deliver_at_ms=asked.deliver_at_ms
    )
    return _receipt(receipt)


def _reschedule_all(on: Program, asked: ask.RescheduleAll) -> int:
    progress = _schedule(on, asked).reschedule_all(
        _filter(asked.where),
        delay_ms=asked.delay_ms,
        deliver_at_ms=asked.deliver_at_ms,
        by_ms=asked.by_ms,
    )
    return _begin_steps(on, progress)


def _begin_steps(on: Program, progress: Iterator[int]) -> int:
    if len(on.steps) >= _MOST_STEPS:
        del on.steps[next(iter(on.steps))]
    number = next(on.numbers)
    on.steps[number] = progress
    return number


def _go_on(on: Program, asked: ask.GoOn) -> int | None:
    progress = on.steps.get(asked.number)
    if progress is None:
        said = f"number: no change of the schedule is {asked.number}"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, said)
    done_count = next(progress, None)
    if done_count is None:
        del on.steps[asked.number]
    return done_count


# Administration


def _run_mqsc(on: Program, asked: ask.RunMqsc) -> ask.ScriptRow:
    result = on.admin.mqsc(asked.script)
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


def _story(on: Program, asked: ask.Story) -> Whereabouts:
    return on.admin.stories.of(asked.identifier)


def _stories(on: Program, asked: ask.Stories) -> StoriesFound:
    question = PropertyQuestion(
        asked.name, asked.value, asked.from_ms, asked.before_ms, asked.limit
    )
    return on.admin.stories.with_property(question)


def _run_due(on: Program, _asked: ask.RunDue) -> None:
    on.admin.run_due()


def _instance(on: Program, _asked: ask.AskInstance) -> str:
    return on.admin.claims.instance_id


def _consumers(on: Program, _asked: ask.ListConsumers) -> list[ConsumerState]:
    return on.admin.claims.standings()


def _first_position(on: Program, _asked: ask.AskFirstPosition) -> int:
    return on.admin.ledger.first_position()


def _read_ledger(on: Program, asked: ask.ReadLedger) -> ask.LedgerPage:
    try:
        rows = on.admin.ledger.page(asked.after_position, asked.max_rows)
    except PositionTrimmed as trimmed:
        return ask.LedgerPage([], trimmed.first_position)
    return ask.LedgerPage(rows, None)


def _end_written(on: Program, asked: ask.EndWritten) -> int:
    claims = on.admin.claims
    with _refusals_of_claims():
        return claims.end_written(asked.consumer, claims.instance_id, asked.until)


def _release_claims(on: Program, asked: ask.ReleaseClaims) -> int:
    claims = on.admin.claims
    with _refusals_of_claims():
        return claims.release(asked.consumer)


@contextmanager
def _refusals_of_claims() -> Iterator[None]:
    """Give a refusal on the bulk plane, which has a word for programs, its reason code."""
    try:
        yield
    except ClaimError as error:
        is_unknown = error.reason == CONSUMER_UNKNOWN
        reason = rc.MQRC_UNKNOWN_OBJECT_NAME if is_unknown else rc.MQRC_OBJECT_CHANGED
        raise mq_error(reason, error.text) from error


#: Carries out a request, and returns its answer.
Carries: TypeAlias = Callable[[Program, Any], Any]
#: Begins a request; the answer is told.
Begins: TypeAlias = Callable[[Program, Any, OnDone[Any], OnRefused | None], UnderWay]
#: Begins a request; the answer is returned alone in a tuple, or told.
BeginsHere: TypeAlias = Callable[
    [Program, Any, OnDone[Any], OnRefused | None], tuple[Any] | UnderWay
]

CALLS: Final[dict[type[ask.Request[Any]], Carries]] = {
    ask.Now: lambda on, _asked: on.core.now_ms(),
    ask.AskCommandLevel: lambda on, _asked: on.core.command_level,
    ask.Open: _open,
    ask.CloseObject: _close_object,
    ask.Inquire: _inquire,
    ask.Set: _set,
    ask.AskLivesFromRelease: _lives_from_release,
    ask.AskBackoutRule: _backout_rule,
    ask.Put: lambda on, asked: put_with(on, asked, None),
    ask.Put1: _put1,
    ask.NewIds: _new_ids,
    ask.AskStatus: lambda on, _asked: on.session.status(),
    ask.Get: _get,
    ask.GetMany: _get_many,
    ask.GetAny: _get_held,
    ask.TakeHeld: _take_held,
    ask.Settle: _settle,
    ask.Unlock: _unlock,
    ask.Commit: lambda on, _asked: on.session.commit(),
    ask.Backout: lambda on, _asked: on.session.backout(),
    ask.Forward: _forward,
    ask.DeadLetter: _dead_letter,
    ask.ReportException: _report_exception,
    ask.Move: _move,
    ask.Reply: _reply,
    ask.Subscribe: _subscribe,
    ask.CloseSubscription: _close_subscription,
    ask.RequestRetained: lambda on, asked: on.subscription(asked.number).request_retained(),
    ask.JoinSubscription: _join,
    ask.IsSubscriptionOpen: _is_subscription_open,
    ask.RemoveSubscription: lambda on, asked: remove_idle(on.session, asked.name),
    ask.BelongTo: lambda on, asked: on.session.belong_to(asked.owner),
    ask.ClaimClientId: lambda on, asked: claim_client_id(on.session, asked.client_id),
    ask.MakeTemporaryTopic: _make_temporary_topic,
    ask.DeleteTemporaryTopic: _delete_temporary_topic,
    ask.ListSchedule: lambda on, asked: on.session.schedule.list(
        _filter(asked.where), limit=asked.limit, after=asked.after
    ),
    ask.ShowScheduled: lambda on, asked: on.session.schedule.show(asked.msg_id),
    ask.CountScheduled: lambda on, asked: on.session.schedule.count(asked.queue),
    ask.CancelScheduled: lambda on, asked: _receipt(_schedule(on, asked).cancel(asked.msg_id)),
    ask.Reschedule: _reschedule,
    ask.ReleaseScheduled: lambda on, asked: _receipt(_schedule(on, asked).release(asked.msg_id)),
    ask.CancelAll: lambda on, asked: _begin_steps(
        on, _schedule(on, asked).cancel_all(_filter(asked.where))
    ),
    ask.RescheduleAll: _reschedule_all,
    ask.ReleaseAll: lambda on, asked: _begin_steps(
        on, _schedule(on, asked).release_all(_filter(asked.where))
    ),
    ask.GoOn: _go_on,
    ask.Audit: lambda on, asked: on.session.schedule.audit_before(asked.before, asked.limit),
    ask.RunMqsc: _run_mqsc,
    ask.AskCounts: lambda on, asked: on.admin.counts(asked.queue),
    ask.AskCurdepth: lambda on, asked: on.admin.curdepth(asked.queue),
    ask.Why: lambda on, asked: on.admin.why(asked.identifier),
    ask.Story: _story,
    ask.Stories: _stories,
    ask.Verify: lambda on, _asked: on.admin.verify(),
    ask.AskDelayProcessorStatus: lambda on, _asked: on.admin.delay_processor_status(),
    ask.AskOwnTime: lambda on, _asked: on.admin.own_time(),
    ask.FollowWall: lambda on, _asked: on.admin.follow_wall(),
    ask.RunDue: _run_due,
    ask.AdvanceClock: lambda on, asked: on.admin.advance_clock(asked.ms),
    ask.AskInstance: _instance,
    ask.ListConsumers: _consumers,
    ask.EndWritten: _end_written,
    ask.ReleaseClaims: _release_claims,
    ask.AskFirstPosition: _first_position,
    ask.ReadLedger: _read_ledger,
}
BEGUN: Final[dict[type[ask.Request[Any]], Begins]] = {
    ask.Put: _begin_put,
    ask.Get: _begin_get,
    ask.GetAny: _begin_get_any,
    ask.Settle: _begin_settle,
    ask.Commit: _begin_commit,
    ask.WaitUntil: lambda on, asked, on_done, _: on.standing.until(asked.moment_ms, on_done),
    ask.AwaitDefinitions: lambda on, _asked, on_done, _: on.standing.for_definitions(on_done),
}
HERE: Final[dict[type[ask.Request[Any]], BeginsHere]] = {
    **BEGUN,
    ask.Put: _put_here,
    ask.Get: _get_here,
}

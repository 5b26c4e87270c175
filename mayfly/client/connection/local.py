"""A connection to a queue manager of this process, and the functions of its requests.

A function in :data:`CALLS` carries a request out and returns its answer; it may wait. One in
:data:`BEGUN` begins it, and the answer is told. One in :data:`HERE` is for a loop that must not
wait: it returns the answer alone in a tuple where that is decided at once. All raise MQError for
what is wrong with the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from operator import index
from typing import Any, Final, NamedTuple, SupportsIndex, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from mayfly.client.connection.interface import (
    DECIDED,
    Connection,
    OnDone,
    OnRefused,
    UnderWay,
    check_called,
    check_held,
    end_dropped,
)
from mayfly.client.connection.virtual_time import virtual_time_of
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
from mayfly.engine.api.bulk import ClaimError
from mayfly.engine.api.programs import (
    ANY,
    DEFINITION_KINDS,
    Completion,
    DefinitionHandle,
    OpenSubscription,
    PendingGet,
    PendingWaits,
    Schedule,
    SubscriptionWanted,
    TopicHandle,
    UnitOfWork,
    check_get_options,
    claim_client_id,
    delete_temporary_topic,
    facts_of,
    find_got_message,
    get_many,
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
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.properties.folders import Property
from mayfly.queue_manager import QueueManager
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_max_messages
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.contracts.reasons import CONSUMER_UNKNOWN
from mayfly.verbs.contracts.wire import descriptor_of
from mayfly.verbs.facts import Inquiry, MqscResult
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.requests import BackoutRule, Opened, Put, Request, Subscribed, verb_name
from mayfly.verbs.rows import properties_of, scalar_of
from mayfly.verbs.schedule import Receipt
from mayfly.verbs.trace import MessageTrace, PropertyQuestion, TracesFound

AnyHandle: TypeAlias = Handle | TopicHandle | DefinitionHandle


class OpenObjects:
    """Handles by number; closing an object, or the session, ends its number."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        #: Handles by number, for verbs. Handles that their session has closed are here as well:
        #: their ``is_open`` is False.
        self.handles: dict[int, AnyHandle] = {}

    def enter(self, handle: AnyHandle) -> int:
        """Return the number of a handle, by which it is found from now on."""
        number = handle.number
        self.handles[number] = handle
        return number

    def find(self, number: SupportsIndex) -> AnyHandle:
        """Return a handle; raises MQRC_HOBJ_ERROR for a number that is none, or closed."""
        handle = self.handles.get(index(number))
        if handle is None:
            raise not_open_here(number)
        return handle

    def queue(self, number: SupportsIndex, reason: int) -> Handle:
        """Return the handle of a queue; any other object was not opened for this: the reason."""
        handle = self.find(number)
        if not isinstance(handle, Handle):
            raise mq_error(reason, f"handle {index(number)} is no queue")
        return handle

    def no(self, reason: int, number: SupportsIndex) -> MQError:
        """Return the error for a number that is that of no open object, or not of a queue."""
        if self.handles.get(index(number)) is None:
            return not_open_here(number)
        return mq_error(reason, f"handle {index(number)} was not opened for this")

    def is_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        found = self.handles.get(handle)
        return found is not None and found.is_open


def not_open_here(number: SupportsIndex) -> MQError:
    """Return the error for a number that is that of no open object."""
    return mq_error(rc.MQRC_HOBJ_ERROR, f"handle {index(number)} is not open on this connection")


_R = TypeVar("_R")
_T = TypeVar("_T")
#: The sessions of the conversations of this process, by number.
_sessions: WeakValueDictionary[int, Session] = WeakValueDictionary()
#: So many changes of many delayed messages may be open; one more ends the oldest.
_MAX_STEPS: Final = 16
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


class Holdings(NamedTuple):
    """How many handles of a connection are open, and deliveries not settled."""

    handle_count: int
    delivery_count: int


class LocalConnection(Connection):
    """One conversation over a session."""

    session: Session
    standing: PendingWaits

    def __init__(self, session: Session, manager: QueueManager) -> None:
        """Take a session of a queue manager, which ends with it."""
        core = session.core
        self.name, self.number, self.runtime = core.name, session.number, core.runtime
        self.now_ms = core.now_ms  # type: ignore[method-assign]  # no request for the time
        #: The virtual time under which it waits, None where time goes by itself.
        self.virtual_time = virtual_time_of(manager.engine)
        self.session, self.core, self.manager = session, core, manager
        self.opened = OpenObjects()
        self.subscriptions: dict[int, OpenSubscription] = {}
        self.temporary_topics: frozenset[str] = frozenset()
        #: Changes of the schedule that go on step by step, by number.
        self.steps: dict[int, Iterator[int]] = {}
        #: For subscriptions, and for such changes.
        self.numbers = count(1)
        #: Waits with callbacks that are no gets.
        self.standing = PendingWaits(core)
        _sessions[session.number] = session

    def call(self, request: Request[_R]) -> _R:
        """Carry a request out."""
        carries = CALLS.get(type(request))
        if carries is None:
            raise _unknown(request)
        answer: _R = carries(self, request)
        return answer

    def begin(
        self,
        request: Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Begin a request."""
        begins = BEGUN.get(type(request))
        try:
            if begins is None:
                raise _unknown(request)
            return begins(self, request, on_done, on_event)
        except MQError as error:
            self.tell(on_done, error)
            return DECIDED

    def begin_here(
        self,
        request: Request[Any],
        on_done: OnDone[Any],
        on_event: OnRefused | None = None,
    ) -> tuple[Any] | UnderWay:
        """Begin a request in a loop: an answer that is decided at once is returned, in a tuple.

        Raises MQError for what is wrong with it.
        """
        return HERE[type(request)](self, request, on_done, on_event)

    def begin_puts(
        self,
        puts: Iterable[Put | MQError],
        on_done: Callable[[list[PutResult | MQError | None]], object],
    ) -> list[PutResult | MQError | None] | UnderWay:
        """Begin several puts, each by itself: a wrong one stops no other.

        An error in the place of a put is its outcome. Those that wait for the disk do so together,
        behind the last put. Returns the outcomes where none waits.
        """
        outcomes: list[PutResult | MQError | None] = []
        left: dict[int, Completion] = {}
        for put in puts:
            outcome: PutResult | MQError | None
            try:
                if isinstance(put, MQError):
                    raise put
                outcome, completion = _attempt_put(self, put)
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
            under_way = self.end_with(completion, partial(end, place), outcomes[place])
        return outcomes if under_way is None else under_way

    # A request for each put and get of this process would cost its pair 2.4 µs of 25, and gain
    # nothing: these two do without.

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
        completion: Completion | None = None,
    ) -> PutResult | None:
        """MQPUT, of a request or without one.

        With a ``completion`` the put goes as far as it goes without the disk.
        """
        target = self.opened.handles.get(handle)
        if not isinstance(target, (Handle, TopicHandle)):
            raise self.opened.no(rc.MQRC_NOT_OPEN_FOR_OUTPUT, handle)
        if time_to_live_ms is not None:
            check_life_ms(time_to_live_ms)
        if expiry_tenths != c.MQEI_UNLIMITED:
            refuses_zero = self.core.settings.is_zero_refused
            time_to_live_ms = life_ms_of_expiry(expiry_tenths, refuse_zero=refuses_zero)
        if properties:
            descriptor, body = with_properties(self.core, descriptor, body, properties)
        request = PutRequest(descriptor, msg_id, correl_id, time_to_live_ms, delay_ms)
        if options & c.MQPMO_ASYNC_RESPONSE and isinstance(target, Handle):
            return target.put_async(body, request, options, context, completion=completion)
        return target.put(body, request, options, context, completion=completion)

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        wait_ms: int = 0,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        group_id: bytes = b"",
        sequence_number: int | None = None,
        offset: int | None = None,
        token: bytes | None = None,
        in_handle: bool = False,
        with_extension: bool = False,
    ) -> GetResult:
        """MQGET, as the function for ``Get`` does, without a request."""
        source = self.opened.handles.get(handle)
        if not isinstance(source, Handle):
            raise self.opened.no(rc.MQRC_NOT_OPEN_FOR_INPUT, handle)
        match = ANY
        if group_id or sequence_number is not None or offset is not None:
            ids = msg_id or None, correl_id or None, group_id or None
            match = Match(*ids, sequence_number, offset, token=token)
        elif msg_id or correl_id or token is not None:
            match = Match(msg_id or None, correl_id or None, token=token)
        view = source.view(options, has_handle=in_handle)
        request = GetRequest(match, wait_ms, max_length, False, False, view, with_extension)
        return source.get(request, options)

    def tell(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Tell an outcome that is known."""
        self.core.background.end_with(Completion(), lambda _none: on_done(outcome))

    def close(self, *, commit: bool = True) -> None:
        """MQDISC."""
        try:
            self.standing.end()
            self.session.close(commit=commit)
        finally:
            self.opened.handles.clear()
            temporary, self.temporary_topics = self.temporary_topics, frozenset()
            for topic in temporary:
                if not self.core.is_stopped:
                    delete_temporary_topic(self.core, topic)

    def has_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        return self.opened.is_open(handle)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped, now or at the next verb."""
        end_dropped(end, self.core.left_behind.objects.append)

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self.session.is_open

    @property
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""
        return self.core.is_stopped

    @property
    def holdings(self) -> Holdings:
        """How much it holds."""
        return Holdings(len(self.opened.handles), len(self.session.deliveries))

    # For the functions below.

    @property
    def operated(self) -> QueueManager:
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


# Objects


def _open(on: LocalConnection, asked: ask.Open) -> Opened:
    handle = _opened(on, asked)
    name, number = on.name, on.opened.enter(handle)
    if isinstance(handle, DefinitionHandle):
        return Opened(number, asked.kind, "", name)
    if isinstance(handle, TopicHandle):
        return Opened(number, c.MQOT_TOPIC, "", name, topic=handle.topic)
    queue, manager = handle.path.remote or (handle.queue_name, name)
    made = handle.queue_name if handle.owns_queue else ""
    kind = 0 if handle.path.remote else handle.queue.definition.definition_type
    return Opened(number, c.MQOT_Q, queue, manager, made, definition_type=kind)


def _opened(on: LocalConnection, asked: ask.Open) -> AnyHandle:
    """Open what a name of a kind leads to; it has no number here yet."""
    session, here, kind, manager = on.session, on.name, asked.kind, asked.manager
    alternate_user = asked.alternate_user
    if kind == c.MQOT_Q:
        name = full_name(asked.name, manager, here)
        if session.leads_to_topic(name):
            return session.open_topic("", asked.options, alias=name, alternate_user=alternate_user)
        return session.open(
            name,
            asked.options,
            dynamic_name=asked.dynamic_name,
            selector=asked.selector,
            alternate_user=alternate_user,
        )
    name, is_here = asked.name, manager in ("", here)
    if kind == c.MQOT_TOPIC:
        if not is_here:
            said = f"topics of {manager!r} are not known here"
            raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, said)
        return session.open_topic(
            asked.topic, asked.options, topic_object=name, alternate_user=alternate_user
        )
    if kind not in DEFINITION_KINDS:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {kind} is no queue and no topic")
    if not is_here:
        said = f"{name} of {manager} is not to be opened here"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
    of_kind = DEFINITION_KINDS[kind]
    return session.open_definition(of_kind, name, asked.options, alternate_user=alternate_user)


def _close_object(on: LocalConnection, asked: ask.CloseObject) -> int:
    handles, number = on.opened.handles, asked.handle
    closing = handles.get(number)
    if closing is None:
        raise not_open_here(number)
    reason = closing.close(asked.options) or rc.MQRC_NONE
    del handles[number]
    return reason


def _inquire(on: LocalConnection, asked: ask.Inquire) -> Inquiry:
    if asked.handle == c.MQHO_NONE:
        return inquire_itself(on.session.core, on.session.authority, asked.selectors)
    found = on.opened.find(asked.handle)
    if isinstance(found, TopicHandle):
        said = f"handle {asked.handle} is that of a topic"
        raise mq_error(rc.MQRC_NOT_OPEN_FOR_INQUIRE, said)
    return inquire(on.core, found, asked.selectors)


def _set(on: LocalConnection, asked: ask.Set) -> None:
    values = {selector: scalar_of(value, "values") for selector, value in asked.values}
    found = on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_SET)
    set_attributes(on.core, found, values)


def _backout_rule(on: LocalConnection, asked: ask.AskBackoutRule) -> BackoutRule:
    definition = on.opened.queue(asked.handle, rc.MQRC_HOBJ_ERROR).queue.definition
    return BackoutRule(definition.bothresh, definition.boqname)


def _lives_from_release(on: LocalConnection, asked: ask.AskLivesFromRelease) -> bool:
    if asked.handle == c.MQHO_NONE:
        return has_lives_from_release(on.core)
    return on.opened.queue(asked.handle, rc.MQRC_HOBJ_ERROR).path.ttl_from_release


# Puts


def _put(on: LocalConnection, asked: ask.Put) -> PutResult | None:
    return _put_to(on, asked.handle, asked, asked.context)


def _put_to(
    on: LocalConnection,
    handle: int,
    asked: ask.Put | ask.Put1,
    context: int = c.MQHO_NONE,
    completion: Completion | None = None,
) -> PutResult | None:
    message = asked.message
    return on.put(
        handle,
        message.body,
        descriptor_of(asked.descriptor),
        asked.options,
        msg_id=message.msg_id,
        correl_id=message.correl_id,
        expiry_tenths=message.expiry_tenths,
        time_to_live_ms=message.time_to_live_ms,
        delay_ms=message.delay_ms,
        properties=properties_of(message.properties) if message.properties else (),
        context=context,
        completion=completion,
    )


def _attempt_put(on: LocalConnection, asked: ask.Put) -> tuple[PutResult | None, Completion]:
    """Put as far as it goes without the disk; the rest is for :meth:`LocalConnection.end_with`.

    The put is over where nothing is left.
    """
    on.core.background.check_capacity()
    completion = Completion()
    result = _put_to(on, asked.handle, asked, asked.context, completion)
    return result, completion


def _begin_put(
    on: LocalConnection,
    asked: ask.Put,
    on_done: OnDone[PutResult | None],
    _on_event: OnRefused | None,
) -> UnderWay:
    result, completion = _attempt_put(on, asked)
    return on.end_with(completion, on_done, result)


def _put_here(
    on: LocalConnection,
    asked: ask.Put,
    on_done: OnDone[PutResult | None],
    _on_event: OnRefused | None,
) -> tuple[PutResult | None] | UnderWay:
    result, completion = _attempt_put(on, asked)
    return (result,) if completion.is_empty else on.end_with(completion, on_done, result)


def _put1(on: LocalConnection, asked: ask.Put1) -> PutResult:
    options = asked.options
    if options & _NOT_FOR_PUT1:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"PMO.Options {options:#x} of MQPUT1")
    message = asked.message
    is_plain = message.expiry_tenths == c.MQEI_UNLIMITED and not message.properties
    is_named = asked.name or asked.manager or asked.kind != c.MQOT_TOPIC
    if is_plain and not is_named and options in _OF_PLAIN_PUBLISHING:
        return _publish(on, asked)
    opens = c.MQOO_OUTPUT
    if options & _SETS_CONTEXT:
        opens |= c.MQOO_SET_ALL_CONTEXT if options & c.MQPMO_SET_ALL_CONTEXT else 0
        opens |= c.MQOO_SET_IDENTITY_CONTEXT if options & c.MQPMO_SET_IDENTITY_CONTEXT else 0
    wanted = ask.Open(asked.name, opens, asked.kind, asked.manager, asked.topic)
    opened = _opened(on, wanted)
    if not isinstance(opened, (Handle, TopicHandle)):
        opened.close()
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {asked.kind} of MQPUT1")
    number = on.opened.enter(opened)
    try:
        result = _put_to(on, number, asked)
    finally:
        opened.close()
        del on.opened.handles[number]
    assert result is not None
    return result


def _publish(on: LocalConnection, asked: ask.Put1) -> PutResult:
    """Publish without making a handle: the options of this put need none."""
    message = asked.message
    request = PutRequest(
        descriptor_of(asked.descriptor),
        message.msg_id,
        message.correl_id,
        message.time_to_live_ms,
        message.delay_ms,
    )
    result = on.session.publish_as(
        asked.topic,
        message.body,
        request,
        syncpoint=bool(asked.options & c.MQPMO_SYNCPOINT),
        retain=bool(asked.options & c.MQPMO_RETAIN),
    )
    ids = result.msg_id, message.correl_id
    return PutResult(*ids, result.descriptor, result.window, result.warning, "", on.name)


def _new_ids(on: LocalConnection, asked: ask.NewIds) -> ask.Ids:
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


def _get(on: LocalConnection, asked: ask.Get) -> GetResult:
    source = on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    return source.get(_get_request(source, asked), asked.options)


def _pending_get(on: LocalConnection, asked: ask.Get, on_done: OnDone[GetResult]) -> PendingGet:
    source = on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    return source.begin_get(_get_request(source, asked), asked.options, on_done)


def _begin_get(
    on: LocalConnection, asked: ask.Get, on_done: OnDone[GetResult], _on_event: OnRefused | None
) -> UnderWay:
    standing = _pending_get(on, asked, on_done)
    standing.begin()
    return standing


def _get_here(
    on: LocalConnection, asked: ask.Get, on_done: OnDone[GetResult], _on_event: OnRefused | None
) -> tuple[GetResult] | UnderWay:
    standing = _pending_get(on, asked, on_done)
    outcome = standing.begin_at_once()
    if outcome is None:
        return standing
    if isinstance(outcome, MQError):
        raise outcome
    return (outcome,)


def _get_many(on: LocalConnection, asked: ask.GetMany) -> list[Message]:
    options, session = asked.options, on.session
    check_max_messages(asked.max_messages)
    queue = on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    if options & ~_OF_MANY or not options & c.MQGMO_PROPERTIES_FORCE_MQRFH2:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of many")
    unit_of_work = session.unit_of_work if options & c.MQGMO_SYNCPOINT else None
    getter = queue.getter(GetRequest(ANY), options, unit_of_work)
    if not getter.takes_any:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "many by a handle that has a selector")
    return get_many(on.core, getter, asked.max_messages, unit_of_work, max_bytes=asked.max_bytes)


def _get_held(on: LocalConnection, asked: ask.GetAny) -> Delivery:
    """Get a message of one queue that is held; of several queues a get is begun."""
    check_called(asked)
    [handle] = asked.handles
    queue = on.opened.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    deliveries = on.session.deliveries
    unit = deliveries.new_unit()
    view = queue.view(asked.options, has_handle=False)
    request = GetRequest(_match(asked), asked.wait_ms, asked.max_length, view=view)
    return deliveries.get(handle, queue.getter(request, asked.options, unit), unit)


def _begin_get_any(
    on: LocalConnection, asked: ask.GetAny, on_done: OnDone[Delivery], on_refused: OnRefused | None
) -> UnderWay:
    deliveries, options, getters = on.session.deliveries, asked.options, {}
    held = unit = None
    if options & c.MQGMO_SYNCPOINT:
        unit = on.session.unit_of_work
    elif not options & c.MQGMO_BROWSE_FIRST:
        held = unit = deliveries.new_unit()
    match = _match(asked)
    for handle in asked.handles:
        queue = on.opened.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        view = queue.view(options, has_handle=False)
        request = GetRequest(match, asked.wait_ms, asked.max_length, view=view)
        getters[handle] = queue.getter(request, options, unit)
    if not getters:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "no handle to get from")
    standing = deliveries.pending_get(
        getters, held, on_done, on_refused if asked.tells_refusals else None
    )
    standing.begin()
    return standing


def _take_held(on: LocalConnection, asked: ask.TakeHeld) -> list[Delivery]:
    options = asked.options
    check_held(options, c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST | c.MQGMO_WAIT)
    queue = on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    request = GetRequest(ANY, view=queue.view(options, has_handle=False))
    return on.session.deliveries.take(
        asked.handle,
        request,
        lambda held: queue.getter(request, options, held),
        max_messages=asked.max_messages,
        max_bytes=asked.max_bytes,
    )


def _unlock(on: LocalConnection, asked: ask.Unlock) -> int:
    check_get_options(asked.options)
    return on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_BROWSE).unlock()


def _settle(on: LocalConnection, asked: ask.Settle) -> None:
    _settle_with(on, asked, None)


def _begin_settle(
    on: LocalConnection, asked: ask.Settle, on_done: OnDone[None], _on_event: OnRefused | None
) -> UnderWay:
    completion = Completion()
    _settle_with(on, asked, completion)
    return on.end_with(completion, on_done, None)


def _settle_with(on: LocalConnection, asked: ask.Settle, completion: Completion | None) -> None:
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
    on: LocalConnection, deliveries: Iterable[int], settlement: Settlement, within: int
) -> None:
    session = _sessions.get(within)
    if session is None or session.core is not on.core or not session.is_open:
        said = f"conversation {within} is none of {on.core.name}"
        raise mq_error(rc.MQRC_UOW_NOT_AVAILABLE, said)
    if settlement is not Settlement.TAKEN:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{settlement.value} within a unit of work")
    on.session.deliveries.move_into(session.unit_of_work, deliveries)


def _put_elsewhere(
    on: LocalConnection,
    settlement: Settlement,
    reason: int,
    unit_of_work: UnitOfWork,
    message: Message,
) -> None:
    if not reason:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "a dead letter has a reason, not 0")
    # The queue manager moves it: its user has only said that it is of no use.
    beside = on.session.beside(unit_of_work, as_manager=True)
    put = set_aside if settlement is Settlement.SET_ASIDE else put_dead_letter
    put(on.core, beside, message, reason)


# The unit of work, and messages that it has got


def _begin_commit(
    on: LocalConnection, _asked: ask.Commit, on_done: OnDone[None], _on_event: OnRefused | None
) -> UnderWay:
    completion = Completion()
    on.session.commit(completion)
    return on.end_with(completion, on_done, None)


def _found(
    on: LocalConnection, asked: ask.Forward | ask.DeadLetter | ask.ReportException
) -> Message:
    found = find_got_message(on.session, asked.queue, asked.token)
    if found is None:
        said = f"message: the unit of work has got none of {asked.queue!r} with this MsgToken"
        raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, said)
    return found


def _forward(on: LocalConnection, asked: ask.Forward) -> None:
    check_forward_target(on.core, asked.name)
    forward(on.core, on.session, asked.name, _found(on, asked))


def _dead_letter(on: LocalConnection, asked: ask.DeadLetter) -> None:
    put_dead_letter(on.core, on.session, _found(on, asked), asked.reason)


def _report_exception(on: LocalConnection, asked: ask.ReportException) -> bool:
    return report_exception(on.core, on.session, _found(on, asked), asked.reason)


def _move(on: LocalConnection, asked: ask.Move) -> int:
    source = on.opened.queue(asked.handle, rc.MQRC_NOT_OPEN_FOR_BROWSE)
    return move_under_cursor(
        on.session,
        source,
        asked.name,
        descriptor=None if asked.descriptor is None else descriptor_of(asked.descriptor),
        header_bytes=asked.header_bytes,
        putter=asked.putter,
    )


def _reply(on: LocalConnection, asked: ask.Reply) -> int:
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


def _subscribe(on: LocalConnection, asked: ask.Subscribe) -> Subscribed:
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
    return Subscribed(number, on.opened.enter(handle), facts_of(opened))


def _queue_or_none(on: LocalConnection, number: int) -> Handle | None:
    return None if number == c.MQHO_NONE else on.opened.queue(number, rc.MQRC_HOBJ_ERROR)


def _join(on: LocalConnection, asked: ask.JoinSubscription) -> Subscribed:
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
    handle = c.MQHO_NONE if opened.handle is None else on.opened.enter(opened.handle)
    return Subscribed(on.enter_subscription(opened), handle, facts_of(opened))


def _close_subscription(on: LocalConnection, asked: ask.CloseSubscription) -> None:
    on.subscription(asked.number).close(remove=asked.remove)
    del on.subscriptions[asked.number]


def _is_subscription_open(on: LocalConnection, asked: ask.IsSubscriptionOpen) -> bool:
    found = on.subscriptions.get(asked.number)
    return found is not None and found.is_open


def _make_temporary_topic(on: LocalConnection, _asked: ask.MakeTemporaryTopic) -> str:
    topic = make_temporary_topic(on.session)
    on.temporary_topics |= {topic}
    return topic


def _delete_temporary_topic(on: LocalConnection, asked: ask.DeleteTemporaryTopic) -> None:
    topic = asked.topic
    if topic not in on.temporary_topics:
        said = f"{topic} is no temporary topic of this one"
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, said)
    if is_subscribed_to(on.core, topic):
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{topic} has a consumer")
    on.temporary_topics -= {topic}
    delete_temporary_topic(on.core, topic)


# The schedule of delayed messages


def _schedule(on: LocalConnection, asked: Any) -> Schedule:
    """Return the schedule for a change, durable at once or part of the unit of work."""
    session, position = on.session, getattr(asked, "position", None)
    schedule = session.schedule if position is None else session.schedule.at(position)
    return schedule.within(session.unit_of_work) if asked.in_unit else schedule


def _receipt(receipt: Receipt) -> ask.ReceiptRow:
    return ask.ReceiptRow(receipt, receipt.message_count)


def _reschedule(on: LocalConnection, asked: ask.Reschedule) -> ask.ReceiptRow:
    receipt = _schedule(on, asked).reschedule(
        asked.msg_id, delay_ms=asked.delay_ms, deliver_at_ms=asked.deliver_at_ms
    )
    return _receipt(receipt)


def _reschedule_all(on: LocalConnection, asked: ask.RescheduleAll) -> int:
    progress = _schedule(on, asked).reschedule_all(
        asked.where,
        delay_ms=asked.delay_ms,
        deliver_at_ms=asked.deliver_at_ms,
        by_ms=asked.by_ms,
    )
    return _begin_steps(on, progress)


def _begin_steps(on: LocalConnection, progress: Iterator[int]) -> int:
    if len(on.steps) >= _MAX_STEPS:
        del on.steps[next(iter(on.steps))]
    number = next(on.numbers)
    on.steps[number] = progress
    return number


def _go_on(on: LocalConnection, asked: ask.GoOn) -> int | None:
    progress = on.steps.get(asked.number)
    if progress is None:
        said = f"number: no change of the schedule is {asked.number}"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, said)
    done_count = next(progress, None)
    if done_count is None:
        del on.steps[asked.number]
    return done_count


# Administration


def _run_mqsc(on: LocalConnection, asked: ask.RunMqsc) -> MqscResult:
    return on.operated.mqsc(asked.script)


def _trace(on: LocalConnection, asked: ask.AskTrace) -> MessageTrace:
    return on.operated.traces.of(asked.identifier)


def _traces(on: LocalConnection, asked: ask.AskTraces) -> TracesFound:
    question = PropertyQuestion(
        asked.name, asked.value, asked.from_ms, asked.before_ms, asked.limit
    )
    return on.operated.traces.with_property(question)


def _run_due(on: LocalConnection, _asked: ask.RunDue) -> None:
    on.operated.run_due()


def _instance(on: LocalConnection, _asked: ask.AskInstance) -> str:
    return on.operated.claims.instance_id


def _consumers(on: LocalConnection, _asked: ask.ListConsumers) -> list[ConsumerState]:
    return on.operated.claims.standings()


def _first_position(on: LocalConnection, _asked: ask.AskFirstPosition) -> int:
    return on.operated.ledger.first_position()


def _read_ledger(on: LocalConnection, asked: ask.ReadLedger) -> ask.LedgerPage:
    try:
        rows = on.operated.ledger.page(asked.after_position, asked.max_rows)
    except PositionTrimmed as trimmed:
        return ask.LedgerPage([], trimmed.first_position)
    return ask.LedgerPage(rows, None)


def _end_written(on: LocalConnection, asked: ask.EndWritten) -> int:
    claims = on.operated.claims
    with _refusals_of_claims():
        return claims.end_written(asked.consumer, claims.instance_id, asked.until)


def _release_claims(on: LocalConnection, asked: ask.ReleaseClaims) -> int:
    claims = on.operated.claims
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
Carries: TypeAlias = Callable[[LocalConnection, Any], Any]
#: Begins a request; the answer is told.
Begins: TypeAlias = Callable[[LocalConnection, Any, OnDone[Any], OnRefused | None], UnderWay]
#: Begins a request; the answer is returned alone in a tuple, or told.
BeginsHere: TypeAlias = Callable[
    [LocalConnection, Any, OnDone[Any], OnRefused | None], tuple[Any] | UnderWay
]

CALLS: Final[dict[type[ask.Request[Any]], Carries]] = {
    ask.Now: lambda on, _asked: on.session.core.now_ms(),
    ask.AskCommandLevel: lambda on, _asked: on.session.core.command_level,
    ask.Open: _open,
    ask.CloseObject: _close_object,
    ask.Inquire: _inquire,
    ask.Set: _set,
    ask.AskLivesFromRelease: _lives_from_release,
    ask.AskBackoutRule: _backout_rule,
    ask.Put: _put,
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
        asked.where, limit=asked.limit, after=asked.after
    ),
    ask.ShowScheduled: lambda on, asked: on.session.schedule.show(asked.msg_id),
    ask.CountScheduled: lambda on, asked: on.session.schedule.count(asked.queue),
    ask.CancelScheduled: lambda on, asked: _receipt(_schedule(on, asked).cancel(asked.msg_id)),
    ask.Reschedule: _reschedule,
    ask.ReleaseScheduled: lambda on, asked: _receipt(_schedule(on, asked).release(asked.msg_id)),
    ask.CancelAll: lambda on, asked: _begin_steps(on, _schedule(on, asked).cancel_all(asked.where)),
    ask.RescheduleAll: _reschedule_all,
    ask.ReleaseAll: lambda on, asked: _begin_steps(
        on, _schedule(on, asked).release_all(asked.where)
    ),
    ask.GoOn: _go_on,
    ask.Audit: lambda on, asked: on.session.schedule.audit_before(asked.before, asked.limit),
    ask.RunMqsc: _run_mqsc,
    ask.AskCounts: lambda on, asked: on.operated.counts(asked.queue),
    ask.AskCurdepth: lambda on, asked: on.operated.curdepth(asked.queue),
    ask.Why: lambda on, asked: on.operated.why(asked.identifier),
    ask.AskTrace: _trace,
    ask.AskTraces: _traces,
    ask.Verify: lambda on, _asked: on.operated.verify(),
    ask.AskDelayProcessorStatus: lambda on, _asked: on.operated.delay_processor_status(),
    ask.AskOwnTime: lambda on, _asked: on.operated.own_time(),
    ask.FollowWall: lambda on, _asked: on.operated.follow_wall(),
    ask.RunDue: _run_due,
    ask.AdvanceClock: lambda on, asked: on.operated.advance_clock(asked.ms),
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


def _unknown(request: Request[Any]) -> MQError:
    said = f"verb: {verb_name(type(request))} is not known here"
    return mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, said)

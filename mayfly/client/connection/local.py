"""The connection to a queue manager of the same process: a function runs each kind of request.

A function in :data:`CALLS` runs a request and returns its answer; it may wait. A function in
:data:`BEGUN` begins a request, and a callback gets the answer. A function in
:data:`FOR_EVENT_LOOP` is for an event loop, which must not wait: an answer that is known at once is
returned in a tuple of one value. All raise MQError for a wrong request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from operator import index
from typing import Any, Final, NamedTuple, SupportsIndex, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from mayfly.admin.events import Origin, commanded_by
from mayfly.admin.operations import reporting_set
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
from mayfly.client.connection.waits import virtual_time_of
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
    SessionSchedule,
    SubscriptionWanted,
    TopicHandle,
    UnitOfWork,
    check_get_options,
    delete_temporary_topic,
    facts_of,
    find_got_message,
    get_many,
    has_ttl_from_release,
    inquire,
    inquire_itself,
    is_subscribed_to,
    make_temporary_topic,
    open_durable,
    remove_idle,
    reserve_client_id,
    set_attributes,
    subscribe_as,
    with_properties,
)
from mayfly.lifetime.window import check_life_ms, life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.event_constants import MQEVO_CONSOLE, MQEVO_MQSET
from mayfly.queue_manager import QueueManager
from mayfly.runtime import VirtualClock
from mayfly.runtime.virtual_clock import this_process
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_max_messages
from mayfly.verbs.contracts.bulk_reasons import CONSUMER_UNKNOWN
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.erasure import Erasure
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.contracts.wire import descriptor_of
from mayfly.verbs.facts import Inquiry, MessageTrace, MqscResult, PropertyQuestion, TracesFound
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.properties.folders import Property
from mayfly.verbs.requests import (
    BackoutRule,
    Opened,
    Put,
    Request,
    Streaming,
    Subscribed,
    verb_name,
)
from mayfly.verbs.rows import properties_of, scalar_of
from mayfly.verbs.schedule import Receipt

AnyHandle: TypeAlias = Handle | TopicHandle | DefinitionHandle


class HandleTable:
    """The open objects of one connection, by handle number."""

    def __init__(self) -> None:
        """Begin with no open object."""
        #: Handles by number, for verbs. Handles that their session has closed are here as well:
        #: their ``is_open`` is False.
        self.handles: dict[int, AnyHandle] = {}

    def register(self, handle: AnyHandle) -> int:
        """Register an open handle and return its number, by which the other methods find it."""
        number = handle.number
        self.handles[number] = handle
        return number

    def find(self, number: SupportsIndex) -> AnyHandle:
        """Return the handle with a number.

        Raises MQRC_HOBJ_ERROR for a number without a handle: never opened, or closed since.
        """
        handle = self.handles.get(index(number))
        if handle is None:
            raise not_open_here(number)
        return handle

    def queue(self, number: SupportsIndex, reason: int) -> Handle:
        """Return the queue handle with a number.

        Raises MQRC_HOBJ_ERROR when nothing is open under the number, and an MQError with ``reason``
        when the open object is not a queue.
        """
        handle = self.find(number)
        if not isinstance(handle, Handle):
            raise mq_error(reason, f"handle {index(number)} is no queue")
        return handle

    def wrong_handle(self, reason: int, number: SupportsIndex) -> MQError:
        """Return the error for a number that is not the kind of handle that a verb needs.

        It has MQRC_HOBJ_ERROR when nothing is open under the number, else ``reason``.
        """
        if self.handles.get(index(number)) is None:
            return not_open_here(number)
        return mq_error(reason, f"handle {index(number)} was not opened for this")

    def is_open(self, handle: int) -> bool:
        """Return True if an object is open under this handle number.

        False if the number was never used, or its object is closed.
        """
        found = self.handles.get(handle)
        return found is not None and found.is_open


def not_open_here(number: SupportsIndex) -> MQError:
    """Return an MQRC_HOBJ_ERROR for a handle number that is not open on this connection."""
    return mq_error(rc.MQRC_HOBJ_ERROR, f"handle {index(number)} is not open on this connection")


_R = TypeVar("_R")
_T = TypeVar("_T")
#: The sessions of the conversations of this process, by number.
_sessions: WeakValueDictionary[int, Session] = WeakValueDictionary()
#: The number of bulk changes of the schedule that may be open; one more ends the oldest.
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
    """The number of open handles of a connection, and of its deliveries that are not settled."""

    handle_count: int
    delivery_count: int


class LocalConnection(Connection):
    """A connection to a queue manager of the same process, with one session of it."""

    session: Session
    pending_waits: PendingWaits

    def __init__(self, session: Session, manager: QueueManager) -> None:
        """Use a session of ``manager``. Closing the connection closes the session."""
        core = session.core
        self.name, self.number, self.runtime = core.name, session.number, core.runtime
        self.now_ms = core.now_ms  # type: ignore[method-assign]  # no request for the time
        #: The virtual time under which it waits, None for real time.
        self.virtual_time = virtual_time_of(manager.engine)
        self.session, self.core, self.manager = session, core, manager
        self.opened = HandleTable()
        self.subscriptions: dict[int, OpenSubscription] = {}
        self.temporary_topics: frozenset[str] = frozenset()
        #: Bulk changes of the schedule, which run step by step, by number.
        self.steps: dict[int, Iterator[int]] = {}
        #: Numbers of subscriptions and of bulk changes.
        self.numbers = count(1)
        #: Waits with callbacks, other than gets.
        self.pending_waits = PendingWaits(core)
        _sessions[session.number] = session

    def call(self, request: Request[_R]) -> _R:
        """Run a request and return its answer, whose type depends on the request.

        Raises the MQError of the verb, and MQRC_FUNCTION_NOT_SUPPORTED for a request that is not in
        :data:`CALLS`.
        """
        answer: _R = _function_for(request, CALLS)(self, request)
        return answer

    def begin(
        self,
        request: Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Begin a request and return the running verb; ``on_done`` gets its answer or MQError.

        This method raises no MQError: the error of a wrong request goes to ``on_done`` as well.
        ``on_event`` is called for each queue that a ``requests.GetAny`` cannot get from. A request
        that :data:`BEGUN` does not have ends with MQRC_FUNCTION_NOT_SUPPORTED.
        """
        try:
            return _function_for(request, BEGUN)(self, request, on_done, on_event)
        except MQError as error:
            self.notify(on_done, error)
            return DECIDED

    def begin_without_waiting(
        self,
        request: Request[Any],
        on_done: OnDone[Any],
        on_event: OnRefused | None = None,
    ) -> tuple[Any] | UnderWay:
        """Begin a request from an event loop, which must not wait.

        Returns the answer in a tuple of one value when the answer is known at once; ``on_done`` is
        then not called. Otherwise returns the running verb, and ``on_done`` gets the answer later.
        Raises MQError for a wrong request, and MQRC_FUNCTION_NOT_SUPPORTED for a request that is
        not in :data:`FOR_EVENT_LOOP`.
        """
        return _function_for(request, FOR_EVENT_LOOP)(self, request, on_done, on_event)

    def begin_puts(
        self,
        puts: Iterable[Put | MQError],
        on_done: Callable[[list[PutResult | MQError | None]], object],
    ) -> list[PutResult | MQError | None] | UnderWay:
        """Begin several independent puts: one that fails does not stop the others.

        The outcomes have the order of ``puts``: a result or an MQError. An MQError in ``puts``
        stays in its place as the outcome. Returns the outcomes when no put waits for the disk;
        ``on_done`` is then not called. Otherwise returns the last running put; all puts share one
        write, and ``on_done`` gets the outcomes after that write.
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
        """Put a message (MQPUT) and return its result, without the cost of a request object.

        The result is None when the queue refuses a message with MQPMO_ASYNC_RESPONSE. With a
        ``completion`` the call returns before the disk write, which the caller then does with the
        completion. The keywords beside these two are fields of ``requests.Put``. ``context`` is the
        handle whose saved context is passed on. A limited ``expiry_tenths`` is used in place of
        ``time_to_live_ms``. Raises MQRC_HOBJ_ERROR for a handle that is not open,
        MQRC_NOT_OPEN_FOR_OUTPUT for a handle of another kind, MQRC_EXPIRY_ERROR, and the other
        reason codes of MQPUT.
        """
        target = self.opened.handles.get(handle)
        if not isinstance(target, (Handle, TopicHandle)):
            raise self.opened.wrong_handle(rc.MQRC_NOT_OPEN_FOR_OUTPUT, handle)
        if time_to_live_ms is not None:
            check_life_ms(time_to_live_ms)
        if expiry_tenths != c.MQEI_UNLIMITED:
            refuses_zero = self.core.settings.is_zero_refused
            time_to_live_ms = life_ms_of_expiry(expiry_tenths, refuse_zero=refuses_zero)
        if properties:
            descriptor, body = with_properties(self.core, descriptor, body, properties)
        request = PutRequest(descriptor, msg_id, correl_id, time_to_live_ms, delay_ms)
        if options & ask.RESPONSE_AS_QUEUE:
            options ^= ask.RESPONSE_AS_QUEUE
            if isinstance(target, Handle):
                options |= target.default_response
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
        """Get a message (MQGET) and return its result, without the cost of a request object.

        The parameters are the fields of ``requests.Get``. Raises NoMessage (MQRC_NO_MSG_AVAILABLE)
        when none comes within ``wait_ms``, MQRC_HOBJ_ERROR for a handle that is not open, and
        MQRC_NOT_OPEN_FOR_INPUT for a handle that is not a queue's.
        """
        source = self.opened.handles.get(handle)
        if not isinstance(source, Handle):
            raise self.opened.wrong_handle(rc.MQRC_NOT_OPEN_FOR_INPUT, handle)
        match = _match(msg_id, correl_id, group_id, sequence_number, offset, token)
        view = source.view(options, has_handle=in_handle)
        request = GetRequest(match, wait_ms, max_length, False, False, view, with_extension)
        return source.get(request, options)

    def notify(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is already known, after the callbacks before it."""
        self.core.background.end_with(Completion(), lambda _none: on_done(outcome))

    def close(self, *, commit: bool = True) -> None:
        """Disconnect (MQDISC): end pending waits, commit or back out, delete temporary topics.

        Messages of unsettled deliveries go back to their queues, and their backout counts rise. A
        second call does nothing.
        """
        try:
            self.pending_waits.end()
            self.session.close(commit=commit)
        finally:
            self.opened.handles.clear()
            temporary, self.temporary_topics = self.temporary_topics, frozenset()
            for topic in temporary:
                if not self.core.is_stopped:
                    delete_temporary_topic(self.core, topic)

    def has_open(self, handle: int) -> bool:
        """Return True if an object is open under this handle number."""
        return self.opened.is_open(handle)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which closes a garbage-collected object: now, or before the next verb.

        Mayfly's code on the call stack may hold a lock that ``end`` needs; ``end`` then runs later.
        """
        end_dropped(end, self.core.left_behind.objects.append)

    @property
    def is_open(self) -> bool:
        """True until the connection is closed."""
        return self.session.is_open

    @property
    def is_broken(self) -> bool:
        """True when the queue manager has stopped."""
        return self.core.is_stopped

    @property
    def holdings(self) -> Holdings:
        """The numbers of open handles and unsettled deliveries."""
        return Holdings(len(self.opened.handles), len(self.session.deliveries))

    # For the functions below.

    @property
    def operated(self) -> QueueManager:
        """The queue manager, for administration.

        Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
        """
        if self.session.authority is not None:
            text = "a user of limited authority administers nothing"
            raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)
        return self.manager

    def subscription(self, number: int) -> OpenSubscription:
        """Return the open subscription with a number; raises MQRC_HOBJ_ERROR when there is none."""
        found = self.subscriptions.get(number)
        if found is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return found

    def register_subscription(self, opened: OpenSubscription) -> int:
        """Register an open subscription and return its new number."""
        number = next(self.numbers)
        self.subscriptions[number] = opened
        return number

    def end_with(
        self, completion: Completion, on_done: OnDone[_T], answer: _T | MQError
    ) -> UnderWay:
        """Call ``on_done`` with the answer once ``completion`` is on disk.

        Returns DECIDED at once, a running verb that cannot be cancelled. If the write fails,
        ``on_done`` gets the MQError instead.
        """

        def end(error: MQError | None) -> None:
            on_done(answer if error is None else error)

        self.core.background.end_with(completion, end)
        return DECIDED


# Objects


def _open(connection: LocalConnection, request: ask.Open) -> Opened:
    """Open an object (MQOPEN), register its handle, and return the handle with the resolved names.

    Raises the errors of :func:`_open_named`.
    """
    handle = _open_named(connection, request)
    name, number = connection.name, connection.opened.register(handle)
    if isinstance(handle, DefinitionHandle):
        return Opened(number, request.kind, "", name)
    if isinstance(handle, TopicHandle):
        return Opened(number, c.MQOT_TOPIC, "", name, topic=handle.topic)
    queue, manager = handle.path.remote or (handle.queue_name, name)
    made = handle.queue_name if handle.owns_queue else ""
    kind = 0 if handle.path.remote else handle.queue.definition.definition_type
    return Opened(number, c.MQOT_Q, queue, manager, made, definition_type=kind)


def _open_named(connection: LocalConnection, request: ask.Open) -> AnyHandle:
    """Open the queue, topic or definition that a request names; the handle is not registered yet.

    An alias of a topic opens the topic. Raises MQRC_OBJECT_TYPE_ERROR for another object type,
    MQRC_UNKNOWN_REMOTE_Q_MGR for a topic of another queue manager, MQRC_OPTION_NOT_VALID_FOR_TYPE
    for a definition of another queue manager, and the other reason codes of MQOPEN.
    """
    session, here, kind, manager = (
        connection.session,
        connection.name,
        request.kind,
        request.manager,
    )
    alternate_user = request.alternate_user
    if kind == c.MQOT_Q:
        name = full_name(request.name, manager, here)
        if session.leads_to_topic(name):
            return session.open_topic(
                "", request.options, alias=name, alternate_user=alternate_user
            )
        return session.open(
            name,
            request.options,
            dynamic_name=request.dynamic_name,
            selector=request.selector,
            alternate_user=alternate_user,
        )
    name, is_here = request.name, manager in ("", here)
    if kind == c.MQOT_TOPIC:
        if not is_here:
            text = f"topics of {manager!r} are not known here"
            raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, text)
        return session.open_topic(
            request.topic, request.options, topic_object=name, alternate_user=alternate_user
        )
    if kind not in DEFINITION_KINDS:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {kind} is no queue and no topic")
    if not is_here:
        text = f"{name} of {manager} is not to be opened here"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)
    of_kind = DEFINITION_KINDS[kind]
    return session.open_definition(of_kind, name, request.options, alternate_user=alternate_user)


def _close_object(connection: LocalConnection, request: ask.CloseObject) -> int:
    """Close an object (MQCLOSE), forget its handle, and return MQRC_NONE or a warning.

    Raises MQRC_HOBJ_ERROR for a handle that is not open. After any other error the handle stays
    open.
    """
    handles, number = connection.opened.handles, request.handle
    closing = handles.get(number)
    if closing is None:
        raise not_open_here(number)
    reason = closing.close(request.options) or rc.MQRC_NONE
    # Another thread may have closed it meanwhile: a close ends the waits of others.
    handles.pop(number, None)
    return reason


def _inquire(connection: LocalConnection, request: ask.Inquire) -> Inquiry:
    """Return the attributes that an MQINQ asks for; handle MQHO_NONE is the queue manager itself.

    Raises MQRC_HOBJ_ERROR for a handle that is not open, MQRC_NOT_OPEN_FOR_INQUIRE for a topic, and
    the other reason codes of MQINQ.
    """
    if request.handle == c.MQHO_NONE:
        return inquire_itself(
            connection.session.core, connection.session.authority, request.selectors
        )
    found = connection.opened.find(request.handle)
    if isinstance(found, TopicHandle):
        text = f"handle {request.handle} is that of a topic"
        raise mq_error(rc.MQRC_NOT_OPEN_FOR_INQUIRE, text)
    return inquire(connection.core, found, request.selectors)


def _set(connection: LocalConnection, request: ask.Set) -> None:
    """Set attributes of an open queue (MQSET), all of them or none; durable on return.

    Raises MQRC_HOBJ_ERROR for a handle that is not open, MQRC_NOT_OPEN_FOR_SET for a handle of
    another kind, and the other reason codes of MQSET.
    """
    values = {selector: scalar_of(value, "values") for selector, value in request.values}
    found = connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_SET)
    origin = Origin(connection.session.context.user_identifier, MQEVO_MQSET)
    with commanded_by(origin), reporting_set(connection.manager.engine, found.queue_name):
        set_attributes(connection.core, found, values)


def _backout_rule(connection: LocalConnection, request: ask.AskBackoutRule) -> BackoutRule:
    """Return BOTHRESH and BOQNAME of an open queue; raises MQRC_HOBJ_ERROR for any other handle."""
    definition = connection.opened.queue(request.handle, rc.MQRC_HOBJ_ERROR).queue.definition
    return BackoutRule(definition.bothresh, definition.boqname)


def _streaming(connection: LocalConnection, request: ask.AskStreaming) -> Streaming:
    """Return what an open queue lets a client do without waiting; raises MQRC_HOBJ_ERROR."""
    handle = connection.opened.queue(request.handle, rc.MQRC_HOBJ_ERROR)
    can_tell_time = request.process == this_process() or not isinstance(
        connection.core.clock, VirtualClock
    )
    return Streaming(
        bool(handle.default_response),
        handle.reads_ahead and can_tell_time,
        handle.path.default_persistence,
    )


def _lives_from_release(connection: LocalConnection, request: ask.AskLivesFromRelease) -> bool:
    """Return True if a queue counts the time to live from the delivery time (TTLFROM(RELEASE)).

    Handle MQHO_NONE asks whether any local queue does. Raises MQRC_HOBJ_ERROR for another handle
    that is not of an open queue.
    """
    if request.handle == c.MQHO_NONE:
        return has_ttl_from_release(connection.core)
    return connection.opened.queue(request.handle, rc.MQRC_HOBJ_ERROR).path.ttl_from_release


# Puts


def _put_to(
    connection: LocalConnection,
    handle: int,
    request: ask.Put | ask.Put1,
    context: int = c.MQHO_NONE,
    completion: Completion | None = None,
) -> PutResult | None:
    """Put the message of a request to an open handle and return the result.

    ``context`` and ``completion``, and the errors, are those of :meth:`LocalConnection.put`.
    """
    message = request.message
    return connection.put(
        handle,
        message.body,
        descriptor_of(request.descriptor),
        request.options,
        msg_id=message.msg_id,
        correl_id=message.correl_id,
        expiry_tenths=message.expiry_tenths,
        time_to_live_ms=message.time_to_live_ms,
        delay_ms=message.delay_ms,
        properties=properties_of(message.properties) if message.properties else (),
        context=context,
        completion=completion,
    )


def _attempt_put(
    connection: LocalConnection, request: ask.Put
) -> tuple[PutResult | None, Completion]:
    """Put a message without waiting for the disk; return the result and the disk work that is left.

    The put has ended when the completion is empty; else see :meth:`LocalConnection.end_with`.
    Raises MQRC_RESOURCE_PROBLEM when too many puts wait for the disk, and the errors of a put.
    """
    connection.core.background.check_capacity()
    completion = Completion()
    result = _put_to(connection, request.handle, request, request.context, completion)
    return result, completion


def _begin_put(
    connection: LocalConnection,
    request: ask.Put,
    on_done: OnDone[PutResult | None],
    _on_event: OnRefused | None,
) -> UnderWay:
    """Put a message; ``on_done`` gets the result when the message is on disk.

    If the disk write fails, ``on_done`` gets its MQError. Returns DECIDED, a running verb that
    cannot be cancelled. Raises the errors of a put.
    """
    result, completion = _attempt_put(connection, request)
    return connection.end_with(completion, on_done, result)


def _put_without_waiting(
    connection: LocalConnection,
    request: ask.Put,
    on_done: OnDone[PutResult | None],
    _on_event: OnRefused | None,
) -> tuple[PutResult | None] | UnderWay:
    """Put a message; return its result in a tuple of one value if no disk write is needed.

    Otherwise return DECIDED (it cannot be cancelled); ``on_done`` gets the result after the disk
    write.
    """
    result, completion = _attempt_put(connection, request)
    return (result,) if completion.is_empty else connection.end_with(completion, on_done, result)


def _put1(connection: LocalConnection, request: ask.Put1) -> PutResult:
    """Open an object, put one message and close the object (MQPUT1); return the result of the put.

    Raises MQRC_OPTIONS_ERROR for options that MQPUT1 does not allow, MQRC_OBJECT_TYPE_ERROR for an
    object that is neither queue nor topic, and the errors of open and put.
    """
    options = request.options
    if options & _NOT_FOR_PUT1:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"PMO.Options {options:#x} of MQPUT1")
    message = request.message
    is_plain = message.expiry_tenths == c.MQEI_UNLIMITED and not message.properties
    is_named = request.name or request.manager or request.kind != c.MQOT_TOPIC
    if is_plain and not is_named and options in _OF_PLAIN_PUBLISHING:
        return _publish(connection, request)
    opens = c.MQOO_OUTPUT
    if options & _SETS_CONTEXT:
        opens |= c.MQOO_SET_ALL_CONTEXT if options & c.MQPMO_SET_ALL_CONTEXT else 0
        opens |= c.MQOO_SET_IDENTITY_CONTEXT if options & c.MQPMO_SET_IDENTITY_CONTEXT else 0
    wanted = ask.Open(request.name, opens, request.kind, request.manager, request.topic)
    opened = _open_named(connection, wanted)
    if not isinstance(opened, (Handle, TopicHandle)):
        opened.close()
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {request.kind} of MQPUT1")
    number = connection.opened.register(opened)
    try:
        result = _put_to(connection, number, request)
    finally:
        opened.close()
        del connection.opened.handles[number]
    assert result is not None
    return result


def _publish(connection: LocalConnection, request: ask.Put1) -> PutResult:
    """Publish by the topic string of a request, without opening the topic; return the result.

    For requests whose options need no handle: at most syncpoint and retain.
    """
    message = request.message
    put_request = PutRequest(
        descriptor_of(request.descriptor),
        message.msg_id,
        message.correl_id,
        message.time_to_live_ms,
        message.delay_ms,
    )
    result = connection.session.publish_as(
        request.topic,
        message.body,
        put_request,
        syncpoint=bool(request.options & c.MQPMO_SYNCPOINT),
        retain=bool(request.options & c.MQPMO_RETAIN),
    )
    return PutResult(
        result.msg_id,
        message.correl_id,
        result.descriptor,
        result.window,
        result.warning,
        "",
        connection.name,
    )


def _new_ids(connection: LocalConnection, request: ask.NewIds) -> ask.Ids:
    """Return ``request.count`` new MsgIds of 24 bytes each, concatenated, and the time in ms."""
    ids = b"".join([new_message_id(connection.core) for _ in range(request.count)])
    return ask.Ids(connection.core.now_ms(), ids)


# Gets


def _match(
    msg_id: bytes,
    correl_id: bytes,
    group_id: bytes = b"",
    sequence_number: int | None = None,
    offset: int | None = None,
    token: bytes | None = None,
) -> Match:
    """Return the condition of a get: a message must have all values that are set.

    An empty id, and None for the others, is not set. Returns ANY, which every message meets, if
    nothing is set.
    """
    is_one_of_group = group_id or sequence_number is not None or offset is not None
    if not (msg_id or correl_id or is_one_of_group or token is not None):
        return ANY
    return Match(
        msg_id or None, correl_id or None, group_id or None, sequence_number, offset, token=token
    )


def _get_request(source: Handle, request: ask.Get) -> GetRequest:
    """Return a get request in the form of the engine, for the open queue ``source``."""
    view = source.view(request.options, has_handle=request.in_handle)
    match = _match(
        request.msg_id,
        request.correl_id,
        request.group_id,
        request.sequence_number,
        request.offset,
        request.token,
    )
    return GetRequest(
        match, request.wait_ms, request.max_length, view=view, extends=request.with_extension
    )


def _get(connection: LocalConnection, request: ask.Get) -> GetResult:
    """Get a message of an open queue (MQGET) and return its result.

    Raises NoMessage when none comes in time, MQRC_HOBJ_ERROR for a handle that is not open, and
    MQRC_NOT_OPEN_FOR_INPUT for one that is not a queue's.
    """
    source = connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    return source.get(_get_request(source, request), request.options)


def _pending_get(
    connection: LocalConnection, request: ask.Get, on_done: OnDone[GetResult]
) -> PendingGet:
    """Return a get with a callback, which has not begun: the caller calls its ``begin``.

    Raises MQRC_HOBJ_ERROR or MQRC_NOT_OPEN_FOR_INPUT for a handle that is not of an open queue.
    """
    source = connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    return source.begin_get(_get_request(source, request), request.options, on_done)


def _begin_get(
    connection: LocalConnection,
    request: ask.Get,
    on_done: OnDone[GetResult],
    _on_event: OnRefused | None,
) -> UnderWay:
    """Begin a get and return it; ``on_done`` gets the result, or NoMessage if no message comes."""
    pending = _pending_get(connection, request, on_done)
    pending.begin()
    return pending


def _get_without_waiting(
    connection: LocalConnection,
    request: ask.Get,
    on_done: OnDone[GetResult],
    _on_event: OnRefused | None,
) -> tuple[GetResult] | UnderWay:
    """Get a message; return its result in a tuple of one value if it is known at once.

    Otherwise return the pending get; ``on_done`` gets its outcome. Raises an MQError that is known
    at once, such as NoMessage.
    """
    pending = _pending_get(connection, request, on_done)
    outcome = pending.begin_at_once()
    if outcome is None:
        return pending
    if isinstance(outcome, MQError):
        raise outcome
    return (outcome,)


def _get_many(connection: LocalConnection, request: ask.GetMany) -> list[Message]:
    """Get several messages in one transaction, without waiting; return [] when none is available.

    Raises MQRC_OPTIONS_ERROR for other options than syncpoint and properties, and for a handle with
    a selector.
    """
    options, session = request.options, connection.session
    check_max_messages(request.max_messages)
    queue = connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    if options & ~_OF_MANY or not options & c.MQGMO_PROPERTIES_FORCE_MQRFH2:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of many")
    unit_of_work = session.unit_of_work if options & c.MQGMO_SYNCPOINT else None
    getter = queue.getter(GetRequest(ANY), options, unit_of_work)
    if not getter.takes_any:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "many by a handle that has a selector")
    return get_many(
        connection.core, getter, request.max_messages, unit_of_work, max_bytes=request.max_bytes
    )


def _get_held(connection: LocalConnection, request: ask.GetAny) -> Delivery:
    """Get one message of one queue and hold it as a delivery until it is settled.

    Raises NoMessage when none comes in time, and MQRC_OPTIONS_ERROR for several queues: such a get
    needs a callback (``begin``).
    """
    check_called(request)
    [handle] = request.handles
    queue = connection.opened.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    deliveries = connection.session.deliveries
    unit = deliveries.new_unit()
    view = queue.view(request.options, has_handle=False)
    match = _match(request.msg_id, request.correl_id)
    get_request = GetRequest(match, request.wait_ms, request.max_length, view=view)
    return deliveries.get(handle, queue.getter(get_request, request.options, unit), unit)


def _begin_get_any(
    connection: LocalConnection,
    request: ask.GetAny,
    on_done: OnDone[Delivery],
    on_refused: OnRefused | None,
) -> UnderWay:
    """Begin to get one message from any of several queues; ``on_done`` gets the delivery.

    Returns the running get. The message is held until it is settled. With MQGMO_SYNCPOINT it is got
    in the unit of work instead; with MQGMO_BROWSE_FIRST it stays on its queue. Raises
    MQRC_HOBJ_ERROR without a handle, or for one that is not open, and MQRC_NOT_OPEN_FOR_INPUT for
    one that is not a queue's.
    """
    deliveries, options, getters = connection.session.deliveries, request.options, {}
    held = unit = None
    if options & c.MQGMO_SYNCPOINT:
        unit = connection.session.unit_of_work
    elif not options & c.MQGMO_BROWSE_FIRST:
        held = unit = deliveries.new_unit()
    match = _match(request.msg_id, request.correl_id)
    for handle in request.handles:
        queue = connection.opened.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        view = queue.view(options, has_handle=False)
        get_request = GetRequest(match, request.wait_ms, request.max_length, view=view)
        getters[handle] = queue.getter(get_request, options, unit)
    if not getters:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "no handle to get from")
    pending = deliveries.pending_get(
        getters, held, on_done, on_refused if request.tells_refusals else None
    )
    pending.begin()
    return pending


def _take_held(
    connection: LocalConnection, request: ask.TakeHeld | ask.TakeAhead
) -> list[Delivery]:
    """Get several messages of one queue without waiting, each held as a delivery.

    Returns [] when none is available. Raises MQRC_OPTIONS_ERROR for syncpoint, browsing and
    waiting.
    """
    options = request.options
    check_held(options, c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST | c.MQGMO_WAIT)
    queue = connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
    get_request = GetRequest(ANY, view=queue.view(options, has_handle=False))
    return connection.session.deliveries.take(
        request.handle,
        get_request,
        lambda held: queue.getter(get_request, options, held),
        max_messages=request.max_messages,
        max_bytes=request.max_bytes,
        only_volatile=isinstance(request, ask.TakeAhead),
    )


def _unlock(connection: LocalConnection, request: ask.Unlock) -> int:
    """Unlock the message that a browse has locked; return MQRC_NONE or MQRC_NO_MSG_LOCKED.

    Raises MQRC_NOT_OPEN_FOR_BROWSE for a handle that is not a queue's, and MQRC_OPTIONS_ERROR for
    options that MQGET does not allow together.
    """
    check_get_options(request.options)
    return connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_BROWSE).unlock()


def _begin_settle(
    connection: LocalConnection,
    request: ask.Settle,
    on_done: OnDone[None],
    _on_event: OnRefused | None,
) -> UnderWay:
    """Settle deliveries; ``on_done`` gets None when that is on disk.

    If the disk write fails, ``on_done`` gets its MQError. Returns DECIDED, a running verb that
    cannot be cancelled. Raises MQRC_HMSG_ERROR for a delivery that is already settled.
    """
    completion = Completion()
    _settle_with(connection, request, completion)
    return connection.end_with(completion, on_done, None)


def _settle_with(
    connection: LocalConnection, request: ask.Settle, completion: Completion | None
) -> None:
    """Settle deliveries, or move them into the unit of work of conversation ``request.within``.

    With a ``completion`` the call returns before the disk write. Raises MQRC_HMSG_ERROR for a
    delivery that is already settled; then none is settled.
    """
    if request.within:
        _move_into_unit(connection, request.deliveries, request.settlement, request.within)
    else:
        connection.session.deliveries.settle(
            request.deliveries,
            request.settlement,
            put_elsewhere=partial(_put_elsewhere, connection, request.settlement, request.reason),
            completion=completion,
        )


def _move_into_unit(
    connection: LocalConnection, deliveries: Iterable[int], settlement: Settlement, within: int
) -> None:
    """Move deliveries into the unit of work of the conversation with number ``within``.

    Raises MQRC_UOW_NOT_AVAILABLE if that conversation is closed or belongs to another queue
    manager, and MQRC_OPTIONS_ERROR for a settlement other than TAKEN.
    """
    session = _sessions.get(within)
    if session is None or session.core is not connection.core or not session.is_open:
        text = f"conversation {within} is none of {connection.core.name}"
        raise mq_error(rc.MQRC_UOW_NOT_AVAILABLE, text)
    if settlement is not Settlement.TAKEN:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{settlement.value} within a unit of work")
    connection.session.deliveries.move_into(session.unit_of_work, deliveries)


def _put_elsewhere(
    connection: LocalConnection,
    settlement: Settlement,
    reason: int,
    unit_of_work: UnitOfWork,
    message: Message,
) -> None:
    """Put a rejected message on another queue, with the authority of the queue manager.

    SET_ASIDE puts it on BOQNAME of its queue, or else on the dead-letter queue. Any other
    settlement puts it on the dead-letter queue. Raises MQRC_OPTIONS_ERROR for reason 0, and the
    error of a dead-letter queue that refuses the message.
    """
    if not reason:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "a dead letter has a reason, not 0")
    # The queue manager moves it: its user has only said that it is of no use.
    beside = connection.session.beside(unit_of_work, as_manager=True)
    put = set_aside if settlement is Settlement.SET_ASIDE else put_dead_letter
    put(connection.core, beside, message, reason)


# The unit of work, and messages that it has got


def _begin_commit(
    connection: LocalConnection,
    _request: ask.Commit,
    on_done: OnDone[None],
    _on_event: OnRefused | None,
) -> UnderWay:
    """Commit the unit of work; ``on_done`` gets None when that is on disk.

    If the disk write fails, ``on_done`` gets its MQError. Returns DECIDED, a running verb that
    cannot be cancelled.
    """
    completion = Completion()
    connection.session.commit(completion)
    return connection.end_with(completion, on_done, None)


def _found(
    connection: LocalConnection, request: ask.Forward | ask.DeadLetter | ask.ReportException
) -> Message:
    """Return a message that the unit of work has got, by queue and MsgToken.

    Raises MQRC_NO_MSG_AVAILABLE for a message that the unit of work has not got.
    """
    found = find_got_message(connection.session, request.queue, request.token)
    if found is None:
        text = f"message: the unit of work has got none of {request.queue!r} with this MsgToken"
        raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, text)
    return found


def _forward(connection: LocalConnection, request: ask.Forward) -> None:
    """Put a got message on another queue, in the unit of work that has got it.

    Its expiry time stays the same. Raises MQRC_UNKNOWN_OBJECT_NAME for a blank name or a model
    queue, MQRC_NO_MSG_AVAILABLE for a message that the unit of work has not got, and the errors of
    a put.
    """
    check_forward_target(connection.core, request.name)
    forward(connection.core, connection.session, request.name, _found(connection, request))


def _dead_letter(connection: LocalConnection, request: ask.DeadLetter) -> None:
    """Put a got message on the dead-letter queue, in the unit of work that has got it.

    An MQDLH comes before its data. Raises MQRC_NO_MSG_AVAILABLE for a message that the unit of work
    has not got, and the errors of a put.
    """
    put_dead_letter(
        connection.core, connection.session, _found(connection, request), request.reason
    )


def _report_exception(connection: LocalConnection, request: ask.ReportException) -> bool:
    """Send the exception report that a got message requests, in the unit of work.

    Returns False if no queue accepts the report; True if it is put, or the message requests none.
    Raises MQRC_NO_MSG_AVAILABLE for a message that the unit of work has not got.
    """
    return report_exception(
        connection.core, connection.session, _found(connection, request), request.reason
    )


def _move(connection: LocalConnection, request: ask.Move) -> int:
    """Move the message under the browse cursor to another queue, under syncpoint.

    Returns an arrival number: messages that arrive later on the source queue have a higher one.
    Raises MQRC_NO_MSG_UNDER_CURSOR when the message is gone, and the errors of a put. After an
    error the caller must back out.
    """
    source = connection.opened.queue(request.handle, rc.MQRC_NOT_OPEN_FOR_BROWSE)
    return move_under_cursor(
        connection.session,
        source,
        request.name,
        descriptor=None if request.descriptor is None else descriptor_of(request.descriptor),
        header_bytes=request.header_bytes,
        putter=request.putter,
    )


def _reply(connection: LocalConnection, request: ask.Reply) -> int:
    """Put a reply in the unit of work, with the context in its descriptor (set all context).

    ``request.putter`` is the user who must be authorized for the put. Returns 0, or the reason code
    for which the reply went to the dead-letter queue. Raises MQRC_NOT_AUTHORIZED for a user whose
    authority is limited.
    """
    session = connection.session
    if session.authority is not None:
        text = "a user of limited authority says no context of replies"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)
    target = full_name(request.name, request.manager, connection.core.name) if request.name else ""
    put_request = PutRequest(
        descriptor_of(request.descriptor),
        request.msg_id,
        request.correl_id,
        request.time_to_live_ms,
        context_option=c.MQPMO_SET_ALL_CONTEXT,
    )
    return put_reply(session, target, request.putter, request.body, put_request)


# Topics


def _subscribe(connection: LocalConnection, request: ask.Subscribe) -> Subscribed:
    """Make, resume or alter a subscription (MQSUB); return its number, queue handle and attributes.

    An altered subscription keeps its number. Raises MQRC_HOBJ_ERROR for a queue handle or
    subscription that is not open, and the other reason codes of MQSUB.
    """
    wanted = SubscriptionWanted(
        request.options,
        request.name,
        request.topic,
        request.topic_object,
        request.selector,
        request.user_data,
        request.correl_id,
        request.expiry_tenths,
        request.priority,
        _queue_or_none(connection, request.queue),
    )
    number = request.altered
    current = connection.subscription(number) if number else None
    held = _queue_or_none(connection, request.held)
    opened, handle = subscribe_as(connection.session, wanted, altered=current, held=held)
    if opened is not current:
        number = connection.register_subscription(opened)
    return Subscribed(number, connection.opened.register(handle), facts_of(opened))


def _queue_or_none(connection: LocalConnection, number: int) -> Handle | None:
    """Return the queue handle with a number, None for MQHO_NONE; raises MQRC_HOBJ_ERROR."""
    return None if number == c.MQHO_NONE else connection.opened.queue(number, rc.MQRC_HOBJ_ERROR)


def _join(connection: LocalConnection, request: ask.JoinSubscription) -> Subscribed:
    """Open a subscription by its name as JMS does (join, resume or make), and register it.

    Without a name a new subscription is made. The handle in the result is that of the queue of its
    publications. It is MQHO_NONE if a definition (DEFINE SUB) names the queue of its publications.
    """
    opened: OpenSubscription
    if request.is_durable:
        opened = open_durable(
            connection.session,
            request.name,
            request.topic,
            selector=request.selector,
            shared=request.is_shared,
            no_local=request.no_local,
        )
    else:
        opened = connection.session.subscribe(
            request.topic,
            name=request.name,
            selector=request.selector,
            shared=request.is_shared,
            no_local=request.no_local,
        )
    handle = c.MQHO_NONE if opened.handle is None else connection.opened.register(opened.handle)
    return Subscribed(connection.register_subscription(opened), handle, facts_of(opened))


def _close_subscription(connection: LocalConnection, request: ask.CloseSubscription) -> None:
    """Close a subscription; with ``request.remove`` a durable one is deleted as well.

    Raises MQRC_HOBJ_ERROR for a number that is not open.
    """
    connection.subscription(request.number).close(remove=request.remove)
    del connection.subscriptions[request.number]


def _is_subscription_open(connection: LocalConnection, request: ask.IsSubscriptionOpen) -> bool:
    """Return True if a subscription is open here, and was neither removed nor expired."""
    found = connection.subscriptions.get(request.number)
    return found is not None and found.is_open


def _make_temporary_topic(connection: LocalConnection, _request: ask.MakeTemporaryTopic) -> str:
    """Make a temporary topic, which is deleted when the connection closes; return its string."""
    topic = make_temporary_topic(connection.session)
    connection.temporary_topics |= {topic}
    return topic


def _delete_temporary_topic(connection: LocalConnection, request: ask.DeleteTemporaryTopic) -> None:
    """Delete a temporary topic of this connection.

    Raises MQRC_UNKNOWN_OBJECT_NAME for another topic, MQRC_OBJECT_IN_USE while it has a subscriber.
    """
    topic = request.topic
    if topic not in connection.temporary_topics:
        text = f"{topic} is no temporary topic of this one"
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, text)
    if is_subscribed_to(connection.core, topic):
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{topic} has a consumer")
    connection.temporary_topics -= {topic}
    delete_temporary_topic(connection.core, topic)


# The schedule of delayed messages


def _schedule(connection: LocalConnection, request: Any) -> SessionSchedule:
    """Return the schedule of delayed messages on which the change of ``request`` is to be made.

    The change belongs to the unit of work if the request says so, else it is durable at once. A
    ``position`` in the request limits it to one message.
    """
    session, position = connection.session, getattr(request, "position", None)
    schedule = session.schedule if position is None else session.schedule.at(position)
    return schedule.within(session.unit_of_work) if request.in_unit else schedule


def _receipt(receipt: Receipt) -> ask.ReceiptRow:
    """Return the receipt of a change of the schedule, with the number of messages changed."""
    return ask.ReceiptRow(receipt, receipt.message_count)


def _reschedule(connection: LocalConnection, request: ask.Reschedule) -> ask.ReceiptRow:
    """Give the delayed messages with a MsgId another delivery time.

    Returns the receipt: the outcome, and how many messages changed. Raises MQRC_OPTIONS_ERROR
    unless the request has exactly one of delay and delivery time, and MQRC_EXPIRY_ERROR for a time
    after the expiry of a message.
    """
    receipt = _schedule(connection, request).reschedule(
        request.msg_id, delay_ms=request.delay_ms, deliver_at_ms=request.deliver_at_ms
    )
    return _receipt(receipt)


def _reschedule_all(connection: LocalConnection, request: ask.RescheduleAll) -> int:
    """Prepare to reschedule all delayed messages that match a filter.

    Returns a number for ``requests.GoOn``. Each such request does one step; nothing is changed
    before the first.
    """
    progress = _schedule(connection, request).reschedule_all(
        request.where,
        delay_ms=request.delay_ms,
        deliver_at_ms=request.deliver_at_ms,
        by_ms=request.by_ms,
    )
    return _begin_steps(connection, progress)


def _begin_steps(connection: LocalConnection, progress: Iterator[int]) -> int:
    """Register a bulk change of the schedule and return its number for ``requests.GoOn``.

    Each step of ``progress`` changes some messages and yields how many are changed so far. When 16
    are registered, the oldest is dropped: messages that it has not changed yet stay as they are.
    """
    if len(connection.steps) >= _MAX_STEPS:
        del connection.steps[next(iter(connection.steps))]
    number = next(connection.numbers)
    connection.steps[number] = progress
    return number


def _go_on(connection: LocalConnection, request: ask.GoOn) -> int | None:
    """Run the next step of a bulk change; return the number of messages so far, None at its end.

    Raises MQRC_OPTIONS_ERROR for a number of no bulk change, or of one that has ended.
    """
    progress = connection.steps.get(request.number)
    if progress is None:
        text = f"number: no change of the schedule is {request.number}"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
    done_count = next(progress, None)
    if done_count is None:
        del connection.steps[request.number]
    return done_count


# Administration


def _run_mqsc(connection: LocalConnection, request: ask.RunMqsc) -> MqscResult:
    """Run MQSC commands as the user of the connection, and return the result.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    user = connection.session.context.user_identifier
    with commanded_by(Origin(user, MQEVO_CONSOLE)):
        return connection.operated.mqsc(request.script)


def _trace(connection: LocalConnection, request: ask.AskTrace) -> MessageTrace:
    """Return the trace of a message: its state or its end on all queue managers of the process.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    return connection.operated.traces.of(request.identifier)


def _erase_lives(connection: LocalConnection, request: ask.EraseLives) -> Erasure:
    """Erase ids, users and programs from records of ended messages; the session's user does it.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    return connection.operated.erase_lives(
        identifier=request.identifier,
        user=request.user,
        by=connection.session.context.user_identifier,
        reason=request.reason,
    )


def _run_due(connection: LocalConnection, _request: ask.RunDue) -> None:
    """Do all work of the queue manager that is due now, such as deliveries.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    connection.operated.run_due()


def _instance(connection: LocalConnection, _request: ask.AskInstance) -> str:
    """Return the id of the queue manager's store, which a Spark checkpoint records.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    return connection.operated.claims.instance_id


def _consumers(connection: LocalConnection, _request: ask.ListConsumers) -> list[ConsumerState]:
    """Return the state of each consumer (a Spark query that reads a queue), ordered by name.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    return connection.operated.claims.consistent_states()


def _first_position(connection: LocalConnection, _request: ask.AskFirstPosition) -> int:
    """Return the oldest position in the ledger of ended messages, one past the newest if empty.

    Raises MQRC_NOT_AUTHORIZED for a user whose authority is limited.
    """
    return connection.operated.ledger.first_position()


def _traces(connection: LocalConnection, request: ask.AskTraces) -> TracesFound:
    """Return the traces (states and history) of present messages that have a property.

    Raises MQRC_OPTIONS_ERROR for a wrong limit or time range, and MQRC_NOT_AUTHORIZED for a user
    whose authority is limited.
    """
    question = PropertyQuestion(
        request.name, request.value, request.from_ms, request.before_ms, request.limit
    )
    return connection.operated.traces.with_property(question)


def _read_ledger(connection: LocalConnection, request: ask.ReadLedger) -> ask.LedgerPage:
    """Return up to ``request.max_rows`` rows of the ledger of ended messages; no rows at its end.

    ``first_held`` is a field of the result. If retention has deleted the row after the position,
    there are no rows, and ``first_held`` is the oldest position left. Otherwise ``first_held`` is
    None.
    """
    try:
        rows = connection.operated.ledger.page(request.after_position, request.max_rows)
    except PositionTrimmed as trimmed:
        return ask.LedgerPage([], trimmed.first_position)
    return ask.LedgerPage(rows, None)


def _end_written(connection: LocalConnection, request: ask.EndWritten) -> int:
    """End the messages in the claims of a Spark consumer up to claim number ``until``.

    A claim is a set of messages that a Spark batch has reserved. Returns the number of messages.
    Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown consumer, and MQRC_OBJECT_CHANGED for a claim
    that this store never made.
    """
    claims = connection.operated.claims
    with _refusals_of_claims():
        return claims.end_written(request.consumer, claims.instance_id, request.until)


def _release_claims(connection: LocalConnection, request: ask.ReleaseClaims) -> int:
    """Return the messages that a Spark consumer has claimed (reserved) to their queue.

    Returns the number of messages. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown consumer.
    """
    claims = connection.operated.claims
    with _refusals_of_claims():
        return claims.release(request.consumer)


@contextmanager
def _refusals_of_claims() -> Iterator[None]:
    """Turn a ClaimError (a refused change of reserved messages) in the block into an MQError.

    An unknown consumer becomes MQRC_UNKNOWN_OBJECT_NAME, any other refusal MQRC_OBJECT_CHANGED.
    """
    try:
        yield
    except ClaimError as error:
        is_unknown = error.reason == CONSUMER_UNKNOWN
        reason = rc.MQRC_UNKNOWN_OBJECT_NAME if is_unknown else rc.MQRC_OBJECT_CHANGED
        raise mq_error(reason, error.text) from error


#: Runs a request and returns its answer.
Carries: TypeAlias = Callable[[LocalConnection, Any], Any]
#: Begins a request and calls back with its answer.
Begins: TypeAlias = Callable[[LocalConnection, Any, OnDone[Any], OnRefused | None], UnderWay]
#: Begins a request; returns its answer alone in a tuple, or calls back with it.
BeginsWithoutWaiting: TypeAlias = Callable[
    [LocalConnection, Any, OnDone[Any], OnRefused | None], tuple[Any] | UnderWay
]

CALLS: Final[dict[type[ask.Request[Any]], Carries]] = {
    ask.Now: lambda connection, _request: connection.session.core.now_ms(),
    ask.AskCommandLevel: lambda connection, _request: connection.session.core.command_level,
    ask.Open: _open,
    ask.CloseObject: _close_object,
    ask.Inquire: _inquire,
    ask.Set: _set,
    ask.AskLivesFromRelease: _lives_from_release,
    ask.AskBackoutRule: _backout_rule,
    ask.AskStreaming: _streaming,
    ask.Put: lambda connection, request: _put_to(
        connection, request.handle, request, request.context
    ),
    ask.Put1: _put1,
    ask.NewIds: _new_ids,
    ask.AskStatus: lambda connection, _request: connection.session.status(),
    ask.Get: _get,
    ask.GetMany: _get_many,
    ask.GetAny: _get_held,
    ask.TakeHeld: _take_held,
    ask.TakeAhead: _take_held,
    ask.Settle: lambda connection, request: _settle_with(connection, request, None),
    ask.Unlock: _unlock,
    ask.Commit: lambda connection, _request: connection.session.commit(),
    ask.Backout: lambda connection, _request: connection.session.backout(),
    ask.Forward: _forward,
    ask.DeadLetter: _dead_letter,
    ask.ReportException: _report_exception,
    ask.Move: _move,
    ask.Reply: _reply,
    ask.Subscribe: _subscribe,
    ask.CloseSubscription: _close_subscription,
    ask.RequestRetained: lambda connection, request: connection.subscription(
        request.number
    ).request_retained(),
    ask.JoinSubscription: _join,
    ask.IsSubscriptionOpen: _is_subscription_open,
    ask.RemoveSubscription: lambda connection, request: remove_idle(
        connection.session, request.name
    ),
    ask.BelongTo: lambda connection, request: connection.session.belong_to(request.owner),
    ask.ClaimClientId: lambda connection, request: reserve_client_id(
        connection.session, request.client_id
    ),
    ask.MakeTemporaryTopic: _make_temporary_topic,
    ask.DeleteTemporaryTopic: _delete_temporary_topic,
    ask.ListSchedule: lambda connection, request: connection.session.schedule.list(
        request.where, limit=request.limit, after=request.after
    ),
    ask.ShowScheduled: lambda connection, request: connection.session.schedule.show(request.msg_id),
    ask.CountScheduled: lambda connection, request: connection.session.schedule.count(
        request.queue
    ),
    ask.CancelScheduled: lambda connection, request: _receipt(
        _schedule(connection, request).cancel(request.msg_id)
    ),
    ask.Reschedule: _reschedule,
    ask.ReleaseScheduled: lambda connection, request: _receipt(
        _schedule(connection, request).release(request.msg_id)
    ),
    ask.CancelAll: lambda connection, request: _begin_steps(
        connection, _schedule(connection, request).cancel_all(request.where)
    ),
    ask.RescheduleAll: _reschedule_all,
    ask.ReleaseAll: lambda connection, request: _begin_steps(
        connection, _schedule(connection, request).release_all(request.where)
    ),
    ask.GoOn: _go_on,
    ask.Audit: lambda connection, request: connection.session.schedule.audit_before(
        request.before, request.limit
    ),
    ask.RunMqsc: _run_mqsc,
    ask.AskCounts: lambda connection, request: connection.operated.counts(request.queue),
    ask.AskCurdepth: lambda connection, request: connection.operated.curdepth(request.queue),
    ask.Why: lambda connection, request: connection.operated.why(request.identifier),
    ask.AskTrace: _trace,
    ask.AskTraces: _traces,
    ask.EraseLives: _erase_lives,
    ask.AskErasures: lambda connection, _request: connection.operated.erasures(),
    ask.Verify: lambda connection, _request: connection.operated.verify(),
    ask.AskDelayProcessorStatus: lambda connection, _request: (
        connection.operated.delay_processor_status()
    ),
    ask.AskOwnTime: lambda connection, _request: connection.operated.own_time(),
    ask.FollowWall: lambda connection, _request: connection.operated.follow_wall(),
    ask.RunDue: _run_due,
    ask.AdvanceClock: lambda connection, request: connection.operated.advance_clock(request.ms),
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
    ask.WaitUntil: lambda connection, request, on_done, _: connection.pending_waits.until(
        request.moment_ms, on_done
    ),
    ask.AwaitDefinitions: lambda connection, _request, on_done, _: (
        connection.pending_waits.for_definitions(on_done)
    ),
}
FOR_EVENT_LOOP: Final[dict[type[ask.Request[Any]], BeginsWithoutWaiting]] = {
    **BEGUN,
    ask.Put: _put_without_waiting,
    ask.Get: _get_without_waiting,
}


def _function_for(request: Request[Any], table: Mapping[type[Request[Any]], _T]) -> _T:
    """Return the function of a table for a request.

    Raises MQRC_FUNCTION_NOT_SUPPORTED for a request that the table does not have.
    """
    found = table.get(type(request))
    if found is None:
        text = f"verb: {verb_name(type(request))} is not known here"
        raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, text)
    return found

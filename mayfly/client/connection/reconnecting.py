"""A connection that reconnects when it breaks and reopens its objects (docs/CLIENTS.md)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import count
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.interface import DECIDED, Connection, OnDone, OnRefused, UnderWay
from mayfly.client.connection.reconnection import (
    DEFAULT_ATTEMPTS,
    DEFAULT_TIMING,
    DRAINED,
    Attempts,
    Lost,
    Numbers,
    Reconnection,
    ReconnectTiming,
    backed_out,
    incompatible,
    interrupted,
    reopen_dynamic,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import LostAnswer, MQError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, GetResult, Settlement
from mayfly.verbs.requests import Opened, Request, Subscribed, numbers_in

_T = TypeVar("_T")
#: Begins a verb on a connection.
Begin: TypeAlias = Callable[[Connection, OnDone[_T]], UnderWay]

_NOWHERE: Final = -1
_LOG = logging.getLogger("mayfly.client")


class BegunVerb(Generic[_T]):
    """A verb with a callback that was called once, and can be begun again on a new connection."""

    def __init__(
        self,
        begin: Begin[_T],
        report: Callable[[Connection, int, _T | MQError], object],
        *,
        is_wait: bool = False,
        is_final: bool = False,
    ) -> None:
        """Take ``begin``, which begins the verb on a connection, and ``report`` for its outcome.

        ``report`` gets the connection that gave the outcome, the number of that connection, and the
        outcome. A verb with ``is_wait`` has no effect when its connection is lost: its message goes
        back to its queue. A verb with ``is_final`` is not repeated when its answer is lost: it may
        have taken effect.
        """
        self.begin, self.report = begin, report
        self.is_wait, self.is_final = is_wait, is_final
        #: Its place among all that were begun.
        self.place = 0
        self.is_over = False
        #: Where it is under way, and where it was: numbers of connections.
        self.at = self.was_at = _NOWHERE
        self.under_way: UnderWay | None = None

    def has_ended(self) -> bool:
        """Return True if the verb is reported or cancelled; another thread may change this."""
        return self.is_over


class BegunVerbs:
    """The verbs with callbacks of one reconnecting connection; thread-safe.

    Callbacks come one at a time.
    """

    def __init__(self, reconnection: Reconnection) -> None:
        """Begin without verbs; ``reconnection`` has the current connection."""
        self._reconnection = reconnection
        self._changed = reconnection.runtime.condition()
        self._reporting = reconnection.runtime.reentrant_lock("reconnecting callbacks")
        self._last_place = 0
        #: How many verbs of each connection, by its number, have not called back.
        self._open_counts: Counter[int] = Counter()
        #: Verbs that are to be begun again, and waits on a connection that is being drained.
        self._lost: list[BegunVerb[Any]] = []
        self._drained: list[BegunVerb[Any]] = []
        self._is_beginning_again = self._has_thread = False

    def start(self, begun: BegunVerb[Any]) -> UnderWay:
        """Begin a verb and return it as a running verb.

        During a reconnect the verb begins on the new connection, after the verbs that already wait
        for that connection: puts keep their order.
        """
        is_lost = self._reconnection.is_lost(self._reconnection.now[0])
        with self._changed:
            self._last_place += 1
            begun.place = self._last_place
            is_behind = is_lost or self._is_beginning_again
            if is_behind:
                self._lose(begun, self._lost)
        if not is_behind:
            self._begin(begun)
        return _Started(self, begun)

    def cancel(self, begun: BegunVerb[Any]) -> bool:
        """Cancel a verb, whose callback is then never called, and return True.

        Returns False when the verb has an outcome, or is no wait (``BegunVerb.is_wait``).
        """
        while begun.is_wait:
            connection, number = self._reconnection.now
            with self._changed:
                while not begun.is_over and begun.at != _NOWHERE and begun.under_way is None:
                    self._changed.wait()
                if begun.is_over:
                    return False
                at, under_way = begun.at, begun.under_way
                if under_way is None:
                    begun.is_over = True
                    return True
            is_cancelled = under_way.cancel()
            is_lost = at != number or self._reconnection.is_lost(connection)
            with self._changed:
                if is_cancelled:
                    begun.is_over = True
                    self._count_down(at)
                    return True
                if begun.has_ended() or (begun.at == at and not is_lost):
                    return False
                if begun.at == at:
                    # A callback that still comes is about a message that went back.
                    begun.is_over = True
                    return True
        return False

    def _begin(self, begun: BegunVerb[Any]) -> None:
        """Begin a verb on the current connection, unless the verb is cancelled.

        An MQError of the begin becomes the outcome of the verb.
        """
        connection, number = self._reconnection.now
        with self._changed:
            if begun.is_over:
                return
            begun.at = number
            self._open_counts[number] += 1
        on_done = partial(self._done, begun, connection, number)
        try:
            under_way = begun.begin(connection, on_done)
        except MQError as error:
            on_done(error)
            return
        with self._changed:
            if begun.at == number:
                begun.under_way = under_way
            self._changed.notify_all()

    def _done(
        self, begun: BegunVerb[Any], connection: Connection, number: int, outcome: object
    ) -> None:
        """Report the outcome of a verb, or queue the verb to begin again on the next connection.

        ``number`` is that of ``connection``, on which the verb has ended. A lost answer of a verb
        that may have taken effect becomes MQRC_CALL_INTERRUPTED.
        """
        again_in = None
        if isinstance(outcome, MQError):
            again_in = self._list_for(begun, connection, outcome)
            if again_in is None and isinstance(outcome, LostAnswer):
                outcome = interrupted() if self._reconnection.is_lost(connection) else outcome
        with self._changed:
            is_reported = again_in is None and not begun.is_over
            if is_reported:
                begun.is_over = True
            elif again_in is not None and not begun.is_over:
                self._lose(begun, again_in)
            self._count_down(number)
        if is_reported:
            with self._reporting:
                begun.report(connection, number, outcome)

    def _list_for(
        self, begun: BegunVerb[Any], connection: Connection, error: MQError
    ) -> list[BegunVerb[Any]] | None:
        """Return the list of verbs to repeat that a failed verb joins; None if it is not repeated.

        It is ``_lost`` when the connection is lost, and ``_drained`` when a quiescing server has
        ended a wait. A verb that may have taken effect and must not be done twice is not repeated.
        """
        if self._reconnection.is_lost(connection):
            is_doubtful = begun.is_final and isinstance(error, LostAnswer)
            return None if is_doubtful else self._lost
        if begun.is_wait and error.reason in DRAINED and not self._reconnection.has_ended:
            return self._drained
        return None

    def _lose(self, begun: BegunVerb[Any], where: list[BegunVerb[Any]]) -> None:
        """Add a verb to ``where``, a list of verbs to repeat, and start the repeating thread.

        A thread that already runs is woken. The caller holds the lock ``_changed``.
        """
        begun.was_at, begun.at, begun.under_way = begun.at, _NOWHERE, None
        where.append(begun)
        if not self._has_thread:
            self._has_thread = True
            self._reconnection.runtime.thread(self._run, "mayfly-reconnect").start()
        self._changed.notify_all()

    def _count_down(self, number: int) -> None:
        """Count one verb less on the connection with this number: the verb has called back.

        The caller holds the lock ``_changed``.
        """
        self._open_counts[number] -= 1
        self._changed.notify_all()

    def _run(self) -> None:
        """Reconnect and begin the lost verbs again, until none is left. Runs on a thread.

        When the attempts to reconnect have failed, each lost verb gets their error.
        """
        while True:
            connection, number = self._reconnection.now
            with self._changed:
                if not self._lost and not self._drained:
                    self._is_beginning_again = self._has_thread = False
                    return
                is_drained = not self._lost and all(each.was_at == number for each in self._drained)
                self._is_beginning_again = not is_drained
            if is_drained:
                self._reconnection.wait_for_loss(connection)
            failure = self._connect_again(connection, number)
            with self._changed:
                while failure is None and self._has_open_before(self._reconnection.now[1]):
                    self._changed.wait()
                self._is_beginning_again = True
                lost, self._lost, self._drained = self._lost + self._drained, [], []
            for begun in sorted(lost, key=lambda each: each.place):
                try:
                    if failure is None:
                        self._begin(begun)
                    else:
                        self._fail(begun, connection, number, failure)
                except Exception:  # noqa: BLE001 - the other verbs are begun again as well
                    _LOG.exception("a verb cannot be begun again")

    def _has_open_before(self, number: int) -> bool:
        """Return True if callbacks of connections before this number are still to come."""
        self._open_counts += Counter()  # without those that are 0
        return any(each < number for each in self._open_counts)

    def _connect_again(self, connection: Connection, number: int) -> MQError | None:
        """Reconnect if the connection is lost; return None, or the error of the failed attempts.

        ``number`` is that of ``connection``. Blocks until the attempts have ended.
        """
        try:
            if self._reconnection.has_ended or self._reconnection.is_lost(connection):
                self._reconnection.reconnect(number)
        except MQError as error:
            return error
        return None

    def _fail(
        self, begun: BegunVerb[Any], connection: Connection, number: int, failure: MQError
    ) -> None:
        """Report ``failure``, the error of a failed reconnect, to a verb that has not ended.

        ``connection`` is the lost one, ``number`` its number.
        """
        with self._changed:
            is_reported = not begun.is_over
            begun.is_over = True
        if is_reported:
            with self._reporting:
                begun.report(connection, number, failure)


class _Started:
    """A running verb of a reconnecting connection; it stays the same after a reconnect."""

    def __init__(self, verbs: BegunVerbs, begun: BegunVerb[Any]) -> None:
        """Take a verb that ``verbs`` has begun."""
        self._verbs, self._begun = verbs, begun

    def cancel(self) -> bool:
        """Cancel the verb, whose callback is then never called, and return True.

        Returns False when the verb has an outcome, or is no wait (``BegunVerb.is_wait``).
        """
        return self._verbs.cancel(self._begun)


_R = TypeVar("_R")
#: Settlements that return a message, as the end of its connection does: no repetition is needed.
_GOES_BACK = frozenset({Settlement.RETURNED, Settlement.BACKED_OUT})
_OF_CLAIMS = (ask.AskInstance, ask.ListConsumers, ask.EndWritten, ask.ReleaseClaims)
_WAYS = c.MQSO_CREATE | c.MQSO_RESUME | c.MQSO_ALTER


class DeliveryNumbers:
    """The numbers of deliveries for the program, which stay the same after a reconnect.

    Each has its connection, and its number on that connection.
    """

    def __init__(self) -> None:
        """Begin without deliveries; the first number is 1."""
        self._numbers = count(1)
        self._known: dict[int, tuple[Connection, int]] = {}

    def register(self, connection: Connection, delivery: Delivery, handle: int) -> Delivery:
        """Return the delivery with a number that survives reconnects, and the program's handle.

        Number 0, of a message that is not held, stays 0.
        """
        if not delivery.number:
            return delivery._replace(handle=handle)
        number = next(self._numbers)
        self._known[number] = connection, delivery.number
        return delivery._replace(number=number, handle=handle)

    def inner(self, numbers: Iterable[int], connection: Connection) -> list[int]:
        """Return the numbers that deliveries have on a connection.

        Deliveries of other connections are left out: they went back to their queues. Raises
        MQRC_HMSG_ERROR for a delivery that is already settled.
        """
        found = []
        for number in numbers:
            known = self._known.get(number)
            if known is None:
                raise mq_error(rc.MQRC_HMSG_ERROR, f"delivery {number} is settled already")
            if known[0] is connection:
                found.append(known[1])
        return found

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget settled deliveries; unknown numbers are ignored."""
        for number in numbers:
            self._known.pop(number, None)


class ReconnectingConnection(Connection):
    """A connection that runs each request on the current inner connection, and reconnects.

    ``number`` is the number of the first conversation. It stays the same, as do handles and the
    numbers of subscriptions. A request with a callback is repeated after a reconnect, with these
    exceptions:

    * A put outside the unit of work, a commit or a settlement whose answer was lost ends with
      MQRC_CALL_INTERRUPTED.
    * A request in a unit of work that was lost ends with MQRC_BACKED_OUT.
    * A held delivery goes back to its queue, and its backout count rises. Settling it as TAKEN ends
      with MQRC_BACKED_OUT.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        how: Reconnect,
        patience: ReconnectTiming = DEFAULT_TIMING,
        attempts: Attempts = DEFAULT_ATTEMPTS,
    ) -> None:
        """Connect by calling ``connect``, also at each reconnect; raises its MQError.

        ``how`` says whether a reconnect must reach the same queue manager, ``patience`` how long to
        try, and ``attempts`` who is informed and can end the attempts.
        """
        self._reconnection = reconnection = Reconnection(connect, how, patience, attempts)
        self.number = reconnection.now[0].number
        self.runtime = reconnection.runtime
        self._opened = reconnection.objects
        self._begun = BegunVerbs(reconnection)
        self._deliveries = DeliveryNumbers()
        self._temporary_topics: set[str] = set()
        #: Bulk changes of the schedule: the connection of each, and its number there.
        self._steps: dict[int, tuple[Connection, int]] = {}
        self._step_numbers = count(1)

    @property
    def name(self) -> str:  # type: ignore[override]  # it changes with the connection
        """The name of the queue manager of the current connection."""
        return self._reconnection.now[0].name

    def call(self, request: Request[_R]) -> _R:
        """Send a request and return its answer; repeat it on a new connection if this one is lost.

        Raises MQError. MQRC_CALL_INTERRUPTED means that the request may have taken effect,
        MQRC_BACKED_OUT that its unit of work was lost. Errors of the attempts are
        MQRC_RECONNECT_FAILED, MQRC_RECONNECT_QMID_MISMATCH and MQRC_RECONNECT_TIMED_OUT.
        """
        self._check(request)
        calls = _CALLS.get(type(request))
        if calls is not None:
            answer: _R = calls(self, request)
            return answer
        return self._run(request)

    def begin(
        self,
        request: Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Begin a request and return the running verb; ``on_done`` gets its answer or MQError.

        If this connection is lost, the request is repeated on a new one. A request that may have
        taken effect is not: ``on_done`` gets MQRC_CALL_INTERRUPTED. ``on_event`` is that of
        :meth:`Connection.begin`. This method raises nothing: the error of a wrong request goes to
        ``on_done`` as well.
        """
        try:
            self._check(request)
        except MQError as error:
            self.notify(on_done, error)
            return DECIDED
        begins = _BEGINS.get(type(request))
        if begins is not None:
            return self._begun.start(begins(self, request, on_done, on_event))

        def begin(now: Connection, done: OnDone[_R]) -> UnderWay:
            return now.begin(self._inner(request), done, on_event)

        is_wait = type(request) in _WAITS
        return self._begun.start(
            BegunVerb(begin, _reporting(on_done), is_wait=is_wait, is_final=request.is_doubtful)
        )

    def notify(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is already known, after earlier callbacks."""

        def begin(_now: Connection, done: OnDone[_R]) -> UnderWay:
            done(outcome)
            return DECIDED

        self._begun.start(BegunVerb(begin, _reporting(on_done)))

    def together(self) -> AbstractContextManager[object]:
        """Send the puts of a ``with`` block in common frames; repeated puts are sent one by one."""
        return self._reconnection.now[0].together()

    def reconnect_no_more(self) -> None:
        """Let verbs that wait for another connection fail with MQRC_HCONN_ERROR; others go on."""
        self._reconnection.end_attempts()

    def close(self, *, commit: bool = True) -> None:
        """Disconnect (MQDISC): commit or back out; a second call does nothing.

        Raises MQRC_BACKED_OUT when the unit of work to commit was lost with its connection.
        """
        reconnection = self._reconnection
        if reconnection.is_closed:
            return
        now = reconnection.close()
        is_gone = reconnection.is_backed_out or (reconnection.has_work and now.is_broken)
        now.close(commit=commit)
        if is_gone and commit:
            raise backed_out()

    def has_open(self, handle: int) -> bool:
        """Return True if an object is open under this handle number."""
        return handle in self._opened.now.handles

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which closes a garbage-collected object: now, or before the next verb."""
        self._reconnection.now[0].end_dropped(end)

    @property
    def is_open(self) -> bool:
        """True until the program closes the connection."""
        return not self._reconnection.is_closed

    @property
    def is_broken(self) -> bool:
        """True when the attempts to reconnect have failed."""
        return self._reconnection.failure is not None

    @property
    def socket(self) -> int | None:
        """The number of the current socket; 0 when it is gone, None within this process."""
        return self._reconnection.now[0].socket

    # Any request.

    def _check(self, request: Request[Any]) -> None:
        """Refuse a request that cannot be repeated on another connection.

        Raises MQRC_RECONNECT_INCOMPATIBLE for logical order, which ends with a connection, and
        MQRC_FUNCTION_NOT_SUPPORTED for Spark's claims. Raises MQRC_RECONNECT_Q_MGR_REQD for a
        MsgToken or a durable subscription, unless reconnects go to the same queue manager only.
        """
        if isinstance(request, ask.Put) and request.options & c.MQPMO_LOGICAL_ORDER:
            raise incompatible("MQPMO_LOGICAL_ORDER")
        if isinstance(request, ask.Get) and request.options & c.MQGMO_LOGICAL_ORDER:
            raise incompatible("MQGMO_LOGICAL_ORDER")
        if isinstance(request, _OF_CLAIMS):
            text = "claims are ended by commands, whose connections are not made again"
            raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, text)
        if self._reconnection.is_to_same:
            return
        if isinstance(request, ask.Get) and request.token is not None:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a get by MsgToken")
        is_durable = (isinstance(request, ask.Subscribe) and request.options & c.MQSO_DURABLE) or (
            isinstance(request, ask.JoinSubscription) and request.is_durable
        )
        if is_durable:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a durable subscription")

    def _inner(self, request: Request[_R]) -> Request[_R]:
        """Return a copy of the request with the handles and numbers of the current connection.

        Raises MQRC_HOBJ_ERROR for a handle or subscription number that is not open.
        """
        changes: dict[str, Any] = {}
        for field, what in numbers_in(type(request)).items():
            outer = getattr(request, field)
            if what == "subscription":
                changes[field] = self._opened.now.inner_subscription(outer) if outer else outer
            elif isinstance(outer, list):
                changes[field] = [self._opened.now.inner(each) for each in outer]
            else:
                changes[field] = self._opened.now.inner(outer)
        return replace(request, **changes) if changes else request

    def _run(self, request: Request[_R], enter: Callable[[_R], _R] | None = None) -> _R:
        """Send a request with current handles, also again after a reconnect, and return the answer.

        ``enter``, if present, registers the answer and returns it; see ``Reconnection.run``.
        """
        return self._reconnection.run(
            lambda now: now.call(self._inner(request)), in_unit=request.in_unit, enter=enter
        )

    # Objects and subscriptions.

    def _open(self, request: ask.Open) -> Opened:
        """Open an object under a handle that survives reconnects; each reconnect opens it again."""

        def open_as(now: Connection, name: str, dynamic_name: str) -> Opened:
            return now.call(replace(request, name=name, dynamic_name=dynamic_name))

        def reopen(now: Connection, numbers: Numbers) -> Opened:
            name = numbers.renamed.get(request.name, request.name)
            return open_as(now, name, request.dynamic_name)

        def enter(opened: Opened) -> Opened:
            if opened.made:
                reopen_made = reopen_dynamic(open_as, request.name, opened.made)
                return self._opened.register(opened, reopen_made)
            return self._opened.register(opened, reopen)

        return self._reconnection.run(lambda now: reopen(now, self._opened.now), enter=enter)

    def _close_object(self, request: ask.CloseObject) -> int:
        """Close an object and forget its handle, so that no reconnect opens it again.

        Returns the warning of MQCLOSE or 0.
        """
        reason = self._run(request)
        self._opened.drop(request.handle)
        return reason

    def _subscribe(self, request: ask.Subscribe) -> Subscribed:
        """Subscribe under a number that survives reconnects; each reconnect subscribes again.

        A reconnect resumes a durable subscription. In place of any other it makes a new one,
        without retained publications.
        """
        options = request.options & ~_WAYS
        if options & c.MQSO_DURABLE:
            options |= c.MQSO_RESUME
        else:
            # Retained publications have come at the first subscription already.
            options |= c.MQSO_CREATE | c.MQSO_NEW_PUBLICATIONS_ONLY

        def resubscribe(now: Connection, queue: int) -> Subscribed:
            return now.call(replace(request, options=options, queue=queue, altered=0, held=0))

        def enter(made: Subscribed) -> Subscribed:
            return self._opened.register_subscription(made, resubscribe, request.queue)

        return self._run(request, enter)

    def _join(self, request: ask.JoinSubscription) -> Subscribed:
        """Open a subscription as JMS does; each reconnect opens it again under the same number."""

        def enter(made: Subscribed) -> Subscribed:
            return self._opened.register_subscription(
                made, lambda now, _queue: now.call(request), c.MQHO_NONE
            )

        return self._run(request, enter)

    def _close_subscription(self, request: ask.CloseSubscription) -> None:
        """Close a subscription and forget its number: no reconnect makes the subscription again."""
        self._run(request)
        self._opened.drop_subscription(request.number)

    def _keep(self, what: str, request: Request[None]) -> None:
        """Send a request now, and again on each new connection; error texts call it ``what``.

        A later request with the same ``what`` replaces it.
        """
        self._run(request, lambda _done: self._opened.remember(what, lambda now: now.call(request)))

    def _make_temporary_topic(self, request: ask.MakeTemporaryTopic) -> str:
        """Make a temporary topic and return its string; a reconnect ends the topic."""
        topic = self._run(request)
        self._temporary_topics.add(topic)
        return topic

    def _delete_temporary_topic(self, request: ask.DeleteTemporaryTopic) -> None:
        """Delete a temporary topic of this connection; one that a reconnect has lost is no error.

        Raises MQRC_UNKNOWN_OBJECT_NAME for another topic, MQRC_OBJECT_IN_USE while it has a
        subscriber.
        """
        try:
            self._run(request)
        except MQError as error:
            is_ours = request.topic in self._temporary_topics
            if not is_ours or error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME:
                raise
        self._temporary_topics.discard(request.topic)

    # Gets, and what is held.

    def _get(self, request: ask.Get) -> GetResult:
        """Get a message and return the result; after a reconnect the get is repeated.

        Outside a unit of work the message of an interrupted get may be lost, as in IBM MQ. A browse
        cursor starts again at the first message after a reconnect.
        """
        return self._reconnection.wait(
            lambda now: now.call(self._inner(request)), in_unit=request.in_unit
        )

    def _get_held(self, request: ask.GetAny) -> Delivery:
        """Get a message, held as a delivery under a number that survives reconnects.

        An interrupted get is repeated after a reconnect.
        """

        def get(now: Connection) -> Delivery:
            delivery = now.call(self._inner(request))
            return self._deliveries.register(now, delivery, request.handles[0])

        return self._reconnection.wait(get)

    def _take_held(self, request: ask.TakeHeld) -> list[Delivery]:
        """Get several messages without waiting, each held as a delivery; [] when none is available.

        The numbers of the deliveries survive reconnects.
        """

        def take(now: Connection) -> list[Delivery]:
            taken = now.call(self._inner(request))
            return [self._deliveries.register(now, each, request.handle) for each in taken]

        return self._reconnection.run(take)

    def _settle(self, request: ask.Settle) -> None:
        """Settle deliveries, and forget their numbers.

        Raises MQRC_CALL_INTERRUPTED if the answer is lost and the settlement may have taken effect
        for good, MQRC_BACKED_OUT if a delivery to be taken was lost with its connection, and
        MQRC_HMSG_ERROR for a delivery that is already settled.
        """
        settling = self._settling(request)
        while True:
            try:
                self._reconnection.attempt(lambda now: _settle_on(now, settling(now)))
            except Lost as lost:
                if lost.is_in_doubt and self._is_final(request):
                    raise interrupted() from lost
            else:
                break
        self._deliveries.drop(request.deliveries)

    def _settling(self, request: ask.Settle) -> Callable[[Connection], ask.Settle]:
        """Return a function that takes a connection and returns the settle request for it.

        That function raises MQRC_BACKED_OUT if a delivery to be taken was lost with its connection.
        """
        in_unit, unit = request.within == self.number, self._reconnection.unit

        def settling(now: Connection) -> ask.Settle:
            inners = self._deliveries.inner(request.deliveries, now)
            if len(inners) < len(request.deliveries) and request.settlement not in _GOES_BACK:
                raise backed_out()
            if in_unit and inners:
                self._reconnection.begin_work(now, unit)
            within = now.number if in_unit else request.within
            return replace(request, deliveries=inners, within=within)

        return settling

    def _is_final(self, request: ask.Settle) -> bool:
        """Return True if a settlement whose answer is lost must not be repeated.

        It may then have taken effect for good.
        """
        return request.settlement not in _GOES_BACK and request.within != self.number

    # The unit of work.

    def _commit(self, _request: ask.Commit) -> None:
        """Commit the unit of work.

        Raises MQRC_BACKED_OUT for a unit of work that was lost before. Raises LostAnswer with
        MQRC_CALL_INTERRUPTED when the connection broke before the answer came.
        """
        reconnection = self._reconnection
        of_unit, has_work = reconnection.end_unit(reconnection.next_unit())

        def commit(now: Connection) -> None:
            if has_work and now is not of_unit:
                raise backed_out()
            now.call(ask.Commit())

        try:
            reconnection.attempt(commit)
        except Lost as lost:
            if not has_work:
                return
            if lost.is_in_doubt:
                raise interrupted() from lost
            raise backed_out() from lost

    def _backout(self, _request: ask.Backout) -> None:
        """Back out the unit of work; one that was lost with its connection needs no request."""
        reconnection = self._reconnection
        try:
            reconnection.end_unit(reconnection.next_unit())
        except MQError:
            return
        with suppress(Lost):
            reconnection.attempt(lambda now: now.call(ask.Backout()))

    # Changes of many delayed messages, step by step.

    def _begin_steps(self, request: Request[int]) -> int:
        """Begin a change of many delayed messages; return its number for ``GoOn.number``.

        A :class:`GoOn` request with this number does the next step. After a reconnection the change
        cannot be continued. Raises the errors of the request.
        """

        def begin(now: Connection) -> tuple[Connection, int]:
            return now, now.call(request)

        number = next(self._step_numbers)
        self._steps[number] = self._reconnection.run(begin, in_unit=request.in_unit)
        return number

    def _go_on(self, request: ask.GoOn) -> int | None:
        """Run the next step of a bulk change and return the number of messages so far.

        Returns None at its end. Raises MQRC_CALL_INTERRUPTED if the connection of the bulk change
        was lost.
        """
        begun_on, inner = self._steps.get(request.number, (None, 0))

        def go_on(now: Connection) -> int | None:
            if begun_on not in (None, now):
                raise interrupted()
            return now.call(replace(request, number=inner))

        done_count = self._reconnection.run(go_on, in_unit=request.in_unit)
        if done_count is None:
            self._steps.pop(request.number, None)
        return done_count

    # Requests with a callback.

    def _begun_get(
        self, request: ask.Get, on_done: OnDone[GetResult], _on_event: OnRefused | None
    ) -> BegunVerb[GetResult]:
        """Return a get for :meth:`BegunVerbs.start`; one that waits may be cancelled.

        A message that it gets under syncpoint is recorded as work of the unit of work.
        """

        def begin(now: Connection, done: OnDone[GetResult]) -> UnderWay:
            self._check_unit(request)
            return now.begin(self._inner(request), done)

        def report(_now: Connection, number: int, outcome: GetResult | MQError) -> None:
            if request.in_unit and not isinstance(outcome, MQError):
                self._reconnection.note_work(number)
            on_done(outcome)

        return BegunVerb(begin, report, is_wait=bool(request.options & c.MQGMO_WAIT))

    def _begun_get_any(
        self, request: ask.GetAny, on_done: OnDone[Delivery], on_refused: OnRefused | None
    ) -> BegunVerb[Delivery]:
        """Return a get from several queues for :meth:`BegunVerbs.start`.

        ``on_done`` gets the delivery. ``on_refused`` gets each queue that cannot be read, and its
        error. Deliveries and handles have the numbers that the program knows.
        """
        outers: dict[int, int] = {}

        def refused(handle: int, error: MQError) -> None:
            assert on_refused is not None
            on_refused(outers.get(handle, c.MQHO_NONE), error)

        def begin(now: Connection, done: OnDone[Delivery]) -> UnderWay:
            self._check_unit(request)
            inner = self._inner(request)
            assert isinstance(inner, ask.GetAny)
            outers.clear()
            outers.update(zip(inner.handles, request.handles, strict=True))
            return now.begin(inner, done, None if on_refused is None else refused)

        def report(now: Connection, number: int, outcome: Delivery | MQError) -> None:
            if not isinstance(outcome, MQError):
                if request.in_unit:
                    self._reconnection.note_work(number)
                outcome = self._deliveries.register(now, outcome, outers[outcome.handle])
            on_done(outcome)

        return BegunVerb(begin, report, is_wait=True)

    def _begun_put(
        self, request: ask.Put, on_done: OnDone[Any], _on_event: OnRefused | None
    ) -> BegunVerb[Any]:
        """Return a put for :meth:`BegunVerbs.start`.

        Under syncpoint the unit of work has work as soon as the put begins. A put outside syncpoint
        whose answer is lost is not repeated: ``on_done`` gets MQRC_CALL_INTERRUPTED.
        """
        unit = self._reconnection.unit

        def begin(now: Connection, done: OnDone[Any]) -> UnderWay:
            if request.in_unit:
                # Before its outcome is known: a commit may follow without waiting for that.
                self._reconnection.begin_work(now, unit)
            return now.begin(self._inner(request), done)

        return BegunVerb(begin, _reporting(on_done), is_final=not request.in_unit)

    def _begun_commit(
        self, request: ask.Commit, on_done: OnDone[None], _on_event: OnRefused | None
    ) -> BegunVerb[None]:
        """Return a commit for :meth:`BegunVerbs.start`; later verbs join the next unit of work.

        The commit fails with MQRC_BACKED_OUT if the work was lost with an earlier connection.
        """
        unit = self._reconnection.next_unit()
        of_unit: Connection | None = None

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            nonlocal of_unit
            if of_unit is None:
                of_unit, begun.is_final = self._reconnection.end_unit(unit)
            if begun.is_final and now is not of_unit:
                raise backed_out()
            return now.begin(request, done)

        begun = BegunVerb(begin, _reporting(on_done))
        return begun

    def _begun_settle(
        self, request: ask.Settle, on_done: OnDone[None], _on_event: OnRefused | None
    ) -> BegunVerb[None]:
        """Return the verb that settles deliveries, which has not begun, for BegunVerbs.start.

        Deliveries that went back to their queues with a lost connection need no request; if that is
        true of all, ``on_done`` gets None at once.
        """
        settling = self._settling(request)

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            asked = settling(now)
            if asked.deliveries:
                return now.begin(asked, done)
            done(None)
            return DECIDED

        def report(_now: Connection, _number: int, outcome: MQError | None) -> None:
            if outcome is None:
                self._deliveries.drop(request.deliveries)
            on_done(outcome)

        return BegunVerb(begin, report, is_final=self._is_final(request))

    def _check_unit(self, request: Request[Any]) -> None:
        """Raise MQRC_BACKED_OUT for a request in a unit of work that was lost with its connection.

        A request outside of the unit of work passes.
        """
        if request.in_unit and self._reconnection.is_backed_out:
            raise backed_out()


def _settle_on(now: Connection, asked: ask.Settle) -> None:
    """Send a settle request on a connection, unless the request has no deliveries."""
    if asked.deliveries:
        now.call(asked)


def _reporting(on_done: OnDone[_R]) -> Callable[[Connection, int, _R | MQError], object]:
    """Return a report function that passes only the outcome to ``on_done``."""
    return lambda _connection, _number, outcome: on_done(outcome)


#: Requests that need more than repetition on a new connection, with their methods.
_CALLS: Final[dict[type[Request[Any]], Callable[[ReconnectingConnection, Any], Any]]] = {
    ask.Open: ReconnectingConnection._open,
    ask.CloseObject: ReconnectingConnection._close_object,
    ask.Get: ReconnectingConnection._get,
    ask.GetAny: ReconnectingConnection._get_held,
    ask.TakeHeld: ReconnectingConnection._take_held,
    ask.Settle: ReconnectingConnection._settle,
    ask.Commit: ReconnectingConnection._commit,
    ask.Backout: ReconnectingConnection._backout,
    ask.Subscribe: ReconnectingConnection._subscribe,
    ask.JoinSubscription: ReconnectingConnection._join,
    ask.CloseSubscription: ReconnectingConnection._close_subscription,
    ask.BelongTo: lambda connection, request: connection._keep("the owner", request),
    ask.ClaimClientId: lambda connection, request: connection._keep(
        f"client id {request.client_id!r}", request
    ),
    ask.MakeTemporaryTopic: ReconnectingConnection._make_temporary_topic,
    ask.DeleteTemporaryTopic: ReconnectingConnection._delete_temporary_topic,
    ask.CancelAll: ReconnectingConnection._begin_steps,
    ask.ReleaseAll: ReconnectingConnection._begin_steps,
    ask.RescheduleAll: ReconnectingConnection._begin_steps,
    ask.GoOn: ReconnectingConnection._go_on,
}
_BEGINS: Final[
    dict[
        type[Request[Any]],
        Callable[[ReconnectingConnection, Any, OnDone[Any], OnRefused | None], BegunVerb[Any]],
    ]
] = {
    ask.Get: ReconnectingConnection._begun_get,
    ask.GetAny: ReconnectingConnection._begun_get_any,
    ask.Put: ReconnectingConnection._begun_put,
    ask.Commit: ReconnectingConnection._begun_commit,
    ask.Settle: ReconnectingConnection._begun_settle,
}
#: Requests that change nothing, and so may end with their connection.
_WAITS: Final = frozenset({ask.WaitUntil, ask.AwaitDefinitions})

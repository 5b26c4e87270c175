"""A connection that is made again when it breaks, with all that was open (docs/CLIENTS.md)."""

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
    DRAINED,
    USUAL_ATTEMPTS,
    USUAL_PATIENCE,
    Attempts,
    Lost,
    Numbers,
    Patience,
    Reconnection,
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


class Begun(Generic[_T]):
    """One verb with a callback: the function that begins it, and the one that tells its outcome."""

    def __init__(
        self,
        begin: Begin[_T],
        tell: Callable[[Connection, int, _T | MQError], object],
        *,
        is_wait: bool = False,
        is_final: bool = False,
    ) -> None:
        """Note how to begin and how to tell.

        ``tell`` is given the connection of the outcome, and the number of this connection. A verb
        with ``is_wait`` may be dropped with its connection: a message that it was about to take
        goes back. When the answer of a verb with ``is_final`` is lost, it may have taken effect, so
        it is not begun again.
        """
        self.begin, self.tell = begin, tell
        self.is_wait, self.is_final = is_wait, is_final
        #: Its place among all that were begun.
        self.place = 0
        self.is_over = False
        #: Where it is under way, and where it was: numbers of connections.
        self.at = self.was_at = _NOWHERE
        self.under_way: UnderWay | None = None

    def has_ended(self) -> bool:
        """Whether its outcome is told, or nobody wants it any more; another thread may say so."""
        return self.is_over


class BegunVerbs:
    """The verbs of one connection; any thread may use it. Callbacks come one at a time."""

    def __init__(self, again: Reconnection) -> None:
        """Begin with none."""
        self._again = again
        self._changed = again.runtime.condition()
        self._telling = again.runtime.reentrant_lock("reconnecting callbacks")
        self._last_place = 0
        #: How many verbs of each connection, by its number, have not called back.
        self._open_counts: Counter[int] = Counter()
        #: Verbs that are to be begun again, and waits on a connection that is being drained.
        self._lost: list[Begun[Any]] = []
        self._drained: list[Begun[Any]] = []
        self._is_beginning_again = self._has_thread = False

    def start(self, begun: Begun[Any]) -> UnderWay:
        """Begin a verb, behind those that are to be begun again: puts keep their order."""
        is_lost = self._again.is_lost(self._again.now[0])
        with self._changed:
            self._last_place += 1
            begun.place = self._last_place
            is_behind = is_lost or self._is_beginning_again
            if is_behind:
                self._lose(begun, self._lost)
        if not is_behind:
            self._begin(begun)
        return _Started(self, begun)

    def cancel(self, begun: Begun[Any]) -> bool:
        """End a verb without effect; see ``UnderWay.cancel``."""
        while begun.is_wait:
            connection, number = self._again.now
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
            is_lost = at != number or self._again.is_lost(connection)
            with self._changed:
                if is_cancelled:
                    begun.is_over = True
                    self._count_down(at)
                    return True
                if begun.has_ended() or (begun.at == at and not is_lost):
                    return False
                if begun.at == at:
                    # Its callback, if one comes, tells of what went back with the connection.
                    begun.is_over = True
                    return True
        return False

    def _begin(self, begun: Begun[Any]) -> None:
        connection, number = self._again.now
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
        self, begun: Begun[Any], connection: Connection, number: int, outcome: object
    ) -> None:
        """Tell an outcome, or begin the verb again: the callback on one connection."""
        again_in = None
        if isinstance(outcome, MQError):
            again_in = self._list_for(begun, connection, outcome)
            if again_in is None and isinstance(outcome, LostAnswer):
                outcome = interrupted() if self._again.is_lost(connection) else outcome
        with self._changed:
            is_told = again_in is None and not begun.is_over
            if is_told:
                begun.is_over = True
            elif again_in is not None and not begun.is_over:
                self._lose(begun, again_in)
            self._count_down(number)
        if is_told:
            with self._telling:
                begun.tell(connection, number, outcome)

    def _list_for(
        self, begun: Begun[Any], connection: Connection, error: MQError
    ) -> list[Begun[Any]] | None:
        """Return where a verb that failed waits to be begun again, None when it is not."""
        if self._again.is_lost(connection):
            is_doubtful = begun.is_final and isinstance(error, LostAnswer)
            return None if is_doubtful else self._lost
        if begun.is_wait and error.reason in DRAINED and not self._again.has_ended:
            return self._drained
        return None

    def _lose(self, begun: Begun[Any], where: list[Begun[Any]]) -> None:
        """Leave a verb to the thread that begins again; ``_changed`` is held."""
        begun.was_at, begun.at, begun.under_way = begun.at, _NOWHERE, None
        where.append(begun)
        if not self._has_thread:
            self._has_thread = True
            self._again.runtime.thread(self._run, "mayfly-reconnect").start()
        self._changed.notify_all()

    def _count_down(self, number: int) -> None:
        self._open_counts[number] -= 1
        self._changed.notify_all()

    def _run(self) -> None:
        """Connect again and begin again, until nothing is lost."""
        while True:
            connection, number = self._again.now
            with self._changed:
                if not self._lost and not self._drained:
                    self._is_beginning_again = self._has_thread = False
                    return
                is_drained = not self._lost and all(each.was_at == number for each in self._drained)
                self._is_beginning_again = not is_drained
            if is_drained:
                self._again.wait_for_loss(connection)
            failure = self._connect_again(connection, number)
            with self._changed:
                while failure is None and self._has_open_before(self._again.now[1]):
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
        """Return True if callbacks of earlier connections are still to come."""
        self._open_counts += Counter()  # without those that are 0
        return any(each < number for each in self._open_counts)

    def _connect_again(self, connection: Connection, number: int) -> MQError | None:
        """Return why there is no connection to begin on."""
        try:
            if self._again.has_ended or self._again.is_lost(connection):
                self._again.again(number)
        except MQError as error:
            return error
        return None

    def _fail(
        self, begun: Begun[Any], connection: Connection, number: int, failure: MQError
    ) -> None:
        with self._changed:
            is_told = not begun.is_over
            begun.is_over = True
        if is_told:
            with self._telling:
                begun.tell(connection, number, failure)


class _Started:
    """A verb that was begun, whatever connection it is on."""

    def __init__(self, verbs: BegunVerbs, begun: Begun[Any]) -> None:
        self._verbs, self._begun = verbs, begun

    def cancel(self) -> bool:
        """End it without effect; False when it is decided."""
        return self._verbs.cancel(self._begun)


_R = TypeVar("_R")
#: These settlements give a message back, as the end of its connection does: they need no repeat.
_GOES_BACK = frozenset({Settlement.RETURNED, Settlement.BACKED_OUT})
_OF_CLAIMS = (ask.AskInstance, ask.ListConsumers, ask.EndWritten, ask.ReleaseClaims)
_WAYS = c.MQSO_CREATE | c.MQSO_RESUME | c.MQSO_ALTER


class Deliveries:
    """Lasting numbers of deliveries: each stands for a connection and a number on it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._numbers = count(1)
        self._known: dict[int, tuple[Connection, int]] = {}

    def enter(self, connection: Connection, delivery: Delivery, handle: int) -> Delivery:
        """Return a delivery under a number that stays; 0, which is not held, stays 0."""
        if not delivery.number:
            return delivery._replace(handle=handle)
        number = next(self._numbers)
        self._known[number] = connection, delivery.number
        return delivery._replace(number=number, handle=handle)

    def inner(self, numbers: Iterable[int], connection: Connection) -> list[int]:
        """Return the numbers on a connection, without those that went back with another one.

        Raises MQRC_HMSG_ERROR for one that is settled already.
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
        """Forget deliveries that are settled."""
        for number in numbers:
            self._known.pop(number, None)


class ReconnectingConnection(Connection):
    """A connection whose requests are made on the connection of now, as ``Reconnection.run``.

    ``number`` is that of the first conversation, and stays. So do the numbers of what is open. A
    request with a callback whose connection is lost is begun again on the next one, with these
    exceptions:

    * A put outside of the unit of work, a commit or a settlement whose answer never came tells
      MQRC_CALL_INTERRUPTED.
    * A request in a unit of work that was lost tells MQRC_BACKED_OUT.
    * A delivery that is held when its connection is lost goes back, counted. To settle it as TAKEN
      is MQRC_BACKED_OUT.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        how: Reconnect,
        patience: Patience = USUAL_PATIENCE,
        attempts: Attempts = USUAL_ATTEMPTS,
    ) -> None:
        """Connect; raises as ``connect``."""
        self._again = again = Reconnection(connect, how, patience, attempts)
        self.number = again.now[0].number
        self.runtime = again.runtime
        self._opened = again.objects
        self._begun = BegunVerbs(again)
        self._deliveries = Deliveries()
        self._temporary_topics: set[str] = set()
        #: Changes of the schedule that go on step by step: the connection and their number there.
        self._steps: dict[int, tuple[Connection, int]] = {}
        self._step_numbers = count(1)

    @property
    def name(self) -> str:  # type: ignore[override]  # it changes with the connection
        """The name of the queue manager of now."""
        return self._again.now[0].name

    def call(self, request: Request[_R]) -> _R:
        """Make a request, again on a new connection where the one of now is lost."""
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
        """Begin a request, again on a new connection where the one of now is lost."""
        try:
            self._check(request)
        except MQError as error:
            self.tell(on_done, error)
            return DECIDED
        begins = _BEGINS.get(type(request))
        if begins is not None:
            return self._begun.start(begins(self, request, on_done, on_event))

        def begin(now: Connection, done: OnDone[_R]) -> UnderWay:
            return now.begin(self._inner(request), done, on_event)

        is_wait = type(request) in _WAITS
        return self._begun.start(
            Begun(begin, _telling(on_done), is_wait=is_wait, is_final=request.is_doubtful)
        )

    def tell(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Tell an outcome that is known."""

        def begin(_now: Connection, done: OnDone[_R]) -> UnderWay:
            done(outcome)
            return DECIDED

        self._begun.start(Begun(begin, _telling(on_done)))

    def together(self) -> AbstractContextManager[object]:
        """Let puts travel together; those that are begun again do so one by one."""
        return self._again.now[0].together()

    def close(self, *, commit: bool = True) -> None:
        """MQDISC; raises MQRC_BACKED_OUT when the unit of work to be committed is lost."""
        again = self._again
        if again.is_closed:
            return
        now = again.close()
        is_gone = again.is_backed_out or (again.has_work and now.is_broken)
        now.close(commit=commit)
        if is_gone and commit:
            raise backed_out()

    def has_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        return self._opened.has(handle)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped, now or at the next verb."""
        self._again.now[0].end_dropped(end)

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return not self._again.is_closed

    @property
    def is_broken(self) -> bool:
        """Whether the attempts to connect again have failed."""
        return self._again.failure is not None

    @property
    def socket(self) -> int | None:
        """The number of the socket of now, 0 when there is none."""
        return self._again.now[0].socket

    # Any request.

    def _check(self, request: Request[Any]) -> None:
        """Refuse what cannot be made again.

        Raises MQRC_RECONNECT_INCOMPATIBLE for options whose effect ends with a connection, and
        MQRC_RECONNECT_Q_MGR_REQD for what one queue manager alone has: a MsgToken, a durable
        subscription. MQRC_FUNCTION_NOT_SUPPORTED for claims.
        """
        if isinstance(request, ask.Put) and request.options & c.MQPMO_LOGICAL_ORDER:
            raise incompatible("MQPMO_LOGICAL_ORDER")
        if isinstance(request, ask.Get) and request.options & c.MQGMO_LOGICAL_ORDER:
            raise incompatible("MQGMO_LOGICAL_ORDER")
        if isinstance(request, _OF_CLAIMS):
            said = "claims are ended by commands, whose connections are not made again"
            raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, said)
        if self._again.is_to_same:
            return
        if isinstance(request, ask.Get) and request.token is not None:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a get by MsgToken")
        is_durable = (isinstance(request, ask.Subscribe) and request.options & c.MQSO_DURABLE) or (
            isinstance(request, ask.JoinSubscription) and request.is_durable
        )
        if is_durable:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a durable subscription")

    def _inner(self, request: Request[_R]) -> Request[_R]:
        """Return a request with the numbers of now of what is open; raises MQRC_HOBJ_ERROR."""
        changes: dict[str, Any] = {}
        for field, what in numbers_in(type(request)).items():
            outer = getattr(request, field)
            if what == "subscription":
                changes[field] = self._opened.inner_subscription(outer) if outer else outer
            elif isinstance(outer, list):
                changes[field] = [self._opened.inner(each) for each in outer]
            else:
                changes[field] = self._opened.inner(outer)
        return replace(request, **changes) if changes else request

    def _run(self, request: Request[_R], enter: Callable[[_R], _R] | None = None) -> _R:
        return self._again.run(
            lambda now: now.call(self._inner(request)), in_unit=request.in_unit, enter=enter
        )

    # Objects and subscriptions.

    def _open(self, request: ask.Open) -> Opened:
        def open_as(now: Connection, name: str, dynamic_name: str) -> Opened:
            return now.call(replace(request, name=name, dynamic_name=dynamic_name))

        def reopen(now: Connection, numbers: Numbers) -> Opened:
            name = numbers.renamed.get(request.name, request.name)
            return open_as(now, name, request.dynamic_name)

        def enter(opened: Opened) -> Opened:
            if opened.made:
                again = reopen_dynamic(open_as, request.name, opened.made)
                return self._opened.enter(opened, again)
            return self._opened.enter(opened, reopen)

        return self._again.run(lambda now: reopen(now, self._opened.now), enter=enter)

    def _close_object(self, request: ask.CloseObject) -> int:
        reason = self._run(request)
        self._opened.drop(request.handle)
        return reason

    def _subscribe(self, request: ask.Subscribe) -> Subscribed:
        options = request.options & ~_WAYS
        if options & c.MQSO_DURABLE:
            options |= c.MQSO_RESUME
        else:
            # Retained publications have come at the first subscription already.
            options |= c.MQSO_CREATE | c.MQSO_NEW_PUBLICATIONS_ONLY

        def resubscribe(now: Connection, queue: int) -> Subscribed:
            return now.call(replace(request, options=options, queue=queue, altered=0, held=0))

        def enter(made: Subscribed) -> Subscribed:
            return self._opened.subscribe(made, resubscribe, request.queue)

        return self._run(request, enter)

    def _join(self, request: ask.JoinSubscription) -> Subscribed:
        def enter(made: Subscribed) -> Subscribed:
            return self._opened.subscribe(made, lambda now, _queue: now.call(request), c.MQHO_NONE)

        return self._run(request, enter)

    def _close_subscription(self, request: ask.CloseSubscription) -> None:
        self._run(request)
        self._opened.drop_subscription(request.number)

    def _belong_to(self, request: ask.BelongTo) -> None:
        self._keep("the owner", request)

    def _claim_client_id(self, request: ask.ClaimClientId) -> None:
        self._keep(f"client id {request.client_id!r}", request)

    def _keep(self, what: str, request: Request[None]) -> None:
        """Make a request that is made again on each new connection."""
        self._run(request, lambda _done: self._opened.remember(what, lambda now: now.call(request)))

    def _make_temporary_topic(self, request: ask.MakeTemporaryTopic) -> str:
        topic = self._run(request)
        self._temporary_topics.add(topic)
        return topic

    def _delete_temporary_topic(self, request: ask.DeleteTemporaryTopic) -> None:
        """Delete a topic that was made here, on whatever connection."""
        try:
            self._run(request)
        except MQError as error:
            is_ours = request.topic in self._temporary_topics
            if not is_ours or error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME:
                raise
        self._temporary_topics.discard(request.topic)

    # Gets, and what is held.

    def _get(self, request: ask.Get) -> GetResult:
        """Get; a get that is interrupted is repeated.

        Outside of a unit of work its message may be lost, as in IBM MQ. Browsing begins anew after
        a new connection.
        """
        return self._again.wait(lambda now: now.call(self._inner(request)), in_unit=request.in_unit)

    def _get_held(self, request: ask.GetAny) -> Delivery:
        def get(now: Connection) -> Delivery:
            delivery = now.call(self._inner(request))
            return self._deliveries.enter(now, delivery, request.handles[0])

        return self._again.wait(get)

    def _take_held(self, request: ask.TakeHeld) -> list[Delivery]:
        def take(now: Connection) -> list[Delivery]:
            taken = now.call(self._inner(request))
            return [self._deliveries.enter(now, each, request.handle) for each in taken]

        return self._again.run(take)

    def _settle(self, request: ask.Settle) -> None:
        settling = self._settling(request)
        while True:
            try:
                self._again.attempt(lambda now: _settle_on(now, settling(now)))
            except Lost as lost:
                if lost.is_in_doubt and self._is_final(request):
                    raise interrupted() from lost
            else:
                break
        self._deliveries.drop(request.deliveries)

    def _settling(self, request: ask.Settle) -> Callable[[Connection], ask.Settle]:
        """Return what makes the request of a connection, of the deliveries that it holds."""
        in_unit, unit = request.within == self.number, self._again.unit

        def settling(now: Connection) -> ask.Settle:
            inners = self._deliveries.inner(request.deliveries, now)
            if len(inners) < len(request.deliveries) and request.settlement not in _GOES_BACK:
                raise backed_out()
            if in_unit and inners:
                self._again.begin_work(now, unit)
            within = now.number if in_unit else request.within
            return replace(request, deliveries=inners, within=within)

        return settling

    def _is_final(self, request: ask.Settle) -> bool:
        """Whether it may have taken effect for good when its answer is lost."""
        return request.settlement not in _GOES_BACK and request.within != self.number

    # The unit of work.

    def _commit(self, _request: ask.Commit) -> None:
        """Commit.

        Raises MQRC_BACKED_OUT for a unit of work that was lost before, and LostAnswer with
        MQRC_CALL_INTERRUPTED when the connection broke before the answer came.
        """
        again = self._again
        of_unit, has_work = again.end_unit(again.next_unit())

        def commit(now: Connection) -> None:
            if has_work and now is not of_unit:
                raise backed_out()
            now.call(ask.Commit())

        try:
            again.attempt(commit)
        except Lost as lost:
            if not has_work:
                return
            if lost.is_in_doubt:
                raise interrupted() from lost
            raise backed_out() from lost

    def _backout(self, _request: ask.Backout) -> None:
        """Back out; a unit of work that was lost with its connection is backed out already."""
        again = self._again
        try:
            again.end_unit(again.next_unit())
        except MQError:
            return
        with suppress(Lost):
            again.attempt(lambda now: now.call(ask.Backout()))

    # Changes of many delayed messages, step by step.

    def _begin_steps(self, request: Request[int]) -> int:
        def begin(now: Connection) -> tuple[Connection, int]:
            return now, now.call(request)

        number = next(self._step_numbers)
        self._steps[number] = self._again.run(begin, in_unit=request.in_unit)
        return number

    def _go_on(self, request: ask.GoOn) -> int | None:
        begun_on, inner = self._steps.get(request.number, (None, 0))

        def go_on(now: Connection) -> int | None:
            if begun_on not in (None, now):
                raise interrupted()
            return now.call(replace(request, number=inner))

        done_count = self._again.run(go_on, in_unit=request.in_unit)
        if done_count is None:
            self._steps.pop(request.number, None)
        return done_count

    # Requests with a callback.

    def _begun_get(
        self, request: ask.Get, on_done: OnDone[GetResult], _on_event: OnRefused | None
    ) -> Begun[GetResult]:
        def begin(now: Connection, done: OnDone[GetResult]) -> UnderWay:
            self._check_unit(request)
            return now.begin(self._inner(request), done)

        def tell(_now: Connection, number: int, outcome: GetResult | MQError) -> None:
            if request.in_unit and not isinstance(outcome, MQError):
                self._again.note_work(number)
            on_done(outcome)

        return Begun(begin, tell)

    def _begun_get_any(
        self, request: ask.GetAny, on_done: OnDone[Delivery], on_refused: OnRefused | None
    ) -> Begun[Delivery]:
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

        def tell(now: Connection, number: int, outcome: Delivery | MQError) -> None:
            if not isinstance(outcome, MQError):
                if request.in_unit:
                    self._again.note_work(number)
                outcome = self._deliveries.enter(now, outcome, outers[outcome.handle])
            on_done(outcome)

        return Begun(begin, tell, is_wait=True)

    def _begun_put(
        self, request: ask.Put, on_done: OnDone[Any], _on_event: OnRefused | None
    ) -> Begun[Any]:
        unit = self._again.unit

        def begin(now: Connection, done: OnDone[Any]) -> UnderWay:
            if request.in_unit:
                # Before its outcome is known: a commit may follow without waiting for that.
                self._again.begin_work(now, unit)
            return now.begin(self._inner(request), done)

        return Begun(begin, _telling(on_done), is_final=not request.in_unit)

    def _begun_commit(
        self, request: ask.Commit, on_done: OnDone[None], _on_event: OnRefused | None
    ) -> Begun[None]:
        unit = self._again.next_unit()
        of_unit: Connection | None = None

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            nonlocal of_unit
            if of_unit is None:
                of_unit, begun.is_final = self._again.end_unit(unit)
            if begun.is_final and now is not of_unit:
                raise backed_out()
            return now.begin(request, done)

        begun = Begun(begin, _telling(on_done))
        return begun

    def _begun_settle(
        self, request: ask.Settle, on_done: OnDone[None], _on_event: OnRefused | None
    ) -> Begun[None]:
        settling = self._settling(request)

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            asked = settling(now)
            if asked.deliveries:
                return now.begin(asked, done)
            done(None)
            return DECIDED

        def tell(_now: Connection, _number: int, outcome: MQError | None) -> None:
            if outcome is None:
                self._deliveries.drop(request.deliveries)
            on_done(outcome)

        return Begun(begin, tell, is_final=self._is_final(request))

    def _check_unit(self, request: Request[Any]) -> None:
        if request.in_unit and self._again.is_backed_out:
            raise backed_out()


def _settle_on(now: Connection, asked: ask.Settle) -> None:
    if asked.deliveries:
        now.call(asked)


def _telling(on_done: OnDone[_R]) -> Callable[[Connection, int, _R | MQError], object]:
    return lambda _connection, _number, outcome: on_done(outcome)


#: Requests that are more than made again, by what is done for each.
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
    ask.BelongTo: ReconnectingConnection._belong_to,
    ask.ClaimClientId: ReconnectingConnection._claim_client_id,
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
        Callable[[ReconnectingConnection, Any, OnDone[Any], OnRefused | None], Begun[Any]],
    ]
] = {
    ask.Get: ReconnectingConnection._begun_get,
    ask.GetAny: ReconnectingConnection._begun_get_any,
    ask.Put: ReconnectingConnection._begun_put,
    ask.Commit: ReconnectingConnection._begun_commit,
    ask.Settle: ReconnectingConnection._begun_settle,
}
#: Requests that may be dropped with their connection: they change nothing.
_WAITS: Final = frozenset({ask.WaitUntil, ask.AwaitDefinitions})

"""The verbs with a callback of a connection that reconnects, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any, TypeVar

from mayfly.connection.interface import Connection, OnDone, OnRefused, UnderWay
from mayfly.connection.reconnecting_begun import Begun, BegunVerbs
from mayfly.connection.reconnection import (
    Lost,
    Reconnection,
    backed_out,
    incompatible,
    interrupted,
)
from mayfly.connection.values import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error

_T = TypeVar("_T")
_SYNCPOINT_GETS = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
#: These settlements give a message back, as the end of its connection does: they need no repeat.
_GOES_BACK = frozenset({Settlement.RETURNED, Settlement.BACKED_OUT})


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


class ReconnectingCalls:
    """See ``interface.Asynchronous``, whose methods these are.

    A verb whose connection is lost is begun again on the next one, with these exceptions:

    * A put outside of the unit of work, a commit or a settlement whose answer never came tells
      MQRC_CALL_INTERRUPTED.
    * A verb in a unit of work that was lost tells MQRC_BACKED_OUT.
    * A delivery that is held when its connection is lost goes back, counted. To settle it as TAKEN
      is MQRC_BACKED_OUT.
    """

    def __init__(self, again: Reconnection, number: int) -> None:
        """Stand on a reconnection; ``number`` is what programs know the conversation by."""
        self._again, self._opened = again, again.objects
        self._number = number
        self._verbs = BegunVerbs(again)
        self.deliveries = Deliveries()

    def get(
        self, handle: int, options: int = c.MQGMO_NONE, *, on_done: OnDone[Delivery], **more: Any
    ) -> UnderWay:
        """MQGET of a message that is held until it is settled."""
        return self.get_any([handle], options, on_done=on_done, **more)

    def get_any(
        self,
        handles: Iterable[int],
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        on_refused: OnRefused | None = None,
        **more: Any,
    ) -> UnderWay:
        """MQGET of the first message that comes to one of several queues."""
        own = list(handles)
        in_unit = bool(options & _SYNCPOINT_GETS)
        outers: dict[int, int] = {}

        def begin(now: Connection, done: OnDone[Delivery]) -> UnderWay:
            self._check_unit(in_unit=in_unit)
            inners = [self._opened.inner(handle) for handle in own]
            outers.clear()
            outers.update(zip(inners, own, strict=True))
            told = None if on_refused is None else partial(_refused, on_refused, outers)
            return now.asynchronous.get_any(inners, options, on_done=done, on_refused=told, **more)

        def tell(connection: Connection, number: int, outcome: Delivery | MQError) -> None:
            if not isinstance(outcome, MQError):
                if in_unit:
                    self._again.note_work(number)
                handle = outers[outcome.handle]
                outcome = self.deliveries.enter(connection, outcome, handle)
            on_done(outcome)

        return self._verbs.start(Begun(begin, tell, is_wait=True))

    def fetch(
        self, handle: int, options: int = c.MQGMO_NONE, *, on_done: OnDone[GetResult], **more: Any
    ) -> UnderWay:
        """MQGET for good, or into the unit of work; one that is interrupted is repeated."""
        if options & c.MQGMO_LOGICAL_ORDER:
            return self._refuse(on_done, incompatible("MQGMO_LOGICAL_ORDER"))
        in_unit = bool(options & _SYNCPOINT_GETS)

        def begin(now: Connection, done: OnDone[GetResult]) -> UnderWay:
            self._check_unit(in_unit=in_unit)
            inner = self._opened.inner(handle)
            return now.asynchronous.fetch(inner, options, on_done=done, **more)

        def tell(_connection: Connection, number: int, outcome: GetResult | MQError) -> None:
            if in_unit and not isinstance(outcome, MQError):
                self._again.note_work(number)
            on_done(outcome)

        return self._verbs.start(Begun(begin, tell))

    def wait_until(self, moment_ms: int | None, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until the queue manager's time is a moment."""

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            return now.asynchronous.wait_until(moment_ms, on_done=done)

        return self._verbs.start(Begun(begin, _telling(on_done), is_wait=True))

    def await_definitions(self, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until a definition is made, altered or deleted."""

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            return now.asynchronous.await_definitions(on_done=done)

        return self._verbs.start(Begun(begin, _telling(on_done), is_wait=True))

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Any,
        options: int = c.MQPMO_NONE,
        *,
        on_done: OnDone[PutResult | None],
        context: int = c.MQHO_NONE,
        **more: Any,
    ) -> UnderWay:
        """MQPUT to a queue or a topic."""
        if options & c.MQPMO_LOGICAL_ORDER:
            return self._refuse(on_done, incompatible("MQPMO_LOGICAL_ORDER"))
        in_unit, unit = bool(options & c.MQPMO_SYNCPOINT), self._again.unit

        def begin(now: Connection, done: OnDone[PutResult | None]) -> UnderWay:
            if in_unit:
                # Before its outcome is known: a commit may follow without waiting for that.
                self._again.begin_work(now, unit)
            inner, context_of = self._opened.inner(handle), self._opened.inner(context)
            return now.asynchronous.put(
                inner, body, descriptor, options, on_done=done, context=context_of, **more
            )

        return self._verbs.start(Begun(begin, _telling(on_done), is_final=not in_unit))

    def together(self) -> AbstractContextManager[object]:
        """Let puts travel together; those that are begun again do so one by one."""
        return self._again.now[0].asynchronous.together()

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """Commit the unit of work; the next one begins at once."""
        unit = self._again.next_unit()
        of_unit: Connection | None = None

        def begin(now: Connection, done: OnDone[None]) -> UnderWay:
            nonlocal of_unit
            if of_unit is None:
                of_unit, begun.is_final = self._again.end_unit(unit)
            if begun.is_final and now is not of_unit:
                raise backed_out()
            return now.asynchronous.commit(done)

        begun = Begun(begin, _telling(on_done))
        return self._verbs.start(begun)

    def settle(
        self,
        deliveries: Iterable[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        within: int = 0,
        on_done: OnDone[None] | None = None,
    ) -> UnderWay:
        """Settle deliveries."""
        numbers, unit = list(deliveries), self._again.unit
        in_unit = within == self._number
        is_final = settlement not in _GOES_BACK and not in_unit

        def inners_on(now: Connection) -> list[int]:
            inners = self.deliveries.inner(numbers, now)
            if len(inners) < len(numbers) and settlement not in _GOES_BACK:
                raise backed_out()
            return inners

        def settle_on(now: Connection, done: OnDone[None] | None) -> UnderWay:
            inners = inners_on(now)
            if not inners and done is not None:
                done(None)
            if not inners:
                return _DECIDED
            if in_unit:
                self._again.begin_work(now, unit)
            number = now.number if in_unit else within
            return now.asynchronous.settle(
                inners, settlement, reason=reason, within=number, on_done=done
            )

        if on_done is None:
            self._settle_now(settle_on, is_final=is_final)
            self.deliveries.drop(numbers)
            return _DECIDED

        def tell(_connection: Connection, _number: int, outcome: MQError | None) -> None:
            if outcome is None:
                self.deliveries.drop(numbers)
            on_done(outcome)

        return self._verbs.start(Begun(settle_on, tell, is_final=is_final))

    def _settle_now(
        self, settle_on: Callable[[Connection, None], UnderWay], *, is_final: bool
    ) -> None:
        while True:
            try:
                self._again.attempt(lambda now: settle_on(now, None))
            except Lost as lost:
                if lost.is_in_doubt and is_final:
                    raise interrupted() from lost
            else:
                return

    def _check_unit(self, *, in_unit: bool) -> None:
        if in_unit and self._again.is_backed_out:
            raise backed_out()

    def _refuse(self, on_done: OnDone[_T], error: MQError) -> UnderWay:
        def begin(_now: Connection, _done: OnDone[_T]) -> UnderWay:
            raise error

        return self._verbs.start(Begun(begin, _telling(on_done)))


class ReconnectingHeld:
    """See ``interface.Held``, whose method this is."""

    def __init__(self, again: Reconnection, deliveries: Deliveries) -> None:
        """Stand on a reconnection."""
        self._again, self._deliveries = again, deliveries

    def get(
        self, handle: int, options: int = c.MQGMO_NONE, *, wait_ms: int = c.MQWI_UNLIMITED
    ) -> Delivery:
        """Get a message that is held until it is settled; a wait goes on on the next connection."""

        def verb(now: Connection) -> Delivery:
            inner = self._again.objects.inner(handle)
            delivery = now.held.get(inner, options, wait_ms=wait_ms)
            return self._deliveries.enter(now, delivery, handle)

        return self._again.wait(verb)

    def take(self, handle: int, options: int, most: int, most_bytes: int) -> list[Delivery]:
        """Get messages that are there, in one turn."""

        def verb(now: Connection) -> list[Delivery]:
            inner = self._again.objects.inner(handle)
            taken = now.held.take(inner, options, most, most_bytes)
            return [self._deliveries.enter(now, each, handle) for each in taken]

        return self._again.run(verb)


class ReconnectingMany:
    """See ``onward.Many``, whose method this is."""

    def __init__(self, again: Reconnection) -> None:
        """Stand on a reconnection."""
        self._again = again

    def get(self, handle: int, options: int, most: int, most_bytes: int) -> list[Message]:
        """Get messages that are there."""

        def verb(now: Connection) -> list[Message]:
            return now.many.get(self._again.objects.inner(handle), options, most, most_bytes)

        return self._again.run(verb, in_unit=bool(options & c.MQGMO_SYNCPOINT))


class ReconnectingOnward:
    """See ``interface.Onward``, whose methods these are; they are part of the unit of work."""

    def __init__(self, again: Reconnection) -> None:
        """Stand on a reconnection."""
        self._run, self._opened = again.run, again.objects

    def forward(self, message: Message, name: str) -> None:
        """Put it on another queue as it is."""
        self._run(lambda now: now.onward.forward(message, name), in_unit=True)

    def move(self, handle: int, name: str, **more: Any) -> int:
        """Move the message under a browse cursor to another queue."""
        inner = self._opened.inner
        return self._run(lambda now: now.onward.move(inner(handle), name, **more), in_unit=True)

    def reply(
        self, name: str, manager: str, body: bytes, descriptor: Descriptor, **more: Any
    ) -> int:
        """Put a reply."""
        return self._run(
            lambda now: now.onward.reply(name, manager, body, descriptor, **more), in_unit=True
        )

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        self._run(lambda now: now.onward.dead_letter(message, reason), in_unit=True)

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        return self._run(lambda now: now.onward.report_exception(message, reason), in_unit=True)


class _Decided:
    """A verb that cannot be taken back."""

    def cancel(self) -> bool:
        """Return False."""
        return False


_DECIDED = _Decided()


def _telling(on_done: OnDone[_T]) -> Callable[[Connection, int, _T | MQError], object]:
    return lambda _connection, _number, outcome: on_done(outcome)


def _refused(on_refused: OnRefused, outers: dict[int, int], handle: int, error: MQError) -> None:
    on_refused(outers.get(handle, c.MQHO_NONE), error)

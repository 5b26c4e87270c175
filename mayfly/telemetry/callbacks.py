"""Verbs with a callback, recorded: a span ends when the callback is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from mayfly.connection import Connection, Delivery, OnDone, PutResult, Settlement, UnderWay
from mayfly.connection.values import GetResult, Property
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.telemetry import conventions as names
from mayfly.telemetry.carrying import Content
from mayfly.telemetry.connections import Observed, Put
from mayfly.telemetry.recording import Running, Target

_WORDS = {
    Settlement.TAKEN: "take",
    Settlement.RETURNED: "return",
    Settlement.BACKED_OUT: "backout",
    Settlement.DEAD_LETTERED: "dead-letter",
    Settlement.SET_ASIDE: "set-aside",
}


class TracedCalls:
    """Verbs as ``interface.Asynchronous`` has them; those that are not recorded are its own."""

    def __init__(self, made: Connection, observed: Observed) -> None:
        """Take the connection that does the work."""
        self._made, self._observed = made.asynchronous, observed

    def __getattr__(self, name: str) -> Any:
        """Return what is not recorded."""
        return getattr(self._made, name)

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        **given: Any,
    ) -> UnderWay:
        """MQGET of a message that is held until it is settled."""
        running = self._observed.begin_get(handle, options)
        end = partial(self._observed.end_delivery, running)
        told = _told(running, lambda found: end(found, options), on_done)
        return self._made.get(handle, options, on_done=told, **given)

    def fetch(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[GetResult],
        **given: Any,
    ) -> UnderWay:
        """MQGET for good, or into the unit of work."""
        running = self._observed.begin_get(handle, options)
        end = partial(self._observed.end_get, running)
        told = _told(running, lambda found: end(found, options), on_done)
        return self._made.fetch(handle, options, on_done=told, **given)

    def get_any(
        self,
        handles: Iterable[int],
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        **given: Any,
    ) -> UnderWay:
        """MQGET for a listener, whose own span tells of the message: it is only counted here."""
        observed = self._observed

        def told(outcome: Delivery | MQError) -> None:
            if isinstance(outcome, MQError):
                on_done(outcome)
                return
            delivery, creation = observed.shown(outcome)
            observed.note_delivery(delivery, creation, options)
            on_done(delivery)

        return self._made.get_any(handles, options, on_done=told, **given)

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        on_done: OnDone[PutResult | None],
        properties: Sequence[Property] = (),
        **given: Any,
    ) -> UnderWay:
        """MQPUT to a queue or a topic."""
        running = self._observed.begin_put(handle)
        put = Put(running, Content(descriptor, body), properties)

        def begin() -> UnderWay:
            content = put.content
            return self._made.put(
                handle,
                content.body,
                content.descriptor,
                options,
                on_done=told,
                properties=properties,
                **given,
            )

        def told(outcome: PutResult | MQError | None) -> None:
            if not isinstance(outcome, MQError):
                put.end(outcome)
            elif put.may_try_again(outcome):
                begin()
                return
            else:
                running.fail(outcome)
            on_done(outcome)

        return begin()

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """MQCMIT."""
        observed = self._observed
        count, observed.unit_count = observed.unit_count, 0
        if not count:
            return self._made.commit(on_done)
        running = observed.recorder.begin(names.COMMIT, Target("", observed.manager))
        running.say({names.BATCH_COUNT: count})
        return self._made.commit(_told(running, lambda _none: running.end(), on_done))

    def settle(
        self,
        deliveries: Iterable[int],
        settlement: Settlement,
        *,
        on_done: OnDone[None] | None = None,
        **given: Any,
    ) -> UnderWay:
        """Settle deliveries: one span, with a link for each of them."""
        observed, numbers = self._observed, list(deliveries)
        known = [found for number in numbers if (found := observed.held.pop(number, None))]
        queues = {queue for queue, _creation in known}
        target = Target(queues.pop() if len(queues) == 1 else "", observed.manager)
        running = observed.recorder.begin(names.settling(_WORDS[settlement]), target)
        for _queue, creation in known:
            if creation is not None:
                running.span.add_link(creation)
        if len(numbers) > 1:
            running.say({names.BATCH_COUNT: len(numbers)})
        if on_done is not None:
            told = _told(running, lambda _none: running.end(), on_done)
            return self._made.settle(numbers, settlement, on_done=told, **given)
        try:
            under_way = self._made.settle(numbers, settlement, **given)
        except BaseException as error:
            running.fail(error)
            raise
        running.end()
        return under_way


def _told(
    running: Running, end: Callable[[Any], Any], on_done: Callable[[Any], object]
) -> Callable[[Any], None]:
    """Return the callback that ends a span before the program's own is called.

    A get that finds nothing has no span, as in ``connections``.
    """

    def told(outcome: Any) -> None:
        if not isinstance(outcome, MQError):
            seen = end(outcome)
            outcome = outcome if seen is None else seen
        elif not isinstance(outcome, NoMessage):
            running.fail(outcome)
        on_done(outcome)

    return told

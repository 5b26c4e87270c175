"""The verbs of a connection in this process that end with a callback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from mayfly.connection.interface import OnDone, OnRefused, UnderWay
from mayfly.connection.local_puts import PutTarget
from mayfly.connection.objects import OpenObjects
from mayfly.connection.values import (
    Delivery,
    GetResult,
    NewMessage,
    Property,
    PutResult,
    Settlement,
)
from mayfly.engine import (
    GetRequest,
    Handle,
    Match,
    Message,
    PutRequest,
    Session,
    put_dead_letter,
    set_aside,
)
from mayfly.engine.face.programs import (
    ANY,
    Completion,
    Room,
    StandingGet,
    StandingWaits,
    TopicHandle,
    UnitOfWork,
    with_properties,
)
from mayfly.lifetime.window import check_life_ms, life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error

_T = TypeVar("_T")
#: The sessions of the conversations of this process, by number.
_sessions: WeakValueDictionary[int, Session] = WeakValueDictionary()


class _Decided:
    """A verb that is decided, or cannot be taken back any more."""

    def stands(self) -> bool:
        """Return False."""
        return False

    def cancel(self) -> bool:
        """Return False: the callback tells how it ends."""
        return False


class LocalCalls:
    """Verbs over a session; see ``interface.Asynchronous``, whose methods these are."""

    def __init__(self, session: Session, objects: OpenObjects) -> None:
        """Take the session and what is open on it."""
        self._session, self._objects = session, objects
        self._core = session.core
        self._waits = StandingWaits(session.core)
        self.number = session.number
        _sessions[self.number] = session

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        wait_ms: int = c.MQWI_UNLIMITED,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
    ) -> UnderWay:
        """MQGET of a message that is held until it is settled."""
        return self.get_any(
            [handle],
            options,
            on_done=on_done,
            wait_ms=wait_ms,
            max_length=max_length,
            msg_id=msg_id,
            correl_id=correl_id,
        )

    def get_any(
        self,
        handles: Iterable[int],
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        wait_ms: int = c.MQWI_UNLIMITED,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        on_refused: OnRefused | None = None,
    ) -> UnderWay:
        """MQGET of the first message that comes to one of several queues."""
        deliveries, getters = self._session.deliveries, {}
        held = unit = None
        if options & c.MQGMO_SYNCPOINT:
            unit = self._session.unit_of_work
        elif not options & c.MQGMO_BROWSE_FIRST:
            held = unit = deliveries.new_unit()
        match = Match(msg_id or None, correl_id or None) if msg_id or correl_id else ANY
        try:
            for handle in handles:
                queue = self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
                view = queue.view(options, has_handle=False)
                request = GetRequest(match, wait_ms, max_length, view=view)
                getters[handle] = queue.getter(request, options, unit)
            if not getters:
                raise mq_error(rc.MQRC_HOBJ_ERROR, "no handle to get from")
        except MQError as error:
            return self._tell(on_done, error)
        standing = deliveries.standing_get(getters, held, on_done, on_refused)
        standing.begin()
        return standing

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        on_done: OnDone[PutResult | None],
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
    ) -> UnderWay:
        """MQPUT to a queue or a topic."""
        try:
            result, completion = self.attempt_put(
                PutTarget(handle, descriptor, options, context),
                NewMessage(
                    body, msg_id, correl_id, expiry_tenths, time_to_live_ms, delay_ms, properties
                ),
            )
        except MQError as error:
            return self._tell(on_done, error)
        return self.end_with(completion, on_done, result)

    def together(self) -> AbstractContextManager[object]:
        """Let puts travel together: they do not travel here."""
        return nullcontext()

    def attempt_put(
        self, target: PutTarget, message: NewMessage
    ) -> tuple[PutResult | None, Completion]:
        """MQPUT as far as it goes without the disk; raises what is wrong with it.

        Hand what it has left to :meth:`end_with`, unless that is empty: the put is over then.
        """
        self._core.background.check_room()
        handle, descriptor, options, context = target
        body, msg_id, correl_id, expiry_tenths, time_to_live_ms, delay_ms, properties = message
        opened = self._objects.find(handle)
        if not isinstance(opened, (Handle, TopicHandle)):
            raise mq_error(rc.MQRC_NOT_OPEN_FOR_OUTPUT, f"handle {handle} is no queue")
        if time_to_live_ms is not None:
            check_life_ms(time_to_live_ms)
        if expiry_tenths != c.MQEI_UNLIMITED:
            refuses_zero = self._core.settings.is_zero_refused
            time_to_live_ms = life_ms_of_expiry(expiry_tenths, refuse_zero=refuses_zero)
        if properties:
            descriptor, body = with_properties(self._core, descriptor, body, properties)
        request = PutRequest(descriptor, msg_id, correl_id, time_to_live_ms, delay_ms)
        completion = Completion()
        result: PutResult | None
        if options & c.MQPMO_ASYNC_RESPONSE and isinstance(opened, Handle):
            result = opened.put_async(body, request, options, context, completion=completion)
        else:
            result = opened.put(body, request, options, context, completion=completion)
        return result, completion

    def fetch(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[GetResult],
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
    ) -> UnderWay:
        """MQGET for good, or into the unit of work."""
        try:
            standing = self.prepare_fetch(
                handle,
                options,
                on_done=on_done,
                wait_ms=wait_ms,
                max_length=max_length,
                msg_id=msg_id,
                correl_id=correl_id,
                group_id=group_id,
                sequence_number=sequence_number,
                offset=offset,
                token=token,
                in_handle=in_handle,
                with_extension=with_extension,
            )
        except MQError as error:
            return self._tell(on_done, error)
        standing.begin()
        return standing

    def prepare_fetch(
        self,
        handle: int,
        options: int,
        *,
        on_done: OnDone[GetResult],
        wait_ms: int,
        max_length: int | None,
        msg_id: bytes,
        correl_id: bytes,
        group_id: bytes,
        sequence_number: int | None,
        offset: int | None,
        token: bytes | None,
        in_handle: bool,
        with_extension: bool,
    ) -> StandingGet:
        """Return the get of :meth:`fetch`, which has not begun; raises what is wrong with it."""
        queue = self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        ids = msg_id or None, correl_id or None, group_id or None
        match = Match(*ids, sequence_number, offset, token=token)
        if match == ANY:
            match = ANY
        view = queue.view(options, has_handle=in_handle)
        request = GetRequest(match, wait_ms, max_length, view=view, extends=with_extension)
        return queue.begin_get(request, options, on_done)

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """MQCMIT."""
        completion = Completion()
        try:
            self._session.commit(completion)
        except MQError as error:
            return self._tell(on_done, error)
        return self.end_with(completion, on_done, None)

    def wait_until(self, moment_ms: int | None, *, on_done: OnDone[None]) -> UnderWay:
        """Wait for a moment."""
        return self._waits.until(moment_ms, on_done)

    def await_definitions(self, *, on_done: OnDone[None]) -> UnderWay:
        """Wait for a change of definitions."""
        return self._waits.for_definitions(on_done)

    def end(self) -> None:
        """End what still waits: the connection is being closed."""
        self._waits.end()

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
        completion = None if on_done is None else Completion()
        try:
            if within:
                self._move(deliveries, settlement, within)
            else:
                self._session.deliveries.settle(
                    deliveries,
                    settlement,
                    put_elsewhere=partial(self._put_elsewhere, settlement, reason),
                    completion=completion,
                )
        except MQError as error:
            if on_done is None:
                raise
            return self._tell(on_done, error)
        if on_done is None or completion is None:
            return _DECIDED
        return self.end_with(completion, on_done, None)

    def _move(self, deliveries: Iterable[int], settlement: Settlement, within: int) -> None:
        session = _sessions.get(within)
        if session is None or session.core is not self._core or not session.is_open:
            said = f"conversation {within} is none of {self._core.name}"
            raise mq_error(rc.MQRC_UOW_NOT_AVAILABLE, said)
        if settlement is not Settlement.TAKEN:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{settlement.value} within a unit of work")
        self._session.deliveries.move_into(session.unit_of_work, deliveries)

    def _put_elsewhere(
        self, settlement: Settlement, reason: int, unit_of_work: UnitOfWork, message: Message
    ) -> None:
        if not reason:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, "a dead letter has a reason, not 0")
        # The queue manager moves it: its user has only said that it is of no use.
        beside = self._session.beside(unit_of_work, as_manager=True)
        put = set_aside if settlement is Settlement.SET_ASIDE else put_dead_letter
        put(self._core, beside, message, reason)

    def end_with(self, completion: Completion, on_done: OnDone[_T], result: _T) -> UnderWay:
        """Tell the result when what a verb has left is durable, or why it is not."""

        def end(error: MQError | None) -> None:
            on_done(result if error is None else error)

        self._core.background.end_with(completion, end)
        return _DECIDED

    def _tell(self, on_done: OnDone[_T], error: MQError) -> UnderWay:
        self._core.background.end_with(Completion(), lambda _none: on_done(error))
        return _DECIDED


class LocalHeld:
    """Gets of deliveries that wait; see ``interface.Held``, whose methods these are."""

    def __init__(self, session: Session, objects: OpenObjects) -> None:
        """Take the session and what is open on it."""
        self._deliveries, self._objects = session.deliveries, objects

    def get(
        self, handle: int, options: int = c.MQGMO_NONE, *, wait_ms: int = c.MQWI_UNLIMITED
    ) -> Delivery:
        """MQGET of a message that is held until it is settled."""
        queue = self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        if options & (c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST):
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of what is held")
        unit = self._deliveries.new_unit()
        request = GetRequest(ANY, wait_ms, view=queue.view(options, has_handle=False))
        return self._deliveries.get(handle, queue.getter(request, options, unit), unit)

    def take(self, handle: int, options: int, most: int, most_bytes: int) -> list[Delivery]:
        """Get the messages that are there."""
        queue = self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        if options & (c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST | c.MQGMO_WAIT):
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of what is held")
        request = GetRequest(ANY, view=queue.view(options, has_handle=False))
        return self._deliveries.take(
            handle,
            request,
            lambda held: queue.getter(request, options, held),
            Room(most, most_bytes),
        )


_DECIDED = _Decided()

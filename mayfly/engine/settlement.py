"""Settlement of deliveries: messages that a session holds one by one and acknowledges separately.

A delivery is hidden, and neither expires nor is released (E15), until it is settled: acknowledged,
returned or moved. If the session ends first, it returns to its queue with its backout count raised
(G8), also after a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Final

from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.get import GetRequest, Getter, Got, obtain, take_each
from mayfly.engine.pending import PendingGet
from mayfly.engine.queue_state import Hold
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.contracts.outcomes import TerminatedBy
from mayfly.verbs.messages import Delivery, GetResult, Message, Settlement

_MOVED: Final = frozenset((Settlement.DEAD_LETTERED, Settlement.SET_ASIDE))


class Deliveries(Hold):
    """The deliveries of one session that are not settled yet, by number; no number is used twice.

    The message of a delivery is held by this object, or by a unit of work for it alone, which can
    contain its COD report.
    """

    locks = True

    def __init__(self, core: Core, terminated_by: TerminatedBy) -> None:
        """Begin with none; ``terminated_by`` is the user and program of the session."""
        self._core, self.terminated_by = core, terminated_by
        self._held: dict[int, Got] = {}
        self._numbers = count(1)
        #: Why the queue of a handle could not be got from when it was asked last.
        self._refusals: dict[int, int] = {}
        #: Whether its session is closed, or was dropped.
        self._is_ended = False

    def __len__(self) -> int:
        """Return the number of unsettled deliveries."""
        return len(self._held)

    def new_unit(self) -> UnitOfWork:
        """Return an empty unit of work for one message."""
        return UnitOfWork(self._core, self.terminated_by)

    def pending_get(
        self,
        getters: Mapping[int, Getter],
        held: UnitOfWork | None,
        on_done: Callable[[Delivery | MQError], object],
        on_refused: Callable[[int, MQError], object] | None,
    ) -> PendingGet:
        """Return a get on several handles that calls ``on_done`` with a delivery or an error.

        Nothing waits: ``begin`` of the result starts it. ``getters`` are by handle number and take
        into the unit of work ``held``. With ``held`` None the message needs no settlement, and the
        delivery has number 0. ``on_refused`` is called when a handle's queue cannot be got from,
        once for each reason; the other handles continue. With ``on_refused`` None such an error
        ends the get.
        """
        number, handle = 0, 0
        handles = list(getters)

        def take(result: GetResult, place: int) -> None:
            nonlocal number, handle
            handle = handles[place]
            if held is not None and not result.stays:
                number = next(self._numbers)
                self._held[number] = held

        def report(outcome: GetResult | MQError) -> None:
            if isinstance(outcome, MQError):
                on_done(outcome)
            else:
                on_done(Delivery(number, outcome, handle))

        def refuse(place: int, error: MQError | None) -> None:
            assert on_refused is not None
            reason, refused = 0 if error is None else error.reason, handles[place]
            if reason != self._refusals.get(refused, 0):
                self._refusals[refused] = reason
                if error is not None:
                    self._core.callbacks.waiting.append(partial(on_refused, refused, error))

        refuses = None if on_refused is None else refuse
        return PendingGet(self._core, list(getters.values()), report, take, refuses)

    def get(self, handle: int, getter: Getter, held: UnitOfWork) -> Delivery:
        """Get a message into the unit of work ``held``, perhaps waiting; return its delivery.

        ``handle`` is the number of the handle, for the delivery. A message that stays on the queue,
        as too long for the buffer, has delivery number 0. Raises the errors of ``get.get``; the
        message is on its queue again then.
        """
        try:
            result = obtain(self._core, getter)
        except BaseException:
            held.backout(counts=False)
            raise
        finally:
            getter.is_over = True
        if result.stays:
            return Delivery(0, result, handle)
        number = next(self._numbers)
        with self._core.engine_lock:
            is_ended = self._is_ended
            if not is_ended:
                self._held[number] = held
        if is_ended:
            held.backout()
            raise getter.requester.error()
        return Delivery(number, result, handle)

    def take(
        self,
        handle: int,
        request: GetRequest,
        getter_into: Callable[[UnitOfWork], Getter],
        *,
        max_messages: int,
        max_bytes: int,
        only_volatile: bool = False,
    ) -> list[Delivery]:
        """Hold up to ``max_messages`` present messages, about ``max_bytes`` of bodies; return them.

        ``handle`` is the number of the handle, for the deliveries. ``getter_into`` returns a getter
        that takes into a unit of work. The list is shorter where a selector makes a long search,
        and empty for an empty queue. With ``only_volatile`` it ends before the first persistent
        message, and is empty for a handle with a selector. Nothing waits. Expired messages are
        discarded in the background. Raises the errors of ``get.get`` if no message was taken before
        the error.
        """
        core, found = self._core, list[Delivery]()
        with core.engine_lock:
            core.check_running()
            try:
                taken = take_each(
                    core,
                    request,
                    getter_into,
                    self,
                    max_messages=max_messages,
                    max_bytes=max_bytes,
                    only_volatile=only_volatile,
                )
                for got, result in taken:
                    number = 0
                    if not result.stays:
                        number = next(self._numbers)
                        self._held[number] = got
                    found.append(Delivery(number, result, handle))
            except MQError:
                if not found:
                    raise
            is_something_left = bool(core.committer.deferred)
        if is_something_left:
            core.background.do(core.committer.run_deferred)
        return found

    def settle(
        self,
        numbers: Iterable[int],
        settlement: Settlement,
        *,
        put_elsewhere: Callable[[UnitOfWork, Message], None],
        completion: Completion | None = None,
    ) -> None:
        """Settle deliveries, all or none: acknowledge, return or move their messages.

        ``settlement`` says which. ``put_elsewhere`` puts a message that is dead-lettered or set
        aside on another queue, in a unit of work. Raises MQRC_HMSG_ERROR for a number that is not
        held, and the errors of ``put_elsewhere``; nothing changes then. On a full disk all return
        to their queue. With a ``completion``, what would wait for the disk is left there: the
        caller runs the transaction or job that the completion has then.
        """
        with self._core.engine_lock:
            taken = {number: self._held_by(number) for number in numbers}
            for number in taken:
                del self._held[number]
        parts = list(taken.values())
        if settlement in _MOVED:
            puts = self.new_unit()
            try:
                for got in parts:
                    (taken_one,) = got.taken() if isinstance(got, UnitOfWork) else [got]
                    queue, row, _persistence = taken_one
                    now_ms = self._core.now_ms()
                    put_elsewhere(puts, Message(queue.name, row, now_ms, row.body))
            except BaseException:
                puts.backout()
                self._hold_again(taken)
                raise
            parts.append(puts)
        held = self._joined(parts)
        if settlement is Settlement.TAKEN or settlement in _MOVED:
            held.commit(completion)
        elif settlement is Settlement.BACKED_OUT and completion is not None:
            completion.job = held.backout
        else:
            held.backout(counts=settlement is Settlement.BACKED_OUT)

    def move_into(self, unit_of_work: UnitOfWork, numbers: Iterable[int]) -> None:
        """Make deliveries part of a unit of work, whose commit or backout settles them.

        Raises MQRC_HMSG_ERROR for a number that is not held, and MQRC_SYNCPOINT_LIMIT_REACHED;
        nothing changes then.
        """
        with self._core.engine_lock:
            moved = {number: self._held_by(number) for number in numbers}
            unit_of_work.check_capacity(len(moved))
            for number, got in moved.items():
                del self._held[number]
                self._absorb(unit_of_work, got)

    def end(self) -> None:
        """Return the messages of all unsettled deliveries to their queues, backout counts raised.

        No delivery is held from then on.
        """
        with self._core.engine_lock:
            self._is_ended = True
            held, self._held = self._held, {}
        if held:
            self._joined(held.values()).backout()

    def _hold_again(self, taken: Mapping[int, Got]) -> None:
        """Restore deliveries whose settlement failed; back them out if the session has ended."""
        with self._core.engine_lock:
            is_ended = self._is_ended
            if not is_ended:
                self._held.update(taken)
        if is_ended:
            self._joined(taken.values()).backout()

    def _joined(self, parts: Collection[Got]) -> UnitOfWork:
        """Return one unit of work with all these messages; an only one is returned itself."""
        if len(parts) == 1:
            (only,) = parts
            if isinstance(only, UnitOfWork):
                return only
        joined = self.new_unit()
        with self._core.engine_lock:
            for got in parts:
                self._absorb(joined, got)
        return joined

    def _absorb(self, unit_of_work: UnitOfWork, got: Got) -> None:
        """Move a held message, or the messages of a unit of work, into a unit of work."""
        if isinstance(got, UnitOfWork):
            unit_of_work.absorb(got)
        else:
            unit_of_work.take_over(got, self)

    def _held_by(self, number: int) -> Got:
        """Return the message or unit of work of a delivery.

        Raises MQRC_HMSG_ERROR for an unknown number.
        """
        got = self._held.get(number)
        if got is None:
            raise mq_error(rc.MQRC_HMSG_ERROR, f"delivery {number} is not held here")
        return got

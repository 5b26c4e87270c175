"""Unit of work (syncpoint): the puts and gets of a session that are not committed yet."""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.expiry import discard_late
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import Found, LocalQueue, QueueOwner
from mayfly.engine.state import ensure_running, now_ms_of
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, TerminatedBy

_LOG = logging.getLogger("mayfly")


class UncommittedPut(NamedTuple):
    """A message that a unit of work has put and not committed; it is in memory only."""

    queue: LocalQueue
    row: StoredMessage
    persistent: bool


class UnitOfWork(Hold):
    """The puts and gets of one session that are not committed yet."""

    locks = True

    def __init__(
        self, core: Core, terminated_by: TerminatedBy = NOBODY, *, is_part: bool = False
    ) -> None:
        """Begin an empty unit of work.

        ``terminated_by`` is its user and program for the ledger. ``is_part`` is True for the part
        on another member of a queue-sharing group: MAXUMSGS does not limit a part.
        """
        self._core, self.terminated_by = core, terminated_by
        self._is_part = is_part
        self._puts: dict[int, tuple[LocalQueue, StoredMessage, bool]] = {}
        #: The keys of the puts by the number of their queue, in order.
        self._keys: dict[int, list[int]] = {}
        self._takes: list[Found] = []
        self._through: list[UncommittedPut] = []
        #: Puts that the commit under way has found expired (E17).
        self._late: list[tuple[LocalQueue, StoredMessage]] = []
        #: Delayed messages that get another delivery time, and their rows with it.
        self._rescheduled: list[tuple[Found, StoredMessage]] = []
        self._statements: list[tuple[str, tuple[Any, ...]]] = []
        self._effects: list[Callable[[], Transaction | None]] = []
        #: Functions that a backout calls beside giving messages back, by their owner.
        self._undo: dict[object, Callable[[], None]] = {}
        self._operation_count = 0
        #: When the first message was put or got, None for an empty one.
        self.began_ms: int | None = None
        #: Why an asynchronous put in it has put nothing: it cannot be committed then (P13).
        self.failure: MQError | None = None
        #: Its session is closed, perhaps by another thread; set under the lock.
        self.is_ended = False
        #: Its parts on queues of other members of a queue-sharing group, by member.
        self._parts: dict[QueueOwner, UnitOfWork] = {}

    def at(self, queue_owner: QueueOwner) -> UnitOfWork:
        """Return the part of this unit of work for another member of the queue-sharing group.

        The first call for a member creates its part.
        """
        part = self._parts.get(queue_owner)
        if part is None:
            assert isinstance(queue_owner, Core)
            part = self._parts[queue_owner] = UnitOfWork(
                queue_owner, self.terminated_by, is_part=True
            )
        part.is_ended = self.is_ended
        return part

    @property
    def is_empty(self) -> bool:
        """True when the unit of work has nothing to commit or back out, also in its parts."""
        if self._parts and not all(part.is_empty for part in self._parts.values()):
            return False
        return self._is_empty_here()

    def _is_empty_here(self) -> bool:
        """Return True if the unit of work is empty, apart from its parts on other group members."""
        return not (
            self._puts
            or self._takes
            or self._through
            or self._rescheduled
            or self._statements
            or self._effects
        )

    def put(self, queue: LocalQueue, row: StoredMessage, *, persistent: bool) -> None:
        """Add a put, and count it on the queue; it becomes visible at the commit.

        A delayed message reaches the staging queue, and its depth, only at the commit (D12). Raises
        the errors of :meth:`check_capacity`. Needs the engine lock.
        """
        self.check_capacity()
        if self.began_ms is None:
            self.began_ms = row.put_ms
        if queue.owner is not self._core:
            self.at(queue.owner).put(queue, row, persistent=persistent)
            return
        queue_state.reserve_in_unit(queue)
        # As _add does, without a call: every put comes here.
        self._puts[row.k] = (queue, row, persistent)
        insort(self._keys.setdefault(queue.number, []), row.k)
        self._operation_count += 1

    def publish(
        self,
        transaction: Transaction,
        staged: list[UncommittedPut],
        effects: list[Callable[[], Transaction | None]],
    ) -> None:
        """Add the copies of one publication, which count as one operation.

        ``transaction`` has the copies that can be got at once, ``staged`` the delayed ones; the
        queues count both already (D12). ``effects`` are called when the commit takes effect; a
        transaction that one of them returns is run then.
        """
        if self.began_ms is None:
            self.began_ms = self._core.now_ms()
        self.adopt(transaction)
        for queue, row, persistence in staged:
            self._add(queue, row, persistence)
        self._effects.extend(effects)
        self._operation_count += 1

    def adopt(self, transaction: Transaction) -> None:
        """Take over the puts of a transaction, such as reports.

        The transaction must not be run any more.
        """
        for queue, row, persistence in transaction.arrivals:
            # It is reserved already.
            self._add(queue, row, bool(persistence))
        for queue_owner, part in transaction.parts.items():
            self.at(queue_owner).adopt(part)

    def take(self, queue: LocalQueue, row: StoredMessage, persistence: int, now_ms: int) -> None:
        """Add the get of a committed message, which no other program sees until commit or backout.

        A persistent one is noted on disk, so that its backout is counted after a kill. Needs the
        engine lock.
        """
        if self.began_ms is None:
            self.began_ms = now_ms
        if queue.owner is not self._core:
            self.at(queue.owner).take(queue, row, persistence, now_ms)
            return
        taken = queue, row, persistence
        queue_state.hold_got(taken, self)
        if self._core.on_departure:
            # Backed out, it comes back unmarked.
            self._core.note_departure((row.k,))
        self._takes.append(taken)
        self._operation_count += 1

    def take_all(self, found: Sequence[Found], now_ms: int) -> None:
        """Add gets of committed messages of one queue; ``found`` is not empty."""
        if self.began_ms is None:
            self.began_ms = now_ms
        queue_owner, core = found[0][0].owner, self._core
        if queue_owner is not core:
            self.at(queue_owner).take_all(found, now_ms)
            return
        queue_state.hold_gets(found, self)
        if core.on_departure:
            # Backed out, they come back unmarked.
            core.note_departure([row.k for _queue, row, _persistence in found])
        self._takes += found
        self._operation_count += len(found)

    def take_over(self, taken: Found, by: Hold) -> None:
        """Take over a message that the hold ``by`` has, as got by this unit of work.

        The message must not ask for a COD report: none is sent. Needs the engine lock.
        """
        assert self._core.engine_lock.is_held()
        if self.began_ms is None:
            self.began_ms = self._core.now_ms()
        queue_state.transfer_hold(taken, by, self)
        self._takes.append(taken)
        self._operation_count += 1

    def absorb(self, held: UnitOfWork) -> None:
        """Take over all gets and their reports from another unit of work, which is then empty.

        Needs the engine lock.
        """
        assert self._core.engine_lock.is_held()
        for taken in held._takes:
            queue_state.transfer_hold(taken, held, self)
        self._takes += held._takes
        if self.began_ms is None:
            self.began_ms = held.began_ms
        for put in held._puts.values():
            self._add(*put)
        self._operation_count += held._operation_count
        for queue_owner, part in held._parts.items():
            self.at(queue_owner).absorb(part)
        held._clear()

    def reschedule(self, taken: Found, row: StoredMessage) -> None:
        """Add a new delivery time for a committed delayed message, which is hidden from now on.

        ``row`` is the message with the new time and key. Needs the engine lock.
        """
        if self.began_ms is None:
            self.began_ms = self._core.now_ms()
        queue_state.hold(taken, self)
        queue_state.reserve_in_unit(taken[0])
        self._rescheduled.append((taken, row))
        self._operation_count += 1

    def on_backout(self, owner: object, undo: Callable[[], None]) -> None:
        """Register ``undo`` to be called at a backout or failed commit of this unit of work.

        ``owner`` is any object; of several functions of one owner only the first is kept.
        """
        self._undo.setdefault(owner, undo)

    def on_commit(self, effect: Callable[[], None]) -> None:
        """Register ``effect`` to be called, under the engine lock, when the commit takes effect."""
        self._effects.append(effect)

    def note(self, sql: str, bindings: tuple[Any, ...]) -> None:
        """Add an SQL statement for the store, with the values of its parameters.

        It is run in the transaction of the commit.
        """
        self._statements.append((sql, bindings))

    @property
    def has_puts(self) -> bool:
        """True if the unit of work may have an uncommitted put that it has not got again."""
        return bool(self._puts or self._parts)

    def own_puts(self, queue: LocalQueue) -> Iterator[UncommittedPut]:
        """Yield the uncommitted puts on a queue in get order (P9); none for the staging queue."""
        if queue.owner is not self._core:
            yield from self.at(queue.owner).own_puts(queue)
        elif not queue.is_staging:
            for key in self._keys.get(queue.number, ()):
                yield UncommittedPut(*self._puts[key])

    def take_own(self, pending: UncommittedPut) -> None:
        """Get a message that this unit of work has put, as "put and got".

        Nothing reaches the queue.
        Needs the engine lock.
        """
        if pending.queue.owner is not self._core:
            self.at(pending.queue.owner).take_own(pending)
            return
        del self._puts[pending.row.k]
        keys = self._keys[pending.queue.number]
        del keys[bisect_left(keys, pending.row.k)]
        queue_state.get_uncommitted(pending.queue)
        self._through.append(pending)
        self._operation_count += 1

    def check_capacity(self, operation_count: int = 1) -> int:
        """Return how many more operations MAXUMSGS of the session's queue manager allows.

        Raises MQRC_SYNCPOINT_LIMIT_REACHED if these are fewer than ``operation_count``, and
        MQRC_HCONN_ERROR once the session is closed. A part on another group member has no limit.
        """
        if self.is_ended:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the session was closed")
        if self._is_part:
            return operation_count
        limit = self._core.registry.queue_manager.maxumsgs
        done_count = self._operation_count
        if self._parts:
            done_count += sum(part._operation_count for part in self._parts.values())
        if done_count + operation_count > limit:
            raise mq_error(rc.MQRC_SYNCPOINT_LIMIT_REACHED, f"MAXUMSGS is {limit}")
        return limit - done_count

    def commit(self, completion: Completion | None = None) -> None:
        """Make its puts visible and its gets final, durably and together; nothing if it is empty.

        A put that has expired meanwhile reaches no queue: the commit discards it and sends the
        report that it asks for (E17).

        Raises MQRC_STORAGE_MEDIUM_FULL when everything was undone, without raised backout counts,
        and MQRC_CONNECTION_BROKEN when the outcome is unknown. After a failed asynchronous put it
        backs out and raises MQRC_BACKED_OUT (P13). With a ``completion`` nothing is durable on
        return: the caller runs the transaction that the completion has then.
        """
        core = self._core
        if self.failure is not None:
            text = f"an asynchronous put has failed: {self.failure}"
            self.backout()
            raise mq_error(rc.MQRC_BACKED_OUT, text)
        if self.is_empty:
            return
        with core.engine_lock:
            ensure_running(core)
            committed = [(self, self._locked())]
            transaction, late = self._build_transaction(), self._late
            self._clear()
            for queue_owner, part in self._parts.items():
                if part.is_empty:
                    continue
                committed.append((part, part._locked()))
                transaction.parts = {**transaction.parts, queue_owner: part._build_transaction()}
                late += part._late
                part._clear()
            if late:
                discard_late(core, transaction, late, core.now_ms(), self.terminated_by)
        undo, self._undo = self._undo, {}
        if completion is not None:
            completion.transaction, completion.finish = (
                transaction,
                partial(self._end_commit, committed, undo),
            )
            return
        try:
            core.committer.run(transaction)
        except BaseException as error:
            self._end_commit(committed, undo, error)
            raise
        self._end_commit(committed, undo, None)

    def _end_commit(
        self,
        committed: list[tuple[UnitOfWork, list[Found]]],
        undo: dict[object, Callable[[], None]],
        error: BaseException | None,
    ) -> None:
        """Finish a commit in memory: forget the notes on disk about its gets.

        ``committed`` are the unit of work and its parts, each with the messages it has got.
        ``error`` is that of the transaction, None without; after an MQError the functions in
        ``undo`` run first.
        """
        if isinstance(error, MQError):
            for each in undo.values():
                each()
        with self._core.engine_lock:
            for part, takes in committed:
                part._settle_held_gets(takes)

    def backout(self, *, counts: bool = True) -> None:
        """Withdraw its puts and return its gets to their queue, backout counts raised (G8).

        On a full disk the counts stay unchanged. A message whose queue has a BODELAY can be got
        again only after that delay (D32). With ``counts`` False nothing was tried: the counts stay,
        and there is no delay.
        """
        self.failure = None
        undo, self._undo = self._undo, {}
        for each in undo.values():
            each()
        with ExitStack() as backouts:
            # If one store fails, the others still give back.
            backouts.callback(self._backout_here, counts=counts)
            for part in self._parts.values():
                backouts.callback(part.backout, counts=counts)

    def _backout_here(self, *, counts: bool) -> None:
        """Back out without the parts on other members of the queue-sharing group.

        With ``counts`` the backout counts are raised, and BODELAY counts.
        """
        core = self._core
        if self._is_empty_here():
            return
        with core.engine_lock:
            takes = self._takes
            rescheduled = [taken for taken, _row in self._rescheduled]
            for queue, _row, _persistence in (*self._puts.values(), *rescheduled):
                queue_state.withdraw_from_unit(queue)
            for pending in self._through:
                queue_state.withdraw_put_and_got(pending.queue)
            self._clear()
            transaction = Transaction()
            unit = transaction.unit
            for _queue, row, persistence in takes:
                backouts = unit.backouts if persistence else unit.volatile_backouts
                backouts.append((row.k,))
        try:
            if takes and counts and not core.is_stopped:
                core.committer.run(transaction)
        except MQError as error:
            if error.reason != rc.MQRC_STORAGE_MEDIUM_FULL:
                raise
            _LOG.error("backout counts on %s stay as they were: %s", core.name, error)
        finally:
            self._give_back([*takes, *rescheduled], counts=counts)

    def _locked(self) -> list[Found]:
        """Return the committed messages that stay locked until the commit is over."""
        return [*self._takes, *(taken for taken, _row in self._rescheduled)]

    def _settle_held_gets(self, takes: list[Found]) -> None:
        """Delete the notes on disk that this unit of work holds these messages."""
        self._core.store.held_gets.settle([row.k for _queue, row, _persistence in takes])

    def _give_back(self, takes: list[Found], *, counts: bool) -> None:
        """Make got messages visible again and offer them to waiting gets.

        With ``counts`` their backout counts were raised, and the redelivery of those whose queue
        has a BODELAY is delayed instead; the note on disk of such a get stays, so that a restart
        delays it again.
        """
        core = self._core
        with core.engine_lock:
            if core.is_closing:
                # Another thread closes the queue manager, and has ended what a restart loses.
                takes = [taken for taken in takes if queue_state.is_held(taken, self)]
            back: list[Found] = []
            for taken in takes:
                queue = taken[0]
                if counts and queue.definition.bodelay and not queue.is_staging:
                    core.redeliveries.delay(taken, self, core.now_ms())
                else:
                    queue_state.give_back(taken, self)
                    back.append(taken)
            self._settle_held_gets(back)
            core.committer.offer([(queue, row.k) for queue, row, _persistence in back])
        core.committer.run_deferred()

    def _build_transaction(self) -> Transaction:
        """Return the transaction of the commit, without parts.

        Expired puts go to ``_late`` instead.
        """
        core, transaction, terminated_by = self._core, Transaction(), self.terminated_by
        now_ms = now_ms_of(core)
        in_time: list[tuple[LocalQueue, StoredMessage, bool]] = []
        for put in self._puts.values():
            queue, row, _persistent = put
            if queue.is_staging:
                queue_state.reserve_staged(queue)
            elif row.expire_at_ms is not None and is_expired(row.expire_at_ms, now_ms):
                self._late.append((queue, row))
                continue
            in_time.append(put)
        queue_state.add_all_reserved(core, transaction, in_time)
        for pending in self._through:
            queue_state.end_put_and_got(
                transaction, pending.queue, pending.row, now_ms, terminated_by
            )
        for queue, takes in groupby(self._takes, itemgetter(0)):
            event = Event.CANCEL if queue.is_staging else Event.COMMIT
            queue_state.end_all(
                core, transaction, [*takes], event, now_ms, terminated_by=terminated_by, by=self
            )
        for taken, row in self._rescheduled:
            queue_state.withdraw_from_unit(taken[0])
            queue_state.reschedule(transaction, taken, row, by=self)
        transaction.unit.statements.extend(self._statements)
        transaction.effects.extend(self._effects)
        return transaction

    # Contents, for lists of messages and searches for one

    def parts(self) -> list[UnitOfWork]:
        """Return this unit of work and its parts on other members of the queue-sharing group."""
        return [self, *self._parts.values()]

    def open_puts(self) -> Iterator[tuple[UncommittedPut, bool]]:
        """Yield each uncommitted put, and True if this unit of work has got it again (P9).

        Needs the engine lock.
        """
        assert self._core.engine_lock.is_held()
        for part in self.parts():
            yield from ((UncommittedPut(*put), False) for put in part._puts.values())
            yield from ((pending, True) for pending in part._through)

    def has_taken(self, key: int) -> bool:
        """Return True if this unit of work has got the delayed message with this key.

        A message that it has only rescheduled does not count.
        """
        return any(row.k == key for _queue, row, _persistence in self._takes)

    def taken(self) -> list[Found]:
        """Return the committed messages that it has got, on all members of the group."""
        return [taken for part in self.parts() for taken in part._takes]

    def _add(self, queue: LocalQueue, row: StoredMessage, is_persistent: bool) -> None:
        """Add a put that its queue counts already, in the order of gets."""
        self._puts[row.k] = queue, row, is_persistent
        insort(self._keys.setdefault(queue.number, []), row.k)

    def _clear(self) -> None:
        """Make the unit of work empty in memory, apart from its parts."""
        self._puts, self._keys, self._takes, self._through = {}, {}, [], []
        self._rescheduled, self._statements, self._effects, self._late = [], [], [], []
        self._operation_count = 0
        self.began_ms = None

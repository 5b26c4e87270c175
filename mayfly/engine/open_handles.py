"""Open handles of a session: their options and counters on the queues, and their close.

This module has no reference to the session or a Handle, so that a dropped session can be collected.
"""

from __future__ import annotations

import logging
from itertools import count
from typing import NamedTuple

from mayfly.engine.browse import marks_of
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import drop_dynamic_queue
from mayfly.engine.pubsub.administration import drop_doomed, forget_subscription
from mayfly.engine.pubsub.topics import Subscription, SubscriptionHandle
from mayfly.engine.put import AsyncPuts
from mayfly.engine.queues import LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.state import end_all
from mayfly.engine.triggering import triggering_of
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.contracts.outcomes import NOBODY
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly")
_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE
#: The kind of an open handle that is one of a queue.
QUEUE = "QUEUE"
_LARGEST_NUMBER = 2**31 - 1
_numbers = count()


class OpenQueue:
    """One open handle of a queue, as the queue counts it: its options and its requester."""

    __slots__ = (
        "is_input",
        "is_open",
        "is_output",
        "number",
        "options",
        "owns_queue",
        "queue",
        "requester",
        "saved",
    )

    def __init__(
        self, requester: Requester, queue: LocalQueue, options: int, *, owns_queue: bool
    ) -> None:
        """Begin open; ``owns_queue`` is True when the open has made a dynamic queue."""
        self.queue = queue
        self.options = options
        self.owns_queue = owns_queue
        self.requester = requester
        self.is_open = True
        self.is_input = bool(options & _INPUT)
        self.is_output = bool(options & c.MQOO_OUTPUT)
        #: MQHOBJ, by which PMO.Context names it.
        self.number = _next_number()
        #: With MQOO_SAVE_ALL_CONTEXT: the message got last, None when it has browsed since.
        self.saved: Message | None = None

    @property
    def takes_queue_along(self) -> bool:
        """True if its close deletes the queue: a temporary dynamic queue of this handle."""
        kind = self.queue.definition.definition_type
        return self.owns_queue and kind == c.MQQDT_TEMPORARY_DYNAMIC


class OpenObject:
    """One open handle of a topic, a process or the queue manager; it only counts for MAXHANDS."""

    __slots__ = ("is_open", "kind", "name", "number", "options")

    def __init__(self, kind: str, name: str, options: int) -> None:
        """Begin open; ``kind`` is TOPIC, PROCESS or QMGR, ``name`` of a topic its topic string."""
        self.kind, self.name = kind, name
        self.options = options
        self.is_open = True
        #: MQHOBJ; it saves no context.
        self.number = _next_number()


class HandleView(NamedTuple):
    """An open handle for display: QUEUE, TOPIC, PROCESS or QMGR, object name, MQOO options."""

    kind: str
    name: str
    options: int


class OpenQueues:
    """All open handles and subscriptions of one session.

    ``open`` and ``close`` are for queues, ``open_object`` and ``close_object`` for other objects.
    ``hold`` and ``leave`` open and close a subscription.
    """

    def __init__(self, core: Core, unit_of_work: UnitOfWork) -> None:
        """Begin without open handles; ``unit_of_work`` is that of the session."""
        self._core = self.core = core
        self._unit_of_work = unit_of_work
        self._all: set[OpenQueue] = set()
        self._objects: set[OpenObject] = set()
        self._holds: set[SubscriptionHandle] = set()
        #: The outcome of asynchronous puts.
        self.async_puts = AsyncPuts(core)
        #: Sessions of one connection have the same one: publications of either are its own.
        self.connection: object = self
        #: The requester of gets without a handle.
        self.requester = Requester(core, unit_of_work.terminated_by)

    def __len__(self) -> int:
        """Return the number of open handles."""
        return len(self._all) + len(self._objects)

    def views(self) -> list[HandleView]:
        """Return the open handles for display, queues first; needs the engine lock."""
        assert self._core.engine_lock.is_held()
        queues = [HandleView(QUEUE, opened.queue.name, opened.options) for opened in self._all]
        return queues + [HandleView(each.kind, each.name, each.options) for each in self._objects]

    def held_subscriptions(self) -> frozenset[str]:
        """Return the ids (SUBID, hexadecimal) of the open subscriptions; needs the engine lock."""
        assert self._core.engine_lock.is_held()
        return frozenset(hold.subscription.sub_id.hex().upper() for hold in self._holds)

    def __contains__(self, opened: object) -> bool:
        """Return True if an open handle of a queue is one of this session."""
        return opened in self._all

    def open(self, queue: LocalQueue, options: int, *, owns_queue: bool) -> OpenQueue:
        """Open a queue for a handle, and count it in the queue's input and output counts.

        ``owns_queue`` is True when the open has created a dynamic queue. Needs the engine lock.
        Raises MQRC_OBJECT_IN_USE for exclusive input (C4).
        """
        assert self._core.engine_lock.is_held()
        requester = Requester(self._core, self.requester.terminated_by)
        opened = OpenQueue(requester, queue, options, owns_queue=owns_queue)
        if opened.is_input:
            _open_input(opened)
            if queue.input_count == 1:
                triggering_of(self._core).input_opened(queue)
        queue.output_count += opened.is_output
        if options & c.MQOO_CO_OP:
            marks_of(queue).join(queue)
        self._all.add(opened)
        return opened

    def close(self, opened: OpenQueue, options: int = c.MQCO_NONE) -> None:
        """Close a handle of a queue; ``options`` (MQCO_*) may delete a permanent dynamic queue.

        A temporary dynamic queue that this handle has created is deleted with its messages. Waiting
        gets of the handle end with MQRC_HOBJ_ERROR. The handle stays open on an error:
        MQRC_OPTIONS_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE, MQRC_Q_NOT_EMPTY.
        """
        if opened.takes_queue_along:
            # First: otherwise their error would be that the queue was deleted.
            self._end_waits(opened)
        try:
            queue, terminated_by = opened.queue, opened.requester.terminated_by
            drop_dynamic_queue(
                self._core, queue, options, terminated_by, is_owner=opened.owns_queue
            )
        except MQError:
            with self._core.engine_lock:
                if not self.requester.is_ended:
                    opened.requester.resume()
            raise
        self._finish_close(opened)
        self._core.committer.run_deferred()
        if opened.queue in self._core.registry.subscriptions.doomed:
            # A managed queue whose subscription is gone goes with its last user.
            drop_doomed(self._core, waits=False)

    def saved_message(self, number: int) -> Message:
        """Return the message whose context the handle with this number has saved (P6).

        Raises MQRC_CONTEXT_HANDLE_ERROR for a handle of another session or without
        MQOO_SAVE_ALL_CONTEXT, and MQRC_CONTEXT_NOT_AVAILABLE when its last verb got no message.
        """
        with self._core.engine_lock:
            source = next((opened for opened in self._all if opened.number == number), None)
        if source is None or not source.options & c.MQOO_SAVE_ALL_CONTEXT:
            text = f"Context {number} is no open handle of this connection that saves context"
            raise mq_error(rc.MQRC_CONTEXT_HANDLE_ERROR, text)
        if source.saved is None:
            text = f"the handle of {source.queue.name} got no message by its last get or browse"
            raise mq_error(rc.MQRC_CONTEXT_NOT_AVAILABLE, text)
        return source.saved

    def check_capacity(self) -> None:
        """Raise MQRC_HANDLE_NOT_AVAILABLE when MAXHANDS handles are open."""
        limit = self._core.registry.queue_manager.maxhands
        if len(self) >= limit:
            raise mq_error(rc.MQRC_HANDLE_NOT_AVAILABLE, f"MAXHANDS is {limit}")

    def open_object(self, kind: str, name: str, options: int) -> OpenObject:
        """Open a topic, process or the queue manager, and return its handle.

        ``name`` is the object name, of a topic its topic string. Raises MQRC_HANDLE_NOT_AVAILABLE
        (MAXHANDS), and MQRC_HCONN_ERROR after a close of the session.
        """
        with self._core.engine_lock:
            self.check_capacity()
            if self.requester.is_ended:
                raise self.requester.error()
            opened = OpenObject(kind, name, options)
            self._objects.add(opened)
            return opened

    def close_object(self, opened: OpenObject) -> None:
        """Close a handle of a topic, process or the queue manager; a second call does nothing."""
        with self._core.engine_lock:
            opened.is_open = False
            self._objects.discard(opened)

    def hold(self, subscription: Subscription) -> SubscriptionHandle:
        """Open a subscription, and return its handle.

        Raises MQRC_NO_SUBSCRIPTION if it was removed, MQRC_SUBSCRIPTION_IN_USE if it is open and
        not shared.
        """
        with self._core.engine_lock:
            if self._core.registry.subscriptions.by_id(subscription.sub_id) is None:
                raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{subscription!r} is gone")
            if subscription.holds and not subscription.is_shared:
                raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} is open elsewhere")
            hold = SubscriptionHandle(subscription, self.connection)
            subscription.holds.add(hold)
            subscription.last_open_ms = self._core.now_ms()
            self._holds.add(hold)
            return hold

    def leave(self, hold: SubscriptionHandle) -> None:
        """Close a handle of a subscription; a non-durable one is removed with its last handle.

        ``drop_doomed`` deletes its managed queue later. A second call does nothing.
        """
        with self._core.engine_lock:
            self._holds.discard(hold)
            subscription = hold.subscription
            if hold in subscription.holds:
                subscription.holds.discard(hold)
                if not (subscription.is_durable or subscription.holds):
                    forget_subscription(self._core, subscription)

    def end_waits(self, error: MQError, *, is_backed_out: bool) -> None:
        """Refuse further gets of the session, and end its waiting ones with this error.

        ``is_backed_out`` says that messages got in the unit of work return to their queues.
        """
        with self._core.engine_lock:
            self._unit_of_work.is_ended = True
            for requester in (self.requester, *(opened.requester for opened in self._all)):
                requester.end(error.reason, error.detail, is_backed_out=is_backed_out)

    def close_all(self) -> None:
        """Close all handles and subscriptions; an error of one is logged and stops nothing."""
        for opened_object in list(self._objects):
            self.close_object(opened_object)
        self._end_subscriptions()
        for opened in list(self._all):
            try:
                self.close(opened)
            except MQError as error:
                # A temporary queue that another's unit of work holds, or a full disk.
                _LOG.error("closing %s: %s", opened.queue.name, error)
                self._finish_close(opened)
                self._core.committer.run_deferred()
        drop_doomed(self._core)

    def abandon(self) -> None:
        """Back out a session that was dropped without a close, and close all its handles (G9).

        Temporary queues are left to :func:`drop_ownerless`, because the calling thread may hold
        a lock for which a delete waits.
        """
        try:
            self._unit_of_work.backout()
        finally:
            self._end_subscriptions()
            for opened in list(self._all):
                if opened.takes_queue_along:
                    self._core.left_behind.queues.append(opened.queue)
                self._finish_close(opened)

    def _end_subscriptions(self) -> None:
        """Close all subscription handles of the session."""
        with self._core.engine_lock:
            for hold in list(self._holds):
                self.leave(hold)

    def _end_waits(self, opened: OpenQueue) -> None:
        """End the waiting gets of one handle with MQRC_HOBJ_ERROR."""
        with self._core.engine_lock:
            opened.requester.end(
                rc.MQRC_HOBJ_ERROR, f"the handle of {opened.queue.name} was closed"
            )

    def _finish_close(self, opened: OpenQueue) -> None:
        """Release the browse lock, the marks and the input and output counts of a handle.

        A second call does nothing more.
        """
        queue = opened.queue
        with self._core.engine_lock:
            self._end_waits(opened)
            opened.is_open = False
            opened.requester.release_lock()
            # The close of the queue manager and that of the session may run at once.
            if opened in self._all:
                self._all.discard(opened)
                co_operates = bool(opened.options & c.MQOO_CO_OP)
                marks = marks_of(queue)
                marks.leave(queue, opened.requester, co_operates=co_operates)
                queue.input_count -= opened.is_input
                queue.output_count -= opened.is_output
                if queue.exclusive_holder is opened:
                    queue.exclusive_holder = None
                if opened.is_input and not queue.input_count:
                    triggering_of(self._core).input_closed(queue)


def begin_verb(core: Core) -> None:
    """Raise the error that forbids every verb, and end objects that programs have dropped unclosed.

    Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING. Call it without locks.
    """
    # Before any lock: in a forked child a lock may be held by a thread that is not there. As
    # ensure_running does, without a call: every verb comes here.
    if core.is_stopped or core.is_closing or core.store.group.is_broken:
        core.check_running()
    left = core.left_behind
    if left.sessions or left.objects or left.queues:
        drop_ownerless(core)


def drop_ownerless(core: Core) -> None:
    """Close objects that programs have dropped unclosed, and delete their temporary queues.

    A queue that cannot be deleted is logged. Call it without locks.
    """
    end_all(core.left_behind.objects)
    core.committer.run_deferred()
    while (queue := _next_ownerless(core)) is not None:
        try:
            drop_dynamic_queue(core, queue, c.MQCO_NONE, NOBODY, is_owner=True)
        except MQError as error:
            # Another's unit of work holds it, or a full disk.
            _LOG.error("closing %s: %s", queue.name, error)
    drop_doomed(core)


def _next_ownerless(core: Core) -> LocalQueue | None:
    """Remove and return a temporary queue that a dropped session has left; None without one."""
    with core.engine_lock:
        return core.left_behind.queues.pop() if core.left_behind.queues else None


def _next_number() -> int:
    """Return the next number for a handle, MQHOBJ: 1 to 2147483647, then from 1 again."""
    return next(_numbers) % _LARGEST_NUMBER + 1


def _open_input(opened: OpenQueue) -> None:
    """Count a handle for input.

    Raises MQRC_OBJECT_IN_USE when this handle or an open one is exclusive and the other is open for
    input (C4).
    """
    queue, inputs = opened.queue, opened.options & _INPUT
    if inputs == c.MQOO_INPUT_AS_Q_DEF:
        inputs = queue.definition.defsopt
    exclusive = inputs == c.MQOO_INPUT_EXCLUSIVE or queue.definition.share == c.MQQA_NOT_SHAREABLE
    if queue.exclusive_holder is not None or (exclusive and queue.input_count):
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{queue.name} is open for input elsewhere")
    queue.input_count += 1
    if exclusive:
        queue.exclusive_holder = opened

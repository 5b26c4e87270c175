"""Manager: a queue manager of MQ Everyplace, with verbs on its queues, in memory or in a folder.

Requests of other queue managers arrive over a link and are carried out here. A request may arrive
twice, or late. The number of its exchange then shows that it is finished, and nothing is changed. A
trickle transmits and pulls at an interval, without a call of the application.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from mayfly.lifetime.everyplace import (
    LONG_RANGE,
    Timepiece,
    driver_of,
    is_interval_ms,
    next_trickle_ms,
)
from mayfly.mqi import reasons as rc
from mayfly.runtime import Runtime
from mayfly.services.everyplace.definitions import (
    QueueDefinitions,
    activated,
    check_confirm_id,
    checked_name,
    read_era,
    restore,
)
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import (
    MessageFields,
    MessageUid,
    check_message,
    check_uid,
    checked_clock,
)
from mayfly.services.everyplace.journal import (
    OF_THIS_PROCESS,
    Closed,
    Journal,
    VerbGate,
    VerbLock,
    checked_folder,
    new_era,
    verb,
)
from mayfly.services.everyplace.links import Exchange, Link, Peers
from mayfly.services.everyplace.queues import (
    Admit,
    AsynchronousQueue,
    DeleteQueue,
    HoldMessage,
    HomeServerQueue,
    Listener,
    Offer,
    OwnerContext,
    QueueAttributes,
    QueueCall,
    Stored,
    SynchronousQueue,
    Withdraw,
    check_listener,
    duplicate,
)
from mayfly.services.everyplace.rules import QueueRule, check_rule, consult

_LOG = logging.getLogger("mayfly.everyplace")


class EveryplaceQueueManager:
    """A queue manager of MQ Everyplace: queues by name, and links to other queue managers.

    ``queue_manager`` None means a local queue, else the only remote queue of that name. The name of
    another queue manager means the remote queue that is defined here. If none is defined, the call
    is sent over the link at once. A call that raises EveryplaceError has changed nothing. Only one
    thread at a time may use it, apart from its trickle.
    """

    def __init__(
        self,
        name: str,
        clock: Timepiece | None = None,
        folder: str | Path | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        """Begin empty in memory, or with the content of ``folder``, which is created when missing.

        ``clock`` None is the clock of this machine. Queues read from a folder are not active (M8);
        a queue that had a rule waits for ``set_rule``. ``runtime`` supplies thread waits and random
        numbers, None those of this process; linked queue managers need the same one. Raises
        EveryplaceError for a wrong argument, StoreError for a folder that cannot be used,
        StoreDamaged for wrong content, and FolderInUse when another process or queue manager uses
        it.
        """
        self.name = checked_name("queue manager", name)
        self.clock = checked_clock(clock)
        runtime = OF_THIS_PROCESS if runtime is None else runtime
        self.journal = None if folder is None else Journal(checked_folder(folder), name, runtime)
        self.verb_lock = VerbLock(runtime)
        self._verb_gate = VerbGate(self, self.verb_lock)
        self._trickle: PeriodicTransmitter | None = None
        era = new_era(runtime) if self.journal is None else read_era(self.journal)
        carry_out_here = partial(carry_out, self)
        self.peers = Peers(self.name, era, self.journal, self._verb_gate, carry_out_here)
        self._owner = OwnerContext(self.name, self.clock, self.journal, self.peers, self)
        self.definitions = QueueDefinitions(self._owner)
        if self.journal is not None:
            restore(self._owner, self.definitions, self.journal)
            self._verb_gate.set_gate(self.journal)
        self.verb_lock.join(self._verb_gate)

    @property
    def is_open(self) -> bool:
        """True while it accepts calls: not closed, and not ended by a disk failure."""
        return self._verb_gate.is_open

    def unit(self) -> AbstractContextManager[object]:
        """Return a context within which all calls together are one verb, so one transaction.

        Entering it raises Ended after a close.
        """
        return self._verb_gate.unit()

    def start_trickle(self, interval_ms: int) -> None:
        """Transmit all asynchronous queues, and pull for all home-server queues, at an interval.

        This only begins the trickle; the clock makes its runs, and errors of a run are logged. The
        first run is one interval of ``interval_ms`` from now. Another call changes the interval.
        From now on verbs of all queue managers of the runtime run one at a time. The folder does
        not store the trickle. Raises MQRC_OPTIONS_ERROR for a wrong interval, or a clock that
        cannot drive work.
        """
        with self.unit():
            begun = PeriodicTransmitter(self, interval_ms)
        self.stop_trickle()
        self._trickle = begun

    def stop_trickle(self) -> None:
        """Stop the periodic runs of :meth:`start_trickle`.

        On return no run is under way on another thread. Does nothing without a trickle.
        """
        trickle, self._trickle = self._trickle, None
        if trickle is not None:
            trickle.end()

    def close(self) -> None:
        """Stop the trickle, refuse further calls with Ended, and free the folder.

        Another object of this name may then use its links. A second call does nothing.
        """
        self.stop_trickle()
        if self.journal is not None:
            self.journal.close()
        self._verb_gate.set_gate(Closed())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Definitions

    @verb
    def connect(self, other: EveryplaceQueueManager) -> Link:
        """Return the link to another queue manager, in both directions; each pair has one link.

        The link of a closed queue manager passes to a new one of the same name. Raises
        EveryplaceError with MQRC_OBJECT_Q_MGR_NAME_ERROR if ``other`` is no queue manager or has
        the same name, MQRC_OPTIONS_ERROR if it has another runtime, and MQRC_OBJECT_ALREADY_EXISTS
        when another open one has that name.
        """
        if not isinstance(other, EveryplaceQueueManager):
            raise EveryplaceError(
                rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"other {other!r} is no EveryplaceQueueManager"
            )
        with other.unit():
            return self.peers.connect(other.peers)

    @verb
    def create_queue(
        self,
        name: str,
        expiry_ms: int | None = None,
        rule: QueueRule | None = None,
        max_depth: int | None = None,
    ) -> None:
        """Create a local queue; ``expiry_ms`` counts from the arrival of each message.

        ``expiry_ms`` and ``max_depth`` None are no limit, ``rule`` None is no rule. Raises
        EveryplaceError: MQRC_OBJECT_ALREADY_EXISTS for a name that is taken, MQRC_OBJECT_NAME_ERROR
        for a wrong one, MQRC_EXPIRY_ERROR for a wrong interval, MQRC_OPTIONS_ERROR for a wrong rule
        or depth.
        """
        self.definitions.check_new(name, None)
        self.definitions.create_local(name, QueueAttributes(expiry_ms, max_depth), rule)

    @verb
    def create_remote_queue(
        self,
        name: str,
        manager: str,
        asynchronous: bool = False,
        rule: QueueRule | None = None,
        expiry_ms: int | None = None,
    ) -> None:
        """Define queue ``name`` of queue manager ``manager``, which need not be connected yet.

        An asynchronous queue keeps messages here until they are transmitted, and may have
        ``expiry_ms``. A synchronous queue sends each call over the link at once; with ``expiry_ms``
        it raises MQRC_OPTIONS_ERROR. Raises the errors of ``create_queue``, and
        MQRC_OBJECT_Q_MGR_NAME_ERROR if ``manager`` is this queue manager.
        """
        self.definitions.check_other(name, manager)
        self.definitions.check_new(name, manager)
        check_rule(rule)
        attributes = QueueAttributes(expiry_ms)
        if asynchronous:
            queue = AsynchronousQueue(self._owner, name, manager, attributes, rule)
            queue.activate()
            self.definitions.add(queue)
        elif expiry_ms is not None:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"expiry_ms {expiry_ms}: nothing stays on {name} here"
            )
        else:
            self.definitions.add(SynchronousQueue(self._owner, name, manager, rule))

    @verb
    def create_home_server_queue(
        self,
        name: str,
        manager: str,
        expiry_ms: int | None = None,
        rule: QueueRule | None = None,
    ) -> None:
        """Define that ``manager`` keeps messages for local queue ``name``, which ``pull`` fetches.

        The local queue is created if missing, with this interval and rule. For an existing queue
        they raise MQRC_OBJECT_ALREADY_EXISTS, as does a second definition for the queue. Raises
        MQRC_OBJECT_Q_MGR_NAME_ERROR if ``manager`` is this queue manager.
        """
        checked_name("queue", name)
        self.definitions.check_other(name, manager)
        if name in self.definitions.home_servers:
            raise EveryplaceError(rc.MQRC_OBJECT_ALREADY_EXISTS, f"home-server queue {name}")
        if not self.definitions.has(name):
            self.create_queue(name, expiry_ms, rule)
        elif expiry_ms is not None or rule is not None:
            raise EveryplaceError(
                rc.MQRC_OBJECT_ALREADY_EXISTS, f"queue {name} has its own interval and rule"
            )
        self.definitions.add_home_server(HomeServerQueue(self._owner, name, manager))

    @verb
    def set_rule(
        self, queue: str, rule: QueueRule | None, queue_manager: str | None = None
    ) -> None:
        """Replace the rule of a queue, None for no rule; this does not activate the queue.

        ``queue_manager`` None means the local queue, or else the only remote queue of that name. A
        folder records the class of a rule, not its code. After a restart, calls on the queue raise
        MQRC_ENVIRONMENT_ERROR until this method is called. Raises MQRC_OPTIONS_ERROR for a wrong
        rule, MQRC_UNKNOWN_OBJECT_NAME for a queue that is not defined here.
        """
        check_rule(rule)
        ruled = self.definitions.find(queue, queue_manager)
        if not self.definitions.knows(ruled):
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue {queue!r} is not defined at {self.name}"
            )
        ruled.rule, ruled.awaited_rule = rule or QueueRule(), ""
        self.definitions.note(ruled)

    @verb
    def alter_queue(
        self, queue: str, queue_manager: str | None = None, **attributes: int | None
    ) -> None:
        """Change ``expiry_ms`` or ``max_depth`` of a queue that keeps messages here.

        The one left out keeps its value; None is no limit. ``queue_manager`` None means the local
        queue, or else the only remote queue of that name. Messages on the queue expire by the new
        interval at their next check. Raises RuleRefused when the rule refuses, MQRC_EXPIRY_ERROR
        for a wrong interval, and MQRC_OPTIONS_ERROR for another attribute or a wrong depth.
        """
        altered = activated(self.definitions.queue_with_messages(queue, queue_manager))
        try:
            new = replace(altered.attributes, **attributes)
        except TypeError:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"{queue}: no attributes {', '.join(attributes)}"
            ) from None
        for attribute, value in attributes.items():
            consult(altered.rule.attribute_change, queue, attribute, value)
        altered.attributes = new
        self.definitions.note(altered)

    @verb
    def delete_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Remove the expired messages of a queue, then delete the queue if it is empty.

        Of a remote queue that is defined here, only the definition is deleted. One that is not
        defined here is deleted at ``queue_manager``, over the link. Raises MQRC_Q_NOT_EMPTY if
        messages are left, and MQRC_OBJECT_IN_USE while a transmission or a pull is unfinished that
        would leave a message locked for ever.
        """
        target = self.definitions.route(queue, queue_manager)
        if isinstance(target, SynchronousQueue) and self.definitions.is_elsewhere(target):
            target.delete_remote()
        else:
            self.definitions.delete(target)

    @verb
    def activate_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Activate a queue; its expired messages are removed, also unconfirmed ones (M8).

        ``queue_manager`` None means the local queue, or else the only remote queue of that name.
        Raises MQRC_ENVIRONMENT_ERROR when its rule was not set again after a restart.
        """
        self.definitions.queue_with_messages(queue, queue_manager).activate()

    @verb
    def deactivate_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Deactivate a queue; the next call on it activates it and looks for expired messages (M8).

        ``queue_manager`` None means the local queue, or else the only remote queue of that name.
        Does nothing for a queue that is not active. Raises EveryplaceError for an unknown queue.
        """
        self.definitions.queue_with_messages(queue, queue_manager).deactivate()

    @verb
    def add_message_listener(self, queue: str, listener: Listener) -> None:
        """Call ``listener`` with a copy of each message that becomes available on a local queue.

        The listener's errors are logged. Raises RuleRefused, and MQRC_OPTIONS_ERROR if the listener
        is not callable.
        """
        check_listener(listener)
        target = self.definitions.local_queue(queue)
        consult(target.rule.add_listener, queue)
        target.listeners.append(listener)

    @verb
    def remove_message_listener(self, queue: str, listener: Listener) -> None:
        """Stop calling a listener with the messages of a local queue.

        Raises MQRC_OPTIONS_ERROR if the listener was not added to this queue, and RuleRefused.
        """
        target = self.definitions.local_queue(queue)
        if listener not in target.listeners:
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"{listener!r} does not listen to {queue}")
        consult(target.rule.remove_listener, queue)
        target.listeners.remove(listener)

    # Messages

    @verb
    def put_message(
        self,
        queue: str,
        fields: MessageFields,
        queue_manager: str | None = None,
        confirm_id: int = 0,
    ) -> MessageUid:
        """Put a copy of a message and return its identity.

        With a confirm id other than 0 no get sees it before ``confirm_put_message``, and ``undo``
        removes it. An expired message is removed on arrival and the queue's rule is called. A
        message that was put before, here or elsewhere, raises MQRC_OBJECT_ALREADY_EXISTS unless it
        has Msg_Resend. ``queue_manager`` None means the local queue, or else the only remote queue
        of that name. Raises MQRC_Q_FULL and RuleRefused.
        """
        target = self.definitions.route(queue, queue_manager)
        check_confirm_id(confirm_id)
        check_message(fields)
        if fields.was_put and not fields.is_resend:
            raise duplicate(fields, f"it was put before, queue {queue}")
        fields.name_origin(self.name)
        was_put, fields.was_put = fields.was_put, True
        try:
            target.add(fields.copy(), confirm_id)
        except EveryplaceError:
            fields.was_put = was_put
            raise
        return fields.uid

    @verb
    def confirm_put_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Make a message available that was put with a confirm id, behind those of its priority.

        An expired message is removed instead. ``queue_manager`` is that of :meth:`put_message`.
        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """
        check_uid(uid)
        self.definitions.route(queue, queue_manager).confirm_put(uid)

    @verb
    def get_message(
        self, queue: str, queue_manager: str | None = None, confirm_id: int = 0
    ) -> MessageFields | None:
        """Remove and return the next message; None when no unexpired message is available.

        With a confirm id other than 0 it stays on the queue, locked, until ``confirm_get_message``
        or ``undo``. ``queue_manager`` is that of :meth:`put_message`. Raises RuleRefused, and
        MQRC_OPTION_NOT_VALID_FOR_TYPE for an asynchronous remote queue.
        """
        check_confirm_id(confirm_id)
        return self.definitions.route(queue, queue_manager).take(confirm_id)

    @verb
    def confirm_get_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Remove a message that was got with a confirm id, even if it has expired since the get.

        ``queue_manager`` is that of :meth:`put_message`. Raises MQRC_NO_MSG_AVAILABLE when the
        queue has no such message.
        """
        check_uid(uid)
        self.definitions.route(queue, queue_manager).confirm_get(uid)

    @verb
    def undo(self, queue: str, confirm_id: int, queue_manager: str | None = None) -> int:
        """Undo the unconfirmed puts and gets with this confirm id; return their number.

        Messages put are removed; messages got are available again. ``queue_manager`` is that of
        :meth:`put_message`. Raises RuleRefused, after which nothing is undone, and
        MQRC_OPTIONS_ERROR for confirm id 0.
        """
        check_confirm_id(confirm_id)
        if not confirm_id:
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, "confirm_id 0 has nothing to undo")
        return self.definitions.route(queue, queue_manager).undo(confirm_id)

    @verb
    def delete_message(self, queue: str, uid: MessageUid, queue_manager: str | None = None) -> None:
        """Delete an available message by its identity.

        ``queue_manager`` is that of :meth:`put_message`. Raises MQRC_NO_MSG_AVAILABLE if it is not
        on the queue, not available or expired, and RuleRefused.
        """
        check_uid(uid)
        self.definitions.route(queue, queue_manager).delete(uid)

    @verb
    def browse_messages(self, queue: str, queue_manager: str | None = None) -> list[MessageFields]:
        """Return copies of the available messages; expired ones may be among them (M11).

        The messages stay on the queue. ``queue_manager`` is that of :meth:`put_message`. Raises
        RuleRefused.
        """
        return self.definitions.route(queue, queue_manager).browse()

    @verb
    def inquire_queue_size(self, queue: str, queue_manager: str | None = None) -> int:
        """Return the number of messages on a queue, locked and unconfirmed ones included (M10).

        Expired messages are removed first. ``queue_manager`` is that of :meth:`put_message`.
        """
        return self.definitions.route(queue, queue_manager).size()

    @verb
    def transmit_put(self, queue: str, queue_manager: str | None = None) -> int:
        """Send the available messages of an asynchronous queue; return how many have arrived.

        This is the first stage of transmission: the other side does not show them to gets yet. A
        message that does not arrive stays for the next call; errors are logged. ``queue_manager``
        None means the only remote queue of that name. Raises MQRC_UNKNOWN_OBJECT_NAME when no such
        queue, or more than one, is defined.
        """
        return self.definitions.asynchronous(queue, queue_manager).transmit_put()

    @verb
    def transmit_confirm(self, queue: str, queue_manager: str | None = None) -> int:
        """Make messages that have arrived available at the other side; return how many.

        This is the second stage of transmission. Messages made available there are removed here.
        ``queue_manager`` is that of :meth:`transmit_put`. The first error is logged and ends the
        stage; the other messages stay for the next call.
        """
        return self.definitions.asynchronous(queue, queue_manager).transmit_confirm()

    @verb
    def pull(self, queue: str) -> int:
        """Fetch the messages that the home server keeps for a local queue; return how many came.

        The home server is the queue manager of ``create_home_server_queue``. Expiry is checked when
        a message is stored here (M6). Raises MQRC_UNKNOWN_OBJECT_NAME when the queue has no home
        server.
        """
        home_server = self.definitions.home_servers.get(checked_name("queue", queue))
        if home_server is None:
            raise EveryplaceError(rc.MQRC_UNKNOWN_OBJECT_NAME, f"no home-server queue {queue!r}")
        return home_server.pull(self.definitions.local_queue(queue))


def carry_out(receiver: EveryplaceQueueManager, exchange: Exchange, request: object) -> object:
    """Carry out a request of another queue manager and return the answer.

    Returns None, and changes nothing, when its exchange is finished: the request has arrived
    before.
    """
    if receiver.peers.is_over(exchange):
        return None
    match request:
        case HoldMessage(queue, message):
            _hold_message(receiver, exchange, queue, message)
        case Admit(queue):
            _admit(receiver, exchange, queue)
        case Withdraw(queue):
            _withdraw(receiver, exchange, queue)
        case Offer(queue):
            return _offer_next(receiver, exchange, queue)
        case Stored(queue):
            _remove_stored(receiver, exchange, queue)
        case QueueCall(queue, call):
            receiver.peers.finish(exchange)
            return call(receiver.definitions.local_queue(queue))
        case DeleteQueue(queue):
            receiver.peers.finish(exchange)
            receiver.delete_queue(queue, receiver.name)
    return None


def _hold_message(
    receiver: EveryplaceQueueManager, exchange: Exchange, queue: str, message: MessageFields
) -> None:
    """Store a message, invisible to gets, as the first stage of a transmission.

    ``receiver`` is the queue manager to which the message was sent. Does nothing if its exchange is
    finished or the message is already here.
    """
    target = receiver.definitions.local_queue(queue)
    # The activation of the queue may have removed the message, and so ended this exchange.
    if not receiver.peers.is_over(exchange) and target.of_exchange(exchange) is None:
        target.add(message.copy(), exchange=exchange)


def _admit(receiver: EveryplaceQueueManager, exchange: Exchange, queue: str) -> None:
    """Make the message of a transmission available, as its second stage.

    ``receiver`` is the queue manager to which the message was sent. An expired message is removed
    instead (M6). If the message is not here, only the exchange is finished.
    """
    # Activation may write expiries first: the end of the exchange is noted behind them.
    target = receiver.definitions.local_queue(queue)
    receiver.peers.finish(exchange)
    queued = target.of_exchange(exchange)
    if queued is not None:
        target.admit(queued)


def _withdraw(receiver: EveryplaceQueueManager, exchange: Exchange, queue: str) -> None:
    """Delete a message that expired at its sender, which will not send the second stage.

    ``receiver`` is the queue manager to which the message was sent. A message with an expire time
    stays until this side detects its expiry (M13). A message that expired by the interval of this
    queue is reported to the rule. Without the message only the exchange is finished.
    """
    target = receiver.definitions.local_queue(queue) if receiver.definitions.has(queue) else None
    receiver.peers.finish(exchange)
    queued = None if target is None else target.of_exchange(exchange)
    if target is None or queued is None or queued.message.expire_time is not None:
        return
    if not target.expire_if_due(queued):
        target.remove(queued)


def _offer_next(
    receiver: EveryplaceQueueManager, exchange: Exchange, queue: str
) -> MessageFields | None:
    """Lock the next message for a pull and return a copy; for a repeated request the same one.

    ``receiver`` is the queue manager that is asked for the message. Returns None if no message is
    available. Raises MQRC_UNKNOWN_OBJECT_NAME when no queue here keeps messages for that queue.
    """
    queues = receiver.definitions.queues_for(exchange.beginner, queue)
    if receiver.peers.is_over(exchange):
        # Its message has expired: the activation above has removed it.
        return None
    if not queues:
        raise EveryplaceError(
            rc.MQRC_UNKNOWN_OBJECT_NAME,
            f"{receiver.name} keeps nothing for {queue!r} of {exchange.beginner}",
        )
    for each in queues:
        if (queued := each.of_exchange(exchange)) is not None:
            return queued.message.copy()
    taken = queues[0].lock_next(lambda: exchange)
    if taken is None:
        receiver.peers.finish(exchange)
        return None
    return taken[1].message.copy()


def _remove_stored(receiver: EveryplaceQueueManager, exchange: Exchange, queue: str) -> None:
    """Delete the message of a pull that the other side has stored.

    ``receiver`` is the queue manager that has offered it. Does nothing to a message that is gone.
    """
    # Activation may write expiries first: the end of the exchange is noted behind them.
    queues = receiver.definitions.queues_for(exchange.beginner, queue)
    receiver.peers.finish(exchange)
    for each in queues:
        if (queued := each.of_exchange(exchange)) is not None:
            each.remove(queued)


class PeriodicTransmitter:
    """Runs the transmissions and pulls of one queue manager at an interval of its clock."""

    def __init__(self, owner: EveryplaceQueueManager, interval_ms: int) -> None:
        """Begin; the first run is one interval from now.

        Raises MQRC_OPTIONS_ERROR for a wrong interval, or a clock that cannot drive work.
        """
        if not is_interval_ms(interval_ms):
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR,
                f"interval_ms {interval_ms!r} is not within 1 .. {LONG_RANGE[1]}",
            )
        clock = driver_of(owner.clock)
        if clock is None:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"clock {owner.clock!r} drives nothing: it has no attach"
            )
        self._owner, self._clock, self._interval_ms = owner, clock, interval_ms
        self._begun_ms = clock.now_ms()
        self._due_ms = self._begun_ms + interval_ms
        self._is_over = False
        owner.verb_lock.begin()
        clock.attach(self)

    def next_due_ms(self) -> int | None:
        """Return the time of the next run in epoch ms; None when the trickle has ended."""
        return self._due_ms if self._is_running() else None

    def run_due(self) -> None:
        """Transmit and pull now; missed runs are not repeated."""
        now_ms = self._clock.now_ms()
        self._due_ms = next_trickle_ms(self._begun_ms, self._interval_ms, now_ms)
        verb_lock = self._owner.verb_lock
        if verb_lock.enter(lambda: not self._is_running()):
            try:
                self._run()
            finally:
                verb_lock.leave()

    def end(self) -> None:
        """End the trickle; on return no run is under way on another thread."""
        self._is_over = True
        # A run that waits for its turn gives up: the caller may have the turn, and waits below.
        self._owner.verb_lock.wake_waiting()
        self._clock.detach(self)

    def _is_running(self) -> bool:
        """Return True until the trickle is ended or its queue manager is closed."""
        return not self._is_over and self._owner.is_open

    def _run(self) -> None:
        """Transmit all asynchronous queues and pull all home-server queues; errors are logged."""
        owner = self._owner
        for queue in owner.definitions.sending():
            try:
                owner.transmit_put(queue.name, queue.partner)
                owner.transmit_confirm(queue.name, queue.partner)
            except EveryplaceError as error:
                _LOG.warning("queue %s is not transmitted: %s", queue.name, error)
        for name in list(owner.definitions.home_servers):
            try:
                owner.pull(name)
            except EveryplaceError as error:
                _LOG.warning("queue %s is not pulled: %s", name, error)

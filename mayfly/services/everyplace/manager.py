"""A queue manager of MQ Everyplace: the verbs on its queues, in memory or durable in a folder.

Requests of other queue managers come over a link and are carried out here. A request may come
twice, or late. The number of its exchange then says that it is over, and nothing is changed. A
trickle transmits and pulls at an interval, without anybody calling.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from mayfly.lifetime.everyplace import (
    LONG_RANGE,
    Timepiece,
    driver_of,
    is_trickle_interval,
    next_trickle_ms,
)
from mayfly.mqi import reasons as rc
from mayfly.runtime import Runtime
from mayfly.services.everyplace import requests
from mayfly.services.everyplace.directory import (
    Directory,
    awake,
    check_confirm_id,
    checked_name,
    era_of,
    take_back,
)
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import (
    MessageFields,
    MessageUid,
    check_message,
    check_uid,
    checked_clock,
)
from mayfly.services.everyplace.journal import Closed, Journal, checked_folder, new_era
from mayfly.services.everyplace.links import Exchange, Link, Peers
from mayfly.services.everyplace.queues import (
    Listener,
    QueueAttributes,
    Site,
    check_listener,
    duplicate,
)
from mayfly.services.everyplace.remote import AsynchronousQueue, HomeServerQueue, SynchronousQueue
from mayfly.services.everyplace.requests import R, Request
from mayfly.services.everyplace.rules import QueueRule, check_rule, consult
from mayfly.services.everyplace.verb_lock import OF_THIS_PROCESS, Entrance, VerbLock, verb


class EveryplaceQueueManager:
    """Queues by name, and links to other queue managers; used by one thread beside its trickle.

    ``queue_manager`` None means here: a local queue, else the one remote queue of that name. The
    name of another queue manager means the remote queue that is defined here. Where none is
    defined, the call goes through the link at once. Calls raise EveryplaceError, and nothing has
    happened then.
    """

    def __init__(
        self,
        name: str,
        clock: Timepiece | None = None,
        folder: str | Path | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        """Begin in memory, or go on with what a folder holds, made when missing.

        ``clock`` is its own, as each machine has one; None is this machine's. Queues of a folder
        are not active (M8), and one that had a rule waits for ``set_rule``. Waits for turns and
        random numbers come from ``runtime``, None for those of this process; linked queue managers
        have the same one. Raises StoreError for a folder that cannot be used, FolderInUse when
        another process or queue manager has it.
        """
        self.name = checked_name("queue manager", name)
        self.clock = checked_clock(clock)
        runtime = OF_THIS_PROCESS if runtime is None else runtime
        self.journal = None if folder is None else Journal(checked_folder(folder), name, runtime)
        self.verb_lock = VerbLock(runtime)
        self._entrance = Entrance(self, self.verb_lock)
        self._trickle: Trickle | None = None
        era = new_era(runtime) if self.journal is None else era_of(self.journal)
        self.peers = Peers(self.name, era, self.journal)
        self._site = Site(self.name, self.clock, self.journal, self.peers, self)
        self.directory = Directory(self._site)
        if self.journal is not None:
            take_back(self._site, self.directory, self.journal)
            self._entrance.set_gate(self.journal)
        self.verb_lock.join(self._entrance)

    @property
    def is_open(self) -> bool:
        """Whether it takes calls: neither closed nor ended by a failure of its disk."""
        return self._entrance.is_open

    def unit(self) -> AbstractContextManager[object]:
        """Return a context that is one verb, whatever is done in it."""
        return self._entrance.unit()

    def receive(self, exchange: Exchange, lowest_open: int, request: Request[R]) -> R:
        """Carry out a request that has come over a link; a link calls this.

        The beginner of the exchange has none open below ``lowest_open``.
        """
        self.peers.forget_below(exchange, lowest_open)
        return cast(R, carry_out(self, exchange, request))

    def start_trickle(self, interval_ms: int) -> None:
        """Transmit asynchronous queues, both stages, and pull home-server queues at an interval.

        The clock drives it, first an interval from now; another call changes the interval. Verbs of
        all queue managers take turns from now on. A folder does not remember it.
        """
        with self.unit():
            begun = Trickle(self, interval_ms)
        self.stop_trickle()
        self._trickle = begun

    def stop_trickle(self) -> None:
        """Transmit and pull when called only; nothing when there is no trickle."""
        trickle, self._trickle = self._trickle, None
        if trickle is not None:
            trickle.end()

    def close(self) -> None:
        """Take no more calls, and free the folder; a namesake may take its place at its links."""
        self.stop_trickle()
        if self.journal is not None:
            self.journal.close()
        self._entrance.set_gate(Closed())

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
        """Return the link to another queue manager, which serves both ways; one for each pair.

        A queue manager is connected to one of each name that is open. The link of one that is
        closed goes on with its namesake. Raises MQRC_OPTIONS_ERROR for one of another runtime.
        """
        if not isinstance(other, EveryplaceQueueManager):
            raise EveryplaceError(
                rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"other {other!r} is no EveryplaceQueueManager"
            )
        with other.unit():
            return self.peers.connect(self, other)

    @verb
    def create_queue(
        self,
        name: str,
        expiry_ms: int | None = None,
        rule: QueueRule | None = None,
        max_depth: int | None = None,
    ) -> None:
        """Create a local queue; ``expiry_ms`` counts from a message's arrival on it (M1)."""
        self.directory.check_new(name, None)
        self.directory.create_local(name, QueueAttributes(expiry_ms, max_depth), rule)

    @verb
    def create_remote_queue(
        self,
        name: str,
        manager: str,
        asynchronous: bool = False,
        rule: QueueRule | None = None,
        expiry_ms: int | None = None,
    ) -> None:
        """Define queue ``name`` of another queue manager, which need not be connected yet.

        An asynchronous one keeps messages here until they are transmitted, and may have an
        interval of its own; a synchronous one passes each call on at once.
        """
        self.directory.check_other(name, manager)
        self.directory.check_new(name, manager)
        check_rule(rule)
        attributes = QueueAttributes(expiry_ms)
        if asynchronous:
            queue = AsynchronousQueue(self._site, name, manager, attributes, rule)
            queue.activate()
            self.directory.add(queue)
        elif expiry_ms is not None:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"expiry_ms {expiry_ms}: nothing stays on {name} here"
            )
        else:
            self.directory.add(SynchronousQueue(self._site, name, manager, rule))

    @verb
    def create_home_server_queue(
        self,
        name: str,
        manager: str,
        expiry_ms: int | None = None,
        rule: QueueRule | None = None,
    ) -> None:
        """Say that ``manager`` keeps messages for local queue ``name``, to be fetched by pull.

        The local queue is created unless it is there; interval and rule are for the new one.
        """
        checked_name("queue", name)
        self.directory.check_other(name, manager)
        if name in self.directory.home:
            raise EveryplaceError(rc.MQRC_OBJECT_ALREADY_EXISTS, f"home-server queue {name}")
        if not self.directory.has(name):
            self.create_queue(name, expiry_ms, rule)
        elif expiry_ms is not None or rule is not None:
            raise EveryplaceError(
                rc.MQRC_OBJECT_ALREADY_EXISTS, f"queue {name} has its own interval and rule"
            )
        self.directory.add_home(HomeServerQueue(self._site, name, manager))

    @verb
    def set_rule(
        self, queue: str, rule: QueueRule | None, queue_manager: str | None = None
    ) -> None:
        """Give a queue another rule, or None; nothing is checked, and it is not activated.

        A folder says of which class a rule was, but a rule is code: until it is given again after
        the opening, calls on its queue raise MQRC_ENVIRONMENT_ERROR.
        """
        check_rule(rule)
        ruled = self.directory.find(queue, queue_manager)
        if not self.directory.knows(ruled):
            raise EveryplaceError(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue {queue!r} is not defined at {self.name}"
            )
        ruled.rule, ruled.awaited_rule = rule or QueueRule(), ""
        self.directory.note(ruled)

    @verb
    def alter_queue(
        self, queue: str, queue_manager: str | None = None, **attributes: int | None
    ) -> None:
        """Change ``expiry_ms`` or ``max_depth``; messages there meet it at their next check.

        The rule is asked first and may refuse.
        """
        altered = awake(self.directory.held_here(queue, queue_manager))
        try:
            new = replace(altered.attributes, **attributes)
        except TypeError:
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"{queue}: no attributes {', '.join(attributes)}"
            ) from None
        for attribute, value in attributes.items():
            consult(altered.rule.attribute_change, queue, attribute, value)
        altered.attributes = new
        self.directory.note(altered)

    @verb
    def delete_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Delete a queue that is empty once what has expired is removed from it (M9).

        At ``queue_manager`` it is deleted through the link, unless it is defined here: then it is
        the definition that goes. Raises MQRC_Q_NOT_EMPTY, and MQRC_OBJECT_IN_USE while a
        transmission or a pull is unfinished that would leave a message locked elsewhere for ever.
        """
        target = self.directory.route(queue, queue_manager)
        if isinstance(target, SynchronousQueue) and self.directory.is_elsewhere(target):
            target.delete_there()
        else:
            self.directory.delete(target)

    @verb
    def activate_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Bring a queue into memory; expired messages are removed, in any state (M8)."""
        self.directory.held_here(queue, queue_manager).activate()

    @verb
    def deactivate_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Let a queue go from memory; the next call on it brings it back, and checks it (M8)."""
        self.directory.held_here(queue, queue_manager).deactivate()

    @verb
    def add_message_listener(self, queue: str, listener: Listener) -> None:
        """Call ``listener`` with a copy of each message that becomes available on a local queue."""
        check_listener(listener)
        target = self.directory.local_queue(queue)
        consult(target.rule.add_listener, queue)
        target.listeners.append(listener)

    @verb
    def remove_message_listener(self, queue: str, listener: Listener) -> None:
        """Stop calling it."""
        target = self.directory.local_queue(queue)
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

        With a confirm id it is not available before ``confirm_put_message``. An expired message is
        removed on arrival and its rule called (M6). A message that was put before, here or
        anywhere, is refused as a duplicate unless it has Msg_Resend (M16).
        """
        target = self.directory.route(queue, queue_manager)
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
        """Make a message available that was put under a confirm id; its place is given now."""
        check_uid(uid)
        self.directory.route(queue, queue_manager).confirm_put(uid)

    @verb
    def get_message(
        self, queue: str, queue_manager: str | None = None, confirm_id: int = 0
    ) -> MessageFields | None:
        """Get the next message, None when there is none that is alive and available (M7).

        With a confirm id it is locked until ``confirm_get_message`` or ``undo``.
        """
        check_confirm_id(confirm_id)
        return self.directory.route(queue, queue_manager).take(confirm_id)

    @verb
    def confirm_get_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Remove a message that was got under a confirm id; got in time, it may be late now."""
        check_uid(uid)
        self.directory.route(queue, queue_manager).confirm_get(uid)

    @verb
    def undo(self, queue: str, confirm_id: int, queue_manager: str | None = None) -> int:
        """Take back the unconfirmed puts and gets under an id; return how many there were."""
        check_confirm_id(confirm_id)
        if not confirm_id:
            raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, "confirm_id 0 has nothing to undo")
        return self.directory.route(queue, queue_manager).undo(confirm_id)

    @verb
    def delete_message(self, queue: str, uid: MessageUid, queue_manager: str | None = None) -> None:
        """Remove an available message by its identity."""
        check_uid(uid)
        self.directory.route(queue, queue_manager).delete(uid)

    @verb
    def browse_messages(self, queue: str, queue_manager: str | None = None) -> list[MessageFields]:
        """Return copies of the available messages; expired ones may be among them (M11)."""
        return self.directory.route(queue, queue_manager).browse()

    @verb
    def inquire_queue_size(self, queue: str, queue_manager: str | None = None) -> int:
        """Return how many messages a queue holds, locked and unconfirmed ones included (M10).

        Expired messages are removed first.
        """
        return self.directory.route(queue, queue_manager).size()

    @verb
    def transmit_put(self, queue: str, queue_manager: str | None = None) -> int:
        """First stage of transmission (M12); return how many messages have arrived."""
        return self.directory.asynchronous(queue, queue_manager).transmit_put()

    @verb
    def transmit_confirm(self, queue: str, queue_manager: str | None = None) -> int:
        """Second stage of transmission (M12, M13); return how many messages are done."""
        return self.directory.asynchronous(queue, queue_manager).transmit_confirm()

    @verb
    def pull(self, queue: str) -> int:
        """Fetch what the home server keeps for a queue (M6); return how many messages came."""
        home = self.directory.home.get(checked_name("queue", queue))
        if home is None:
            raise EveryplaceError(rc.MQRC_UNKNOWN_OBJECT_NAME, f"no home-server queue {queue!r}")
        return home.pull(self.directory.local_queue(queue))


def carry_out(receiver: EveryplaceQueueManager, exchange: Exchange, request: object) -> object:
    """Carry out a request and return the answer.

    A request that was done before is not done again: its answer is None then.
    """
    if receiver.peers.is_over(exchange):
        return None
    match request:
        case requests.HoldMessage(queue, message):
            _hold_message(receiver, exchange, queue, message)
        case requests.Admit(queue):
            _admit(receiver, exchange, queue)
        case requests.Withdraw(queue):
            _withdraw(receiver, exchange, queue)
        case requests.Offer(queue):
            return _offer_next(receiver, exchange, queue)
        case requests.Stored(queue):
            _remove_stored(receiver, exchange, queue)
        case requests.Call(queue):
            receiver.peers.finish(exchange)
            return _call(receiver, queue, request)
    return None


def _call(receiver: EveryplaceQueueManager, name: str, call: object) -> object:
    queue = receiver.directory.local_queue(name)
    match call:
        case requests.Add(_, message, confirm_id):
            queue.add(message.copy(), confirm_id)
        case requests.ConfirmPut(_, uid):
            queue.confirm_put(uid)
        case requests.Take(_, confirm_id):
            return queue.take(confirm_id)
        case requests.ConfirmGet(_, uid):
            queue.confirm_get(uid)
        case requests.Undo(_, confirm_id):
            return queue.undo(confirm_id)
        case requests.Delete(_, uid):
            queue.delete(uid)
        case requests.Browse():
            return queue.browse()
        case requests.Size():
            return queue.size()
        case requests.DeleteQueue():
            receiver.delete_queue(queue.name, receiver.name)
    return None


def _hold_message(
    receiver: EveryplaceQueueManager, exchange: Exchange, queue: str, message: MessageFields
) -> None:
    target = receiver.directory.local_queue(queue)
    # The activation of the queue may have met the end of this exchange.
    if not receiver.peers.is_over(exchange) and target.of_exchange(exchange) is None:
        target.add(message.copy(), exchange=exchange)


def _admit(receiver: EveryplaceQueueManager, exchange: Exchange, queue: str) -> None:
    """Let the message in, if it is still held; expired meanwhile, it is not (M6)."""
    # Activation may write expiries first: the end of the exchange is noted behind them.
    target = receiver.directory.local_queue(queue)
    receiver.peers.finish(exchange)
    held = target.of_exchange(exchange)
    if held is not None:
        target.admit(held)


def _withdraw(receiver: EveryplaceQueueManager, exchange: Exchange, queue: str) -> None:
    """Forget a message that expired at its sender, which will not confirm it.

    One with an end of its own stays until this side meets it (M13), and one that is expired here by
    the interval of this queue meets its rule. Where there is no queue, nothing has come.
    """
    target = receiver.directory.local_queue(queue) if receiver.directory.has(queue) else None
    receiver.peers.finish(exchange)
    held = None if target is None else target.of_exchange(exchange)
    if target is None or held is None or held.message.expire_time is not None:
        return
    if not target.expire_if_due(held):
        target.remove(held)


def _offer_next(
    receiver: EveryplaceQueueManager, exchange: Exchange, queue: str
) -> MessageFields | None:
    """Lock and return the next message that is kept; the same when it is asked again."""
    kept = receiver.directory.kept_for(exchange.beginner, queue)
    if receiver.peers.is_over(exchange):
        # Its message has expired: the activation has met it just now.
        return None
    if not kept:
        raise EveryplaceError(
            rc.MQRC_UNKNOWN_OBJECT_NAME,
            f"{receiver.name} keeps nothing for {queue!r} of {exchange.beginner}",
        )
    for each in kept:
        if (held := each.of_exchange(exchange)) is not None:
            return held.message.copy()
    taken = kept[0].hold_back(lambda: exchange)
    if taken is None:
        receiver.peers.finish(exchange)
        return None
    return taken[1].message.copy()


def _remove_stored(receiver: EveryplaceQueueManager, exchange: Exchange, queue: str) -> None:
    # Activation may write expiries first: the end of the exchange is noted behind them.
    kept = receiver.directory.kept_for(exchange.beginner, queue)
    receiver.peers.finish(exchange)
    for each in kept:
        if (held := each.of_exchange(exchange)) is not None:
            each.remove(held)


_LOG = logging.getLogger("mayfly.everyplace")


class Trickle:
    """Drives the transmissions of one queue manager; itself driven by a clock."""

    def __init__(self, owner: EveryplaceQueueManager, interval_ms: int) -> None:
        """Begin: the first run is an interval from now.

        Raises MQRC_OPTIONS_ERROR for an interval that is none, and a clock that only tells the
        time.
        """
        if not is_trickle_interval(interval_ms):
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
        """Return when it runs next by its clock, None when it is over."""
        return self._due_ms if self._goes_on() else None

    def run_due(self) -> None:
        """Transmit and pull; runs that were missed are not made up for."""
        now_ms = self._clock.now_ms()
        self._due_ms = next_trickle_ms(self._begun_ms, self._interval_ms, now_ms)
        verb_lock = self._owner.verb_lock
        if verb_lock.enter(lambda: not self._goes_on()):
            try:
                self._run()
            finally:
                verb_lock.leave()

    def end(self) -> None:
        """Run no more; on return no run is under way on another thread."""
        self._is_over = True
        # A run that waits for its turn gives up: the caller may have the turn, and waits below.
        self._owner.verb_lock.look_again()
        self._clock.detach(self)

    def _goes_on(self) -> bool:
        return not self._is_over and self._owner.is_open

    def _run(self) -> None:
        owner = self._owner
        for queue in owner.directory.sending():
            try:
                owner.transmit_put(queue.name, queue.partner)
                owner.transmit_confirm(queue.name, queue.partner)
            except EveryplaceError as error:
                _LOG.warning("queue %s is not transmitted: %s", queue.name, error)
        for name in list(owner.directory.home):
            try:
                owner.pull(name)
            except EveryplaceError as error:
                _LOG.warning("queue %s is not pulled: %s", name, error)

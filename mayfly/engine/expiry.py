"""Expiry of messages: the disposal of expired ones, and the scan that finds those nobody gets.

An expired message is discarded, or moved to the queue that EXPQ names, and reported. Report and
move are part of the transaction that discards it, so each happens once or not at all. A get, a
browse, a channel, the scan or the delay processor detects the expiry. Watchers are called once it
is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.delay.staged_row import original_row
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    new_row,
)
from mayfly.engine.disposal import (
    behind_transit,
    dead_letter,
    dead_letter_queue_of,
    original_of,
    prepared_with_own_context,
    send_report,
)
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.remote_queues import embedded_or_none
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.times import ms_of_seconds, next_scan_ms
from mayfly.lifetime.window import Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQEXPI_OFF
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, StoreDamaged, mq_error
from mayfly.store.keys import queue_number_of
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, DetectedBy, TerminatedBy
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.folders import as_expired

_LOG = logging.getLogger("mayfly.disposal")
BATCH = 1_000
#: How many expired messages that are locked are looked behind before a scan is run all the same.
_LOOKED_BEHIND = 100
_START = (-(2**62), 0)
_SIDES = (VOLATILE, PERSISTENT)


def discard_expired(
    core: Core,
    found: Collection[Found],
    now_ms: int,
    detected_by: DetectedBy,
    terminated_by: TerminatedBy = NOBODY,
) -> Transaction:
    """Return a transaction that discards, reports and moves expired messages (E13, E14).

    The messages are hidden from now on; the caller runs the transaction. It is never part of a unit
    of work. ``detected_by`` says whether a get, browse or scan detected it, ``terminated_by`` for
    which user and program. Needs the engine lock.
    """
    terminated_by = terminated_by._replace(detected_by=detected_by.value)
    transaction = Transaction()
    deadlines_ms = dict[LocalQueue, list[int]]()
    with core.alike_warnings.batch(now_ms):
        for each in found:
            queue_state.end(
                core, transaction, each, Event.DEADLINE_SEEN, now_ms, terminated_by=terminated_by
            )
            _dispose(core, transaction, each[0], each[1], now_ms)
            deadlines_ms.setdefault(each[0], []).append(each[1].expire_at_ms or now_ms)
    for queue, of_queue in deadlines_ms.items():
        core.expiry_lateness.note(of_queue, now_ms)
        queue.expiry_lateness = queue.expiry_lateness.plus(of_queue, now_ms)
    if core.on_expiry:
        notify_expired(
            core, transaction, (each[:2] for each in found), now_ms, terminated_by.detected_by
        )
    return transaction


def discard_late(
    core: Core,
    transaction: Transaction,
    late: Collection[tuple[LocalQueue, StoredMessage]],
    now_ms: int,
    terminated_by: TerminatedBy,
) -> None:
    """Add the discards of puts that expired before their commit to the commit's transaction (E17).

    They never reach their queues, where they counted as uncommitted; their reports and moves are
    added as well. ``terminated_by`` is the user and program of the unit of work.
    """
    for queue, row in late:
        queue_state.end_expired_put(core, transaction, queue, row, now_ms, terminated_by)
        _dispose(core, transaction, queue, row, now_ms)
    if core.on_expiry:
        notify_expired(core, transaction, late, now_ms, DetectedBy.COMMIT.value)


def dispose_of_expired(
    core: Core,
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    original: Original,
) -> None:
    """Add to a transaction the expiration report of a message, and its move to EXPQ.

    ``row`` is the message as stored, ``original`` as its sender put it. The report is added only if
    the message asks for one, the move only if EXPQ is not blank.
    """
    send_report(core, transaction, Cause.EXPIRATION, original)
    origin, target = _expiry_queue_of(core, queue, row)
    if target:
        _move(core, transaction, origin, target, row, original)


def _dispose(
    core: Core, transaction: Transaction, queue: LocalQueue, row: StoredMessage, now_ms: int
) -> None:
    """Add the report that an expired message asks for, and its move to EXPQ.

    Does nothing if the message asks for no report and EXPQ is blank.
    """
    descriptor = unpack_descriptor(row.descriptor)
    if descriptor.report or queue.is_staging or queue.definition.expq:
        original = behind_transit(core, queue, original_of(queue, row, descriptor, now_ms))
        dispose_of_expired(core, transaction, queue, row, original)


def _expiry_queue_of(core: Core, queue: LocalQueue, row: StoredMessage) -> tuple[LocalQueue, str]:
    """Return the queue whose EXPQ applies, and the name in EXPQ (empty for none).

    For a delayed message that is the queue that it was put to; none if that is on another queue
    manager or does not exist.
    """
    if queue.is_staging and row.target is not None:
        try:
            path = core.registry.resolve_target(row.target)
        except MQError:
            return queue, ""
        if path.remote is not None:
            return queue, ""
        queue = path.queue
    return queue, queue.definition.expq


def _move(
    core: Core,
    transaction: Transaction,
    origin: LocalQueue,
    target: str,
    row: StoredMessage,
    original: Original,
) -> None:
    """Add the put of an expired message to the queue that EXPQ names, where it never expires.

    If that queue refuses the message, it goes to the dead-letter queue. If that refuses it too, or
    is the queue where it expired, the message is gone and a warning is logged. ``origin`` is the
    queue where it expired, ``target`` the name in EXPQ. ``row`` is the message as stored,
    ``original`` as its sender put it.
    """
    try:
        message = _moved(core, origin, row, original)
        try:
            path = core.registry.resolve_target(target)
            if path.remote is None and path.queue is origin:
                text = f"EXPQ of {origin.name} leads to {origin.name}"
                raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
            prepared = message.prepared
            check_capacity(path, prepared, len(message.body))
            arrive(core, transaction, path, prepared, new_row(core, path, message))
        except MQError as failure:
            letters = core.registry.resolve_target(dead_letter_queue_of(core))
            if letters.remote is None and letters.queue is origin:
                raise
            dead_letter(core, transaction, message, failure.reason, target)
    except MQError as error:
        text = f"expired message of {origin.name} discarded: {error}"
        kind = "expired", origin.name, error.reason
        core.alike_warnings.note(_LOG, kind, core.now_ms(), text)


def _moved(
    core: Core, origin: LocalQueue, row: StoredMessage, original: Original
) -> OutgoingMessage:
    """Return an expired message as it is put on the queue in EXPQ, without expiry.

    ``origin`` is the queue where it expired. ``row`` is the message as stored, ``original`` as its
    sender put it.
    """
    assert row.expire_at_ms is not None
    descriptor, body = as_expired(original.descriptor, original.body, origin.name, row.expire_at_ms)
    window = Window(row.put_ms, row.put_ms, None)
    ids = MessageIds(original.msg_id, original.correl_id, original.msg_id)
    return OutgoingMessage(prepared_with_own_context(core, descriptor), window, ids, body)


# Watchers are called with each expired message once its end is durable


class Expired(NamedTuple):
    """An expired message, as its sender put it; watchers of expiry receive it.

    ``message.seen_ms`` is when the expiry was detected.
    ``queue`` is the queue it was on, or was delayed for; ``QUEUE@MANAGER`` if it was on its way to
    another queue manager.
    """

    queue: str
    message: Message
    #: The detector, a word of the ledger (``DetectedBy``).
    detected_by: str | None


OnExpiry: TypeAlias = Callable[[Expired], object]


def watch_expiry(core: Core, on_expiry: OnExpiry) -> Callable[[], None]:
    """Call ``on_expiry`` with each message that expires; return a function that ends this.

    ``on_expiry`` is called without locks, once the discard is durable, and must not block. An
    exception of it is logged. A second call of the returned function does nothing.
    """
    watchers = core.on_expiry
    with core.engine_lock:
        watchers.append(on_expiry)

    def end() -> None:
        with core.engine_lock:
            if on_expiry in watchers:
                watchers.remove(on_expiry)

    return end


def notify_expired(
    core: Core,
    transaction: Transaction,
    found: Iterable[tuple[LocalQueue, StoredMessage]],
    now_ms: int,
    detected_by: str | None,
) -> None:
    """Call the watchers with expired messages once the transaction that discards them takes effect.

    The calls are added to that transaction. ``detected_by`` says whether a get, browse or scan has
    detected the expiry. Needs the engine lock.
    """
    assert core.engine_lock.is_held()
    expired = [_expired(queue, row, now_ms, detected_by) for queue, row in found]

    def effect() -> None:
        for watcher in core.on_expiry:
            core.callbacks.waiting.extend(partial(watcher, each) for each in expired)

    transaction.effects.append(effect)


def _expired(
    queue: LocalQueue, row: StoredMessage, now_ms: int, detected_by: str | None
) -> Expired:
    """Return the message for watchers of expiry, without delay header or transmission header.

    ``detected_by`` says whether a get, browse or scan detected the expiry, None for neither.
    """
    name = queue.name
    if queue.is_staging:
        name, row = row.target or name, original_row(row)
    elif queue.transmits:
        embedded = embedded_or_none(row.body, unpack_descriptor(row.descriptor))
        if embedded is not None:
            name = f"{embedded.remote.queue}@{embedded.remote.manager}"
            row = row._replace(
                msg_id=embedded.msg_id,
                correl_id=embedded.correl_id,
                descriptor=pack_descriptor(embedded.descriptor),
                body=embedded.body,
            )
    return Expired(name, Message(name, row, now_ms, row.body), detected_by)


# The expiry scan discards expired messages that no get or browse finds (EXPRYINT, X9)


class ExpiryScan:
    """The expiry scan: when it is due (EXPRYINT), and its run in batches (X9)."""

    def __init__(self, core: Core) -> None:
        """Begin; the first scan is one interval after the start, or after a change of EXPRYINT."""
        self._core = core
        self._interval_ms = 0
        self._next_ms: int | None = None
        #: When the scan began of which a part is left; None when none is.
        self._began_ms: int | None = None

    def next_due_ms(self) -> int | None:
        """Return the time in ms of the next scan that can find an expired message.

        Returns None while EXPRYINT is OFF or no message has a deadline. Scans that would find
        nothing, or only locked messages, are skipped: under a virtual clock each would cost a stop.
        Needs the engine lock.
        """
        assert self._core.engine_lock.is_held()
        interval_ms, now_ms = scan_interval_ms(self._core) or 0, self._core.now_ms()
        if interval_ms != self._interval_ms:
            self._interval_ms, self._began_ms = interval_ms, None
            self._next_ms = now_ms + interval_ms if interval_ms else None
        if self._next_ms is None:
            return None
        try:
            first_ms = self.first_deadline_ms(now_ms)
        except StoreDamaged:
            # The scan reads the damage too, and the queue manager stops for it.
            return now_ms
        if first_ms is None or first_ms > now_ms:
            # A message that appears later and has expired by now waits for a later scan.
            self._next_ms = next_scan_ms(self._next_ms, interval_ms, now_ms + 1)
        return None if first_ms is None else next_scan_ms(self._next_ms, interval_ms, first_ms)

    def first_deadline_ms(self, now_ms: int) -> int | None:
        """Return the earliest deadline (ms) of all messages that a scan could discard, else None.

        Needs the engine lock. Raises StoreDamaged.
        """
        deadlines = [self._earliest(h, s, now_ms) for h in self._holders() for s in _SIDES]
        return min((d for d in deadlines if d is not None), default=None)

    def run(self, should_yield: Callable[[], bool]) -> None:
        """Discard expired messages if a scan is due; else do nothing.

        The next scan starts an interval after this one began, earlier by the time that this one
        took (at most half an interval). While ``should_yield`` returns True, it does one batch, and
        the rest in later calls. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        core = self._core
        with core.engine_lock:
            due_ms = self.next_due_ms()
        now_ms = core.now_ms()
        if due_ms is None or due_ms > now_ms:
            return
        began_ms = now_ms if self._began_ms is None else self._began_ms
        # A scan that fails begins anew.
        self._began_ms = None
        if self.discard_all(should_yield):
            taken_ms = min(core.now_ms() - began_ms, self._interval_ms // 2)
            self._next_ms = began_ms + self._interval_ms - taken_ms
        else:
            self._began_ms = began_ms

    def discard_all(
        self,
        should_yield: Callable[[], bool] = lambda: False,
        is_wanted: Callable[[LocalQueue], bool] | None = None,
    ) -> bool:
        """Discard all expired messages, except those that a lock or open unit of work hides.

        ``is_wanted`` chooses queues, None all of them. Returns False if ``should_yield`` stopped it
        before the end.
        """
        return all(
            self._discard(holder, persistence, should_yield, is_wanted)
            for holder in self._holders()
            for persistence in _SIDES
        )

    def _holders(self) -> list[Core]:
        """Return this queue manager and its queue-sharing group, if any."""
        group = self._core.group
        return [self._core] if group is None else [self._core, group]

    def _earliest(self, requester: Core, persistence: int, now_ms: int) -> int | None:
        """Return the earliest deadline (ms) of a message that a scan could discard, else None.

        ``requester`` is the queue manager or group whose messages of this persistence are searched.
        """
        messages = requester.messages(persistence)
        found = messages.earliest_deadlines(1)
        if found and found[0][0] <= now_ms and found[0][1] in requester.hidden:
            found = messages.earliest_deadlines(_LOOKED_BEHIND)
            if len(found) < _LOOKED_BEHIND or any(key not in requester.hidden for _, key in found):
                found = [(ms, key) for ms, key in found if key not in requester.hidden]
        return found[0][0] if found else None

    def _discard(
        self,
        requester: Core,
        persistence: int,
        should_yield: Callable[[], bool],
        is_wanted: Callable[[LocalQueue], bool] | None,
    ) -> bool:
        """Discard the expired messages with one persistence, in batches of 1,000.

        ``requester`` is the queue manager or group that has them; ``is_wanted`` chooses queues.
        Returns False if ``should_yield``, which is called after a batch, stopped it early.
        """
        core, after = self._core, _START
        while True:
            with core.engine_lock:
                now_ms = core.now_ms()
                rows = requester.messages(persistence).expired(now_ms, *after, BATCH)
                found: list[Found] = []
                for row in rows:
                    queue = requester.registry.by_number(queue_number_of(row.k))
                    # Hidden: locked, got in a unit of work, or on its way out; left alone (X9).
                    if queue is None or row.k in requester.hidden:
                        continue
                    if is_wanted is None or is_wanted(queue):
                        found.append((queue, row, persistence))
                transactions = (
                    [discard_expired(core, found, now_ms, DetectedBy.SCAN)] if found else []
                )
            if transactions:
                core.committer.run(*transactions)
            if len(rows) < BATCH:
                return True
            if transactions and should_yield():
                return False
            last = rows[-1]
            assert last.expire_at_ms is not None
            after = (last.expire_at_ms, last.k)


def scan_interval_ms(core: Core) -> int | None:
    """Return the interval of the expiry scan (EXPRYINT) in ms; None while it is OFF."""
    seconds = core.registry.queue_manager.expryint
    return None if seconds == MQEXPI_OFF else ms_of_seconds(seconds)


def discard_now(core: Core, pattern: str) -> None:
    """Discard the expired messages of local queues whose names match (REFRESH QMGR TYPE(EXPIRY)).

    ``pattern`` is a name, or the beginning of names and ``*``. Messages that a lock or an open unit
    of work hides stay. Call it without the engine lock. Raises MQRC_STORAGE_MEDIUM_FULL.
    """
    prefix = pattern.removesuffix("*")
    is_generic = prefix != pattern

    def is_wanted(queue: LocalQueue) -> bool:
        return queue.name.startswith(prefix) if is_generic else queue.name == pattern

    ExpiryScan(core).discard_all(is_wanted=is_wanted)


def scan_every(core: Core, seconds: int) -> None:
    """Set the interval of the expiry scan in memory until the close; MQEXPI_OFF means never.

    The stored EXPRYINT does not change.
    """
    with core.engine_lock:
        core.registry.queue_manager.expryint = seconds
    core.wake()

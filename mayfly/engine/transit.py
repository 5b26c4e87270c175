"""Messages in transit: a sender channel takes them from a queue, a receiver channel puts them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.delivery import MessageIds, OutgoingMessage
from mayfly.engine.disposal import (
    behind_transit,
    dead_letter,
    prepared_with_own_context,
    send_report,
)
from mayfly.engine.expiry import discard_expired, notify_expired
from mayfly.engine.finding.search import ANY, in_order
from mayfly.engine.handles import Handle
from mayfly.engine.objects.registry import topic_alias
from mayfly.engine.put import PutRequest, put
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import PERSISTENT, Found, LocalQueue
from mayfly.engine.session import Session
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.window import window_at_put
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQOO_INPUT_EXCLUSIVE,
    MQOO_OUTPUT,
    MQOO_SET_ALL_CONTEXT,
    MQPER_PERSISTENT,
    MQRO_DISCARD_MSG,
)
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.channels import CHANNELS, ChannelRow, forget_channel, save_channel
from mayfly.store.keys import packed_keys, queue_number_of
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import stored_id
from mayfly.verbs.contracts.outcomes import DetectedBy, TerminatedBy

_LOG = logging.getLogger("mayfly.channel")
_SAVE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_LAST = "SELECT value FROM meta WHERE name = ?"


# Messages that a channel has taken from its transmission queue and whose batch has not ended. They
# are hidden like those that a unit of work has got. A batch in doubt stays hidden over a restart
# until the channel has asked its partner; it is neither got nor expires meanwhile (E15).


class ChannelBatch(Hold):
    """The messages of one channel batch, hidden until the batch ends."""

    def __init__(self, core: Core, queue: LocalQueue, channel: str) -> None:
        """Begin an empty batch of sender channel ``channel`` on its transmission queue."""
        self._core = core
        self.queue = queue
        self.terminated_by = TerminatedBy(ended_by=channel)
        self._rows: list[Found] = []

    def __len__(self) -> int:
        """Return the number of messages in the batch."""
        return len(self._rows)

    def is_from(self, name: str) -> bool:
        """Return True if this name now resolves to the transmission queue of the batch.

        Raises MQRC_UNKNOWN_OBJECT_NAME.
        """
        return self._core.registry.resolve(name).queue is self.queue

    def packed_keys(self) -> bytes:
        """Return the keys of the persistent messages, packed for ``ChannelRow``."""
        return packed_keys([row.k for _queue, row, persistence in self._rows if persistence])

    def take(self, limit: int) -> list[StoredMessage]:
        """Add up to ``limit`` unexpired messages to the batch and return them in get order.

        It does not wait, and returns [] when no message is available. Expired messages before them
        are discarded (E6). Raises MQRC_GET_INHIBITED, MQRC_CONNECTION_BROKEN,
        MQRC_UNKNOWN_OBJECT_NAME.
        """
        core, name = self._core, self.queue.name
        if core.registry.resolve(name).get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on {name}")
        with core.engine_lock:
            core.check_running()
            found = self._take(limit)
        core.committer.run_deferred()
        return [row for _queue, row, _persistence in found]

    def _take(self, limit: int) -> list[Found]:
        """Hide and return the next unexpired messages; defer the discard of expired ones."""
        core, queue, now_ms = self._core, self.queue, self._core.now_ms()
        found: list[Found] = []
        expired: list[Found] = []
        for row, persistence in in_order(core, queue, ANY, queue.low):
            if len(found) == limit:
                break
            is_dead = is_expired(row.expire_at_ms, now_ms)
            (expired if is_dead else found).append((queue, row, persistence))
        if expired and (found or core.settings.discard_on_empty):
            self._pass(expired)
            core.committer.deferred.append(
                discard_expired(core, expired, now_ms, DetectedBy.CHANNEL, self.terminated_by)
            )
        self._pass(found)
        self._hold(found)
        return found

    def end_volatile(self) -> None:
        """Remove the non-persistent messages now, as transmitted; they travel outside the batch."""
        core = self._core
        with core.engine_lock:
            going = [taken for taken in self._rows if not taken[2]]
            self._rows = [taken for taken in self._rows if taken[2]]
            for taken in going:
                queue_state.end_hold(taken, self)
            transaction = self._transmitted(going, core.now_ms())
        if going:
            core.committer.run(transaction)

    def hold(self, keys: Iterable[int]) -> None:
        """Add the persistent messages with these keys to the batch; keys of no message are ignored.

        Needs the engine lock.
        """
        assert self._core.engine_lock.is_held()
        rows = (self._core.messages(PERSISTENT).row(key) for key in keys)
        self._hold((self.queue, row, PERSISTENT) for row in rows if row is not None)

    def discard(self, key: int, original: Original) -> None:
        """Remove an expired message from batch and queue, and send the report that it asks for.

        ``original`` is the message as its sender put it, for the report (E26, E19).
        """
        core, transaction = self._core, Transaction()
        with core.engine_lock:
            terminated_by = self.terminated_by._replace(detected_by=DetectedBy.CHANNEL.value)
            found = self._leave(transaction, key, Event.DEADLINE_SEEN, terminated_by)
            if core.on_expiry:
                notify_expired(
                    core, transaction, [found[:2]], core.now_ms(), terminated_by.detected_by
                )
            send_report(core, transaction, Cause.EXPIRATION, original._replace(remaining_ms=0))
        core.committer.run(transaction)

    def set_aside(self, key: int, message: Undeliverable, error: MQError) -> None:
        """Discard or dead-letter a message of the batch that cannot be sent, with its report.

        The report is about the message behind the MQXQH (R8). Raises ``error`` for a message that
        must stay in the batch, because neither is possible (Q5, R5).
        """
        core, transaction = self._core, Transaction()
        with core.engine_lock:
            about = behind_transit(core, self.queue, message.original)
            is_letter = add_refusal(core, transaction, message, about, error)
            event = Event.DEAD_LETTER if is_letter else Event.DISCARD
            self._leave(transaction, key, event, self.terminated_by, reason=error.reason)
        core.committer.run(transaction)

    def _leave(
        self,
        transaction: Transaction,
        key: int,
        event: Event,
        terminated_by: TerminatedBy,
        *,
        reason: int = rc.MQRC_NONE,
    ) -> Found:
        """Take one message out of the batch; add its removal from the queue to a transaction.

        ``event`` is how its stay on the queue ends, ``reason`` the reason code in the ledger.
        Returns the message.
        """
        found = next(taken for taken in self._rows if taken[1].k == key)
        self._rows.remove(found)
        queue_state.end_hold(found, self)
        now_ms = self._core.now_ms()
        queue_state.end(
            self._core,
            transaction,
            found,
            event,
            now_ms,
            terminated_by=terminated_by,
            reason=reason,
        )
        return found

    def end(self, state: ChannelRow) -> None:
        """Remove all messages as transmitted, durably together with the channel's state.

        After an error they stay hidden, because the partner has them. Raises
        MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        core = self._core
        with core.engine_lock:
            transaction = self._transmitted(self._rows, core.now_ms(), by=self)
            transaction.unit.statements.append(save_channel(state))
        core.committer.run(transaction)
        self._rows = []

    def give_back(self, state: ChannelRow | None = None) -> None:
        """Return all messages to their queue, backout counts raised, and save the channel's state.

        With ``state`` None only the counts are saved. On a full disk state and counts stay
        unchanged, and MQRC_STORAGE_MEDIUM_FULL is raised; the messages return anyway.
        """
        core = self._core
        transaction = Transaction()
        if state is not None:
            transaction.unit.statements.append(save_channel(state))
        for _queue, row, persistence in self._rows:
            unit = transaction.unit
            (unit.backouts if persistence else unit.volatile_backouts).append((row.k,))
        try:
            if self._rows or state is not None:
                core.committer.run(transaction)
        finally:
            with core.engine_lock:
                rows, self._rows = self._rows, []
                for found in rows:
                    queue_state.give_back(found, self)
                core.committer.offer([(queue, row.k) for queue, row, _persistence in rows])
            core.committer.run_deferred()

    def _hold(self, found: Iterable[Found]) -> None:
        """Hide visible messages and add them to the batch."""
        for taken in found:
            queue_state.hold(taken, self)
            self._rows.append(taken)

    def _transmitted(
        self, found: Iterable[Found], now_ms: int, by: Hold | None = None
    ) -> Transaction:
        """Return a transaction that removes messages as transmitted.

        ``by`` is the batch that still holds them, None if they are no longer held.
        """
        transaction = Transaction()
        for taken in found:
            queue_state.end(
                self._core,
                transaction,
                taken,
                Event.TRANSMIT,
                now_ms,
                terminated_by=self.terminated_by,
                by=by,
            )
        return transaction

    def _pass(self, found: Iterable[Found]) -> None:
        # Everything up to such a row was looked at, and is hidden or is one of these.
        """Make searches start after these messages; all messages before them are hidden."""
        for queue, row, persistence in found:
            queue_state.pass_over(queue, persistence, row.k)


def open_transmission_queue(session: Session, name: str) -> Handle:
    """Open a transmission queue for exclusive input by its channel, and return the handle.

    Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE, MQRC_XMIT_Q_USAGE_ERROR. Raises
    MQRC_OBJECT_TYPE_ERROR for a shared queue, because other members would see messages in doubt
    while this queue manager is closed.
    """
    core = session.core
    queue = core.registry.resolve(name).queue
    if not queue.transmits:
        raise mq_error(rc.MQRC_XMIT_Q_USAGE_ERROR, f"{name} is not USAGE(XMITQ)")
    if queue.owner is not core:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{name} is shared: no channel empties it")
    return session.open(name, MQOO_INPUT_EXCLUSIVE)


class ChannelStates:
    """The states of the channels of a queue manager, and their batches in doubt.

    A state has the last sequence number and logical unit of work id that both ends have committed.
    """

    def __init__(self, core: Core) -> None:
        """Begin without states; :meth:`load` reads those of the store."""
        self._core = core
        self._states: dict[tuple[str, int, str], ChannelRow] = {}
        self._in_doubt: dict[str, ChannelBatch] = {}

    def load(self) -> None:
        """Read the channel states from the store, and hide the messages of batches in doubt."""
        for values in self._core.store.persistent.fetch(CHANNELS, ()):
            row = ChannelRow._make(values)
            self._states[row[:3]] = row
            keys = row.keys
            queue = self._core.registry.by_number(queue_number_of(keys[0])) if keys else None
            if queue is not None:
                batch = self._in_doubt[row.name] = ChannelBatch(self._core, queue, row.name)
                with self._core.engine_lock:
                    batch.hold(keys)

    def state(self, name: str, partner: str | None = None) -> ChannelRow:
        """Return the stored state of a channel: its sequence numbers and batch in doubt.

        ``partner`` None is the sender of this name, else it is the receiver for that partner. The
        numbers are zeros for an unknown channel.
        """
        row = ChannelRow(name, int(partner is None), partner or "")
        return self._states.get(row[:3], row)

    def states(self) -> list[ChannelRow]:
        """Return the states of all channels, by channel name."""
        return [self._states[key] for key in sorted(self._states)]

    def note(self, row: ChannelRow) -> None:
        """Keep the state of a channel in memory; the caller has made it durable."""
        self._states[row[:3]] = row

    def save(self, row: ChannelRow) -> None:
        """Make the state of a channel durable, and keep it in memory."""
        transaction = Transaction()
        transaction.unit.statements.append(save_channel(row))
        self._core.committer.run(transaction)
        self.note(row)

    def forget(self, name: str) -> None:
        """Delete all states of a channel durably, as sender and as receiver."""
        transaction = Transaction()
        transaction.unit.statements.append(forget_channel(name))
        self._core.committer.run(transaction)
        for key in [key for key in self._states if key[0] == name]:
            del self._states[key]

    def resolve(self, name: str, batch: ChannelBatch, *, is_committed: bool) -> None:
        """End the doubt about a batch: remove its messages if ``is_committed``, else return them.

        ``is_committed`` is True if the partner has committed the batch. The state of the sender
        channel is saved with it.
        """
        state = self.state(name)
        settled = state._replace(doubt_sequence=0, doubt_luw="", doubt_keys=b"")
        if is_committed:
            settled = settled._replace(sequence=state.doubt_sequence, luw=state.doubt_luw)
            batch.end(settled)
        else:
            batch.give_back(settled)
        self.note(settled)

    def commit_received(self, session: Session, state: ChannelRow) -> None:
        """Commit the puts of a receiver channel, durably together with its state."""
        session.unit_of_work.note(*save_channel(state))
        session.unit_of_work.commit()
        self.note(state)

    def batch_in_doubt(self, name: str, queue_name: str) -> ChannelBatch:
        """Return the batch that a sender has in doubt since the last start, else a new empty one.

        The next call for that sender returns a new one. Raises MQRC_UNKNOWN_OBJECT_NAME for the
        transmission queue.
        """
        queue = self._core.registry.resolve(queue_name).queue
        in_doubt = self._in_doubt.pop(name, None)
        return ChannelBatch(self._core, queue, name) if in_doubt is None else in_doubt

    def keep(self, name: str, batch: ChannelBatch) -> None:
        """Keep the batch in doubt of a sender channel that stops, for its next start."""
        self._in_doubt[name] = batch


# Received messages: they are put unchanged, or end with their report. With a session that is part
# of its unit of work, without one it is a separate transaction.


class Undeliverable(NamedTuple):
    """A message that cannot be put on its ``target``, ``QUEUE`` or ``QUEUE@MANAGER``."""

    original: Original
    target: str
    #: Whether the dead-letter queue may have it.
    may_be_letter: bool


def put_received(
    core: Core, session: Session, name: str, body: bytes, request: PutRequest, *, in_unit: bool
) -> None:
    """Put a received message on a queue, or publish it where the name is an alias of a topic.

    The session's user needs authority to set all context. With ``in_unit`` the put is part of the
    session's unit of work, else it is final on return. Raises the errors of open and put.
    """
    if topic_alias(core.registry, name) is not None:
        session.publish_as("", body, request, syncpoint=in_unit, alias=name)
        return
    if session.authority is not None:
        session.authority.check_open(name, MQOO_OUTPUT | MQOO_SET_ALL_CONTEXT)
    path = core.registry.resolve_target(name)
    unit = session.unit_of_work if in_unit else None
    put(core, path, body, request, context=session.context, unit_of_work=unit)


def report_expiration(core: Core, original: Original, session: Session | None) -> None:
    """Send the expiration report of a message that expired before it arrived here (E19).

    ``original`` is the message as its sender put it. With a session the report is part of its unit
    of work, with None it is put at once. If it cannot be delivered, it goes to the dead-letter
    queue (R4).
    """
    transaction = Transaction()
    with core.engine_lock:
        send_report(core, transaction, Cause.EXPIRATION, original._replace(remaining_ms=0))
        if session is not None:
            session.unit_of_work.adopt(transaction)
    if session is None:
        core.committer.run(transaction)


def refuse(core: Core, message: Undeliverable, error: MQError, session: Session | None) -> None:
    """Discard or dead-letter a received message that cannot be put, with its exception report.

    With a session the puts are part of its unit of work, with None they take effect at once. Raises
    ``error`` for a persistent message that must stay at its sender (Q5, R5).
    """
    transaction = Transaction()
    with core.engine_lock:
        add_refusal(core, transaction, message, message.original, error)
        if session is not None:
            session.unit_of_work.adopt(transaction)
    if session is None:
        core.committer.run(transaction)


def add_refusal(
    core: Core, transaction: Transaction, message: Undeliverable, about: Original, error: MQError
) -> bool:
    """Add the exception report and the dead letter of a refused message to a transaction.

    Returns True if a dead letter was added. The report is about ``about``: for a message in
    transit, the one inside it. A non-persistent message that cannot become a dead letter is
    dropped. Raises ``error``, and adds nothing, for a persistent message that cannot become a dead
    letter or whose report reaches no queue. Needs the engine lock.
    """
    assert core.engine_lock.is_held()
    descriptor = message.original.descriptor
    is_sent = send_report(core, transaction, Cause.EXCEPTION, about, error.reason)
    is_discarded = bool(descriptor.report & MQRO_DISCARD_MSG)
    is_letter = (
        not is_discarded
        and message.may_be_letter
        and _is_dead_lettered(core, transaction, message, error.reason)
    )
    # R5: a persistent message on which no report can be sent is not given up.
    is_settled = is_sent and (is_discarded or is_letter)
    if descriptor.persistence == MQPER_PERSISTENT and not is_settled:
        queue_state.withdraw_all(transaction)
        raise error
    if not is_letter:
        text = f"message for {message.target} dropped: {error}"
        kind = "dropped", message.target, error.reason
        core.alike_warnings.note(_LOG, kind, core.now_ms(), text)
    return is_letter


def _is_dead_lettered(
    core: Core, transaction: Transaction, message: Undeliverable, reason: int
) -> bool:
    """Add a dead letter to a transaction; return True.

    Returns False, and logs the error, when the dead-letter queue refuses it.
    """
    original, target = message.original, message.target
    window = window_at_put(core.now_ms(), original.remaining_ms)
    ids = MessageIds(original.msg_id, stored_id(original.correl_id))
    try:
        letter = OutgoingMessage(
            prepared_with_own_context(core, original.descriptor), window, ids, original.body
        )
        dead_letter(core, transaction, letter, reason, target)
    except MQError as error:
        text = f"dead-letter queue refuses a message for {target}: {error}"
        core.alike_warnings.note(_LOG, ("letter", target, error.reason), core.now_ms(), text)
        return False
    return True


# Messages that a partner moves in or out exactly once. A number becomes durable with the unit of
# work that puts or gets the message; after a crash the partner asks for the last number.


class MoveNumbers:
    """The number of the last message that a partner moved, by a name that the partner chooses.

    A partner asks for it after a failure, so that each message moves exactly once.
    """

    def __init__(self, core: Core) -> None:
        """Keep the numbers in the store of this queue manager."""
        self._core = core

    @property
    def instance_id(self) -> str:
        """The id of this instance of the queue manager.

        Another one of the same name has another id.
        """
        return self._core.store.ledger.instance_id

    @property
    def is_stopped(self) -> bool:
        """True after the queue manager has stopped; :meth:`last` then raises an error."""
        return self._core.is_stopped

    def note(self, session: Session, name: str, number: int) -> None:
        """Store the number of the last message that a partner moved, under the partner's ``name``.

        It is durable with the next commit of the session.
        """
        session.unit_of_work.note(_SAVE, (name, number))

    def last(self, name: str) -> int | None:
        """Return the number of the last message that a partner moved, by the partner's ``name``.

        None if none is stored. Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        core = self._core
        with core.engine_lock:
            core.check_running()
            found = core.store.persistent.fetch(_LAST, (name,))
        return found[0][0] if found else None

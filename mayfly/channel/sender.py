"""The sender channel, from START to STOP, and its batches, each put at the partner exactly once.

The clock drives it when there is work: a put on the transmission queue, the end of a wait or a
command makes it due. Under the machine's clock it runs on a thread of that clock, under a virtual
one at once and in order.

A batch goes in steps. After each of them the disk holds enough to continue from there:

1. its messages are taken off the queue, hidden but still in the store, and handed over;
2. its name, sequence number and keys are made durable here: it is in doubt;
3. the partner commits it together with its name;
4. the messages and the doubt end here in one transaction.

After an interruption before 2, both sides are as before the batch. After a later one, the partner
tells at the next start whether it has committed the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mayfly.channel.links import (
    NO_TRAFFIC,
    PROGRAM,
    ReceiverLink,
    end_link,
    luw_name,
    original_of,
    refused_envelope,
)
from mayfly.engine import Arrivals, Engine, find_channel, manager_definition, new_message_id
from mayfly.engine.api.transit import (
    ChannelBatch,
    ChannelDefinition,
    open_transmission_queue,
    out_of_transit,
    report_start,
    report_stop,
    seen_in_transit,
)
from mayfly.lifetime.times import SECOND_MS, ms_of_seconds
from mayfly.lifetime.transmission import shorter_life_ms, transit_ms
from mayfly.lifetime.window import remaining_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQNPMS_FAST, MQPER_PERSISTENT
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.event_constants import (
    MQRQ_CHANNEL_STOPPED_DISABLED,
    MQRQ_CHANNEL_STOPPED_ERROR,
    MQRQ_CHANNEL_STOPPED_OK,
    MQRQ_CHANNEL_STOPPED_RETRY,
)
from mayfly.store.channels import INACTIVE, STARTED, STOPPED, ChannelRow
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.channels import Envelope, Opening, ReceiverState

_LOG = logging.getLogger("mayfly.channel")

Connect = Callable[[ChannelDefinition], ReceiverLink]
#: Errors after which a retry may succeed; any other is a programming error, and stops the channel.
_MAY_PASS = (OSError, MQError)
#: The part of a MsgId that no two have: it names a batch.
_UNIQUE_FROM = 16


class RunningChannel:
    """A sender channel of a queue manager, driven by its clock; at first inactive or stopped."""

    def __init__(self, manager: Engine, name: str, connect: Connect) -> None:
        """Read the definition and the last state of the channel; raises MQRC_UNKNOWN_OBJECT_NAME.

        ``connect`` makes the link to the partner; nothing is connected yet.
        """
        self._manager = manager
        self._name = name
        self._connect = connect
        self._definition = find_channel(manager, name)
        self._retries = _Retries(self._definition)
        self._sender: Sender | None = None
        self._open_queue: _OpenTransmissionQueue | None = None
        self._link: ReceiverLink | None = None
        #: Held during a turn; a wake during a turn leaves the work to that turn.
        self._working = manager.runtime.lock("channel")
        #: STOPPED or INACTIVE while STOP CHANNEL waits for the end of the work under way.
        self._stop_wanted: ChannelState | None = None
        #: The end of its wait; since when it has had nothing to send; since when it is silent.
        self._due_ms = self._idle_ms = self._silent_ms = 0
        self.status = ChannelState.STOPPED if self._state.is_stopped else ChannelState.INACTIVE
        self._failure = ""
        #: Whether it is connected, as its events say.
        self._is_connected = False

    @property
    def is_idle(self) -> bool:
        """True while the channel is inactive or stopped."""
        return self.status in (ChannelState.INACTIVE, ChannelState.STOPPED)

    @property
    def is_woken(self) -> bool:
        """True if the channel runs and messages have arrived since it last read its queue."""
        queue = self._open_queue
        return self.status is ChannelState.RUNNING and queue is not None and queue.has_work

    def start(self) -> None:
        """Start the channel, or let it retry at once; the clock then tries to reach the partner.

        A running channel stays running. Raises MQRC_UNKNOWN_OBJECT_NAME, and
        MQRC_STORAGE_MEDIUM_FULL, which leaves the channel unchanged.
        """
        manager = self._manager
        with self._working:
            self._definition = find_channel(manager, self._name)
            if not self._state.is_started:
                manager.channel_states.save(self._state._replace(wanted=STARTED))
            self._due_ms, self._stop_wanted = manager.now_ms(), None
            if self.is_idle:
                self._release_sender()
                self._retries.renew(self._definition)
                self.status, self._failure = ChannelState.STARTING, ""
                manager.clock.attach(self)
        manager.clock.wake(self)

    def stop(self, *, is_forced: bool = False, is_inactive: bool = False) -> None:
        """Stop the channel after its current batch, without waiting for that.

        ``is_forced`` interrupts the batch, which may stay in doubt. The channel stays stopped when
        the queue manager is opened again. With ``is_inactive`` it becomes inactive instead, so that
        a trigger message starts it.
        """
        wanted = ChannelState.INACTIVE if is_inactive else ChannelState.STOPPED
        self._stop_wanted = wanted
        link = self._link
        if is_forced and link is not None:
            end_link(link)
        if self.is_idle:
            with self._working:
                # It may have been started meanwhile.
                self._end(wanted)
        else:
            self._manager.clock.wake(self)

    def close(self) -> None:
        """End the channel with its queue manager.

        If the channel ran, the next opening of the queue manager starts it again.
        """
        self._manager.clock.detach(self)
        with self._working:
            if not self.is_idle:
                self._end(ChannelState.INACTIVE)

    def resolve(self, *, is_committed: bool) -> None:
        """Commit or back out a batch in doubt by decision of an operator.

        With ``is_committed`` its messages are removed here, otherwise they return to the queue.
        Raises MQRC_OBJECT_IN_USE while the channel runs, MQRC_CHANNEL_CONFIG_ERROR when no batch is
        in doubt.
        """
        with self._working:
            self._check_resting()
            if not self._state.doubt_luw:
                text = f"channel {self._name} has no batch in doubt"
                raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, text)
            if self._sender is None:
                self._sender = Sender(self._manager, self._definition)
            self._sender.resolve(is_committed=is_committed)

    def reset(self, sequence: int) -> None:
        """Set the sequence number of the next message, also at the receiver at the next start.

        Raises MQRC_OBJECT_IN_USE while the channel runs, MQRC_CHANNEL_CONFIG_ERROR when a batch is
        in doubt.
        """
        # Otherwise a running turn could save the old state, or lose its batch in doubt.
        with self._working:
            self._check_resting()
            state = self._state
            if state.doubt_luw:
                text = f"channel {self._name} has a batch in doubt: RESOLVE CHANNEL first"
                raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, text)
            self._manager.channel_states.save(state._replace(sequence=sequence - 1, is_reset=1))

    def _check_resting(self) -> None:
        """Raise MQRC_OBJECT_IN_USE while the channel is connected."""
        if self.status in (ChannelState.RUNNING, ChannelState.PAUSED):
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {self._name} is {self.status}")

    def next_due_ms(self) -> int | None:
        """Return when the channel must act next, in the clock's ms.

        None when only a message can wake the channel, and while it acts.
        """
        due_ms = None if self._working.locked() else self._next_ms()
        return None if due_ms is None else due_ms - self._manager.ahead_ms

    def run_due(self) -> None:
        """Let the channel act as long as it must; do nothing while another thread is in this call.

        An error ends the connection and is not raised.
        """
        while self._is_due() and self._working.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self._working.release()

    def channel_status(self) -> ChannelStatus:
        """Return the attributes of the channel that DISPLAY CHSTATUS shows."""
        state, sender, definition = self._state, self._sender, self._definition
        is_in_doubt, link = bool(state.doubt_luw), self._link
        traffic = NO_TRAFFIC if link is None else link.traffic()
        is_stopping = self._stop_wanted is not None and not self.is_idle
        return ChannelStatus(
            name=self._name,
            is_sender=True,
            status=ChannelState.STOPPING if is_stopping else self.status,
            connection=definition.conname,
            partner="" if sender is None else sender.partner,
            transmission_queue=definition.xmitq,
            message_count=0 if sender is None else sender.message_count,
            batch_count=0 if sender is None else sender.batch_count,
            last_message_ms=None if sender is None else sender.last_message_ms,
            sequence=state.sequence,
            current_sequence=state.doubt_sequence if is_in_doubt else state.sequence,
            luw=state.luw,
            current_luw=state.doubt_luw if is_in_doubt else state.luw,
            is_in_doubt=is_in_doubt,
            short_retries_left=self._retries.short_left,
            long_retries_left=self._retries.long_left,
            failure=self._failure,
            heartbeat_s=0 if link is None or sender is None else sender.heartbeat_s,
            sent_bytes=traffic.sent_bytes,
            received_bytes=traffic.received_bytes,
        )

    @property
    def _state(self) -> ChannelRow:
        """The saved state of the channel: sequence numbers and a batch in doubt."""
        return self._manager.channel_states.state(self._name)

    def _is_due(self) -> bool:
        """Return True if the channel must act now."""
        due_ms = self._next_ms()
        return due_ms is not None and due_ms <= self._manager.now_ms()

    def _next_ms(self) -> int | None:
        """Return when the channel must act next, in ms of the queue manager's time.

        None when only a message can wake it.
        """
        if self.is_idle:
            return None
        if self._stop_wanted or self.is_woken:
            return self._manager.now_ms()
        if self.status is not ChannelState.RUNNING:
            return self._due_ms
        open_until_ms = None if self._sender is None else self._sender.open_until_ms()
        if open_until_ms is not None:
            return open_until_ms
        definition = self._definition
        moments = (
            _interval_end_ms(definition.discint, self._idle_ms),
            _interval_end_ms(definition.hbint, self._silent_ms),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def _turn(self) -> None:
        """Do one round of the work of the present status, such as connecting or sending a batch.

        An error ends the connection and is not raised. Only an interruption, such as
        KeyboardInterrupt, is raised.
        """
        try:
            if self._stop_wanted:
                self._end(self._stop_wanted)
            elif self.status in (ChannelState.STARTING, ChannelState.RETRYING):
                self._connect_sender()
            elif self.status is ChannelState.PAUSED:
                assert self._sender is not None
                self._note_sent(self._sender.go_on())
            else:
                self._move()
        except Exception as error:  # noqa: BLE001 - the code of a link may raise anything
            self._fail(error)
        except BaseException as error:
            # After an interruption the batch must not be handed over a second time.
            self._fail(error)
            raise

    def _connect_sender(self) -> None:
        """Open the transmission queue, connect to the partner, and resolve a batch in doubt.

        The channel is then running. Raises LinkDown, or the MQError of the queue or the partner.
        """
        definition = self._definition = find_channel(self._manager, self._name)
        transmission_queue = definition.xmitq
        if self._open_queue is not None and self._open_queue.name != transmission_queue:
            self._release_sender()
            self._release_queue()
        if self._open_queue is None:
            self._open_queue = _OpenTransmissionQueue(self._manager, transmission_queue)
        if self._sender is None:
            self._sender = Sender(self._manager, self._definition)
        self._link = self._connect(definition)
        self._sender.connect(self._link)
        self._failure = ""
        self._is_connected = True
        report_start(self._manager, definition, definition.conname)
        self._open_queue.has_work = True
        self._note_sent(None)

    def _move(self) -> None:
        """Take new messages and, when the batch is full or its time (BATCHINT) is over, send it."""
        sender, queue, now_ms = self._sender, self._open_queue, self._manager.now_ms()
        assert sender is not None
        assert queue is not None
        if queue.has_work:
            # Reset before reading the queue: a put during the read sets it again.
            queue.has_work = False
            if not sender.take():
                queue.has_work = True
        elif sender.open_until_ms() is None:
            self._rest(now_ms)
        open_until_ms = sender.open_until_ms()
        if open_until_ms is not None and (queue.has_work or open_until_ms <= now_ms):
            self._note_sent(sender.send())

    def _note_sent(self, wait_ms: int | None) -> None:
        """Set the status after a send: running (``wait_ms`` None), or paused for ``wait_ms``.

        After a success all retries are available again.
        """
        now_ms = self._manager.now_ms()
        if wait_ms is None:
            self.status = ChannelState.RUNNING
            self._retries.renew(self._definition)
            self._idle_ms = self._silent_ms = now_ms
        else:
            self.status, self._due_ms = ChannelState.PAUSED, now_ms + wait_ms

    def _rest(self, now_ms: int) -> None:
        """Disconnect after DISCINT without messages, otherwise ping the partner.

        After DISCINT the channel is inactive. The caller calls this at the end of DISCINT or HBINT.
        """
        disconnect_ms = _interval_end_ms(self._definition.discint, self._idle_ms)
        if disconnect_ms is not None and disconnect_ms <= now_ms:
            self._note(INACTIVE)
            self._end(ChannelState.INACTIVE)
            return
        assert self._sender is not None
        self._sender.ping()
        self._silent_ms = now_ms

    def _fail(self, error: BaseException) -> None:
        """Disconnect after an error, and set the status: retrying, stopped or inactive.

        The channel stops after STOP CHANNEL, a programming error, or the last retry. It becomes
        inactive when the queue manager has stopped. The error is logged.
        """
        is_mistake = isinstance(error, Exception) and not isinstance(error, _MAY_PASS)
        self._failure = repr(error) if is_mistake else str(error)
        cause = error if is_mistake else None
        _LOG.warning("channel %s: %s", self._name, self._failure, exc_info=cause)
        self._disconnect()
        is_over = self._stop_wanted or is_mistake
        wait_ms = None if is_over else self._retries.next_wait_ms()
        if self._manager.is_stopped:
            self._end(ChannelState.INACTIVE)
        elif wait_ms is None:
            self._end(ChannelState.STOPPED)
        else:
            self.status, self._due_ms = ChannelState.RETRYING, self._manager.now_ms() + wait_ms
            self._report_stop(MQRQ_CHANNEL_STOPPED_RETRY)

    def _end(self, status: ChannelState) -> None:
        """Disconnect, close the transmission queue, and set the status.

        After STOP CHANNEL that is what the command wants, whatever ``status`` is.
        """
        self._disconnect()
        self._release_queue()
        # A STOP during another end has precedence.
        self.status = self._stop_wanted or status
        if self.status is ChannelState.STOPPED:
            self._note(STOPPED)
            self._report_stop(MQRQ_CHANNEL_STOPPED_DISABLED)
        elif self._stop_wanted:
            self._note(INACTIVE)
        self._report_stop(MQRQ_CHANNEL_STOPPED_ERROR if self._failure else MQRQ_CHANNEL_STOPPED_OK)
        self._manager.clock.detach(self)

    def _report_stop(self, qualifier: int) -> None:
        """Make the event for the end of a connection; nothing if its end was reported before.

        ``qualifier`` is MQRQ_CHANNEL_STOPPED_*.
        """
        was_connected, self._is_connected = self._is_connected, False
        if was_connected:
            definition = self._definition
            report_stop(self._manager, definition, definition.conname, qualifier, self._failure)

    def _disconnect(self) -> None:
        """Close the link, and return taken messages to their queue; an MQError is logged."""
        self._link = None
        try:
            if self._sender is not None:
                self._sender.close()
        except MQError as error:
            # Persistent messages are still on the disk; the next start finds them there.
            _LOG.error("channel %s: messages not given back: %s", self._name, error)

    def _release_sender(self) -> None:
        """Drop the sender; its batch in doubt, if any, is kept for the next one."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.keep_doubt()

    def _release_queue(self) -> None:
        """Close the transmission queue, if it is open."""
        queue, self._open_queue = self._open_queue, None
        if queue is not None:
            queue.close()

    def _note(self, wanted: int) -> None:
        """Save whether the channel starts when its queue manager is opened; an MQError is logged.

        ``wanted`` is STARTED, INACTIVE or STOPPED.
        """
        try:
            self._manager.channel_states.save(self._state._replace(wanted=wanted))
        except MQError as error:
            _LOG.error("channel %s would start with its queue manager: %s", self._name, error)


def _interval_end_ms(seconds: int, since_ms: int) -> int | None:
    """Return when an interval that began at ``since_ms`` ends, in ms; None for 0 seconds."""
    return since_ms + ms_of_seconds(seconds) if seconds else None


class Sender:
    """The sending end of a channel while it is connected: takes, sends and confirms batches."""

    def __init__(self, manager: Engine, definition: ChannelDefinition) -> None:
        """Take over a batch that an earlier run has left in doubt; its queue must be open.

        Without one, begin with no messages. Raises MQRC_UNKNOWN_OBJECT_NAME for the queue.
        """
        self._manager = manager
        self._definition = definition
        self._xmitq = definition.xmitq
        states, name = manager.channel_states, definition.name
        #: The batch that is being made or handed over.
        self._batch: ChannelBatch = states.batch_in_doubt(name, self._xmitq)
        self._link: ReceiverLink | None = None
        self._agreed: ReceiverState | None = None
        self._taken: list[StoredMessage] = []
        self._begun_ms = self._transit_ms = 0
        self.message_count = self.batch_count = 0
        self.last_message_ms: int | None = None

    @property
    def state(self) -> ChannelRow:
        """The sequence numbers and the batch in doubt, as they are on the disk."""
        return self._manager.channel_states.state(self._definition.name)

    @property
    def partner(self) -> str:
        """The name of the queue manager at the other end, empty before the negotiation."""
        return "" if self._agreed is None else self._agreed.manager

    @property
    def heartbeat_s(self) -> int:
        """The seconds within which the partner can expect a sign of life, 0 for no promise.

        It is HBINT plus the time (BATCHINT) for which a batch stays open.
        """
        heartbeat_s = self._definition.hbint
        held_s = -(-self._definition.batchint // SECOND_MS)
        return heartbeat_s + held_s if heartbeat_s else 0

    def connect(self, link: ReceiverLink) -> None:
        """Negotiate with the partner, and resolve a batch in doubt by the state that it reports.

        Raises LinkDown, MQRC_CHANNEL_CONFIG_ERROR when the sequence numbers differ, and the MQError
        by which the partner refuses the sender.
        """
        self._link = link
        name, state, definition = self._definition.name, self.state, self._definition
        opening = Opening(
            name,
            self._manager.name,
            state.sequence,
            definition.batchsz,
            self._max_message_bytes(),
            bool(state.is_reset),
            self.heartbeat_s,
            self._manager.ledger.instance_id,
        )
        remote = link.negotiate(opening)
        if state.doubt_luw and remote.luw == state.doubt_luw:
            self.resolve(is_committed=True)
        expected = self.state.sequence
        if remote.sequence != expected:
            # A partner with another history cannot prove that it lacks a batch in doubt.
            text = f"{remote.manager} has committed up to {remote.sequence}, not {expected}"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"sequence number of {name}: {text}")
        if self.state.doubt_luw:
            self.resolve(is_committed=False)
        if not self._batch.is_from(self._xmitq):
            # XMITQ was altered while a batch was in doubt.
            self._batch = self._manager.channel_states.batch_in_doubt(name, self._xmitq)
        if state.is_reset:
            self._manager.channel_states.save(state._replace(is_reset=0))
        self._agreed = remote

    def resolve(self, *, is_committed: bool) -> None:
        """End the doubt about a batch: remove its messages here, or return them to the queue.

        ``is_committed`` is True if the partner has the messages. They are then removed.
        """
        channel_states, name = self._manager.channel_states, self._definition.name
        channel_states.resolve(name, self._batch, is_committed=is_committed)

    def take(self) -> bool:
        """Take messages for the batch; return True when the queue has no more for it.

        False means that the batch is full. Raises MQRC_GET_INHIBITED.
        """
        assert self._agreed is not None
        manager, remote = self._manager, self._agreed
        capacity = min(remote.batch_size, manager_definition(manager).maxumsgs)
        # MAXUMSGS may be less than what an open batch has by now.
        capacity = max(capacity - len(self._taken), 0)
        if not self._taken:
            self._begun_ms = manager.now_ms()
        found = self._batch.take(capacity)
        self._taken += found
        return len(found) < capacity

    def open_until_ms(self) -> int | None:
        """Return until when the batch stays open for more messages (BATCHINT), in ms since 1970.

        None if no message is taken.
        """
        if not self._taken:
            return None
        return self._begun_ms + self._definition.batchint

    def send(self) -> int | None:
        """Send the batch; return None when it is committed.

        Otherwise return the ms to wait before :meth:`go_on`: the partner is to repeat a failed put.
        Expired messages are discarded. Raises LinkDown or the MQError of the receiver.
        """
        assert self._link is not None
        now_ms = self._manager.now_ms()
        is_fast_channel = self._definition.npmspeed == MQNPMS_FAST
        envelopes = self._envelopes(now_ms, is_fast_channel=is_fast_channel)
        if is_fast_channel:
            # Fast messages are never sent twice; the others may have to wait.
            self._batch.end_volatile()
            envelopes.sort(key=lambda envelope: not envelope.is_fast)
        if not envelopes:
            self._taken = []
            return None
        self.message_count += len(envelopes)
        self.last_message_ms = now_ms
        if all(envelope.life_ms is None for envelope in envelopes):
            # No life is to be shortened: one call is enough.
            self._transit_ms = 0
            return self._after(self._link.send(envelopes))
        asked_ms = self._manager.now_ms()
        had_ms = self._link.send_to_keep(envelopes)
        # Measured with each batch, and before its lives are fixed there: a link changes (E7).
        round_trip_ms = self._manager.now_ms() - asked_ms
        self._transit_ms = asked_ms - now_ms + transit_ms(round_trip_ms, had_ms)
        return self._after(self._link.go_on(self._transit_ms))

    def go_on(self) -> int | None:
        """Let the partner repeat a failed put of the batch; return None when it is committed.

        Otherwise return the ms to wait before the next call. Errors are those of :meth:`send`.
        """
        assert self._link is not None
        return self._after(self._link.go_on(self._transit_ms))

    def ping(self) -> None:
        """Check that the partner answers; return nothing.

        Raises LinkDown without an answer, or the MQError by which the partner refuses.
        """
        assert self._link is not None
        self._link.ping(self._definition.name)

    def close(self) -> None:
        """End the connection; messages that are not in doubt return to their queue."""
        if self._link is not None:
            end_link(self._link)
        self._taken = []
        if not self.state.doubt_luw and len(self._batch):
            self._batch.give_back()

    def keep_doubt(self) -> None:
        """Leave a batch in doubt to the next sender of the channel; call it after :meth:`close`.

        Does nothing without a batch in doubt.
        """
        if self.state.doubt_luw:
            self._manager.channel_states.keep(self._definition.name, self._batch)

    def _after(self, wait_ms: int | None) -> int | None:
        """Commit the batch if ``wait_ms`` is None (all messages are put); return ``wait_ms``."""
        if wait_ms is None:
            self._confirm()
        return wait_ms

    def _confirm(self) -> None:
        """Have the partner commit a batch that it has put, then remove the messages here.

        The name, sequence number and message keys of the batch are made durable before. From then
        on an error leaves the batch in doubt; the partner tells at the next start whether it has
        committed. Fast messages (NPMSPEED) are no part of the batch.
        """
        assert self._link is not None
        batch, manager = self._batch, self._manager
        if len(batch):
            state, wrap = self.state, self._definition.seqwrap
            sequence = (state.sequence + len(batch) - 1) % wrap + 1
            unique = new_message_id(manager)[_UNIQUE_FROM:]
            luw = luw_name(manager.ledger.instance_id, unique)
            doubt = state._replace(
                doubt_sequence=sequence, doubt_luw=luw, doubt_keys=batch.packed_keys()
            )
            manager.channel_states.save(doubt)
            self._link.confirm(luw, sequence)
            self.resolve(is_committed=True)
        self._taken = []
        self.batch_count += 1

    def _envelopes(self, now_ms: int, *, is_fast_channel: bool) -> list[Envelope]:
        """Return the taken messages in the form in which they are sent.

        With ``is_fast_channel`` non-persistent messages travel outside of the batch. Expired
        messages are discarded here, and messages that cannot be sent become dead letters. Raises
        the MQError of one that can be neither sent nor moved away.
        """
        envelopes, largest = list[Envelope](), self._max_message_bytes()
        for row in self._taken:
            try:
                envelope = _envelope_of(row, now_ms, is_fast_channel=is_fast_channel)
                if len(envelope.body) > largest:
                    text = f"{len(envelope.body)} bytes for {self._definition.name}"
                    raise mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, text)
            except MQError as error:
                self._set_aside(
                    _undecodable_envelope(row, now_ms, self._batch.queue.name), row, error
                )
                continue
            if envelope.life_ms == 0:
                self._batch.discard(row.k, original_of(envelope))
            else:
                envelopes.append(envelope)
        return envelopes

    def _set_aside(self, envelope: Envelope, row: StoredMessage, error: MQError) -> None:
        """Move a message that cannot be sent to the dead-letter queue, or discard it with a report.

        ``envelope`` is the message as it travels, ``row`` as it is stored; ``error`` is why it
        cannot be sent. Raises ``error`` if neither is possible.
        """
        refused = refused_envelope(self._manager, self._definition, envelope)
        self._batch.set_aside(row.k, refused, error)

    def _max_message_bytes(self) -> int:
        """Return the longest message, in bytes, that both ends allow.

        Before the negotiation only this end counts.
        """
        own = self._definition.maxmsgl
        largest = own or manager_definition(self._manager).maxmsgl
        return largest if self._agreed is None else min(largest, self._agreed.max_message_bytes)


def _envelope_of(row: StoredMessage, now_ms: int, *, is_fast_channel: bool) -> Envelope:
    """Return a message as it is sent now; ``life_ms`` is its remaining time to live, 0 if expired.

    With ``is_fast_channel`` a non-persistent message travels outside of the batch. The message has
    one expiry outside and one inside the transmission header (MQXQH): the shorter one counts.
    Raises the MQError of a transmission header that cannot be read.
    """
    embedded = out_of_transit(row, now_ms)
    is_fast = is_fast_channel and unpack_descriptor(row.descriptor).persistence != MQPER_PERSISTENT
    return Envelope(
        embedded.remote.queue,
        embedded.remote.manager,
        embedded.descriptor,
        embedded.msg_id,
        embedded.correl_id,
        shorter_life_ms(remaining_ms(row.expire_at_ms, now_ms), embedded.expiry_tenths),
        embedded.body,
        is_fast,
    )


def _undecodable_envelope(row: StoredMessage, now_ms: int, queue: str) -> Envelope:
    """Return a message with an unreadable transmission header in the form for a dead letter.

    Header and body stay together. The Expiry in the header, if it has one, is set to the remaining
    time to live.
    """
    row = seen_in_transit(row, now_ms)
    return Envelope(
        queue,
        "",
        unpack_descriptor(row.descriptor),
        row.msg_id,
        row.correl_id or bytes(24),
        remaining_ms(row.expire_at_ms, now_ms),
        row.body,
        False,
    )


class _Retries:
    """The retries of a sender that are left since its last success."""

    def __init__(self, definition: ChannelDefinition) -> None:
        """Begin with all retries of the definition."""
        self.renew(definition)

    def renew(self, definition: ChannelDefinition) -> None:
        """Restore all retries of SHORTRTY and LONGRTY, after a success or a start."""
        self._definition = definition
        self.short_left = definition.shortrty
        self.long_left = definition.longrty

    def next_wait_ms(self) -> int | None:
        """Use up one retry and return how many ms to wait before it; None when none is left."""
        if self.short_left:
            self.short_left -= 1
            return ms_of_seconds(self._definition.shorttmr)
        if self.long_left:
            self.long_left -= 1
            return ms_of_seconds(self._definition.longtmr)
        return None


class _OpenTransmissionQueue(Arrivals):
    """A transmission queue, open for its sender alone, that notes arriving messages."""

    def __init__(self, manager: Engine, name: str) -> None:
        """Open the queue; raises the MQError of an open that fails."""
        super().__init__(manager)
        #: As the channel's definition names the queue.
        self.name = name
        self._session = manager.session(program=PROGRAM)
        try:
            queue = open_transmission_queue(self._session, name).queue
        except BaseException:
            self._session.close()
            raise
        self.watch(queue)

    def close(self) -> None:
        """Stop watching the queue and close it."""
        self.end()
        self._session.close()


# The status of a channel, as DISPLAY CHSTATUS shows it


class ChannelState(StrEnum):
    """The states of a channel."""

    #: Not started, or ended after DISCINT without work.
    INACTIVE = "INACTIVE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    #: Waits before it connects or sends again after a failure.
    RETRYING = "RETRYING"
    #: Waits before a put is tried again at the receiver (MRTMR).
    PAUSED = "PAUSED"
    #: Ends the batch under way before it stops.
    STOPPING = "STOPPING"
    #: Ended by STOP CHANNEL, after all retries, or by an error that no retry would resolve. Only
    #: START CHANNEL starts it again, also after a restart of its queue manager.
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatus:
    """The attributes of one channel at one moment; those with a default are of a sender alone.

    ``message_count`` and ``batch_count`` count from the start of the channel. ``last_message_ms``
    is when the last message was handed over, ms since 1970, None without one. ``sequence`` and
    ``luw`` are those of the last batch that both sides have committed, ``current_*`` those of a
    batch in doubt, otherwise the same. ``failure`` is the reason of a retry or stop.
    ``heartbeat_s`` is the interval agreed by both sides. It and the bytes are 0 while the channel
    is not connected; the bytes are 0 within a process.
    """

    name: str
    is_sender: bool
    status: ChannelState
    connection: str
    partner: str
    transmission_queue: str = ""
    message_count: int
    batch_count: int
    last_message_ms: int | None
    sequence: int
    current_sequence: int
    luw: str
    current_luw: str
    is_in_doubt: bool = False
    short_retries_left: int = 0
    long_retries_left: int = 0
    failure: str = ""
    heartbeat_s: int
    sent_bytes: int
    received_bytes: int

"""A sender channel from START to STOP, and its batches, each at its partner exactly once.

The clock drives it, and it works when there is work: a put on the transmission queue, the end of a
wait or a command makes it due. The machine's clock runs it on a thread of its own, a virtual one at
once and in order.

A batch goes in steps, and after each of them the disk holds enough to go on from there:

1. its messages are taken off the queue, hidden but still in the store, and handed over;
2. its name, sequence number and keys are made durable here: it is in doubt;
3. the partner commits it together with its name;
4. the messages and the doubt end here in one transaction.

Cut before 2, both sides have it as it was. Cut later, the partner's answer at the next start
decides: it is committed there or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.channel.links import (
    NO_TRAFFIC,
    PROGRAM,
    Link,
    end_link,
    luw_name,
    original_of,
    refused_envelope,
)
from mayfly.channel.status import ChannelStatus, Status
from mayfly.engine import Arrivals, Engine, find_channel, manager_definition, new_message_id
from mayfly.engine.api.transit import (
    ChannelDefinition,
    Shipment,
    open_transmission_queue,
    out_of_transit,
    seen_in_transit,
)
from mayfly.lifetime.times import ms_of_seconds
from mayfly.lifetime.transmission import shorter_life_ms, transit_ms
from mayfly.lifetime.window import remaining_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQNPMS_FAST, MQPER_PERSISTENT
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.channels import INACTIVE, STARTED, STOPPED, ChannelRow
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.channels import Envelope, Opening, ReceiverState

_LOG = logging.getLogger("mayfly.channel")

Connect = Callable[[ChannelDefinition], Link]
#: Errors that a retry may mend; any other is a mistake in a program, and stops the channel.
_MAY_PASS = (OSError, MQError)
#: The part of a MsgId that no two have: it names a batch.
_UNIQUE_FROM = 16
_MS_PER_S = 1_000


class RunningChannel:
    """One sender channel of a queue manager, which its clock drives; it begins inactive.

    Raises MQRC_UNKNOWN_OBJECT_NAME.
    """

    def __init__(self, manager: Engine, name: str, connect: Connect) -> None:
        self._manager = manager
        self._name = name
        self._connect = connect
        self._definition = find_channel(manager, name)
        self._retries = _Retries(self._definition)
        self._sender: Sender | None = None
        self._intake: _OpenTransmissionQueue | None = None
        self._link: Link | None = None
        #: Held during a turn; a wake in the midst of a turn leaves the work to that turn.
        self._working = manager.runtime.lock("channel")
        self._stop_wanted = False
        #: When its wait ends; since when it has had nothing to send, and has not spoken.
        self._due_ms = self._idle_ms = self._silent_ms = 0
        self.status = Status.STOPPED if self._state.is_stopped else Status.INACTIVE
        self._failure = ""

    @property
    def is_idle(self) -> bool:
        """Whether it is inactive or stopped."""
        return self.status in (Status.INACTIVE, Status.STOPPED)

    @property
    def is_woken(self) -> bool:
        """Whether messages have come that it has not looked for."""
        intake = self._intake
        return self.status is Status.RUNNING and intake is not None and intake.has_work

    def start(self) -> None:
        """Begin to run, or retry at once; the clock makes the attempt to reach the partner.

        Raises MQRC_UNKNOWN_OBJECT_NAME; MQRC_STORAGE_MEDIUM_FULL, and it stays as it was.
        """
        manager = self._manager
        with self._working:
            self._definition = find_channel(manager, self._name)
            if not self._state.is_started:
                manager.shipments.save(self._state._replace(wanted=STARTED))
            self._due_ms, self._stop_wanted = manager.now_ms(), False
            if self.is_idle:
                self._let_sender_go()
                self._retries.renew(self._definition)
                self.status, self._failure = Status.STARTING, ""
                manager.clock.attach(self)
        manager.clock.wake(self)

    def stop(self, *, is_forced: bool = False) -> None:
        """End after the batch under way, or cut it off, what is in doubt staying so."""
        self._stop_wanted = True
        link = self._link
        if is_forced and link is not None:
            end_link(link)
        if self.is_idle:
            with self._working:
                # It may have been started meanwhile.
                self._end(Status.STOPPED)
        else:
            self._manager.clock.wake(self)

    def close(self) -> None:
        """End with the queue manager, to go on when that is opened again."""
        self._manager.clock.detach(self)
        with self._working:
            if not self.is_idle:
                self._end(Status.INACTIVE)

    def resolve(self, *, is_committed: bool) -> None:
        """Settle a batch in doubt as an operator knows it.

        Raises MQRC_OBJECT_IN_USE while the channel runs, MQRC_CHANNEL_CONFIG_ERROR when nothing is
        in doubt.
        """
        with self._working:
            self._check_resting()
            if not self._state.doubt_luw:
                said = f"channel {self._name} has no batch in doubt"
                raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, said)
            if self._sender is None:
                self._sender = Sender(self._manager, self._definition)
            self._sender.resolve(is_committed=is_committed)

    def reset(self, sequence: int) -> None:
        """Set the number of the next message.

        Raises MQRC_OBJECT_IN_USE while the channel runs, MQRC_CHANNEL_CONFIG_ERROR when a batch is
        in doubt.
        """
        # A turn under way would save what it knew before, or lose its doubt to this.
        with self._working:
            self._check_resting()
            state = self._state
            if state.doubt_luw:
                said = f"channel {self._name} has a batch in doubt: RESOLVE CHANNEL first"
                raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, said)
            self._manager.shipments.save(state._replace(sequence=sequence - 1, is_reset=1))

    def _check_resting(self) -> None:
        """Raise MQRC_OBJECT_IN_USE while the channel is connected."""
        if self.status in (Status.RUNNING, Status.PAUSED):
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {self._name} is {self.status}")

    def next_due_ms(self) -> int | None:
        """Return the clock's time of its next turn, None when it waits for messages alone.

        None also while a turn is under way: it goes on by itself.
        """
        due_ms = None if self._working.locked() else self._next_ms()
        return None if due_ms is None else due_ms - self._manager.ahead_ms

    def run_due(self) -> None:
        while self._is_due() and self._working.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self._working.release()

    def standing(self) -> ChannelStatus:
        state, sender, definition = self._state, self._sender, self._definition
        is_in_doubt, link = bool(state.doubt_luw), self._link
        traffic = NO_TRAFFIC if link is None else link.traffic()
        is_stopping = self._stop_wanted and not self.is_idle
        return ChannelStatus(
            name=self._name,
            is_sender=True,
            status=Status.STOPPING if is_stopping else self.status,
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
        return self._manager.shipments.state(self._name)

    def _is_due(self) -> bool:
        due_ms = self._next_ms()
        return due_ms is not None and due_ms <= self._manager.now_ms()

    def _next_ms(self) -> int | None:
        if self.is_idle:
            return None
        if self._stop_wanted or self.is_woken:
            return self._manager.now_ms()
        if self.status is not Status.RUNNING:
            return self._due_ms
        open_until_ms = None if self._sender is None else self._sender.open_until_ms()
        if open_until_ms is not None:
            return open_until_ms
        definition = self._definition
        moments = (
            _end_of(definition.discint, self._idle_ms),
            _end_of(definition.hbint, self._silent_ms),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def _turn(self) -> None:
        try:
            if self._stop_wanted:
                self._end(Status.STOPPED)
            elif self.status in (Status.STARTING, Status.RETRYING):
                self._connect_sender()
            elif self.status is Status.PAUSED:
                assert self._sender is not None
                self._note_sent(self._sender.go_on())
            else:
                self._move()
        except Exception as error:  # noqa: BLE001 - a link is not ours; nobody else would hear of it
            self._fail(error)
        except BaseException as error:
            # Interrupted in its midst, the batch must not be handed over a second time.
            self._fail(error)
            raise

    def _connect_sender(self) -> None:
        definition = self._definition = find_channel(self._manager, self._name)
        transmission_queue = definition.xmitq
        if self._intake is not None and self._intake.name != transmission_queue:
            self._let_sender_go()
            self._let_queue_go()
        if self._intake is None:
            self._intake = _OpenTransmissionQueue(self._manager, transmission_queue)
        if self._sender is None:
            self._sender = Sender(self._manager, self._definition)
        self._link = self._connect(definition)
        self._sender.connect(self._link)
        self._failure = ""
        self._intake.has_work = True
        self._note_sent(None)

    def _move(self) -> None:
        """Take what has come and, when the batch is full or its time is over, send it."""
        sender, intake, now_ms = self._sender, self._intake, self._manager.now_ms()
        assert sender is not None
        assert intake is not None
        if intake.has_work:
            # Reset before the look: a put during the look sets it again.
            intake.has_work = False
            if not sender.take():
                intake.has_work = True
        elif sender.open_until_ms() is None:
            self._rest(now_ms)
        open_until_ms = sender.open_until_ms()
        if open_until_ms is not None and (intake.has_work or open_until_ms <= now_ms):
            self._note_sent(sender.send())

    def _note_sent(self, wait_ms: int | None) -> None:
        now_ms = self._manager.now_ms()
        if wait_ms is None:
            self.status = Status.RUNNING
            self._retries.renew(self._definition)
            self._idle_ms = self._silent_ms = now_ms
        else:
            self.status, self._due_ms = Status.PAUSED, now_ms + wait_ms

    def _rest(self, now_ms: int) -> None:
        """Nothing to send: disconnect after DISCINT, else ask whether the partner is there."""
        disconnect_ms = _end_of(self._definition.discint, self._idle_ms)
        if disconnect_ms is not None and disconnect_ms <= now_ms:
            self._note(INACTIVE)
            self._end(Status.INACTIVE)
            return
        assert self._sender is not None
        self._sender.ping()
        self._silent_ms = now_ms

    def _fail(self, error: BaseException) -> None:
        """Retry, or stop: on demand, without retries left, or for what no retry would mend."""
        is_mistake = isinstance(error, Exception) and not isinstance(error, _MAY_PASS)
        self._failure = repr(error) if is_mistake else str(error)
        trace = error if is_mistake else None
        _LOG.warning("channel %s: %s", self._name, self._failure, exc_info=trace)
        self._disconnect()
        is_over = self._stop_wanted or is_mistake
        wait_ms = None if is_over else self._retries.next_wait_ms()
        if self._manager.is_stopped:
            self._end(Status.INACTIVE)
        elif wait_ms is None:
            self._end(Status.STOPPED)
        else:
            self.status, self._due_ms = Status.RETRYING, self._manager.now_ms() + wait_ms

    def _end(self, status: Status) -> None:
        self._disconnect()
        self._let_queue_go()
        # A STOP that comes while it ends otherwise counts.
        self.status = Status.STOPPED if self._stop_wanted else status
        if self.status is Status.STOPPED:
            self._note(STOPPED)
        self._manager.clock.detach(self)

    def _disconnect(self) -> None:
        self._link = None
        try:
            if self._sender is not None:
                self._sender.close()
        except MQError as error:
            # Persistent messages are still on the disk; the next start finds them there.
            _LOG.error("channel %s: messages not given back: %s", self._name, error)

    def _let_sender_go(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.hand_over()

    def _let_queue_go(self) -> None:
        intake, self._intake = self._intake, None
        if intake is not None:
            intake.close()

    def _note(self, wanted: int) -> None:
        """Remember how it has ended for when its queue manager is opened again."""
        try:
            self._manager.shipments.save(self._state._replace(wanted=wanted))
        except MQError as error:
            _LOG.error("channel %s would start with its queue manager: %s", self._name, error)


def _end_of(seconds: int, since_ms: int) -> int | None:
    """Return when an interval ends, None for one of 0 s: it has no end."""
    return since_ms + ms_of_seconds(seconds) if seconds else None


class Sender:
    """One channel's connection to its partner, from the negotiation to a failure or the end."""

    def __init__(self, manager: Engine, definition: ChannelDefinition) -> None:
        """Take over what the last run has left in doubt; the queue is open for this sender."""
        self._manager = manager
        self._definition = definition
        self._xmitq = definition.xmitq
        self._shipment: Shipment = manager.shipments.claimed(definition.name, self._xmitq)
        self._link: Link | None = None
        self._standing: ReceiverState | None = None
        self._taken: list[StoredMessage] = []
        self._begun_ms = self._transit_ms = 0
        self.message_count = self.batch_count = 0
        self.last_message_ms: int | None = None

    @property
    def state(self) -> ChannelRow:
        """The sequence numbers and the batch in doubt, as they are on the disk."""
        return self._manager.shipments.state(self._definition.name)

    @property
    def partner(self) -> str:
        """The name of the queue manager at the other end, empty before the negotiation."""
        return "" if self._standing is None else self._standing.manager

    @property
    def heartbeat_s(self) -> int:
        """How often the partner hears of it at least: seldom while a batch stays open."""
        heartbeat_s = self._definition.hbint
        held_s = -(-self._definition.batchint // _MS_PER_S)
        return heartbeat_s + held_s if heartbeat_s else 0

    def connect(self, link: Link) -> None:
        """Negotiate, and settle what is in doubt as the partner tells it.

        Raises LinkDown; MQRC_CHANNEL_CONFIG_ERROR when the sequence numbers differ, and whatever
        the partner refuses it for.
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
        standing = link.negotiate(opening)
        if state.doubt_luw and standing.luw == state.doubt_luw:
            self.resolve(is_committed=True)
        expected = self.state.sequence
        if standing.sequence != expected:
            # This partner has another history: it cannot prove that a batch in doubt is not there.
            said = f"{standing.manager} has committed up to {standing.sequence}, not {expected}"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"sequence number of {name}: {said}")
        if self.state.doubt_luw:
            self.resolve(is_committed=False)
        if not self._shipment.is_from(self._xmitq):
            # XMITQ was altered while a batch was in doubt.
            self._shipment = self._manager.shipments.claimed(name, self._xmitq)
        if state.is_reset:
            self._manager.shipments.save(state._replace(is_reset=0))
        self._standing = standing

    def resolve(self, *, is_committed: bool) -> None:
        """End the doubt: the messages are at the partner, or go back to their places."""
        shipments, name = self._manager.shipments, self._definition.name
        shipments.resolve(name, self._shipment, is_committed=is_committed)

    def take(self) -> bool:
        """Take what is there for the batch; True when the queue holds no more for it."""
        assert self._standing is not None
        manager, standing = self._manager, self._standing
        room = min(standing.batch_size, manager_definition(manager).maxumsgs)
        # MAXUMSGS may be less than what an open batch has by now.
        room = max(room - len(self._taken), 0)
        if not self._taken:
            self._begun_ms = manager.now_ms()
        found = self._shipment.take(room)
        self._taken += found
        return len(found) < room

    def open_until_ms(self) -> int | None:
        """Return until when a batch stays open for more messages (BATCHINT); None: none is."""
        if not self._taken:
            return None
        return self._begun_ms + self._definition.batchint

    def send(self) -> int | None:
        """Hand the batch over; returns in how many ms to :meth:`go_on`, None when it is done."""
        assert self._link is not None
        now_ms = self._manager.now_ms()
        is_fast_channel = self._definition.npmspeed == MQNPMS_FAST
        envelopes = self._envelopes(now_ms, is_fast_channel=is_fast_channel)
        if is_fast_channel:
            # Not twice, come what may; the others may wait for what the batch meets.
            self._shipment.end_volatile()
            envelopes.sort(key=lambda envelope: not envelope.is_fast)
        if not envelopes:
            self._taken = []
            return None
        self.message_count += len(envelopes)
        self.last_message_ms = now_ms
        if all(envelope.life_ms is None for envelope in envelopes):
            # Nothing is to be shortened: one call does.
            self._transit_ms = 0
            return self._after(self._link.send(envelopes))
        asked_ms = self._manager.now_ms()
        had_ms = self._link.hand_over(envelopes)
        # Measured with each batch, and before its lives are fixed there: a link changes (E7).
        round_trip_ms = self._manager.now_ms() - asked_ms
        self._transit_ms = asked_ms - now_ms + transit_ms(round_trip_ms, had_ms)
        return self._after(self._link.go_on(self._transit_ms))

    def go_on(self) -> int | None:
        """Let the partner try again; as :meth:`send`."""
        assert self._link is not None
        return self._after(self._link.go_on(self._transit_ms))

    def ping(self) -> None:
        """Raise LinkDown, or the partner's refusal, unless it answers."""
        assert self._link is not None
        self._link.ping(self._definition.name)

    def close(self) -> None:
        """End the connection; messages that are not in doubt go back to their places."""
        if self._link is not None:
            end_link(self._link)
        self._taken = []
        if not self.state.doubt_luw and len(self._shipment):
            self._shipment.give_back()

    def hand_over(self) -> None:
        """Leave what is in doubt, after :meth:`close`, to the sender that comes next."""
        if self.state.doubt_luw:
            self._manager.shipments.keep(self._definition.name, self._shipment)

    def _after(self, wait_ms: int | None) -> int | None:
        if wait_ms is None:
            self._confirm()
        return wait_ms

    def _confirm(self) -> None:
        """Steps 2 to 4 for what is part of the batch."""
        assert self._link is not None
        shipment, manager = self._shipment, self._manager
        if len(shipment):
            state, wrap = self.state, self._definition.seqwrap
            sequence = (state.sequence + len(shipment) - 1) % wrap + 1
            unique = new_message_id(manager)[_UNIQUE_FROM:]
            luw = luw_name(manager.ledger.instance_id, unique)
            doubt = state._replace(
                doubt_sequence=sequence, doubt_luw=luw, doubt_keys=shipment.packed_keys()
            )
            manager.shipments.save(doubt)
            self._link.confirm(luw, sequence)
            self.resolve(is_committed=True)
        self._taken = []
        self.batch_count += 1

    def _envelopes(self, now_ms: int, *, is_fast_channel: bool) -> list[Envelope]:
        """Return what is taken as it is sent, but for what ends here instead.

        Raises why a message can end nowhere.
        """
        envelopes, largest = list[Envelope](), self._max_message_bytes()
        for row in self._taken:
            try:
                envelope = _envelope_of(row, now_ms, is_fast_channel=is_fast_channel)
                if len(envelope.body) > largest:
                    said = f"{len(envelope.body)} bytes for {self._definition.name}"
                    raise mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, said)
            except MQError as error:
                self._set_aside(_as_it_stands(row, now_ms, self._shipment.queue.name), row, error)
                continue
            if envelope.life_ms == 0:
                self._shipment.discard(row.k, original_of(envelope))
            else:
                envelopes.append(envelope)
        return envelopes

    def _set_aside(self, envelope: Envelope, row: StoredMessage, error: MQError) -> None:
        refused = refused_envelope(self._manager, self._definition, envelope)
        self._shipment.set_aside(row.k, refused, error)

    def _max_message_bytes(self) -> int:
        own = self._definition.maxmsgl
        largest = own or manager_definition(self._manager).maxmsgl
        return largest if self._standing is None else min(largest, self._standing.max_message_bytes)


def _envelope_of(row: StoredMessage, now_ms: int, *, is_fast_channel: bool) -> Envelope:
    """Return a message as it is sent now; ``life_ms`` 0 when its life has elapsed (E26).

    Of the lives outside and inside the MQXQH the shorter one counts. Raises as ``out_of_transit``.
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


def _as_it_stands(row: StoredMessage, now_ms: int, queue: str) -> Envelope:
    """Return a message that no channel can move, as it stands on its transmission queue.

    The Expiry in its MQXQH, if it has one, is what is left (E24).
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
    """Counts the retries of a sender since its last success."""

    def __init__(self, definition: ChannelDefinition) -> None:
        self.renew(definition)

    def renew(self, definition: ChannelDefinition) -> None:
        """Count all of SHORTRTY and LONGRTY again: the channel has succeeded, or was started."""
        self._definition = definition
        self.short_left = definition.shortrty
        self.long_left = definition.longrty

    def next_wait_ms(self) -> int | None:
        """Return how long to wait before the next one; None when there is none left."""
        if self.short_left:
            self.short_left -= 1
            return ms_of_seconds(self._definition.shorttmr)
        if self.long_left:
            self.long_left -= 1
            return ms_of_seconds(self._definition.longtmr)
        return None


class _OpenTransmissionQueue(Arrivals):
    """A transmission queue, open for its sender alone, that notes when something arrives."""

    def __init__(self, manager: Engine, name: str) -> None:
        """Open it; raises as ``open_transmission_queue``."""
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
        self.end()
        self._session.close()

"""A sender channel from START to STOP: driven by the clock, it works when there is work.

Nothing polls: a put on the transmission queue, the end of a wait or a command makes it due. The
machine's clock runs it on a thread of its own, a virtual one at once and in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.channel.links import NO_TRAFFIC, Link, end_link
from mayfly.channel.retries import Retries
from mayfly.channel.sender import Sender
from mayfly.channel.status import ChannelStatus, Status
from mayfly.channel.transmission_queue import OpenTransmissionQueue
from mayfly.engine import Engine, find_channel
from mayfly.engine.face.transit import ChannelDefinition
from mayfly.lifetime.times import ms_of_seconds
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.channels import INACTIVE, STARTED, STOPPED, ChannelRow

_LOG = logging.getLogger("mayfly.channel")

Connect = Callable[[ChannelDefinition], Link]
#: Errors that a retry may mend; any other is a mistake in a program, and stops the channel.
_MAY_PASS = (OSError, MQError)


class RunningChannel:
    """One sender channel of a queue manager, driven by its clock."""

    def __init__(self, manager: Engine, name: str, connect: Connect) -> None:
        """Begin inactive; raises MQRC_UNKNOWN_OBJECT_NAME."""
        self._manager = manager
        self._name = name
        self._connect = connect
        self._definition = find_channel(manager, name)
        self._retries = Retries(self._definition)
        self._sender: Sender | None = None
        self._intake: OpenTransmissionQueue | None = None
        self._link: Link | None = None
        #: Held by whoever works; a wake in the midst of it leaves the work to that one.
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
                # Somebody may have started it meanwhile.
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
            self.check_resting()
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
            self.check_resting()
            state = self._state
            if state.doubt_luw:
                said = f"channel {self._name} has a batch in doubt: RESOLVE CHANNEL first"
                raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, said)
            self._manager.shipments.save(state._replace(sequence=sequence - 1, is_reset=1))

    def check_resting(self) -> None:
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
        """Do all that is due now."""
        while self._is_due() and self._working.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self._working.release()

    def standing(self) -> ChannelStatus:
        """Return how the channel stands."""
        state, sender, definition = self._state, self._sender, self._definition
        is_in_doubt, link = bool(state.doubt_luw), self._link
        traffic = NO_TRAFFIC if link is None else link.traffic()
        return ChannelStatus(
            name=self._name,
            is_sender=True,
            status=Status.STOPPING if self._is_stopping else self.status,
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
    def _is_stopping(self) -> bool:
        return self._stop_wanted and not self.is_idle

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
            self._intake = OpenTransmissionQueue(self._manager, transmission_queue)
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
    """Return when an interval ends; 0 is for ever."""
    return since_ms + ms_of_seconds(seconds) if seconds else None

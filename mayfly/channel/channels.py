"""The channels of a queue manager, and the links by which senders reach those it receives by.

A sender in another process may die and send no word of it. Its unconfirmed messages are backed out
when its connection is lost, when it comes again, when its channel is stopped, or once it has been
silent for too long.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mayfly.channel.links import NO_TRAFFIC, Link, LinkDown, Traffic, end_link, is_batch_of
from mayfly.channel.receiver import GONE, Caller, Receiver
from mayfly.channel.sender import Connect, RunningChannel
from mayfly.channel.status import ChannelStatus, Status
from mayfly.engine import Engine, find_channel, manager_definition
from mayfly.engine.api.transit import ChannelDefinition, channel_definitions
from mayfly.lifetime.transmission import silence_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCHT_RECEIVER, MQCHT_SENDER, MQCHT_SVRCONN
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.channels import INACTIVE, STOPPED, ChannelRow
from mayfly.verbs.contracts.channels import Envelope, Opening, ReceiverState

#: The channels of the open queue managers of this process, some of which may have one name.
_OPEN: weakref.WeakSet[Channels] = weakref.WeakSet()
_OPENING = threading.Lock()
#: Weak on both sides: channels know their queue manager, which would keep the key alive.
_OF_MANAGERS: weakref.WeakKeyDictionary[Engine, weakref.ref[Channels]] = weakref.WeakKeyDictionary()
#: The types of channels that others open, and that a stop closes to them.
_ACCEPTING = (MQCHT_RECEIVER, MQCHT_SVRCONN)


def connect_local(definition: ChannelDefinition) -> Link:
    """Return a link to the queue manager of this process that CONNAME names; raises LinkDown."""
    found = _open_one(definition.conname)
    if found is None:
        raise LinkDown(f"queue manager {definition.conname!r} is not open in this process")
    return LocalLink(found)


def _open_one(name: str) -> Channels | None:
    """Return the channels of an open queue manager; raises LinkDown when two have its name."""
    if len(_all_open(name)) > 1:
        # A queue manager without references that was not closed does not count.
        gc.collect()
    found = _all_open(name)
    if len(found) > 1:
        raise LinkDown(f"{len(found)} queue managers named {name!r} are open in this process")
    return found[0] if found else None


def _all_open(name: str) -> list[Channels]:
    with _OPENING:
        return [channels for channels in _OPEN if channels.is_of(name)]


def channels_of(manager: Engine) -> Channels:
    channels = _OF_MANAGERS[manager]()
    assert channels is not None
    return channels


class Channels:
    """Starts, stops and shows the channels of one queue manager; any thread may call it."""

    def __init__(self, manager: Engine, connect: Connect = connect_local) -> None:
        """Begin with none running; :meth:`restart` starts those that ran when it was last open.

        ``connect`` makes the link of a sender as TRPTYPE says; raises LinkDown and MQError.
        """
        self.manager = manager
        #: Makes the link of a sender from its definition.
        self.connect = connect
        self._senders: dict[str, RunningChannel] = {}
        self._receivers: dict[tuple[str, str], Receiver] = {}
        self._accepting = manager.runtime.reentrant_lock("channels")
        #: The links of senders in other processes.
        self.incoming = IncomingLinks(self)
        manager.on_wake.append(self._wake)
        with _OPENING:
            _OPEN.add(self)
        _OF_MANAGERS[manager] = weakref.ref(self)

    def start(self, name: str) -> None:
        """Start a sender, or let a stopped receiver, or a channel of clients, accept again.

        Whether the partner can be reached turns out afterwards: see :meth:`status`. Raises
        MQRC_UNKNOWN_OBJECT_NAME, MQRC_STORAGE_MEDIUM_FULL.
        """
        if self._definition(name).chltype in _ACCEPTING:
            with self._accepting:
                if self.is_stopped(name):
                    self._note_receiver(name, INACTIVE)
        else:
            self._sender(name).start()

    def start_triggered(self, name: str) -> None:
        """Start a sender for a trigger message of its transmission queue, unless it was stopped.

        Messages that a stop leaves there would trigger the channel at once. Raises as
        :meth:`start`, and MQRC_CHANNEL_CONFIG_ERROR for a receiver.
        """
        self._definition_of_sender(name)
        sender = self._sender(name)
        if sender.status is not Status.STOPPED:
            sender.start()

    def stop(self, name: str, *, is_forced: bool = False) -> None:
        """Stop a channel: behind the batch under way, or by force, which cuts it off.

        A receiver is cut off either way; its sender finds out, and retries. A channel of clients
        takes no more of them. All stay stopped when the queue manager is opened again. Raises
        MQRC_UNKNOWN_OBJECT_NAME; MQRC_STORAGE_MEDIUM_FULL, and then a channel that is no sender
        stays as it was.
        """
        if self._definition(name).chltype in _ACCEPTING:
            with self._accepting:
                self._note_receiver(name, STOPPED)
                self._cut_off(name)
        else:
            self._sender(name).stop(is_forced=is_forced)

    def status(self, name: str) -> list[ChannelStatus]:
        """Return how a channel stands: one entry for a sender, one for each sender of a receiver.

        Raises MQRC_UNKNOWN_OBJECT_NAME.
        """
        if self._definition(name).chltype == MQCHT_SENDER:
            return [self._sender(name).standing()]
        states = {
            state.partner: state
            for state in self.manager.shipments.states()
            if state.name == name and not state.is_sender
        }
        with self._accepting:
            receivers = {p: r for (channel, p), r in self._receivers.items() if channel == name}
        # Of one that has committed nothing yet, only the receiver itself knows.
        states = {partner: receiver.state for partner, receiver in receivers.items()} | states
        if len(states) > 1 or not self.is_stopped(name):
            # It is about the channel, and tells nothing that the others do not.
            states.pop("", None)
        return [
            self._receiver_status(states[partner], receivers.get(partner))
            for partner in sorted(states)
        ]

    def resolve(self, name: str, *, is_committed: bool) -> None:
        """Settle a sender's batch in doubt without its partner: it is there, or is to go again.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE, MQRC_CHANNEL_CONFIG_ERROR.
        """
        self._definition_of_sender(name)
        self._sender(name).resolve(is_committed=is_committed)

    def reset(self, name: str, sequence: int = 1) -> None:
        """Set the number of the next message; a sender tells its receiver when it starts.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE for a channel that is connected, and
        MQRC_CHANNEL_CONFIG_ERROR for a sender with a batch in doubt.
        """
        shipments = self.manager.shipments
        channel_type = self._definition(name).chltype
        if channel_type == MQCHT_SENDER:
            self._sender(name).reset(sequence)
            return
        if channel_type == MQCHT_SVRCONN:
            said = f"channel {name} is of clients: it numbers no messages"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, said)
        with self._accepting:
            self._cut_off(name)
            for state in shipments.states():
                if state.name == name and not state.is_sender:
                    shipments.save(state._replace(sequence=sequence - 1))

    def ping(self, name: str) -> None:
        """Find out whether a sender's partner answers; raises LinkDown or why it would refuse."""
        link = self.connect(self._definition_of_sender(name))
        try:
            link.ping(name)
        finally:
            end_link(link)

    def forget(self, name: str) -> None:
        """Let go of a channel that is to be deleted.

        Raises MQRC_OBJECT_IN_USE while it is started, or a batch of it is in doubt.
        """
        sender = self._senders.get(name)
        if sender is not None and not sender.is_idle:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {name} is {sender.status}")
        if self.manager.shipments.state(name).doubt_luw:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {name} has a batch in doubt")
        with self._accepting:
            self._cut_off(name)
            self.manager.shipments.forget(name)
            self._senders.pop(name, None)
            self._receivers = {key: r for key, r in self._receivers.items() if key[0] != name}

    def restart(self) -> None:
        """Start the senders that ran when the queue manager was last open."""
        defined = {d.name for d in channel_definitions(self.manager)}
        for state in self.manager.shipments.states():
            if state.is_sender and state.is_started and state.name in defined:
                self._sender(state.name).start()

    def close(self) -> None:
        """End all of them, before the queue manager ends."""
        with _OPENING:
            _OPEN.discard(self)
        for sender in list(self._senders.values()):
            sender.close()
        self.incoming.close()
        with self._accepting:
            for receiver in self._receivers.values():
                receiver.close()

    def accept(
        self, opening: Opening, caller: Caller | None = None
    ) -> tuple[Receiver, ReceiverState]:
        """Begin to receive; raises as :meth:`check_receiver`, and MQRC_NOT_AUTHORIZED.

        Raises LinkDown when two open queue managers of this process have the sender's name. Raises
        MQRC_CHANNEL_CONFIG_ERROR when another one of that name has sent here: a batch committed for
        one of them would be taken for the other's.
        """
        manager = self.manager
        manager.check_running()
        name, partner = opening.channel, opening.manager
        _open_one(partner)
        with self._accepting:
            self.check_receiver(name)
            definition = self._definition(name)
            earlier = self._receivers.get((name, partner))
            if not opening.is_reset:
                _check_sender(opening, earlier, manager.shipments.state(name, partner))
            if earlier is not None:
                # A commit under way there is waited for, so that its outcome is told.
                earlier.close()
                del self._receivers[name, partner]
            state = manager.shipments.state(name, partner)
            if opening.is_reset:
                # Nothing is in doubt there, so the sender will not ask for the last batch.
                state = state._replace(sequence=opening.sequence, luw="")
                manager.shipments.save(state)
            receiver = Receiver(manager, definition, state, opening, caller)
            self._receivers[name, partner] = receiver
        manager_limits = manager_definition(manager)
        batch_size = min(definition.batchsz, manager_limits.maxumsgs)
        max_message_bytes = definition.maxmsgl or manager_limits.maxmsgl
        return receiver, ReceiverState(
            manager.name,
            state.luw,
            state.sequence,
            min(opening.batch_size, batch_size),
            min(opening.max_message_bytes, max_message_bytes),
        )

    def check_receiver(self, channel: str) -> None:
        """Raise MQRC_UNKNOWN_CHANNEL_NAME, or MQRC_CHANNEL_CONFIG_ERROR for one that is stopped."""
        manager = self.manager
        manager.check_running()
        receivers = {
            definition.name
            for definition in channel_definitions(manager)
            if definition.chltype == MQCHT_RECEIVER
        }
        if channel not in receivers:
            said = f"{manager.name} has no CHANNEL({channel}) CHLTYPE(RCVR)"
            raise mq_error(rc.MQRC_UNKNOWN_CHANNEL_NAME, said)
        if self.is_stopped(channel):
            said = f"CHANNEL({channel}) is stopped at {manager.name}"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, said)

    def is_of(self, name: str) -> bool:
        """Return True if these are the channels of a running queue manager of this name."""
        return self.manager.name == name and not self.manager.is_stopped

    def is_stopped(self, name: str) -> bool:
        """Return True if STOP CHANNEL has closed a receiver, or a channel of clients."""
        return self.manager.shipments.state(name, "").is_stopped

    def _note_receiver(self, name: str, wanted: int) -> None:
        """Make durable whether a receiver accepts: in a row of its own, without a partner."""
        self.manager.shipments.save(ChannelRow(name, is_sender=0, partner="", wanted=wanted))

    def _definition(self, name: str) -> ChannelDefinition:
        self.manager.check_running()
        return find_channel(self.manager, name)

    def _sender(self, name: str) -> RunningChannel:
        sender = self._senders.get(name)
        if sender is None:
            made = RunningChannel(self.manager, name, lambda definition: self.connect(definition))
            sender = self._senders.setdefault(name, made)
        return sender

    def _definition_of_sender(self, name: str) -> ChannelDefinition:
        definition = self._definition(name)
        if definition.chltype != MQCHT_SENDER:
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"channel {name} is no sender")
        return definition

    def _receiver_status(self, state: ChannelRow, receiver: Receiver | None) -> ChannelStatus:
        status, traffic, heartbeat_s = Status.INACTIVE, NO_TRAFFIC, 0
        if receiver is not None and receiver.is_open:
            status = Status.PAUSED if receiver.is_paused else Status.RUNNING
            traffic, heartbeat_s = receiver.traffic(), receiver.opening.heartbeat_s
        elif self.is_stopped(state.name):
            status = Status.STOPPED
        return ChannelStatus(
            name=state.name,
            is_sender=False,
            status=status,
            connection=(receiver.address if receiver is not None else "") or state.partner,
            partner=state.partner,
            transmission_queue="",
            message_count=0 if receiver is None else receiver.message_count,
            batch_count=0 if receiver is None else receiver.batch_count,
            last_message_ms=None if receiver is None else receiver.last_message_ms,
            sequence=state.sequence,
            current_sequence=state.sequence,
            luw=state.luw,
            current_luw=state.luw,
            is_in_doubt=False,
            short_retries_left=0,
            long_retries_left=0,
            failure="",
            heartbeat_s=heartbeat_s,
            sent_bytes=traffic.sent_bytes,
            received_bytes=traffic.received_bytes,
        )

    def _cut_off(self, name: str) -> None:
        for (channel, _partner), receiver in self._receivers.items():
            if channel == name:
                receiver.close()

    def _wake(self) -> None:
        for sender in list(self._senders.values()):
            if sender.is_woken:
                self.manager.clock.wake(sender)


def _check_sender(opening: Opening, earlier: Receiver | None, state: ChannelRow) -> None:
    """Raise MQRC_CHANNEL_CONFIG_ERROR for a sender that is another one than its name says.

    It is known by what it has committed, before that by its link.
    """
    asking = opening.instance_id
    is_other_open = (
        earlier is not None and earlier.is_open and earlier.opening.instance_id != asking
    )
    if is_other_open or not is_batch_of(state.luw, asking):
        said = f"another queue manager named {opening.manager} sends on {opening.channel}"
        raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"{said}: RESET CHANNEL lets this one")


class LocalLink:
    """A link to a receiver of this process, which it calls in its caller's own thread.

    The sender is in this process as well, or a server has let it in. Then it has a ``caller``, and
    must speak in time. One thread at a time uses a link; any may close it.
    """

    def __init__(self, partner: Channels, caller: Caller | None = None) -> None:
        self._partner, self._caller = partner, caller
        self._receiver: Receiver | None = None
        self._silence_ms: int | None = None
        #: When its sender has been silent for too long, by the queue manager's clock. None while
        #: the sender is being answered, and where it may be silent for ever.
        self.until_ms: int | None = None

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Begin to send; raises as ``Channels.accept``."""
        with self._answering():
            self._receiver, standing = self._partner.accept(opening, self._caller)
            if self._caller is not None:
                self._silence_ms = silence_ms(opening.heartbeat_s)
        return standing

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        """Put a batch; returns as ``Link.send``. Raises LinkDown for a link that has ended."""
        with self._answering():
            wait_ms = self._open().take_in(envelopes)
        return self._waiting(wait_ms)

    def hand_over(self, envelopes: Sequence[Envelope], spent_ms: int = 0) -> int:
        """Keep a batch, whose messages have been coming in for ``spent_ms``."""
        with self._answering():
            return self._open().keep(envelopes, spent_ms)

    def go_on(self, transit_ms: int) -> int | None:
        """Put what is kept, or could not be put; as :meth:`send`."""
        with self._answering():
            wait_ms = self._open().go_on(transit_ms)
        return self._waiting(wait_ms)

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the batch."""
        with self._answering():
            self._open().commit(luw, sequence)

    def ping(self, channel: str) -> None:
        """Raise why the channel does not receive; the sender lives."""
        with self._answering():
            self._partner.check_receiver(channel)

    def traffic(self) -> Traffic:
        """Return that nothing goes over a network by this end."""
        return NO_TRAFFIC

    @property
    def connection_number(self) -> int:
        """The number of the receiver's connection to its queue manager, 0 without a receiver."""
        return 0 if self._receiver is None else self._receiver.connection_number

    def close(self) -> None:
        """End; unconfirmed messages are backed out."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.close()

    def _open(self) -> Receiver:
        receiver = self._receiver
        if receiver is None:
            raise LinkDown("the link is closed")
        return receiver

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Answer a call of the sender; a queue manager that is gone does not answer."""
        self.until_ms = None
        try:
            yield
        except MQError as error:
            if error.reason in GONE:
                raise LinkDown(f"the partner has ended: {error}") from error
            raise
        finally:
            if self._silence_ms is not None:
                self.until_ms = self._partner.manager.now_ms() + self._silence_ms

    def _waiting(self, wait_ms: int | None) -> int | None:
        """Let the sender be silent for a wait as well."""
        if wait_ms is not None and self.until_ms is not None:
            self.until_ms += wait_ms
        return wait_ms


class IncomingLinks:
    """The links of senders in other processes to one queue manager; any thread may call it."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._lock = channels.manager.runtime.lock("incoming links")
        self._links: set[LocalLink] = set()
        self._is_timed = False

    def begin(self, opening: Opening, caller: Caller) -> tuple[LocalLink, ReceiverState]:
        """Accept a sender, which :meth:`end` ends. Raises as ``Channels.accept``."""
        link = LocalLink(self._channels, caller)
        state = link.negotiate(opening)
        with self._lock:
            self._links.add(link)
            is_first, self._is_timed = not self._is_timed, True
        if is_first:
            # No wake is needed later: a clock looks at least once a second.
            self._channels.manager.clock.attach(self)
        return link, state

    def end(self, link: LocalLink) -> None:
        """End a link, if it has not ended already; unconfirmed messages are backed out."""
        with self._lock:
            self._links.discard(link)
        link.close()

    def close(self) -> None:
        """End all of them, with the queue manager."""
        if self._is_timed:
            self._channels.manager.clock.detach(self)
        for link in list(self._links):
            self.end(link)

    def next_due_ms(self) -> int | None:
        """Return the clock's time at which the next one has been silent for too long."""
        with self._lock:
            moments = [link.until_ms for link in self._links if link.until_ms is not None]
        return min(moments) - self._channels.manager.ahead_ms if moments else None

    def run_due(self) -> None:
        """End those whose senders have been silent for too long."""
        now_ms = self._channels.manager.now_ms()
        with self._lock:
            silent = [
                link
                for link in self._links
                if link.until_ms is not None and link.until_ms <= now_ms
            ]
        for link in silent:
            self.end(link)

"""The channels of a queue manager: those that send, and those it receives by."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial

from mayfly.channel.incoming import IncomingLinks
from mayfly.channel.links import NO_TRAFFIC, Link, LinkDown, end_link, is_batch_of
from mayfly.channel.local import LocalLink
from mayfly.channel.receiver import Caller, Receiver
from mayfly.channel.running import Connect, RunningChannel
from mayfly.channel.status import ChannelStatus, Status
from mayfly.engine import Engine, find_channel, manager_definition
from mayfly.engine.face.transit import ChannelDefinition, channel_definitions, when_woken
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCHT_RECEIVER, MQCHT_SENDER, MQCHT_SVRCONN
from mayfly.mqi.errors import mq_error
from mayfly.store.channels import INACTIVE, STOPPED, ChannelRow
from mayfly.verbs.contracts.channels import Opening, ReceiverState

#: The channels of the open queue managers of this process, some of which may have one name.
_OPEN: weakref.WeakSet[Channels] = weakref.WeakSet()
_OPENING = threading.Lock()
#: Weak on both sides: channels know their queue manager, which would keep the key alive.
_OF_MANAGERS: weakref.WeakKeyDictionary[Engine, weakref.ref[Channels]] = weakref.WeakKeyDictionary()


#: The types of channels that others open, and that a stop closes to them.
_ACCEPTING = (MQCHT_RECEIVER, MQCHT_SVRCONN)


def connect_local(definition: ChannelDefinition) -> Link:
    """Return a link to the queue manager of this process that CONNAME names; raises LinkDown."""
    name = definition.conname
    return LocalLink(partial(_open_one, name), name)


def _open_one(name: str) -> Channels | None:
    """Return the channels of an open queue manager; raises LinkDown when two have its name."""
    if len(_all_open(name)) > 1:
        # One that nobody has any more, though nobody has closed it, is none.
        gc.collect()
    found = _all_open(name)
    if len(found) > 1:
        raise LinkDown(f"{len(found)} queue managers named {name!r} are open in this process")
    return found[0] if found else None


def _all_open(name: str) -> list[Channels]:
    with _OPENING:
        return [channels for channels in _OPEN if channels.is_of(name)]


def channels_of(manager: Engine) -> Channels:
    """Return the channels of a queue manager."""
    channels = _OF_MANAGERS[manager]()
    assert channels is not None
    return channels


class Channels:
    """Starts, stops and shows the channels of one queue manager; any thread may call it."""

    def __init__(self, manager: Engine, connect: Connect = connect_local) -> None:
        """Begin with none; :meth:`restart` starts those that ran when it was last open.

        ``connect`` makes the link of a sender as TRPTYPE says; raises LinkDown and MQError.
        """
        self._manager = manager
        #: Makes the link of a sender from its definition.
        self.connect = connect
        self._senders: dict[str, RunningChannel] = {}
        self._receivers: dict[tuple[str, str], Receiver] = {}
        self._accepting = manager.runtime.reentrant_lock("channels")
        #: The links of senders in other processes.
        self.incoming = IncomingLinks(manager, self)
        when_woken(manager, self._wake)
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
        self._check_type(name, MQCHT_SENDER)
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
            for state in self._manager.shipments.states()
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
        self._check_type(name, MQCHT_SENDER)
        self._sender(name).resolve(is_committed=is_committed)

    def reset(self, name: str, sequence: int = 1) -> None:
        """Set the number of the next message; a sender tells its receiver when it starts.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE for a channel that is connected, and
        MQRC_CHANNEL_CONFIG_ERROR for a sender with a batch in doubt.
        """
        shipments = self._manager.shipments
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
        self._check_type(name, MQCHT_SENDER)
        definition = self._definition(name)
        link = self.connect(definition)
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
        if self._manager.shipments.state(name).doubt_luw:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {name} has a batch in doubt")
        with self._accepting:
            self._cut_off(name)
            self._manager.shipments.forget(name)
            self._senders.pop(name, None)
            self._receivers = {key: r for key, r in self._receivers.items() if key[0] != name}

    def restart(self) -> None:
        """Start the senders that ran when the queue manager was last open."""
        defined = {d.name for d in channel_definitions(self._manager)}
        for state in self._manager.shipments.states():
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
        manager = self._manager
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
                # Nothing is in doubt there, so nobody will ask for the last batch.
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
        manager = self._manager
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
        return self._manager.name == name and not self._manager.is_stopped

    def is_stopped(self, name: str) -> bool:
        """Return True if STOP CHANNEL has closed a receiver, or a channel of clients."""
        return self._manager.shipments.state(name, "").is_stopped

    def _note_receiver(self, name: str, wanted: int) -> None:
        """Make durable whether a receiver accepts: in a row of its own, without a partner."""
        self._manager.shipments.save(ChannelRow(name, is_sender=0, partner="", wanted=wanted))

    def _definition(self, name: str) -> ChannelDefinition:
        self._manager.check_running()
        return find_channel(self._manager, name)

    def _sender(self, name: str) -> RunningChannel:
        sender = self._senders.get(name)
        if sender is None:
            made = RunningChannel(self._manager, name, lambda definition: self.connect(definition))
            sender = self._senders.setdefault(name, made)
        return sender

    def _check_type(self, name: str, wanted: int) -> None:
        if self._definition(name).chltype != wanted:
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"channel {name} is no sender")

    def _receiver_status(self, state: ChannelRow, receiver: Receiver | None) -> ChannelStatus:
        status, traffic, heartbeat_s = Status.INACTIVE, NO_TRAFFIC, 0
        if receiver is not None and receiver.is_open:
            status = Status.PAUSED if receiver.is_paused else Status.RUNNING
            traffic, heartbeat_s = receiver.traffic(), receiver.heartbeat_s
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
                self._manager.clock.wake(sender)


def _check_sender(opening: Opening, earlier: Receiver | None, state: ChannelRow) -> None:
    """Raise MQRC_CHANNEL_CONFIG_ERROR for a sender that is another one than its name says.

    It is known by what it has committed, before that by its link.
    """
    asking = opening.instance_id
    is_other_open = earlier is not None and earlier.is_open and earlier.sender_id != asking
    if is_other_open or not is_batch_of(state.luw, asking):
        said = f"another queue manager named {opening.manager} sends on {opening.channel}"
        raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"{said}: RESET CHANNEL lets this one")

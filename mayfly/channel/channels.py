"""The channels of a queue manager: links from senders to its receivers, and its clients.

A sender in another process may die without a word. Its unconfirmed messages are backed out when its
connection is lost, when it connects again, when its channel is stopped, or when it has been silent
for too long.

A server registers its clients here for administration. A queue manager that no server serves has
no clients. Several servers of one process may serve it.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from mayfly.channel.links import NO_TRAFFIC, LinkDown, ReceiverLink, Traffic, end_link, is_batch_of
from mayfly.channel.receiver import GONE, Receiver, RemoteSender
from mayfly.channel.sender import ChannelState, ChannelStatus, Connect, RunningChannel
from mayfly.engine import Engine, find_channel, manager_definition
from mayfly.engine.api.transit import (
    ChannelDefinition,
    channel_definitions,
    report_stop_command,
)
from mayfly.lifetime.transmission import silence_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCHT_RECEIVER, MQCHT_SENDER, MQCHT_SVRCONN
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.channels import INACTIVE, STOPPED, ChannelRow
from mayfly.verbs.contracts.channels import Envelope, Opening, ReceiverState


class ClientConnection(NamedTuple):
    """One conversation of a client.

    ``number`` is that of the connection on its queue manager, ``instance`` that of the socket,
    which several conversations may share. ``address`` is empty for a UNIX socket. A blank
    ``channel`` is that of an operator. ``sending_manager`` is the queue manager of a message
    channel, otherwise empty. Both ends send something at least every ``heartbeat_ms``; 0 is no
    promise. The bytes are those of the socket.

    Times are the queue manager's, in ms since 1970: ``connected_ms`` of the connect,
    ``unit_of_work_ms`` of the first verb of the open unit of work, None without one. ``is_running``
    is True while a verb runs. Only Mayfly's own protocol fills in these and ``open_handles``.
    """

    number: int
    instance: int
    queue_manager: str
    channel: str
    user: str
    address: str
    application: str
    has_tls: bool
    connected_ms: int
    request_count: int
    heartbeat_ms: int
    sent_bytes: int
    received_bytes: int
    sending_manager: str = ""
    unit_of_work_ms: int | None = None
    open_handles: int = 0
    is_running: bool = False


class Clients(Protocol):
    """The clients of one server."""

    def connections(self) -> Sequence[ClientConnection]:
        """Return the open conversations."""

    def end(self, number: int) -> bool:
        """End the socket of a conversation; return False when the server does not have this number.

        All conversations of the socket end. Their units of work are backed out, and their clients
        get MQRC_CONNECTION_BROKEN.
        """

    def quiesce(self, number: int) -> bool:
        """End the socket of a conversation, later, when the socket has no more work.

        The call does not wait for that. Work is an open unit of work, a delivery that is not
        settled, and a running verb. Returns False when the server does not have this number.
        """


#: The clients of each server of a queue manager.
_SERVERS: weakref.WeakKeyDictionary[Engine, list[Clients]] = weakref.WeakKeyDictionary()


@contextmanager
def clients_known(manager: Engine, clients: Clients) -> Iterator[None]:
    """Register the clients of a server for administration while the context is open."""
    servers = _SERVERS.setdefault(manager, [])
    servers.append(clients)
    try:
        yield
    finally:
        servers.remove(clients)


def client_connections(manager: Engine) -> list[ClientConnection]:
    """Return the conversations of clients with a queue manager; [] when no server serves it."""
    return [
        connection
        for clients in list(_SERVERS.get(manager, ()))
        for connection in clients.connections()
        if connection.queue_manager == manager.name
    ]


def end_client(manager: Engine, number: int) -> bool:
    """End the socket of a client's conversation; return False when no server has this number.

    Units of work of the socket's conversations are backed out.
    """
    return any(clients.end(number) for clients in list(_SERVERS.get(manager, ())))


def quiesce_client(manager: Engine, number: int) -> bool:
    """End the socket of a client's conversation, later, when the socket has no more work.

    The call does not wait for that. Until then waiting gets of the client, and its verbs with
    MQ…_FAIL_IF_QUIESCING, fail with MQRC_CONNECTION_QUIESCING. Returns False when no server has a
    conversation with this number.
    """
    return any(clients.quiesce(number) for clients in list(_SERVERS.get(manager, ())))


#: The channels of the open queue managers of this process, some of which may have one name.
_OPEN: weakref.WeakSet[Channels] = weakref.WeakSet()
_OPENING = threading.Lock()
#: Weak on both sides: channels know their queue manager, which would keep the key alive.
_OF_MANAGERS: weakref.WeakKeyDictionary[Engine, weakref.ref[Channels]] = weakref.WeakKeyDictionary()
#: The types of channels that others open, and that a stop closes to them.
_ACCEPTING = (MQCHT_RECEIVER, MQCHT_SVRCONN)


def connect_local(definition: ChannelDefinition) -> ReceiverLink:
    """Return a link to the queue manager of this process that CONNAME names.

    Raises LinkDown when none, or more than one, of that name is open.
    """
    found = _open_one(definition.conname)
    if found is None:
        raise LinkDown(f"queue manager {definition.conname!r} is not open in this process")
    return LocalLink(found)


def _open_one(name: str) -> Channels | None:
    """Return the channels of an open queue manager, None without one.

    Raises LinkDown when two open queue managers have the name.
    """
    if len(_all_open(name)) > 1:
        # An unreferenced queue manager that was never closed does not count.
        gc.collect()
    found = _all_open(name)
    if len(found) > 1:
        raise LinkDown(f"{len(found)} queue managers named {name!r} are open in this process")
    return found[0] if found else None


def _all_open(name: str) -> list[Channels]:
    """Return the channels of all running queue managers of this process with this name."""
    with _OPENING:
        return [channels for channels in _OPEN if channels.is_of(name)]


def channels_of(manager: Engine) -> Channels:
    """Return the channels of a queue manager; KeyError when none were made."""
    channels = _OF_MANAGERS[manager]()
    assert channels is not None
    return channels


class Channels:
    """Starts, stops and shows the channels of one queue manager; any thread may call it."""

    def __init__(self, manager: Engine, connect: Connect) -> None:
        """Register the channels; :meth:`restart` starts those that ran when it was last open.

        ``connect`` makes the link of a sender from its definition; it raises LinkDown and MQError.
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
        """Start a sender channel, or let a stopped receiver or server-connection channel accept.

        It does not wait for the partner: see :meth:`status`. A channel that is started stays so.
        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_STORAGE_MEDIUM_FULL, and MQRC_CHANNEL_CONFIG_ERROR for
        a channel of a type that is only kept.
        """
        if self._definition(name).chltype in _ACCEPTING:
            with self._accepting:
                if self.is_stopped(name):
                    self._note_receiver(name, INACTIVE)
        else:
            self._definition_of_sender(name)
            self._sender(name).start()

    def start_triggered(self, name: str) -> None:
        """Start a sender for a trigger message of its transmission queue, unless it was stopped.

        Otherwise the messages that a stop leaves there would restart the channel at once. Raises
        MQRC_UNKNOWN_OBJECT_NAME, MQRC_STORAGE_MEDIUM_FULL, and MQRC_CHANNEL_CONFIG_ERROR for a
        channel that is no sender.
        """
        self._definition_of_sender(name)
        sender = self._sender(name)
        if sender.status is not ChannelState.STOPPED:
            sender.start()

    def stop(self, name: str, *, is_forced: bool = False, is_inactive: bool = False) -> None:
        """Stop a channel after its current batch; with ``is_forced`` interrupt that batch.

        The call does not wait for a sender to stop. A receiver is always interrupted; its sender
        notices, and retries. A server-connection channel accepts no more clients. Each stays
        stopped when the queue manager is opened again. With ``is_inactive`` the channel becomes
        inactive instead: a trigger message starts a sender, others accept at once. Raises
        MQRC_UNKNOWN_OBJECT_NAME, and MQRC_STORAGE_MEDIUM_FULL, which leaves a channel that is no
        sender unchanged, and MQRC_CHANNEL_CONFIG_ERROR for a channel of a type that is only kept.
        """
        if self._definition(name).chltype in _ACCEPTING:
            with self._accepting:
                self._note_receiver(name, INACTIVE if is_inactive else STOPPED)
                self._cut_off(name)
        else:
            self._definition_of_sender(name)
            self._sender(name).stop(is_forced=is_forced, is_inactive=is_inactive)
        report_stop_command(self.manager, name)

    def end_instances(
        self, name: str, *, connection: str = "", partner: str = "", is_forced: bool = False
    ) -> int:
        """End the instances of a channel with one partner, and return how many there were.

        ``connection`` is CONNAME and ``partner`` RQMNAME of its status; empty is any. A sender
        becomes inactive after its current batch, at once if ``is_forced``; a receiver accepts this
        sender again at once. Clients of a server-connection channel are not ended and not counted.
        Raises MQRC_UNKNOWN_OBJECT_NAME, and MQRC_CHANNEL_CONFIG_ERROR for a channel of a type that
        is only kept.
        """
        if self._definition(name).chltype not in _ACCEPTING:
            self._definition_of_sender(name)
        found = [
            status
            for status in self.status(name)
            if status.status not in (ChannelState.INACTIVE, ChannelState.STOPPED)
            and connection in ("", status.connection)
            and partner in ("", status.partner)
        ]
        for status in found:
            if status.is_sender:
                self._sender(name).stop(is_forced=is_forced, is_inactive=True)
                continue
            with self._accepting:
                receiver = self._receivers.get((name, status.partner))
                if receiver is not None:
                    receiver.close()
        return len(found)

    def status(self, name: str) -> list[ChannelStatus]:
        """Return the status of a channel: one entry for a sender, one per sender for a receiver.

        A receiver that no sender has used has no entry, unless it is stopped. Raises
        MQRC_UNKNOWN_OBJECT_NAME.
        """
        if self._definition(name).chltype == MQCHT_SENDER:
            return [self._sender(name).channel_status()]
        states = {
            state.partner: state
            for state in self.manager.channel_states.states()
            if state.name == name and not state.is_sender
        }
        with self._accepting:
            receivers = {p: r for (channel, p), r in self._receivers.items() if channel == name}
        # A sender that has committed nothing yet is known to its receiver only.
        states = {partner: receiver.state for partner, receiver in receivers.items()} | states
        if len(states) > 1 or not self.is_stopped(name):
            # The row of the channel itself adds nothing to the others.
            states.pop("", None)
        return [
            self._receiver_status(states[partner], receivers.get(partner))
            for partner in sorted(states)
        ]

    def resolve(self, name: str, *, is_committed: bool) -> None:
        """Commit or back out a sender's batch in doubt without asking its partner.

        A batch is in doubt when nobody here knows whether the partner has committed it. With
        ``is_committed`` the messages are removed here, otherwise they return to the transmission
        queue and are sent again. Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE while the
        channel runs, and MQRC_CHANNEL_CONFIG_ERROR for a channel that is no sender or has no batch
        in doubt.
        """
        self._definition_of_sender(name)
        self._sender(name).resolve(is_committed=is_committed)

    def reset(self, name: str, sequence: int = 1) -> None:
        """Set the sequence number of the next message; a sender passes it on at its next start.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE for a channel that is connected, and
        MQRC_CHANNEL_CONFIG_ERROR for a sender with a batch in doubt or a server-connection channel.
        """
        channel_states = self.manager.channel_states
        channel_type = self._definition(name).chltype
        if channel_type == MQCHT_SENDER:
            self._sender(name).reset(sequence)
            return
        if channel_type == MQCHT_SVRCONN:
            text = f"channel {name} is of clients: it numbers no messages"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, text)
        with self._accepting:
            self._cut_off(name)
            for state in channel_states.states():
                if state.name == name and not state.is_sender:
                    channel_states.save(state._replace(sequence=sequence - 1))

    def ping(self, name: str) -> None:
        """Check that the partner of a sender channel answers; return nothing.

        Raises LinkDown without an answer, the MQError by which the partner refuses,
        MQRC_UNKNOWN_OBJECT_NAME, and MQRC_CHANNEL_CONFIG_ERROR for a channel that is no sender.
        """
        link = self.connect(self._definition_of_sender(name))
        try:
            link.ping(name)
        finally:
            end_link(link)

    def forget(self, name: str) -> None:
        """Delete the state of a channel that is to be deleted; one without state is ignored.

        Raises MQRC_OBJECT_IN_USE while the channel is started, or has a batch in doubt.
        """
        sender = self._senders.get(name)
        if sender is not None and not sender.is_idle:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {name} is {sender.status}")
        if self.manager.channel_states.state(name).doubt_luw:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"channel {name} has a batch in doubt")
        with self._accepting:
            self._cut_off(name)
            self.manager.channel_states.forget(name)
            self._senders.pop(name, None)
            self._receivers = {key: r for key, r in self._receivers.items() if key[0] != name}

    def restart(self) -> None:
        """Start the senders that ran when the queue manager was last open.

        One whose definition was deleted since is left out.
        """
        defined = {d.name for d in channel_definitions(self.manager)}
        for state in self.manager.channel_states.states():
            if state.is_sender and state.is_started and state.name in defined:
                self._sender(state.name).start()

    def close(self) -> None:
        """End all channels, because the queue manager ends; uncommitted messages are backed out."""
        with _OPENING:
            _OPEN.discard(self)
        for sender in list(self._senders.values()):
            sender.close()
        self.incoming.close()
        with self._accepting:
            for receiver in self._receivers.values():
                receiver.close()

    def accept(
        self, opening: Opening, remote_sender: RemoteSender | None = None
    ) -> tuple[Receiver, ReceiverState]:
        """Begin to receive from a sender; return the receiver, and its state and limits.

        ``opening`` has the state and the limits of the sender. ``remote_sender`` is its end behind
        a server, None for a sender of this process. An earlier receiver of the same sender is
        closed. Raises MQRC_UNKNOWN_CHANNEL_NAME, MQRC_NOT_AUTHORIZED, and MQRC_CHANNEL_CONFIG_ERROR
        for a stopped channel. Raises MQRC_CHANNEL_CONFIG_ERROR also when another queue manager of
        the sender's name has sent here: its batches could be mistaken for those of this one. Raises
        LinkDown when two open queue managers of this process have the sender's name.
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
                _check_sender(opening, earlier, manager.channel_states.state(name, partner))
            if earlier is not None:
                # This waits for a running commit, so that its outcome is reported.
                earlier.close()
                del self._receivers[name, partner]
            state = manager.channel_states.state(name, partner)
            if opening.is_reset:
                # The sender has no batch in doubt, so it will not ask for the last batch.
                state = state._replace(sequence=opening.sequence, luw="")
                manager.channel_states.save(state)
            receiver = Receiver(manager, definition, state, opening, remote_sender)
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
        """Raise MQRC_UNKNOWN_CHANNEL_NAME, or MQRC_CHANNEL_CONFIG_ERROR for a stopped receiver."""
        manager = self.manager
        manager.check_running()
        receivers = {
            definition.name
            for definition in channel_definitions(manager)
            if definition.chltype == MQCHT_RECEIVER
        }
        if channel not in receivers:
            text = f"{manager.name} has no CHANNEL({channel}) CHLTYPE(RCVR)"
            raise mq_error(rc.MQRC_UNKNOWN_CHANNEL_NAME, text)
        if self.is_stopped(channel):
            text = f"CHANNEL({channel}) is stopped at {manager.name}"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, text)

    def is_of(self, name: str) -> bool:
        """Return True if the queue manager has this name and runs."""
        return self.manager.name == name and not self.manager.is_stopped

    def is_stopped(self, name: str) -> bool:
        """Return True if STOP CHANNEL has closed a receiver or a server-connection channel."""
        return self.manager.channel_states.state(name, "").is_stopped

    def _note_receiver(self, name: str, wanted: int) -> None:
        """Save whether a receiver accepts senders: ``wanted`` is INACTIVE (it does) or STOPPED.

        The saved row is that of the channel itself, with an empty partner.
        """
        self.manager.channel_states.save(ChannelRow(name, is_sender=0, partner="", wanted=wanted))

    def _definition(self, name: str) -> ChannelDefinition:
        """Return the definition of a channel; raises MQRC_UNKNOWN_OBJECT_NAME.

        Raises MQRC_CONNECTION_BROKEN or MQRC_Q_MGR_STOPPING when the queue manager has ended.
        """
        self.manager.check_running()
        return find_channel(self.manager, name)

    def _sender(self, name: str) -> RunningChannel:
        """Return the sender channel with a name, which is made at the first call."""
        sender = self._senders.get(name)
        if sender is None:
            made = RunningChannel(self.manager, name, lambda definition: self.connect(definition))
            sender = self._senders.setdefault(name, made)
        return sender

    def _definition_of_sender(self, name: str) -> ChannelDefinition:
        """Return the definition of a sender channel.

        Raises MQRC_CHANNEL_CONFIG_ERROR for a channel of another type, MQRC_UNKNOWN_OBJECT_NAME for
        none.
        """
        definition = self._definition(name)
        if definition.chltype in (MQCHT_SENDER, *_ACCEPTING):
            text = f"channel {name} is no sender"
        else:
            text = f"channel {name} is kept only: channels of type SDR, RCVR and SVRCONN run here"
        if definition.chltype != MQCHT_SENDER:
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, text)
        return definition

    def _receiver_status(self, state: ChannelRow, receiver: Receiver | None) -> ChannelStatus:
        """Return the attributes that DISPLAY CHSTATUS shows for one partner of a receiver channel.

        ``state`` is the stored state for that partner. ``receiver`` None means that the partner has
        not connected: the status is INACTIVE, or STOPPED.
        """
        status, traffic, heartbeat_s = ChannelState.INACTIVE, NO_TRAFFIC, 0
        if receiver is not None and receiver.is_open:
            status = ChannelState.PAUSED if receiver.is_paused else ChannelState.RUNNING
            traffic, heartbeat_s = receiver.traffic(), receiver.opening.heartbeat_s
        elif self.is_stopped(state.name):
            status = ChannelState.STOPPED
        return ChannelStatus(
            name=state.name,
            is_sender=False,
            status=status,
            connection=(receiver.address if receiver is not None else "") or state.partner,
            partner=state.partner,
            message_count=0 if receiver is None else receiver.message_count,
            batch_count=0 if receiver is None else receiver.batch_count,
            last_message_ms=None if receiver is None else receiver.last_message_ms,
            sequence=state.sequence,
            current_sequence=state.sequence,
            luw=state.luw,
            current_luw=state.luw,
            heartbeat_s=heartbeat_s,
            sent_bytes=traffic.sent_bytes,
            received_bytes=traffic.received_bytes,
        )

    def _cut_off(self, name: str) -> None:
        """Close all receivers of a channel; the caller holds the lock."""
        for (channel, _partner), receiver in self._receivers.items():
            if channel == name:
                receiver.close()

    def _wake(self) -> None:
        """Wake the senders whose transmission queues have new messages."""
        for sender in list(self._senders.values()):
            if sender.is_woken:
                self.manager.clock.wake(sender)


def _check_sender(opening: Opening, earlier: Receiver | None, state: ChannelRow) -> None:
    """Raise MQRC_CHANNEL_CONFIG_ERROR if another queue manager uses the name of a known one.

    ``opening`` is the sender's request, ``earlier`` the last receiver for its name (None without
    one), ``state`` the stored state. A queue manager is recognised by the batch it has last
    committed, or by its open link.
    """
    asking = opening.instance_id
    is_other_open = (
        earlier is not None and earlier.is_open and earlier.opening.instance_id != asking
    )
    if is_other_open or not is_batch_of(state.luw, asking):
        text = f"another queue manager named {opening.manager} sends on {opening.channel}"
        raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"{text}: RESET CHANNEL lets this one")


class LocalLink:
    """A link to a receiver of this process, which runs in the thread that uses the link.

    Without a ``remote_sender`` the sender is in this process as well. With one it is behind a
    server, and must send in time. One thread at a time uses a link; any may close it.
    """

    def __init__(self, partner: Channels, remote_sender: RemoteSender | None = None) -> None:
        """Take the channels of the receiving queue manager; no receiver is open yet.

        ``remote_sender`` is the sender behind a server, None for a sender of this process.
        """
        self._partner, self._remote_sender = partner, remote_sender
        self._receiver: Receiver | None = None
        self._silence_ms: int | None = None
        #: When its sender has been silent for too long, by the queue manager's clock. None while
        #: the sender is being answered, and where it may be silent for ever.
        self.until_ms: int | None = None

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Open the receiver and return its state and limits.

        ``opening`` has the state and the limits of the sender. Raises LinkDown or the MQError of
        :meth:`Channels.accept`.
        """
        with self._answering():
            self._receiver, state = self._partner.accept(opening, self._remote_sender)
            if self._remote_sender is not None:
                self._silence_ms = silence_ms(opening.heartbeat_s)
        return state

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        """Put a batch; return the ms to wait before :meth:`go_on`, None when all is put.

        ``envelopes`` are the messages of the batch; :meth:`confirm` commits them. Raises LinkDown
        for a link that has ended, and MQError for a message that cannot be put.
        """
        with self._answering():
            wait_ms = self._open().put_batch(envelopes)
        return self._waiting(wait_ms)

    def send_to_keep(self, envelopes: Sequence[Envelope], spent_ms: int = 0) -> int:
        """Keep the messages of a batch until :meth:`go_on` puts them.

        ``envelopes`` are the messages. ``spent_ms`` is for how long the first of them have been
        here already. Returns that time at the end of the call. Raises LinkDown for a link that has
        ended.
        """
        with self._answering():
            return self._open().keep(envelopes, spent_ms)

    def go_on(self, transit_ms: int) -> int | None:
        """Put the kept messages, or those that could not be put; see :meth:`send` for the result.

        ``transit_ms``, the time on the link, is subtracted from the time to live of each message.
        """
        with self._answering():
            wait_ms = self._open().go_on(transit_ms)
        return self._waiting(wait_ms)

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the batch, durably together with its name ``luw`` and its last sequence number.

        Raises LinkDown when the outcome is unknown, and the MQError of a commit that has failed.
        """
        with self._answering():
            self._open().commit(luw, sequence)

    def ping(self, channel: str) -> None:
        """Raise the MQError by which the receiver refuses the channel, if it does.

        The call also counts as a sign of life of the sender.
        """
        with self._answering():
            self._partner.check_receiver(channel)

    def traffic(self) -> Traffic:
        """Return zeros: the link uses no network."""
        return NO_TRAFFIC

    @property
    def connection_number(self) -> int:
        """The number of the receiver's connection to its queue manager, 0 without a receiver."""
        return 0 if self._receiver is None else self._receiver.connection_number

    def close(self) -> None:
        """End the link; unconfirmed messages are backed out. A second call does nothing."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.close()

    def _open(self) -> Receiver:
        """Return the receiver; raises LinkDown when the link is closed."""
        receiver = self._receiver
        if receiver is None:
            raise LinkDown("the link is closed")
        return receiver

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Run one call of the sender within the block; then begin to count the sender's silence.

        Raises LinkDown for an MQError that says that the queue manager has ended.
        """
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
        """Allow the sender to be silent ``wait_ms`` longer; return ``wait_ms``.

        None, for no wait, changes nothing.
        """
        if wait_ms is not None and self.until_ms is not None:
            self.until_ms += wait_ms
        return wait_ms


class IncomingLinks:
    """The links of senders in other processes to one queue manager; any thread may call it."""

    def __init__(self, channels: Channels) -> None:
        """Begin without links to the queue manager of ``channels``."""
        self._channels = channels
        self._lock = channels.manager.runtime.lock("incoming links")
        self._links: set[LocalLink] = set()
        self._is_timed = False

    def begin(
        self, opening: Opening, remote_sender: RemoteSender
    ) -> tuple[LocalLink, ReceiverState]:
        """Open a receiver for a remote sender; return its link and the state of the receiver.

        ``opening`` has the state and the limits of the sender. :meth:`end` ends the link. Raises
        LinkDown or the MQError of :meth:`Channels.accept`.
        """
        link = LocalLink(self._channels, remote_sender)
        state = link.negotiate(opening)
        with self._lock:
            self._links.add(link)
            is_first, self._is_timed = not self._is_timed, True
        if is_first:
            # No wake is needed later: a clock looks at least once a second.
            self._channels.manager.clock.attach(self)
        return link, state

    def end(self, link: LocalLink) -> None:
        """End a link unless it has ended already; unconfirmed messages are backed out."""
        with self._lock:
            self._links.discard(link)
        link.close()

    def close(self) -> None:
        """End all links, because the queue manager ends; unconfirmed messages are backed out."""
        if self._is_timed:
            self._channels.manager.clock.detach(self)
        for link in list(self._links):
            self.end(link)

    def next_due_ms(self) -> int | None:
        """Return when the next sender will have been silent for too long, in the clock's ms.

        Returns None when no sender has a limit.
        """
        with self._lock:
            moments = [link.until_ms for link in self._links if link.until_ms is not None]
        return min(moments) - self._channels.manager.ahead_ms if moments else None

    def run_due(self) -> None:
        """End the links whose senders have been silent for too long; the clock calls it."""
        now_ms = self._channels.manager.now_ms()
        with self._lock:
            silent = [
                link
                for link in self._links
                if link.until_ms is not None and link.until_ms <= now_ms
            ]
        for link in silent:
            self.end(link)

"""The receiver of a channel: puts messages with all context set, and commits them by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mayfly.channel.links import (
    NO_TRAFFIC,
    PROGRAM,
    LinkDown,
    Traffic,
    original_of,
    refused_envelope,
)
from mayfly.engine import Engine, PutRequest, Session, full_name
from mayfly.engine.api.transit import (
    ChannelDefinition,
    put_received,
    refuse,
    report_expiration,
    report_start,
    report_stop,
)
from mayfly.lifetime.transmission import counted_transit_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPMO_SET_ALL_CONTEXT
from mayfly.mqi.errors import MQError
from mayfly.mqi.event_constants import MQRQ_CHANNEL_STOPPED_OK
from mayfly.store.channels import ChannelRow
from mayfly.verbs.checks import stored_id
from mayfly.verbs.contracts.channels import Envelope, Opening

#: Reasons that may pass: the put is tried again (MRRTY, MRTMR).
_PASSING = (
    rc.MQRC_Q_FULL,
    rc.MQRC_PUT_INHIBITED,
    rc.MQRC_OBJECT_IN_USE,
    rc.MQRC_STORAGE_MEDIUM_FULL,
    rc.MQRC_RESOURCE_PROBLEM,
)
#: Reasons that mean that the queue manager has ended.
GONE = (rc.MQRC_CONNECTION_BROKEN, rc.MQRC_Q_MGR_STOPPING, rc.MQRC_HCONN_ERROR)


class RemoteSender(NamedTuple):
    """The remote end of a sender, as the server that has accepted it knows it.

    ``user`` is the one whose authority the puts need, None for unlimited authority. ``on_end`` is
    called when the receiver ends, by any thread, which may hold any lock.
    """

    address: str
    user: str | None
    groups: tuple[str, ...]
    traffic: Callable[[], Traffic]
    on_end: Callable[[], None]


class Receiver:
    """The receiving end of a channel for one sender: puts its messages and commits them by batch.

    A later connection of that sender replaces it.
    """

    def __init__(
        self,
        manager: Engine,
        definition: ChannelDefinition,
        state: ChannelRow,
        opening: Opening,
        remote_sender: RemoteSender | None,
    ) -> None:
        """Open a session of the remote sender's user, or of MCAUSER for a sender of this process.

        ``state`` has what this sender's batches have committed so far, ``opening`` is its request.
        Raises MQRC_NOT_AUTHORIZED for a user without authority to connect.
        """
        self._manager = manager
        self.opening, self._remote_sender = opening, remote_sender
        self._definition = definition
        self.state = state
        user, groups = definition.mcauser or None, tuple[str, ...]()
        if remote_sender is not None:
            user, groups = remote_sender.user, remote_sender.groups
        self._session = manager.session(user, transacted=True, program=PROGRAM, groups=groups)
        #: Held during each call of the sender, so that a close waits for a commit under way.
        self._lock = manager.runtime.lock("receiver")
        self._waiting: deque[Envelope] = deque()
        self._arrived_ms = self._tries = 0
        self.is_paused = False
        self.is_open = True
        self.message_count = self.batch_count = 0
        self.last_message_ms: int | None = None
        report_start(manager, definition, self.address or opening.manager)

    @property
    def address(self) -> str:
        """The network address of the sender, empty for a sender of this process."""
        return "" if self._remote_sender is None else self._remote_sender.address

    @property
    def connection_number(self) -> int:
        """The number of the receiver's connection to this queue manager."""
        return self._session.number

    def traffic(self) -> Traffic:
        """Return the bytes that this end has sent and received, 0 for a sender of this process."""
        return NO_TRAFFIC if self._remote_sender is None else self._remote_sender.traffic()

    def put_batch(self, envelopes: Iterable[Envelope]) -> int | None:
        """Put the messages of a batch; return the ms to wait before :meth:`go_on`, or None.

        None means that all messages are put; a wait means that one put is to be repeated (MRTMR).
        :meth:`commit` commits them, except fast ones (NPMSPEED), which are visible at once. Raises
        LinkDown when this queue manager ends, and the MQError of a persistent message that can be
        put nowhere; everything that is not committed is backed out then.
        """
        with self._lock:
            self._keep(envelopes, 0)
            return self._put_all(0)

    def keep(self, envelopes: Iterable[Envelope], spent_ms: int) -> int:
        """Keep the messages of a batch until :meth:`go_on` puts them.

        ``spent_ms`` is for how long the first of them have been here already. Returns that time at
        the end of the call. Raises LinkDown when this receiver has ended.
        """
        with self._lock:
            self._check_open()
            self._keep(envelopes, spent_ms)
            return self._manager.now_ms() - self._arrived_ms

    def go_on(self, transit_ms: int) -> int | None:
        """Put the kept messages, or those that could not be put; the result is that of put_batch.

        The time on the link (``transit_ms``) and the time in this receiver are subtracted from the
        time to live of each message. Errors are those of :meth:`put_batch`.
        """
        with self._lock:
            return self._put_all(counted_transit_ms(transit_ms))

    def commit(self, luw: str, sequence: int) -> None:
        """Commit the messages, durably together with the name and sequence number of their batch.

        ``luw`` is that name, ``sequence`` the number of the last message. The messages are visible
        then. Raises LinkDown when the outcome is unknown, and the MQError of a commit that has
        failed; the receiver has then ended.
        """
        with self._lock:
            self._check_open()
            state = self.state._replace(luw=luw, sequence=sequence)
            try:
                self._manager.channel_states.commit_received(self._session, state)
            except MQError as error:
                self._end_on(error)
                raise
            self.state = state
            self.batch_count += 1

    def close(self) -> None:
        """Back out uncommitted messages, and accept no more; a second call does nothing."""
        with self._lock:
            self._end()

    def _keep(self, envelopes: Iterable[Envelope], spent_ms: int) -> None:
        """Keep messages, and note when the first of them came: ``spent_ms`` ago."""
        self._waiting = deque(envelopes)
        self._arrived_ms, self._tries = self._manager.now_ms() - spent_ms, 0

    def _put_all(self, transit_ms: int) -> int | None:
        """Put the kept messages; return None, or the wait (MRTMR, ms) before a put is repeated.

        ``transit_ms``, the time on the link, is subtracted from the time to live. A message that
        cannot be put goes to the dead-letter queue. Errors are those of :meth:`put_batch`.
        """
        self._check_open()
        while self._waiting:
            envelope = self._waiting[0]
            life_ms = self._life_ms(envelope, transit_ms)
            try:
                self._put(envelope, life_ms)
            except MQError as error:
                if error.reason in GONE:
                    self._end_on(error)
                if error.reason == rc.MQRC_SYNCPOINT_LIMIT_REACHED:
                    # MAXUMSGS was reduced. The next start negotiates a smaller batch.
                    self._end()
                    raise
                if error.reason in _PASSING and self._tries < self._definition.mrrty:
                    self._tries += 1
                    self.is_paused = True
                    return self._definition.mrtmr
                self._set_aside(envelope._replace(life_ms=life_ms), error)
            self._waiting.popleft()
            self._tries, self.is_paused = 0, False
            self.message_count += 1
            self.last_message_ms = self._manager.now_ms()
        return None

    def _life_ms(self, envelope: Envelope, transit_ms: int) -> int | None:
        """Return the remaining time to live of a message in ms, 0 if expired, None if unlimited.

        The time on the link and the time in this receiver are subtracted.
        """
        if envelope.life_ms is None:
            return None
        spent_ms = transit_ms + self._manager.now_ms() - self._arrived_ms
        return max(envelope.life_ms - spent_ms, 0)

    def _put(self, envelope: Envelope, life_ms: int | None) -> None:
        """Put a message, or send its expiration report if no time to live is left (``life_ms`` 0).

        A fast message (NPMSPEED) is not part of the unit of work of its batch. Raises the errors of
        open and put.
        """
        manager, session = self._manager, self._session
        if life_ms == 0:
            report_expiration(manager, original_of(envelope), self._session_of(envelope))
            return
        request = PutRequest(
            envelope.descriptor,
            stored_id(envelope.msg_id),
            stored_id(envelope.correl_id),
            life_ms,
            context_option=MQPMO_SET_ALL_CONTEXT,
        )
        name = full_name(envelope.queue, envelope.manager, manager.name)
        put_received(manager, session, name, envelope.body, request, in_unit=not envelope.is_fast)

    def _set_aside(self, envelope: Envelope, error: MQError) -> None:
        """Move a message that cannot be put to the dead-letter queue, or discard it.

        If neither is possible, end the receiver and raise the MQError.
        """
        refused = refused_envelope(self._manager, self._definition, envelope)
        try:
            refuse(self._manager, refused, error, self._session_of(envelope))
        except MQError:
            self._end()
            raise

    def _session_of(self, envelope: Envelope) -> Session | None:
        """Return the session whose unit of work a message is part of; None for a fast message.

        A fast message (NPMSPEED) is put at once, outside of the batch.
        """
        return None if envelope.is_fast else self._session

    def _check_open(self) -> None:
        """Raise LinkDown if this receiver has ended."""
        if not self.is_open:
            raise LinkDown(f"{self._definition.name}: this receiver has ended")

    def _end_on(self, error: MQError) -> None:
        """End the receiver after an error; raise LinkDown if the queue manager has ended.

        Any other error is not raised here: the caller raises it.
        """
        self._end()
        if error.reason in GONE:
            raise LinkDown(f"{self._manager.name} has ended: {error}") from error

    def _end(self) -> None:
        """Back out, close the session, and call ``on_end``; a second call does nothing."""
        if self.is_open:
            self.is_open = self.is_paused = False
            self._waiting.clear()
            self._session.close(commit=False)
            if self._remote_sender is not None:
                self._remote_sender.on_end()
            connection = self.address or self.opening.manager
            report_stop(self._manager, self._definition, connection, MQRQ_CHANNEL_STOPPED_OK)

"""The conversation of a message channel: its client is the sender channel of a queue manager."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.channel import (
    ClientConnection,
    Envelope,
    LinkDown,
    LocalLink,
    Opening,
    RemoteSender,
    Traffic,
)
from mayfly.channel.channels import channels_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.servers.wire.link import ClientLink, packed_answer, packed_failure
from mayfly.verbs.contracts.channels import (
    ChannelRequest,
    Confirm,
    End,
    Envelopes,
    GoOn,
    KeepBatch,
    Negotiation,
    Ping,
    PutBatch,
    ReceiverState,
    channel_request_of,
    envelope_of,
)
from mayfly.verbs.contracts.wire import WrongFrame

_LOG = logging.getLogger("mayfly.wire")
#: A sender waits for the answer to all but parts of a batch: no more of them queue up.
_LONG_QUEUE = 64


class ChannelConversation:
    """Executes the requests of one sender channel in order, each on a thread that may block.

    All other code of the class runs in the event loop of the server.
    """

    def __init__(
        self,
        link: ClientLink,
        number: int,
        manager: QueueManager,
        applicant: Applicant,
        admitted: Admitted,
    ) -> None:
        """Begin a conversation, ``number`` on its link.

        ``manager`` is the receiving queue manager. ``applicant`` is the sender that asked to
        connect, ``admitted`` what admission decided. The receiver is opened by :meth:`negotiate`.
        """
        self._link, self.number, self._manager = link, number, manager
        self._server_loop = link.server_loop
        self._applicant, self._admitted = applicant, admitted
        self._channels, self._now_ms = channels_of(manager.engine), manager.engine.now_ms
        self._connected_ms = self._now_ms()
        self._request_count = 0
        #: The link of its receiver, from NEGOTIATE on, and how many messages a batch may have.
        self._incoming: LocalLink | None = None
        self._batch_size = self._max_message_bytes = 0
        #: The messages of the next batch that have come, and the time of the first of them.
        self._envelopes: list[Envelope] = []
        self._since_ms: int | None = None
        self._kept_bytes = 0
        #: Since when the receiver has a batch that is not confirmed, None without one.
        self._batch_ms: int | None = None
        self._queued: deque[tuple[int, ChannelRequest, list[Envelope]]] = deque()
        self._is_busy = self._is_over = self._is_quiescing = False

    @property
    def queue_manager(self) -> str:
        """The name of the receiving queue manager."""
        return self._manager.name

    @property
    def connection_number(self) -> int:
        """The number of the receiver's connection to the queue manager; 0 before NEGOTIATE."""
        return 0 if self._incoming is None else self._incoming.connection_number

    @property
    def has_queue(self) -> bool:
        """True while 64 or more requests are queued; the link then reads no more."""
        return len(self._queued) >= _LONG_QUEUE

    def suspend(self) -> None:
        """Do nothing: no request of a sender waits for messages."""

    def resume(self) -> None:
        """Do nothing, because :meth:`suspend` does nothing."""

    def take(self, request: int, payload: bytes) -> None:
        """Run a request, or queue it while another one runs.

        A malformed request is answered with an error, and the part of its batch that was received
        before is dropped.
        """
        self._request_count += 1
        try:
            asked = channel_request_of(payload)
            envelopes = (
                [envelope_of(row) for row in asked.envelopes]
                if isinstance(asked, Envelopes | PutBatch | KeepBatch)
                else []
            )
        except WrongFrame as wrong:
            reason = rc.MQRC_UNEXPECTED_ERROR
            if wrong.field == "verb":
                reason = rc.MQRC_FUNCTION_NOT_SUPPORTED
            else:
                self._drop_batch()
            self._fail(request, mq_error(reason, str(wrong)))
            return
        if self._is_busy:
            self._queued.append((request, asked, envelopes))
            if self.has_queue:
                self._link.regulate()
        else:
            self._run(request, asked, envelopes)

    def status(self) -> ClientConnection:
        """Return the attributes that DISPLAY CONN shows."""
        applicant = self._applicant
        return ClientConnection(
            self.connection_number,
            self._link.number,
            self._manager.name,
            applicant.channel,
            self._admitted.user,
            applicant.address,
            applicant.application,
            applicant.has_tls,
            self._connected_ms,
            self._request_count,
            self._link.heartbeat_ms,
            *self._traffic(),
            applicant.sending_manager,
            self._batch_ms,
            is_running=self._is_busy,
        )

    def quiesce(self, _refusal: MQError) -> bool:
        """Accept no further batch; return True if no batch is open and no request runs."""
        self._is_quiescing = True
        return not (self._is_busy or self._queued or self._batch_ms is not None)

    def end(self) -> None:
        """Close the receiver, which backs out an unconfirmed batch.

        Call it on a thread that may block. Does nothing to the receiver before NEGOTIATE.
        """
        self._is_over = True
        if self._incoming is not None:
            self._channels.incoming.end(self._incoming)

    def _run(self, request: int, asked: ChannelRequest, envelopes: list[Envelope]) -> None:
        """Keep the messages of a request, then execute it on a thread that may block.

        ``envelopes`` are the messages in it. A request with only a part of a batch is answered at
        once. If a batch has too many or too long messages, the request fails and the batch is
        dropped.
        """
        if isinstance(asked, Envelopes | PutBatch | KeepBatch):
            try:
                self._add(envelopes)
            except MQError as error:
                self._drop_batch()
                self._fail(request, error)
                return
            if isinstance(asked, Envelopes):
                self._link.send(self.number, request, packed_answer(None))
                return
        self._is_busy = True
        self._server_loop.run_blocking(partial(self._blocked, request, asked))

    def _add(self, envelopes: list[Envelope]) -> None:
        """Keep the messages of a request until the rest of their batch has been received.

        Raises MQRC_Q_MGR_QUIESCING while the server ends, MQRC_MSG_TOO_BIG_FOR_CHANNEL, and
        MQRC_UNEXPECTED_ERROR for more messages than the batch size.
        """
        if self._is_quiescing and self._batch_ms is None:
            raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
        if self._since_ms is None:
            self._since_ms = self._now_ms()
        message_count = len(self._envelopes) + len(envelopes)
        if message_count > self._batch_size:
            text = f"parcels: {message_count} messages for a batch of {self._batch_size}"
            raise mq_error(rc.MQRC_UNEXPECTED_ERROR, text)
        longest = max((len(envelope.body) for envelope in envelopes), default=0)
        if longest > self._max_message_bytes:
            text = f"envelope.body: {longest} bytes; {self._max_message_bytes} were agreed on"
            raise mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, text)
        self._envelopes += envelopes
        self._keep(sum(len(envelope.body) for envelope in envelopes))

    def _keep(self, change: int) -> None:
        """Add ``change`` to the bytes counted for kept messages; it may be negative."""
        self._kept_bytes += change
        self._link.keep(change)

    def _drop_batch(self) -> None:
        """Forget the received part of a batch."""
        self._envelopes, self._since_ms = [], None

    def _blocked(self, request: int, asked: ChannelRequest) -> None:
        """Execute a request on a thread that may block, then let the event loop send the answer.

        Errors become a failure for the sender; none is raised.
        """
        try:
            payload = packed_answer(_VERBS[type(asked)](self, asked))
        except LinkDown as error:
            payload = packed_failure(mq_error(rc.MQRC_CONNECTION_BROKEN, str(error)))
        except MQError as error:
            payload = packed_failure(error)
        except Exception as error:  # noqa: BLE001 - a mistake here must not let the sender wait
            _LOG.exception("a request of channel %s has failed", self._applicant.channel)
            payload = packed_failure(mq_error(rc.MQRC_UNEXPECTED_ERROR, type(error).__name__))
        self._server_loop.call_soon(partial(self._unblock, request, payload))

    def _unblock(self, request: int, payload: bytes) -> None:
        """Send the answer of a request, and run the queued requests."""
        self._link.send(self.number, request, payload)
        self._is_busy = False
        self._count_kept()
        had_queue = self.has_queue
        while self._queued and not self._is_busy and not self._is_over:
            self._run(*self._queued.popleft())
        if had_queue:
            self._link.regulate()
        self._end_link()

    def _fail(self, request: int, error: MQError) -> None:
        """Answer the request with this number with an error, and count the kept bytes anew."""
        self._link.send(self.number, request, packed_failure(error))
        self._count_kept()

    def _count_kept(self) -> None:
        """Stop counting the bytes of the kept batch once it was put or dropped."""
        if self._kept_bytes and not self._envelopes:
            self._keep(-self._kept_bytes)

    # The end of the receiver.

    def _receiver_ended(self) -> None:
        """End the connection, because its receiver has ended; any thread may call it."""
        self._is_over = True
        self._server_loop.call_soon(self._end_link)

    def _end_link(self) -> None:
        """End the connection if its receiver has ended and no request runs."""
        # The answer to a running request is sent first: it gives the reason.
        if self._is_over and not self._is_busy:
            text = f"CHANNEL({self._applicant.channel}) has ended at {self._manager.name}"
            self._link.end(mq_error(rc.MQRC_CONNECTION_BROKEN, text))

    # The verbs.

    def negotiate(self, asked: Negotiation) -> ReceiverState:
        """Open the receiver, and return its state and limits, such as the batch size.

        Raises LinkDown, or the MQError with which the receiver refuses the sender. A second call
        raises MQRC_UNEXPECTED_ERROR.
        """
        if self._incoming is not None:
            raise mq_error(rc.MQRC_UNEXPECTED_ERROR, "negotiate: this channel has begun")
        applicant, admitted = self._applicant, self._admitted
        remote_sender = RemoteSender(
            applicant.address,
            None if admitted.is_operator else admitted.user,
            admitted.groups,
            self._traffic,
            self._receiver_ended,
        )
        opening = Opening(
            applicant.channel,
            applicant.sending_manager,
            asked.sequence,
            asked.batch_size,
            self._server_loop.budget.longest(asked.max_message_bytes),
            asked.is_reset,
            asked.heartbeat_s,
            asked.instance_id,
        )
        try:
            self._incoming, state = self._channels.incoming.begin(opening, remote_sender)
        except (MQError, LinkDown) as error:
            names = applicant.channel, applicant.sending_manager
            _LOG.warning("AMQ9503E: channel %s of %s is refused: %s", *names, error)
            raise
        self._batch_size = state.batch_size
        self._max_message_bytes = state.max_message_bytes
        return state

    def put_batch(self, batch: PutBatch | KeepBatch) -> int | None:
        """Put the messages of a complete batch; :meth:`confirm` commits them.

        Nonpersistent fast messages are not part of the batch and are visible at once. Return None
        if all are put, otherwise the ms to wait before GO_ON, which puts the rest. Raises LinkDown
        if messages of the batch are missing, and the MQError of a persistent message that can be
        put nowhere.
        """
        envelopes, _since_ms = self._complete_batch(batch)
        return self._begun().send(envelopes)

    def keep_batch(self, batch: PutBatch | KeepBatch) -> int:
        """Keep the messages of a complete batch for GO_ON.

        Return the ms since its first message came. Raises LinkDown if messages of the batch are
        missing.
        """
        envelopes, since_ms = self._complete_batch(batch)
        return self._begun().send_to_keep(envelopes, self._now_ms() - since_ms)

    def go_on(self, asked: GoOn) -> int | None:
        """Put a kept batch, or the messages that could not be put before.

        ``asked`` has the time on the link, which is subtracted from their time to live. Returns the
        ms to wait before the next GO_ON, or None if all messages are put.
        """
        return self._begun().go_on(asked.transit_ms)

    def confirm(self, asked: Confirm) -> None:
        """Commit the batch, durably together with its name (luw) and sequence number.

        Raises LinkDown if the outcome is unknown, and the MQError of a commit that has failed.
        """
        self._begun().confirm(asked.luw, asked.sequence)
        self._batch_ms = None

    def ping(self, _asked: object) -> None:
        """Raise the MQError that would refuse this channel; also note that the sender is alive."""
        channel = self._applicant.channel
        if self._incoming is None:
            self._channels.check_receiver(channel)
        else:
            self._incoming.ping(channel)

    def _traffic(self) -> Traffic:
        """Return the bytes sent and received on the socket."""
        return Traffic(self._link.sent_bytes, self._link.received_bytes)

    def _complete_batch(self, batch: PutBatch | KeepBatch) -> tuple[list[Envelope], int]:
        """Return the messages kept for a batch, and the epoch ms at which the first came.

        No message stays kept. Raises LinkDown if messages are missing.
        """
        envelopes, since_ms = self._envelopes, self._since_ms
        self._drop_batch()
        if len(envelopes) != batch.message_count or since_ms is None:
            raise LinkDown(f"{len(envelopes)} of {batch.message_count} messages have come")
        if not all(envelope.is_fast for envelope in envelopes):
            # Fast messages are not confirmed.
            self._batch_ms = self._now_ms()
        return envelopes, since_ms

    def _begun(self) -> LocalLink:
        """Return the link to the receiver; raises MQRC_UNEXPECTED_ERROR before NEGOTIATE."""
        if self._incoming is None:
            raise mq_error(rc.MQRC_UNEXPECTED_ERROR, "this channel has not begun: negotiate first")
        return self._incoming


_VERBS: dict[type[ChannelRequest], Callable[[ChannelConversation, Any], Any]] = {
    Negotiation: ChannelConversation.negotiate,
    PutBatch: ChannelConversation.put_batch,
    KeepBatch: ChannelConversation.keep_batch,
    GoOn: ChannelConversation.go_on,
    Confirm: ChannelConversation.confirm,
    Ping: ChannelConversation.ping,
    End: lambda conversation, _asked: conversation.end(),
}

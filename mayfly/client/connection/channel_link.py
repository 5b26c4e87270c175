"""The connection of a sender channel to a queue manager of another process (docs/WIRE.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mayfly.channel import ChannelDefinition, LinkDown, Traffic
from mayfly.client.connection.endpoint import UNREACHABLE, Address, Endpoint, Tls, addresses_of
from mayfly.client.connection.remote_link import (
    CONNECT_SECONDS,
    RemoteLink,
    Stream,
    answer_of,
    open_stream,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.transmission import silence_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Runtime
from mayfly.verbs.contracts.access import (
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    ROOTS_VARIABLE,
    TOKEN_VARIABLE,
    TokenMissing,
    read_token,
)
from mayfly.verbs.contracts.channels import (
    VERSION,
    ChannelRequest,
    Confirm,
    End,
    Envelope,
    Envelopes,
    GoOn,
    Introduction,
    KeepBatch,
    Negotiation,
    Opening,
    Ping,
    PutBatch,
    ReceiverState,
    Welcome,
    parts,
    row_of_envelope,
)
from mayfly.verbs.contracts.wire import HEAD_BYTES, packed

#: The one conversation of a connection.
_CONVERSATION = 1
#: How long a close waits for the partner, which otherwise notices the lost connection.
_END_SECONDS = 5.0
#: The approximate size of a frame of messages, unless a single message is longer.
_FRAME_BYTES = 1_048_576
#: With these the partner cannot be reached, or has not answered.
_DOWN = UNREACHABLE | {rc.MQRC_HCONN_ERROR}


class ChannelLink:
    """The connection of a sender channel to its remote receiver: a ``channel.ReceiverLink``.

    After an error that another attempt may avoid, each call raises LinkDown, otherwise MQError.
    """

    def __init__(self, definition: ChannelDefinition, manager: str, runtime: Runtime) -> None:
        """Connect to the first address of CONNAME that answers, for the queue manager ``manager``.

        Raises LinkDown when none answers, MQRC_NOT_AUTHORIZED for a token file that cannot be read,
        and the reason code with which the server refuses the channel.
        """
        silent_ms = silence_ms(definition.hbint)
        #: How long a server may take to let the channel in: signs of life come from then on.
        self._admission_seconds = CONNECT_SECONDS
        if silent_ms is not None:
            self._admission_seconds = min(CONNECT_SECONDS, silent_ms / SECOND_MS)
        #: Held by the call under way; a close meanwhile cuts that call off.
        self._calling = runtime.lock("channel link")
        self._is_open, self._has_begun = True, False
        self._max_bytes = 0
        introduction = Introduction(
            VERSION,
            definition.name,
            definition.qmname,
            manager,
            _token_of(definition),
            definition.hbint * SECOND_MS,
        )
        self._link, self._stream = self._first_that_answers(definition, introduction, runtime)

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Tell the receiver the sender's state ``opening``; return its state and the agreed limits.

        Raises LinkDown without an answer, or the MQError by which the receiver refuses.
        """
        state: ReceiverState = self._ask(
            Negotiation(
                opening.sequence,
                opening.batch_size,
                opening.max_message_bytes,
                opening.is_reset,
                opening.heartbeat_s,
                opening.instance_id,
            )
        )
        self._has_begun = True
        self._max_bytes = min(_FRAME_BYTES, state.max_message_bytes + HEAD_BYTES // 2)
        return state

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        """Send a batch that the receiver puts; return the ms to wait before :meth:`go_on`, or None.

        ``envelopes`` are the messages of the batch, each with its target queue. None means that all
        messages are put. A wait means that a put has failed, and :meth:`go_on` repeats it after
        these ms. :meth:`confirm` commits the messages, except nonpersistent fast ones, which are
        visible at once. Raises LinkDown or MQError.
        """
        wait_ms: int | None = self._upload(PutBatch, envelopes)
        return wait_ms

    def send_to_keep(self, envelopes: Sequence[Envelope]) -> int:
        """Send a batch that the receiver keeps, without putting its messages, until :meth:`go_on`.

        Returns for how many ms, at the end of the call, the receiver has had the batch. Raises
        LinkDown or MQError.
        """
        had_ms: int = self._upload(KeepBatch, envelopes)
        return had_ms

    def go_on(self, transit_ms: int) -> int | None:
        """Let the receiver put the kept batch, or repeat a failed put.

        Returns the ms to wait before the next call, or None when all messages are put.
        ``transit_ms`` is how long the batch was on the link. Raises LinkDown or MQError.
        """
        wait_ms: int | None = self._ask(GoOn(transit_ms))
        return wait_ms

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the batch at the receiver, and wait for the answer.

        ``luw`` is the name of the batch, ``sequence`` the number of its last message. After
        LinkDown nobody knows whether the batch is committed; :meth:`negotiate` on the next link
        tells.
        """
        self._ask(Confirm(luw, sequence))

    def ping(self, channel: str) -> None:
        """Check that the receiver accepts; return nothing.

        Raises LinkDown without an answer, or the MQError by which the receiver refuses.
        """
        self._ask(Ping())

    def traffic(self) -> Traffic:
        """Return the bytes sent and received on this connection."""
        return Traffic(self._stream.sent_bytes, self._stream.received_bytes)

    def close(self) -> None:
        """Close the connection; the receiver is informed if it answers within 5 seconds.

        A call of another thread that is waiting for its answer fails. A second call does nothing.
        """
        was_open, self._is_open = self._is_open, False
        if was_open and self._calling.acquire(blocking=False):
            try:
                if self._has_begun and not self._link.is_over:
                    self._send_end()
            finally:
                self._calling.release()
        self._link.close()

    def _send_end(self) -> None:
        """Tell the receiver that the sender ends; give up after 5 seconds or without a partner."""
        self._stream.limit(_END_SECONDS)
        try:
            _call(self._link, End())
        except MQError:
            # The partner is gone, or does not answer: it will miss the connection.
            return

    def _first_that_answers(
        self, definition: ChannelDefinition, introduction: Introduction, runtime: Runtime
    ) -> tuple[RemoteLink, _CountedStream]:
        """Connect to the addresses of CONNAME in order; return the link and stream of the first.

        ``introduction`` is the first request: it names the channel and both queue managers. Raises
        LinkDown when none answers, or the MQError of a server that refuses the channel.
        """
        tls, failures = _tls_of(definition), []
        for address in addresses_of(definition.conname):
            endpoint = Endpoint((address,), definition.name, definition.qmname, tls)
            try:
                return self._connected(endpoint, address, introduction, runtime)
            except MQError as error:
                failure = _failed(error)
                if not isinstance(failure, LinkDown):
                    raise failure from error
                failures.append(str(failure))
        raise LinkDown("; ".join(failures))

    def _connected(
        self, endpoint: Endpoint, address: Address, introduction: Introduction, runtime: Runtime
    ) -> tuple[RemoteLink, _CountedStream]:
        """Connect to one address, introduce the channel, and return the link and its stream.

        ``introduction`` is the first request: it names the channel and both queue managers. Raises
        MQError when no server answers or the server refuses the channel.
        """
        stream = _CountedStream(open_stream(endpoint, address, runtime))
        stream.limit(self._admission_seconds)
        link = RemoteLink(stream, address, runtime)
        try:
            welcome: Welcome = _call(link, introduction)
        except MQError as error:
            link.close()
            raise _explained(error, address, introduction) from error
        except BaseException:
            link.close()
            raise
        stream.limit(None)
        link.admit(welcome.heartbeat_ms)
        return link, stream

    def _upload(self, kind: type[PutBatch | KeepBatch], envelopes: Sequence[Envelope]) -> Any:
        """Send a batch in frames of limited size; return the answer of the last request.

        ``kind`` says whether the receiver puts or keeps the batch of messages ``envelopes``. Raises
        LinkDown for an error that another attempt may avoid, otherwise MQError.
        """
        *parts_before, rest = parts(envelopes, self._max_bytes)
        if kind is KeepBatch and not parts_before:
            # The receiver counts the time from here on: the batch may take long to come in.
            parts_before = [[]]
        with self._calling:
            self._check_open()
            try:
                posted = [
                    self._link.post(
                        _CONVERSATION, _packed(Envelopes([row_of_envelope(each) for each in part]))
                    )
                    for part in parts_before
                ]
                try:
                    return _call(
                        self._link, kind(len(envelopes), [row_of_envelope(each) for each in rest])
                    )
                finally:
                    # A part that was refused says more than a batch of which a part is missing.
                    for request in posted:
                        self._link.read_until(request)
                        answer_of(request.payload, Envelopes.ANSWER)
            except MQError as error:
                raise _failed(error) from error

    def _ask(self, request: ChannelRequest) -> Any:
        """Send a request, wait for its answer and return it; raises LinkDown or MQError."""
        with self._calling:
            self._check_open()
            try:
                return _call(self._link, request)
            except MQError as error:
                raise _failed(error) from error

    def _check_open(self) -> None:
        """Raise LinkDown if the link is closed."""
        if not self._is_open:
            raise LinkDown("the link is closed")


class _CountedStream:
    """A stream that counts sent and received bytes; one thread sends while another receives."""

    def __init__(self, stream: Stream) -> None:
        """Count the bytes of ``stream`` from now on."""
        self._stream = stream
        self.sent_bytes = self.received_bytes = 0
        self.limit, self.abort, self.close = stream.limit, stream.abort, stream.close

    def send(self, data: bytes) -> None:
        """Send all bytes and count them; raises OSError."""
        self._stream.send(data)
        self.sent_bytes += len(data)

    def receive(self) -> bytes:
        """Wait for bytes, count and return them; empty at the end of the stream. Raises OSError."""
        data = self._stream.receive()
        self.received_bytes += len(data)
        return data

    def receive_now(self) -> bytes | None:
        """Return received bytes without waiting: None when there are none, empty at the end."""
        data = self._stream.receive_now()
        if data is not None:
            self.received_bytes += len(data)
        return data


def _call(link: RemoteLink, request: ChannelRequest) -> Any:
    """Send a request of the channel, wait for its answer and return it; raises MQError."""
    return link.call(_CONVERSATION, _packed(request), request.ANSWER)


def _packed(request: ChannelRequest) -> bytes:
    """Return the encoded request; raises MQRC_UNEXPECTED_ERROR if a value cannot be encoded."""
    try:
        return packed(request)
    except ValueError as error:
        raise mq_error(rc.MQRC_UNEXPECTED_ERROR, f"{type(request).__name__}: {error}") from None


def _token_of(definition: ChannelDefinition) -> str:
    """Return the token with which the channel identifies itself, from its file or the environment.

    Empty if neither is set: a client certificate may be enough. Raises MQRC_NOT_AUTHORIZED for a
    token file that cannot be read.
    """
    if not definition.tokenfile and not os.environ.get(TOKEN_VARIABLE, "").strip():
        return ""
    try:
        return read_token(definition.tokenfile or None)
    except TokenMissing as error:
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, str(error)) from error


def _tls_of(definition: ChannelDefinition) -> Tls | None:
    """Return the TLS settings of a channel definition and its environment, None without SSLCIPH."""
    if not definition.sslciph:
        return None
    roots, certificate, key = (
        Path(named) if (named := os.environ.get(variable, "")) else None
        for variable in (ROOTS_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)
    )
    return Tls(definition.sslciph, roots, certificate, definition.sslpeer, key)


def _failed(error: MQError) -> LinkDown | MQError:
    """Return a LinkDown for an error that another address or attempt may avoid.

    Returns any other error unchanged.
    """
    return LinkDown(error.detail or str(error)) if error.reason in _DOWN else error


def _explained(error: MQError, address: Address, introduction: Introduction) -> MQError:
    """Return the error of a refused channel with a text, as the server sends only a code.

    The text names the address and, from ``introduction`` (the refused request), channel or queue
    manager.
    """
    if error.reason == rc.MQRC_Q_MGR_NAME_ERROR:
        wanted = f"no queue manager {introduction.queue_manager!r} is served at {address}"
        if not introduction.queue_manager:
            wanted = f"{address} serves several queue managers, or none: QMNAME says which"
        return mq_error(error.reason, wanted)
    if error.reason == rc.MQRC_HCONN_ERROR:
        return mq_error(error.reason, f"{address} is served by a Mayfly that takes no channels")
    if error.detail:
        return error
    return mq_error(
        error.reason, f"{address} refuses channel {introduction.channel}: its log says why"
    )

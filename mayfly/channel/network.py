"""A link to a queue manager that another process serves: its calls travel over Arrow Flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from mayfly.bulk.channels import ChannelClient
from mayfly.bulk.client import DEFAULT_PORT
from mayfly.bulk.errors import (
    BulkError,
    NoCertificate,
    NoRoots,
    NoToken,
    ServerNotReachable,
    WrongToken,
)
from mayfly.channel.addresses import Address, addresses_of
from mayfly.channel.links import LinkDown, Parcel
from mayfly.contracts import channels as wire
from mayfly.contracts.channels import Opening, ReceiverState
from mayfly.contracts.requests import PROTOCOL
from mayfly.engine.face.transit import ChannelDefinition
from mayfly.lifetime.transmission import silence_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import pack_descriptor
from mayfly.mqi.errors import MQError, mq_error

_MS_PER_S = 1_000
#: How long an end is told; a partner that does not hear of it finds out by itself.
_END_SECONDS = 5.0


class NetworkLink:
    """One sender's connection to a receiver elsewhere."""

    def __init__(self, definition: ChannelDefinition) -> None:
        """Connect to the first address of CONNAME that answers.

        Raises LinkDown, and MQRC_NOT_AUTHORIZED without the token that is asked for there.
        """
        # The first list that Arrow converts may load pandas: not while messages are on their way.
        pa.array([None])
        silent_ms = silence_ms(definition.hbint)
        self._timeout_s = None if silent_ms is None else silent_ms / _MS_PER_S
        #: Held by the call under way; a close meanwhile leaves the clean-up to that call.
        self._calling = threading.Lock()
        self._is_open = True
        self._id = ""
        self._client = self._first_that_answers(definition)

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Begin to send."""
        said = {PROTOCOL: wire.VERSION, wire.OPENING: list(opening)}
        answer = self._ask(wire.BEGIN, **said)
        self._id = answer.pop(wire.LINK)
        return ReceiverState(**answer)

    def send(self, parcels: Sequence[Parcel]) -> int | None:
        """Put a batch."""
        wait_ms: int | None = self._upload(parcels, is_kept=False)
        return wait_ms

    def hand_over(self, parcels: Sequence[Parcel]) -> int:
        """Bring a batch there, where it is kept."""
        had_ms: int = self._upload(parcels, is_kept=True)
        return had_ms

    def go_on(self, transit_ms: int) -> int | None:
        """Put what is kept, or could not be put."""
        wait_ms: int | None = self._ask(wire.GO_ON, link=self._id, transit_ms=transit_ms)
        return wait_ms

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the batch."""
        self._ask(wire.CONFIRM, link=self._id, luw=luw, sequence=sequence)

    def ping(self, channel: str) -> None:
        """Find out whether the receiver of a channel answers, which hears that its sender lives."""
        self._ask(wire.PING, link=self._id, channel=channel)

    def close(self) -> None:
        """End; a receiver that cannot be told ends when it has heard nothing for too long."""
        link, self._id = self._id, ""
        self._is_open = False
        if link:
            with suppress(BulkError):
                self._client.ask(wire.END, {wire.LINK: link}, timeout_s=_END_SECONDS)
        if self._calling.acquire(blocking=False):
            self._client.close()
            self._calling.release()

    def _first_that_answers(self, definition: ChannelDefinition) -> ChannelClient:
        failures = []
        for address in addresses_of(definition.conname):
            client = _connected(address, definition)
            hello = {wire.LINK: "", "channel": definition.name}
            try:
                client.ask(wire.PING, hello, timeout_s=self._timeout_s)
            except ServerNotReachable as error:
                failures.append(error.text)
                client.close()
            except BulkError as error:
                client.close()
                raise _failed(error) from error
            else:
                return client
        raise LinkDown("; ".join(failures))

    def _upload(self, parcels: Sequence[Parcel], *, is_kept: bool) -> Any:
        packed = [_packed(parcel) for parcel in parcels]
        request = {wire.LINK: self._id, "is_kept": is_kept}
        return self._answer(lambda: self._client.send(packed, request, timeout_s=self._timeout_s))

    def _ask(self, verb: str, **request: Any) -> Any:
        return self._answer(lambda: self._client.ask(verb, request, timeout_s=self._timeout_s))

    def _answer(self, call: Callable[[], dict[str, Any]]) -> Any:
        """Return what a call is answered by; raises what the receiver says, else LinkDown."""
        with self._calling:
            if not self._is_open:
                raise LinkDown("the link is closed")
            try:
                answer = call()
            except BulkError as error:
                raise _failed(error) from error
            except pa.ArrowException as error:
                # A stream that breaks off in its midst is not always an error of Flight's.
                raise LinkDown(str(error)) from error
        if wire.DOWN in answer:
            raise LinkDown(answer[wire.DOWN])
        if wire.REFUSED in answer:
            raise mq_error(answer[wire.REFUSED], answer[wire.TEXT])
        return answer[wire.ANSWER]


def _connected(address: Address, definition: ChannelDefinition) -> ChannelClient:
    """Return a client, which connects when it is used first."""
    scheme = "grpc+tls" if definition.sslciph else "grpc"
    port = DEFAULT_PORT if address.port is None else address.port
    url = f"{scheme}://{address.host}:{port}"
    token_file = definition.tokenfile or None
    manager = definition.qmname or None
    try:
        return ChannelClient(url, token_file=token_file, manager=manager)
    except BulkError as error:
        raise _failed(error) from error
    except ValueError as error:
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, str(error)) from error


def _failed(error: BulkError) -> LinkDown | MQError:
    if isinstance(error, WrongToken | NoToken | NoRoots | NoCertificate):
        return mq_error(rc.MQRC_NOT_AUTHORIZED, error.text)
    return LinkDown(error.text)


def _packed(parcel: Parcel) -> wire.PackedParcel:
    values = parcel._asdict()
    return wire.PackedParcel(**{**values, "descriptor": pack_descriptor(parcel.descriptor)})

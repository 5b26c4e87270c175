"""The verbs of a remote connection that end with a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from operator import index
from typing import TypeVar

from mayfly.connection.interface import OnDone, OnRefused, UnderWay
from mayfly.connection.local_puts import PutTarget
from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.remote_put_frames import ToldPuts
from mayfly.connection.remote_puts import UnansweredPuts
from mayfly.connection.values import (
    Delivery,
    GetResult,
    Message,
    Property,
    PutResult,
    Settlement,
    token_of,
)
from mayfly.contracts.wire_fields import packed_descriptor, packed_numbers
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.rows import delivery_of, message_of, put_of, result_of, rows_of_properties

_T = TypeVar("_T")
_R = TypeVar("_R")


class _Begun:
    """A verb that waits for a message."""

    def __init__(self, conversation: Conversation, request: int) -> None:
        self._conversation, self._request = conversation, request

    def stands(self) -> bool:
        """Return False when it is answered, although the callback may not have been told yet."""
        self._conversation.turn()
        return self._conversation.link.awaits(self._request)

    def cancel(self) -> bool:
        """End it without effect: True, and the callback is never called."""
        conversation = self._conversation
        try:
            is_cancelled = conversation.call(ask.Cancel(self._request))
        except MQError:
            # The connection is gone, and the callback is told so.
            return False
        if is_cancelled:
            conversation.link.forget(self._request)
        return is_cancelled


class _Decided:
    """A verb that cannot be taken back any more."""

    def stands(self) -> bool:
        """Return False."""
        return False

    def cancel(self) -> bool:
        """Return False: the callback tells how it ends."""
        return False


_DECIDED = _Decided()


class RemoteCalls:
    """See ``interface.Asynchronous``, whose methods these are."""

    def __init__(self, conversation: Conversation, puts: UnansweredPuts) -> None:
        """Ask over a conversation."""
        self._conversation, self._puts = conversation, puts
        self._told_puts = ToldPuts(conversation)

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        wait_ms: int = c.MQWI_UNLIMITED,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
    ) -> UnderWay:
        """MQGET of a message that is held until it is settled."""
        return self.get_any(
            [handle],
            options,
            on_done=on_done,
            wait_ms=wait_ms,
            max_length=max_length,
            msg_id=msg_id,
            correl_id=correl_id,
        )

    def fetch(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[GetResult],
        wait_ms: int = 0,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        group_id: bytes = b"",
        sequence_number: int | None = None,
        offset: int | None = None,
        token: bytes | None = None,
        in_handle: bool = False,
        with_extension: bool = False,
    ) -> UnderWay:
        """MQGET for good, or into the unit of work."""
        request = ask.Get(
            index(handle),
            options,
            wait_ms,
            max_length,
            msg_id,
            correl_id,
            group_id,
            sequence_number,
            offset,
            token,
            in_handle,
            with_extension,
        )
        return self._begin(request, result_of, on_done)

    def get_any(
        self,
        handles: Iterable[int],
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        wait_ms: int = c.MQWI_UNLIMITED,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        on_refused: OnRefused | None = None,
    ) -> UnderWay:
        """MQGET of the first message that comes to one of several queues."""
        numbers = packed_numbers(map(index, handles))
        tells_refusals = on_refused is not None
        request = ask.GetAny(
            numbers, options, wait_ms, max_length, msg_id, correl_id, tells_refusals
        )
        return self._begin(request, delivery_of, on_done, on_met=on_refused)

    def wait_until(self, moment_ms: int | None, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until the queue manager's time is a moment."""
        return self._begin(ask.WaitUntil(moment_ms), _nothing, on_done)

    def await_definitions(self, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until a definition is made, altered or deleted."""
        return self._begin(ask.AwaitDefinitions(), _nothing, on_done)

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        on_done: OnDone[PutResult | None],
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
    ) -> UnderWay:
        """MQPUT to a queue or a topic."""
        try:
            self._puts.check_length(body)
            rows = rows_of_properties(properties) if properties else []
        except MQError as error:
            return self._tell(on_done, error)
        if self._told_puts.are_together:
            target = PutTarget(index(handle), descriptor, options, index(context))
            try:
                message = ask.NewMessageRow(
                    body, msg_id, correl_id, expiry_tenths, time_to_live_ms, delay_ms, rows
                )
                self._told_puts.put(target, message, on_done)
            except MQError as error:
                return self._tell(on_done, error)
            return _DECIDED
        request = ask.Put(
            index(handle),
            body,
            packed_descriptor(descriptor),
            options,
            msg_id,
            correl_id,
            expiry_tenths,
            time_to_live_ms,
            delay_ms,
            rows,
            index(context),
        )
        self._begin(request, put_of, on_done)
        return _DECIDED

    def together(self) -> AbstractContextManager[object]:
        """Let puts travel together."""
        return self._told_puts.together()

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """MQCMIT."""
        self._begin(ask.Commit(), _nothing, on_done)
        return _DECIDED

    def settle(
        self,
        deliveries: Iterable[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        within: int = 0,
        on_done: OnDone[None] | None = None,
    ) -> UnderWay:
        """Settle deliveries."""
        request = ask.Settle(packed_numbers(deliveries), settlement, reason, within)
        if on_done is None:
            self._conversation.call(request)
        else:
            self._begin(request, _nothing, on_done)
        return _DECIDED

    def _begin(
        self,
        request: ask.Request[_R],
        of_row: Callable[[_R], _T],
        on_done: OnDone[_T],
        *,
        on_met: OnRefused | None = None,
    ) -> UnderWay:
        def tell(answer: _R | MQError) -> None:
            on_done(answer if isinstance(answer, MQError) else of_row(answer))

        try:
            number = self._conversation.begin(request, tell, on_met=on_met)
        except MQError as error:
            return self._tell(on_done, error)
        return _Begun(self._conversation, number)

    def _tell(self, on_done: OnDone[_T], error: MQError) -> UnderWay:
        self._conversation.link.tell(lambda _payload: on_done(error))
        return _DECIDED


class RemoteHeld:
    """See ``interface.Held``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._conversation = conversation

    def get(
        self, handle: int, options: int = c.MQGMO_NONE, *, wait_ms: int = c.MQWI_UNLIMITED
    ) -> Delivery:
        """Get a message that is held until it is settled."""
        request = ask.GetAny(packed_numbers([index(handle)]), options, wait_ms)
        return delivery_of(self._conversation.call(request))

    def take(self, handle: int, options: int, most: int, most_bytes: int) -> list[Delivery]:
        """Get one message that is there."""
        if options & c.MQGMO_WAIT:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of what is held")
        if most < 1 or most_bytes < 1:
            return []
        try:
            return [self.get(handle, options, wait_ms=0)]
        except MQError as error:
            if error.reason == rc.MQRC_NO_MSG_AVAILABLE:
                return []
            raise


class RemoteMany:
    """See ``onward.Many``, whose method this is."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    def get(self, handle: int, options: int, most: int, most_bytes: int) -> list[Message]:
        """Get messages that are there."""
        rows = self._call(ask.GetMany(index(handle), options, most, most_bytes))
        return [message_of(row) for row in rows]


class RemoteOnward:
    """See ``interface.Onward``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    def forward(self, message: Message, name: str) -> None:
        """Put it on another queue as it is."""
        self._call(ask.Forward(message.queue, token_of(message), name))

    def move(
        self,
        handle: int,
        name: str,
        *,
        descriptor: Descriptor | None = None,
        header_bytes: int = 0,
        putter: str | None = None,
    ) -> int:
        """Move the message under a browse cursor to another queue."""
        packed = None if descriptor is None else packed_descriptor(descriptor)
        return self._call(ask.Move(index(handle), name, packed, header_bytes, putter))

    def reply(
        self,
        name: str,
        manager: str,
        body: bytes,
        descriptor: Descriptor,
        *,
        putter: str,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        time_to_live_ms: int | None = None,
    ) -> int:
        """Put a reply."""
        packed = packed_descriptor(descriptor)
        return self._call(
            ask.Reply(name, manager, body, packed, putter, msg_id, correl_id, time_to_live_ms)
        )

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        self._call(ask.DeadLetter(message.queue, token_of(message), reason))

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        return self._call(ask.ReportException(message.queue, token_of(message), reason))


def _nothing(_answer: object) -> None:
    """Tell that it is done."""

"""The verbs of a remote connection that end with a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from operator import index
from typing import Any, TypeVar

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
from mayfly.connection.wire_values import (
    delivery_of_row,
    message_of_row,
    put_of_row,
    result_of_row,
    rows_of_properties,
)
from mayfly.contracts.wire_fields import packed_numbers
from mayfly.contracts.wire_rows import packed_descriptor
from mayfly.contracts.wire_verbs import Verb
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage, mq_error

_T = TypeVar("_T")


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
            is_cancelled: bool = conversation.call(Verb.CANCEL, [self._request])
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
        asked = [index(handle), options, wait_ms, max_length, msg_id, correl_id]
        asked += [group_id, sequence_number, offset, token, in_handle, with_extension]
        return self._begin(Verb.GET, asked, result_of_row, on_done, is_doubtful=True)

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
        asked = [numbers, options, wait_ms, max_length, msg_id, correl_id, tells_refusals]
        return self._begin(Verb.GET_ANY, asked, delivery_of_row, on_done, on_met=on_refused)

    def wait_until(self, moment_ms: int | None, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until the queue manager's time is a moment."""
        return self._begin(Verb.WAIT_UNTIL, [moment_ms], _nothing, on_done)

    def await_definitions(self, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until a definition is made, altered or deleted."""
        return self._begin(Verb.AWAIT_DEFINITIONS, [], _nothing, on_done)

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
        except MQError as error:
            return self._tell(on_done, error)
        said = msg_id, correl_id, expiry_tenths, time_to_live_ms, delay_ms
        rows = rows_of_properties(properties) if properties else []
        if self._told_puts.are_together:
            target = PutTarget(index(handle), descriptor, options, index(context))
            try:
                self._told_puts.put(target, [body, *said, rows], on_done)
            except MQError as error:
                return self._tell(on_done, error)
            return _DECIDED
        asked = [index(handle), body, packed_descriptor(descriptor), options, *said, rows]
        asked.append(index(context))
        self._begin(Verb.PUT, asked, put_of_row, on_done, is_doubtful=True)
        return _DECIDED

    def together(self) -> AbstractContextManager[object]:
        """Let puts travel together."""
        return self._told_puts.together()

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """MQCMIT."""
        self._begin(Verb.COMMIT, [], _nothing, on_done, is_doubtful=True)
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
        asked = [packed_numbers(deliveries), settlement.value, reason, within]
        if on_done is None:
            self._conversation.call(Verb.SETTLE, asked, is_doubtful=True)
        else:
            self._begin(Verb.SETTLE, asked, _nothing, on_done, is_doubtful=True)
        return _DECIDED

    def _begin(
        self,
        verb: Verb,
        asked: list[Any],
        of_row: Callable[[Any], _T],
        on_done: OnDone[_T],
        *,
        is_doubtful: bool = False,
        on_met: OnRefused | None = None,
    ) -> UnderWay:
        def tell(answer: Any) -> None:
            on_done(answer if isinstance(answer, MQError) else of_row(answer))

        try:
            request = self._conversation.begin(
                verb, asked, tell, is_doubtful=is_doubtful, on_met=on_met
            )
        except MQError as error:
            return self._tell(on_done, error)
        return _Begun(self._conversation, request)

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
        numbers = packed_numbers([index(handle)])
        asked = [numbers, options, wait_ms, None, b"", b"", False]
        return delivery_of_row(self._conversation.call(Verb.GET_ANY, asked))

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
        is_doubtful = not options & c.MQGMO_SYNCPOINT
        try:
            asked = [index(handle), options, most, most_bytes]
            rows = self._call(Verb.GET_MANY, asked, is_doubtful=is_doubtful)
        except MQError as error:
            if error.reason != rc.MQRC_FUNCTION_NOT_SUPPORTED:
                raise
            return self._one_of_an_older_server(index(handle), options)
        return [message_of_row(row) for row in rows]

    def _one_of_an_older_server(self, handle: int, options: int) -> list[Message]:
        asked = [handle, options, 0, None, b"", b"", b"", None, None, None, False, False]
        is_doubtful = not options & c.MQGMO_SYNCPOINT
        try:
            row = self._call(Verb.GET, asked, is_doubtful=is_doubtful)
        except NoMessage:
            return []
        return [result_of_row(row).message]


class RemoteOnward:
    """See ``interface.Onward``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    def forward(self, message: Message, name: str) -> None:
        """Put it on another queue as it is."""
        self._call(Verb.FORWARD, [message.queue, token_of(message), name])

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
        asked = [index(handle), name, packed, header_bytes, putter]
        arrival_number: int = self._call(Verb.MOVE, asked)
        return arrival_number

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
        asked = [name, manager, body, packed_descriptor(descriptor), putter]
        reason: int = self._call(Verb.REPLY, [*asked, msg_id, correl_id, time_to_live_ms])
        return reason

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        self._call(Verb.DEAD_LETTER, [message.queue, token_of(message), reason])

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        asked = [message.queue, token_of(message), reason]
        is_sent: bool = self._call(Verb.REPORT_EXCEPTION, asked)
        return is_sent


def _nothing(_answer: object) -> None:
    """Tell that it is done."""
